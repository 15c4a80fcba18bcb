/*
 * a [..., m, k] x b [..., k, n] + bias [n] -> [..., m, n].  The leading dimensions
 * of a and b are broadcast to the result's already, but for a side that has none
 * at all: it serves for every product.  Both may be stored in halves.  An activation
 * works on the sum as it would have been stored, and a residual is added to that.
 */
#include "backend/ref/convert.h"
#include "backend/ref/functions.h"
#include "backend/ref/real.h"

static int64_t last_but(const ig_ref_view *v, int d) { return v->shape.dim[v->shape.rank - 1 - d]; }

/* The first element of matrix number `batch`; each has `size` elements. */
static int64_t matrix(const ig_ref_view *v, int64_t batch, int64_t size) {
    return v->shape.rank > 2 ? batch * size : 0;
}

static void matmul(const ig_ref_launch *l) {
    const ig_ref_view *a = &l->in[0], *b = &l->in[1], *y = &l->out[0];
    const bool ta = l->attrs.matmul.transpose_a, tb = l->attrs.matmul.transpose_b;
    const int64_t m = last_but(y, 1), n = last_but(y, 0), k = last_but(a, ta ? 1 : 0);
    const int64_t elements = ig_shape_count(y->shape);
    const bool residual = l->attrs.matmul.residual, has_bias = l->n_in - residual > 2;
    unary_fn *activation = activations[l->attrs.matmul.activation];

    for (int64_t e = 0; e < elements; e++) {
        const int64_t batch = e / (m * n), i = e / n % m, j = e % n;
        const int64_t a0 = matrix(a, batch, m * k), b0 = matrix(b, batch, k * n);
        double sum = 0;
        for (int64_t p = 0; p < k; p++)
            sum += ig_ref_get_any(a, a0 + (ta ? p * m + i : i * k + p)) *
                   ig_ref_get_any(b, b0 + (tb ? j * k + p : p * n + j));
        put(y, e, sum + (has_bias ? get(&l->in[2], j) : 0));
        put(y, e, activation(get(y, e)));
        if (residual) put(y, e, get(y, e) + get(&l->in[l->n_in - 1], e));
    }
}

const ig_ref_entry IG_REF_LIST(matmul)[] = {
    {IG_OP_MATMUL, IG_REF_DTYPE, "hhr", "r", matmul},
    {0},
};
