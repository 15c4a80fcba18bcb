/*
 * Weights in 16-bit floats or quantization blocks, dequantized as they are read:
 * base/quant_blocks.c lists the dtypes.
 */
#include "backend/ref/functions.h"
#include "backend/ref/real.h"
#include "backend/ref/ref_convert.h"
#include "backend/ref/weights.h"

/* a [..., m, k], b [n, k], bias [n] or none -> [..., m, n], through an activation; plus an
 * optional residual */
static void matmul(const ig_ref_launch *l) {
    const ig_ref_view *a = &l->in[0], *b = &l->in[1], *y = &l->out[0];
    const int64_t rows = rows_of(y), n = columns_of(y), k = columns_of(a);
    const bool residual = l->attrs.matmul.residual, has_bias = l->n_in - residual > 2;
    unary_fn *activation = activations[l->attrs.matmul.activation];
    ig_ref_weights weights = ig_ref_weights_of(b);

    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < rows; i++) {
            double sum = 0;
            for (int64_t p = 0; p < k; p++)
                sum += get(a, i * k + p) * ig_ref_weight(&weights, j * k + p);
            const int64_t e = i * n + j;
            put(y, e, sum + (has_bias ? get(&l->in[2], j) : 0));
            put(y, e, activation(get(y, e)));
            if (residual) put(y, e, get(y, e) + get(&l->in[l->n_in - 1], e));
        }
}

/* table [v, d], ids [...] -> [..., d] */
static void embedding(const ig_ref_launch *l) {
    const int64_t v = l->in[0].shape.dim[0], d = l->in[0].shape.dim[1];
    const int64_t n = ig_shape_count(l->out[0].shape);
    ig_ref_weights table = ig_ref_weights_of(&l->in[0]);
    for (int64_t i = 0; i < n; i++) {
        const int64_t id = get_index(&l->in[1], i / d);
        const bool inside = id >= 0 && id < v;
        put(&l->out[0], i, inside ? ig_ref_weight(&table, id * d + i % d) : (double)NAN);
    }
}

static void cast(const ig_ref_launch *l) {
    const int64_t n = ig_shape_count(l->out[0].shape);
    ig_ref_weights weights = ig_ref_weights_of(&l->in[0]);
    for (int64_t i = 0; i < n; i++) ig_ref_put_any(&l->out[0], i, ig_ref_weight(&weights, i));
}

const ig_ref_entry IG_REF_LIST(matmul_quant)[] = {
    {IG_OP_MATMUL, IG_REF_DTYPE, "rwr", "r", matmul},
    {IG_OP_EMBEDDING, IG_REF_DTYPE, "wi", "r", embedding},
    {IG_OP_CAST, IG_REF_DTYPE, "w", "a", cast},
    {0},
};
