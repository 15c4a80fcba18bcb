/*
 * K-quants: x is approximated by d scale q - m min, with d and m as F16 per super-block, and scale
 * and min in a few bits per group. Groups are fitted independently first, which gives the range of
 * d and m. Then two steps alternate: the best scales and mins for d and m (each group also tries
 * the neighbors of its rounded value), and d and m by least squares over the super-block.
 */
#include "format/quantize/quantize_k.h"

#include <stdbool.h>
#include <string.h>

#include "format/quantize/quantize_fit.h"

enum { MAX_GROUPS = 16, ROUNDS = 1 };

typedef struct block {
    float scale_lo, scale_hi; /* range of the scales; mins have 0 to scale_hi */
    float d, m;               /* rounded to F16 */
    float scale[MAX_GROUPS], min[MAX_GROUPS];
    float error; /* of all groups */
} block;

IG_INLINE float clamp(float x, float lo, float hi) { return x < lo ? lo : x > hi ? hi : x; }

/* The best scale and min for d and m: the rounded value of `wanted`, or a neighbor. */
IG_INLINE float settle_group(const float *x, block *b, int group, line wanted, const grid *g, int n,
                             bool has_min) {
    const float scale = b->d != 0 ? nearest(clamp(wanted.a / b->d, -1000, 1000)) : 0;
    const float min = b->m != 0 ? nearest(clamp(-wanted.m / b->m, -1000, 1000)) : 0;
    const int around = has_min ? 1 : 0;
    float least = INFINITY;
    for (int i = -1; i <= 1; i++)
        for (int k = -around; k <= around; k++) {
            const float this_scale = clamp(scale + (float)i, b->scale_lo, b->scale_hi);
            const float this_min = clamp(min + (float)k, 0, b->scale_hi);
            const float error = measure(x, n, b->d * this_scale, -b->m * this_min, g).error;
            if (error >= least) continue;
            least = error;
            b->scale[group] = this_scale;
            b->min[group] = this_min;
        }
    return least;
}

/* d and m by least squares for the current scales, mins and levels. */
IG_INLINE void solve_block(const float *x, block *b, const grid *g, int n, bool has_min) {
    double ss = 0, sk = 0, kk = 0, xs = 0, xk = 0;
    for (int j = 0; j < IG_BLOCK_K / n; j++) {
        const float offset = -b->m * b->min[j];
        const sums s = measure(x + j * n, n, b->d * b->scale[j], offset, g);
        const double x_sum = (double)s.y + (double)offset * n;
        const double xq_sum = (double)s.yq + (double)offset * s.q;
        const double scale = b->scale[j], min = b->min[j];
        ss += scale * scale * s.qq;
        sk += scale * min * s.q;
        kk += min * min * n;
        xs += scale * xq_sum;
        xk += min * x_sum;
    }
    const double determinant = ss * kk - sk * sk;
    if (has_min && kk > 0 && determinant > 1e-9 * ss * kk) {
        b->d = to_half((float)((xs * kk - xk * sk) / determinant));
        b->m = to_half((float)((xs * sk - xk * ss) / determinant));
    } else if (ss > 0) {
        b->d = to_half((float)((xs + (double)b->m * sk) / ss));
    }
}

/* Fits groups independently, then d and m, then alternates. */
IG_INLINE void fit_block(const float *x, block *b, const grid *g, int n, bool has_min, sweep w) {
    line fits[MAX_GROUPS];
    float widest = 0, deepest = 0;
    for (int j = 0; j < IG_BLOCK_K / n; j++) {
        fits[j] = has_min ? fit_line(x + j * n, n, 0, g, w) : fit_scale(x + j * n, n, g, w);
        if (fabsf(fits[j].a) > fabsf(widest)) widest = fits[j].a;
        if (-fits[j].m > deepest) deepest = -fits[j].m;
    }
    /* The end of the range with the larger magnitude gets the widest group. */
    b->d = to_half(widest / (-b->scale_lo > b->scale_hi ? b->scale_lo : b->scale_hi));
    b->m = to_half(deepest / b->scale_hi);

    block best = {.error = INFINITY};
    for (int round = 0; round <= ROUNDS; round++) {
        b->error = 0;
        for (int j = 0; j < IG_BLOCK_K / n; j++)
            b->error += settle_group(x + j * n, b, j, fits[j], g, n, has_min);
        if (b->error >= best.error) break;
        best = *b;
        solve_block(x, b, g, n, has_min);
    }
    *b = best;
}

/* The level indices of all elements. */
IG_INLINE void block_levels(const float *x, const block *b, const grid *g, int n, uint8_t *out) {
    for (int j = 0; j < IG_BLOCK_K / n; j++)
        levels(x + j * n, n, b->d * b->scale[j], -b->m * b->min[j], g, out + j * n);
}

/* ---- Packing ---- */

/* Packs two bits per element, as in ig_block_q2_k. */
static void pack_two_bits(const uint8_t q[IG_BLOCK_K], int shift, uint8_t *out) {
    memset(out, 0, IG_BLOCK_K / 4);
    for (int i = 0; i < IG_BLOCK_K; i++)
        out[i / 128 * 32 + i % 32] |= (uint8_t)((q[i] >> shift & 3) << 2 * (i % 128 / 32));
}

/* Of each 64 elements, the first 32 go to the low nibbles. */
static void pack_nibbles_k(const uint8_t q[IG_BLOCK_K], uint8_t *out) {
    memset(out, 0, IG_BLOCK_K / 2);
    for (int i = 0; i < IG_BLOCK_K; i++)
        out[i / 64 * 32 + i % 32] |= (uint8_t)((q[i] & 15) << i / 32 % 2 * 4);
}

