/* check.h - shared by tests of contexts and tensors. */
#ifndef IG_TESTS_UNIT_CHECK_H
#define IG_TESTS_UNIT_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ingot/ingot.h"

static inline void must(ig_status status) {
    if (status != IG_OK) fail_msg("%s: %s", ig_status_text(status), ig_error_text());
}

static inline void refused(ig_status got, ig_status want, const char *words) {
    if (got != want)
        fail_msg("\"%s\" (%s), not \"%s\"", ig_status_text(got), ig_error_text(),
                 ig_status_text(want));
    if (!strstr(ig_error_text(), words)) fail_msg("\"%s\" lacks \"%s\"", ig_error_text(), words);
}

/* Creates a context for each test: on the device that the environment names, or the best one. */
static inline int open_ctx(void **state) {
    ig_ctx *ctx = NULL;
    must(ig_ctx_create(NULL, &ctx));
    *state = ctx;
    return 0;
}

static inline int close_ctx(void **state) {
    ig_ctx_destroy(*state);
    return 0;
}

#define TEST_WITH_CTX(name) cmocka_unit_test_setup_teardown(name, open_ctx, close_ctx)

/* Creates an F32 tensor, which the caller releases. */
static inline ig_tensor *floats(ig_ctx *ctx, ig_shape shape, const float *values) {
    ig_tensor *t = NULL;
    must(ig_tensor_create_from(ctx, (ig_desc){IG_F32, shape}, values, &t));
    return t;
}

static inline ig_tensor *ints(ig_ctx *ctx, ig_shape shape, const int32_t *values) {
    ig_tensor *t = NULL;
    must(ig_tensor_create_from(ctx, (ig_desc){IG_I32, shape}, values, &t));
    return t;
}

#define FLOATS(ctx, shape, ...) floats(ctx, shape, (const float[]){__VA_ARGS__})
#define INTS(ctx, shape, ...)   ints(ctx, shape, (const int32_t[]){__VA_ARGS__})

/* Asserts that the tensor has exactly these elements, row by row. */
static inline void holds(ig_tensor *t, const float *want, size_t count) {
    float got[256];
    assert_true(count <= sizeof got / sizeof got[0]);
    must(ig_tensor_read(t, got, count * sizeof got[0]));
    for (size_t i = 0; i < count; i++)
        if (got[i] != want[i])
            fail_msg("element %zu is %g, not %g", i, (double)got[i], (double)want[i]);
}

#define HOLDS(t, ...) \
    holds(t, (const float[]){__VA_ARGS__}, sizeof((const float[]){__VA_ARGS__}) / sizeof(float))

static inline double item(ig_tensor *t) {
    double x = 0;
    must(ig_tensor_item(t, &x));
    return x;
}

static inline ig_tensor *sum_all(ig_tensor *x) { return ig_sum(x, NULL, 0, IG_DROP_DIM); }

#endif
