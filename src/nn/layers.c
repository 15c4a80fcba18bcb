/*
 * Layers: modules of one op each, with its parameters.
 *
 * Initialization as in PyTorch: linear weights and biases uniform in +-1 / sqrt(n_in) (Kaiming's
 * bound for a = sqrt(5)), embeddings from the standard normal distribution, norms as the identity.
 */
#include <math.h>

#include "base/alloc.h"
#include "ingot/ops.h"
#include "nn/module.h"

static const float default_eps = 1e-5f;

/* The data of all layers here; each uses a subset. */
typedef struct layer {
    ig_tensor *weight, *bias; /* borrowed from the module; NULL: none */
    float eps;
    double p;
} layer;

/* ---- Making one: parts are added while all goes well ---- */

static ig_status add_param(ig_module *module, const char *name, ig_shape shape, ig_tensor **out) {
    return ig_module_add_param(module, name, (ig_desc){IG_F32, shape}, out);
}

/* Returns the module, or destroys it after a failure. */
static ig_status finish(ig_status status, ig_module *module, ig_module **out) {
    if (status == IG_OK)
        *out = module;
    else
        ig_module_destroy(module);
    return status;
}

static ig_status write_ones(ig_tensor *tensor, int64_t count) {
    const ig_allocator *memory = ig_ctx_allocator(ig_tensor_ctx(tensor));
    float *ones = ig_alloc(memory, (size_t)count, sizeof *ones);
    if (!ones) return IG_FAIL(IG_ERR_MEMORY, "norm: no memory for %lld ones", (long long)count);
    for (int64_t i = 0; i < count; i++) ones[i] = 1;
    const ig_status status = ig_tensor_write(tensor, ones, (size_t)count * sizeof *ones);
    ig_free(memory, ones);
    return status;
}

/* ---- linear ---- */

/* x W^T + b; operands may be 16-bit floats, accumulation is F32. */
static ig_tensor *multiply(const ig_module *module, ig_tensor *x) {
    const layer *l = ig_module_data(module);
    const ig_dtype dtype = ig_module_compute_dtype(module);
    const ig_matmul_options options = {.transpose_b = true, .bias = l->bias};
    if (dtype == IG_F32) return ig_matmul_with(x, l->weight, options);
    return ig_matmul_with(ig_cast(x, dtype), ig_cast(l->weight, dtype), options);
}

/* A vector [n_in] is handled as a matrix of one row. */
static ig_tensor *linear_forward(ig_module *module, ig_tensor *x) {
    if (!x || ig_tensor_desc(x).shape.rank != 1) return multiply(module, x);
    return ig_reshape(multiply(module, ig_reshape(x, IG_SHAPE(1, -1))), IG_SHAPE(-1));
}

ig_status ig_linear_create(ig_ctx *ctx, int64_t n_in, int64_t n_out,
                           const ig_linear_options *options, ig_module **out) {
    if (n_in < 1 || n_out < 1)
        return IG_FAIL(IG_ERR_ARGUMENT, "linear: %lld -> %lld: both must be at least 1",
                       (long long)n_in, (long long)n_out);
    const double bound = 1 / sqrt((double)n_in);
    ig_module *module;
    IG_TRY(ig_module_create_with(ctx, linear_forward, sizeof(layer), &module));

    layer *l = ig_module_data(module);
    ig_status status = add_param(module, "weight", IG_SHAPE(n_out, n_in), &l->weight);
    if (status == IG_OK) status = ig_tensor_fill_uniform(l->weight, -bound, bound);
    if (options && options->no_bias) return finish(status, module, out);

    if (status == IG_OK) status = add_param(module, "bias", IG_SHAPE(n_out), &l->bias);
    if (status == IG_OK) status = ig_tensor_fill_uniform(l->bias, -bound, bound);
    return finish(status, module, out);
}

/* ---- embedding ---- */

