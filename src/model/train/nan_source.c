/*
 * Where a number that is none came from.  Of a loss: the step is gone through once more, op by op,
 * and the first results that are not finite are named.  Of logits: the weight that is broken.
 */
#include <math.h>

#include "base/quant_blocks.h"
#include "ingot/report.h"
#include "model/adapter.h"
#include "model/gguf/gguf_model.h"

/* The first parameter that is not finite any more; NULL: all are. */
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

/* Whether a weight in a file holds anything that is not finite; whole blocks at a time. */
static bool is_broken(const ig_gguf_tensor *t) {
    enum { AT_ONCE = 1024 };
    const ig_dtype dtype = t->desc.dtype;
    const int64_t all = ig_shape_count(t->desc.shape);
    float x[AT_ONCE];
    for (int64_t i = 0; ig_blocks_can_decode(dtype) && i < all; i += AT_ONCE) {
        const int64_t n = all - i < AT_ONCE ? all - i : AT_ONCE;
        ig_blocks_decode(dtype, (const char *)t->bytes + ig_bytes_of(dtype, i), x, n);
        for (int64_t k = 0; k < n; k++)
            if (!isfinite(x[k])) return true;
    }
    return false;
}

/* NULL: all are finite. */
static const char *broken_weight(const ig_adapter *a) {
    const ig_gguf *file = a->source ? a->source->file : NULL;
    for (size_t i = 0; file && i < ig_gguf_n_tensors(file); i++)
        if (is_broken(ig_gguf_tensor_at(file, i))) return ig_gguf_tensor_at(file, i)->name;
    return a->root ? broken_param(a) : NULL;
}

ig_status ig_adapter_explain_rows(const ig_adapter *a, const char *what) {
    const char *weight = broken_weight(a);
    if (weight)
        return IG_FAIL(IG_ERR_NUMBER,
                       "%s are not finite: the weight %s holds numbers that are not%s", what,
                       weight, a->source ? "; the file is damaged: get it again" : "");
    return IG_FAIL(IG_ERR_NUMBER,
                   "%s are not finite, though all weights are: a number grew too large on the way, "
                   "or a key of the file is wrong; a cache of halves holds 65504 at most, one in "
                   "f32 more",
                   what);
}

/* Forward and backward of the rows at hand, without an update. */
static const char *first_broken_op(ig_adapter *a) {
    const ig_mode mode = ig_mode_get(a->ctx);
    if (ig_mode_set(a->ctx, IG_MODE_DYNAMIC) != IG_OK) return "";
    ig_finite_begin(a->ctx);
    ig_scope_begin(a->ctx);
    (void)!ig_backward(ig_adapter_loss(a));
    (void)!ig_step_end(a->ctx);
    ig_scope_end(a->ctx);
    const char *first = ig_finite_end(a->ctx);
    for (size_t i = 0; i < ig_module_param_count(a->root); i++)
        ig_tensor_zero_grad(ig_module_param(a->root, i).tensor);
    (void)!ig_mode_set(a->ctx, mode);
    return first;
}

ig_status ig_adapter_explain(ig_adapter *a, const char *what, double value) {
    const char *is = isnan(value) ? "nan" : "infinite"; /* whatever its sign */
    const char *param = broken_param(a);
    if (param)
        return IG_FAIL(IG_ERR_NUMBER, "%s is %s, because the update before, adamw, broke %s", what,
                       is, param);
    const char *op = first_broken_op(a);
    return IG_FAIL(IG_ERR_NUMBER, "%s is %s; the first op to give other than finite numbers was %s",
                   what, is, *op ? op : "not to be found when the step was gone through again");
}
