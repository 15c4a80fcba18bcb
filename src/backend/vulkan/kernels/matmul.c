/*
 * Products.  Transposes are strides; what is stored in halves or blocks is
 * decoded where it is read.  A few rows go to a kernel that reads the weights just
 * once, all else to one that works in tiles.
 */
#include "backend/vulkan/kernels/setup.h"

enum { FEW_ROWS = 8, LARGE_TILE = 64, SMALL_TILE = 32, TILE_THREADS = 256 };

/* The matrices of a batch; a side without one has a single matrix for all. */
static vk_places matrices_of(const ig_operand *o) {
    vk_places p = vk_places_make(o, 2);
    if (o->desc.shape.rank == 2) p.stride[0] = 0;
    return p;
}

/* Rows of all matrices of a batch as one matrix's, if b serves for all and they follow evenly. */
static void join_rows(const ig_operand *a, const ig_operand *b, vk_matmul_params *p) {
    const int rank = a->desc.shape.rank;
    int64_t rows = p->m;
    if (b->desc.shape.rank > 2 || rank == 2) return;
    for (int d = rank - 3; d >= 0; d--) {
        if (a->desc.shape.dim[d] != 1 && a->stride[d] != rows * (int64_t)p->a_row) return;
        rows *= a->desc.shape.dim[d];
    }
    p->m = (uint32_t)rows;
    p->batches = 1;
}

static void params_of(const ig_step *step, const ig_attrs_matmul *attrs, vk_matmul_params *p) {
    const ig_operand *a = &step->in[0], *b = &step->in[1], *out = &step->out[0];
    const int ra = a->desc.shape.rank, rb = b->desc.shape.rank, ro = out->desc.shape.rank;
    const int a_k = attrs->transpose_a ? ra - 2 : ra - 1, a_row = ra - 1 + ra - 2 - a_k;
    const int b_k = attrs->transpose_b ? rb - 1 : rb - 2, b_column = rb - 1 + rb - 2 - b_k;
    *p = (vk_matmul_params){.m = (uint32_t)out->desc.shape.dim[ro - 2],
                            .n = (uint32_t)out->desc.shape.dim[ro - 1],
                            .k = (uint32_t)a->desc.shape.dim[a_k],
                            .batches = 1,
                            .a_row = (uint32_t)a->stride[a_row],
                            .a_k = (uint32_t)a->stride[a_k],
                            .b_column = (uint32_t)b->stride[b_column],
                            .b_k = (uint32_t)b->stride[b_k],
                            .bias_stride = step->n_in > 2 ? (uint32_t)step->in[2].stride[0] : 0,
                            .a = matrices_of(a),
                            .b = matrices_of(b)};
    for (int d = 0; d < ro - 2; d++) p->batches *= (uint32_t)out->desc.shape.dim[d];
    if (!attrs->transpose_a) join_rows(a, b, p);
}

static bool takes(const ig_step *step, const ig_attrs_matmul *attrs) {
    const ig_operand *b = &step->in[1];
    if (attrs->activation > IG_ACTIVATION_GELU_TANH || b->desc.dtype == IG_I32) return false;
    if (!ig_blocks_can_decode(b->desc.dtype) || !vk_operands_are(step, 2, IG_F32)) return false;
    /* Blocks lie along k, and in rows. */
    if (ig_dtype_block(b->desc.dtype) > 1 &&
        (!attrs->transpose_b || b->stride[b->desc.shape.rank - 1] != 1))
        return false;
    return vk_outputs_are_packed(step);
}

static bool matmul(const ig_step *step, vk_builder *b) {
    const ig_operand *x = &step->in[0], *w = &step->in[1], *out = &step->out[0];
    const ig_operand *bias = step->n_in > 2 ? &step->in[2] : x;
    ig_attrs_matmul attrs;
    vk_matmul_params p;
    ig_step_attrs(step, &attrs, sizeof attrs);
    if (!takes(step, &attrs)) return false;
    if (vk_count(out) == 0) return true;
    params_of(step, &attrs, &p);

    vk_dispatch d = {.shader = VK_SHADER_matmul,
                     .n_refs = 4,
                     .ref = {vk_reads(x), vk_reads(w), vk_reads(bias), vk_writes(out)},
                     .params = &p,
                     .params_bytes = sizeof p};
    const uint32_t dtype = (uint32_t)w->desc.dtype;
    const bool rows = p.m <= FEW_ROWS && p.batches == 1 && p.b_k == 1 && p.a_k == 1;
    if (rows) {
        d.shader = VK_SHADER_matvec;
        d.groups[0] = vk_groups(p.n, 1);
        memcpy(
            d.constant,
            (uint32_t[]){vk_row_group(p.k), p.m, 0, dtype, 0, 0, attrs.activation, step->n_in > 2},
            sizeof d.constant);
    } else {
        const uint32_t large =
            (p.m + LARGE_TILE - 1) / LARGE_TILE * ((p.n + LARGE_TILE - 1) / LARGE_TILE);
        const uint32_t tile = large * p.batches >= 64 ? LARGE_TILE : SMALL_TILE;
        d.groups[0] = (p.n + tile - 1) / tile;
        d.groups[1] = (p.m + tile - 1) / tile;
        d.groups[2] = p.batches < VK_MOST_GROUPS ? p.batches : VK_MOST_GROUPS;
        if (d.groups[0] > VK_MOST_GROUPS || d.groups[1] > VK_MOST_GROUPS) return false;
        memcpy(d.constant,
               (uint32_t[]){TILE_THREADS, tile, tile, dtype, p.a_k <= p.a_row, p.b_k <= p.b_column,
                            attrs.activation, step->n_in > 2},
               sizeof d.constant);
    }
    vk_emit(b, &d);
    return true;
}

const vk_entry vk_matmul[] = {
    {IG_OP_MATMUL, IG_F32, matmul},
    {0},
};
