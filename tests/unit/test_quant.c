/* Products with stored weights: a row's result is its own, whatever is computed beside it. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/cpu/cpu.h"
#include "base/quant_blocks.h"
#include "ingot/blocks.h"
#include "ingot/report.h"
#include "unit/check.h"

enum { ROWS = 601, COLUMNS = 37, K = 2304 }; /* more than a block of each, in every kernel */

/* Bits in no order; as an F16, any two bytes of them are below 1. */
static void scribble(char *bytes, size_t count) {
    uint32_t x = 1;
    for (size_t i = 0; i < count; i++) {
        x = x * 1664525 + 1013904223;
        bytes[i] = (char)(x >> 24 & 0x3b);
    }
}

/* Every other scale of Q6_K, which are int8: the scales of neighboring groups are far apart then.
 */
static void make_scales_negative(char *bytes, size_t count) {
    ig_block_q6_k x;
    for (size_t at = 0; at < count; at += sizeof x) {
        memcpy(&x, bytes + at, sizeof x);
        for (size_t i = 1; i < sizeof x.scales; i += 2) x.scales[i] = (int8_t)(x.scales[i] - 128);
        memcpy(bytes + at, &x, sizeof x);
    }
}

static ig_tensor *weights(ig_ctx *ctx, ig_dtype dtype) {
    const size_t bytes = (size_t)ig_bytes_of(dtype, COLUMNS * K);
    char *w = malloc(bytes);
    ig_tensor *t = NULL;
    assert_non_null(w);
    scribble(w, bytes);
    if (dtype == IG_Q6_K) make_scales_negative(w, bytes);
    must(ig_tensor_create_from(ctx, (ig_desc){dtype, IG_SHAPE(COLUMNS, K)}, w, &t));
    free(w);
    return t;
}

static ig_tensor *activations(ig_ctx *ctx) {
    static float x[ROWS * K];
    for (int64_t i = 0; i < ROWS * K; i++) x[i] = (float)(i * 7919 % 2003) / 1000 - 1;
    return floats(ctx, IG_SHAPE(ROWS, K), x);
}

static void check_rows(ig_tensor *x, ig_tensor *w, int64_t begin, int64_t end, const float *want) {
    static float got[ROWS * COLUMNS];
    const ig_matmul_options transposed = {.transpose_b = true};
    const size_t count = (size_t)(end - begin) * COLUMNS;
    must(ig_tensor_read(ig_matmul_with(ig_slice(x, 0, begin, end), w, transposed), got,
                        count * sizeof *got));
    if (memcmp(got, want + begin * COLUMNS, count * sizeof *got) != 0)
        fail_msg("%s: rows %lld to %lld differ", ig_dtype_name(ig_tensor_desc(w).dtype),
                 (long long)begin, (long long)end);
}

static void check_each_type(ig_ctx *ctx) {
    static float all[ROWS * COLUMNS];
    ig_tensor *x = activations(ctx);
    for (ig_dtype dtype = 0; dtype < IG_DTYPE_COUNT; dtype++) {
        if (dtype == IG_F32 || !ig_blocks_can_dequantize(dtype)) continue;
        ig_tensor *w = weights(ctx, dtype);
        ig_scope_begin(ctx);
        must(ig_tensor_read(ig_matmul_with(x, w, (ig_matmul_options){.transpose_b = true}), all,
                            sizeof all));
        for (int64_t size = 1; size <= 17; size += 1 + size / 8)
            check_rows(x, w, 40, 40 + size, all);
        check_rows(x, w, 0, 64, all);
        check_rows(x, w, 270, 330, all); /* the middle, where many rows are cut in two */
        check_rows(x, w, ROWS - 1, ROWS, all);
        ig_scope_end(ctx);
        ig_tensor_release(w);
    }
    ig_tensor_release(x);
}

