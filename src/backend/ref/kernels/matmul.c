/*
 * a [..., m, k] x b [..., k, n] + bias [n] -> [..., m, n]. The leading dimensions of a and b are
 * already broadcast to the result's, except for a side without any: it is shared by the batch. Both
 * may be F16 or BF16. An activation applies to the sum rounded to the result's dtype, and a
 * residual is added to that.
 */
#include "backend/ref/functions.h"
#include "backend/ref/real.h"
#include "backend/ref/ref_convert.h"

static int64_t last_but(const ig_ref_view *v, int d) { return v->shape.dim[v->shape.rank - 1 - d]; }

/* The offset of matrix `batch`; each has `size` elements. */
static int64_t matrix(const ig_ref_view *v, int64_t batch, int64_t size) {
    return v->shape.rank > 2 ? batch * size : 0;
}

/* Epilogue: bias, activation and residual of element e, in column j, from its sum. */
static void finish(const ig_ref_launch *l, int64_t e, int64_t j, double sum) {
    const ig_ref_view *y = &l->out[0];
    const bool residual = l->attrs.matmul.residual, has_bias = l->n_in - residual > 2;
    put(y, e, sum + (has_bias ? get(&l->in[2], j) : 0));
    put(y, e, activations[l->attrs.matmul.activation](get(y, e)));
    if (residual) put(y, e, get(y, e) + get(&l->in[l->n_in - 1], e));
}

/* Side of a block of accumulators: each operand is loaded once for all of them, and each sum is
 * accumulated in the order of p, whatever the block size. Element by element takes five times as
 * long. */
enum { SIDE = 8 };

static int64_t at_most_side(int64_t n) { return n < SIDE ? n : SIDE; }

/* A block of rows from i and columns from j, of matrix `batch`. */
static void block(const ig_ref_launch *l, int64_t batch, int64_t i, int64_t j) {
    const ig_ref_view *a = &l->in[0], *b = &l->in[1], *y = &l->out[0];
    const bool ta = l->attrs.matmul.transpose_a, tb = l->attrs.matmul.transpose_b;
    const int64_t m = last_but(y, 1), n = last_but(y, 0), k = last_but(a, ta ? 1 : 0);
    const int64_t a0 = matrix(a, batch, m * k), b0 = matrix(b, batch, k * n);
    const int64_t rows = at_most_side(m - i), columns = at_most_side(n - j);

    double sum[SIDE][SIDE] = {{0}};
    for (int64_t p = 0; p < k; p++) {
        double row[SIDE] = {0}; /* a row of b */
        for (int64_t c = 0; c < columns; c++)
            row[c] = ig_ref_get_any(b, b0 + (tb ? (j + c) * k + p : p * n + j + c));
        for (int64_t r = 0; r < rows; r++) {
            const double x = ig_ref_get_any(a, a0 + (ta ? p * m + i + r : (i + r) * k + p));
            for (int c = 0; c < SIDE; c++) sum[r][c] += x * row[c];
        }
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            finish(l, (batch * m + i + r) * n + j + c, j + c, sum[r][c]);
}

static void matmul(const ig_ref_launch *l) {
    const int64_t m = last_but(&l->out[0], 1), n = last_but(&l->out[0], 0);
    const int64_t elements = ig_shape_count(l->out[0].shape);
    for (int64_t batch = 0; batch * m * n < elements; batch++)
        for (int64_t i = 0; i < m; i += SIDE)
            for (int64_t j = 0; j < n; j += SIDE) block(l, batch, i, j);
}

const ig_ref_entry IG_REF_LIST(matmul)[] = {
    {IG_OP_MATMUL, IG_REF_DTYPE, "hhr", "r", matmul},
    {0},
};
