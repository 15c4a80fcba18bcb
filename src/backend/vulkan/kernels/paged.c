/* The paged KV cache: storing rows, and attention over it. */
#include <math.h>

#include "backend/vulkan/kernels/setup.h"

enum { MOST_WIDTH = 1024 };

static bool store_rows(const ig_step *step, vk_builder *b) {
    const ig_operand *from = &step->in[1], *index = &step->in[2], *to = &step->out[0];
    const ig_dtype dtype = to->desc.dtype;
    if (from->desc.dtype != IG_F32 || index->desc.dtype != IG_I32 || !vk_lies_as_input(step, 0, 0))
        return false;
    if (dtype == IG_Q8_0 && (vk_last_stride(to) != 1 || vk_last_dim(to) % ig_dtype_block(dtype)))
        return false;
    const int64_t rows = from->desc.shape.dim[0], n = to->desc.shape.dim[0];
    if (vk_count(from) == 0 || vk_count(to) == 0) return true;
    const vk_store_params p = {.rows = (uint32_t)rows,
                               .n = (uint32_t)n,
                               .width = (uint32_t)(vk_count(from) / rows),
                               .index_stride = (uint32_t)index->stride[0],
                               .from = vk_places_make(from, 0),
                               .to = vk_places_make(to, 0)};
    const vk_dispatch d = {.shader = VK_SHADER_paged,
                           .constant = {VK_GROUP, VK_STORE_ROWS, 1, 1, (uint32_t)dtype},
                           .groups = {vk_groups(rows, 1)},
                           .n_refs = 3,
                           .ref = {vk_writes(to), vk_reads(from), vk_reads(index)},
                           .params = &p,
                           .params_bytes = sizeof p};
    vk_emit(b, &d);
    return true;
}

/* The dtypes of a KV cache; quantization blocks run along a head. */
static bool is_cache(const ig_operand *o) {
    const ig_dtype dtype = o->desc.dtype;
    return dtype == IG_F32 || dtype == IG_F16 || dtype == IG_BF16 ||
           (dtype == IG_Q8_0 && o->stride[3] == 1);
}

static void strides_of(const ig_operand *o, uint32_t *out, int rank) {
    for (int d = 0; d < rank; d++) out[d] = (uint32_t)o->stride[d];
}

/* Positions worth a workgroup of their own, and the maximum of workgroups per head. */
enum { WIDE_GROUP = 256, PART_POSITIONS = 512, MOST_PARTS = 32, FEW_HEADS = 256 };

static bool is_wide(const ig_operand *k, const ig_operand *v, const vk_paged_params *p) {
    const vk_piece piece = vk_piece_of(v->desc.dtype);
    return p->d > 0 && p->e > 0 && vk_has_pieces(k, p->d) && vk_has_pieces(v, p->e) &&
           p->e <= WIDE_GROUP * piece.elements;
}

/* Wide loads; with few heads and many positions, several workgroups share a head. */
static void emit_wide(vk_builder *b, vk_dispatch d, const ig_step *step, const vk_paged_params *p) {
    const uint32_t heads = p->rows * p->h, most = p->pages * IG_PAGE_TOKENS / PART_POSITIONS;
    const uint32_t parts = heads > FEW_HEADS || most < 2 ? 1
                           : most < MOST_PARTS           ? most
                                                         : MOST_PARTS;
    const uint64_t bytes = (uint64_t)heads * parts * (p->e + 2) * sizeof(float);
    const vk_ref out = d.ref[6];
    d.shader = VK_SHADER_paged_wide;
    d.constant[0] = WIDE_GROUP;
    d.constant[1] = false;
    d.constant[3] = p->e;
    d.constant[6] = parts;
    d.groups[1] = parts;
    if (parts > 1) d.ref[6] = vk_scratch(b, step, 0, bytes, 1);
    vk_emit(b, &d);
    if (parts == 1) return;
    for (int i = 0; i < 6; i++) d.ref[i] = vk_scratch(b, step, 0, bytes, 0);
    d.constant[1] = true;
    d.groups[1] = 1;
    d.ref[6] = out;
    vk_emit(b, &d);
}

/* Queries per workgroup; half as many for wide heads, because of shared memory. */
enum { TILE_QUERIES = 64, TILE_WIDTH = 64, TILE_WIDEST = 128, TILE_STEP = 32 };

static uint32_t tile_queries(const vk_paged_params *p) {
    return p->d <= TILE_WIDTH && p->e <= TILE_WIDTH ? TILE_QUERIES : TILE_QUERIES / 2;
}

static uint32_t tile_shared_bytes(const vk_paged_params *p) {
    const uint32_t widest = p->d > p->e ? p->d : p->e, queries = tile_queries(p);
    return (p->d * queries + widest * TILE_STEP + TILE_STEP * queries) * (uint32_t)sizeof(float);
}

