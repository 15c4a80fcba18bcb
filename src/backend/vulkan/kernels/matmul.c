/*
 * Matmul. Transposes are strides; 16-bit floats and quantization blocks are dequantized on load.
 * Small M uses a kernel that reads the weights once, everything else a tiled one.
 */
#include "backend/vulkan/kernels/setup.h"

enum { FEW_ROWS = 8, LARGE_TILE = 64, SMALL_TILE = 32, TILE_THREADS = 256, MANY_TILES = 64 };
enum { WIDEST_TILE = 128, MANY_WIDEST_TILES = 128, WIDE_SHARED_BYTES = 17 << 10 };

/* The batch dimensions; an operand without them has one matrix for all. */
static vk_places matrices_of(const ig_operand *o) {
    vk_places p = vk_places_make(o, 2);
    if (o->desc.shape.rank == 2) p.stride[0] = 0;
    return p;
}

/* Merges the rows of all batch matrices into one if b has no batch and they follow evenly. */
static void join_rows(const ig_operand *a, const ig_operand *b, vk_matmul_params *p) {
    const int rank = a->desc.shape.rank;
    int64_t rows = p->head.m;
    if (b->desc.shape.rank > 2 || rank == 2) return;
    for (int d = rank - 3; d >= 0; d--) {
        if (a->desc.shape.dim[d] != 1 && a->stride[d] != rows * (int64_t)p->head.a_row) return;
        rows *= a->desc.shape.dim[d];
    }
    p->head.m = (uint32_t)rows;
    p->head.batches = 1;
}

static void params_of(const ig_step *step, const ig_attrs_matmul *attrs, vk_matmul_params *p) {
    const ig_operand *a = &step->in[0], *b = &step->in[1], *out = &step->out[0];
    const int ra = a->desc.shape.rank, rb = b->desc.shape.rank, ro = out->desc.shape.rank;
    const int a_k = attrs->transpose_a ? ra - 2 : ra - 1, a_row = ra - 1 + ra - 2 - a_k;
    const int b_k = attrs->transpose_b ? rb - 1 : rb - 2, b_column = rb - 1 + rb - 2 - b_k;
    *p = (vk_matmul_params){
        .head = {.m = (uint32_t)out->desc.shape.dim[ro - 2],
                 .n = (uint32_t)out->desc.shape.dim[ro - 1],
                 .k = (uint32_t)a->desc.shape.dim[a_k],
                 .batches = 1,
                 .a_row = (uint32_t)a->stride[a_row],
                 .a_k = (uint32_t)a->stride[a_k],
                 .b_column = (uint32_t)b->stride[b_column],
                 .b_k = (uint32_t)b->stride[b_k],
                 .bias_stride = step->n_in > 2 ? (uint32_t)step->in[2].stride[0] : 0},
        .a = matrices_of(a),
        .b = matrices_of(b)};
    for (int d = 0; d < ro - 2; d++) p->head.batches *= (uint32_t)out->desc.shape.dim[d];
    if (!attrs->transpose_a) join_rows(a, b, p);
}

/* Quantization blocks run along k, within rows. */
static bool can_decode(const ig_operand *w, bool along_last) {
    const ig_dtype dtype = w->desc.dtype;
    if (dtype == IG_I32 || !ig_blocks_can_dequantize(dtype)) return false;
    return ig_dtype_block(dtype) == 1 || (along_last && vk_last_stride(w) == 1);
}

static int64_t tiles_of(const vk_matmul_head *h, uint32_t tile) {
    const int64_t rows = (h->m + tile - 1) / tile, columns = (h->n + tile - 1) / tile;
    return rows * columns * h->batches;
}

/* One workgroup per tile; false: more than the device supports. */
static bool set_tiles(vk_dispatch *d, const vk_matmul_head *h, uint32_t tile) {
    d->groups[0] = (h->n + tile - 1) / tile;
    d->groups[1] = (h->m + tile - 1) / tile;
    d->groups[2] = h->batches < VK_MOST_GROUPS ? h->batches : VK_MOST_GROUPS;
    d->constant[0] = TILE_THREADS;
    return d->groups[0] <= VK_MOST_GROUPS && d->groups[1] <= VK_MOST_GROUPS;
}

