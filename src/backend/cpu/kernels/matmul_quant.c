/*
 * matmul of F32 activations with weights that are stored in 16 bits or in quantization blocks.
 *
 * Blocks are multiplied in int8: the prologue quantizes the activations, 32 at a time.  F16 and
 * BF16 weights are multiplied as F32.
 */
#include "backend/cpu/gemm/epilogue.h"
#include "backend/cpu/gemm/expert_groups.h"
#include "backend/cpu/gemm/gemm_f32_dequant.h"
#include "backend/cpu/gemm/gemm_f32_f16packed.h"
#include "backend/cpu/qgemm/activations_q8.h"
#include "backend/cpu/qgemm/packed_write.h"
#include "backend/cpu/qgemm/qgemm_m32_stream.h"
#include "backend/cpu/qgemm/qgemm_m8_registers.h"
#include "backend/cpu/qgemm/qgemm_mn_amx.h"
#include "backend/cpu/qgemm/qgemm_mn_vnni.h"

static bool is_stored(ig_dtype dtype) { return dtype != IG_F32 && dequantizer_of(dtype); }

/* ---- matmul: x [..., m, k], w [n, k], bias [n] or none -> [..., m, n], then an activation, then
 * a residual [..., m, n] ---- */

typedef struct params {
    stored_rows x, w;
    int64_t m, n;
    bool has_bias, has_residual;
    uint32_t activation;
} params;

static int64_t ceil_div(int64_t n, int64_t size) { return (n + size - 1) / size; }

/* ---- which path: all give the same bits ---- */

static void qgemm_run(const q8_gemm *p) {
    if (!p->is_packed || !is_small_m(p->rows))
        qgemm_mn(p);
    else if (p->rows == 1)
        qgemm_m1(p);
    else
        qgemm_small_m(p, m8_fits(p->rows) ? m8_fns[p->dtype] : m32_fns[p->dtype]);
}

/* Column groups that a thread takes at a time: enough streams, where that leaves enough for the
 * other threads, and long ones.  From 12 rows on products take longer than memory, and two streams
 * are enough. */
static int64_t grain_of(int64_t groups, int64_t rows) {
    enum { OTHERS = 16, COMPUTE_ROWS = 12, FEWER_STREAMS = 2 };
    if (!is_small_m(rows)) return TILE_GROUPS;
    const int64_t streams = rows == 1 ? N_STREAMS_M1 : N_STREAMS;
    if (rows == 1 && groups >= 2 * OTHERS * streams)
        return streams * min_i64(groups / (OTHERS * streams), MAX_ROUNDS);
    if (rows >= COMPUTE_ROWS && groups < OTHERS * streams) return FEWER_STREAMS;
    return groups >= 4 * streams ? streams : 1;
}

/* Prologue: rows of x to int8, scratch [m][k / 32]. */
static void quantize_rows(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    const int64_t blocks = p->x.columns / IG_BLOCK;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)stored_row(&p->x, l->at[0], row);
        quantize_blocks(&quant_types[p->w.dtype], x, blocks, (act_q8 *)l->scratch + row * blocks);
    }
}

/* The same for AMX tiles: [tiles][k / 32], each as amx_store_block() writes it. */
static void quantize_amx_tiles(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    const quant_type *t = &quant_types[p->w.dtype];
    const int64_t blocks = p->x.columns / IG_BLOCK, bytes = amx_block_bytes(t->kind);
    for (int64_t tile = begin; tile < end; tile++) {
        const int64_t count = amx_tile_rows(p->m, tile);
        char *first = l->scratch + tile * blocks * bytes;
        if (count < AMX_MR) memset(first, 0, (size_t)(blocks * bytes));
        for (int64_t r = 0; r < count; r++) {
            const float *x = (const float *)stored_row(&p->x, l->at[0], tile * AMX_MR + r);
            char *to = first;
            for (int64_t b = 0; b < blocks; b += ACT_BLOCKS) {
                act_q8 four[ACT_BLOCKS];
                const int64_t n = min_i64(blocks - b, ACT_BLOCKS);
                quantize_blocks(t, x + b * IG_BLOCK, n, four);
                for (int64_t i = 0; i < n; i++, to += bytes)
                    amx_store_block(&four[i], r, to, t->kind);
            }
        }
    }
}

