/* Rows backwards, times a number. */
#include "backend/cpu/strided.h"

typedef struct params {
    int64_t n; /* elements of a row */
    double by;
} params;

static bool setup(const ig_step *step, ig_cpu_setup *out) {
    const ig_operand *x = &step->in[0];
    ig_attrs_reverse attrs;
    if (!operands_are(step, 0, IG_F32) || !ig_operand_is_packed(x)) return false;
    if (!ig_operand_is_packed(&step->out[0])) return false;
    ig_step_attrs(step, &attrs, sizeof attrs);
    const params p = {x->desc.shape.dim[x->desc.shape.rank - 1], (double)attrs.by};
    out->cost = p.n;
    return keep_params(out, &p, sizeof p);
}

static void reverse(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)l->at[0] + row * p->n;
        float *y = (float *)l->at[1] + row * p->n;
        for (int64_t j = 0; j < p->n; j++) y[j] = (float)p->by * x[p->n - 1 - j];
    }
}

const ig_cpu_entry IG_CPU_LIST(reverse)[] = {
    {IG_OP_REVERSE, IG_F32, BY_ROW, setup, reverse},
    {0},
};