/* How threads load tiles of an operand with this number of rows. */
static uint32_t form_of(const ig_operand *o, uint32_t rows, uint32_t stride, uint32_t k,
                        uint32_t k_stride) {
    if (k_stride == 1 && vk_has_pieces(o, k)) return VK_BY_EIGHTS;
    if (stride == 1 && o->desc.dtype == IG_F32 && vk_has_pieces(o, rows)) return VK_BY_FOURS;
    return k_stride <= stride ? VK_ALONG_K : VK_ACROSS_K;
}

/* ---- products in parts along k ---- */

/* Workgroups that keep a large device busy, and the minimum of k for each. Cooperative matrix
 * kernels need only one per processor. */
enum { ENOUGH_GROUPS = 384, ENOUGH_MATRIX_GROUPS = 128, MOST_PARTS = 8, LEAST_PART = 256 };

static uint32_t parts_for(const vk_matmul_head *h, const vk_dispatch *d) {
    const uint32_t groups = d->groups[0] * d->groups[1], most = h->k / LEAST_PART;
    const uint32_t enough =
        d->shader == VK_SHADER_matmul_coopmat ? ENOUGH_MATRIX_GROUPS : ENOUGH_GROUPS;
    const uint32_t wanted = h->batches > 1 ? 1 : enough / (groups > 0 ? groups : 1);
    const uint32_t parts = wanted < most ? wanted : most;
    return parts < 2 ? 1 : parts < MOST_PARTS ? parts : MOST_PARTS;
}

/* Emits a matmul, and for split-k the reduction of its partial sums, which are in scratch from
 * `at` on. */
static void emit_parts(vk_builder *b, vk_dispatch d, const ig_step *step, const vk_matmul_head *h,
                       uint64_t at) {
    const uint32_t parts = parts_for(h, &d);
    const uint64_t count = (uint64_t)h->m * h->n, bytes = parts * count * sizeof(float);
    vk_dispatch join = d;
    d.constant[VK_PARTS_ID] = parts;
    if (parts == 1 || count * parts > INT32_MAX) {
        d.constant[VK_PARTS_ID] = 1;
        vk_emit(b, &d);
        return;
    }
    d.groups[2] = parts;
    d.ref[3] = vk_scratch(b, step, at, bytes, 1);
    vk_emit(b, &d);
    join.shader = VK_SHADER_matmul_fused;
    join.ref[0] = vk_scratch(b, step, at, bytes, 0);
    join.ref[1] = join.ref[0];
    join.groups[0] = vk_groups((int64_t)count, VK_GROUP);
    join.groups[1] = join.groups[2] = 1;
    const uint32_t own[VK_MAX_CONSTANTS] = {[0] = VK_GROUP,
                                            [6] = d.constant[6],
                                            [7] = d.constant[7],
                                            [9] = d.constant[9],
                                            [VK_PARTS_ID] = parts};
    memcpy(join.constant, own, sizeof own);
    vk_emit(b, &join);
}

/* Enough large tiles, with split-k. */
static bool is_wide(const vk_matmul_head *h) {
    const int64_t tiles = tiles_of(h, LARGE_TILE), parts = h->k / LEAST_PART;
    if (tiles >= MANY_TILES) return true;
    return h->batches == 1 && tiles * (parts < MOST_PARTS ? parts : MOST_PARTS) >= MANY_TILES;
}