/* With each instruction set that this machine has. */
static void on_each_isa(void (*check)(ig_ctx *ctx)) {
    for (ig_isa isa = IG_ISA_SCALAR; isa < IG_ISA_COUNT; isa++) {
        ig_ctx *ctx = NULL;
        if (!ig_isa_available(isa)) continue;
        assert_int_equal(setenv("INGOT_ISA", ig_cpu_isa_name(isa), 1), 0);
        print_message("%s\n", ig_cpu_isa_name(isa));
        must(ig_ctx_create(&(ig_ctx_options){.device = "cpu"}, &ctx));
        check(ctx);
        ig_ctx_destroy(ctx);
    }
    unsetenv("INGOT_ISA");
}

static void a_row_has_the_same_bits_alone_and_among_others(void **state) {
    (void)state;
    on_each_isa(check_each_type);
}

/* 0.55 % for normal numbers in blocks of 32, and as much again for luck. */
static const double rounding = 0.011;

enum { FEW = 3 };

static void multiply_few(ig_ctx *ctx, ig_dtype dtype, const float *numbers, float *y) {
    ig_tensor *x = floats(ctx, IG_SHAPE(FEW, K), numbers), *w = weights(ctx, dtype);
    must(ig_tensor_read(ig_matmul_with(x, w, (ig_matmul_options){.transpose_b = true}), y,
                        FEW * COLUMNS * sizeof *y));
    ig_tensor_release(w);
    ig_tensor_release(x);
}

static void draw_normal(ig_ctx *ctx, float *numbers) {
    ig_tensor *x = NULL;
    must(ig_tensor_create(ctx, (ig_desc){IG_F32, IG_SHAPE(FEW, K)}, &x));
    must(ig_tensor_fill_normal(x, 0, 1));
    must(ig_tensor_read(x, numbers, FEW * K * sizeof *numbers));
    ig_tensor_release(x);
}

static double size_of(const float *x, const float *less) {
    double size = 0;
    for (int i = 0; i < FEW * COLUMNS; i++) size += pow((double)x[i] - (double)less[i], 2);
    return sqrt(size);
}

static void check_nearness(ig_ctx *ctx) {
    static const float zeros[FEW * COLUMNS];
    static float x[FEW * K], got[FEW * COLUMNS], want[FEW * COLUMNS];
    ig_ctx *ref = NULL;
    must(ig_ctx_create(&(ig_ctx_options){.device = "ref", .seed = 3}, &ref));
    draw_normal(ref, x);
    for (ig_dtype dtype = 0; dtype < IG_DTYPE_COUNT; dtype++) {
        const double limit = ig_dtype_block(dtype) > 1 ? rounding : 1e-6;
        if (!ig_blocks_can_dequantize(dtype)) continue;
        multiply_few(ctx, dtype, x, got);
        multiply_few(ref, dtype, x, want);
        const double off = size_of(got, want) / size_of(want, zeros);
        if (!(off <= limit)) fail_msg("%s: off by %.3g of the result", ig_dtype_name(dtype), off);
    }
    ig_ctx_destroy(ref);
}

static void a_product_is_as_near_as_bytes_allow(void **state) {
    (void)state;
    on_each_isa(check_nearness);
}

/* A K block of small scales that are not 0, of either sign where they have one, and numbers that
 * are. */
static void make_zeros(ig_dtype dtype, char *block) {
    const uint16_t d = 0x2e66; /* 0.1 */
    switch (dtype) {
    case IG_Q2_K: {
        ig_block_q2_k x = {.d = d, .m = d};
        memset(x.scales, 0x0b, sizeof x.scales);
        memcpy(block, &x, sizeof x);
        break;
    }
    case IG_Q3_K: {
        ig_block_q3_k x = {.d = d};
        memset(x.high, 0xff, sizeof x.high);
        memset(x.scales, 0x2d, sizeof x.scales);
        memcpy(block, &x, sizeof x);
        break;
    }
    case IG_Q4_K:
    case IG_Q5_K: { /* which begin alike */
        ig_block_q4_k x = {.d = d, .m = d};
        memset(x.scales, 0x2b, 4);
        memset(x.scales + 8, 0x05, 4);
        memcpy(block, &x, offsetof(ig_block_q4_k, q));
        break;
    }
    default: {
        ig_block_q6_k x = {.d = d};
        memset(x.high, 0xaa, sizeof x.high);
        for (int i = 0; i < 16; i++) x.scales[i] = (int8_t)(i % 2 ? -127 : 93);
        memcpy(block, &x, sizeof x);
    }
    }
}

