/* Ops with random numbers. Random number i belongs to element i, so the order does not matter. */
#include "base/random.h"
#include "backend/ref/real.h"

/* Keeps element i, divided by 1 - p, or sets it to 0, even if it is NaN. */
static void dropout(const ig_ref_launch *l) {
    const ig_attrs_dropout a = l->attrs.dropout;
    const uint64_t step = (uint64_t)l->slots[a.step_slot].i;
    const uint32_t threshold = ig_random_threshold(a.p);
    const int64_t n = ig_shape_count(l->out[0].shape);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = ig_random_bits(a.seed, step, a.ordinal, (uint64_t)i);
        const bool keep = a.p < 1 && bits >= threshold;
        put(&l->out[0], i, keep ? get(&l->in[0], i) / (1 - (double)a.p) : 0);
    }
}

const ig_ref_entry IG_REF_LIST(random)[] = {
    {IG_OP_DROPOUT, IG_REF_DTYPE, "r", "r", dropout},
    {0},
};
