/*
 * a [..., m, k] x b [..., k, n] + bias [n] -> [..., m, n], an activation on top, and a
 * residual added to that.
 *
 * Every element of the result is one chain of multiply-adds over ascending k (small
 * gradients of weights apart, see below); the bias comes next, the activation and the
 * residual last, on what would be stored.  That holds whatever m, n, the batch or the
 * strides are, so a row's result does not depend on its neighbors.  gemm_f32.h has the tiles
 * that compute it.  Factors may be stored in 16 bits: they become floats when a unit
 * copies them to where it reads them from, so they are never converted as a whole.
 *
 *       +------+------+      A unit is an output tile.  It takes k in k-blocks, and in
 *     m | unit | unit |      each multiplies the strips of its rows by the panels of its
 *       +------+------+      columns.  Between k-blocks partial sums stay in the result
 *       | unit | unit |      itself, which changes no bit.
 *       +------+------+
 *              n             Small GEMMs are cut so that several threads get some of
 *                            it, large ones so that packed panels are reused.
 *
 * Where a is transposed, k counts samples: the result is the gradient of a weight.  If
 * it is small its sums are split, too: sum_batch.h.
 */
#include "backend/cpu/gemm/epilogue.h"
#include "backend/cpu/gemm/gemm_f32.h"
#include "backend/cpu/gemm/gemv_f32.h"
#include "backend/cpu/sum_batch.h"

/* Where the panels of b are that a unit reads. */
typedef enum panel_place {
    IN_ROWS,      /* nowhere: gemv_f32.h reads b, whose columns lie packed */
    IN_PLACE,     /* in b itself: it is small, or M is */
    ON_STACK,     /* the unit packs them, k-block by k-block */
    OF_UNIT,      /* the unit packs them all, into its part of the scratch */
    OF_ALL_UNITS, /* they are packed before the units start */
} panel_place;

typedef struct params {
    int64_t m, n, k;
    int64_t a_row, a_k, b_k, b_column, bias;  /* strides */
    int64_t row_block, column_block, k_block; /* of a unit, and of a k-block */
    int64_t row_blocks, column_blocks;        /* units in a product */
    int64_t pack;                             /* rows or columns of b that are packed at once */
    batch_split split;                        /* of k */
    panel_place panels;
    int32_t vectors; /* of a tile, and so of a panel */
    int32_t batch_rank;
    int64_t batch[IG_MAX_RANK], a_batch[IG_MAX_RANK], b_batch[IG_MAX_RANK];
    bool a_in_place, has_bias, has_residual;
    ig_dtype a_dtype, b_dtype;
    int64_t a_bytes, b_bytes; /* of an element */
    uint32_t activation;
} params;

enum {
    MR = VF_TILE_ROWS,
    STRIPS = 8,              /* that meet a panel while it is near */
    MOST_COLUMNS = 1024,     /* of a unit */
    STACK_FLOATS = 8 * 1024, /* of the panels of a unit, where they are on its stack */
    UNITS = 16,              /* enough for threads to finish together */
    FEW = 12,                /* rows */
    NEAR = 1 << 15,          /* elements of a matrix that is near enough as it lies */
    SMALL = 1 << 15,         /* multiply-adds that one thread does better alone */
    LARGE = 1 << 22,         /* and from which on b is packed as a whole */
    PACK_PANELS = 8,         /* that are packed at once, */
    PACK_FLOATS = 1 << 14,   /* or so much of rows */
    PACK_COST = 4,           /* of an element that is packed, in multiply-adds */
    LEAST_ROWS = 16,         /* of a chunk that goes through products row by row, */
    MOST_ROWS = 8 * MR,      /* and enough to pack b rarely */
};

static int64_t blocks_of(int64_t n, int64_t block) { return (n + block - 1) / block; }
static int64_t width_of(const params *p) { return p->vectors * VF_LANES; }

/* Units that pack one k-block. */
static int64_t pack_groups(const params *p) {
    return blocks_of(p->b_column == 1 ? p->k_block : p->n, p->pack);
}

/* ---- computing ---- */