/* Large tiles; the largest size if there are enough of them for a large device. */
static bool emit_wide(vk_builder *b, vk_dispatch d, const ig_step *step, const vk_matmul_head *h) {
    const uint32_t tile = tiles_of(h, WIDEST_TILE) >= MANY_WIDEST_TILES ? WIDEST_TILE : LARGE_TILE;
    d.shader = VK_SHADER_matmul_wide;
    if (!set_tiles(&d, h, tile)) return false;
    d.constant[1] = tile;
    d.constant[3] = (uint32_t)step->in[1].desc.dtype;
    d.constant[4] = form_of(&step->in[0], h->m, h->a_row, h->k, h->a_k);
    d.constant[5] = form_of(&step->in[1], h->n, h->b_column, h->k, h->b_k);
    emit_parts(b, d, step, h, 0);
    return true;
}

/* ---- products on units for matrices ---- */

/* Tile sizes of matmul_coopmat.comp. Deeper slices mean fewer barriers. If both sides are split
 * into F16 pairs, shared memory holds less. */
enum { MATRIX_ROWS = 64, MATRIX_COLUMNS = 128, MATRIX_DEPTH = 64, MATRIX_SPLIT_DEPTH = 32 };
enum { MATRIX_SIDE = 16, LEAST_DEPTH = 128, LEAST_COLUMNS = 128 };

static uint32_t depth_of(uint32_t k) { return (k + VK_SLICE - 1) / VK_SLICE * VK_SLICE; }

/* As matmul_splitk.comp lays them out. */
static uint64_t split_bytes(uint32_t rows, uint32_t k) {
    return (uint64_t)rows * depth_of(k) * 2 * sizeof(uint16_t) + (uint64_t)rows * sizeof(float);
}

static void emit_split(vk_builder *b, const ig_operand *o, const vk_split_head *h, vk_ref to) {
    const uint64_t f16 = (uint64_t)h->rows * h->depth * 2 * sizeof(uint16_t);
    const vk_ref factors = {to.buffer, 1, to.offset + f16, to.bytes - f16};
    const vk_dispatch d = {.shader = VK_SHADER_matmul_splitk,
                           .constant = {[0] = VK_GROUP,
                                        [3] = (uint32_t)o->desc.dtype,
                                        [5] = h->k_stride == 1 && vk_has_pieces(o, h->k)},
                           .groups = {vk_groups(h->rows, 1)},
                           .n_refs = 3,
                           .ref = {vk_reads(o), to, factors},
                           .params = h,
                           .params_bytes = sizeof *h};
    vk_emit(b, &d);
}

/* Whether 16-bit operands can be read in place: full slices, 16-byte aligned. */
static bool are_halves(const ig_operand *w, const vk_matmul_head *h) {
    return w->desc.dtype == IG_F16 && vk_has_pieces(w, h->k) && h->k % VK_SLICE == 0;
}

/* Worth it from one tile on; splitting weights pays only if several tiles use them. F32 x F32
 * stays on the FMA units, which are faster for it. */
static bool is_for_matrices(const vk_builder *b, const ig_operand *w, const vk_matmul_head *h) {
    enum { FEW = 32, SEVERAL = 256, MOST_BYTES = 256 << 20 };
    if (w->desc.dtype == IG_F32) return false;
    if (!b->device->has_matrices || h->batches > 1 || h->a_k != 1 || h->b_k != 1) return false;
    if (h->n < LEAST_COLUMNS || h->k < LEAST_DEPTH) return false;
    if (are_halves(w, h)) return h->m >= FEW;
    return h->m >= SEVERAL && split_bytes(h->n, h->k) <= MOST_BYTES;
}

/* Whether an earlier matmul of the level has split the same left side. */
static bool is_split_already(const vk_split *split, const ig_step *step) {
    if (!split->step || split->step->level != step->level) return false;
    const ig_operand *a = &split->step->in[0], *b = &step->in[0];
    return a->value == b->value && a->buffer == b->buffer && a->offset == b->offset &&
           ig_shape_equal(a->desc.shape, b->desc.shape) &&
           memcmp(a->stride, b->stride, (size_t)a->desc.shape.rank * sizeof *a->stride) == 0;
}

