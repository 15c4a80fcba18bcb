/*
 * Weights that are stored in halves or blocks: products with them, rows of them as
 * embeddings, and their elements as numbers.
 *
 * Blocks are multiplied in whole numbers, with activations rounded to bytes before
 * the units of the product start; halves as floats.
 */
#include <math.h>

#include "backend/cpu/gemm/epilogue.h"
#include "backend/cpu/gemm/expert_groups.h"
#include "backend/cpu/gemm/gemm_f32_f16packed.h"
#include "backend/cpu/gemm/gemm_f32_dequant.h"
#include "backend/cpu/qgemm/qgemm_mn_amx.h"

/* How rows of blocks lie: the last dimension is packed, and the others anyhow. */
typedef struct rows {
    places at; /* of the first element of each row */
    int64_t columns;
    ig_dtype dtype;
} rows;

static bool is_stored(ig_dtype dtype) { return dtype != IG_F32 && decoder_of(dtype); }

static bool rows_make(const ig_operand *o, rows *out) {
    if (!rows_are_packed(o)) return false;
    *out = (rows){places_make(o, 1), last_dim(o), o->desc.dtype};
    return true;
}

static const char *row_at(const rows *r, const char *first, int64_t row) {
    return first + ig_bytes_of(r->dtype, place_of(&r->at, row));
}

/* ---- products: x [..., m, k], w [n, k], bias [n] or none -> [..., m, n], through an
 * activation, and a residual like that is added ---- */

typedef struct params {
    rows x, w;
    int64_t m, n;
    bool has_bias, has_residual;
    uint32_t activation;
} params;

static int64_t pieces_of(int64_t n, int64_t size) { return (n + size - 1) / size; }

/* Rows of x to bytes, into the scratch: [m][k / 32]. */
static void round_rows(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    const int64_t blocks = p->x.columns / IG_BLOCK;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)row_at(&p->x, l->at[0], row);
        round_blocks(&panel_types[p->w.dtype], x, blocks, (rounded *)l->scratch + row * blocks);
    }
}

