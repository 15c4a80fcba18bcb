/*
 * Softmax, log-softmax and cross-entropy along the last dimension. The row's maximum is subtracted
 * before exp, to avoid overflow.
 */
#include <math.h>

#include "backend/ref/real.h"

/* A row's maximum, and the sum of exp(x - max). */
typedef struct peak {
    double largest, sum;
} peak;

static peak peak_of(const ig_ref_view *x, int64_t row, int64_t n) {
    peak p = {-(double)INFINITY, 0};
    for (int64_t j = 0; j < n; j++) p.largest = fmax(p.largest, get(x, row * n + j));
    for (int64_t j = 0; j < n; j++) p.sum += exp(get(x, row * n + j) - p.largest);
    return p;
}

static void softmax(const ig_ref_launch *l) {
    const int64_t rows = rows_of(&l->in[0]), n = columns_of(&l->in[0]);
    for (int64_t row = 0; row < rows; row++) {
        const peak p = peak_of(&l->in[0], row, n);
        for (int64_t j = row * n; j < (row + 1) * n; j++)
            put(&l->out[0], j, exp(get(&l->in[0], j) - p.largest) / p.sum);
    }
}

static void log_softmax(const ig_ref_launch *l) {
    const int64_t rows = rows_of(&l->in[0]), n = columns_of(&l->in[0]);
    for (int64_t row = 0; row < rows; row++) {
        const peak p = peak_of(&l->in[0], row, n);
        for (int64_t j = row * n; j < (row + 1) * n; j++)
            put(&l->out[0], j, get(&l->in[0], j) - p.largest - log(p.sum));
    }
}

/* logits [..., n], targets [...] -> -log(softmax(logits)[target]); NaN if the target is out of
 * range */
static void cross_entropy(const ig_ref_launch *l) {
    const int64_t rows = rows_of(&l->in[0]), n = columns_of(&l->in[0]);
    for (int64_t row = 0; row < rows; row++) {
        const int64_t target = get_index(&l->in[1], row);
        const peak p = peak_of(&l->in[0], row, n);
        double loss = (double)NAN;
        if (target >= 0 && target < n)
            loss = log(p.sum) - (get(&l->in[0], row * n + target) - p.largest);
        put(&l->out[0], row, loss);
    }
}

/* dlogits = (softmax(logits) - [j == target]) dloss; a row of NaN if the target is out of range */
static void cross_entropy_grad(const ig_ref_launch *l) {
    const int64_t rows = rows_of(&l->in[0]), n = columns_of(&l->in[0]);
    for (int64_t row = 0; row < rows; row++) {
        const int64_t target = get_index(&l->in[1], row);
        const peak p = peak_of(&l->in[0], row, n);
        const double dloss = target >= 0 && target < n ? get(&l->in[2], row) : (double)NAN;
        for (int64_t j = 0; j < n; j++) {
            const double share = exp(get(&l->in[0], row * n + j) - p.largest) / p.sum;
            put(&l->out[0], row * n + j, (share - (j == target)) * dloss);
        }
    }
}

const ig_ref_entry IG_REF_LIST(softmax)[] = {
    {IG_OP_SOFTMAX, IG_REF_DTYPE, "r", "r", softmax},
    {IG_OP_LOG_SOFTMAX, IG_REF_DTYPE, "r", "r", log_softmax},
    {IG_OP_CROSS_ENTROPY, IG_REF_DTYPE, "ri", "r", cross_entropy},
    {IG_OP_CROSS_ENTROPY_GRAD, IG_REF_DTYPE, "rir", "r", cross_entropy_grad},
    {0},
};