/* Rows of a, columns of b, and where the results go: a unit, or a part of one. */
typedef struct block {
    const char *a, *b;
    const float *bias; /* packed, or NULL */
    float *y;
    const float *residual;              /* lies as y does, or NULL */
    int64_t rows, columns, row, column; /* how many; and the first of each */
    int64_t k;
} block;

/* So many elements further on, forward or back. */
static const char *a_at(const params *p, const char *a, int64_t elements) {
    return a + elements * p->a_bytes;
}

static const char *b_at(const params *p, const char *b, int64_t elements) {
    return b + elements * p->b_bytes;
}

/* Panels of b for a k-block: that of column j begins at at + j * column. */
typedef struct source {
    const float *at;
    int64_t k, column; /* strides */
} source;

/* The strips of rows [first, first + count * height) of a unit, for the products of k from k0 on:
 * where they lie, or copied. */
static int take_strips(const params *p, const block *u, int64_t k0, int64_t k, int64_t first,
                       int64_t height, float *copies, tile *strips) {
    int count = 0;
    for (int64_t i = first; i < u->rows && count < STRIPS; i += height) {
        tile *t = &strips[count];
        const char *a = a_at(p, u->a, i * p->a_row + k0 * p->a_k);
        *t = (tile){.a = (const float *)a, .a_row = p->a_row, .a_k = p->a_k};
        t->rows = min_i64(u->rows - i, height);
        t->k = k;
        t->y = u->y + i * p->n;
        t->y_row = p->n;
        t->first = k0 == 0;
        if (!p->a_in_place) copy_strip(t, a, p->a_dtype, copies + count * STRIP_FLOATS);
        count++;
    }
    return count;
}

/* Adds the products of k from k0 on.  A panel stays in the first cache while strips come to it from
 * the second.  Strips are of equal height, so that none is too low to keep the machine busy. */
static void add_k_block(const params *p, const block *u, int64_t k0, int64_t k, const source *b,
                        lines *next, int vectors) {
    _Alignas(64) float copies[STRIPS * STRIP_FLOATS];
    tile strips[STRIPS];
    lines right; /* of a panel that is read in place, prefetched here */
    const bool last = k0 + k == u->k;
    const int64_t width = vectors * VF_LANES;
    const int64_t height = blocks_of(u->rows, blocks_of(u->rows, MR));
    for (int64_t i = 0; i < u->rows; i += STRIPS * height) {
        const int count = take_strips(p, u, k0, k, i, height, copies, strips);
        for (int64_t j = 0; j < u->columns; j += width)
            for (int strip = 0; strip < count; strip++) {
                tile t = strips[strip];
                t.b = b->at + j * b->column;
                t.b_k = b->k;
                t.next = b->column == 1 ? &right : next;
                t.y += j;
                if (b->column == 1)
                    right = lines_of((const char *)(t.b + width), k, width, b->k, 1, sizeof *t.b);
                t.bias = last && u->bias ? u->bias + j : NULL;
                if (strip + 1 < count) prefetch_sums(&strips[strip + 1], j, width);
                run_tiles(&t, min_i64(u->columns - j, width), vectors);
            }
        if (last)
            apply_epilogue(epilogue_at((epilogue){p->activation, u->residual}, i * p->n),
                           u->y + i * p->n, p->n, min_i64(u->rows - i, STRIPS * height),
                           u->columns);
    }
}

/* What the unit, or the one after it, packs after the k-block that ends at k0. */
static lines prefetch_packed(const params *p, const block *u, int64_t k0) {
    const bool more = k0 < u->k;
    if (!more) k0 = 0;
    const int64_t j = u->column + (more ? 0 : p->column_block);
    const int64_t columns = min_i64(p->n - j, p->column_block);
    if (columns <= 0) return (lines){0};
    return lines_of(b_at(p, u->b, (j - u->column) * p->b_column + k0 * p->b_k),
                    min_i64(u->k - k0, p->k_block), columns, p->b_k, p->b_column, p->b_bytes);
}

