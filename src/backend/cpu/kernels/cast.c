/*
 * Elements as they are, as another dtype, or all alike: copy, cast, fill.
 *
 * A cast goes block by block through floats where these hold every value of the
 * source exactly, and through doubles otherwise, so that it rounds once: to
 * nearest, ties to even.  Integers are cut towards zero, stay in range, and are
 * 0 for NaN.  There is one reader and one writer per dtype, not one function per
 * pair.
 */
#include "backend/cpu/load_f16.h"
#include "backend/cpu/simd/vec_math.h"

enum { BLOCK = 256 }; /* elements that are converted at a time */

/* ---- by way of floats ---- */

/* n elements, `stride` apart: where they lie, if they are floats already, or in `room`. */
typedef const float *read_float_fn(const char *src, int64_t stride, int64_t n, float *room);
typedef void write_float_fn(char *dst, const float *x, int64_t n);

static const float *read_f32(const char *src, int64_t stride, int64_t n, float *room) {
    if (stride == 1) return (const float *)src;
    copy_run((char *)room, 1, src, stride, n, 4);
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

/* Adds half of what is cut off, a little less where the rest is even; a NaN must not become
 * infinite. */
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

/* A float whose last bit is set where x is not exact, so that rounding it again, to fewer bits,
 * rounds x itself ("rounding to odd"). */
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

/* NULL: floats do not hold all of it, or need no writing. */
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
    loop loop;
    ig_dtype from, to;
    int64_t from_bytes, to_bytes;
    char value[8]; /* of a fill */
} params;

static bool setup(const ig_step *step, ig_cpu_setup *out, int64_t cost) {
    params p = {.from = ig_step_operand(step, 0)->desc.dtype, .to = step->out[0].desc.dtype};
    p.from_bytes = dtype_bytes(p.from);
    p.to_bytes = dtype_bytes(p.to);
    if (!loop_over_step(step, &p.loop)) return false;
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

/* An I32 that is rounded to float and then to BF16 is rounded twice; F16 has no such numbers. */
static bool through_floats(const ig_step *step, ig_cpu_setup *out) {
    const ig_dtype from = step->in[0].desc.dtype, to = step->out[0].desc.dtype;
    if (!dtypes[from].read_float || to == IG_F64 || (from == IG_I32 && to == IG_BF16)) return false;
    return setup(step, out, 2);
}

static bool through_doubles(const ig_step *step, ig_cpu_setup *out) { return setup(step, out, 8); }

/* ---- large transposes ---- */

/*
 * What lies side by side in the source lies a row apart in the result.  Taken row by
 * row, each element would fetch a line of its own: so a unit is a block of the result,
 * and goes through it by blocks of 16 x 16, whole lines on both sides.
 */
enum { TURN_ROWS = 64, TURN_COLUMNS = 128, TURN_BLOCK = 16, TURN_LEAST = 1 << 14 };

typedef struct turn_params {
    places outer;          /* dimensions of the source but the last two */
    int64_t matrices;      /* so many */
    int64_t rows, columns; /* of the result */
    int64_t stride;        /* of the source, along a row of the result */
} turn_params;

static int64_t pieces(int64_t n, int64_t piece) { return (n + piece - 1) / piece; }

static bool turns(const ig_step *step, ig_cpu_setup *out) {
    const ig_operand *x = &step->in[0];
    const int rank = x->desc.shape.rank;
    const int64_t count = ig_shape_count(x->desc.shape);
    if (x->desc.dtype != step->out[0].desc.dtype || dtype_bytes(x->desc.dtype) != 4 || rank < 2 ||
        count < TURN_LEAST || x->stride[rank - 2] != 1 || x->stride[rank - 1] == 1)
        return false;
    turn_params p = {.outer = places_make(x, 2),
                     .rows = x->desc.shape.dim[rank - 2],
                     .columns = x->desc.shape.dim[rank - 1],
                     .stride = x->stride[rank - 1]};
    if (p.rows < TURN_BLOCK || p.columns < TURN_BLOCK) return false;
    p.matrices = count / p.rows / p.columns;
    out->units = p.matrices * pieces(p.rows, TURN_ROWS) * pieces(p.columns, TURN_COLUMNS);
    out->cost = TURN_ROWS * TURN_COLUMNS;
    return keep_params(out, &p, sizeof p);
}

/* [TURN_BLOCK, TURN_BLOCK] of the result; the lines of the source that hold it are read at once. */
static void turn_block(const float *from, int64_t stride, float *to, int64_t columns) {
    for (int64_t c = 0; c < TURN_BLOCK; c += 8)
        for (int64_t r = 0; r < TURN_BLOCK; r += 8)
            transpose_8x8(from + c * stride + r, stride, to + r * columns + c, columns);
}

/* The last blocks of a side reach back over those before them. */
static void turn(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const turn_params *p = l->params;
    const int64_t across = pieces(p->columns, TURN_COLUMNS), down = pieces(p->rows, TURN_ROWS);
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t matrix = unit / across / down;
        const int64_t row = unit / across % down * TURN_ROWS, column = unit % across * TURN_COLUMNS;
        const int64_t rows = smaller(p->rows, row + TURN_ROWS);
        const int64_t columns = smaller(p->columns, column + TURN_COLUMNS);
        const float *from = (const float *)l->at[0] + place_of(&p->outer, matrix);
        float *to = (float *)l->at[1] + matrix * p->rows * p->columns;
        for (int64_t i = row; i < rows; i += TURN_BLOCK)
            for (int64_t j = column; j < columns; j += TURN_BLOCK) {
                const int64_t r = smaller(i, p->rows - TURN_BLOCK);
                const int64_t c = smaller(j, p->columns - TURN_BLOCK);
                turn_block(from + c * p->stride + r, p->stride, to + r * p->columns + c,
                           p->columns);
            }
    }
}