/* Zero points are added and subtracted again, bit-exactly. */
static void check_zeros(ig_ctx *ctx) {
    static const ig_dtype types[] = {IG_Q2_K, IG_Q3_K, IG_Q4_K, IG_Q5_K, IG_Q6_K};
    static float y[ROWS * COLUMNS];
    ig_tensor *x = activations(ctx);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const size_t bytes = (size_t)ig_bytes_of(types[i], COLUMNS * K);
        const size_t block = (size_t)ig_bytes_of(types[i], ig_dtype_block(types[i]));
        char *zeros = calloc(1, bytes);
        ig_tensor *w = NULL;
        assert_non_null(zeros);
        for (size_t at = 0; at < bytes; at += block) make_zeros(types[i], zeros + at);
        must(ig_tensor_create_from(ctx, (ig_desc){types[i], IG_SHAPE(COLUMNS, K)}, zeros, &w));
        for (int64_t rows = 1; rows <= ROWS; rows += ROWS - 1) {
            must(ig_tensor_read(ig_matmul_with(ig_slice(x, 0, 0, rows), w,
                                               (ig_matmul_options){.transpose_b = true}),
                                y, (size_t)(rows * COLUMNS) * sizeof *y));
            for (int64_t j = 0; j < rows * COLUMNS; j++)
                if (y[j] != 0) fail_msg("%s: %g", ig_dtype_name(types[i]), (double)y[j]);
        }
        ig_tensor_release(w);
        free(zeros);
    }
    ig_tensor_release(x);
}

static void zeros_give_zeros_whatever_their_scales(void **state) {
    (void)state;
    on_each_isa(check_zeros);
}

static void what_is_not_finite_shows(void **state) {
    float x[2 * 64] = {1, 2, 3}, y[2];
    ig_tensor *w = NULL;
    x[64 + 40] = INFINITY;
    ig_tensor *a = floats(*state, IG_SHAPE(2, 64), x);
    char rows[2 * 18] = {0};
    must(ig_tensor_create_from(*state, (ig_desc){IG_Q4_0, IG_SHAPE(1, 64)}, rows, &w));
    must(ig_tensor_read(ig_matmul_with(a, w, (ig_matmul_options){.transpose_b = true}), y,
                        sizeof y));
    assert_true(y[0] == 0 && isnan(y[1]));
    ig_tensor_release(a);
    ig_tensor_release(w);
}

enum { MANY = 40, NOT_FINITE_K = 256 }; /* tiles have such rows, where there are any */

/* A column whose scales are all infinite. */
static ig_tensor *without_end(ig_ctx *ctx, ig_dtype dtype) {
    _Alignas(8) char w[NOT_FINITE_K * 2];
    const uint16_t infinity = 0x7c00;
    const size_t bytes = (size_t)ig_bytes_of(dtype, NOT_FINITE_K);
    const size_t block = (size_t)ig_bytes_of(dtype, ig_dtype_block(dtype));
    const size_t at = dtype == IG_Q6_K ? block - 2 : dtype == IG_Q2_K ? block - 4 : 0;
    ig_tensor *t = NULL;
    scribble(w, bytes);
    for (size_t i = at; i < bytes; i += block) memcpy(w + i, &infinity, sizeof infinity);
    must(ig_tensor_create_from(ctx, (ig_desc){dtype, IG_SHAPE(1, NOT_FINITE_K)}, w, &t));
    return t;
}

