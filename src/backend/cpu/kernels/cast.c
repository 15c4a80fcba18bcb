/*
 * copy, cast and fill.
 *
 * A cast goes block by block through F32 if that holds every value of the source exactly, and
 * through F64 otherwise, so that it rounds once: to nearest, ties to even. Integers are truncated
 * and saturate; NaN gives 0. There is one reader and one writer per dtype, not one function per
 * pair.
 */
#include "backend/cpu/load_f16.h"
#include "backend/cpu/simd/vec_math.h"

enum { BLOCK = 256 }; /* elements per block */

/* ---- by way of floats ---- */

/* n elements, `stride` apart: in place if they are F32, else converted to `room`. */
typedef const float *read_float_fn(const char *src, int64_t stride, int64_t n, float *room);
typedef void write_float_fn(char *dst, const float *x, int64_t n);

static const float *read_f32(const char *src, int64_t stride, int64_t n, float *room) {
    if (stride == 1) return (const float *)src;
    copy_strided((char *)room, 1, src, stride, n, 4);
    return room;
}

static const float *read_f16(const char *src, int64_t stride, int64_t n, float *room) {
    widen(src, stride, n, room, IG_F16);
    return room;
}

static const float *read_bf16(const char *src, int64_t stride, int64_t n, float *room) {
    widen(src, stride, n, room, IG_BF16);
    return room;
}

static const float *read_i32(const char *src, int64_t stride, int64_t n, float *room) {
    for (int64_t i = 0; i < n; i++) room[i] = (float)((const int32_t *)src)[i * stride];
    return room;
}

typedef void narrow_fn(uint16_t *p, vf x);

IG_INLINE void narrow(char *dst, const float *x, int64_t n, narrow_fn *f) {
    uint16_t lanes[VF_LANES], *to = (uint16_t *)dst;
    int64_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES) f(to + i, vf_load(x + i));
    if (i == n) return;
    f(lanes, vf_load_part(x + i, n - i));
    memcpy(to + i, lanes, (size_t)(n - i) * sizeof *to);
}

/* Rounds to nearest even before truncation; a NaN must not become infinite. */
IG_INLINE void narrow_bf16(uint16_t *p, vf x) {
    const vi bits = vf_bits(x), odd = vi_and(vi_right(bits, 16), vi_set(1));
    const vf rounded = vf_of_bits(vi_add(bits, vi_add(odd, vi_set(0x7fff))));
    const vf quiet = vf_of_bits(vi_or(bits, vi_set(0x400000)));
    const vi kept = vf_bits(vf_select(vf_is_nan(x), quiet, rounded));
    vi_store_u16(p, vi_and(vi_right(kept, 16), vi_set(0xffff)));
}

static void write_f16(char *dst, const float *x, int64_t n) { narrow(dst, x, n, vf_store_f16); }
static void write_bf16(char *dst, const float *x, int64_t n) { narrow(dst, x, n, narrow_bf16); }

static int32_t to_i32(double x) {
    if (x != x) return 0;
    if (x <= INT32_MIN) return INT32_MIN;
    return x >= INT32_MAX ? INT32_MAX : (int32_t)x;
}

static void write_i32(char *dst, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) ((int32_t *)dst)[i] = to_i32((double)x[i]);
}

/* ---- by way of doubles ---- */

typedef double read_double_fn(const char *src);
typedef void write_double_fn(char *dst, double x);

static double one_f32(const char *src) { return (double)*(const float *)src; }
static double one_f64(const char *src) { return *(const double *)src; }
static double one_i32(const char *src) { return *(const int32_t *)src; }

static double one_f16(const char *src) {
    float x;
    return (double)*read_f16(src, 1, 1, &x);
}

static double one_bf16(const char *src) {
    float x;
    return (double)*read_bf16(src, 1, 1, &x);
}

/* Rounds to odd: the last bit is set if x is not exact, so that a second rounding to fewer bits
 * rounds x itself. */
static float odd_float(double x) {
    const float near = (float)x;
    const uint32_t bits = bits_of_float(near);
    if ((double)near == x || x != x || bits & 1) return near;
    return float_of_bits(fabs((double)near) > fabs(x) ? bits - 1 : bits + 1);
}

static void put_f32(char *dst, double x) { *(float *)dst = (float)x; }
static void put_f64(char *dst, double x) { *(double *)dst = x; }
static void put_i32(char *dst, double x) { *(int32_t *)dst = to_i32(x); }
static void put_f16(char *dst, double x) { write_f16(dst, &(float){odd_float(x)}, 1); }
static void put_bf16(char *dst, double x) { write_bf16(dst, &(float){odd_float(x)}, 1); }