/* ---- runs ---- */

static void copy(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    const loop *g = &p->loop;
    const int64_t stride = g->stride[0][g->rank - 1], bytes = p->to_bytes;
    run r;
    for (loop_first(g, 2, begin, end, &r); r.n > 0; loop_next(g, 2, &r))
        copy_run(l->at[1] + r.at[1] * bytes, 1, l->at[0] + r.at[0] * bytes, stride, r.n, bytes);
}

static void cast_by_float(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    const loop *g = &p->loop;
    const int64_t stride = g->stride[0][g->rank - 1];
    read_float_fn *const read = dtypes[p->from].read_float;
    write_float_fn *const write = dtypes[p->to].write_float;
    float room[BLOCK];
    run r;
    for (loop_first(g, 2, begin, end, &r); r.n > 0; loop_next(g, 2, &r))
        for (int64_t i = 0; i < r.n; i += BLOCK) {
            const int64_t n = smaller(r.n - i, BLOCK);
            const char *src = l->at[0] + (r.at[0] + i * stride) * p->from_bytes;
            char *dst = l->at[1] + (r.at[1] + i) * p->to_bytes;
            const float *x = read(src, stride, n, write ? room : (float *)dst);
            if (write) write(dst, x, n);
        }
}

static void cast_by_double(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    const loop *g = &p->loop;
    const int64_t step = g->stride[0][g->rank - 1] * p->from_bytes;
    run r;
    for (loop_first(g, 2, begin, end, &r); r.n > 0; loop_next(g, 2, &r)) {
        const char *src = l->at[0] + r.at[0] * p->from_bytes;
        char *dst = l->at[1] + r.at[1] * p->to_bytes;
        for (int64_t i = 0; i < r.n; i++)
            dtypes[p->to].write(dst + i * p->to_bytes, dtypes[p->from].read(src + i * step));
    }
}

static void fill(const ig_cpu_launch *l, int64_t begin, int64_t end) {
    const params *p = l->params;
    copy_run(l->at[0] + begin * p->to_bytes, 1, p->value, 0, end - begin, p->to_bytes);
}

const ig_cpu_entry IG_CPU_LIST(cast)[] = {
#define IG_BLOCK_DTYPE(...)
#define IG_DTYPE(ID, name, block, bytes)                                  \
    {IG_OP_COPY, IG_##ID, BY_UNIT, turns, turn},                          \
        {IG_OP_COPY, IG_##ID, BY_ELEMENT, same_dtype, copy},              \
        {IG_OP_FILL, IG_##ID, BY_ELEMENT, fills, fill},                   \
        {IG_OP_CAST, IG_##ID, BY_ELEMENT, same_dtype, copy},              \
        {IG_OP_CAST, IG_##ID, BY_ELEMENT, through_floats, cast_by_float}, \
        {IG_OP_CAST, IG_##ID, BY_ELEMENT, through_doubles, cast_by_double},
#include "ingot/dtype.def"
    {0},
};