static ig_tensor *embedding_forward(ig_module *module, ig_tensor *ids) {
    const layer *l = ig_module_data(module);
    return ig_embedding(l->weight, ids);
}

ig_status ig_embedding_create(ig_ctx *ctx, int64_t count, int64_t width, ig_module **out) {
    if (count < 1 || width < 1)
        return IG_FAIL(IG_ERR_ARGUMENT, "embedding: %lld rows of %lld: both must be at least 1",
                       (long long)count, (long long)width);
    ig_module *module;
    IG_TRY(ig_module_create_with(ctx, embedding_forward, sizeof(layer), &module));

    layer *l = ig_module_data(module);
    ig_status status = add_param(module, "weight", IG_SHAPE(count, width), &l->weight);
    if (status == IG_OK) status = ig_tensor_fill_normal(l->weight, 0, 1);
    return finish(status, module, out);
}

/* ---- norms ---- */

static ig_tensor *rms_norm_forward(ig_module *module, ig_tensor *x) {
    const layer *l = ig_module_data(module);
    return ig_rms_norm(x, l->weight, l->eps);
}

static ig_tensor *layer_norm_forward(ig_module *module, ig_tensor *x) {
    const layer *l = ig_module_data(module);
    return ig_layer_norm(x, l->weight, l->bias, l->eps);
}

/* Both norms have a weight initialized to ones. */
static ig_status norm_create(ig_ctx *ctx, const char *name, ig_forward_fn *forward, int64_t width,
                             float eps, ig_module **out) {
    if (width < 1)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: width %lld is below 1", name, (long long)width);
    if (!(eps >= 0) || !isfinite(eps))
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: eps %g must be finite and at least 0", name,
                       (double)eps);
    ig_module *module;
    IG_TRY(ig_module_create_with(ctx, forward, sizeof(layer), &module));

    layer *l = ig_module_data(module);
    l->eps = eps > 0 ? eps : default_eps;
    ig_status status = add_param(module, "weight", IG_SHAPE(width), &l->weight);
    if (status == IG_OK) status = write_ones(l->weight, width);
    return finish(status, module, out);
}

ig_status ig_rms_norm_create(ig_ctx *ctx, int64_t width, float eps, ig_module **out) {
    return norm_create(ctx, "rms_norm", rms_norm_forward, width, eps, out);
}

ig_status ig_layer_norm_create(ig_ctx *ctx, int64_t width, float eps, ig_module **out) {
    ig_module *module = NULL;
    IG_TRY(norm_create(ctx, "layer_norm", layer_norm_forward, width, eps, &module));
    layer *l = ig_module_data(module);
    return finish(add_param(module, "bias", IG_SHAPE(width), &l->bias), module, out);
}

/* ---- dropout ---- */

static ig_tensor *dropout_forward(ig_module *module, ig_tensor *x) {
    const layer *l = ig_module_data(module);
    return ig_module_training(module) && l->p > 0 ? ig_dropout(x, l->p) : x;
}

ig_status ig_dropout_create(ig_ctx *ctx, double p, ig_module **out) {
    if (!(p >= 0 && p < 1))
        return IG_FAIL(IG_ERR_ARGUMENT, "dropout: p is %g, expected 0 <= p < 1", p);
    ig_module *module;
    IG_TRY(ig_module_create_with(ctx, dropout_forward, sizeof(layer), &module));
    ((layer *)ig_module_data(module))->p = p;
    *out = module;
    return IG_OK;
}

/* ---- sequence ---- */

static ig_tensor *sequence_forward(ig_module *module, ig_tensor *x) {
    const size_t count = ig_module_child_count(module);
    for (size_t i = 0; i < count; i++) x = ig_module_call(ig_module_child(module, i), x);
    return x;
}

ig_status ig_sequential_create(ig_ctx *ctx, ig_module **out) {
    return ig_module_create(ctx, sequence_forward, NULL, out);
}
