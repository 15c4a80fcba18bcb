/*
 * Random ops. Number i of a stream belongs to element i in row-major order, so the result does not
 * depend on the threads (base/random.h).
 */
#include "base/random.h"

#include "backend/cpu/strided.h"

typedef struct params {
    strided_loop loop;
    ig_attrs_dropout attrs;
} params;

static bool setup(const ig_step *step, ig_cpu_setup *out) {
    params p;
    memset(&p, 0, sizeof p);
    ig_step_attrs(step, &p.attrs, sizeof p.attrs);
    if (!operands_are(step, 0, IG_F32) || !strided_loop_over_step(step, &p.loop)) return false;
    out->cost = 8;
    return keep_params(out, &p, sizeof p);
}

enum { BLOCK = 64 }; /* elements at a time, a multiple of four */

/* factor[i] = scale if element `first` + i is kept, else 0; `first` is a multiple of 4. */
static void draw(const ig_attrs_dropout *a, uint64_t step, int64_t first, float *factor) {
    const uint32_t threshold = ig_random_threshold(a->p);
    const float scale = a->p < 1 ? 1.0f / (1 - a->p) : 0;
    for (int i = 0; i < BLOCK; i += 4) {
        const uint64_t j = (uint64_t)(first + i) / 4;
        const ig_philox four = ig_random_block(a->seed, step, a->ordinal, j);
        for (int w = 0; w < 4; w++) factor[i + w] = four.word[w] >= threshold ? scale : 0;
    }
}

/* x / (1 - p) for kept elements, 0 for the others, even if x is NaN. */
static void dropout(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    const strided_loop *g = &p->loop;
    const int64_t stride = g->stride[0][g->rank - 1];
    const uint64_t step = (uint64_t)l->slots[p->attrs.step_slot].i;
    float factor[BLOCK];
    int64_t element = begin, drawn = -1; /* the first element that `factor` is for */
    strided_run r;
    for (strided_run_first(g, 2, begin, end, &r); r.n > 0; strided_run_next(g, 2, &r)) {
        const float *x = (const float *)l->at[0] + r.at[0];
        float *y = (float *)l->at[1] + r.at[1];
        for (int64_t i = 0, n; i < r.n; i += n, element += n) {
            const int64_t skip = element % BLOCK;
            n = min_i64(r.n - i, BLOCK - skip);
            if (element - skip != drawn) draw(&p->attrs, step, drawn = element - skip, factor);
            for (int64_t k = 0; k < n; k++) {
                const float by = factor[skip + k];
                y[i + k] = by == 0 ? 0 : x[(i + k) * stride] * by;
            }
        }
    }
}

const ig_cpu_entry IG_CPU_LIST(random)[] = {
    {IG_OP_DROPOUT, IG_F32, BY_ELEMENT, setup, dropout},
    {0},
};
