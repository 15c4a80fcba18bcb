/* Gathers and scatters. Each result is written by one thread that adds in order, so results do not
 * depend on scheduling. */
#include "backend/vulkan/kernels/setup.h"

static bool is_plain(ig_dtype dtype) {
    return dtype == IG_F32 || dtype == IG_F16 || dtype == IG_BF16 || dtype == IG_I32;
}

/* Results over `shape`, from index and x with these strides; `axis_stride` is x's stride along the
 * indexed axis. */
static bool emit_gather(const ig_step *step, vk_builder *b, const int64_t *const *stride,
                        int64_t axis_stride, int64_t extent) {
    const ig_operand *x = &step->in[0], *index = &step->in[1], *out = &step->out[0];
    const bool same = x->desc.dtype == out->desc.dtype && is_plain(x->desc.dtype);
    if (index->desc.dtype != IG_I32 || (!same && out->desc.dtype != IG_F32)) return false;
    const vk_move_params p = {.loop = vk_loop_make(out->desc.shape, stride, 3),
                              .axis_stride = (uint32_t)axis_stride,
                              .extent = (uint32_t)extent};
    if (p.loop.n == 0) return true;
    const vk_dispatch d = {
        .shader = VK_SHADER_index,
        .constant = {VK_GROUP, same ? VK_GATHER : VK_GATHER_DECODED, (uint32_t)x->desc.dtype},
        .groups = {vk_groups(p.loop.n, VK_GROUP)},
        .n_refs = 3,
        .ref = {vk_reads(index), vk_reads(x), vk_writes(out)},
        .params = &p,
        .params_bytes = sizeof p};
    vk_emit(b, &d);
    return true;
}

static bool gather(const ig_step *step, vk_builder *b) {
    const ig_operand *x = &step->in[0];
    ig_attrs_axis a;
    int64_t rest[IG_MAX_RANK];
    ig_step_attrs(step, &a, sizeof a);
    memcpy(rest, x->stride, sizeof rest);
    rest[a.axis] = 0;
    const int64_t *stride[] = {step->in[1].stride, rest, step->out[0].stride};
    return x->desc.dtype == step->out[0].desc.dtype &&
           emit_gather(step, b, stride, x->stride[a.axis], x->desc.shape.dim[a.axis]);
}

/* table [v, d], ids [...] -> [..., d]: ids repeat along d, table rows along the other dimensions */
static bool embedding(const ig_step *step, vk_builder *b) {
    const ig_operand *table = &step->in[0], *ids = &step->in[1];
    const int last = step->out[0].desc.shape.rank - 1;
    int64_t of_ids[IG_MAX_RANK] = {0}, of_table[IG_MAX_RANK] = {0};
    memcpy(of_ids, ids->stride, (size_t)last * sizeof *of_ids);
    of_table[last] = table->stride[1];
    const int64_t *stride[] = {of_ids, of_table, step->out[0].stride};
    return emit_gather(step, b, stride, table->stride[0], table->desc.shape.dim[0]);
}

