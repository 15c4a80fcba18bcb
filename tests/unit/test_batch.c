/* The production route's calls: kernels by name, many dispatches in one submit, hazards by bytes.
 */
#include "ingot/batch.h"
#include "ingot/ingot.h"
#include "unit/meter.h"

enum { N = 8, DISPATCHES = 30 };

#define OK(call)                                                         \
    do {                                                                 \
        if ((call) != IG_OK) fail_msg("%s: %s", #call, ig_error_text()); \
    } while (0)

static int begin(void **state) {
    ig_ctx *ctx = NULL;
    OK(ig_ctx_create(&(ig_ctx_options){.threads = 2}, &ctx));
    *state = ctx;
    return 0;
}

static int end(void **state) {
    ig_ctx_destroy(*state);
    return 0;
}

static ig_tensor *vector(ig_ctx *ctx, int64_t n) {
    ig_tensor *t = NULL;
    OK(ig_tensor_create(ctx, (ig_desc){IG_F32, IG_SHAPE(n)}, &t));
    return t;
}

static void kernels_are_found_by_the_names_of_both_routes(void **state) {
    (void)state;
    static const struct {
        const char *name;
        ig_op op;
    } rows[] = {{"rmsnorm", IG_OP_RMS_NORM},
                {"rms_norm", IG_OP_RMS_NORM},
                {"byte_embed", IG_OP_EMBEDDING},
                {"matmul", IG_OP_MATMUL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ig_op op = IG_OP_COUNT;
        OK(ig_kernel_find(rows[i].name, &op));
        assert_int_equal(op, rows[i].op);
    }
    ig_op untouched = IG_OP_COUNT;
    assert_int_equal(ig_kernel_find("rms_form", &untouched), IG_ERR_ARGUMENT);
    assert_non_null(strstr(ig_error_text(), "there is no kernel rms_form"));
    assert_int_equal(untouched, IG_OP_COUNT);
}

/* Doubles a vector again and again, between two buffers: each dispatch needs the one before. */
static void thirty_dispatches_are_one_submit_and_one_wait(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *at[2] = {vector(ctx, N), vector(ctx, N)};
    ig_batch *batch = NULL;
    OK(ig_batch_create(ctx, &batch));
    float *first = ig_tensor_map(at[0]);
    for (int i = 0; i < N; i++) first[i] = (float)(i + 1);
    const ig_counters before = ig_report_counters(ctx);
    OK(ig_batch_begin(batch));
    for (int i = 0; i < DISPATCHES; i++)
        OK(ig_dispatch(batch, "add", NULL, (ig_tensor *[]){at[i % 2], at[i % 2]}, 2,
                       &at[(i + 1) % 2], 1));
    OK(ig_batch_flush(batch));
    const ig_counters after = ig_report_counters(ctx);
    assert_int_equal(after.dispatches - before.dispatches, DISPATCHES);
    assert_int_equal(after.submits - before.submits, 1);
    assert_int_equal(after.waits - before.waits, 1);
    for (int i = 0; i < N; i++) assert_true(first[i] == (float)(i + 1) * (float)(1 << DISPATCHES));
    ig_batch_destroy(batch);
    ig_tensor_release(at[0]);
    ig_tensor_release(at[1]);
}

/* Two parts of one buffer do not wait for each other; a dispatch on all of it waits for both. */
static void hazards_go_by_the_bytes_that_are_touched(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *whole = vector(ctx, 2 * N), *half[2] = {NULL, NULL}, *sum = vector(ctx, 2 * N);
    const ig_desc desc = {IG_F32, IG_SHAPE(N)};
    for (int i = 0; i < 2; i++)
        OK(ig_tensor_create_view(whole, desc, NULL, (int64_t)i * N, &half[i]));
    ig_batch *batch = NULL;
    OK(ig_batch_create(ctx, &batch));
    float *values = ig_tensor_map(whole);
    for (int i = 0; i < 2 * N; i++) values[i] = 1;
    OK(ig_batch_begin(batch));
    OK(ig_dispatch(batch, "accumulate", NULL, (ig_tensor *[]){half[0], half[1]}, 2, NULL, 0));
    OK(ig_dispatch(batch, "accumulate", NULL, (ig_tensor *[]){half[1], half[0]}, 2, NULL, 0));
    OK(ig_dispatch(batch, "add", NULL, (ig_tensor *[]){whole, whole}, 2, &sum, 1));
    OK(ig_batch_flush(batch));
    const float *sums = ig_tensor_map(sum);
    for (int i = 0; i < N; i++) assert_true(sums[i] == 4 && sums[N + i] == 6);
    ig_batch_destroy(batch);
    for (int i = 0; i < 2; i++) ig_tensor_release(half[i]);
    ig_tensor_release(sum);
    ig_tensor_release(whole);
}

/* prepare() plans and runs nothing; then no flush allocates, not even the first. */
static void a_prepared_batch_allocates_nothing_at_its_first_flush(void **state) {
    (void)state;
    meter m = {0};
    ig_ctx *ctx = NULL;
    OK(ig_ctx_create(&(ig_ctx_options){.threads = 2, .allocator = meter_allocator(&m)}, &ctx));
    ig_tensor *at[2] = {vector(ctx, N), vector(ctx, N)};
    ig_batch *batch = NULL;
    OK(ig_batch_create(ctx, &batch));
    assert_int_equal(ig_batch_prepare(batch), IG_ERR_STATE); /* nothing has been begun */
    float *x = ig_tensor_map(at[0]), *y = ig_tensor_map(at[1]);
    for (int run = 0; run < 3; run++) {
        const uint64_t asked = m.asked;
        for (int i = 0; i < N; i++) x[i] = (float)(i + run);
        OK(ig_batch_begin(batch));
        OK(ig_dispatch(batch, "silu", NULL, &at[0], 1, &at[1], 1));
        OK(ig_dispatch(batch, "accumulate", NULL, (ig_tensor *[]){at[1], at[0]}, 2, NULL, 0));
        OK(run == 0 ? ig_batch_prepare(batch) : ig_batch_flush(batch));
        if (run == 0) assert_int_equal(ig_report_counters(ctx).submits, 0);
        if (run > 0) assert_int_equal(m.asked, asked);
        for (int i = 0; i < N; i++) assert_true(run == 0 ? y[i] == 0 : y[i] > x[i] - 1);
    }
    ig_batch_destroy(batch);
    for (int i = 0; i < 2; i++) ig_tensor_release(at[i]);
    ig_ctx_destroy(ctx);
    assert_int_equal(m.held, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_are_found_by_the_names_of_both_routes),
        cmocka_unit_test_setup_teardown(thirty_dispatches_are_one_submit_and_one_wait, begin, end),
        cmocka_unit_test_setup_teardown(hazards_go_by_the_bytes_that_are_touched, begin, end),
        cmocka_unit_test(a_prepared_batch_allocates_nothing_at_its_first_flush),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