/* The left side as F16. */
static vk_ref split_left(vk_builder *b, const ig_step *step, const vk_matmul_head *h) {
    const vk_split_head a = {h->m, h->k, depth_of(h->k), h->a_row, h->a_k};
    const uint64_t bytes = split_bytes(h->m, h->k);
    if (!is_split_already(&b->split, step)) {
        const vk_ref to = vk_scratch(b, step, 0, bytes, 1);
        emit_split(b, &step->in[0], &a, to);
        b->split = (vk_split){step, to};
        b->split.f16.writes = 0;
    }
    return b->split.f16;
}

static bool emit_matrices(vk_builder *b, vk_dispatch d, const ig_step *step,
                          const vk_matmul_head *h) {
    const ig_operand *w = &step->in[1];
    const uint64_t bytes = split_bytes(h->n, h->k);
    const uint64_t at = (split_bytes(h->m, h->k) + 63) / 64 * 64;
    const vk_split_head right = {h->n, h->k, depth_of(h->k), h->b_column, h->b_k};
    const bool split = !are_halves(w, h);
    d.shader = VK_SHADER_matmul_coopmat;
    d.ref[0] = split_left(b, step, h);
    if (split) emit_split(b, w, &right, vk_scratch(b, step, at, bytes, 1));
    if (split) d.ref[1] = vk_scratch(b, step, at, bytes, 0);
    d.groups[0] = (h->n + MATRIX_COLUMNS - 1) / MATRIX_COLUMNS;
    d.groups[1] = (h->m + MATRIX_ROWS - 1) / MATRIX_ROWS;
    if (d.groups[0] > VK_MOST_GROUPS || d.groups[1] > VK_MOST_GROUPS) return false;
    d.constant[0] = TILE_THREADS;
    d.constant[1] = MATRIX_ROWS;
    d.constant[2] = MATRIX_COLUMNS;
    d.constant[3] = split;
    d.constant[5] = split ? MATRIX_SPLIT_DEPTH : MATRIX_DEPTH;
    d.constant[VK_MATRIX_K_ID] = d.constant[8] = d.constant[10] = MATRIX_SIDE;
    emit_parts(b, d, step, h, split ? (at + bytes + 63) / 64 * 64 : at);
    return true;
}

/* Tiled matmul: small tiles if large ones would leave most of the device idle. */
static bool emit_tiles(vk_builder *b, vk_dispatch d, const vk_matmul_params *p, uint32_t dtype,
                       uint32_t grouped) {
    const uint32_t tile = tiles_of(&p->head, LARGE_TILE) >= MANY_TILES ? LARGE_TILE : SMALL_TILE;
    d.shader = VK_SHADER_matmul;
    if (!set_tiles(&d, &p->head, tile)) return false;
    d.constant[1] = tile;
    d.constant[2] = tile == LARGE_TILE ? 16 : 64; /* few workgroups: more loads in flight each */
    d.constant[3] = dtype;
    d.constant[4] = p->head.a_k <= p->head.a_row;
    d.constant[5] = p->head.b_k <= p->head.b_column;
    d.constant[8] = grouped;
    vk_emit(b, &d);
    return true;
}

/* Whether both sides can be read in vectors. */
static bool has_pieces(const ig_operand *x, const ig_operand *w, const vk_matmul_head *h) {
    return vk_has_pieces(w, h->k) && x->offset % 16 == 0 && (h->m == 1 || h->a_row % 4 == 0);
}

enum { TEAM = 32, VECTOR_GROUP = 128 }; /* threads that share a column; workgroup size */

/* Few tiles: split-k pays from this length of k on. */
enum { FEW_TILES = 64, SHORT_K = 1024, SMALL_WIDE = 32 };

static bool is_small(const vk_matmul_head *h) {
    return tiles_of(h, SMALL_TILE) <= FEW_TILES && h->k <= SHORT_K;
}