/* ---- kernels ---- */

/* NULL: F32 is not exact, or needs no conversion. */
static const struct {
    read_float_fn *read_float;
    write_float_fn *write_float;
    read_double_fn *read;
    write_double_fn *write;
} dtypes[IG_DTYPE_COUNT] = {
    [IG_F32] = {read_f32, NULL, one_f32, put_f32},
    [IG_F16] = {read_f16, write_f16, one_f16, put_f16},
    [IG_BF16] = {read_bf16, write_bf16, one_bf16, put_bf16},
    [IG_F64] = {NULL, NULL, one_f64, put_f64},
    [IG_I32] = {read_i32, write_i32, one_i32, put_i32},
};

typedef struct params {
    strided_loop loop;
    ig_dtype from, to;
    int64_t from_bytes, to_bytes;
    char value[8]; /* of a fill */
} params;

static bool setup(const ig_step *step, ig_cpu_setup *out, int64_t cost) {
    params p = {.from = ig_step_operand(step, 0)->desc.dtype, .to = step->out[0].desc.dtype};
    p.from_bytes = dtype_bytes(p.from);
    p.to_bytes = dtype_bytes(p.to);
    if (!strided_loop_over_step(step, &p.loop)) return false;
    if (step->op == IG_OP_FILL) {
        ig_attrs_fill attrs;
        ig_step_attrs(step, &attrs, sizeof attrs);
        dtypes[p.to].write(p.value, attrs.value);
    }
    out->cost = cost;
    return keep_params(out, &p, sizeof p);
}

static bool fills(const ig_step *step, ig_cpu_setup *out) { return setup(step, out, 1); }

static bool same_dtype(const ig_step *step, ig_cpu_setup *out) {
    return step->in[0].desc.dtype == step->out[0].desc.dtype && setup(step, out, 1);
}

/* I32 to BF16 through F32 would round twice; F16 is too small for such numbers. */
static bool through_floats(const ig_step *step, ig_cpu_setup *out) {
    const ig_dtype from = step->in[0].desc.dtype, to = step->out[0].desc.dtype;
    if (!dtypes[from].read_float || to == IG_F64 || (from == IG_I32 && to == IG_BF16)) return false;
    return setup(step, out, 2);
}

static bool through_doubles(const ig_step *step, ig_cpu_setup *out) { return setup(step, out, 8); }

/* ---- large transposes ---- */

/*
 * Adjacent source elements are a row apart in the result. Row by row, each element would read its
 * own cache line, so a unit is a block of the result, copied in blocks of 16 x 16, which are
 * complete cache lines on both sides.
 */
enum {
    TRANSPOSE_ROWS = 64,
    TRANSPOSE_COLUMNS = 128,
    TRANSPOSE_BLOCK = 16,
    TRANSPOSE_MIN = 1 << 14
};

typedef struct transpose_params {
    strided_index outer; /* dimensions of the source but the last two */
    int64_t matrices;
    int64_t rows, columns; /* of the result */
    int64_t stride;        /* of the source, along a row of the result */
} transpose_params;

static int64_t pieces(int64_t n, int64_t piece) { return (n + piece - 1) / piece; }

static bool transpose_setup(const ig_step *step, ig_cpu_setup *out) {
    const ig_operand *x = &step->in[0];
    const int rank = x->desc.shape.rank;
    const int64_t count = ig_shape_count(x->desc.shape);
    if (x->desc.dtype != step->out[0].desc.dtype || dtype_bytes(x->desc.dtype) != 4 || rank < 2 ||
        count < TRANSPOSE_MIN || x->stride[rank - 2] != 1 || x->stride[rank - 1] == 1)
        return false;
    transpose_params p = {.outer = strided_index_make(x, 2),
                          .rows = x->desc.shape.dim[rank - 2],
                          .columns = x->desc.shape.dim[rank - 1],
                          .stride = x->stride[rank - 1]};
    if (p.rows < TRANSPOSE_BLOCK || p.columns < TRANSPOSE_BLOCK) return false;
    p.matrices = count / p.rows / p.columns;
    out->units = p.matrices * pieces(p.rows, TRANSPOSE_ROWS) * pieces(p.columns, TRANSPOSE_COLUMNS);
    out->cost = TRANSPOSE_ROWS * TRANSPOSE_COLUMNS;
    return keep_params(out, &p, sizeof p);
}