static void check_not_finite(ig_ctx *ctx, ig_dtype dtype) {
    static float x[MANY * NOT_FINITE_K], y[MANY], one;
    const ig_matmul_options transposed = {.transpose_b = true};
    for (int row = 0; row < MANY; row++)
        for (int i = 0; i < NOT_FINITE_K; i++)
            x[row * NOT_FINITE_K + i] = (float)(1 + i % 32 + row);
    ig_tensor *w = without_end(ctx, dtype), *all = floats(ctx, IG_SHAPE(MANY, NOT_FINITE_K), x);
    ig_tensor *first = floats(ctx, IG_SHAPE(1, NOT_FINITE_K), x);
    must(ig_tensor_read(ig_matmul_with(all, w, transposed), y, sizeof y));
    must(ig_tensor_read(ig_matmul_with(first, w, transposed), &one, sizeof one));
    for (int i = 0; i < MANY; i++)
        if (isfinite(y[i])) fail_msg("%s: row %d is %g", ig_dtype_name(dtype), i, (double)y[i]);
    assert_memory_equal(&one, y, sizeof one);
    ig_tensor_release(all);
    ig_tensor_release(first);
    ig_tensor_release(w);
}

static void check_types_not_finite(ig_ctx *ctx) {
    check_not_finite(ctx, IG_Q8_0);
    check_not_finite(ctx, IG_Q4_K);
    check_not_finite(ctx, IG_Q6_K);
    check_not_finite(ctx, IG_Q2_K);
}

static void a_scale_that_is_not_finite_shows(void **state) {
    (void)state;
    on_each_isa(check_types_not_finite);
}

/* ---- packed ---- */

/* A product, by expert if there are offsets.  Called as it is, it reads weights as they lie; when
 * it is captured, they are packed. */
typedef struct product {
    ig_tensor *x, *w, *bias, *offsets, *y;
} product;

static ig_status compute(void *arg) {
    product *p = arg;
    const ig_matmul_options options = {.transpose_b = true, .bias = p->bias};
    ig_tensor *y = p->offsets ? ig_matmul_grouped(p->x, p->w, p->offsets)
                              : ig_matmul_with(p->x, p->w, options);
    IG_TRY(ig_eval(&y, 1));
    p->y = ig_tensor_retain(y);
    return IG_OK;
}

enum { HALVES_K = 21 }; /* elements of k that count as a block of F16 and BF16 */

typedef struct extent {
    int64_t rows, columns, blocks; /* the last: of the weights' type, along k */
} extent;

/* Weights that a context may pack. */
typedef struct packable {
    ig_ctx *ctx;
    ig_packing *packing;
    ig_captured *captured;
} packable;

static packable packable_begin(int threads, char *w, ig_desc desc, ig_tensor **out) {
    uint64_t bytes = 0;
    packable c = {0};
    assert_true(ig_desc_bytes(desc, &bytes));
    scribble(w, bytes);
    if (desc.dtype == IG_Q6_K) make_scales_negative(w, bytes);
    must(ig_ctx_create(&(ig_ctx_options){.device = "cpu", .threads = threads}, &c.ctx));
    must(ig_packing_create(NULL, &c.packing));
    must(ig_packing_add(c.packing, w, bytes, IG_PACK_MEMORY));
    must(ig_ctx_attach_packing(c.ctx, c.packing));
    must(ig_tensor_wrap(c.ctx, desc, NULL, w, NULL, NULL, out));
    must(ig_tensor_freeze(*out));
    return c;
}

/* The product of weights as they lie, then of packed ones. */
static void compute_both(packable *c, product *p, float *stored, float *packed, size_t bytes) {
    must(compute(p));
    must(ig_tensor_read(p->y, stored, bytes));
    assert_int_equal(ig_packing_bytes(c->packing), 0);
    ig_tensor_release(p->y);
    must(ig_ctx_step_end(c->ctx));
    must(ig_capture(c->ctx, compute, p, &c->captured));
    must(ig_tensor_read(p->y, packed, bytes));
}

static void packable_end(packable *c, product *p) {
    ig_captured_destroy(c->captured);
    ig_tensor_release(p->y);
    ig_tensor_release(p->bias);
    ig_tensor_release(p->offsets);
    ig_tensor_release(p->x);
    ig_tensor_release(p->w);
    ig_ctx_detach_packing(c->ctx, c->packing);
    ig_ctx_destroy(c->ctx);
    ig_packing_release(c->packing);
}

