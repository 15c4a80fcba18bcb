/* Casts between any two dtypes through double: ref_convert.h defines the rounding. */
#include "backend/ref/real.h"
#include "backend/ref/ref_convert.h"

static void cast(const ig_ref_launch *l) {
    const int64_t n = ig_shape_count(l->out[0].shape);
    for (int64_t i = 0; i < n; i++) ig_ref_put_any(&l->out[0], i, ig_ref_get_any(&l->in[0], i));
}

const ig_ref_entry IG_REF_LIST(cast)[] = {
    {IG_OP_CAST, IG_REF_DTYPE, "a", "a", cast},
    {0},
};