/* The same for tiles of rows: [tiles][k / 32], each as tiled.h has it. */
static void round_tiles(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    const panel_type *t = &panel_types[p->w.dtype];
    const int64_t blocks = p->x.columns / IG_BLOCK, bytes = tiled_block_bytes(t->kind);
    for (int64_t tile = begin; tile < end; tile++) {
        const int64_t count = tiled_rows(p->m, tile);
        char *first = l->scratch + tile * blocks * bytes;
        if (count < TILED_ROWS) memset(first, 0, (size_t)(blocks * bytes));
        for (int64_t r = 0; r < count; r++) {
            const float *x = (const float *)row_at(&p->x, l->at[0], tile * TILED_ROWS + r);
            char *to = first;
            for (int64_t b = 0; b < blocks; b += ROUND_TOGETHER) {
                rounded four[ROUND_TOGETHER];
                const int64_t n = smaller(blocks - b, ROUND_TOGETHER);
                round_blocks(t, x + b * IG_BLOCK, n, four);
                for (int64_t i = 0; i < n; i++, to += bytes) tiled_keep(&four[i], r, to, t->kind);
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
    if (!rows_make(x, &p->x) || !rows_make(w, &p->w)) return false;
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

/* What comes behind it, from there on. */
static ending ending_of(const ig_cpu_launch *l, int64_t at) {
    const params *p = l->params;
    return (ending){p->activation,
                    p->has_residual ? (const float *)l->at[2 + p->has_bias] + at : NULL};
}

static int64_t groups_of(const params *p) { return pieces_of(p->n, PANEL_COLUMNS); }

static void pack(const void *params_of_step, const char *weight, char *packed, int64_t begin,
                 int64_t end) {
    const params *p = params_of_step;
    const int64_t blocks = p->w.columns / IG_BLOCK, bytes = packed_group_bytes(p->w.dtype, blocks);
    for (int64_t g = begin; g < end; g++)
        pack_group(p->w.dtype, row_at(&p->w, weight, g * PANEL_COLUMNS),
                   ig_bytes_of(p->w.dtype, p->w.at.stride[0]),
                   smaller(p->n - g * PANEL_COLUMNS, PANEL_COLUMNS), blocks,
                   (uint8_t *)packed + g * bytes);
}

/* Units are groups of columns, for all rows. */
static void multiply_groups(const ig_cpu_launch *l, int64_t begin, int64_t end, bool is_packed) {
    const params *p = l->params;
    const int64_t blocks = p->x.columns / IG_BLOCK, j = begin * PANEL_COLUMNS;
    const int64_t group_bytes = packed_group_bytes(p->w.dtype, blocks);
    const whole_block part = {
        .x = (const rounded *)l->scratch,
        .x_row = blocks,
        .rows = p->m,
        .dtype = p->w.dtype,
        .is_packed = is_packed,
        .w = is_packed ? l->at[1] + begin * group_bytes : row_at(&p->w, l->at[1], j),
        .w_row = is_packed ? group_bytes : ig_bytes_of(p->w.dtype, p->w.at.stride[0]),
        .columns = smaller(p->n, end * PANEL_COLUMNS) - j,
        .blocks = blocks,
        .y = result_at(l, j),
        .y_row = p->n,
        .bias = p->has_bias ? (const float *)l->at[2] + j : NULL,
        .end = ending_of(l, j)};
    if (tiled_fits(p->w.dtype, p->m))
        multiply_tiled(&part);
    else
        multiply_whole(&part);
}

static void matmul_whole(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    multiply_groups(l, begin, end, false);
}

static void matmul_packed(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    multiply_groups(l, begin, end, true);
}

static bool whole_setup(const ig_step *step, ig_cpu_setup *out) {
    params p;
    if (!common_setup(step, &p) || !panel_types[p.w.dtype].unpack) return false;
    const int64_t blocks = p.x.columns / IG_BLOCK;
    out->units = groups_of(&p);
    out->cost = product(product(PANEL_COLUMNS, p.m), p.x.columns);
    out->together = together_of(out->units, p.m);
    out->scratch_bytes = (uint64_t)product(p.m, blocks * (int64_t)sizeof(rounded));
    out->prepare = round_rows;
    out->prepare_units = p.m;
    out->prepare_cost = product(p.x.columns, 2);
    out->prepare_kind = rounded_kind(p.w.dtype);
    out->prepares_rows = !tiled_fits(p.w.dtype, p.m);
    if (tiled_fits(p.w.dtype, p.m)) {
        out->scratch_bytes = (uint64_t)product(
            tiled_count(p.m), blocks * tiled_block_bytes(panel_types[p.w.dtype].kind));
        out->prepare = round_tiles;
        out->prepare_units = tiled_count(p.m);
        out->prepare_cost = product(p.x.columns, 2 * TILED_ROWS);
    }
    if (VF_LANES > 1)
        out->pack = (ig_cpu_pack){.run = matmul_packed,
                                  .pack = pack,
                                  .input = 1,
                                  .parts = out->units,
                                  .part_bytes = (uint64_t)packed_group_bytes(p.w.dtype, blocks)};
    return keep_params(out, &p, sizeof p);
}

/* ---- products by expert: x [s, k], w [e, n, k], offsets [e + 1] -> [s, n] ---- */

static int64_t expert_groups(const grouped *p) { return pieces_of(p->n, PANEL_COLUMNS); }

static void round_grouped(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const grouped *p = l->params;
    const int64_t blocks = p->k / IG_BLOCK;
    round_blocks(&panel_types[p->dtype], (const float *)l->at[0] + begin * p->k,
                 (end - begin) * blocks, (rounded *)l->scratch + begin * blocks);
}

/* The groups of all experts, one expert after the other. */
static void pack_experts(const void *params_of_step, const char *weight, char *packed,
                         int64_t begin, int64_t end) {
    const grouped *p = params_of_step;
    const int64_t blocks = p->k / IG_BLOCK, bytes = packed_group_bytes(p->dtype, blocks);
    const int64_t row_bytes = ig_bytes_of(p->dtype, p->k);
    for (int64_t i = begin; i < end; i++) {
        const int64_t expert = i / expert_groups(p), j = i % expert_groups(p) * PANEL_COLUMNS;
        pack_group(p->dtype, weight + (expert * p->n + j) * row_bytes, row_bytes,
                   smaller(p->n - j, PANEL_COLUMNS), blocks, (uint8_t *)packed + i * bytes);
    }
}

/* Groups of columns through all experts. */
static void multiply_experts(const ig_cpu_launch *l, int64_t begin, int64_t end, bool is_packed) {
    const grouped *p = l->params;
    const int32_t *offsets = (const int32_t *)l->at[2];
    const int64_t j = begin * PANEL_COLUMNS, columns = smaller(p->n, end * PANEL_COLUMNS) - j;
    const int64_t blocks = p->k / IG_BLOCK, row_bytes = ig_bytes_of(p->dtype, p->k);
    const int64_t group_bytes = packed_group_bytes(p->dtype, blocks);
    float *y = (float *)l->at[3] + j;
    int64_t row = grouped_begin(p, offsets);
    clear_rows(y, p->n, row, columns);
    for (int64_t e = 0; e < p->experts; e++) {
        const int64_t next = grouped_end(p, offsets, e, row);
        const char *w = is_packed ? l->at[1] + (e * expert_groups(p) + begin) * group_bytes
                                  : l->at[1] + (e * p->n + j) * row_bytes;
        const whole_block part = {.x = (const rounded *)l->scratch + row * blocks,
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
        if (part.rows > 0) multiply_whole(&part);
        row = next;
    }
    clear_rows(y + row * p->n, p->n, p->rows - row, columns);
}

static void experts_whole(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    multiply_experts(l, begin, end, false);
}

static void experts_packed(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    multiply_experts(l, begin, end, true);
}

static bool experts_setup(const ig_step *step, ig_cpu_setup *out) {
    grouped p = grouped_of(step);
    if (!grouped_is_transposed(step) || !inputs_are_packed(step)) return false;
    if (!panel_types[p.dtype].unpack) return false;
    const int64_t blocks = p.k / IG_BLOCK;
    p.n = step->in[1].desc.shape.dim[1];
    out->units = expert_groups(&p);
    out->cost = product(product(p.rows, p.k), PANEL_COLUMNS);
    out->together = together_of(out->units, 1);
    out->scratch_bytes = (uint64_t)product(p.rows, blocks * (int64_t)sizeof(rounded));
    out->prepare = round_grouped;
    out->prepare_units = p.rows;
    out->prepare_cost = product(p.k, 2);
    out->prepare_kind = rounded_kind(p.dtype);
    out->prepares_rows = true;
    if (VF_LANES > 1)
        out->pack = (ig_cpu_pack){.run = experts_packed,
                                  .pack = pack_experts,
                                  .input = 1,
                                  .parts = p.experts * out->units,
                                  .part_bytes = (uint64_t)packed_group_bytes(p.dtype, blocks)};
    return keep_params(out, &p, sizeof p);
}

/* ---- products with halves ---- */

static void pack_halves(const void *params_of_step, const char *weight, char *packed, int64_t begin,
                        int64_t end) {
    const params *p = params_of_step;
    const int64_t k = p->w.columns;
    for (int64_t g = begin; g < end; g++)
        pack_half_group(row_at(&p->w, weight, g * HALF_GROUP),
                        ig_bytes_of(p->w.dtype, p->w.at.stride[0]),
                        smaller(p->n - g * HALF_GROUP, HALF_GROUP), k,
                        (uint16_t *)(void *)(packed + g * half_group_bytes(k)));
}

/* Tiles of rows of x, turned, into the scratch. */
static void turn_tiles(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    const int64_t k = p->x.columns;
    for (int64_t i = begin; i < end; i++) {
        const float *x[HALF_TILE_ROWS];
        const int64_t first = half_row(p->m, i), count = half_row(p->m, i + 1) - first;
        for (int64_t r = 0; r < count; r++)
            x[r] = (const float *)row_at(&p->x, l->at[0], first + r);
        turn_rows(x, count, k, (float *)(void *)l->scratch + first * half_steps(k) * HALF_GROUP);
    }
}

static void matmul_halves(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    const int64_t k = p->x.columns, j = begin * HALF_GROUP;
    const half_block part = {
        .dtype = p->w.dtype,
        .w = (const uint16_t *)(const void *)(l->at[1] + begin * half_group_bytes(k)),
        .k = k,
        .x = (const float *)(const void *)l->scratch,
        .rows = p->m,
        .columns = smaller(p->n, end * HALF_GROUP) - j,
        .y = result_at(l, j),
        .y_row = p->n,
        .bias = p->has_bias ? (const float *)l->at[2] + j : NULL,
        .end = ending_of(l, j)};
    multiply_packed_halves(&part);
}

static_assert((int)HALF_GROUP == PRODUCT_COLUMNS && (int)HALF_GROUP == PANEL_COLUMNS,
              "units are the same, packed or not");

static bool is_half(ig_dtype dtype) { return dtype == IG_F16 || dtype == IG_BF16; }

/* Units are groups of columns, for all rows. */
static bool float_setup(const ig_step *step, ig_cpu_setup *out) {
    params p;
    if (!common_setup(step, &p)) return false;
    out->units = groups_of(&p);
    out->cost = product(product(PRODUCT_COLUMNS, p.m), p.x.columns);
    if (VF_LANES > 1 && is_half(p.w.dtype) && step->in[1].kind == IG_KIND_WEIGHT) {
        out->together = half_together(out->units, p.m);
        out->scratch_bytes =
            (uint64_t)product(p.m, half_steps(p.x.columns) * HALF_GROUP * (int64_t)sizeof(float));
        out->prepare = turn_tiles;
        out->prepare_units = half_tile_count(p.m);
        out->prepare_cost = product(p.x.columns, HALF_TILE_ROWS);
        out->prepare_kind = 1;
        out->pack = (ig_cpu_pack){.run = matmul_halves,
                                  .pack = pack_halves,
                                  .input = 1,
                                  .parts = out->units,
                                  .part_bytes = (uint64_t)half_group_bytes(p.x.columns),
                                  .prepares = true};
    }
    return keep_params(out, &p, sizeof p);
}

/* Rows [i, i + count) times columns [j, j + PRODUCT_COLUMNS). */
static void multiply_rows(const ig_cpu_launch *l, int64_t i, int64_t count, int64_t j) {
    const params *p = l->params;
    const float *x[PRODUCT_ROWS];
    for (int64_t r = 0; r < count; r++) x[r] = (const float *)row_at(&p->x, l->at[0], i + r);
    const float_block part = {.x = x,
                              .dtype = p->w.dtype,
                              .w = row_at(&p->w, l->at[1], j),
                              .w_row = ig_bytes_of(p->w.dtype, p->w.at.stride[0]),
                              .k = p->x.columns,
                              .y = result_at(l, i * p->n + j),
                              .y_row = p->n,
                              .bias = p->has_bias ? (const float *)l->at[2] + j : NULL};
    multiply(&part, count, smaller(p->n - j, PRODUCT_COLUMNS));
    finish(ending_of(l, i * p->n + j), part.y, p->n, count, smaller(p->n - j, PRODUCT_COLUMNS));
}

static void matmul_float(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    for (int64_t unit = begin; unit < end; unit++)
        for (int64_t i = 0; i < p->m; i += PRODUCT_ROWS)
            multiply_rows(l, i, smaller(p->m - i, PRODUCT_ROWS), unit * PRODUCT_COLUMNS);
}

/* ---- rows of numbers ---- */

typedef struct table_params {
    rows table;
    places ids;
    int64_t rows;
} table_params;

/* table [v, d], ids [...] -> [..., d] */
static bool embedding_setup(const ig_step *step, ig_cpu_setup *out) {
    const ig_operand *table = &step->in[0], *ids = &step->in[1];
    table_params p = {.ids = places_make(ids, 0), .rows = table->desc.shape.dim[0]};
    if (ids->desc.dtype != IG_I32 || step->out[0].desc.dtype != IG_F32) return false;
    if (!rows_make(table, &p.table)) return false;
    out->cost = p.table.columns;
    return keep_params(out, &p, sizeof p);
}

static void embedding(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const table_params *p = l->params;
    const int64_t d = p->table.columns;
    for (int64_t row = begin; row < end; row++) {
        const int64_t id = ((const int32_t *)l->at[1])[place_of(&p->ids, row)];
        float *y = (float *)l->at[2] + row * d;
        if (id >= 0 && id < p->rows)
            decoder_of(p->table.dtype)(row_at(&p->table, l->at[0], id), y, d);
        else
            for (int64_t i = 0; i < d; i++) y[i] = NAN;
    }
}

static bool cast_setup(const ig_step *step, ig_cpu_setup *out) {
    rows p;
    if (step->out[0].desc.dtype != IG_F32 || !rows_make(&step->in[0], &p)) return false;
    out->cost = p.columns;
    return keep_params(out, &p, sizeof p);
}

static void cast(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const rows *p = l->params;
    for (int64_t row = begin; row < end; row++)
        decoder_of(p->dtype)(row_at(p, l->at[0], row), (float *)l->at[1] + row * p->columns,
                             p->columns);
}

const ig_cpu_entry IG_CPU_LIST(quant)[] = {
    {IG_OP_MATMUL, IG_F32, BY_UNIT, whole_setup, matmul_whole},
    {IG_OP_MATMUL, IG_F32, BY_UNIT, float_setup, matmul_float},
    {IG_OP_MATMUL_GROUPED, IG_F32, BY_UNIT, experts_setup, experts_whole},
    {IG_OP_EMBEDDING, IG_F16, BY_ROW, embedding_setup, embedding},
    {IG_OP_EMBEDDING, IG_BF16, BY_ROW, embedding_setup, embedding},
#define IG_DTYPE(ID, name, block, bytes)
#define IG_BLOCK_DTYPE(ID, name, block, bytes)                      \
    {IG_OP_EMBEDDING, IG_##ID, BY_ROW, embedding_setup, embedding}, \
        {IG_OP_CAST, IG_##ID, BY_ROW, cast_setup, cast},
#include "ingot/dtype.def"
    {0},
};