static bool common_setup(const ig_step *step, params *p) {
    const ig_operand *x = &step->in[0], *w = &step->in[1], *y = &step->out[0];
    ig_attrs_matmul t;
    ig_step_attrs(step, &t, sizeof t);
    if (!is_stored(w->desc.dtype) || y->desc.dtype != IG_F32) return false;
    if (t.transpose_a || !t.transpose_b || !has_activation(t.activation) || w->desc.shape.rank != 2)
        return false;
    *p = (params){.n = last_dim(y),
                  .m = 1,
                  .has_bias = step->n_in - t.residual > 2,
                  .has_residual = t.residual,
                  .activation = t.activation};
    if (p->has_residual && !ig_operand_is_packed(&step->in[step->n_in - 1])) return false;
    if (!stored_rows_make(x, &p->x) || !stored_rows_make(w, &p->w)) return false;
    if (p->has_bias && (step->in[2].desc.dtype != IG_F32 || !rows_are_packed(&step->in[2])))
        return false;
    for (int d = 0; d < y->desc.shape.rank - 1; d++) p->m *= y->desc.shape.dim[d];
    return true;
}

/* The result, from element `at` on. */
static float *result_at(const ig_cpu_launch *l, int64_t at) {
    const params *p = l->params;
    return (float *)l->at[2 + p->has_bias + p->has_residual] + at;
}

/* The epilogue, from there on. */
static epilogue epilogue_of(const ig_cpu_launch *l, int64_t at) {
    const params *p = l->params;
    return (epilogue){p->activation,
                      p->has_residual ? (const float *)l->at[2 + p->has_bias] + at : NULL};
}

static int64_t groups_of(const params *p) { return ceil_div(p->n, QNR); }

static void pack(const void *params_of_step, const char *weight, char *packed, int64_t begin,
                 int64_t end) {
    const params *p = params_of_step;
    const int64_t blocks = p->w.columns / IG_BLOCK, bytes = packed_group_bytes(p->w.dtype, blocks);
    for (int64_t g = begin; g < end; g++)
        pack_group(p->w.dtype, stored_row(&p->w, weight, g * QNR),
                   ig_bytes_of(p->w.dtype, p->w.at.stride[0]), min_i64(p->n - g * QNR, QNR), blocks,
                   (uint8_t *)packed + g * bytes);
}

/* Units are groups of columns, for all rows. */
static void matmul_q8(const ig_cpu_launch *l, int64_t begin, int64_t end, bool is_packed) {
    const params *p = l->params;
    const int64_t blocks = p->x.columns / IG_BLOCK, j = begin * QNR;
    const int64_t group_bytes = packed_group_bytes(p->w.dtype, blocks);
    const q8_gemm part = {
        .x = (const act_q8 *)l->scratch,
        .x_row = blocks,
        .rows = p->m,
        .dtype = p->w.dtype,
        .is_packed = is_packed,
        .w = is_packed ? l->at[1] + begin * group_bytes : stored_row(&p->w, l->at[1], j),
        .w_row = is_packed ? group_bytes : ig_bytes_of(p->w.dtype, p->w.at.stride[0]),
        .columns = min_i64(p->n, end * QNR) - j,
        .blocks = blocks,
        .y = result_at(l, j),
        .y_row = p->n,
        .bias = p->has_bias ? (const float *)l->at[2] + j : NULL,
        .epilogue = epilogue_of(l, j)};
    if (amx_fits(p->w.dtype, p->m))
        qgemm_mn_amx(&part);
    else
        qgemm_run(&part);
}

static void matmul_q8_unpacked(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    matmul_q8(l, begin, end, false);
}

static void matmul_q8_packed(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    matmul_q8(l, begin, end, true);
}

static bool matmul_q8_setup(const ig_step *step, ig_cpu_setup *out) {
    params p;
    if (!common_setup(step, &p) || !unpack_fns[p.w.dtype]) return false;
    const int64_t blocks = p.x.columns / IG_BLOCK;
    out->units = groups_of(&p);
    out->cost = sat_mul(sat_mul(QNR, p.m), p.x.columns);
    out->grain = grain_of(out->units, p.m);
    out->scratch_bytes = (uint64_t)sat_mul(p.m, blocks * (int64_t)sizeof(act_q8));
    out->prologue = quantize_rows;
    out->prologue_units = p.m;
    out->prologue_cost = sat_mul(p.x.columns, 2);
    out->prologue_kind = act_q8_kind(p.w.dtype);
    out->prologue_by_row = !amx_fits(p.w.dtype, p.m);
    if (amx_fits(p.w.dtype, p.m)) {
        out->scratch_bytes = (uint64_t)sat_mul(
            amx_tile_count(p.m), blocks * amx_block_bytes(quant_types[p.w.dtype].kind));
        out->prologue = quantize_amx_tiles;
        out->prologue_units = amx_tile_count(p.m);
        out->prologue_cost = sat_mul(p.x.columns, 2 * AMX_MR);
    }
    if (VF_LANES > 1)
        out->pack = (ig_cpu_pack){.run = matmul_q8_packed,
                                  .pack = pack,
                                  .input = 1,
                                  .groups = out->units,
                                  .group_bytes = (uint64_t)packed_group_bytes(p.w.dtype, blocks)};
    return keep_params(out, &p, sizeof p);
}

