/*
 * Norms along the last dimension n, and their gradients with respect to x. Both are
 *     y = w xhat + b,   xhat = (x - mean) r
 * where rms_norm has mean 0 and r = 1 / sqrt(mean(x^2) + eps), and layer_norm has the row's mean
 * and r = 1 / sqrt(variance + eps), with the population variance. With g = w dy the gradient is
 *     dx = r (g - xhat mean(g xhat) - mean(g))        without the last term for rms_norm
 */
#include <math.h>

#include "backend/ref/real.h"

typedef enum center { AROUND_ZERO, AROUND_MEAN } center;

typedef struct moments {
    double mean, r;
} moments;

static moments moments_of(const ig_ref_view *x, int64_t row, int64_t n, double eps, center c) {
    double sum = 0, squares = 0;
    for (int64_t j = 0; j < n; j++) sum += get(x, row * n + j);
    const double mean = c == AROUND_MEAN ? sum / (double)n : 0;
    for (int64_t j = 0; j < n; j++) {
        const double from_center = get(x, row * n + j) - mean;
        squares += from_center * from_center;
    }
    return (moments){mean, 1 / sqrt(squares / (double)n + eps)};
}

/* x [..., n], w [n] and b [n] or none */
static void norm(const ig_ref_launch *l, center c) {
    const int64_t rows = rows_of(&l->in[0]), n = columns_of(&l->in[0]);
    for (int64_t row = 0; row < rows; row++) {
        const moments m = moments_of(&l->in[0], row, n, (double)l->attrs.norm.eps, c);
        for (int64_t j = 0; j < n; j++) {
            const double w = l->n_in > 1 ? get(&l->in[1], j) : 1;
            const double b = l->n_in > 2 ? get(&l->in[2], j) : 0;
            put(&l->out[0], row * n + j, w * (get(&l->in[0], row * n + j) - m.mean) * m.r + b);
        }
    }
}

/* x, dy, w or none -> dx */
static void norm_grad(const ig_ref_launch *l, center c) {
    const ig_ref_view *x = &l->in[0], *dy = &l->in[1], *w = l->n_in > 2 ? &l->in[2] : NULL;
    const int64_t rows = rows_of(x), n = columns_of(x);
    for (int64_t row = 0; row < rows; row++) {
        const moments m = moments_of(x, row, n, (double)l->attrs.norm.eps, c);
        double mean_g = 0, mean_gx = 0;
        for (int64_t j = 0; j < n; j++) {
            const double g = get(dy, row * n + j) * (w ? get(w, j) : 1);
            mean_g += g / (double)n;
            mean_gx += g * (get(x, row * n + j) - m.mean) * m.r / (double)n;
        }
        if (c == AROUND_ZERO) mean_g = 0;
        for (int64_t j = 0; j < n; j++) {
            const double g = get(dy, row * n + j) * (w ? get(w, j) : 1);
            const double xhat = (get(x, row * n + j) - m.mean) * m.r;
            put(&l->out[0], row * n + j, m.r * (g - xhat * mean_gx - mean_g));
        }
    }
}

static void rms_norm(const ig_ref_launch *l) { norm(l, AROUND_ZERO); }
static void rms_norm_grad(const ig_ref_launch *l) { norm_grad(l, AROUND_ZERO); }
static void layer_norm(const ig_ref_launch *l) { norm(l, AROUND_MEAN); }
static void layer_norm_grad(const ig_ref_launch *l) { norm_grad(l, AROUND_MEAN); }

const ig_ref_entry IG_REF_LIST(norm)[] = {
    {IG_OP_RMS_NORM, IG_REF_DTYPE, "rr", "r", rms_norm},
    {IG_OP_RMS_NORM_GRAD, IG_REF_DTYPE, "rrr", "r", rms_norm_grad},
    {IG_OP_LAYER_NORM, IG_REF_DTYPE, "rrr", "r", layer_norm},
    {IG_OP_LAYER_NORM_GRAD, IG_REF_DTYPE, "rrr", "r", layer_norm_grad},
    {0},
};
