/*
 * quantize_fit.h - the least-squares scale of a group of numbers, for quantize.c and quantize_k.c.
 *
 * Finds the scale a (and offset m) of a group x that minimize
 *
 *     sum (x - m - a q(x))^2,     q(x) the level of the type's grid nearest to (x - m) / a
 *
 * For fixed levels q, the best a and m follow by least squares; for fixed a and m, the best levels
 * are the nearest ones. Alternating between the two converges to a local minimum, so it starts from
 * several points, which differ in the level assigned to the group's extreme.
 *
 * Everything here is inlined with a constant grid and a constant n, a multiple of LANES.
 */
#ifndef IG_FORMAT_QUANTIZE_QUANTIZE_FIT_H
#define IG_FORMAT_QUANTIZE_QUANTIZE_FIT_H

#include <float.h>
#include <math.h>
#include <stdint.h>

#include "base/f16.h"

/* ---- Levels ---- */

enum { LANES = 4, MAX_LEVELS = 16 };

/* Levels lo, lo + 1, ... hi; or the `n_values` listed, ascending. */
typedef struct grid {
    float lo, hi;
    int n_values;
    float values[MAX_LEVELS], middles[MAX_LEVELS]; /* middles[i] between values i and i + 1 */
} grid;

#define IG_INLINE static inline __attribute__((always_inline))

/* Adding 1.5 * 2^23 rounds to an integer. */
IG_INLINE float nearest(float x) { return (x + 0x1.8p23f) - 0x1.8p23f; }

IG_INLINE float snap(float y, const grid *g) {
    y = y < g->lo ? g->lo : y;
    y = y > g->hi ? g->hi : y;
    if (g->n_values == 0) return nearest(y);
    float value = g->values[0];
    for (int i = 0; i + 1 < g->n_values; i++)
        value += y > g->middles[i] ? g->values[i + 1] - g->values[i] : 0;
    return value;
}

static const grid grid_q2 = {.lo = 0, .hi = 3}, grid_q4 = {.lo = 0, .hi = 15},
                  grid_q5 = {.lo = 0, .hi = 31}, grid_s3 = {.lo = -4, .hi = 3},
                  grid_s4 = {.lo = -8, .hi = 7}, grid_s5 = {.lo = -16, .hi = 15},
                  grid_s6 = {.lo = -32, .hi = 31};
static const grid grid_iq4 = {
    .lo = -127,
    .hi = 113,
    .n_values = 16,
    .values = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},
    .middles = {-115.5f, -93.5f, -74, -57, -42, -28.5f, -16, -4.5f, 7, 19, 31.5f, 45.5f, 61, 79,
                101},
};
static const grid grid_mxfp4 = {
    .lo = -12,
    .hi = 12,
    .n_values = 15,
    .values = {-12, -8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12},
    .middles = {-10, -7, -5, -3.5f, -2.5f, -1.5f, -0.5f, 0.5f, 1.5f, 2.5f, 3.5f, 5, 7, 10},
};

/* ---- One group ---- */

typedef struct line {
    float a, m; /* x is approximated by a q + m */
    float error;
} line;

typedef struct sums {
    float error, y, q, qq, yq; /* y = x - m */
} sums;

IG_INLINE float total(const float lanes[LANES]) {
    float sum = 0;
    for (int j = 0; j < LANES; j++) sum += lanes[j];
    return sum;
}

/* Rounds to the nearest levels; returns their squared error and the sums for least squares. */
IG_INLINE sums measure(const float *x, int n, float a, float m, const grid *g) {
    float error[LANES] = {0}, y[LANES] = {0}, q[LANES] = {0}, qq[LANES] = {0}, yq[LANES] = {0};
    const float inverse = fabsf(a) > FLT_MIN ? 1 / a : 0;
    for (int i = 0; i < n; i += LANES)
        for (int j = 0; j < LANES; j++) {
            const float this_y = x[i + j] - m, level = snap(this_y * inverse, g);
            const float off = this_y - a * level;
            error[j] += off * off;
            y[j] += this_y;
            q[j] += level;
            qq[j] += level * level;
            yq[j] += this_y * level;
        }
    return (sums){total(error), total(y), total(q), total(qq), total(yq)};
}

