/*
 * Data movement: pad, concat, gather, scatter_add, embedding.
 *
 * Copies take every dtype, bit for bit; sums take F32.  An index out of range gives NaN (0 for
 * integers), and adds to nothing.
 */
#include "backend/cpu/sum_batch.h"

/* ---- pad and concat: the rows of the result, one after the other ---- */

typedef struct rows_params {
    ig_shape shape; /* of the result */
    int axis;
    int64_t before; /* of a pad: zeros in front, along the axis */
    int64_t bytes;  /* of an element */
    uint32_t n_in;
} rows_params;

static bool rows_setup(const ig_step *step, ig_cpu_setup *out, int axis, int64_t before) {
    const ig_operand *y = &step->out[0];
    const rows_params p = {y->desc.shape, axis, before, dtype_bytes(y->desc.dtype), step->n_in};
    if (!operands_are(step, 0, y->desc.dtype) || axis < 0 || axis >= p.shape.rank) return false;
    out->cost = last_dim(y);
    return keep_params(out, &p, sizeof p);
}

static bool pad_setup(const ig_step *step, ig_cpu_setup *out) {
    ig_attrs_pad attrs;
    ig_step_attrs(step, &attrs, sizeof attrs);
    return rows_setup(step, out, attrs.axis, attrs.before);
}

static bool concat_setup(const ig_step *step, ig_cpu_setup *out) {
    ig_attrs_axis attrs;
    ig_step_attrs(step, &attrs, sizeof attrs);
    return rows_setup(step, out, attrs.axis, 0);
}

/* The index of row `row` of the result, in all dimensions but the last. */
static void index_of(const rows_params *p, int64_t row, int64_t *index) {
    for (int d = p->shape.rank - 2; d >= 0; d--) {
        index[d] = row % p->shape.dim[d];
        row /= p->shape.dim[d];
    }
}

/* Copies the row of input k at this index; returns the end of the written bytes. */
static char *copy_row(const ig_cpu_launch *l, uint32_t k, const int64_t *index, char *dst) {
    const rows_params *p = l->params;
    const ig_operand *o = &l->operand[k];
    const int last = p->shape.rank - 1;
    const int64_t n = o->desc.shape.dim[last];
    int64_t at = 0;
    for (int d = 0; d < last; d++) at += index[d] * o->stride[d];
    copy_strided(dst, 1, l->at[k] + at * p->bytes, o->stride[last], n, p->bytes);
    return dst + n * p->bytes;
}

static char *zero_row(const ig_cpu_launch *l, int64_t n, char *dst) {
    const int64_t bytes = n * ((const rows_params *)l->params)->bytes;
    memset(dst, 0, (size_t)bytes);
    return dst + bytes;
}

static void pad(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const rows_params *p = l->params;
    const int last = p->shape.rank - 1;
    const int64_t columns = p->shape.dim[last], extent = l->operand[0].desc.shape.dim[p->axis];
    int64_t index[IG_MAX_RANK];
    for (int64_t row = begin; row < end && columns > 0; row++) {
        char *dst = l->at[1] + row * columns * p->bytes;
        index_of(p, row, index);
        if (p->axis == last) {
            dst = copy_row(l, 0, index, zero_row(l, p->before, dst));
            zero_row(l, columns - p->before - extent, dst);
            continue;
        }
        index[p->axis] -= p->before;
        if (index[p->axis] >= 0 && index[p->axis] < extent)
            copy_row(l, 0, index, dst);
        else
            zero_row(l, columns, dst);
    }
}

static void concat(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const rows_params *p = l->params;
    const int last = p->shape.rank - 1;
    const int64_t columns = p->shape.dim[last];
    int64_t index[IG_MAX_RANK];
    for (int64_t row = begin; row < end && columns > 0; row++) {
        char *dst = l->at[p->n_in] + row * columns * p->bytes;
        index_of(p, row, index);
        uint32_t k = 0;
        if (p->axis == last) {
            for (; k < p->n_in; k++) dst = copy_row(l, k, index, dst);
            continue;
        }
        for (; index[p->axis] >= l->operand[k].desc.shape.dim[p->axis]; k++)
            index[p->axis] -= l->operand[k].desc.shape.dim[p->axis];
        copy_row(l, k, index, dst);
    }
}

/* ---- along an axis: gather and scatter_add ---- */

enum { X, INDEX, SRC, ADDED }; /* the operands of scatter_add */

