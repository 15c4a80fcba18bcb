/*
 * a [..., m, k] x b [..., k, n] + bias [n] -> [..., m, n], and an activation on top.
 *
 * Every element of the result is one chain of multiply-adds over ascending k, the
 * bias comes next and the activation last, on the sum as it would be stored: that
 * holds whatever m, n, the batch or the strides are, so a row's result does not
 * depend on its neighbours.  gemm.h has the tiles that compute it.
 *
 *        columns                A unit is a block of results.  It goes through k in
 *      +----+----+----+         stretches; in each, strips of a, as high as a tile, meet
 *      |  unit   |    |         panels of b, as wide as a tile.  Between stretches the
 * rows |         |    |         sums wait in the result itself, which changes no bit.
 *      +----+----+----+
 *
 * Panels of b are read in place where few rows use them, packed by each unit for
 * itself where more do, and packed once for all, before the units start, where
 * the product is large.
 */
#include "backend/cpu/activation.h"
#include "backend/cpu/gemm.h"

enum {
    MR = VF_TILE_ROWS,
    MOST_COLUMNS = 1024,    /* of a unit */
    PANEL_FLOATS = 1 << 13, /* that a unit packs for itself, on its stack */
    LARGE = 1 << 22,        /* multiply-adds from which on b is packed for all */
    IN_PLACE = 1 << 16,     /* elements of a matrix that stays in the second cache */
    UNIT = 1 << 16,         /* multiply-adds of a unit, about: a microsecond */
    UNITS = 16,             /* of a large product, so that threads finish together */
    PACK_PANELS = 8,        /* that are packed together */
    PACK_COST = 4,          /* of an element that is packed, in multiply-adds */
};

/* Where the panels of b are that a unit reads. */
typedef enum panel_kind {
    IN_PLACE_PANELS, /* in b itself */
    STACK_PANELS,    /* packed by the unit, stretch by stretch */
    SHARED_PANELS,   /* packed before the units start */
} panel_kind;

typedef struct params {
    int64_t m, n, k;
    int64_t a_row, a_k, b_k, b_column, bias;  /* strides */
    int64_t row_block, column_block, k_block; /* of a unit, of a stretch */
    int64_t row_blocks, column_blocks;        /* units in a product */
    int32_t vectors;                          /* of a tile, and so of a panel */
    int32_t batch_rank;
    int64_t batch[IG_MAX_RANK], a_batch[IG_MAX_RANK], b_batch[IG_MAX_RANK];
    panel_kind b_panels;
    bool a_in_place, has_bias;
    uint32_t activation;
} params;

static int64_t blocks_of(int64_t n, int64_t block) { return (n + block - 1) / block; }

/* ---- choosing ---- */

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
    return product(product(rows, columns), k);
}

/* Rows that lie a multiple of 4 KiB apart share the same few places of the first cache. */
static bool rows_collide(int64_t stride) { return stride * (int64_t)sizeof(float) % 4096 == 0; }

/* The rows of a unit are a group of strips; fewer columns make more units. */
static void cut_large(params *p) {
    p->k_block = blocks_of(p->k, blocks_of(p->k, STRIP_K));
    p->b_panels = SHARED_PANELS;
    p->row_block = 4 * MR;
    p->column_block = MOST_COLUMNS;
    while (p->column_block > 128 &&
           blocks_of(p->m, p->row_block) * blocks_of(p->n, p->column_block) < UNITS)
        p->column_block /= 2;
}