static void emit_small(vk_builder *b, vk_dispatch d, const vk_matmul_head *h, uint32_t dtype) {
    d.shader = VK_SHADER_matmul_small;
    d.groups[0] = (h->n + SMALL_WIDE - 1) / SMALL_WIDE;
    d.groups[1] = h->m;
    d.groups[2] = h->batches;
    d.constant[0] = VK_GROUP;
    d.constant[1] = SMALL_WIDE;
    d.constant[3] = dtype;
    vk_emit(b, &d);
}

/* Small M: b is read once. */
static bool is_vector(const vk_matmul_head *h) {
    return h->m <= FEW_ROWS && h->batches == 1 && h->b_k == 1 && h->a_k == 1;
}

static void emit_vector(vk_builder *b, vk_dispatch d, const ig_step *step,
                        const vk_matmul_head *h) {
    const bool blocks = ig_dtype_block(step->in[1].desc.dtype) > 1;
    const uint32_t columns = blocks && h->m <= 2 ? 2 : 1, each = columns * (VECTOR_GROUP / TEAM);
    d.shader = VK_SHADER_matvec;
    d.groups[0] = vk_groups((h->n + each - 1) / each, 1);
    d.constant[0] = VECTOR_GROUP;
    d.constant[1] = h->m;
    d.constant[2] = columns;
    d.constant[3] = (uint32_t)step->in[1].desc.dtype;
    d.constant[5] = has_pieces(&step->in[0], &step->in[1], h);
    vk_emit(b, &d);
}

/* ---- steps that go along ---- */

static bool is_plain(const ig_operand *o, int64_t count) {
    return o->desc.dtype == IG_F32 && ig_operand_is_packed(o) && vk_count(o) == count &&
           o->offset % 16 == 0;
}

bool vk_matmul_takes_before(const ig_step *product, const ig_step *before) {
    const ig_operand *x = &product->in[0];
    const int64_t count = vk_count(x), width = vk_last_dim(x);
    ig_attrs_matmul attrs;
    vk_matmul_params p;
    if (product->op != IG_OP_MATMUL || count == 0 || !ig_operand_is_packed(x) ||
        x->value != before->out[0].value || vk_count(&before->out[0]) != count)
        return false;
    for (uint32_t i = 1; i < product->n_in; i++)
        if (product->in[i].value == x->value) return false;
    ig_step_attrs(product, &attrs, sizeof attrs);
    params_of(product, &attrs, &p);
    const bool is_norm =
        before->op == IG_OP_RMS_NORM && before->n_in == 2 && vk_last_dim(&before->in[0]) == width;
    return (is_norm || before->op == IG_OP_MUL) && is_vector(&p.head) &&
           p.head.k == (uint64_t)width && has_pieces(x, &product->in[1], &p.head) &&
           is_plain(&before->in[0], count) && is_plain(&before->in[1], is_norm ? width : count) &&
           is_plain(&before->out[0], count);
}

bool vk_matmul_takes_after(const ig_step *product, const ig_step *after) {
    const ig_operand *out = &product->out[0];
    const int64_t count = vk_count(out);
    ig_attrs_matmul attrs;
    ig_step_attrs(product, &attrs, sizeof attrs);
    if (attrs.residual || count == 0 || (after->op != IG_OP_ADD && after->op != IG_OP_MUL))
        return false;
    if (after->in[0].value == after->in[1].value) return false;
    if (after->in[0].value != out->value && after->in[1].value != out->value) return false;
    for (uint32_t i = 0; i < 3; i++)
        if (!is_plain(ig_step_operand(after, i), count)) return false;
    return true;
}

/* Adds the fused steps to a matmul. Its memory is x, w, bias, out as usual, then the other input
 * and the output of `after` (a residual comes first), then those of `before`. */
