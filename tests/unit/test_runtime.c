/* Contexts: options, devices by name, modes, steps, cancelling, and numbers drawn from the seed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "unit/check.h"

static ig_desc f32(ig_shape shape) { return (ig_desc){IG_F32, shape}; }

static ig_ctx *ctx_with(ig_ctx_options options) {
    ig_ctx *ctx = NULL;
    must(ig_ctx_create(&options, &ctx));
    return ctx;
}

/* ---- options ---- */

/* What a context with these options writes to stderr. */
static void stderr_of(ig_ctx_options options, char *out, size_t room) {
    FILE *file = tmpfile();
    const int kept = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    ig_ctx_destroy(ctx_with(options));
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(file);
    out[fread(out, 1, room - 1, file)] = '\0';
    fclose(file);
}

static void only_a_verbose_context_logs(void **state) {
    (void)state;
    char text[256];
    stderr_of((ig_ctx_options){.device = "ref"}, text, sizeof text);
    assert_string_equal(text, "");
    stderr_of((ig_ctx_options){.device = "ref", .verbose = true}, text, sizeof text);
    assert_non_null(strstr(text, "ingot: device ref is ref:0"));
}

static void no_options_are_the_defaults(void **state) {
    (void)state;
    ig_ctx *a = NULL, *b = NULL;
    must(ig_ctx_create(NULL, &a));
    must(ig_ctx_create(&(ig_ctx_options){0}, &b));
    assert_int_equal(ig_ctx_seed(a), 0);
    assert_string_equal(ig_ctx_device(a), ig_ctx_device(b));
    assert_int_equal(ig_mode_get(a), IG_MODE_DYNAMIC);
    ig_ctx_destroy(a);
    ig_ctx_destroy(b);
    ig_ctx_destroy(NULL);
}

static void options_that_cannot_be_are_refused(void **state) {
    (void)state;
    ig_ctx *ctx = NULL;
    ig_ctx_options half = {.allocator = {.alloc = ig_ctx_allocator(*state)->alloc}};
    refused(ig_ctx_create(&half, &ctx), IG_ERR_ARGUMENT, "an allocator needs both functions");
    refused(ig_ctx_create(&(ig_ctx_options){.threads = -1}, &ctx), IG_ERR_ARGUMENT, "-1 threads");
    refused(ig_ctx_create(&(ig_ctx_options){.threads = 100000}, &ctx), IG_ERR_ARGUMENT,
            "100000 threads");
    refused(ig_ctx_create(NULL, NULL), IG_ERR_ARGUMENT, "NULL");
    assert_null(ctx);
}

static void the_caller_s_texts_may_go(void **state) {
    (void)state;
    char device[] = "ref";
    ig_ctx *ctx = ctx_with((ig_ctx_options){.device = device, .seed = 7});
    memset(device, 'x', sizeof device - 1);
    assert_string_equal(ig_ctx_device(ctx), "ref:0");
    assert_int_equal(ig_ctx_seed(ctx), 7);
    ig_ctx_destroy(ctx);
}

static void contexts_live_side_by_side(void **state) {
    (void)state;
    ig_ctx *ctx[8];
    ig_tensor *x[8];
    for (int i = 0; i < 8; i++) {
        ctx[i] = ctx_with((ig_ctx_options){.threads = 1 + i % 3});
        x[i] = FLOATS(ctx[i], IG_SHAPE(2), (float)i, 1);
    }
    for (int i = 7; i >= 0; i--) HOLDS(ig_add(x[i], x[i]), (float)(2 * i), 2);
    for (int i = 0; i < 8; i++) {
        ig_tensor_release(x[i]);
        ig_ctx_destroy(ctx[i]);
    }
}

/* ---- devices ---- */

static void opens(const char *device, const char *want) {
    ig_ctx *ctx = NULL;
    const ig_status status =
        ig_ctx_create(&(ig_ctx_options){.device = device, .unsafe_device = true}, &ctx);
    if (status != IG_OK) fail_msg("%s: %s", device ? device : "NULL", ig_error_text());
    assert_string_equal(ig_ctx_device(ctx), want);
    ig_ctx_destroy(ctx);
}

