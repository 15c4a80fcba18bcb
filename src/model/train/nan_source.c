/*
 * Finds the source of a NaN or Inf. For a loss, the step runs again op by op, and the first op with
 * such a result is named. For logits, the broken weight is named.
 */
#include <math.h>

#include "base/quant_blocks.h"
#include "ingot/report.h"
#include "model/adapter.h"
#include "model/gguf/gguf_model.h"

/* The first parameter that has a NaN or Inf; NULL: none. */
static const char *broken_param(const ig_adapter *a) {
    for (size_t i = 0; i < ig_module_param_count(a->root); i++) {
        const ig_param param = ig_module_param(a->root, i);
        const float *values = ig_tensor_map(param.tensor);
        const int64_t count = ig_shape_count(ig_tensor_desc(param.tensor).shape);
        for (int64_t k = 0; values && k < count; k++)
            if (!isfinite(values[k])) return param.path;
    }
    return NULL;
}

/* Whether a weight in the file has a NaN or Inf; dequantizes complete blocks at a time. */
static bool is_broken(const ig_gguf_tensor *t) {
    enum { AT_ONCE = 1024 };
    const ig_dtype dtype = t->desc.dtype;
    const int64_t all = ig_shape_count(t->desc.shape);
    float x[AT_ONCE];
    for (int64_t i = 0; ig_blocks_can_dequantize(dtype) && i < all; i += AT_ONCE) {
        const int64_t n = all - i < AT_ONCE ? all - i : AT_ONCE;
        ig_blocks_dequantize(dtype, (const char *)t->bytes + ig_bytes_of(dtype, i), x, n);
        for (int64_t k = 0; k < n; k++)
            if (!isfinite(x[k])) return true;
    }
    return false;
}

/* The first weight that has a NaN or Inf; NULL: none. */
static const char *broken_weight(const ig_adapter *a) {
    const ig_gguf *file = a->source ? a->source->file : NULL;
    for (size_t i = 0; file && i < ig_gguf_n_tensors(file); i++)
        if (is_broken(ig_gguf_tensor_at(file, i))) return ig_gguf_tensor_at(file, i)->name;
    return a->root ? broken_param(a) : NULL;
}

static ig_status damaged_file(const char *what, const char *are, const char *tensor) {
    return IG_FAIL(IG_ERR_FORMAT,
                   "%s %s: tensor %s has NaN or Inf; the file is damaged: download or convert it "
                   "again",
                   what, are, tensor);
}

ig_status ig_adapter_explain_rows(const ig_adapter *a, const char *what) {
    const char *weight = broken_weight(a);
    const bool is_file = (a->source && !a->source->in_memory.file) || a->as_loaded;
    if (weight && is_file) return damaged_file(what, "are not finite", weight);
    if (weight)
        return IG_FAIL(IG_ERR_NOT_FINITE, "%s are not finite: the weight %s has NaN or Inf", what,
                       weight);
    return IG_FAIL(
        IG_ERR_NOT_FINITE,
        "%s are not finite on device %s, though all weights are: a value overflowed on the way, a "
        "key of the file is wrong, or the device computes wrong numbers (ingot parity compares it "
        "with ref); an F16 KV cache holds at most 65504, a BF16 or F32 one more",
        what, ig_ctx_device(a->ctx));
}

/* Forward and backward of the current batch, without an update. */
static const char *first_broken_op(ig_adapter *a) {
    const ig_mode mode = ig_mode_get(a->ctx);
    if (ig_mode_set(a->ctx, IG_MODE_DYNAMIC) != IG_OK) return "";
    ig_nan_check_begin(a->ctx);
    ig_scope_begin(a->ctx);
    (void)!ig_backward(ig_adapter_loss(a));
    (void)!ig_ctx_step_end(a->ctx);
    ig_scope_end(a->ctx);
    const char *first = ig_nan_check_end(a->ctx);
    for (size_t i = 0; i < ig_module_param_count(a->root); i++)
        ig_tensor_zero_grad(ig_module_param(a->root, i).tensor);
    (void)!ig_mode_set(a->ctx, mode);
    return first;
}

ig_status ig_adapter_explain(ig_adapter *a, const char *what, double value) {
    const char *is = isnan(value) ? "nan" : "infinite"; /* the sign of a NaN is not printed */
    const char *param = broken_param(a);
    if (param && a->as_loaded) return damaged_file(what, "is not finite", param);
    if (param)
        return IG_FAIL(IG_ERR_NOT_FINITE, "%s is %s, because the previous update, adamw, broke %s",
                       what, is, param);
    if (!a->arch->hidden)
        return IG_FAIL(IG_ERR_NOT_FINITE,
                       "%s is %s, though all weights are finite; %s is defined by dispatches, "
                       "which are not traced op by op",
                       what, is, a->arch->name);
    const char *op = first_broken_op(a);
    return IG_FAIL(IG_ERR_NOT_FINITE,
                   "%s is %s on device %s; the first op with a NaN or Inf result was %s", what, is,
                   ig_ctx_device(a->ctx), *op ? op : "not found when the step ran again");
}