static void check_packed(ig_isa isa, int threads, ig_dtype dtype, extent e) {
    const int64_t k = e.blocks * (ig_dtype_block(dtype) > 1 ? ig_dtype_block(dtype) : HALVES_K);
    const ig_desc desc = {dtype, IG_SHAPE(e.columns, k)};
    const int64_t given = e.rows * k > e.columns ? e.rows * k : e.columns; /* rows, and a bias */
    const size_t count = (size_t)(e.rows * e.columns);
    char *w = malloc((size_t)ig_bytes_of(dtype, e.columns * k));
    float *x = malloc((size_t)given * sizeof *x), *y = malloc(2 * count * sizeof *y);
    product p = {0};
    assert_true(w && x && y);
    for (int64_t i = 0; i < given; i++) x[i] = (float)(i * 7919 % 2003) / 1000 - 1;
    packable c = packable_begin(threads, w, desc, &p.w);
    p.x = floats(c.ctx, IG_SHAPE(e.rows, k), x);
    p.bias = floats(c.ctx, IG_SHAPE(e.columns), x);
    compute_both(&c, &p, y, y + count, count * sizeof *y);
    assert_int_equal(ig_packing_bytes(c.packing) > 0, isa != IG_ISA_SCALAR);
    if (memcmp(y, y + count, count * sizeof *y) != 0)
        fail_msg("%s, %s: [%lld, %lld] x [%lld]: packed weights give other bits",
                 ig_cpu_isa_name(isa), ig_dtype_name(dtype), (long long)e.rows, (long long)k,
                 (long long)e.columns);
    packable_end(&c, &p);
    free(y);
    free(x);
    free(w);
}

static void packed_weights_give_the_same_bits(void **state) {
    (void)state;
    static const extent extents[] = {
        {1, 1, 1},    {1, 37, 3},    {1, 160, 2},  {2, 16, 1},   {2, 80, 3},  {3, 144, 2},
        {4, 17, 2},   {5, 64, 1},    {6, 33, 5},   {7, 100, 1},  {8, 70, 2},  {9, 32, 3},
        {10, 48, 1},  {13, 31, 2},   {15, 65, 1},  {16, 16, 67}, {17, 40, 9}, {32, 31, 2},
        {24, 33, 4},  {33, 48, 3},   {41, 40, 67}, {64, 50, 2},  {70, 96, 1}, {28, 48, 3},
        {54, 281, 2}, {128, 290, 3}, {520, 17, 9}};
    for (ig_isa isa = IG_ISA_SCALAR; isa < IG_ISA_COUNT; isa++) {
        if (!ig_isa_available(isa)) continue;
        assert_int_equal(setenv("INGOT_ISA", ig_cpu_isa_name(isa), 1), 0);
        for (ig_dtype dtype = 0; dtype < IG_DTYPE_COUNT; dtype++) {
            const bool is_half = dtype == IG_F16 || dtype == IG_BF16;
            if (!is_half && (ig_dtype_block(dtype) == 1 || !ig_blocks_can_dequantize(dtype)))
                continue;
            for (size_t i = 0; i < sizeof extents / sizeof extents[0]; i++)
                check_packed(isa, 1 + i % 2, dtype, extents[i]);
        }
    }
    unsetenv("INGOT_ISA");
}

/* ---- experts ---- */

enum { EXPERTS = 5, EXPERT_ROWS = 140, EXPERT_COLUMNS = 37, EXPERT_K = 512 };

/* A small M, no rows, a tile and a half, tiles and a row; the rows before and after belong to no
 * expert. */
static const int32_t expert_offsets[EXPERTS + 1] = {1, 4, 4, 28, 93, 139};