/* ---- matmul_grouped, by expert: x [s, k], w [e, n, k], offsets [e + 1] -> [s, n] ---- */

static int64_t expert_groups(const grouped *p) { return ceil_div(p->n, QNR); }

static void quantize_grouped(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const grouped *p = l->params;
    const int64_t blocks = p->k / IG_BLOCK;
    quantize_blocks(&quant_types[p->dtype], (const float *)l->at[0] + begin * p->k,
                    (end - begin) * blocks, (act_q8 *)l->scratch + begin * blocks);
}

/* The groups of all experts, one expert after the other. */
static void pack_grouped_q8(const void *params_of_step, const char *weight, char *packed,
                            int64_t begin, int64_t end) {
    const grouped *p = params_of_step;
    const int64_t blocks = p->k / IG_BLOCK, bytes = packed_group_bytes(p->dtype, blocks);
    const int64_t row_bytes = ig_bytes_of(p->dtype, p->k);
    for (int64_t i = begin; i < end; i++) {
        const int64_t expert = i / expert_groups(p), j = i % expert_groups(p) * QNR;
        pack_group(p->dtype, weight + (expert * p->n + j) * row_bytes, row_bytes,
                   min_i64(p->n - j, QNR), blocks, (uint8_t *)packed + i * bytes);
    }
}

/* Groups of columns through all experts. */
static void grouped_q8(const ig_cpu_launch *l, int64_t begin, int64_t end, bool is_packed) {
    const grouped *p = l->params;
    const int32_t *offsets = (const int32_t *)l->at[2];
    const int64_t j = begin * QNR, columns = min_i64(p->n, end * QNR) - j;
    const int64_t blocks = p->k / IG_BLOCK, row_bytes = ig_bytes_of(p->dtype, p->k);
    const int64_t group_bytes = packed_group_bytes(p->dtype, blocks);
    float *y = (float *)l->at[3] + j;
    int64_t row = grouped_begin(p, offsets);
    clear_rows(y, p->n, row, columns);
    for (int64_t e = 0; e < p->experts; e++) {
        const int64_t next = grouped_end(p, offsets, e, row);
        const char *w = is_packed ? l->at[1] + (e * expert_groups(p) + begin) * group_bytes
                                  : l->at[1] + (e * p->n + j) * row_bytes;
        const q8_gemm part = {.x = (const act_q8 *)l->scratch + row * blocks,
                              .x_row = blocks,
                              .rows = next - row,
                              .dtype = p->dtype,
                              .is_packed = is_packed,
                              .w = w,
                              .w_row = is_packed ? group_bytes : row_bytes,
                              .columns = columns,
                              .blocks = blocks,
                              .y = y + row * p->n,
                              .y_row = p->n};
        if (part.rows > 0) qgemm_run(&part);
        row = next;
    }
    clear_rows(y + row * p->n, p->n, p->rows - row, columns);
}

static void grouped_q8_unpacked(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    grouped_q8(l, begin, end, false);
}

static void grouped_q8_packed(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    grouped_q8(l, begin, end, true);
}

static bool grouped_q8_setup(const ig_step *step, ig_cpu_setup *out) {
    grouped p = grouped_of(step);
    if (!grouped_is_transposed(step) || !inputs_are_packed(step)) return false;
    if (!unpack_fns[p.dtype]) return false;
    const int64_t blocks = p.k / IG_BLOCK;
    p.n = step->in[1].desc.shape.dim[1];
    out->units = expert_groups(&p);
    out->cost = sat_mul(sat_mul(p.rows, p.k), QNR);
    out->grain = grain_of(out->units, 1);
    out->scratch_bytes = (uint64_t)sat_mul(p.rows, blocks * (int64_t)sizeof(act_q8));
    out->prologue = quantize_grouped;
    out->prologue_units = p.rows;
    out->prologue_cost = sat_mul(p.k, 2);
    out->prologue_kind = act_q8_kind(p.dtype);
    out->prologue_by_row = true;
    if (VF_LANES > 1)
        out->pack = (ig_cpu_pack){.run = grouped_q8_packed,
                                  .pack = pack_grouped_q8,
                                  .input = 1,
                                  .groups = p.experts * out->units,
                                  .group_bytes = (uint64_t)packed_group_bytes(p.dtype, blocks)};
    return keep_params(out, &p, sizeof p);
}

/* ---- 16-bit weights, as F32 ---- */

static void pack_f16(const void *params_of_step, const char *weight, char *packed, int64_t begin,
                     int64_t end) {
    const params *p = params_of_step;
    const int64_t k = p->w.columns;
    for (int64_t g = begin; g < end; g++)
        pack_f16_group(stored_row(&p->w, weight, g * F16_GROUP),
                       ig_bytes_of(p->w.dtype, p->w.at.stride[0]),
                       min_i64(p->n - g * F16_GROUP, F16_GROUP), k,
                       (uint16_t *)(void *)(packed + g * f16_group_bytes(k)));
}