/* Few rows use a panel once: where it cannot be read in place, a small one is enough. */
static void cut_small(params *p) {
    const bool few = p->m <= MR, in_place = p->b_column == 1 && (few || p->n * p->k <= IN_PLACE);
    p->b_panels = in_place ? IN_PLACE_PANELS : STACK_PANELS;
    if (!in_place && p->vectors > 2) p->vectors = 2;
    /* Two vectors of columns in all: one for each of two threads. */
    if (!few && p->n <= 2 * VF_LANES && macs_of(p->m, p->n, p->k) <= 4 * UNIT) p->vectors = 1;
    if (p->vectors < 1) p->vectors = 1; /* there are no columns */
    const int64_t width = p->vectors * VF_LANES;
    p->a_in_place = p->m <= 8 || p->a_k != 1 || !rows_collide(p->a_row);
    p->column_block = width;
    p->k_block = STRIP_K;
    if (!in_place) p->k_block = smaller((few ? PANEL_FLOATS / 2 : PANEL_FLOATS) / width, STRIP_K);
    if (in_place && few)
        p->column_block = smaller(512, blocks_of(blocks_of(p->n, 4), width) * width);
    const int64_t rows = UNIT / (product(width, p->k) + 1);
    p->row_block = rows < 8 * MR ? 8 * MR : (rows + MR - 1) / MR * MR;
}

/* ---- activations ---- */

typedef vf map_fn(vf x);

IG_INLINE void map_row(float *y, int64_t n, map_fn *f) {
    for (int64_t i = 0; i < n; i += VF_LANES) {
        const int64_t m = smaller(n - i, VF_LANES);
        vf_store_first(y + i, f(vf_load_first(y + i, m)), m);
    }
}

static void relu_row(float *y, int64_t n) { map_row(y, n, relu_of); }
static void tanh_row(float *y, int64_t n) { map_row(y, n, vf_tanh); }
static void sigmoid_row(float *y, int64_t n) { map_row(y, n, vf_sigmoid); }
static void silu_row(float *y, int64_t n) { map_row(y, n, silu_of); }
static void gelu_erf_row(float *y, int64_t n) { map_row(y, n, gelu_erf_of); }
static void gelu_tanh_row(float *y, int64_t n) { map_row(y, n, gelu_tanh_of); }

static void (*const activations[])(float *y, int64_t n) = {
    [IG_ACTIVATION_NONE] = NULL,
    [IG_ACTIVATION_RELU] = relu_row,
    [IG_ACTIVATION_TANH] = tanh_row,
    [IG_ACTIVATION_SIGMOID] = sigmoid_row,
    [IG_ACTIVATION_SILU] = silu_row,
    [IG_ACTIVATION_GELU_ERF] = gelu_erf_row,
    [IG_ACTIVATION_GELU_TANH] = gelu_tanh_row,
};

/* ---- computing ---- */

/* Rows of a, columns of b, and where the results go: a unit, or a part of one. */
typedef struct block {
    const float *a, *b, *bias; /* bias: packed, or NULL */
    float *y;
    int64_t row, column; /* the first */
    int64_t rows, columns;
} block;

/* Panels of b for a stretch of k: that of column j begins at at + j * column. */
typedef struct source {
    const float *at;
    int64_t k, column; /* strides */
} source;

static void activate(const params *p, float *y, int64_t rows, int64_t columns) {
    if (!activations[p->activation]) return;
    for (int64_t i = 0; i < rows; i++) activations[p->activation](y + i * p->n, columns);
}

/* Adds the products of k from k0 on.  A strip meets all panels while it is near; panels come from
 * farther away, one after the other.  Strips are of equal height, so that none is too low to keep
 * the machine busy. */
static void add_stretch(const params *p, const block *u, int64_t k0, int64_t k, const source *b,
                        int vectors) {
    float strip[STRIP_FLOATS];
    const bool last = k0 + k == p->k;
    const int64_t width = vectors * VF_LANES;
    const int64_t height = blocks_of(u->rows, blocks_of(u->rows, MR));
    for (int64_t i = 0; i < u->rows; i += height) {
        const int64_t rows = smaller(u->rows - i, height);
        tile t = {.a = u->a + i * p->a_row + k0 * p->a_k, .a_row = p->a_row, .a_k = p->a_k};
        t.k = k;
        t.b_k = b->k;
        t.y_row = p->n;
        t.first = k0 == 0;
        if (!p->a_in_place) pack_strip(&t, rows, strip);
        for (int64_t j = 0; j < u->columns; j += width) {
            t.b = b->at + j * b->column;
            t.y = u->y + i * p->n + j;
            t.bias = last && u->bias ? u->bias + j : NULL;
            run_tiles(t, rows, smaller(u->columns - j, width), vectors);
        }
        if (last) activate(p, u->y + i * p->n, rows, u->columns);
    }
}