/* Moves bit `bit` of element 32 j + i to bit j of byte i. */
static void pack_high_bits(const uint8_t q[IG_BLOCK_K], int bit, uint8_t *out) {
    memset(out, 0, IG_BLOCK_K / 8);
    for (int i = 0; i < IG_BLOCK_K; i++) out[i % 32] |= (uint8_t)((q[i] >> bit & 1) << i / 32);
}

/* The inverse of ig_block_k_scale(). */
static void pack_k_scales(const block *b, uint8_t out[12]) {
    for (int j = 0; j < 4; j++) {
        const int low = (int)b->scale[j], high = (int)b->scale[j + 4];
        const int low_min = (int)b->min[j], high_min = (int)b->min[j + 4];
        out[j] = (uint8_t)(low | (high >> 4) << 6);
        out[j + 4] = (uint8_t)(low_min | (high_min >> 4) << 6);
        out[j + 8] = (uint8_t)((high & 15) | (high_min & 15) << 4);
    }
}

/* ---- Types ---- */

static const sweep sweep_q2 = {2, 6, 0.25f}, sweep_q4 = {2, 10, 0.25f}, sweep_q5 = {1, 5, 0.5f},
                   sweep_s3 = {2, 6, 0.25f}, sweep_s6 = {2, 6, 0.5f}, sweep_iq4 = {3, 10, 3};

void encode_q2_k(const float *x, ig_block_q2_k *out) {
    block b = {.scale_hi = 15};
    uint8_t q[IG_BLOCK_K];
    fit_block(x, &b, &grid_q2, 16, true, sweep_q2);
    block_levels(x, &b, &grid_q2, 16, q);
    out->d = ig_f32_to_f16(b.d);
    out->m = ig_f32_to_f16(b.m);
    for (int j = 0; j < 16; j++) out->scales[j] = (uint8_t)((int)b.scale[j] | (int)b.min[j] << 4);
    pack_two_bits(q, 0, out->q);
}

void encode_q3_k(const float *x, ig_block_q3_k *out) {
    block b = {.scale_lo = -32, .scale_hi = 31};
    uint8_t q[IG_BLOCK_K];
    fit_block(x, &b, &grid_s3, 16, false, sweep_s3);
    block_levels(x, &b, &grid_s3, 16, q);
    out->d = ig_f32_to_f16(b.d);
    memset(out->scales, 0, sizeof out->scales);
    for (int j = 0; j < 16; j++) {
        const int scale = (int)b.scale[j] + 32;
        out->scales[j % 8] |= (uint8_t)((scale & 15) << (j < 8 ? 0 : 4));
        out->scales[8 + j % 4] |= (uint8_t)((scale >> 4) << 2 * (j / 4));
    }
    pack_two_bits(q, 0, out->q);
    pack_high_bits(q, 2, out->high);
}

void encode_q4_k(const float *x, ig_block_q4_k *out) {
    block b = {.scale_hi = 63};
    uint8_t q[IG_BLOCK_K];
    fit_block(x, &b, &grid_q4, 32, true, sweep_q4);
    block_levels(x, &b, &grid_q4, 32, q);
    out->d = ig_f32_to_f16(b.d);
    out->m = ig_f32_to_f16(b.m);
    pack_k_scales(&b, out->scales);
    pack_nibbles_k(q, out->q);
}

void encode_q5_k(const float *x, ig_block_q5_k *out) {
    block b = {.scale_hi = 63};
    uint8_t q[IG_BLOCK_K];
    fit_block(x, &b, &grid_q5, 32, true, sweep_q5);
    block_levels(x, &b, &grid_q5, 32, q);
    out->d = ig_f32_to_f16(b.d);
    out->m = ig_f32_to_f16(b.m);
    pack_k_scales(&b, out->scales);
    pack_nibbles_k(q, out->q);
    pack_high_bits(q, 4, out->high);
}

void encode_q6_k(const float *x, ig_block_q6_k *out) {
    block b = {.scale_lo = -128, .scale_hi = 127};
    uint8_t q[IG_BLOCK_K];
    fit_block(x, &b, &grid_s6, 16, false, sweep_s6);
    block_levels(x, &b, &grid_s6, 16, q);
    out->d = ig_f32_to_f16(b.d);
    for (int j = 0; j < 16; j++) out->scales[j] = (int8_t)b.scale[j];
    for (int i = 0; i < IG_BLOCK_K / 2; i++) { /* 64 low and 64 high nibbles per 128 elements */
        const uint8_t *of = q + i / 64 * 128 + i % 64;
        out->low[i] = (uint8_t)((of[0] & 15) | (of[64] & 15) << 4);
    }
    pack_two_bits(q, 4, out->high);
}

void encode_iq4_xs(const float *x, ig_block_iq4_xs *out) {
    block b = {.scale_lo = -32, .scale_hi = 31};
    uint8_t q[IG_BLOCK_K];
    fit_block(x, &b, &grid_iq4, 32, false, sweep_iq4);
    block_levels(x, &b, &grid_iq4, 32, q);
    memset(out, 0, sizeof *out);
    out->d = ig_f32_to_f16(b.d);
    for (int j = 0; j < 8; j++) {
        const int scale = (int)b.scale[j] + 32;
        out->low[j / 2] |= (uint8_t)((scale & 15) << 4 * (j % 2));
        out->high |= (uint16_t)((scale >> 4) << 2 * j);
        for (int i = 0; i < 16; i++)
            out->q[16 * j + i] = (uint8_t)(q[32 * j + i] | q[32 * j + i + 16] << 4);
    }
}