/* Panels of `vectors` vectors, packed k-block by k-block. */
static void compute_on_stack(const params *p, const block *u, int vectors) {
    _Alignas(64) float panels[STACK_FLOATS];
    const int64_t width = vectors * VF_LANES;
    for (int64_t k0 = 0; k0 < u->k || k0 == 0; k0 += p->k_block) {
        const int64_t k = min_i64(u->k - k0, p->k_block);
        const matrix from = {b_at(p, u->b, k0 * p->b_k), p->b_k, p->b_column, p->b_dtype};
        const source b = {panels, width, k};
        lines next = prefetch_packed(p, u, k0 + k);
        pack_panels(&from, k, u->columns, width, panels, width * k);
        add_k_block(p, u, k0, k, &b, &next, vectors);
    }
}

/* Columns that do not fill a vector cannot be loaded where they lie: they are packed. */
static void compute_in_place(const params *p, const block *u) {
    block whole = *u, rest = *u;
    whole.columns = u->columns / VF_LANES * VF_LANES;
    rest.columns = u->columns - whole.columns;
    for (int64_t k0 = 0; whole.columns > 0 && (k0 < u->k || k0 == 0); k0 += p->k_block) {
        const source b = {(const float *)u->b + k0 * p->b_k, p->b_k, 1};
        lines none = {0};
        add_k_block(p, &whole, k0, min_i64(u->k - k0, p->k_block), &b, &none, p->vectors);
    }
    if (rest.columns == 0) return;
    rest.b = b_at(p, rest.b, whole.columns);
    rest.y += whole.columns;
    if (rest.bias) rest.bias += whole.columns;
    if (rest.residual) rest.residual += whole.columns;
    compute_on_stack(p, &rest, 1);
}

/* As many columns as fill vectors; the others are packed. */
static void compute_in_rows(const params *p, const block *u) {
    block rest = *u;
    const int64_t whole = u->columns / VF_LANES * VF_LANES;
    const gemv g = {.x = (const float *)u->a,
                    .x_row = p->a_row,
                    .k = u->k,
                    .w = (const float *)u->b,
                    .w_row = p->b_column,
                    .y = u->y,
                    .y_row = p->n,
                    .bias = u->bias};
    gemv_f32(&g, u->rows, whole);
    apply_epilogue((epilogue){p->activation, u->residual}, u->y, p->n, u->rows, whole);
    rest.columns = u->columns - whole;
    if (rest.columns == 0) return;
    rest.b = b_at(p, rest.b, whole * p->b_column);
    rest.y += whole;
    rest.column += whole;
    if (rest.bias) rest.bias += whole;
    if (rest.residual) rest.residual += whole;
    compute_on_stack(p, &rest, 1);
}

/* The panels of k-block s in the scratch, all with room for k_block rows.  A unit that packs its
 * own uses one place for all k-blocks. */
static float *packed_k_block(const params *p, char *scratch, int64_t s) {
    if (p->panels == OF_UNIT) s = 0;
    return (float *)scratch + s * blocks_of(p->n, width_of(p)) * width_of(p) * p->k_block;
}

/* Packs `columns` columns of b, from column j on, for rows [k0, k0 + k) of k-block s. */
static void pack_k_block(const params *p, const char *b, char *scratch, int64_t s, int64_t k0,
                         int64_t k, int64_t j, int64_t columns) {
    const int64_t width = width_of(p);
    const matrix from = {b_at(p, b, k0 * p->b_k + j * p->b_column), p->b_k, p->b_column,
                         p->b_dtype};
    float *to = packed_k_block(p, scratch, s) + j * p->k_block + (k0 - s * p->k_block) * width;
    pack_panels(&from, k, columns, width, to, width * p->k_block);
}

/* What the unit, or the one after it, reads from memory after the k-block that ends at k0:
 * columns of b that it packs, or else rows of a. */