typedef struct axis_params {
    strided_loop loop; /* the elements of the index; for scatter_add, the lines along the axis */
    int64_t extent;    /* indices must be in [0, extent) */
    int64_t indices;   /* along the axis */
    int64_t stride[4]; /* along the axis, of each operand */
    int64_t bytes;     /* of an element */
    uint64_t outside;  /* value for an index out of range */
} axis_params;

/* NaN of each dtype, low bytes first. */
static uint64_t outside_of(ig_dtype dtype) {
    static const uint64_t bits[IG_DTYPE_COUNT] = {
        [IG_F32] = 0x7fc00000,
        [IG_F16] = 0x7e00,
        [IG_BF16] = 0x7fc0,
        [IG_F64] = 0x7ff8000000000000,
    };
    return bits[dtype];
}

static bool axis_of(const ig_step *step, int *out) {
    ig_attrs_axis attrs;
    ig_step_attrs(step, &attrs, sizeof attrs);
    *out = attrs.axis;
    return attrs.axis >= 0 && attrs.axis < step->in[X].desc.shape.rank &&
           step->in[INDEX].desc.dtype == IG_I32;
}

/* x, index -> like the index: x is walked with it, with stride 0 along the axis. */
static bool gather_setup(const ig_step *step, ig_cpu_setup *out) {
    const ig_operand *x = &step->in[X], *index = &step->in[INDEX], *y = &step->out[0];
    int axis;
    if (!axis_of(step, &axis) || y->desc.dtype != x->desc.dtype) return false;
    axis_params p = {.extent = x->desc.shape.dim[axis],
                     .stride = {x->stride[axis]},
                     .bytes = dtype_bytes(x->desc.dtype),
                     .outside = outside_of(x->desc.dtype)};
    int64_t still[IG_MAX_RANK];
    memcpy(still, x->stride, sizeof still);
    still[axis] = 0;
    p.loop = strided_loop_make(index->desc.shape,
                               (const int64_t *[]){still, index->stride, y->stride}, 3);
    out->cost = 4;
    return keep_params(out, &p, sizeof p);
}

static void gather(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const axis_params *p = l->params;
    const strided_loop *g = &p->loop;
    const int last = g->rank - 1;
    strided_run r;
    for (strided_run_first(g, 3, begin, end, &r); r.n > 0; strided_run_next(g, 3, &r)) {
        const char *x = l->at[X] + r.at[X] * p->bytes;
        const int32_t *index = (const int32_t *)l->at[INDEX] + r.at[INDEX];
        char *y = l->at[2] + r.at[2] * p->bytes;
        for (int64_t i = 0; i < r.n; i++) {
            const int64_t to = index[i * g->stride[INDEX][last]];
            const int64_t at = i * g->stride[X][last] + to * p->stride[X];
            const bool inside = to >= 0 && to < p->extent;
            copy_strided(y + i * p->bytes, 1,
                         inside ? x + at * p->bytes : (const char *)&p->outside, 1, 1, p->bytes);
        }
    }
}

/*
 * x, index, src -> x with src added. A unit is a line along the axis: indices stay within their
 * line, so lines are independent.
 */
static bool scatter_setup(const ig_step *step, ig_cpu_setup *out) {
    const ig_operand *x = &step->in[X];
    int axis;
    if (!axis_of(step, &axis) || !operands_are(step, SRC, IG_F32)) return false;
    axis_params p = {.extent = x->desc.shape.dim[axis],
                     .indices = step->in[INDEX].desc.shape.dim[axis],
                     .bytes = dtype_bytes(IG_F32)};
    ig_shape lines = x->desc.shape;
    lines.dim[axis] = 1;
    const int64_t *stride[4];
    for (uint32_t k = 0; k < 4; k++) {
        stride[k] = ig_step_operand(step, k)->stride;
        p.stride[k] = stride[k][axis];
    }
    p.loop = strided_loop_make(lines, stride, 4);
    out->units = ig_shape_count(lines);
    out->cost = sat_mul(p.extent + p.indices, 4);
    return keep_params(out, &p, sizeof p);
}

