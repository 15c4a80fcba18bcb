/*
 * nn.h - layers and optimisers.
 *
 * A module owns its parameters and the modules added to it.  Their names join
 * to paths ("layers.0.up.weight"), which is what checkpoints know them by.
 * Calls return tensors as ops do: never NULL, owned by the innermost scope.
 */
#ifndef INGOT_NN_H
#define INGOT_NN_H

#include "ingot/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_module ig_module;
typedef ig_tensor *ig_forward_fn(ig_module *module, ig_tensor *x);

/* A module of one's own.  `data` is for `forward` and stays the caller's. */
IG_API IG_MUST_CHECK ig_status ig_module_create(ig_ctx *ctx, ig_forward_fn *forward, void *data,
                                                ig_module **out);
IG_API void ig_module_destroy(ig_module *module); /* with all that was added to it */

/* Gives `child` to `parent` under a name without dots; it is the caller's still if this fails. */
IG_API IG_MUST_CHECK ig_status ig_module_add(ig_module *parent, const char *name, ig_module *child);

/* Makes a parameter of zeros; the module owns it.  In F32 and F64 it asks for its gradient; in F16
 * and BF16 it is kept as it is, and optimisers leave it alone. */
IG_API IG_MUST_CHECK ig_status ig_module_add_param(ig_module *module, const char *name,
                                                   ig_desc desc, ig_tensor **out);

/* The forward pass; the result belongs to the innermost scope, as that of an op. */
IG_API ig_tensor *ig_module_call(ig_module *module, ig_tensor *x);
IG_API void *ig_module_data(const ig_module *module);  /* the caller's own, as it was given */
IG_API ig_ctx *ig_module_ctx(const ig_module *module); /* lent */

/* Training or not: what dropout asks.  Holds for all modules below; modules start training. */
IG_API void ig_module_set_training(ig_module *module, bool training);
IG_API bool ig_module_training(const ig_module *module);

/* What linear layers multiply: IG_F32, or IG_BF16 for inputs and weights that are rounded to it
 * first.  Sums, gradients and the parameters themselves stay F32.  Holds for all modules below. */
IG_API IG_MUST_CHECK ig_status ig_module_set_compute(ig_module *module, ig_dtype dtype);
IG_API ig_dtype ig_module_compute(const ig_module *module);

/* All parameters, of nested modules too, in the order they were added. */
typedef struct ig_param {
    const char *path; /* "fc1.weight"; lent, as the tensor is */
    ig_tensor *tensor;
} ig_param;
IG_API size_t ig_module_param_count(const ig_module *module);
IG_API ig_param ig_module_param(const ig_module *module, size_t i);
IG_API int64_t ig_module_element_count(const ig_module *module); /* numbers in all parameters */
IG_API ig_tensor *ig_module_find(const ig_module *module, const char *path); /* NULL: no such */

/* Layers.  Weights are drawn as PyTorch draws them, from the context's seed. */
typedef struct ig_linear_options {
    bool no_bias;
} ig_linear_options;

/* x [..., n_in] -> [..., n_out]; weight [n_out, n_in], bias [n_out].  NULL options: defaults. */
IG_API IG_MUST_CHECK ig_status ig_linear_create(ig_ctx *ctx, int64_t n_in, int64_t n_out,
                                                const ig_linear_options *options, ig_module **out);
/* ids [...] (i32) -> [..., width]; weight [count, width] */
IG_API IG_MUST_CHECK ig_status ig_embedding_create(ig_ctx *ctx, int64_t count, int64_t width,
                                                   ig_module **out);
/* weight [width]; layer_norm has bias [width] too.  An eps of 0 is 1e-5. */
IG_API IG_MUST_CHECK ig_status ig_rms_norm_create(ig_ctx *ctx, int64_t width, float eps,
                                                  ig_module **out);
IG_API IG_MUST_CHECK ig_status ig_layer_norm_create(ig_ctx *ctx, int64_t width, float eps,
                                                    ig_module **out);
IG_API IG_MUST_CHECK ig_status ig_dropout_create(ig_ctx *ctx, double p, ig_module **out);
/* Calls one after the other what is added to it. */
IG_API IG_MUST_CHECK ig_status ig_sequence_create(ig_ctx *ctx, ig_module **out);

/* Optimisers: of all parameters of a module, which must outlive them. */
typedef struct ig_optimizer ig_optimizer;

typedef struct ig_adamw_options {
    double rate, beta1, beta2, eps; /* 1e-3, 0.9, 0.999, 1e-8 */
    double decay;                   /* 0.01, not tied to the gradient; below 0: none */
} ig_adamw_options;

typedef struct ig_sgd_options {
    double rate, momentum, decay; /* 1e-2, 0, 0 */
    bool nesterov;
} ig_sgd_options;

/* An optimiser of all parameters below a module, which must outlive it.  NULL options: defaults.
 * The caller owns it; moments are its own and go with it. */
IG_API IG_MUST_CHECK ig_status ig_adamw_create(ig_module *module, const ig_adamw_options *options,
                                               ig_optimizer **out);
IG_API IG_MUST_CHECK ig_status ig_sgd_create(ig_module *module, const ig_sgd_options *options,
                                             ig_optimizer **out);
IG_API void ig_optimizer_destroy(ig_optimizer *opt);

/* Updates every parameter that has a gradient, and ends the step. */
IG_API IG_MUST_CHECK ig_status ig_optimizer_step(ig_optimizer *opt);
IG_API void ig_optimizer_zero_grad(ig_optimizer *opt);
IG_API void ig_optimizer_set_rate(ig_optimizer *opt, double rate);
IG_API double ig_optimizer_rate(const ig_optimizer *opt);
IG_API int64_t ig_optimizer_steps(const ig_optimizer *opt); /* taken so far */

/* Scales all gradients down where their joint norm is above `limit`; gives the norm before. */
IG_API ig_tensor *ig_optimizer_clip(ig_optimizer *opt, double limit);

#ifdef __cplusplus
}
#endif
#endif
