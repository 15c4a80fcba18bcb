#include "graph/op_cost.h"

static uint64_t count(const ig_operand *o) { return (uint64_t)ig_shape_count(o->desc.shape); }

/* Two FLOPs per multiply-add. */
static uint64_t matmul_flop(const ig_step *step) {
    ig_attrs_matmul attrs;
    ig_step_attrs(step, &attrs, sizeof attrs);
    const ig_shape a = step->in[0].desc.shape;
    return 2 * count(&step->out[0]) * (uint64_t)a.dim[a.rank - (attrs.transpose_a ? 2 : 1)];
}

/* x [s, k] times the expert matrix of each row -> [s, n]; or the gradient from x and dy [s, n]. */
static uint64_t grouped_flop(const ig_step *step) {
    const ig_operand *other = step->op == IG_OP_MATMUL_GROUPED ? &step->out[0] : &step->in[1];
    return 2 * count(&step->in[0]) * (uint64_t)other->desc.shape.dim[1];
}

/* Two matmuls of [t, s, head_dim] per head (Q K^T and P V), half of it if causal; five in the
 * gradient. */
static uint64_t attention_flop(const ig_step *step) {
    ig_attrs_attention attrs;
    ig_step_attrs(step, &attrs, sizeof attrs);
    const uint64_t all = 2 * count(&step->in[0]) * (uint64_t)step->in[1].desc.shape.dim[1];
    const uint64_t products = step->op == IG_OP_ATTENTION ? 2 : 5;
    return all * products / (attrs.causal ? 2 : 1);
}

/* Whether the step touches only some rows of operand i, as many as another operand has. The part
 * of a paged KV cache that is read is known only at run time, and is not counted. */
static bool touches_rows(const ig_step *step, uint32_t i) {
    switch (step->op) {
    case IG_OP_EMBEDDING: return i == 0;                     /* as many as the rows of `out` */
    case IG_OP_STORE_ROWS: return i == 0 || i == step->n_in; /* as many as the rows of `rows` */
    case IG_OP_ATTENTION_PAGED: return i == 1 || i == 2;
    default: return false;
    }
}

uint64_t ig_step_flop(const ig_step *step) {
    if (step->op == IG_OP_MATMUL) return matmul_flop(step);
    if (step->op == IG_OP_MATMUL_GROUPED || step->op == IG_OP_MATMUL_GROUPED_GRAD)
        return grouped_flop(step);
    if (step->op == IG_OP_ATTENTION || step->op == IG_OP_ATTENTION_GRAD)
        return attention_flop(step);
    uint64_t most = 0; /* one per element of the largest operand */
    for (uint32_t i = 0; i < step->n_in + step->n_out; i++)
        if (!touches_rows(step, i) && count(ig_step_operand(step, i)) > most)
            most = count(ig_step_operand(step, i));
    return most;
}

/* A broadcast dimension is stored once. */
uint64_t ig_operand_bytes(const ig_operand *o) {
    ig_desc desc = o->desc;
    uint64_t bytes = 0;
    for (int d = 0; d < desc.shape.rank; d++)
        if (o->stride[d] == 0 && desc.shape.dim[d] > 1) desc.shape.dim[d] = 1;
    return ig_desc_bytes(desc, &bytes) ? bytes : 0;
}

/* At most one expert matrix per row is read. */
static uint64_t touched_bytes(const ig_step *step, uint32_t i) {
    const ig_operand *o = ig_step_operand(step, i);
    const uint64_t all = ig_operand_bytes(o);
    if (step->op != IG_OP_MATMUL_GROUPED || i != 1) return all;
    const uint64_t rows = (uint64_t)step->in[0].desc.shape.dim[0];
    const uint64_t experts = (uint64_t)o->desc.shape.dim[0];
    return rows < experts ? all / experts * rows : all;
}

uint64_t ig_step_bytes(const ig_step *step) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < step->n_in + step->n_out; i++)
        if (!touches_rows(step, i)) bytes += touched_bytes(step, i);
    return bytes;
}
