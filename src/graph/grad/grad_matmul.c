/* Gradient rules of matmul. */
#include "graph/grad/grad_build.h"

static ig_value matmul(ig_graph *g, ig_value a, ig_value b, uint32_t transpose_a,
                       uint32_t transpose_b) {
    const ig_attrs_matmul attrs = {.transpose_a = transpose_a, .transpose_b = transpose_b};
    return ig_build(g, IG_OP_MATMUL, &attrs, (ig_value[]){a, b}, 2);
}

/*
 * c = a b:    da = dc b^T,  db = a^T dc
 * c = a b^T:  da = dc b,    db = dc^T a
 * c = a^T b:  da = b dc^T,  db = a dc
 * c = a^T b^T: da = b^T dc^T, db = dc^T a^T
 * Gradients are summed over broadcast dimensions. For a matrix b shared by a batch, db is one
 * matmul over all its rows: [..., m, k] is viewed as [rows, k]. The gradient of a 16-bit operand is
 * f32, as dc is.
 */
void ig_grad_matmul(const ig_grad *r) {
    const ig_attrs_matmul *t = r->attrs;
    ig_value a = r->in[0], dc = r->dout[0];
    const bool half = is_half(dtype_of(r, r->in[1])); /* quantized blocks are cast first */
    const ig_value b = r->wanted[0] && !half ? as_numbers(r, r->in[1], dc) : r->in[1];

    if (r->wanted[0]) {
        const ig_value da = t->transpose_a ? matmul(r->g, b, dc, t->transpose_b, 1)
                                           : matmul(r->g, dc, b, 0, !t->transpose_b);
        r->din[0] = to_shape_of(r, 0, da);
    }
    if (r->n_in > 2 && r->wanted[2]) r->din[2] = to_shape_of(r, 2, dc);
    if (!r->wanted[1]) return;
    if (ig_value_shape(r->g, b).rank == 2 && !t->transpose_a) {
        a = ig_build_rows(r->g, a);
        dc = ig_build_rows(r->g, dc);
    }
    const ig_value db = t->transpose_b ? matmul(r->g, dc, a, 1, t->transpose_a)
                                       : matmul(r->g, a, dc, !t->transpose_a, 0);
    r->din[1] = to_shape_of(r, 1, db);
}
