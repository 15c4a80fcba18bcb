/*
 * nn.h - layers and optimizers.
 *
 * A module owns its parameters and the modules added to it.  Their names join to
 * paths ("layers.0.up.weight"), which checkpoints use.  Calls return tensors as ops
 * do: never NULL, owned by the innermost scope.
 */
#ifndef INGOT_NN_H
#define INGOT_NN_H

#include "ingot/op.h"
#include "ingot/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_module ig_module;
typedef ig_tensor *ig_forward_fn(ig_module *module, ig_tensor *x);

/* A custom module.  `data` is passed to `forward`; the caller owns it. */
IG_API IG_MUST_CHECK ig_status ig_module_create(ig_ctx *ctx, ig_forward_fn *forward, void *data,
                                                ig_module **out);
IG_API void ig_module_destroy(ig_module *module); /* and its children */

/* Transfers `child` to `parent` under a name without dots; on failure the caller still owns it. */
IG_API IG_MUST_CHECK ig_status ig_module_add(ig_module *parent, const char *name, ig_module *child);

/* Creates a zeroed parameter that the module owns.  F32 and F64 parameters require gradients; F16
 * and BF16 ones are frozen. */
IG_API IG_MUST_CHECK ig_status ig_module_add_param(ig_module *module, const char *name,
                                                   ig_desc desc, ig_tensor **out);

/* The forward pass; the innermost scope owns the result, as for an op. */
IG_API ig_tensor *ig_module_call(ig_module *module, ig_tensor *x);
IG_API void *ig_module_data(const ig_module *module);  /* as passed to create */
IG_API ig_ctx *ig_module_ctx(const ig_module *module); /* borrowed */

/* Training or evaluation, for dropout; applies to all nested modules.  Default: training. */
IG_API void ig_module_set_training(ig_module *module, bool training);
IG_API bool ig_module_training(const ig_module *module);

/* Compute dtype of linear layers: IG_F32, or IG_BF16, which rounds inputs and weights before the
 * matmul.  Accumulation, gradients and parameters stay F32.  Applies to all nested modules. */
IG_API IG_MUST_CHECK ig_status ig_module_set_compute_dtype(ig_module *module, ig_dtype dtype);
IG_API ig_dtype ig_module_compute_dtype(const ig_module *module);

/* All parameters, including those of nested modules, in the order they were added. */
typedef struct ig_param {
    const char *path; /* "fc1.weight"; borrowed, as is the tensor */
    ig_tensor *tensor;
} ig_param;
IG_API size_t ig_module_param_count(const ig_module *module);
IG_API ig_param ig_module_param(const ig_module *module, size_t i);
IG_API int64_t ig_module_element_count(const ig_module *module); /* elements of all parameters */
IG_API ig_tensor *ig_module_find(const ig_module *module, const char *path); /* NULL: not found */

/* Layers.  Weights are initialized as in PyTorch, from the context's seed. */
typedef struct ig_linear_options {
    bool no_bias;
} ig_linear_options;

/* x [..., n_in] -> [..., n_out]; weight [n_out, n_in], bias [n_out].  NULL options: defaults. */
IG_API IG_MUST_CHECK ig_status ig_linear_create(ig_ctx *ctx, int64_t n_in, int64_t n_out,
                                                const ig_linear_options *options, ig_module **out);
/* ids [...] (i32) -> [..., width]; weight [count, width] */
IG_API IG_MUST_CHECK ig_status ig_embedding_create(ig_ctx *ctx, int64_t count, int64_t width,
                                                   ig_module **out);
/* weight [width]; layer_norm also has bias [width].  eps 0: 1e-5. */
IG_API IG_MUST_CHECK ig_status ig_rms_norm_create(ig_ctx *ctx, int64_t width, float eps,
                                                  ig_module **out);
IG_API IG_MUST_CHECK ig_status ig_layer_norm_create(ig_ctx *ctx, int64_t width, float eps,
                                                    ig_module **out);
IG_API IG_MUST_CHECK ig_status ig_dropout_create(ig_ctx *ctx, double p, ig_module **out);
/* Calls its children in order. */
IG_API IG_MUST_CHECK ig_status ig_sequential_create(ig_ctx *ctx, ig_module **out);

typedef struct ig_optimizer ig_optimizer;

typedef struct ig_adamw_options {
    double lr, beta1, beta2, eps; /* 1e-3, 0.9, 0.999, 1e-8 */
    double weight_decay;          /* 0.01, decoupled; below 0: none */
} ig_adamw_options;

typedef struct ig_sgd_options {
    double lr, momentum, weight_decay; /* 1e-2, 0, 0 */
    bool nesterov;
} ig_sgd_options;

/* An optimizer of all parameters of a module, which must outlive it.  NULL options: defaults.  The
 * caller owns the optimizer, which owns its moments. */
IG_API IG_MUST_CHECK ig_status ig_adamw_create(ig_module *module, const ig_adamw_options *options,
                                               ig_optimizer **out);
IG_API IG_MUST_CHECK ig_status ig_sgd_create(ig_module *module, const ig_sgd_options *options,
                                             ig_optimizer **out);
IG_API void ig_optimizer_destroy(ig_optimizer *opt);

/* Updates every parameter that has a gradient, and ends the step. */
IG_API IG_MUST_CHECK ig_status ig_optimizer_step(ig_optimizer *opt);
IG_API void ig_optimizer_zero_grad(ig_optimizer *opt);
IG_API void ig_optimizer_set_lr(ig_optimizer *opt, double lr);
IG_API double ig_optimizer_lr(const ig_optimizer *opt);
IG_API int64_t ig_optimizer_steps(const ig_optimizer *opt); /* completed */

/* For updates that are dispatched by hand (batch.h): the state tensors of parameter `param`, of
 * AdamW mean (0) and variance (1), borrowed; NULL: there is none. */
IG_API ig_tensor *ig_optimizer_state(const ig_optimizer *opt, size_t param, size_t state);
/* The attributes that an AdamW optimizer gives its op, with the slots of rate and step count. */
IG_API ig_attrs_adamw ig_optimizer_adamw(const ig_optimizer *opt);
/* Sets the count of completed steps; refused below 0. */
IG_API IG_MUST_CHECK ig_status ig_optimizer_set_steps(ig_optimizer *opt, int64_t steps);

/* Scales all gradients down if their global norm exceeds `limit`; returns the norm before. */
IG_API ig_tensor *ig_optimizer_clip_grad_norm(ig_optimizer *opt, double limit);

#ifdef __cplusplus
}
#endif
#endif