static lines prefetch_next(const params *p, const block *u, int64_t k0) {
    const bool more = k0 < p->k;
    if (!more) k0 = 0;
    const int64_t k = min_i64(p->k - k0, p->k_block);
    if (p->panels == OF_UNIT) {
        const int64_t j = u->column + (more ? 0 : p->column_block);
        const int64_t columns = min_i64(p->n - j, p->column_block);
        if (columns <= 0) return (lines){0};
        return lines_of(b_at(p, u->b, (j - u->column) * p->b_column + k0 * p->b_k), k, columns,
                        p->b_k, p->b_column, p->b_bytes);
    }
    const int64_t i = u->row + (more ? 0 : p->row_block);
    const int64_t rows = min_i64(p->m - i, p->row_block);
    if (rows <= 0) return (lines){0};
    return lines_of(a_at(p, u->a, (i - u->row) * p->a_row + k0 * p->a_k), rows, k, p->a_row, p->a_k,
                    p->a_bytes);
}

static void compute_packed(const params *p, const block *u, const ig_cpu_launch *l) {
    for (int64_t s = 0; s * p->k_block < p->k; s++) {
        const int64_t k0 = s * p->k_block, k = min_i64(p->k - k0, p->k_block);
        const source b = {packed_k_block(p, l->scratch, s) + u->column * p->k_block, width_of(p),
                          p->k_block};
        lines next = prefetch_next(p, u, k0 + k);
        if (p->panels == OF_UNIT)
            pack_k_block(p, l->at[1], l->scratch, s, k0, k, u->column, u->columns);
        add_k_block(p, u, k0, k, &b, &next, p->vectors);
    }
}

/* Rows [i, i + rows) and block number `column` of the columns, in the first product. */
static block block_at(const ig_cpu_launch *l, int64_t i, int64_t rows, int64_t column) {
    const params *p = l->params;
    const int64_t j = column * p->column_block, at = i * p->n + j;
    return (block){.a = a_at(p, l->at[0], i * p->a_row),
                   .b = b_at(p, l->at[1], j * p->b_column),
                   .y = (float *)l->at[2 + p->has_bias + p->has_residual] + at,
                   .residual = p->has_residual ? (const float *)l->at[2 + p->has_bias] + at : NULL,
                   .rows = min_i64(p->m - i, rows),
                   .columns = min_i64(p->n - j, p->column_block),
                   .row = i,
                   .column = j,
                   .k = p->k};
}

/* Where panels are shared, blocks of the same columns come one after the other.  Else those of the
 * same rows do, as they do in most other kernels: who wrote a row reads it. */
static block block_of(const ig_cpu_launch *l, int64_t unit) {
    const params *p = l->params;
    const int64_t in_product = unit % (p->row_blocks * p->column_blocks);
    const bool shared = p->panels == OF_ALL_UNITS;
    const int64_t row = shared ? in_product % p->row_blocks : in_product / p->column_blocks;
    const int64_t column = shared ? in_product / p->row_blocks : in_product % p->column_blocks;
    int64_t batch = unit / p->row_blocks / p->column_blocks;
    block u = block_at(l, row * p->row_block, p->row_block, column);
    u.y += batch * p->m * p->n;
    if (u.residual) u.residual += batch * p->m * p->n;
    for (int d = 0; d < p->batch_rank; d++) {
        u.a = a_at(p, u.a, batch % p->batch[d] * p->a_batch[d]);
        u.b = b_at(p, u.b, batch % p->batch[d] * p->b_batch[d]);
        batch /= p->batch[d];
    }
    return u;
}

static void compute(const params *p, const block *u, const ig_cpu_launch *l) {
    if (p->panels == IN_ROWS)
        compute_in_rows(p, u);
    else if (p->panels == IN_PLACE)
        compute_in_place(p, u);
    else if (p->panels == ON_STACK)
        compute_on_stack(p, u, p->vectors);
    else
        compute_packed(p, u, l);
}

/* With the bias, which is packed where it is not. */
static void compute_with_bias(const ig_cpu_launch *l, block u) {
    const params *p = l->params;
    float bias[MOST_COLUMNS];
    if (p->has_bias) {
        const float *at = (const float *)l->at[2] + u.column * p->bias;
        for (int64_t j = 0; p->bias != 1 && j < u.columns; j++) bias[j] = at[j * p->bias];
        u.bias = p->bias == 1 ? at : bias;
    }
    compute(p, &u, l);
}