/* What each expert gives by itself, one product after the other. */
static void multiply_alone(ig_ctx *ctx, ig_dtype dtype, ig_tensor *x, const char *w, float *y) {
    const ig_matmul_options transposed = {.transpose_b = true};
    memset(y, 0, EXPERT_ROWS * EXPERT_COLUMNS * sizeof *y);
    for (int e = 0; e < EXPERTS; e++) {
        const int64_t begin = expert_offsets[e], end = expert_offsets[e + 1];
        const int64_t bytes = ig_bytes_of(dtype, EXPERT_COLUMNS * EXPERT_K);
        ig_tensor *own = NULL;
        if (begin == end) continue;
        must(ig_tensor_create_from(ctx, (ig_desc){dtype, IG_SHAPE(EXPERT_COLUMNS, EXPERT_K)},
                                   w + e * bytes, &own));
        must(ig_tensor_read(ig_matmul_with(ig_slice(x, 0, begin, end), own, transposed),
                            y + begin * EXPERT_COLUMNS,
                            (size_t)(end - begin) * EXPERT_COLUMNS * sizeof *y));
        ig_tensor_release(own);
    }
}

static void check_experts(ig_isa isa, int threads, ig_dtype dtype) {
    static float x[EXPERT_ROWS * EXPERT_K];
    static float want[EXPERT_ROWS * EXPERT_COLUMNS], got[2][EXPERT_ROWS * EXPERT_COLUMNS];
    const ig_desc desc = {dtype, IG_SHAPE(EXPERTS, EXPERT_COLUMNS, EXPERT_K)};
    char *w = malloc((size_t)ig_bytes_of(dtype, EXPERTS * EXPERT_COLUMNS * EXPERT_K));
    product p = {0};
    assert_non_null(w);
    for (int64_t i = 0; i < EXPERT_ROWS * EXPERT_K; i++) x[i] = (float)(i * 7919 % 2003) / 1000 - 1;
    packable c = packable_begin(threads, w, desc, &p.w);
    p.x = floats(c.ctx, IG_SHAPE(EXPERT_ROWS, EXPERT_K), x);
    must(ig_tensor_create_from(c.ctx, (ig_desc){IG_I32, IG_SHAPE(EXPERTS + 1)}, expert_offsets,
                               &p.offsets));
    multiply_alone(c.ctx, dtype, p.x, w, want);
    compute_both(&c, &p, got[0], got[1], sizeof got[0]);
    for (int i = 0; i < 2; i++)
        if (memcmp(want, got[i], sizeof want) != 0)
            fail_msg("%s, %s, %s: experts have other bits together", ig_cpu_isa_name(isa),
                     ig_dtype_name(dtype), i == 0 ? "as stored" : "packed");
    packable_end(&c, &p);
    free(w);
}

static void experts_have_the_same_bits_together(void **state) {
    (void)state;
    for (ig_isa isa = IG_ISA_SCALAR; isa < IG_ISA_COUNT; isa++) {
        if (!ig_isa_available(isa)) continue;
        assert_int_equal(setenv("INGOT_ISA", ig_cpu_isa_name(isa), 1), 0);
        for (ig_dtype dtype = 0; dtype < IG_DTYPE_COUNT; dtype++)
            if (ig_dtype_block(dtype) > 1 && ig_blocks_can_dequantize(dtype))
                check_experts(isa, 1 + (int)dtype % 2, dtype);
    }
    unsetenv("INGOT_ISA");
}

/* A product that is captured, in a context of its own. */
typedef struct packer {
    ig_ctx *ctx;
    ig_packing *packing;
    ig_captured *captured;
    product p;
    float y[COLUMNS];
} packer;

static void packer_begin(packer *out, uint64_t limit) {
    static char w[COLUMNS * K / 32 * 34]; /* of Q8_0 */
    static float x[K];
    product *p = &out->p;
    *out = (packer){0};
    scribble(w, sizeof w);
    for (int i = 0; i < K; i++) x[i] = (float)(i * 7919 % 2003) / 1000 - 1;
    must(ig_ctx_create(&(ig_ctx_options){.device = "cpu", .memory_bytes = limit}, &out->ctx));
    must(ig_packing_create(NULL, &out->packing));
    must(ig_packing_add(out->packing, w, sizeof w, IG_PACK_MEMORY));
    must(ig_ctx_attach_packing(out->ctx, out->packing));
    const ig_desc desc = {IG_Q8_0, IG_SHAPE(COLUMNS, K)};
    must(ig_tensor_wrap(out->ctx, desc, NULL, w, NULL, NULL, &p->w));
    must(ig_tensor_freeze(p->w));
    p->x = floats(out->ctx, IG_SHAPE(1, K), x);
    p->bias = floats(out->ctx, IG_SHAPE(COLUMNS), x);
    must(ig_capture(out->ctx, compute, p, &out->captured));
    must(ig_tensor_read(p->y, out->y, sizeof out->y));
}