/* The lines of a run are adjacent: the outer loop goes along the axis, the inner one over lines. */
static void scatter_add(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const axis_params *p = l->params;
    const strided_loop *g = &p->loop;
    const int last = g->rank - 1;
    strided_run r;
    for (strided_run_first(g, 4, begin, end, &r); r.n > 0; strided_run_next(g, 4, &r)) {
        const float *x = (const float *)l->at[X] + r.at[X];
        const float *src = (const float *)l->at[SRC] + r.at[SRC];
        const int32_t *index = (const int32_t *)l->at[INDEX] + r.at[INDEX];
        float *y = (float *)l->at[ADDED] + r.at[ADDED];
        const int64_t across = g->stride[ADDED][last];
        for (int64_t a = 0; a < p->extent; a++)
            copy_strided((char *)(y + a * p->stride[ADDED]), across,
                         (const char *)(x + a * p->stride[X]), g->stride[X][last], r.n, p->bytes);
        for (int64_t a = 0; a < p->indices; a++)
            for (int64_t i = 0; i < r.n; i++) {
                const int64_t to = index[a * p->stride[INDEX] + i * g->stride[INDEX][last]];
                if (to < 0 || to >= p->extent) continue;
                y[to * p->stride[ADDED] + i * across] +=
                    src[a * p->stride[SRC] + i * g->stride[SRC][last]];
            }
    }
}

/* ---- embedding ---- */

enum { GRAD_COLUMNS = 64 }; /* columns of the table per unit of the gradient */

typedef struct table_params {
    strided_index ids, dy;
    int64_t rows, columns; /* of the table, [v, d] */
    int64_t n_ids;
    batch_split split;          /* of the ids */
    int64_t row_stride, stride; /* of the table; of dy, the second alone */
    int64_t bytes;
    uint64_t outside;
} table_params;

/* table [v, d], ids [...] -> [..., d] */
static bool embedding_setup(const ig_step *step, ig_cpu_setup *out) {
    const ig_operand *table = &step->in[0], *ids = &step->in[1];
    const ig_dtype dtype = table->desc.dtype;
    if (ids->desc.dtype != IG_I32 || step->out[0].desc.dtype != dtype) return false;
    const table_params p = {.ids = strided_index_make(ids, 0),
                            .rows = table->desc.shape.dim[0],
                            .columns = table->desc.shape.dim[1],
                            .row_stride = table->stride[0],
                            .stride = table->stride[1],
                            .bytes = dtype_bytes(dtype),
                            .outside = outside_of(dtype)};
    out->cost = p.columns;
    return keep_params(out, &p, sizeof p);
}

/* Packed rows of complete vectors: too short for a call each. */
static void embed_vectors(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const table_params *p = l->params;
    const vf outside = vf_set(float_of_bits((uint32_t)p->outside));
    for (int64_t row = begin; row < end; row++) {
        const int64_t id = ((const int32_t *)l->at[1])[strided_offset(&p->ids, row)];
        const bool is_there = id >= 0 && id < p->rows;
        const float *from = (const float *)l->at[0] + (is_there ? id * p->row_stride : 0);
        float *to = (float *)l->at[2] + row * p->columns;
        for (int64_t i = 0; i < p->columns; i += VF_LANES)
            vf_store(to + i, is_there ? vf_load(from + i) : outside);
    }
}

static void embedding(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const table_params *p = l->params;
    const int64_t d = p->columns;
    if (p->bytes == sizeof(float) && p->stride == 1 && d % VF_LANES == 0) {
        embed_vectors(l, begin, end);
        return;
    }
    for (int64_t row = begin; row < end; row++) {
        const int64_t id = ((const int32_t *)l->at[1])[strided_offset(&p->ids, row)];
        char *dst = l->at[2] + row * d * p->bytes;
        if (id < 0 || id >= p->rows)
            copy_strided(dst, 1, (const char *)&p->outside, 0, d, p->bytes);
        else
            copy_strided(dst, 1, l->at[0] + id * p->row_stride * p->bytes, p->stride, d, p->bytes);
    }
}

/* ids [...], dy [..., d] -> dtable [v, d]. Units are columns: each goes through all rows of dy in
 * order, so sums do not depend on the threads. For a small table, there is a partial table per
 * split of the rows, and these are summed. */
static bool embedding_grad_setup(const ig_step *step, ig_cpu_setup *out) {
    const ig_operand *ids = &step->in[0], *dy = &step->in[1], *table = &step->out[0];
    if (!operands_are(step, 1, IG_F32)) return false;
    const table_params p = {.ids = strided_index_make(ids, 0),
                            .dy = strided_index_make(dy, 1),
                            .rows = table->desc.shape.dim[0],
                            .columns = table->desc.shape.dim[1],
                            .n_ids = ig_shape_count(ids->desc.shape),
                            .split = batch_split_of(ig_shape_count(ids->desc.shape)),
                            .stride = dy->stride[dy->desc.shape.rank - 1]};
    out->units = (p.columns + GRAD_COLUMNS - 1) / GRAD_COLUMNS;
    out->cost = sat_mul(p.rows + p.n_ids, GRAD_COLUMNS);
    return keep_params(out, &p, sizeof p);
}

