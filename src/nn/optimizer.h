/*
 * optimizer.h - the inside of an optimiser, for those who store and restore it.
 *
 * An optimiser is a kind ("adamw", "sgd"), hyper-parameters, a count of steps
 * taken, and per parameter a few state tensors like the parameter.  Parameter i
 * is ig_module_param(ig_optimizer_module(opt), i).
 */
#ifndef IG_NN_OPTIMIZER_H
#define IG_NN_OPTIMIZER_H

#include "ingot/nn.h"

enum { IG_HYPER_MAX = 5 }; /* no kind has more hyper-parameters */

const char *ig_optimizer_kind(const ig_optimizer *opt); /* "adamw" or "sgd" */
ig_module *ig_optimizer_module(const ig_optimizer *opt);

/* Parameters when the optimiser was made; the module must still have as many. */
size_t ig_optimizer_param_count(const ig_optimizer *opt);

/*
 * State tensors of each parameter: of adamw "mean" and "variance", of sgd
 * "momentum" or, without momentum, none.  They exist, as zeros, from the start,
 * and ig_tensor_write() may overwrite them between steps.  Names and tensors
 * are lent.
 */
size_t ig_optimizer_state_count(const ig_optimizer *opt);
const char *ig_optimizer_state_name(const ig_optimizer *opt, size_t state);
ig_tensor *ig_optimizer_state(const ig_optimizer *opt, size_t param, size_t state);

/*
 * Hyper-parameters, by number: of adamw "rate", "beta1", "beta2", "eps",
 * "decay", of sgd "rate", "momentum", "decay", "nesterov" (1 or 0).  Here
 * defaults have been filled in, and zero means zero.
 */
size_t ig_optimizer_hyper_count(const ig_optimizer *opt);
const char *ig_optimizer_hyper_name(const ig_optimizer *opt, size_t i);
double ig_optimizer_hyper(const ig_optimizer *opt, size_t i);

/*
 * Sets all of them, ig_optimizer_hyper_count() values, or none.  Refused, with
 * the name and the value: what is out of range, and a momentum that asks for
 * state tensors which the optimiser was not made with (or the other way round).
 * Without a failure of check, set does not fail either.
 */
IG_MUST_CHECK ig_status ig_optimizer_check_hypers(const ig_optimizer *opt, const double *values);
IG_MUST_CHECK ig_status ig_optimizer_set_hypers(ig_optimizer *opt, const double *values);

/* As ig_optimizer_steps() tells it; refused below 0. */
IG_MUST_CHECK ig_status ig_optimizer_set_steps(ig_optimizer *opt, int64_t steps);

#endif