static void join(const vk_builder *b, const ig_step *step, vk_dispatch *d, vk_matmul_head *h) {
    const ig_step *before = b->join.before, *after = b->join.after;
    if (!before && !after) return;
    for (uint32_t i = d->n_refs; i < VK_MAX_REFS; i++) /* unused: no dependency */
        d->ref[i] = (vk_ref){.buffer = d->ref[1].buffer};
    d->n_refs = VK_MAX_REFS;
    if (after) {
        const bool first = after->in[0].value == step->out[0].value;
        d->ref[4] = vk_reads(&after->in[first ? 1 : 0]);
        d->ref[5] = vk_writes(&after->out[0]);
        d->constant[9] = after->op == IG_OP_ADD ? VK_SUM : VK_PRODUCT;
    }
    if (before) {
        ig_attrs_norm norm;
        ig_step_attrs(before, &norm, sizeof norm);
        h->eps = norm.eps;
        d->ref[0] = vk_reads(&before->in[0]);
        d->ref[6] = vk_reads(&before->in[1]);
        if (b->join.stores) d->ref[7] = vk_writes(&before->out[0]);
        d->constant[8] = before->op == IG_OP_MUL ? VK_PRODUCT : VK_RMS_NORM;
        d->constant[10] = b->join.stores;
    }
}

static bool matmul(const ig_step *step, vk_builder *b) {
    const ig_operand *x = &step->in[0], *w = &step->in[1], *out = &step->out[0];
    const ig_operand *last = &step->in[step->n_in - 1];
    ig_attrs_matmul attrs;
    vk_matmul_params p;
    ig_step_attrs(step, &attrs, sizeof attrs);
    const bool has_bias = step->n_in - (attrs.residual ? 1 : 0) > 2;
    if (attrs.activation > IG_ACTIVATION_GELU_TANH || !can_decode(w, attrs.transpose_b) ||
        !vk_operands_are(step, 2, IG_F32) || !vk_outputs_are_packed(step) ||
        (attrs.residual && !ig_operand_is_packed(last)))
        return false;
    if (vk_count(out) == 0) return true;
    params_of(step, &attrs, &p);
    vk_dispatch d = {.constant = {[6] = attrs.activation,
                                  [7] = has_bias,
                                  [9] = attrs.residual ? VK_RESIDUAL : VK_NOTHING},
                     .n_refs = attrs.residual ? 5 : 4,
                     .ref = {vk_reads(x), vk_reads(w), vk_reads(has_bias ? &step->in[2] : w),
                             vk_writes(out), vk_reads(last)},
                     .params = &p,
                     .params_bytes = sizeof p};
    join(b, step, &d, &p.head);
    const uint32_t dtype = (uint32_t)w->desc.dtype;
    if (is_for_matrices(b, w, &p.head)) return emit_matrices(b, d, step, &p.head);
    if (is_vector(&p.head))
        emit_vector(b, d, step, &p.head);
    else if (is_small(&p.head) && ig_dtype_block(w->desc.dtype) == 1)
        emit_small(b, d, &p.head, dtype);
    else if (is_wide(&p.head) && vk_can_share(b, WIDE_SHARED_BYTES))
        return emit_wide(b, d, step, &p.head);
    else
        return emit_tiles(b, d, &p, dtype, VK_NOT_GROUPED);
    return true;
}

/* F16 on the left; the right side is dequantized on load. */
static bool matmul_f16(const ig_step *step, vk_builder *b) {
    return vk_setup_widened(step, b, 1, matmul);
}

/* ---- products for experts ---- */

/* Rows without an expert are zero: clears all rows before the matmul writes its own. */
static void emit_zeros(vk_builder *b, const ig_operand *out) {
    const int64_t *stride[] = {out->stride, out->stride};
    const vk_move_params p = {.loop = vk_loop_make(out->desc.shape, stride, 2)};
    const vk_dispatch d = {.shader = VK_SHADER_move,
                           .constant = {VK_GROUP, VK_FILL, sizeof(float)},
                           .groups = {vk_groups(p.loop.n, VK_GROUP)},
                           .n_refs = 2,
                           .ref = {vk_writes(out), vk_writes(out)},
                           .params = &p,
                           .params_bytes = sizeof p};
    vk_emit(b, &d);
}

