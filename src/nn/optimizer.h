/*
 * optimizer.h - the internals of an optimizer, for saving and restoring it.
 *
 * An optimizer is a type ("adamw", "sgd"), hyperparameters, a step count, and per parameter a few
 * state tensors of its shape. Parameter i is ig_module_param(ig_optimizer_module(opt), i).
 */
#ifndef IG_NN_OPTIMIZER_H
#define IG_NN_OPTIMIZER_H

#include "ingot/nn.h"

enum { IG_HYPER_MAX = 5 }; /* no optimizer has more hyperparameters */

const char *ig_optimizer_kind(const ig_optimizer *opt); /* "adamw" or "sgd" */
ig_module *ig_optimizer_module(const ig_optimizer *opt);

/* The number of parameters when the optimizer was created; the module must still have as many. */
size_t ig_optimizer_param_count(const ig_optimizer *opt);

/*
 * State tensors per parameter: "mean" and "variance" for adamw; "momentum", or none without
 * momentum, for sgd. They exist from the start, as zeros, and ig_tensor_write() may overwrite them
 * between steps. Names and tensors are borrowed.
 */
size_t ig_optimizer_state_count(const ig_optimizer *opt);
const char *ig_optimizer_state_name(const ig_optimizer *opt, size_t state);

/*
 * Hyperparameters by index: "rate", "beta1", "beta2", "eps", "decay" for adamw; "rate", "momentum",
 * "decay", "nesterov" (1 or 0) for sgd. Defaults are filled in: zero means zero.
 */
size_t ig_optimizer_hparam_count(const ig_optimizer *opt);
const char *ig_optimizer_hparam_name(const ig_optimizer *opt, size_t i);
double ig_optimizer_hparam(const ig_optimizer *opt, size_t i);

/*
 * Sets all ig_optimizer_hparam_count() values, or none. Fails with name and value if one is out of
 * range, or if momentum needs state tensors that the optimizer was not created with (or the
 * reverse). If check succeeds, set succeeds.
 */
IG_MUST_CHECK ig_status ig_optimizer_check_hparams(const ig_optimizer *opt, const double *values);
IG_MUST_CHECK ig_status ig_optimizer_set_hparams(ig_optimizer *opt, const double *values);

#endif
