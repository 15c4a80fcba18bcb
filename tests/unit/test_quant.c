/* Products with stored weights: a row's result is its own, whatever is computed beside it. */
#include <math.h>
#include <stdlib.h>

#include "base/blocks.h"
#include "unit/check.h"

enum { ROWS = 101, COLUMNS = 37, K = 1280 }; /* more than a block of each, in every kernel */

/* Bits in no order; as an F16, any two bytes of them are below 1. */
static void scribble(char *bytes, size_t count) {
    uint32_t x = 1;
    for (size_t i = 0; i < count; i++) {
        x = x * 1664525 + 1013904223;
        bytes[i] = (char)(x >> 24 & 0x3b);
    }
}

static ig_tensor *weights(ig_ctx *ctx, ig_dtype dtype) {
    const size_t bytes = (size_t)ig_bytes_of(dtype, COLUMNS * K);
    char *w = malloc(bytes);
    ig_tensor *t = NULL;
    assert_non_null(w);
    scribble(w, bytes);
    must(ig_tensor_create_from(ctx, (ig_desc){dtype, IG_SHAPE(COLUMNS, K)}, w, &t));
    free(w);
    return t;
}

static ig_tensor *activations(ig_ctx *ctx) {
    static float x[ROWS * K];
    for (int i = 0; i < ROWS * K; i++) x[i] = (float)(i * 7919 % 2003) / 1000 - 1;
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

static void a_row_has_the_same_bits_alone_and_among_others(void **state) {
    static float all[ROWS * COLUMNS];
    ig_ctx *ctx = *state;
    ig_tensor *x = activations(ctx);
    for (ig_dtype dtype = 0; dtype < IG_DTYPE_COUNT; dtype++) {
        if (dtype == IG_F32 || !ig_blocks_can_decode(dtype)) continue;
        ig_tensor *w = weights(ctx, dtype);
        ig_scope_begin(ctx);
        must(ig_tensor_read(ig_matmul_with(x, w, (ig_matmul_options){.transpose_b = true}), all,
                            sizeof all));
        for (int64_t size = 1; size <= 17; size += 1 + size / 8)
            check_rows(x, w, 40, 40 + size, all);
        check_rows(x, w, 0, 64, all);
        check_rows(x, w, ROWS - 1, ROWS, all);
        ig_scope_end(ctx);
        ig_tensor_release(w);
    }
    ig_tensor_release(x);
}

/* 0.55 % for normal numbers in blocks of 32, and as much again for luck. */
static const double rounding = 0.011;

enum { FEW = 3 };

static void multiply_on(const char *device, ig_dtype dtype, float *y) {
    ig_ctx *ctx = NULL;
    ig_tensor *x = NULL;
    must(ig_ctx_create(&(ig_ctx_options){.device = device, .seed = 3}, &ctx));
    must(ig_tensor_create(ctx, (ig_desc){IG_F32, IG_SHAPE(FEW, K)}, &x));
    must(ig_tensor_fill_normal(x, 0, 1));
    ig_tensor *w = weights(ctx, dtype);
    must(ig_tensor_read(ig_matmul_with(x, w, (ig_matmul_options){.transpose_b = true}), y,
                        FEW * COLUMNS * sizeof *y));
    ig_tensor_release(w);
    ig_tensor_release(x);
    ig_ctx_destroy(ctx);
}

static void a_product_is_as_near_as_bytes_allow(void **state) {
    (void)state;
    float got[FEW * COLUMNS], want[FEW * COLUMNS];
    for (ig_dtype dtype = 0; dtype < IG_DTYPE_COUNT; dtype++) {
        if (!ig_blocks_can_decode(dtype)) continue;
        double error = 0, size = 0;
        multiply_on("cpu", dtype, got);
        multiply_on("ref", dtype, want);
        for (int i = 0; i < FEW * COLUMNS; i++) {
            error += pow((double)got[i] - (double)want[i], 2);
            size += pow((double)want[i], 2);
        }
        const double limit = ig_dtype_block(dtype) > 1 ? rounding : 1e-6;
        if (!(sqrt(error) <= limit * sqrt(size)))
            fail_msg("%s: off by %.3g of the result", ig_dtype_name(dtype),
                     sqrt(error) / sqrt(size));
    }
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

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST_WITH_CTX(a_row_has_the_same_bits_alone_and_among_others),
        cmocka_unit_test(a_product_is_as_near_as_bytes_allow),
        TEST_WITH_CTX(what_is_not_finite_shows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