/* Least squares for the levels of a, without an offset. */
IG_INLINE line improve_scale(const float *x, int n, float a, const grid *g) {
    const sums s = measure(x, n, a, 0, g);
    if (s.qq <= 0) return (line){a, 0, s.error};
    const float off = s.yq - a * s.qq;
    return (line){a + off / s.qq, 0, s.error - off * off / s.qq};
}

/* Least squares with an offset, which must not exceed `highest`. */
IG_INLINE line improve_line(const float *x, int n, line start, float highest, const grid *g) {
    const sums s = measure(x, n, start.a, start.m, g);
    const float determinant = (float)n * s.qq - s.q * s.q;
    if (determinant <= 0) return (line){start.a, start.m, s.error};
    /* The residual r = y - a q, fitted as a line in q. */
    const float r = s.y - start.a * s.q, rq = s.yq - start.a * s.qq;
    const float slope = ((float)n * rq - s.q * r) / determinant;
    const float offset = (r - slope * s.q) / (float)n;
    if (start.m + offset <= highest)
        return (line){start.a + slope, start.m + offset, s.error - slope * rq - offset * r};
    const float up = highest - start.m, bent = (rq - up * s.q) / s.qq;
    const float error = s.error + up * up * (float)n - 2 * up * r - bent * (rq - up * s.q);
    return (line){start.a + bent, highest, error};
}

/* Starting points: the extreme element gets the grid's last level, or one up to `below` steps
 * below or `above` steps above it. */
typedef struct sweep {
    int below, above;
    float step;
} sweep;

enum { DESCENTS = 2 }; /* iterations from the best start */

IG_INLINE line fit_scale(const float *x, int n, const grid *g, sweep w) {
    float extreme = 0, square = 0;
    for (int i = 0; i < n; i++) {
        if (fabsf(x[i]) > fabsf(extreme)) extreme = x[i];
        square += x[i] * x[i];
    }
    line best = {0, 0, square};
    if (fabsf(extreme) < FLT_MIN * 1024) return best;
    for (int i = -w.below; i <= w.above; i++) {
        const float more = (float)i * w.step;
        const line up = improve_scale(x, n, extreme / (g->hi + more), g);
        const line down = improve_scale(x, n, extreme / (g->lo - more), g);
        best = up.error < best.error ? up : best;
        best = down.error < best.error ? down : best;
    }
    for (int i = 0; i < DESCENTS; i++) best = improve_scale(x, n, best.a, g);
    return best;
}

IG_INLINE line fit_line(const float *x, int n, float highest, const grid *g, sweep w) {
    float low = x[0], high = x[0];
    for (int i = 1; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    low = low < highest ? low : highest;
    line best = {0, low, measure(x, n, 0, low, g).error};
    if (high - low < FLT_MIN * 1024) return best;
    for (int i = -w.below; i <= w.above; i++) {
        const line start = {(high - low) / (g->hi + (float)i * w.step), low, 0};
        const line next = improve_line(x, n, start, highest, g);
        best = next.error < best.error ? next : best;
    }
    for (int i = 0; i < DESCENTS; i++) best = improve_line(x, n, best, highest, g);
    return best;
}

/* The indices of the nearest levels. */
IG_INLINE void levels(const float *x, int n, float a, float m, const grid *g, uint8_t *out) {
    const float inverse = fabsf(a) > FLT_MIN ? 1 / a : 0;
    for (int i = 0; i < n; i++) {
        const float level = snap((x[i] - m) * inverse, g);
        out[i] = (uint8_t)(level - g->lo);
        if (g->n_values == 0) continue;
        for (out[i] = 0; g->values[out[i]] != level;) out[i]++;
    }
}

/* Scales are stored as F16: the nearest finite value. */
static inline float to_half(float x) {
    const float largest = 65504;
    return ig_f16_to_f32(ig_f32_to_f16(x > largest ? largest : x < -largest ? -largest : x));
}

#endif