static int64_t panels_across(const params *p) { return blocks_of(p->n, p->vectors * VF_LANES); }

/* The panels of stretch s that all units share. */
static float *shared_panels(const params *p, char *scratch, int64_t s) {
    return (float *)scratch + s * panels_across(p) * p->vectors * VF_LANES * p->k_block;
}

/* Packs `columns` columns from j on, in the stretch s. */
static void pack_shared(const params *p, const float *b, char *scratch, int64_t s, int64_t j,
                        int64_t columns) {
    const int64_t width = p->vectors * VF_LANES, k0 = s * p->k_block;
    pack_panels(b + k0 * p->b_k + j * p->b_column, p->b_k, p->b_column,
                smaller(p->k - k0, p->k_block), columns, width,
                shared_panels(p, scratch, s) + j * p->k_block, width * p->k_block);
}

static void compute_shared(const params *p, const block *u, char *scratch) {
    for (int64_t s = 0; s * p->k_block < p->k; s++) {
        const int64_t k0 = s * p->k_block;
        const source b = {shared_panels(p, scratch, s) + u->column * p->k_block,
                          p->vectors * VF_LANES, p->k_block};
        add_stretch(p, u, k0, smaller(p->k - k0, p->k_block), &b, p->vectors);
    }
}

/* Panels of `vectors` vectors, packed stretch by stretch. */
static void compute_packing(const params *p, const block *u, int vectors) {
    float room[PANEL_FLOATS];
    const int64_t width = vectors * VF_LANES;
    for (int64_t k0 = 0; k0 < p->k || k0 == 0; k0 += p->k_block) {
        const int64_t k = smaller(p->k - k0, p->k_block);
        const source b = {room, width, k};
        pack_panels(u->b + k0 * p->b_k, p->b_k, p->b_column, k, u->columns, width, room, width * k);
        add_stretch(p, u, k0, k, &b, vectors);
    }
}

/* Columns that do not fill a vector cannot be loaded where they lie: they are packed. */
static void compute_in_place(const params *p, const block *u) {
    block whole = *u, rest = *u;
    whole.columns = u->columns / VF_LANES * VF_LANES;
    rest.columns = u->columns - whole.columns;
    for (int64_t k0 = 0; whole.columns > 0 && (k0 < p->k || k0 == 0); k0 += p->k_block) {
        const source b = {u->b + k0 * p->b_k, p->b_k, 1};
        add_stretch(p, &whole, k0, smaller(p->k - k0, p->k_block), &b, p->vectors);
    }
    if (rest.columns == 0) return;
    rest.b += whole.columns;
    rest.y += whole.columns;
    if (rest.bias) rest.bias += whole.columns;
    compute_packing(p, &rest, 1);
}

static block block_of(const ig_cpu_launch *l, int64_t unit) {
    const params *p = l->params;
    const int64_t i = unit % p->row_blocks * p->row_block;
    const int64_t j = unit / p->row_blocks % p->column_blocks * p->column_block;
    int64_t batch = unit / p->row_blocks / p->column_blocks;
    block u = {.a = (const float *)l->at[0] + i * p->a_row,
               .b = (const float *)l->at[1] + j * p->b_column,
               .y = (float *)l->at[2 + p->has_bias] + (batch * p->m + i) * p->n + j,
               .rows = smaller(p->m - i, p->row_block),
               .columns = smaller(p->n - j, p->column_block),
               .row = i,
               .column = j};
    for (int d = 0; d < p->batch_rank; d++) {
        u.a += batch % p->batch[d] * p->a_batch[d];
        u.b += batch % p->batch[d] * p->b_batch[d];
        batch /= p->batch[d];
    }
    return u;
}

