/* The function of reverse. */
#include "ingot/ops.h"
#include "runtime/apply.h"

ig_tensor *ig_reverse(ig_tensor *x, float by) {
    return ig_apply_one(IG_OP_REVERSE, &(ig_attrs_reverse){by}, &x, 1);
}