/* Many tokens of few sequences share most positions. */
static bool is_tile(const ig_operand *k, const ig_operand *v, const vk_paged_params *p) {
    const uint64_t queries = (uint64_t)p->rows * (p->h / p->g);
    return queries >= TILE_QUERIES && queries >= (uint64_t)p->sequences * (TILE_QUERIES / 4) &&
           p->d > 0 && p->d <= TILE_WIDEST && p->d % 8 == 0 && p->e > 0 && p->e <= TILE_WIDEST &&
           p->e % 8 == 0 && vk_has_pieces(k, p->d) && vk_has_pieces(v, p->e);
}

static void emit_tile(vk_builder *b, vk_dispatch d, const vk_paged_params *p) {
    const int64_t queries = (int64_t)p->rows * (p->h / p->g), tile = tile_queries(p);
    d.shader = VK_SHADER_paged_tile;
    d.constant[0] = VK_GROUP;
    d.constant[1] = (uint32_t)tile;
    d.constant[3] = p->e;
    d.groups[0] = vk_groups((queries + tile - 1) / tile * p->g, 1);
    vk_emit(b, &d);
}

static bool attention_paged(const ig_step *step, vk_builder *b) {
    const ig_operand *q = &step->in[0], *k = &step->in[1], *v = &step->in[2], *table = &step->in[3];
    const ig_operand *out = &step->out[0];
    const int64_t *qd = q->desc.shape.dim, *vd = v->desc.shape.dim;
    ig_attrs_paged a;
    ig_step_attrs(step, &a, sizeof a);
    const bool has_sinks = step->n_in > 6;
    for (uint32_t i = 3; i < step->n_in; i++)
        if (step->in[i].desc.dtype != (i < 6 ? IG_I32 : IG_F32)) return false;
    if (!is_cache(k) || !is_cache(v) || out->desc.dtype != IG_F32) return false;
    if (qd[2] > MOST_WIDTH || vd[3] > MOST_WIDTH || !vk_outputs_are_packed(step)) return false;
    if (vk_count(out) == 0) return true;
    vk_paged_params p = {.rows = (uint32_t)qd[0],
                         .h = (uint32_t)qd[1],
                         .g = (uint32_t)vd[2],
                         .d = (uint32_t)qd[2],
                         .e = (uint32_t)vd[3],
                         .sequences = (uint32_t)table->desc.shape.dim[0],
                         .pages = (uint32_t)table->desc.shape.dim[1],
                         .n_pages = (uint32_t)vd[0],
                         .window = a.window,
                         .softcap = a.softcap,
                         .has_sinks = has_sinks,
                         .scale = a.scale == 0 ? (float)(1 / sqrt((double)qd[2])) : a.scale,
                         .sequence = (uint32_t)step->in[4].stride[0],
                         .position = (uint32_t)step->in[5].stride[0],
                         .sink = has_sinks ? (uint32_t)step->in[6].stride[0] : 0};
    strides_of(q, p.q, 3);
    strides_of(k, p.k, 4);
    strides_of(v, p.v, 4);
    strides_of(table, p.table, 2);
    vk_dispatch d = {.shader = VK_SHADER_paged,
                     .constant = {IG_PAGE_TOKENS, VK_ATTENTION_PAGED, p.d > 0 ? p.d : 1,
                                  (p.e + IG_PAGE_TOKENS - 1) / IG_PAGE_TOKENS,
                                  (uint32_t)k->desc.dtype, (uint32_t)v->desc.dtype},
                     .groups = {vk_groups((int64_t)p.rows * p.h, 1)},
                     .n_refs = has_sinks ? 8 : 7,
                     .params = &p,
                     .params_bytes = sizeof p};
    for (int i = 0; i < 6; i++) d.ref[i] = vk_reads(&step->in[i]);
    d.ref[6] = vk_writes(out);
    if (has_sinks) d.ref[7] = vk_reads(&step->in[6]);
    if (is_tile(k, v, &p) && vk_can_share(b, tile_shared_bytes(&p)))
        emit_tile(b, d, &p);
    else if (is_wide(k, v, &p))
        emit_wide(b, d, step, &p);
    else
        vk_emit(b, &d);
    return true;
}

const vk_entry vk_paged[] = {
    {IG_OP_STORE_ROWS, IG_F32, store_rows},           {IG_OP_STORE_ROWS, IG_F16, store_rows},
    {IG_OP_STORE_ROWS, IG_BF16, store_rows},          {IG_OP_STORE_ROWS, IG_Q8_0, store_rows},
    {IG_OP_ATTENTION_PAGED, IG_F32, attention_paged}, {0},
};