static void packer_end(packer *a) {
    ig_captured_destroy(a->captured);
    ig_tensor_release(a->p.y);
    ig_tensor_release(a->p.bias);
    ig_tensor_release(a->p.x);
    ig_tensor_release(a->p.w);
    ig_ctx_detach_packing(a->ctx, a->packing);
    ig_ctx_destroy(a->ctx);
    ig_packing_release(a->packing);
}

/* What new plans have asked for stays when the device changes, and what only old ones had goes. */
static void packed_weights_stay_where_a_plan_has_them(void **state) {
    (void)state;
    static const char *const to[] = {"ref", "cpu", "cpu", "ref", "cpu"};
    float y[COLUMNS];
    packer a;
    packer_begin(&a, 0);
    const uint64_t bytes = ig_packing_bytes(a.packing);
    for (size_t i = 0; i < sizeof to / sizeof to[0]; i++) {
        const bool is_cpu = strcmp(to[i], "cpu") == 0;
        must(ig_switch_device(a.ctx, to[i]));
        assert_int_equal(ig_packing_bytes(a.packing), is_cpu ? bytes : 0);
        must(ig_captured_replay(a.captured));
        must(ig_tensor_read(a.p.y, y, sizeof y));
        if (is_cpu) assert_memory_equal(y, a.y, sizeof y);
    }
    packer_end(&a);
}

static void packed_weights_count_for_the_limit(void **state) {
    (void)state;
    packer plain, wide, narrow;
    packer_begin(&plain, 0);
    const uint64_t packed = ig_packing_bytes(plain.packing), limit = packed + (1 << 20);
    packer_begin(&wide, limit);
    assert_int_equal(ig_packing_bytes(wide.packing), packed);
    const ig_memory_stats m = ig_report_memory(wide.ctx);
    assert_true(m.available_bytes + m.allocated_bytes + packed <= limit);
    if (packed > 0) { /* plain C reads weights as they lie */
        char words[64];
        ig_tensor *t = NULL;
        snprintf(words, sizeof words, "packed weights take %llu", (unsigned long long)packed);
        refused(ig_tensor_create(wide.ctx, (ig_desc){IG_F32, IG_SHAPE(1 << 18)}, &t), IG_ERR_MEMORY,
                words);
        ig_ctx_detach_packing(wide.ctx, wide.packing);
        must(ig_ctx_attach_packing(wide.ctx, wide.packing)); /* it is counted once, again */
        assert_int_equal(ig_report_memory(wide.ctx).available_bytes, m.available_bytes);
    }
    packer_begin(&narrow, packed > 0 ? packed : limit); /* plans need a part of it */
    assert_int_equal(ig_packing_bytes(narrow.packing), 0);
    assert_memory_equal(wide.y, plain.y, sizeof plain.y);
    assert_memory_equal(narrow.y, plain.y, sizeof plain.y);
    packer_end(&narrow);
    packer_end(&wide);
    packer_end(&plain);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_has_the_same_bits_alone_and_among_others),
        cmocka_unit_test(a_product_is_as_near_as_bytes_allow),
        cmocka_unit_test(zeros_give_zeros_whatever_their_scales),
        TEST_WITH_CTX(what_is_not_finite_shows),
        cmocka_unit_test(a_scale_that_is_not_finite_shows),
        cmocka_unit_test(packed_weights_give_the_same_bits),
        cmocka_unit_test(experts_have_the_same_bits_together),
        cmocka_unit_test(packed_weights_count_for_the_limit),
        cmocka_unit_test(packed_weights_stay_where_a_plan_has_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
