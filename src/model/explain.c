/*
 * Where a loss that is no number came from: the step is gone through once more,
 * op by op, and the first results that are not finite are named.
 */
#include <math.h>

#include "ingot/report.h"
#include "model/adapter.h"

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