static void matmul_f32(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; unit++) compute_with_bias(l, block_of(l, unit));
}

/* Rows [begin, end) of the result. */
static void matmul_f32_rows(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    for (int64_t column = 0; column < p->column_blocks; column++)
        compute_with_bias(l, block_at(l, begin, end - begin, column));
}

/* The same of one split of k: its results lie in the scratch, those of all splits one after the
 * other.  Splits come first in the order, so that a thread has complete ones. */
static block split_of(const ig_cpu_launch *l, int64_t unit) {
    const params *p = l->params;
    const int64_t in_part = p->row_blocks * p->column_blocks, part = unit / in_part;
    block u = block_of(l, unit % in_part);
    const int64_t k0 = part * p->split.size;
    u.a = a_at(p, u.a, k0 * p->a_k);
    u.b = b_at(p, u.b, k0 * p->b_k);
    u.y = (float *)l->scratch + (part * p->m + u.row) * p->n + u.column;
    u.residual = NULL;
    u.k = min_i64(p->k - k0, p->split.size);
    return u;
}

/* The same without an activation: a split is a partial sum. */
static params plain(const params *p) {
    params copy = *p;
    copy.activation = IG_ACTIVATION_NONE;
    return copy;
}

static void matmul_f32_splits(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params p = plain(l->params);
    for (int64_t unit = begin; unit < end; unit++) {
        const block u = split_of(l, unit);
        compute(&p, &u, l);
    }
}

/* Row i of the result: the splits in their order, then bias and epilogue. */
static void add_splits_of_row(const ig_cpu_launch *l, int64_t i) {
    const params *p = l->params;
    const int64_t at = i * p->n;
    float *y = (float *)l->at[2 + p->has_bias + p->has_residual] + at;
    batch_split_add((const float *)l->scratch + at, p->split.count, p->m * p->n, p->n, y);
    for (int64_t j = 0; p->has_bias && j < p->n; j++) y[j] += ((float *)l->at[2])[j * p->bias];
    const epilogue e = {p->activation,
                        p->has_residual ? (const float *)l->at[2 + p->has_bias] + at : NULL};
    apply_epilogue(e, y, p->n, 1, p->n);
}

static void matmul_f32_add_splits(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) add_splits_of_row(l, i);
}

/* Before the units of a large product.  A unit here is some rows of b, which lie side by side, or a
 * few panels of one k-block. */
static void pack_b(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    const char *b = l->at[1];
    const int64_t groups = pack_groups(p);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t s = unit / groups, k0 = s * p->k_block;
        const int64_t k = min_i64(p->k - k0, p->k_block), i = unit % groups * p->pack;
        if (p->b_column != 1)
            pack_k_block(p, b, l->scratch, s, k0, k, i, min_i64(p->n - i, p->pack));
        else if (i < k)
            pack_k_block(p, b, l->scratch, s, k0 + i, min_i64(k - i, p->pack), 0, p->n);
    }
}

/* ---- setup ---- */

/* The stride of dimension d, counted from the last, which is 0; none: it repeats. */
static int64_t stride_of(const ig_operand *o, int d) {
    const int at = o->desc.shape.rank - 1 - d;
    return at >= 0 && o->desc.shape.dim[at] != 1 ? o->stride[at] : 0;
}

static int64_t dim_of(const ig_operand *o, int d) {
    return o->desc.shape.dim[o->desc.shape.rank - 1 - d];
}

/* Leading dimensions, innermost first.  Those that b does not have become more rows, where the
 * rows of a go on evenly: x [b, t, k] times a weight is one product of b t rows. */
static void add_batch(params *p, const ig_operand *a, const ig_operand *b, const ig_operand *y) {
    bool joins = true;
    for (int d = 2; d < y->desc.shape.rank; d++) {
        const int64_t extent = dim_of(y, d), sa = stride_of(a, d), sb = stride_of(b, d);
        joins = joins && sb == 0 && (sa == p->a_row * p->m || extent == 1 || p->m == 1);
        if (joins) {
            if (p->m == 1) p->a_row = sa;
            p->m *= extent;
            continue;
        }
        p->batch[p->batch_rank] = extent;
        p->a_batch[p->batch_rank] = sa;
        p->b_batch[p->batch_rank++] = sb;
    }
}

