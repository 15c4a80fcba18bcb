/*
 * Rows of stored weights as F32: embedding lookups, and casts from quantization blocks.
 *
 * A unit is one row; dequantize.h has the formulas, which give the bits of base/quant_blocks.c.
 */
#include "backend/cpu/dequantize.h"

#include <math.h>

typedef struct table_params {
    stored_rows table;
    strided_index ids;
    int64_t rows;
} table_params;

/* table [v, d], ids [...] -> [..., d] */
static bool embedding_setup(const ig_step *step, ig_cpu_setup *out) {
    const ig_operand *table = &step->in[0], *ids = &step->in[1];
    table_params p = {.ids = strided_index_make(ids, 0), .rows = table->desc.shape.dim[0]};
    if (ids->desc.dtype != IG_I32 || step->out[0].desc.dtype != IG_F32) return false;
    if (!stored_rows_make(table, &p.table)) return false;
    out->cost = p.table.columns;
    return keep_params(out, &p, sizeof p);
}

/* An id outside the table gives a row of NaN. */
static void embedding_dequant(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const table_params *p = l->params;
    const int64_t d = p->table.columns;
    for (int64_t row = begin; row < end; row++) {
        const int64_t id = ((const int32_t *)l->at[1])[strided_offset(&p->ids, row)];
        float *y = (float *)l->at[2] + row * d;
        if (id >= 0 && id < p->rows)
            dequantizer_of(p->table.dtype)(stored_row(&p->table, l->at[0], id), y, d);
        else
            for (int64_t i = 0; i < d; i++) y[i] = NAN;
    }
}

static bool cast_setup(const ig_step *step, ig_cpu_setup *out) {
    stored_rows p;
    if (step->out[0].desc.dtype != IG_F32 || !stored_rows_make(&step->in[0], &p)) return false;
    out->cost = p.columns;
    return keep_params(out, &p, sizeof p);
}

static void cast_dequant(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const stored_rows *p = l->params;
    for (int64_t row = begin; row < end; row++)
        dequantizer_of(p->dtype)(stored_row(p, l->at[0], row), (float *)l->at[1] + row * p->columns,
                                 p->columns);
}

const ig_cpu_entry IG_CPU_LIST(dequantize)[] = {
    {IG_OP_EMBEDDING, IG_F16, BY_ROW, embedding_setup, embedding_dequant},
    {IG_OP_EMBEDDING, IG_BF16, BY_ROW, embedding_setup, embedding_dequant},
#define IG_DTYPE(ID, name, block, bytes)
#define IG_BLOCK_DTYPE(ID, name, block, bytes)                              \
    {IG_OP_EMBEDDING, IG_##ID, BY_ROW, embedding_setup, embedding_dequant}, \
        {IG_OP_CAST, IG_##ID, BY_ROW, cast_setup, cast_dequant},
#include "ingot/dtype.def"
    {0},
};