/* Prologue: tiles of rows of x, transposed, to scratch. */
static void transpose_tiles(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    const int64_t k = p->x.columns;
    for (int64_t i = begin; i < end; i++) {
        const float *x[F16_TILE_ROWS];
        const int64_t first = f16_row(p->m, i), count = f16_row(p->m, i + 1) - first;
        for (int64_t r = 0; r < count; r++)
            x[r] = (const float *)stored_row(&p->x, l->at[0], first + r);
        transpose_rows(x, count, k, (float *)(void *)l->scratch + first * f16_steps(k) * F16_GROUP);
    }
}

static void matmul_f16_packed(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    const int64_t k = p->x.columns, j = begin * F16_GROUP;
    const f16_gemm part = {
        .dtype = p->w.dtype,
        .w = (const uint16_t *)(const void *)(l->at[1] + begin * f16_group_bytes(k)),
        .k = k,
        .x = (const float *)(const void *)l->scratch,
        .rows = p->m,
        .columns = min_i64(p->n, end * F16_GROUP) - j,
        .y = result_at(l, j),
        .y_row = p->n,
        .bias = p->has_bias ? (const float *)l->at[2] + j : NULL,
        .epilogue = epilogue_of(l, j)};
    gemm_f32_f16packed(&part);
}

static_assert((int)F16_GROUP == DEQUANT_COLUMNS && (int)F16_GROUP == QNR,
              "units are the same, packed or not");

static bool is_16bit_float(ig_dtype dtype) { return dtype == IG_F16 || dtype == IG_BF16; }

/* Units are groups of columns, for all rows. */
static bool matmul_f32_dequant_setup(const ig_step *step, ig_cpu_setup *out) {
    params p;
    if (!common_setup(step, &p)) return false;
    out->units = groups_of(&p);
    out->cost = sat_mul(sat_mul(DEQUANT_COLUMNS, p.m), p.x.columns);
    if (VF_LANES > 1 && is_16bit_float(p.w.dtype) && step->in[1].kind == IG_KIND_WEIGHT) {
        out->grain = f16_grain(out->units, p.m);
        out->scratch_bytes =
            (uint64_t)sat_mul(p.m, f16_steps(p.x.columns) * F16_GROUP * (int64_t)sizeof(float));
        out->prologue = transpose_tiles;
        out->prologue_units = f16_tile_count(p.m);
        out->prologue_cost = sat_mul(p.x.columns, F16_TILE_ROWS);
        out->prologue_kind = 1;
        out->pack = (ig_cpu_pack){.run = matmul_f16_packed,
                                  .pack = pack_f16,
                                  .input = 1,
                                  .groups = out->units,
                                  .group_bytes = (uint64_t)f16_group_bytes(p.x.columns),
                                  .prologue_packed_only = true};
    }
    return keep_params(out, &p, sizeof p);
}

/* Rows [i, i + count) times columns [j, j + DEQUANT_COLUMNS). */
static void dequant_rows(const ig_cpu_launch *l, int64_t i, int64_t count, int64_t j) {
    const params *p = l->params;
    const float *x[DEQUANT_ROWS];
    for (int64_t r = 0; r < count; r++) x[r] = (const float *)stored_row(&p->x, l->at[0], i + r);
    const float_block part = {.x = x,
                              .dtype = p->w.dtype,
                              .w = stored_row(&p->w, l->at[1], j),
                              .w_row = ig_bytes_of(p->w.dtype, p->w.at.stride[0]),
                              .k = p->x.columns,
                              .y = result_at(l, i * p->n + j),
                              .y_row = p->n,
                              .bias = p->has_bias ? (const float *)l->at[2] + j : NULL};
    gemm_f32_dequant(&part, count, min_i64(p->n - j, DEQUANT_COLUMNS));
    apply_epilogue(epilogue_of(l, i * p->n + j), part.y, p->n, count,
                   min_i64(p->n - j, DEQUANT_COLUMNS));
}

static void matmul_f32_dequant(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    for (int64_t unit = begin; unit < end; unit++)
        for (int64_t i = 0; i < p->m; i += DEQUANT_ROWS)
            dequant_rows(l, i, min_i64(p->m - i, DEQUANT_ROWS), unit * DEQUANT_COLUMNS);
}

const ig_cpu_entry IG_CPU_LIST(matmul_quant)[] = {
    {IG_OP_MATMUL, IG_F32, BY_UNIT, matmul_q8_setup, matmul_q8_unpacked},
    {IG_OP_MATMUL, IG_F32, BY_UNIT, matmul_f32_dequant_setup, matmul_f32_dequant},
    {IG_OP_MATMUL_GROUPED, IG_F32, BY_UNIT, grouped_q8_setup, grouped_q8_unpacked},
    {0},
};
