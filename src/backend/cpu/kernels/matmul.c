/*
 * a [..., m, k] x b [..., k, n] + bias [n] -> [..., m, n].
 *
 * Every element of the result is one chain of multiply-adds over ascending k, and
 * the bias comes last: that holds whatever m, n, the batch or the strides are, so
 * a row's result does not depend on its neighbours.
 *
 *     b  k0 [ panel | panel | .. ]       A unit is a block of MB x NB results.  Panels of
 *     |     [  KB x NR floats    ]       b, NR columns wide, are packed KB rows at a time,
 *     a [ rows ] -> tile MR x NR         then each MR rows of a make a tile in registers.
 *
 * Between two stretches of KB the partial sums wait in the result itself, which
 * changes no bit.  Columns beyond n are zeros in the panel and never stored.
 */
#include "backend/cpu/loops.h"

enum {
    MR = VF_TILE_ROWS,
    NR = VF_TILE_VECTORS * VF_LANES,
    MB = 16 * MR,
    NB = NR > 128 ? NR : 128 / NR *NR,
    KB = 128,
};
static_assert(MR <= 6 && NR % 8 == 0 && KB % 8 == 0, "tiles and panels are made for this");

typedef struct params {
    int64_t m, n, k;
    int64_t a_row, a_k, b_k, b_column, bias; /* strides */
    int64_t row_blocks, column_blocks;       /* units in a product */
    int32_t batch_rank;
    int64_t batch[IG_MAX_RANK], a_batch[IG_MAX_RANK], b_batch[IG_MAX_RANK];
    bool has_bias;
} params;

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

static bool setup(const ig_step *step, ig_cpu_setup *out) {
    const ig_operand *a = &step->in[0], *b = &step->in[1], *y = &step->out[0];
    ig_attrs_matmul t;
    ig_step_attrs(step, &t, sizeof t);
    if (!operands_are(step, 0, IG_F32) || t.activation != IG_ACTIVATION_NONE) return false;
    if (a->desc.shape.rank < 2 || b->desc.shape.rank < 2 || y->desc.shape.rank < 2) return false;

    const int ta = t.transpose_a != 0, tb = t.transpose_b != 0;
    params p = {.m = dim_of(y, 1), .n = dim_of(y, 0), .k = dim_of(a, ta ? 1 : 0)};
    p.a_row = stride_of(a, ta ? 0 : 1);
    p.a_k = stride_of(a, ta ? 1 : 0);
    p.b_k = stride_of(b, tb ? 0 : 1);
    p.b_column = stride_of(b, tb ? 1 : 0);
    p.has_bias = step->n_in > 2;
    if (p.has_bias) p.bias = stride_of(&step->in[2], 0);
    add_batch(&p, a, b, y);
    if (p.k == 0) p.a_row = p.b_column = 0; /* there may be nothing to point to */

    p.row_blocks = (p.m + MB - 1) / MB;
    p.column_blocks = (p.n + NB - 1) / NB;
    out->units = p.row_blocks * p.column_blocks;
    for (int d = 0; d < p.batch_rank; d++) out->units *= p.batch[d];
    out->cost = product(product(smaller(p.m, MB), smaller(p.n, NB)), p.k / VF_LANES + 1);
    return keep_params(out, &p, sizeof p);
}

/* What a tile is made of: rows of a, a panel of b, and the sums so far at y. */
typedef struct tile {
    const float *a, *b;
    int64_t a_row, a_k, b_k, k;
    float *y;
    int64_t y_row;
    bool first; /* nothing was added up yet */
} tile;

IG_INLINE void run_tile(const tile *t, const int rows) {
    vf sum[MR][VF_TILE_VECTORS];
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < VF_TILE_VECTORS; v++)
            sum[i][v] = t->first ? vf_set(0) : vf_load(t->y + i * t->y_row + v * VF_LANES);
    const float *a = t->a, *b = t->b;
    for (int64_t k = t->k; k > 0; k--, a += t->a_k, b += t->b_k) {
        vf column[VF_TILE_VECTORS];
        for (int v = 0; v < VF_TILE_VECTORS; v++) column[v] = vf_load(b + v * VF_LANES);
        for (int i = 0; i < rows; i++) {
            const vf x = vf_set(a[i * t->a_row]);
            for (int v = 0; v < VF_TILE_VECTORS; v++) sum[i][v] = vf_fma(x, column[v], sum[i][v]);
        }
    }
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < VF_TILE_VECTORS; v++)
            vf_store(t->y + i * t->y_row + v * VF_LANES, sum[i][v]);
}

static void tile_1(const tile *t) { run_tile(t, 1); }
static void tile_2(const tile *t) { run_tile(t, 2); }
static void tile_3(const tile *t) { run_tile(t, 3); }
static void tile_4(const tile *t) { run_tile(t, 4); }
static void tile_5(const tile *t) { run_tile(t, MR < 5 ? MR : 5); }
static void tile_6(const tile *t) { run_tile(t, MR < 6 ? MR : 6); }
static void (*const tiles[])(const tile *) = {tile_1, tile_2, tile_3, tile_4, tile_5, tile_6};

/* A tile of `rows` rows; one that is not NR columns wide is made in a place of its own. */
static void add_tile(tile t, int64_t rows, int64_t columns) {
    if (columns == NR) {
        tiles[rows - 1](&t);
        return;
    }
    float room[MR * NR] = {0}, *y = t.y;
    for (int64_t i = 0; i < rows && !t.first; i++)
        memcpy(room + i * NR, y + i * t.y_row, (size_t)columns * sizeof *y);
    const int64_t y_row = t.y_row;
    t.y = room;
    t.y_row = NR;
    tiles[rows - 1](&t);
    for (int64_t i = 0; i < rows; i++)
        memcpy(y + i * y_row, room + i * NR, (size_t)columns * sizeof *y);
}

