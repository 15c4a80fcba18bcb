/*
 * RoPE. The first `dims` elements of each head are pairs, and pair i is rotated by
 *     angle = position * scale * base^(-2i / dims) / factors[i]
 * and scaled by mscale. A pair is two adjacent elements (interleaved), or one element of each half
 * (NeoX); the other elements pass through.
 */
#include <math.h>

#include "backend/ref/real.h"

/* The angle of pair i at the list's position `at`. */
static double angle_of(const ig_ref_launch *l, int64_t dims, int64_t at, int64_t i) {
    const ig_attrs_rope r = l->attrs.rope;
    const double scale = r.freq_scale == 0 ? 1 : (double)r.freq_scale;
    const double factor = l->n_in > 2 ? get(&l->in[2], i) : 1;
    const double turns = pow((double)r.freq_base, -2.0 * (double)i / (double)dims);
    const double angle = (double)get_index(&l->in[1], at) * scale * turns / factor;
    return r.inverse ? -angle : angle;
}

/* Rotates the head that begins at element `first`. */
static void turn(const ig_ref_launch *l, int64_t first, int64_t dims, int64_t at) {
    const bool pairs = l->attrs.rope.type == IG_ROPE_INTERLEAVED;
    const double magnitude = l->attrs.rope.mscale == 0 ? 1 : (double)l->attrs.rope.mscale;
    for (int64_t i = 0; i < dims / 2; i++) {
        const double angle = angle_of(l, dims, at, i);
        const int64_t p = first + (pairs ? 2 * i : i), q = pairs ? p + 1 : p + dims / 2;
        const double x = get(&l->in[0], p), y = get(&l->in[0], q);
        put(&l->out[0], p, magnitude * (x * cos(angle) - y * sin(angle)));
        put(&l->out[0], q, magnitude * (x * sin(angle) + y * cos(angle)));
    }
}

/* x [..., t, h, d], positions [t] or [..., t] */
static void rope(const ig_ref_launch *l) {
    const ig_ref_view *x = &l->in[0], *positions = &l->in[1];
    const int64_t d = columns_of(x), h = x->shape.dim[x->shape.rank - 2];
    const int64_t t = x->shape.dim[x->shape.rank - 3], heads = rows_of(x);
    const int64_t dims = l->attrs.rope.rotary_dims ? l->attrs.rope.rotary_dims : d;

    for (int64_t head = 0; head < heads; head++) {
        const int64_t row = head / h; /* index in [..., t] */
        turn(l, head * d, dims, positions->shape.rank > 1 ? row : row % t);
        for (int64_t j = dims; j < d; j++) put(&l->out[0], head * d + j, get(x, head * d + j));
    }
}

const ig_ref_entry IG_REF_LIST(rope)[] = {
    {IG_OP_ROPE, IG_REF_DTYPE, "rir", "r", rope},
    {0},
};