static void matmul(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    for (int64_t unit = begin; unit < end; unit++) {
        block u = block_of(l, unit);
        float bias[MOST_COLUMNS];
        if (p->has_bias) {
            u.bias = (const float *)l->at[2] + u.column * p->bias;
            if (p->bias != 1) {
                for (int64_t j = 0; j < u.columns; j++) bias[j] = u.bias[j * p->bias];
                u.bias = bias;
            }
        }
        if (p->b_panels == IN_PLACE_PANELS)
            compute_in_place(p, &u);
        else if (p->b_panels == STACK_PANELS)
            compute_packing(p, &u, p->vectors);
        else
            compute_shared(p, &u, l->scratch);
    }
}

/* Before the units of a large product.  A unit here is a few panels in one stretch of k. */
static void prepare(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    const int64_t columns = PACK_PANELS * p->vectors * VF_LANES, groups = blocks_of(p->n, columns);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t j = unit % groups * columns;
        pack_shared(p, (const float *)l->at[1], l->scratch, unit / groups, j,
                    smaller(p->n - j, columns));
    }
}

static bool setup(const ig_step *step, ig_cpu_setup *out) {
    const ig_operand *a = &step->in[0], *b = &step->in[1], *y = &step->out[0];
    ig_attrs_matmul t;
    ig_step_attrs(step, &t, sizeof t);
    if (!operands_are(step, 0, IG_F32) || t.activation > IG_ACTIVATION_GELU_TANH) return false;
    if (a->desc.shape.rank < 2 || b->desc.shape.rank < 2 || y->desc.shape.rank < 2) return false;

    const int ta = t.transpose_a != 0, tb = t.transpose_b != 0;
    params p = {.m = dim_of(y, 1), .n = dim_of(y, 0), .k = dim_of(a, ta ? 1 : 0)};
    p.a_row = stride_of(a, ta ? 0 : 1);
    p.a_k = stride_of(a, ta ? 1 : 0);
    p.b_k = stride_of(b, tb ? 0 : 1);
    p.b_column = stride_of(b, tb ? 1 : 0);
    p.has_bias = step->n_in > 2;
    p.activation = t.activation;
    if (p.has_bias) p.bias = stride_of(&step->in[2], 0);
    add_batch(&p, a, b, y);
    if (p.k == 0) p.a_row = p.b_column = 0; /* there may be nothing to point to */

    p.vectors = tile_vectors(smaller(p.m, MR));
    if (p.batch_rank == 0 && p.m >= 4 * MR && macs_of(p.m, p.n, p.k) >= LARGE)
        cut_large(&p);
    else
        cut_small(&p);
    if (p.column_block < 1) p.column_block = 1; /* there are no columns */
    p.row_blocks = blocks_of(p.m, p.row_block);
    p.column_blocks = blocks_of(p.n, p.column_block);
    out->units = p.row_blocks * p.column_blocks;
    for (int d = 0; d < p.batch_rank; d++) out->units *= p.batch[d];
    out->cost = macs_of(smaller(p.m, p.row_block), smaller(p.n, p.column_block), p.k + 1);
    const int64_t stretches = blocks_of(p.k, p.k_block), width = p.vectors * VF_LANES;
    if (p.b_panels == SHARED_PANELS) {
        out->scratch_bytes =
            (uint64_t)(stretches * panels_across(&p) * width * p.k_block) * sizeof(float);
        out->prepare = prepare;
        out->prepare_units = stretches * blocks_of(p.n, PACK_PANELS * width);
        out->prepare_cost = PACK_PANELS * width * p.k_block * PACK_COST;
    }
    return keep_params(out, &p, sizeof p);
}

const ig_cpu_entry IG_CPU_LIST(matmul)[] = {
    {IG_OP_MATMUL, IG_F32, BY_UNIT, setup, matmul},
    {0},
};