/* Some columns of the table, and the rows of dy added to them. */
typedef struct table_part {
    float *table; /* its first of these columns */
    int64_t first, n;
    int64_t row, end;
} table_part;

/* `whole`: the columns are packed, and whole vectors. */
IG_INLINE void add_columns(const ig_cpu_launch *l, const table_part *t, const bool whole) {
    const table_params *p = l->params;
    const int32_t *ids = (const int32_t *)l->at[0];
    const int64_t n = t->n;
    for (int64_t row = t->row; row < t->end; row++) {
        const int64_t id = ids[strided_offset(&p->ids, row)];
        if (id < 0 || id >= p->rows) continue;
        const float *dy =
            (const float *)l->at[1] + strided_offset(&p->dy, row) + t->first * p->stride;
        float *sum = t->table + id * p->columns;
        for (int64_t i = 0; i < n; i += VF_LANES) {
            const int64_t m = whole ? VF_LANES : min_i64(n - i, VF_LANES);
            const vf more = vf_take(dy + i * p->stride, whole ? 1 : p->stride, m);
            vf_store_first(sum + i, vf_add(vf_load_first(sum + i, m), more), m);
        }
    }
}

static void fill_part(const ig_cpu_launch *l, const table_part *t) {
    const table_params *p = l->params;
    for (int64_t row = 0; row < p->rows; row++)
        memset(t->table + row * p->columns, 0, (size_t)t->n * sizeof *t->table);
    if (p->stride == 1 && t->n % VF_LANES == 0)
        add_columns(l, t, true);
    else
        add_columns(l, t, false);
}

static void embedding_grad(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const table_params *p = l->params;
    const int64_t first = begin * GRAD_COLUMNS;
    const table_part t = {.table = (float *)l->at[2] + first,
                          .first = first,
                          .n = min_i64(end * GRAD_COLUMNS, p->columns) - first,
                          .end = p->n_ids};
    fill_part(l, &t);
}

static void embedding_grad_splits(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const table_params *p = l->params;
    for (int64_t s = begin; s < end; s++) {
        const table_part t = {.table = (float *)l->scratch + s * p->rows * p->columns,
                              .n = p->columns,
                              .row = s * p->split.size,
                              .end = min_i64((s + 1) * p->split.size, p->n_ids)};
        fill_part(l, &t);
    }
}

/* The partial tables of all splits must be small compared with dy. */
static bool embedding_grad_splits_setup(const ig_step *step, ig_cpu_setup *out) {
    if (!embedding_grad_setup(step, out)) return false;
    const table_params *p = (const table_params *)out->params;
    if (p->split.count == 1 || sat_mul(p->rows, 4) > p->split.size) return false;
    const int64_t count = p->rows * p->columns;
    out->units = count;
    out->cost = p->split.count;
    out->scratch_bytes = (uint64_t)(count * p->split.count) * sizeof(float);
    out->prologue = embedding_grad_splits;
    out->prologue_units = p->split.count;
    out->prologue_cost = SPLIT_COST;
    return true;
}

static void add_tables(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const table_params *p = l->params;
    batch_split_add((const float *)l->scratch + begin, p->split.count, p->rows * p->columns,
                    end - begin, (float *)l->at[2] + begin);
}

const ig_cpu_entry IG_CPU_LIST(move)[] = {
#define IG_BLOCK_DTYPE(...)
#define IG_DTYPE(ID, name, block, bytes)                           \
    {IG_OP_PAD, IG_##ID, BY_ROW, pad_setup, pad},                  \
        {IG_OP_CONCAT, IG_##ID, BY_ROW, concat_setup, concat},     \
        {IG_OP_GATHER, IG_##ID, BY_ELEMENT, gather_setup, gather}, \
        {IG_OP_EMBEDDING, IG_##ID, BY_ROW, embedding_setup, embedding},
#include "ingot/dtype.def"
    {IG_OP_SCATTER_ADD, IG_F32, BY_UNIT, scatter_setup, scatter_add},
    {IG_OP_EMBEDDING_GRAD, IG_I32, BY_UNIT, embedding_grad_splits_setup, add_tables},
    {IG_OP_EMBEDDING_GRAD, IG_I32, BY_UNIT, embedding_grad_setup, embedding_grad},
    {0},
};