static void does_not_open(const char *device, const char *words) {
    ig_ctx *ctx = NULL;
    refused(ig_ctx_create(&(ig_ctx_options){.device = device}, &ctx), IG_ERR_DEVICE, words);
    assert_null(ctx);
}

/* A device whose numbers are wrong is used by those alone who name it and say so: not as one of a
 * class. */
static void does_not_open_safely(const char *device, const char *words) {
    ig_ctx *ctx = NULL;
    refused(ig_ctx_create(&(ig_ctx_options){.device = device}, &ctx), IG_ERR_DEVICE, words);
    assert_null(ctx);
}

static void a_device_is_a_name_and_perhaps_a_number(void **state) {
    (void)state;
    opens("ref", "ref:0");
    opens("ref:0", "ref:0");
    opens("ref:00", "ref:0");
    opens("null", "null:0");
    does_not_open_safely("null", "device null:0: self-test failed: add gave ");
}

static void an_unknown_device_lists_those_there_are(void **state) {
    (void)state;
    static const char *const unknown[] = {"nonsense", "CPU",    " ref",  "ref ",     "re",  "reff",
                                          ":0",       "auto:0", "npu:1", "\xff\xfe", "%s%n"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        does_not_open(unknown[i], "no such device; known: auto cpu vulkan ref null");
    does_not_open("nonsense", "device nonsense");
    char longest[5000];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    does_not_open(longest, "device aaaa");
}

static void the_number_of_a_device_must_be_one_that_there_is(void **state) {
    (void)state;
    does_not_open("ref:9", "device ref:9: ref has 1, counted from 0");
    does_not_open("cpu:9", "device cpu:9");
    does_not_open("ref:", "expected a device index after ':'");
    does_not_open("ref:x", "expected a device index after ':'");
    does_not_open("ref:-1", "expected a device index after ':'");
    does_not_open("ref:+0", "expected a device index after ':'");
    does_not_open("ref:0x", "expected a device index after ':'");
    does_not_open("ref: 0", "expected a device index after ':'");
    does_not_open("ref:0:0", "expected a device index after ':'");
    does_not_open("ref:4294967296", "expected a device index after ':'");
    does_not_open("ref:99999999999999999999", "expected a device index after ':'");
}

/* Environment variables of one test, put back afterwards. */
typedef struct environment {
    char *device, *alias;
} environment;

static char *copy_of(const char *text) { return text ? strdup(text) : NULL; }

static void set(const char *name, const char *value) {
    if (value)
        assert_int_equal(setenv(name, value, 1), 0);
    else
        assert_int_equal(unsetenv(name), 0);
}

static int keep_environment(void **state) {
    static environment kept;
    kept = (environment){copy_of(getenv("INGOT_DEVICE")), copy_of(getenv("RM_DEVICE"))};
    *state = &kept;
    return 0;
}

static int restore_environment(void **state) {
    const environment *kept = *state;
    set("INGOT_DEVICE", kept->device);
    set("RM_DEVICE", kept->alias);
    free(kept->device);
    free(kept->alias);
    return 0;
}

static void an_argument_beats_the_environment_and_ingot_s_beats_the_alias(void **state) {
    (void)state;
    set("INGOT_DEVICE", "nonsense");
    set("RM_DEVICE", "rubbish");
    opens("ref", "ref:0");
    does_not_open(NULL, "device nonsense");
    does_not_open("", "device nonsense"); /* an empty text is none */
    set("INGOT_DEVICE", "ref");
    opens(NULL, "ref:0");
    set("INGOT_DEVICE", "");
    does_not_open(NULL, "device rubbish");
    set("INGOT_DEVICE", NULL);
    does_not_open(NULL, "device rubbish");
    set("RM_DEVICE", "ref:0");
    opens(NULL, "ref:0");
}

/* ---- modes and steps ---- */

static void unknown_modes_are_refused(void **state) {
    ig_ctx *ctx = *state;
    must(ig_mode_set(ctx, IG_MODE_DYNAMIC));
    refused(ig_mode_set(ctx, (ig_mode)17), IG_ERR_ARGUMENT, "17 is no mode");
    refused(ig_mode_set(NULL, IG_MODE_DYNAMIC), IG_ERR_ARGUMENT, "NULL");
    assert_int_equal(ig_mode_get(ctx), IG_MODE_DYNAMIC);
}

static void compiled_and_auto_say_clearly_whether_they_are_there(void **state) {
    static const ig_mode modes[] = {IG_MODE_COMPILED, IG_MODE_AUTO};
    ig_ctx *ctx = *state;
    for (int i = 0; i < 2; i++) {
        const ig_status status = ig_mode_set(ctx, modes[i]);
        if (status == IG_OK) {
            assert_int_equal(ig_mode_get(ctx), modes[i]);
        } else {
            refused(status, IG_ERR_UNSUPPORTED, "Dynamic mode works");
            assert_int_equal(ig_mode_get(ctx), IG_MODE_DYNAMIC);
        }
    }
}

static void steps_in_which_nothing_happened_do_not_count(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    must(ig_ctx_step_end(ctx));
    assert_int_equal(ig_ctx_step_count(ctx), 0);
    (void)ig_neg(x);
    must(ig_ctx_step_end(ctx));
    must(ig_ctx_step_end(ctx));
    assert_int_equal(ig_ctx_step_count(ctx), 1);
    ig_scope_begin(ctx);
    ig_scope_begin(ctx);
    (void)ig_neg(x);
    ig_scope_end(ctx);
    assert_int_equal(ig_ctx_step_count(ctx), 1); /* only the outermost ends one */
    ig_scope_end(ctx);
    assert_int_equal(ig_ctx_step_count(ctx), 2);
    ig_ctx_set_step_count(ctx, 100);
    (void)ig_neg(x);
    must(ig_ctx_step_end(ctx));
    assert_int_equal(ig_ctx_step_count(ctx), 101);
    refused(ig_ctx_step_end(NULL), IG_ERR_ARGUMENT, "NULL");
    ig_tensor_release(x);
}

/* ---- cancelling ---- */

typedef struct button {
    int asked;
    int press_at; /* which question is answered with yes, from 1; 0: none */
} button;

static bool ask(void *user) {
    button *b = user;
    return ++b->asked == b->press_at;
}

static void a_cancelled_op_ends_with_a_status_and_the_context_goes_on(void **state) {
    (void)state;
    button b = {0};
    ig_ctx *ctx = ctx_with((ig_ctx_options){.cancel = ask, .user = &b});
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    b = (button){.press_at = 2};
    ig_tensor *y = ig_neg(ig_exp(ig_neg(x)));
    refused(ig_eval(&y, 1), IG_ERR_CANCELLED, "exp: cancelled");
    assert_int_equal(b.asked, 2); /* and nothing ran after that */
    HOLDS(ig_neg(x), -1, -2);
    ig_tensor_release(x);
    ig_ctx_destroy(ctx);
}

static void a_training_step_may_be_cancelled_anywhere(void **state) {
    (void)state;
    button b = {0};
    ig_ctx *ctx = ctx_with((ig_ctx_options){.cancel = ask, .user = &b});
    ig_tensor *w = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    uint32_t rate = 0;
    must(ig_tensor_require_grad(w));
    must(ig_slot_create(ctx, &rate));
    ig_slot_set_real(ctx, rate, 0);
    bool finished = false;
    for (int press_at = 1; !finished && press_at < 100; press_at++) {
        b = (button){.press_at = press_at};
        ig_tensor_zero_grad(w);
        ig_status status = ig_backward(sum_all(ig_mul(w, w)));
        if (status == IG_OK)
            status = ig_sgd(w, ig_tensor_grad(w), NULL, (ig_attrs_sgd){.lr_slot = rate});
        finished = status == IG_OK;
        if (!finished) refused(status, IG_ERR_CANCELLED, "cancelled");
        b = (button){0};
        must(ig_ctx_step_end(ctx));
        ig_tensor_zero_grad(w);
        must(ig_backward(sum_all(ig_mul(w, w))));
        HOLDS(ig_tensor_grad(w), 2, 4);
        must(ig_ctx_step_end(ctx));
    }
    assert_true(finished);
    ig_tensor_release(w);
    ig_ctx_destroy(ctx);
}

/* ---- numbers drawn from the seed ---- */

enum { DRAWN = 4096 };

static ig_tensor *drawn(ig_ctx *ctx, ig_dtype dtype, bool normal, double a, double b, void *out,
                        size_t bytes) {
    ig_tensor *t = NULL;
    must(ig_tensor_create(ctx, (ig_desc){dtype, IG_SHAPE(DRAWN)}, &t));
    must(normal ? ig_tensor_fill_normal(t, a, b) : ig_tensor_fill_uniform(t, a, b));
    must(ig_tensor_read(t, out, bytes));
    return t;
}

static void fills_are_the_same_for_the_same_seed(void **state) {
    (void)state;
    static float out[3][2][DRAWN]; /* context, call */
    const uint64_t seeds[] = {5, 5, UINT64_C(5) << 32};
    for (int c = 0; c < 3; c++) {
        ig_ctx *ctx = ctx_with((ig_ctx_options){.seed = seeds[c]});
        for (int i = 0; i < 2; i++)
            ig_tensor_release(drawn(ctx, IG_F32, i, 0, 1, out[c][i], sizeof out[c][i]));
        ig_ctx_destroy(ctx);
    }
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    assert_memory_not_equal(out[0][0], out[2][0], sizeof out[0][0]);
    assert_memory_not_equal(out[0][0], out[0][1], sizeof out[0][0]);
}

static void fills_have_the_range_or_the_moments_asked_for(void **state) {
    static double out[DRAWN];
    ig_ctx *ctx = *state;
    double sum = 0, squares = 0;
    ig_tensor_release(drawn(ctx, IG_F64, false, -3, 5, out, sizeof out));
    for (int i = 0; i < DRAWN; i++) {
        assert_true(out[i] > -3 && out[i] < 5);
        sum += out[i];
    }
    /* Six standard deviations of the mean: 6 * (8 / sqrt(12)) / sqrt(4096). */
    assert_true(fabs(sum / DRAWN - 1) < 0.217);

    ig_tensor_release(drawn(ctx, IG_F64, true, 2, 0.5, out, sizeof out));
    sum = 0;
    for (int i = 0; i < DRAWN; i++) sum += out[i];
    for (int i = 0; i < DRAWN; i++) squares += (out[i] - 2) * (out[i] - 2);
    assert_true(fabs(sum / DRAWN - 2) < 6 * 0.5 / 64);
    /* The deviation of a deviation is about sigma / sqrt(2 n). */
    assert_true(fabs(sqrt(squares / DRAWN) - 0.5) < 6 * 0.5 / sqrt(2.0 * DRAWN));
}

static void integers_are_not_drawn(void **state) {
    ig_tensor *t = INTS(*state, IG_SHAPE(2), 1, 2);
    refused(ig_tensor_fill_uniform(t, 0, 1), IG_ERR_ARGUMENT, "fill: i32");
    refused(ig_tensor_fill_normal(NULL, 0, 1), IG_ERR_ARGUMENT, "NULL");
    ig_tensor_release(t);
}

/* ---- dropout ---- */

/* What a dropout of ones by `p` gives. */
static void read_mask(ig_ctx *ctx, double p, float *out) {
    ig_tensor *mask = ig_dropout(ig_full(ctx, f32(IG_SHAPE(DRAWN)), 1), p);
    must(ig_tensor_read(mask, out, DRAWN * sizeof *out));
}

static void dropout_zeroes_a_share_and_scales_the_rest(void **state) {
    static const double shares[] = {0.1, 0.5, 0.75};
    static float mask[DRAWN];
    for (size_t s = 0; s < sizeof shares / sizeof shares[0]; s++) {
        const double p = shares[s];
        int zeros = 0;
        read_mask(*state, p, mask);
        for (int i = 0; i < DRAWN; i++) {
            zeros += mask[i] == 0;
            if (mask[i] != 0) assert_true(fabs((double)mask[i] - 1 / (1 - p)) < 1e-6 / (1 - p));
        }
        /* Six standard deviations of a share. */
        assert_true(fabs((double)zeros / DRAWN - p) < 6 * sqrt(p * (1 - p) / DRAWN));
    }
    read_mask(*state, 0, mask);
    for (int i = 0; i < DRAWN; i++) assert_true(mask[i] == 1);
    read_mask(*state, 1, mask);
    for (int i = 0; i < DRAWN; i++) assert_true(mask[i] == 0);
}

static void dropout_differs_by_step_and_by_call_but_not_by_run(void **state) {
    (void)state;
    enum { STEPS = 4, CALLS = 2 };
    static float masks[2][STEPS][CALLS][DRAWN];
    for (int run = 0; run < 2; run++) {
        ig_ctx *ctx = ctx_with((ig_ctx_options){.seed = 3, .threads = 1 + run});
        for (int step = 0; step < STEPS; step++) {
            for (int i = 0; i < CALLS; i++) read_mask(ctx, 0.5, masks[run][step][i]);
            must(ig_ctx_step_end(ctx));
        }
        ig_ctx_destroy(ctx);
    }
    assert_memory_equal(masks[0], masks[1], sizeof masks[0]);
    for (int a = 0; a < STEPS * CALLS; a++)
        for (int b = 0; b < a; b++)
            assert_memory_not_equal((&masks[0][0][0])[a], (&masks[0][0][0])[b],
                                    sizeof masks[0][0][0]);

    static float later[DRAWN]; /* another run goes on where that one was in its third step */
    ig_ctx *ctx = ctx_with((ig_ctx_options){.seed = 3});
    ig_ctx_set_step_count(ctx, 2);
    read_mask(ctx, 0.5, later);
    assert_memory_equal(later, masks[0][2][0], sizeof later);
    ig_ctx_destroy(ctx);
}

static void dropout_drops_the_same_elements_on_the_way_back(void **state) {
    ig_ctx *ctx = *state;
    static float ones[DRAWN], y[DRAWN], dx[DRAWN];
    for (int i = 0; i < DRAWN; i++) ones[i] = 1;
    ig_tensor *w = floats(ctx, IG_SHAPE(DRAWN), ones);
    must(ig_tensor_require_grad(w));
    ig_scope_begin(ctx); /* a step may end between the two, inside of a scope */
    ig_tensor *out = ig_dropout(w, 0.3), *loss = sum_all(out);
    must(ig_tensor_read(out, y, sizeof y));
    must(ig_ctx_step_end(ctx));
    must(ig_backward(loss));
    must(ig_tensor_read(ig_tensor_grad(w), dx, sizeof dx));
    ig_scope_end(ctx);
    assert_memory_equal(y, dx, sizeof y);
    ig_tensor_release(w);
}

static void a_count_set_during_a_step_waits_for_its_end(void **state) {
    ig_ctx *ctx = *state;
    static const ig_mode modes[] = {IG_MODE_DYNAMIC, IG_MODE_COMPILED};
    static float ones[DRAWN], y[DRAWN], dx[DRAWN];
    for (int i = 0; i < DRAWN; i++) ones[i] = 1;
    ig_tensor *w = floats(ctx, IG_SHAPE(DRAWN), ones);
    must(ig_tensor_require_grad(w));
    for (int run = 0; run < 6; run++) {
        if (run % 3 == 0) must(ig_mode_set(ctx, modes[run / 3]));
        ig_tensor *out = ig_dropout(w, 0.3), *loss = sum_all(out);
        if (run % 2) must(ig_tensor_read(out, y, sizeof y));
        ig_ctx_set_step_count(ctx, 1000 + (uint64_t)run);
        if (run % 2 == 0) must(ig_tensor_read(out, y, sizeof y));
        must(ig_backward(loss));
        must(ig_tensor_read(ig_tensor_grad(w), dx, sizeof dx));
        assert_memory_equal(y, dx, sizeof y);
        assert_int_equal(ig_ctx_step_count(ctx), 1000 + run);
        must(ig_ctx_step_end(ctx));
        assert_int_equal(ig_ctx_step_count(ctx), 1000 + run);
        ig_tensor_zero_grad(w);
    }
    ig_tensor_release(w);
}

/* ---- integers ---- */

static void holds_ints(ig_tensor *t, const int32_t *want, size_t count) {
    int32_t got[16];
    must(ig_tensor_read(t, got, count * sizeof got[0]));
    assert_memory_equal(got, want, count * sizeof got[0]);
}

static void integers_are_moved_and_those_from_nowhere_are_zero(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *x = INTS(ctx, IG_SHAPE(2, 2), 1, 2, 3, 4), *at = INTS(ctx, IG_SHAPE(1, 2), 1, 9);
    ig_tensor *ids = INTS(ctx, IG_SHAPE(2), 1, -1);
    holds_ints(ig_concat((ig_tensor *[]){x, at}, 2, 0), (const int32_t[]){1, 2, 3, 4, 1, 9}, 6);
    holds_ints(ig_pad(x, 1, 1, 0), (const int32_t[]){0, 1, 2, 0, 3, 4}, 6);
    holds_ints(ig_gather(x, at, 0), (const int32_t[]){3, 0}, 2);
    holds_ints(ig_embedding(x, ids), (const int32_t[]){3, 4, 0, 0}, 4);
    refused(ig_accumulate(x, x), IG_ERR_SHAPE, "accumulate: input 0 is i32");
    ig_tensor_release(ids);
    ig_tensor_release(at);
    ig_tensor_release(x);
}

/* Squares of these are near the largest float, and their sum is far beyond it. */
static void large_numbers_have_a_mean_square_and_a_norm(void **state) {
    ig_ctx *ctx = *state;
    enum { COUNT = 1500 };
    const float large = 1e19f;
    ig_tensor *x = ig_full(ctx, (ig_desc){IG_F32, IG_SHAPE(COUNT)}, (double)large);
    const double mse = item(ig_mse(x, ig_scale(x, 0, 0)));
    const double norm = item(ig_global_norm(&x, 1));
    assert_true(fabs(mse / 1e38 - 1) < 1e-5);
    assert_true(fabs(norm / (1e19 * sqrt(COUNT)) - 1) < 1e-5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_options_are_the_defaults),
        TEST_WITH_CTX(large_numbers_have_a_mean_square_and_a_norm),
        TEST_WITH_CTX(options_that_cannot_be_are_refused),
        cmocka_unit_test(only_a_verbose_context_logs),
        cmocka_unit_test(the_caller_s_texts_may_go),
        cmocka_unit_test(contexts_live_side_by_side),
        cmocka_unit_test(a_device_is_a_name_and_perhaps_a_number),
        cmocka_unit_test(an_unknown_device_lists_those_there_are),
        cmocka_unit_test(the_number_of_a_device_must_be_one_that_there_is),
        cmocka_unit_test_setup_teardown(
            an_argument_beats_the_environment_and_ingot_s_beats_the_alias, keep_environment,
            restore_environment),
        TEST_WITH_CTX(unknown_modes_are_refused),
        TEST_WITH_CTX(compiled_and_auto_say_clearly_whether_they_are_there),
        TEST_WITH_CTX(steps_in_which_nothing_happened_do_not_count),
        cmocka_unit_test(a_cancelled_op_ends_with_a_status_and_the_context_goes_on),
        cmocka_unit_test(a_training_step_may_be_cancelled_anywhere),
        cmocka_unit_test(fills_are_the_same_for_the_same_seed),
        TEST_WITH_CTX(fills_have_the_range_or_the_moments_asked_for),
        TEST_WITH_CTX(integers_are_not_drawn),
        TEST_WITH_CTX(dropout_zeroes_a_share_and_scales_the_rest),
        cmocka_unit_test(dropout_differs_by_step_and_by_call_but_not_by_run),
        TEST_WITH_CTX(dropout_drops_the_same_elements_on_the_way_back),
        TEST_WITH_CTX(a_count_set_during_a_step_waits_for_its_end),
        TEST_WITH_CTX(integers_are_moved_and_those_from_nowhere_are_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
