/*
 * RoPE.  The first `dims` elements of each head are taken in pairs, and pair i is rotated by
 *     angle = position * scale * base^(-2i / dims) / freq_factors[i]
 * and scaled by mscale.  A pair is two neighbors (interleaved), or elements i and i + dims / 2
 * (NeoX); the other elements are copied.
 *
 * Positions go into the millions, so the angle and its remainder after quarter turns are
 * computed in double.  base^(-2i / dims) is r^i, a product of
 * r, r^2, r^4, ... as the bits of i say: exact to the last bits of a double, and
 * the same on every machine.  All heads of a token rotate alike: sine and cosine
 * are computed for a block of pairs and serve for every head.
 */
#include <math.h>

#include "backend/cpu/simd/vec_math.h"
#include "backend/cpu/strided.h"

enum { BLOCK = 64, POWERS = 31 }; /* pairs at a time; bits of i */

typedef struct params {
    strided_index x, positions; /* rows of x, tokens */
    int64_t heads, width;       /* h and d of [..., t, h, d] */
    int64_t pairs;
    int64_t factor_stride;
    double scale;         /* below 0: rotates back */
    double power[POWERS]; /* base^(-2 * 2^k / dims) */
    float mscale;
    bool neighbors, has_factors;
} params;

/* positions [t] apply to all leading dimensions of x [..., t, h, d]. */
static strided_index positions_of(const ig_operand *x, const ig_operand *positions) {
    ig_operand o = *positions;
    o.desc.shape = x->desc.shape;
    o.desc.shape.rank -= 2;
    for (int d = o.desc.shape.rank - 1, k = positions->desc.shape.rank - 1; d >= 0; d--, k--)
        o.stride[d] = k >= 0 ? positions->stride[k] : 0;
    return strided_index_make(&o, 0);
}

static bool setup(const ig_step *step, ig_cpu_setup *out) {
    const ig_operand *x = &step->in[0], *positions = &step->in[1];
    const int rank = x->desc.shape.rank;
    ig_attrs_rope a;
    ig_step_attrs(step, &a, sizeof a);
    if (!operands_are(step, 2, IG_F32) || positions->desc.dtype != IG_I32) return false;
    if (rank < 3 || !rows_are_packed(x)) return false;

    params p = {.x = strided_index_make(x, 1),
                .positions = positions_of(x, positions),
                .heads = x->desc.shape.dim[rank - 2],
                .width = x->desc.shape.dim[rank - 1],
                .scale = (a.freq_scale == 0 ? 1 : (double)a.freq_scale) * (a.inverse ? -1 : 1),
                .mscale = a.mscale == 0 ? 1 : a.mscale,
                .neighbors = a.type == IG_ROPE_INTERLEAVED,
                .has_factors = step->n_in > 2};
    p.pairs = (a.rotary_dims ? (int64_t)a.rotary_dims : p.width) / 2;
    if (2 * p.pairs > p.width || p.pairs >> POWERS) return false;
    if (p.has_factors) p.factor_stride = step->in[2].stride[0];
    for (int k = 0; k < POWERS; k++)
        p.power[k] = pow((double)a.freq_base, -(double)(INT64_C(1) << k) / (double)p.pairs);
    out->cost = sat_mul(p.width, 8);
    return keep_params(out, &p, sizeof p);
}

/* Sine and cosine for pairs [first, first + n), n <= BLOCK, times the mscale. */
typedef struct rotations {
    float sin[BLOCK], cos[BLOCK];
} rotations;

/*
 * The remainder of an angle after quarter turns.  Adding 1.5 * 2^52 leaves the
 * number of quarters in the low bits; pi/2 is subtracted in three parts, of which
 * the first two have 33 bits, so that their products are exact.
 */
static float reduce(double angle, int32_t *quarter) {
    const double rounder = 0x1.8p52;
    const double shifted = angle * 0x1.45f306dc9c883p-1 + rounder, n = shifted - rounder;
    int64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    *quarter = (int32_t)(bits & 3);
    return (float)(((angle - n * 0x1.921fb544p+0) - n * 0x1.0b4611a6p-34) -
                   n * 0x1.3198a2e037073p-69);
}

static void rotations_of(const ig_cpu_launch *l, int64_t token, int64_t first, int64_t n,
                         rotations *out) {
    const params *p = l->params;
    const double position =
        p->scale * (double)((const int32_t *)l->at[1])[strided_offset(&p->positions, token)];
    float left[BLOCK] = {0};
    int32_t quarter[BLOCK] = {0};
    for (int64_t i = 0; i < n; i++) {
        double angle = position;
        for (int64_t bits = first + i, k = 0; bits > 0; bits >>= 1, k++)
            if (bits & 1) angle *= p->power[k];
        if (p->has_factors)
            angle /= (double)((const float *)l->at[2])[(first + i) * p->factor_stride];
        left[i] = reduce(angle, &quarter[i]);
    }
    for (int64_t i = 0; i < n; i += VF_LANES) {
        vf sin, cos;
        vf_sin_cos(vf_load(left + i), vi_load(quarter + i), &sin, &cos);
        vf_store(out->sin + i, vf_mul(sin, vf_set(p->mscale)));
        vf_store(out->cos + i, vf_mul(cos, vf_set(p->mscale)));
    }
}

/* Rotates pairs [first, first + n) of a head: (x, y) -> (x cos - y sin, x sin + y cos). */
static void rotate(const params *p, const float *restrict x, float *restrict y, int64_t first,
                   int64_t n, const rotations *t) {
    if (p->neighbors) {
        for (int64_t i = 0; i < n; i++) {
            const int64_t a = 2 * (first + i);
            y[a] = x[a] * t->cos[i] - x[a + 1] * t->sin[i];
            y[a + 1] = x[a] * t->sin[i] + x[a + 1] * t->cos[i];
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t a = first + i, b = a + p->pairs;
        y[a] = x[a] * t->cos[i] - x[b] * t->sin[i];
        y[b] = x[a] * t->sin[i] + x[b] * t->cos[i];
    }
}

/* Heads [begin, end), all of one token. */
static void rotate_heads(const ig_cpu_launch *l, int64_t token, int64_t begin, int64_t end) {
    const params *p = l->params;
    const float *x = (const float *)l->at[0];
    float *y = (float *)l->at[2 + p->has_factors];
    rotations t;
    for (int64_t first = 0; first < p->pairs; first += BLOCK) {
        const int64_t n = min_i64(p->pairs - first, BLOCK);
        rotations_of(l, token, first, n, &t);
        for (int64_t head = begin; head < end; head++)
            rotate(p, x + strided_offset(&p->x, head), y + head * p->width, first, n, &t);
    }
    const int64_t rest = 2 * p->pairs;
    for (int64_t head = begin; head < end && rest < p->width; head++)
        memcpy(y + head * p->width + rest, x + strided_offset(&p->x, head) + rest,
               (size_t)(p->width - rest) * sizeof *y);
}

static void rope(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    for (int64_t head = begin; head < end;) {
        const int64_t token = head / p->heads, next = min_i64((token + 1) * p->heads, end);
        rotate_heads(l, token, head, next);
        head = next;
    }
}

const ig_cpu_entry IG_CPU_LIST(rope)[] = {
    {IG_OP_ROPE, IG_F32, BY_ROW, setup, rope},
    {0},
};