static bool scatter_add(const ig_step *step, vk_builder *b) {
    const ig_operand *x = &step->in[0], *index = &step->in[1], *src = &step->in[2];
    const ig_operand *out = &step->out[0];
    ig_attrs_axis a;
    int64_t of_index[IG_MAX_RANK], of_src[IG_MAX_RANK], axis[IG_MAX_RANK] = {0};
    ig_step_attrs(step, &a, sizeof a);
    if (index->desc.dtype != IG_I32 || src->desc.dtype != IG_F32 || out->desc.dtype != IG_F32)
        return false;
    memcpy(of_index, index->stride, sizeof of_index);
    memcpy(of_src, src->stride, sizeof of_src);
    of_index[a.axis] = of_src[a.axis] = 0;
    axis[a.axis] = 1;
    const int64_t *stride[] = {x->stride, out->stride, of_index, axis}, *source = of_src;
    const vk_scatter_params p = {.loop = vk_loop_make(out->desc.shape, stride, 4),
                                 .source = vk_loop_make(out->desc.shape, &source, 1),
                                 .count = (uint32_t)index->desc.shape.dim[a.axis],
                                 .index_stride = (uint32_t)index->stride[a.axis],
                                 .source_stride = (uint32_t)src->stride[a.axis]};
    if (p.loop.n == 0) return true;
    const vk_dispatch d = {.shader = VK_SHADER_index,
                           .constant = {VK_GROUP, VK_SCATTER_ADD, VK_F32},
                           .groups = {vk_groups(p.loop.n, VK_GROUP)},
                           .n_refs = 4,
                           .ref = {vk_reads(x), vk_writes(out), vk_reads(index), vk_reads(src)},
                           .params = &p,
                           .params_bytes = sizeof p};
    vk_emit(b, &d);
    return true;
}

static bool embedding_grad(const ig_step *step, vk_builder *b) {
    const ig_operand *ids = &step->in[0], *dy = &step->in[1], *out = &step->out[0];
    if (!vk_operands_are(step, 1, IG_F32) || !vk_outputs_are_packed(step)) return false;
    const vk_embedding_grad_params p = {.rows = (uint32_t)out->desc.shape.dim[0],
                                        .width = (uint32_t)out->desc.shape.dim[1],
                                        .count = (uint32_t)vk_count(ids),
                                        .column_stride = vk_last_stride(dy),
                                        .ids = vk_places_make(ids, 0),
                                        .dy = vk_places_make(dy, 1)};
    if (p.rows == 0 || p.width == 0) return true;
    const uint32_t wide = p.width <= 16 ? 16 : 32;
    const vk_dispatch d = {
        .shader = VK_SHADER_index,
        .constant = {VK_GROUP, VK_EMBEDDING_GRAD, VK_F32, wide},
        .groups = {vk_groups((int64_t)p.rows * ((p.width + wide - 1) / wide), 1)},
        .n_refs = 3,
        .ref = {vk_reads(ids), vk_reads(dy), vk_writes(out)},
        .params = &p,
        .params_bytes = sizeof p};
    vk_emit(b, &d);
    return true;
}

const vk_entry vk_index[] = {
    {IG_OP_GATHER, IG_F32, gather},           {IG_OP_GATHER, IG_F16, gather},
    {IG_OP_GATHER, IG_BF16, gather},          {IG_OP_GATHER, IG_I32, gather},
    {IG_OP_SCATTER_ADD, IG_F32, scatter_add}, {IG_OP_EMBEDDING_GRAD, IG_I32, embedding_grad},
    {IG_OP_EMBEDDING, IG_F32, embedding},     {IG_OP_EMBEDDING, IG_I32, embedding},
    {IG_OP_EMBEDDING, IG_F16, embedding},     {IG_OP_EMBEDDING, IG_BF16, embedding},
    {IG_OP_EMBEDDING, IG_Q4_0, embedding},    {IG_OP_EMBEDDING, IG_Q4_1, embedding},
    {IG_OP_EMBEDDING, IG_Q5_0, embedding},    {IG_OP_EMBEDDING, IG_Q5_1, embedding},
    {IG_OP_EMBEDDING, IG_Q8_0, embedding},    {IG_OP_EMBEDDING, IG_Q2_K, embedding},
    {IG_OP_EMBEDDING, IG_Q3_K, embedding},    {IG_OP_EMBEDDING, IG_Q4_K, embedding},
    {IG_OP_EMBEDDING, IG_Q5_K, embedding},    {IG_OP_EMBEDDING, IG_Q6_K, embedding},
    {IG_OP_EMBEDDING, IG_IQ4_NL, embedding},  {IG_OP_EMBEDDING, IG_IQ4_XS, embedding},
    {IG_OP_EMBEDDING, IG_MXFP4, embedding},   {0},
};