static int64_t macs_of(int64_t rows, int64_t columns, int64_t k) {
    return sat_mul(sat_mul(rows, columns), k);
}

/* Tiles read floats where they lie, if that is along the rows of a or across them.  But rows that
 * lie a multiple of 4 KiB apart share one set of the first cache, which holds about eight lines;
 * and across, a low strip uses little of each line. */
static bool a_fits_in_place(const params *p) {
    if (p->a_dtype != IG_F32) return false;
    if (p->m <= 8) return true;
    if (p->a_row == 1) return MR * 4 >= LINE_FLOATS * 3 || p->k <= 128;
    return p->a_k == 1 && p->a_row * (int64_t)sizeof(float) % 4096 != 0;
}

/* M so small that b is read once or twice, or b so small that it stays in L1. */
static bool b_fits_in_place(const params *p) {
    return p->b_dtype == IG_F32 && p->b_column == 1 && (p->m <= FEW || sat_mul(p->n, p->k) <= NEAR);
}

/* Decoding: a weight as models store it, times the rows of a small batch. */
static bool b_fits_in_rows(const params *p) {
    return p->m > 0 && p->m <= GEMV_ROWS && p->a_dtype == IG_F32 && p->b_dtype == IG_F32 &&
           p->a_k == 1 && p->b_k == 1 && p->n >= VF_LANES && p->k >= COLUMN_WORDS;
}

/* A unit takes longer than handing it out, and there are enough of them for all threads. */
static void cut_in_rows(params *p) {
    enum { UNIT_FLOATS = 1 << 15 };
    const int64_t rows = min_i64(blocks_of(UNIT_FLOATS, p->k), blocks_of(p->n, UNITS));
    p->panels = IN_ROWS;
    p->row_block = p->m;
    p->column_block = min_i64(blocks_of(rows, VF_LANES) * VF_LANES, MOST_COLUMNS);
    p->k_block = min_i64(STACK_FLOATS / VF_LANES, KC); /* of columns that fill no vector */
}

/* With moderate M a unit has all rows and packs its columns of b itself: no thread waits
 * for what another one packs.  With many, each unit has a few and b is packed for all. */
static void cut_large(params *p) {
    const int64_t width = width_of(p);
    p->k_block = blocks_of(p->k, blocks_of(p->k, KC));
    if (p->m <= 24 * MR && p->n >= 4 * width) {
        p->panels = OF_UNIT;
        p->row_block = p->m;
        p->column_block = min_i64(blocks_of(p->n, 16 * width) * 2 * width, MOST_COLUMNS);
        return;
    }
    p->panels = OF_ALL_UNITS;
    p->pack = p->b_column == 1 ? PACK_FLOATS / p->n + 1 : PACK_PANELS * width;
    p->row_block = STRIPS * MR;
    p->column_block = MOST_COLUMNS / 2;
    while (p->column_block > 4 * width &&
           blocks_of(p->m, p->row_block) * blocks_of(p->n, p->column_block) < UNITS)
        p->column_block /= 2;
}

/* A unit has the columns of one panel and, so that it is not packed too often, many rows.  Few rows
 * go through b once: several panels in place, or small ones that stay near. */
static void cut_small(params *p, int64_t products) {
    const bool few = p->m <= FEW;
    p->panels = b_fits_in_place(p) ? IN_PLACE : ON_STACK;
    while (p->panels == ON_STACK && width_of(p) > 2 * LINE_FLOATS) p->vectors /= 2;
    /* Two vectors of columns in all: one for each of two threads. */
    if (!few && p->n > VF_LANES && p->n <= 2 * VF_LANES && p->m <= 8 * MR &&
        macs_of(p->m, p->n, p->k) > SMALL)
        p->vectors = 1;
    const int64_t width = width_of(p), floats = few ? STACK_FLOATS / 2 : STACK_FLOATS;
    p->k_block = p->panels == IN_PLACE ? KC : min_i64(floats / width, KC);
    p->column_block = width;
    if (p->panels == IN_PLACE && few && p->n > 0)
        p->column_block =
            p->m > MR ? 4 * width : min_i64(blocks_of(p->n, 4 * width) * width, MOST_COLUMNS / 2);
    const int64_t across = sat_mul(blocks_of(p->n, p->column_block), products);
    p->row_block = blocks_of(p->m, across < UNITS ? blocks_of(UNITS, across + 1) : 1);
    if (p->row_block < 8 * MR) p->row_block = 8 * MR;
}