/* [TRANSPOSE_BLOCK, TRANSPOSE_BLOCK] of the result; the source lines are read at once. */
static void transpose_block(const float *from, int64_t stride, float *to, int64_t columns) {
    for (int64_t c = 0; c < TRANSPOSE_BLOCK; c += 8)
        for (int64_t r = 0; r < TRANSPOSE_BLOCK; r += 8)
            transpose_8x8(from + c * stride + r, stride, to + r * columns + c, columns);
}

/* The last blocks of a side overlap those before them. */
static void transpose(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const transpose_params *p = l->params;
    const int64_t across = pieces(p->columns, TRANSPOSE_COLUMNS),
                  down = pieces(p->rows, TRANSPOSE_ROWS);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t matrix = unit / across / down;
        const int64_t row = unit / across % down * TRANSPOSE_ROWS,
                      column = unit % across * TRANSPOSE_COLUMNS;
        const int64_t rows = min_i64(p->rows, row + TRANSPOSE_ROWS);
        const int64_t columns = min_i64(p->columns, column + TRANSPOSE_COLUMNS);
        const float *from = (const float *)l->at[0] + strided_offset(&p->outer, matrix);
        float *to = (float *)l->at[1] + matrix * p->rows * p->columns;
        for (int64_t i = row; i < rows; i += TRANSPOSE_BLOCK)
            for (int64_t j = column; j < columns; j += TRANSPOSE_BLOCK) {
                const int64_t r = min_i64(i, p->rows - TRANSPOSE_BLOCK);
                const int64_t c = min_i64(j, p->columns - TRANSPOSE_BLOCK);
                transpose_block(from + c * p->stride + r, p->stride, to + r * p->columns + c,
                                p->columns);
            }
    }
}

/* ---- runs ---- */

static void copy(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    const strided_loop *g = &p->loop;
    const int64_t stride = g->stride[0][g->rank - 1], bytes = p->to_bytes;
    strided_run r;
    for (strided_run_first(g, 2, begin, end, &r); r.n > 0; strided_run_next(g, 2, &r))
        copy_strided(l->at[1] + r.at[1] * bytes, 1, l->at[0] + r.at[0] * bytes, stride, r.n, bytes);
}

static void cast_by_float(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    const strided_loop *g = &p->loop;
    const int64_t stride = g->stride[0][g->rank - 1];
    read_float_fn *const read = dtypes[p->from].read_float;
    write_float_fn *const write = dtypes[p->to].write_float;
    float room[BLOCK];
    strided_run r;
    for (strided_run_first(g, 2, begin, end, &r); r.n > 0; strided_run_next(g, 2, &r))
        for (int64_t i = 0; i < r.n; i += BLOCK) {
            const int64_t n = min_i64(r.n - i, BLOCK);
            const char *src = l->at[0] + (r.at[0] + i * stride) * p->from_bytes;
            char *dst = l->at[1] + (r.at[1] + i) * p->to_bytes;
            const float *x = read(src, stride, n, write ? room : (float *)dst);
            if (write) write(dst, x, n);
        }
}

static void cast_by_double(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    const strided_loop *g = &p->loop;
    const int64_t step = g->stride[0][g->rank - 1] * p->from_bytes;
    strided_run r;
    for (strided_run_first(g, 2, begin, end, &r); r.n > 0; strided_run_next(g, 2, &r)) {
        const char *src = l->at[0] + r.at[0] * p->from_bytes;
        char *dst = l->at[1] + r.at[1] * p->to_bytes;
        for (int64_t i = 0; i < r.n; i++)
            dtypes[p->to].write(dst + i * p->to_bytes, dtypes[p->from].read(src + i * step));
    }
}

static void fill(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    copy_strided(l->at[0] + begin * p->to_bytes, 1, p->value, 0, end - begin, p->to_bytes);
}

const ig_cpu_entry IG_CPU_LIST(cast)[] = {
#define IG_BLOCK_DTYPE(...)
#define IG_DTYPE(ID, name, block, bytes)                                  \
    {IG_OP_COPY, IG_##ID, BY_UNIT, transpose_setup, transpose},           \
        {IG_OP_COPY, IG_##ID, BY_ELEMENT, same_dtype, copy},              \
        {IG_OP_FILL, IG_##ID, BY_ELEMENT, fills, fill},                   \
        {IG_OP_CAST, IG_##ID, BY_ELEMENT, same_dtype, copy},              \
        {IG_OP_CAST, IG_##ID, BY_ELEMENT, through_floats, cast_by_float}, \
        {IG_OP_CAST, IG_##ID, BY_ELEMENT, through_doubles, cast_by_double},
#include "ingot/dtype.def"
    {0},
};