/* x [s, k], w [e, k, n] or [e, n, k], offsets [e + 1] -> [s, n] */
static bool matmul_grouped(const ig_step *step, vk_builder *b) {
    const ig_operand *x = &step->in[0], *w = &step->in[1], *offsets = &step->in[2];
    const ig_operand *out = &step->out[0];
    ig_attrs_grouped a;
    ig_step_attrs(step, &a, sizeof a);
    const int k = a.transpose_w ? 2 : 1, column = 3 - k;
    if (out->desc.dtype != IG_F32 || offsets->desc.dtype != IG_I32 ||
        !can_decode(w, a.transpose_w) || !vk_outputs_are_packed(step))
        return false;
    if (vk_count(out) == 0) return true;
    emit_zeros(b, out);
    vk_matmul_params p = {.head = {.m = (uint32_t)out->desc.shape.dim[0],
                                   .n = (uint32_t)out->desc.shape.dim[1],
                                   .k = (uint32_t)x->desc.shape.dim[1],
                                   .batches = (uint32_t)w->desc.shape.dim[0],
                                   .a_row = (uint32_t)x->stride[0],
                                   .a_k = (uint32_t)x->stride[1],
                                   .b_column = (uint32_t)w->stride[column],
                                   .b_k = (uint32_t)w->stride[k],
                                   .offset_stride = (uint32_t)offsets->stride[0],
                                   .grouped = (uint32_t)out->desc.shape.dim[0]},
                          .a = {.rank = 1},
                          .b = vk_places_make(w, 2)};
    const vk_dispatch d = {.n_refs = 4,
                           .ref = {vk_reads(x), vk_reads(w), vk_reads(offsets), vk_writes(out)},
                           .params = &p,
                           .params_bytes = sizeof p};
    return p.head.batches == 0 || emit_tiles(b, d, &p, (uint32_t)w->desc.dtype, VK_GROUPED_ROWS);
}

/* x [s, k], dy [s, n], offsets [e + 1] -> [e, n, k]: dy^T x over the rows of each expert */
static bool matmul_grouped_grad(const ig_step *step, vk_builder *b) {
    const ig_operand *x = &step->in[0], *dy = &step->in[1], *offsets = &step->in[2];
    const ig_operand *out = &step->out[0];
    if (out->desc.dtype != IG_F32 || dy->desc.dtype != IG_F32 || offsets->desc.dtype != IG_I32 ||
        !vk_outputs_are_packed(step))
        return false;
    if (vk_count(out) == 0) return true;
    const vk_matmul_params p = {.head = {.m = (uint32_t)out->desc.shape.dim[1],
                                         .n = (uint32_t)out->desc.shape.dim[2],
                                         .k = (uint32_t)x->desc.shape.dim[0],
                                         .batches = (uint32_t)out->desc.shape.dim[0],
                                         .a_row = (uint32_t)dy->stride[1],
                                         .a_k = (uint32_t)dy->stride[0],
                                         .b_column = (uint32_t)x->stride[1],
                                         .b_k = (uint32_t)x->stride[0],
                                         .offset_stride = (uint32_t)offsets->stride[0],
                                         .grouped = (uint32_t)x->desc.shape.dim[0]},
                                .a = {.rank = 1},
                                .b = {.rank = 1}};
    const vk_dispatch d = {.n_refs = 4,
                           .ref = {vk_reads(dy), vk_reads(x), vk_reads(offsets), vk_writes(out)},
                           .params = &p,
                           .params_bytes = sizeof p};
    return emit_tiles(b, d, &p, VK_F32, VK_GROUPED_DEPTH);
}

const vk_entry vk_matmul[] = {
    {IG_OP_MATMUL, IG_F32, matmul},
    {IG_OP_MATMUL, IG_F16, matmul_f16},
    {IG_OP_MATMUL, IG_BF16, matmul_f16},
    {IG_OP_MATMUL_GROUPED, IG_F32, matmul_grouped},
    {IG_OP_MATMUL_GROUPED_GRAD, IG_F32, matmul_grouped_grad},
    {0},
};