static void ask_for_scratch(const params *p, ig_cpu_setup *out) {
    const int64_t k_blocks = blocks_of(p->k, p->k_block), width = width_of(p);
    if (p->panels != OF_UNIT && p->panels != OF_ALL_UNITS) return;
    const int64_t rows = (p->panels == OF_UNIT ? 1 : k_blocks) * p->k_block;
    out->scratch_bytes =
        (uint64_t)sat_mul(sat_mul(rows, sizeof(float)), blocks_of(p->n, width) * width);
    if (p->panels != OF_ALL_UNITS) return;
    out->prologue = pack_b;
    out->prologue_units = k_blocks * pack_groups(p);
    out->prologue_cost = p->pack * (p->b_column == 1 ? p->n : p->k_block) * PACK_COST;
}

/* F32, F16 and BF16 in any combination.  But F32 by 16-bit weights [n, k] is matmul_quant.c's. */
static bool factors_fit(const ig_step *step, const ig_attrs_matmul *t) {
    const ig_dtype a = step->in[0].desc.dtype, b = step->in[1].desc.dtype;
    if (!is_float_dtype(a) || !is_float_dtype(b)) return false;
    return a != IG_F32 || b == IG_F32 || t->transpose_a || !t->transpose_b ||
           step->in[1].desc.shape.rank != 2;
}

/* What the step multiplies, and where it lies; false: these kernels cannot. */
static bool describe(const ig_step *step, params *out, int64_t *products) {
    const ig_operand *a = &step->in[0], *b = &step->in[1], *y = &step->out[0];
    ig_attrs_matmul t;
    ig_step_attrs(step, &t, sizeof t);
    if (!factors_fit(step, &t) || !operands_are(step, 2, IG_F32)) return false;
    if (!has_activation(t.activation)) return false;
    if (a->desc.shape.rank < 2 || b->desc.shape.rank < 2 || y->desc.shape.rank < 2) return false;

    const int ta = t.transpose_a != 0, tb = t.transpose_b != 0;
    params p = {.m = dim_of(y, 1), .n = dim_of(y, 0), .k = dim_of(a, ta ? 1 : 0)};
    p.a_row = stride_of(a, ta ? 0 : 1);
    p.a_k = stride_of(a, ta ? 1 : 0);
    p.b_k = stride_of(b, tb ? 0 : 1);
    p.b_column = stride_of(b, tb ? 1 : 0);
    p.a_dtype = a->desc.dtype;
    p.b_dtype = b->desc.dtype;
    p.a_bytes = dtype_bytes(p.a_dtype);
    p.b_bytes = dtype_bytes(p.b_dtype);
    p.has_residual = t.residual;
    p.has_bias = step->n_in - p.has_residual > 2;
    if (p.has_residual && !ig_operand_is_packed(&step->in[step->n_in - 1])) return false;
    p.activation = t.activation;
    if (p.has_bias) p.bias = stride_of(&step->in[2], 0);
    add_batch(&p, a, b, y);
    if (p.k == 0) p.a_row = p.b_column = 0; /* there may be nothing to point to */

    *products = 1;
    for (int d = 0; d < p.batch_rank; d++) *products *= p.batch[d];
    p.vectors = tile_vectors(min_i64(p.m, MR));
    p.a_in_place = a_fits_in_place(&p);
    *out = p;
    return true;
}

static void count_blocks(params *p) {
    p->row_blocks = blocks_of(p->m, p->row_block);
    p->column_blocks = blocks_of(p->n, p->column_block);
}