/* Columns [from, width) of one row of a panel; beyond are zeros. */
static void pack_row(const float *b, int64_t stride, int64_t from, int64_t width, float *to) {
    for (int64_t c = from; c < width; c++) to[c] = b[c * stride];
    for (int64_t c = width; c < NR; c++) to[c] = 0;
}

/* Rows [0, k) of b, `width` columns, where each column lies packed: blocks of 8 x 8 change places,
 * and what is left over goes one by one. */
static void pack_transposed(const params *p, const float *b, int64_t k, int64_t width, float *to) {
    const int64_t rows = k / 8 * 8, columns = width / 8 * 8;
    for (int64_t c = 0; c < columns; c += 8)
        for (int64_t r = 0; r < rows; r += 8)
            transpose_8x8(b + c * p->b_column + r, p->b_column, to + r * NR + c, NR);
    for (int64_t r = 0; r < k; r++)
        pack_row(b + r, p->b_column, r < rows ? columns : 0, width, to + r * NR);
}

/* Rows [0, k) of b, its n columns, one panel behind the other: panel[row][NR]. */
static void pack(const params *p, const float *b, int64_t k, int64_t n, float *panels) {
    for (int64_t j = 0; j < n; j += NR, panels += k * NR) {
        const int64_t width = smaller(n - j, NR);
        const float *from = b + j * p->b_column;
        if (p->b_column == 1 && width == NR)
            for (int64_t r = 0; r < k; r++)
                for (int v = 0; v < VF_TILE_VECTORS; v++)
                    vf_store(panels + r * NR + v * VF_LANES,
                             vf_load(from + r * p->b_k + v * VF_LANES));
        else if (p->b_k == 1)
            pack_transposed(p, from, k, width, panels);
        else
            for (int64_t r = 0; r < k; r++)
                pack_row(from + r * p->b_k, p->b_column, 0, width, panels + r * NR);
    }
}

/* MR rows of a, so that those of one k lie side by side: strip[k][MR]. */
static void pack_strip(const params *p, const float *a, int64_t rows, int64_t k, float *strip) {
    for (int64_t r = 0; r < k; r++)
        for (int64_t i = 0; i < rows; i++) strip[r * MR + i] = a[r * p->a_k + i * p->a_row];
}

static void add_bias(const params *p, const float *bias, float *y, int64_t rows, int64_t columns) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j += VF_LANES) {
            const int64_t n = smaller(columns - j, VF_LANES);
            float *at = y + i * p->n + j;
            vf_store_first(
                at, vf_add(vf_load_first(at, n), vf_take(bias + j * p->bias, p->bias, n)), n);
        }
}

/* A block of `rows` x `columns` results at y, from rows of a and columns of b.  Few rows do not pay
 * for packing: where b lies right already, its whole panels are read in place. */
static void block(const params *p, const float *a, const float *b, float *y, int64_t rows,
                  int64_t columns) {
    float panels[KB * NB], strip[KB * MR];
    const bool in_place = p->b_column == 1 && rows <= MR;
    const int64_t whole = in_place ? columns / NR * NR : 0;
    for (int64_t k0 = 0; k0 < p->k || k0 == 0; k0 += KB) {
        const int64_t k = smaller(p->k - k0, KB);
        const float *b0 = b + k0 * p->b_k;
        pack(p, b0 + whole * p->b_column, k, columns - whole, panels);
        for (int64_t i = 0; i < rows; i += MR) {
            const int64_t height = smaller(rows - i, MR);
            tile t = {.a = a + i * p->a_row + k0 * p->a_k, .a_row = p->a_row, .a_k = p->a_k};
            if (p->a_k != 1) {
                pack_strip(p, t.a, height, k, strip);
                t.a = strip;
                t.a_row = 1;
                t.a_k = MR;
            }
            t.k = k;
            t.y_row = p->n;
            t.first = k0 == 0;
            for (int64_t j = 0; j < columns; j += NR) {
                t.b = j < whole ? b0 + j : panels + (j - whole) * k;
                t.b_k = j < whole ? p->b_k : NR;
                t.y = y + i * p->n + j;
                add_tile(t, height, smaller(columns - j, NR));
            }
        }
    }
}

static void matmul(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t j = unit % p->column_blocks * NB;
        const int64_t i = unit / p->column_blocks % p->row_blocks * MB;
        int64_t batch = unit / p->column_blocks / p->row_blocks;
        const float *a = (const float *)l->at[0] + i * p->a_row;
        const float *b = (const float *)l->at[1] + j * p->b_column;
        float *y = (float *)l->at[2 + p->has_bias] + (batch * p->m + i) * p->n + j;
        for (int d = 0; d < p->batch_rank; d++) {
            a += batch % p->batch[d] * p->a_batch[d];
            b += batch % p->batch[d] * p->b_batch[d];
            batch /= p->batch[d];
        }
        const int64_t rows = smaller(p->m - i, MB), columns = smaller(p->n - j, NB);
        block(p, a, b, y, rows, columns);
        if (p->has_bias) add_bias(p, (const float *)l->at[2] + j * p->bias, y, rows, columns);
    }
}

const ig_cpu_entry IG_CPU_LIST(matmul)[] = {
    {IG_OP_MATMUL, IG_F32, BY_UNIT, setup, matmul},
    {0},
};
