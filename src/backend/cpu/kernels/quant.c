/*
 * Weights that are stored in halves or blocks: products with them, rows of them as
 * embeddings, and their elements as numbers.
 *
 * Blocks are multiplied in whole numbers, with activations rounded to bytes before
 * the units of the product start; halves as floats.
 */
#include <math.h>

#include "backend/cpu/product.h"
#include "backend/cpu/whole.h"

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

/* ---- products: x [..., m, k], w [n, k], bias [n] or none -> [..., m, n] ---- */

typedef struct params {
    rows x, w;
    int64_t m, n, row_blocks;
    bool has_bias;
} params;

static int64_t pieces_of(int64_t n, int64_t size) { return (n + size - 1) / size; }

/* Rows of x to bytes, into the scratch: [m][k / 32]. */
static void round_rows(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    const int64_t blocks = p->x.columns / IG_BLOCK;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)row_at(&p->x, l->at[0], row);
        rounded *y = (rounded *)l->scratch + row * blocks;
        for (int64_t b = 0; b < blocks; b++)
            round_block(&panel_types[p->w.dtype], x + b * IG_BLOCK, y + b);
    }
}

static bool common_setup(const ig_step *step, params *p) {
    const ig_operand *x = &step->in[0], *w = &step->in[1], *y = &step->out[0];
    ig_attrs_matmul t;
    ig_step_attrs(step, &t, sizeof t);
    if (!is_stored(w->desc.dtype) || y->desc.dtype != IG_F32) return false;
    if (t.transpose_a || !t.transpose_b || t.activation || t.residual || w->desc.shape.rank != 2) return false;
    *p = (params){.n = last_dim(y), .m = 1, .has_bias = step->n_in > 2};
    if (!rows_make(x, &p->x) || !rows_make(w, &p->w)) return false;
    if (p->has_bias && (step->in[2].desc.dtype != IG_F32 || !rows_are_packed(&step->in[2])))
        return false;
    for (int d = 0; d < y->desc.shape.rank - 1; d++) p->m *= y->desc.shape.dim[d];
    return true;
}

static bool whole_setup(const ig_step *step, ig_cpu_setup *out) {
    params p;
    if (!common_setup(step, &p) || !panel_types[p.w.dtype].unpack) return false;
    const int64_t row_bytes = p.x.columns / IG_BLOCK * (int64_t)sizeof(rounded);
    p.row_blocks = pieces_of(p.m, WHOLE_ROWS);
    out->units = p.row_blocks * pieces_of(p.n, PANEL_COLUMNS);
    out->cost = product(product(PANEL_COLUMNS, smaller(p.m, WHOLE_ROWS)), p.x.columns);
    out->scratch_bytes = (uint64_t)product(p.m, row_bytes);
    out->prepare = round_rows;
    out->prepare_units = p.m;
    out->prepare_cost = product(p.x.columns, 2);
    return keep_params(out, &p, sizeof p);
}

/* A unit is a block of results; those of the same columns come one after the other. */
static void matmul_whole(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    const int64_t blocks = p->x.columns / IG_BLOCK;
    whole_room room;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t i = unit % p->row_blocks * WHOLE_ROWS;
        const int64_t j = unit / p->row_blocks * PANEL_COLUMNS;
        const whole_block part = {.x = (const rounded *)l->scratch + i * blocks,
                                  .x_row = blocks,
                                  .dtype = p->w.dtype,
                                  .w = row_at(&p->w, l->at[1], j),
                                  .w_row = ig_bytes_of(p->w.dtype, p->w.at.stride[0]),
                                  .blocks = blocks,
                                  .y = (float *)l->at[2 + p->has_bias] + i * p->n + j,
                                  .y_row = p->n,
                                  .bias = p->has_bias ? (const float *)l->at[2] + j : NULL};
        multiply_whole(&part, smaller(p->m - i, WHOLE_ROWS), smaller(p->n - j, PANEL_COLUMNS),
                       &room);
    }
}

static bool float_setup(const ig_step *step, ig_cpu_setup *out) {
    params p;
    if (!common_setup(step, &p)) return false;
    p.row_blocks = pieces_of(p.m, PRODUCT_ROWS);
    out->units = p.row_blocks * pieces_of(p.n, PRODUCT_COLUMNS);
    out->cost = product(product(PRODUCT_COLUMNS, smaller(p.m, PRODUCT_ROWS)), p.x.columns);
    return keep_params(out, &p, sizeof p);
}

static void matmul_float(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    const float *x[PRODUCT_ROWS];
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t i = unit % p->row_blocks * PRODUCT_ROWS;
        const int64_t j = unit / p->row_blocks * PRODUCT_COLUMNS;
        const int64_t m = smaller(p->m - i, PRODUCT_ROWS);
        for (int64_t r = 0; r < m; r++) x[r] = (const float *)row_at(&p->x, l->at[0], i + r);
        const float_block part = {.x = x,
                                  .dtype = p->w.dtype,
                                  .w = row_at(&p->w, l->at[1], j),
                                  .w_row = ig_bytes_of(p->w.dtype, p->w.at.stride[0]),
                                  .k = p->x.columns,
                                  .y = (float *)l->at[2 + p->has_bias] + i * p->n + j,
                                  .y_row = p->n,
                                  .bias = p->has_bias ? (const float *)l->at[2] + j : NULL};
        multiply(&part, m, smaller(p->n - j, PRODUCT_COLUMNS));
    }
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
    {IG_OP_EMBEDDING, IG_F16, BY_ROW, embedding_setup, embedding},
    {IG_OP_EMBEDDING, IG_BF16, BY_ROW, embedding_setup, embedding},
#define IG_DTYPE(ID, name, block, bytes)
#define IG_BLOCK_DTYPE(ID, name, block, bytes)                      \
    {IG_OP_EMBEDDING, IG_##ID, BY_ROW, embedding_setup, embedding}, \
        {IG_OP_CAST, IG_##ID, BY_ROW, cast_setup, cast},
#include "ingot/dtype.def"
    {0},
};