/* Small results of long sums over samples. */
static bool matmul_f32_splits_setup(const ig_step *step, ig_cpu_setup *out) {
    params p;
    int64_t products;
    ig_attrs_matmul t;
    ig_step_attrs(step, &t, sizeof t);
    if (!t.transpose_a || !describe(step, &p, &products) || p.batch_rank > 0) return false;
    p.split = batch_split_of(p.k);
    if (p.split.count == 1 || sat_mul(p.m, p.n) > NEAR) return false;
    cut_small(&p, p.split.count);
    count_blocks(&p);
    out->prologue = matmul_f32_splits;
    out->prologue_units = p.row_blocks * p.column_blocks * p.split.count;
    out->prologue_cost =
        macs_of(min_i64(p.m, p.row_block), min_i64(p.n, p.column_block), p.split.size);
    out->scratch_bytes = (uint64_t)(p.m * p.n * p.split.count) * sizeof(float);
    out->units = p.m;
    out->cost = 2 * p.n * p.split.count;
    return keep_params(out, &p, sizeof p);
}

/* Many rows and a small b: a thread multiplies its rows by all of b, and takes them on to the next
 * steps of the chain. */
static bool matmul_f32_rows_setup(const ig_step *step, ig_cpu_setup *out) {
    params p;
    int64_t products;
    ig_attrs_matmul t;
    ig_step_attrs(step, &t, sizeof t);
    if (t.transpose_a || !describe(step, &p, &products) || p.batch_rank > 0) return false;
    if (p.m < 2 * LEAST_ROWS || sat_mul(p.n, p.k) > NEAR) return false;
    cut_small(&p, 1);
    count_blocks(&p);
    out->cost = macs_of(1, p.n, p.k + 1);
    out->grain = blocks_of(p.m, UNITS);
    if (out->grain < LEAST_ROWS) out->grain = LEAST_ROWS;
    if (out->grain > MOST_ROWS) out->grain = MOST_ROWS;
    out->grain_single = MOST_ROWS;
    return keep_params(out, &p, sizeof p);
}

static bool matmul_f32_setup(const ig_step *step, ig_cpu_setup *out) {
    params p;
    int64_t products;
    if (!describe(step, &p, &products)) return false;
    if (p.batch_rank == 0 && p.m >= 4 * MR && macs_of(p.m, p.n, p.k) >= LARGE &&
        !b_fits_in_place(&p))
        cut_large(&p);
    else if (b_fits_in_rows(&p))
        cut_in_rows(&p);
    else
        cut_small(&p, products);
    count_blocks(&p);
    out->units = p.row_blocks * p.column_blocks * products;
    out->cost = macs_of(min_i64(p.m, p.row_block), min_i64(p.n, p.column_block), p.k + 1);
    ask_for_scratch(&p, out);
    return keep_params(out, &p, sizeof p);
}

const ig_cpu_entry IG_CPU_LIST(matmul)[] = {
    {IG_OP_MATMUL, IG_F32, BY_UNIT, matmul_f32_splits_setup, matmul_f32_add_splits},
    {IG_OP_MATMUL, IG_F32, BY_ROW, matmul_f32_rows_setup, matmul_f32_rows},
    {IG_OP_MATMUL, IG_F32, BY_UNIT, matmul_f32_setup, matmul_f32},
    {IG_OP_MATMUL, IG_F16, BY_UNIT, matmul_f32_splits_setup, matmul_f32_add_splits},
    {IG_OP_MATMUL, IG_F16, BY_ROW, matmul_f32_rows_setup, matmul_f32_rows},
    {IG_OP_MATMUL, IG_F16, BY_UNIT, matmul_f32_setup, matmul_f32},
    {IG_OP_MATMUL, IG_BF16, BY_UNIT, matmul_f32_splits_setup, matmul_f32_add_splits},
    {IG_OP_MATMUL, IG_BF16, BY_ROW, matmul_f32_rows_setup, matmul_f32_rows},
    {IG_OP_MATMUL, IG_BF16, BY_UNIT, matmul_f32_setup, matmul_f32},
    {0},
};
