/*
 * Levels and devices as a context sees them: what is tried, what the timeline
 * reports when something fails, and that the numbers are right whatever happens.
 *
 * The device is tests/plugins/far.c: the reference in a memory of its own, which
 * fails in whatever way FAR_FAILS says.
 */
#include <jansson.h>
#include <stdlib.h>

#include "unit/check.h"

static ig_ctx *far_ctx(const char *fails, bool strict) {
    ig_ctx *ctx = NULL;
    setenv("FAR_FAILS", fails, 1);
    must(ig_ctx_create(&(ig_ctx_options){.device = "far",
                                         .plugins = TEST_PLUGIN_DIR "/far/far.so",
                                         .strict = strict},
                       &ctx));
    must(ig_mode_set(ctx, IG_MODE_COMPILED));
    return ctx;
}

static json_t *report_of(const ig_ctx *ctx) {
    static char text[1 << 16];
    json_error_t error;
    assert_true(ig_report_json(ctx, text, sizeof text) < sizeof text);
    json_t *root = json_loads(text, 0, &error);
    if (!root) fail_msg("%s: %s", error.text, text);
    return root;
}

/* w += x + x, twice the same step: recorded, then replayed. */
static ig_status count_up(ig_ctx *ctx, ig_tensor *w, ig_tensor *x) {
    for (int step = 0; step < 2; step++) {
        ig_tensor *y = ig_neg(ig_neg(ig_add(x, x)));
        IG_TRY(ig_accumulate(w, y));
        IG_TRY(ig_ctx_step_end(ctx));
    }
    return IG_OK;
}

/* The timeline's entry of the replayed plan: the one of several steps. */
static const json_t *entry_of(const json_t *report, const char *device) {
    size_t i;
    const json_t *entry;
    json_array_foreach(json_object_get(report, "backend_timeline"), i, entry) {
        const char *module = json_string_value(json_object_get(entry, "module"));
        const char *on = json_string_value(json_object_get(entry, "device"));
        if (strncmp(module, "steps ", 6) == 0 && strcmp(on, device) == 0) return entry;
    }
    fail_msg("no entry on %s", device);
    return NULL;
}

static void assert_attempts(const json_t *entry, const char *const reasons[3], int selected) {
    static const char *const levels[] = {"compile", "kernel_override", "eager"};
    const json_t *attempts = json_object_get(entry, "attempts");
    assert_int_equal(json_array_size(attempts), 3);
    for (int i = 0; i < 3; i++) {
        const json_t *a = json_array_get(attempts, (size_t)i);
        const char *reason = json_string_value(json_object_get(a, "reason"));
        assert_string_equal(json_string_value(json_object_get(a, "level")), levels[i]);
        assert_int_equal(json_is_true(json_object_get(a, "selected")), i == selected);
        if (strncmp(reason, reasons[i], strlen(reasons[i])) != 0) fail_msg("%s", reason);
    }
}

static void every_way_to_fail_ends_with_the_right_numbers_and_the_reason(void **state) {
    (void)state;
    static const struct {
        const char *fails, *device, *reasons[3];
        int selected;
    } rows[] = {
        {"", "far:0", {"", "no override registered", "skipped: compile selected"}, 0},
        {"compile", "far:0", {"far: 4 steps at once", "no override registered", ""}, 2},
        {"submit", "far:0", {"far: 4 steps caught fire", "no override registered", ""}, 2},
        {"nothing",
         "far:0",
         {"far:0: compile() made no program", "no override registered",
          "far:0: compile() made no program"},
         -1},
        {"number",
         "far:0",
         {"far:0: compile() gave status 4711", "no override registered", "far:0: compile()"},
         -1},
        {"nothing", "cpu:0", {"not offered", "no override registered", ""}, 2},
        {"list", "far:0", {"not offered", "no override registered", ""}, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ig_ctx *ctx = far_ctx(rows[i].fails, false);
        ig_tensor *w = FLOATS(ctx, IG_SHAPE(3), 1, 2, 3), *x = FLOATS(ctx, IG_SHAPE(3), 1, 1, 1);
        must(count_up(ctx, w, x));
        HOLDS(w, 5, 6, 7);
        json_t *report = report_of(ctx);
        assert_attempts(entry_of(report, rows[i].device), rows[i].reasons, rows[i].selected);
        json_decref(report);
        ig_tensor_release(w);
        ig_tensor_release(x);
        ig_ctx_destroy(ctx);
    }
}

/* The first fallback of the report. */
static const json_t *fallback_of(const json_t *report) {
    const json_t *f = json_array_get(json_object_get(report, "fallbacks"), 0);
    if (!f) fail_msg("there is no fallback");
    return f;
}

/* Ops one by one, and steps that are replayed: the device fails, another one goes on, and the
 * numbers are right. */
static void a_device_that_fails_when_it_runs_is_left_for_another(void **state) {
    (void)state;
    static const struct {
        const char *fails, *reason;
    } rows[] = {{"always", "far: 1 steps caught fire"}, {"status", "far:0: submit() gave status"}};
    for (size_t i = 0; i < 2; i++) {
        ig_ctx *ctx = far_ctx(rows[i].fails, false);
        ig_tensor *w = FLOATS(ctx, IG_SHAPE(3), 1, 2, 3), *x = FLOATS(ctx, IG_SHAPE(3), 1, 1, 1);
        must(ig_accumulate(w, w));
        HOLDS(w, 2, 4, 6); /* what it had overwritten was put back first */
        must(count_up(ctx, w, x));
        must(count_up(ctx, w, x));
        HOLDS(w, 10, 12, 14);
        json_t *report = report_of(ctx);
        const json_t *f = fallback_of(report);
        assert_string_equal(json_string_value(json_object_get(f, "to")), "cpu:0");
        const char *reason = json_string_value(json_object_get(f, "reason"));
        if (!strstr(reason, rows[i].reason)) fail_msg("%s", reason);
        assert_true(json_real_value(json_object_get(f, "ms_lost")) > 0);
        assert_attempts(entry_of(report, "far:0"),
                        (const char *[]){"far", "no override registered", "far"}, -1);
        assert_attempts(entry_of(report, "cpu:0"),
                        (const char *[]){"not offered", "no override", ""}, 2);
        json_decref(report);
        ig_tensor_release(w);
        ig_tensor_release(x);
        ig_ctx_destroy(ctx);
    }
}

/* -(-(x + x)) again and again, without anything that is updated. */
static void a_device_that_fails_later_is_left_where_nothing_is_lost(void **state) {
    (void)state;
    ig_ctx *ctx = far_ctx("later", false);
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(3), 1, 2, 3);
    for (int step = 0; step < 6; step++) {
        HOLDS(ig_neg(ig_exp(ig_scale(ig_add(x, x), 0, 0))), -1, -1, -1);
        must(ig_ctx_step_end(ctx));
    }
    json_t *report = report_of(ctx);
    const json_t *f = fallback_of(report);
    assert_non_null(strstr(json_string_value(json_object_get(f, "reason")), "caught fire"));
    json_decref(report);
    ig_tensor_release(x);
    ig_ctx_destroy(ctx);

    ctx = far_ctx("later", true);
    x = FLOATS(ctx, IG_SHAPE(3), 1, 2, 3);
    ig_status status = IG_OK;
    for (int step = 0; step < 6 && status == IG_OK; step++) {
        ig_tensor *y = ig_neg(ig_add(x, x));
        float got[3];
        status = ig_tensor_read(y, got, sizeof got);
        if (status == IG_OK) status = ig_ctx_step_end(ctx);
    }
    assert_int_equal(status, IG_ERR_UNSUPPORTED);
    assert_non_null(strstr(ig_error_text(), "strict: far:0: compile: far: "));
    ig_tensor_release(x);
    ig_ctx_destroy(ctx);
}

/* What an update reads is kept before every run, so another device continues with the right
 * numbers even when this one has overwritten them. */
static void a_device_that_fails_later_in_an_update_is_left_for_another(void **state) {
    (void)state;
    ig_ctx *ctx = far_ctx("later", false);
    ig_tensor *w = FLOATS(ctx, IG_SHAPE(3), 1, 2, 3), *x = FLOATS(ctx, IG_SHAPE(3), 1, 1, 1);
    for (int i = 0; i < 4; i++) must(count_up(ctx, w, x));
    HOLDS(w, 17, 18, 19);
    json_t *report = report_of(ctx);
    const json_t *f = fallback_of(report);
    assert_string_equal(json_string_value(json_object_get(f, "to")), "cpu:0");
    assert_non_null(strstr(json_string_value(json_object_get(f, "reason")), "caught fire"));
    assert_true(json_integer_value(json_object_get(f, "bytes_moved")) > 0);
    assert_true(json_real_value(json_object_get(f, "ms_lost")) > 0);
    assert_attempts(entry_of(report, "far:0"),
                    (const char *[]){"far: 4 steps", "no override registered", "skipped"}, -1);
    const json_t *places = json_object_get(report, "device_placement");
    assert_true(json_integer_value(json_object_get(places, "cpu:0")) >= 4); /* as it is now */
    json_decref(report);
    ig_tensor_release(w);
    ig_tensor_release(x);
    ig_ctx_destroy(ctx);
}

/* Strict has no other device, and leaves the numbers as they were. */
static void strict_fails_later_without_a_trace(void **state) {
    (void)state;
    ig_ctx *ctx = far_ctx("later", true);
    ig_tensor *w = FLOATS(ctx, IG_SHAPE(3), 1, 2, 3), *x = FLOATS(ctx, IG_SHAPE(3), 1, 1, 1);
    ig_status status = IG_OK;
    int steps = 0;
    for (; steps < 8 && status == IG_OK; steps += status == IG_OK) {
        status = ig_accumulate(w, ig_neg(ig_neg(ig_add(x, x))));
        if (status == IG_OK) status = ig_ctx_step_end(ctx);
    }
    assert_int_equal(status, IG_ERR_UNSUPPORTED);
    assert_non_null(strstr(ig_error_text(), "strict: far:0: compile: far: 4 steps caught fire"));
    float got[3];
    must(ig_tensor_read(w, got, sizeof got));
    assert_true(got[0] == 1 + 2 * (float)steps);
    ig_tensor_release(w);
    ig_tensor_release(x);
    ig_ctx_destroy(ctx);
}

/* What has been overwritten in part and was not kept is lost: the error names the device and says
 * what to do. */
static void a_later_failure_that_loses_something_is_an_error(void **state) {
    (void)state;
    ig_ctx *ctx = far_ctx("costly", false);
    ig_tensor *w = FLOATS(ctx, IG_SHAPE(3), 1, 2, 3), *x = FLOATS(ctx, IG_SHAPE(3), 1, 1, 1);
    ig_status status = IG_OK;
    for (int i = 0; i < 4 && status == IG_OK; i++) status = count_up(ctx, w, x);
    assert_int_equal(status, IG_ERR_DEVICE);
    assert_non_null(strstr(ig_error_text(), "far:0: far: "));
    assert_non_null(strstr(ig_error_text(), "it has overwritten what it needs to run again"));
    assert_non_null(strstr(ig_error_text(), "resume from the last checkpoint"));
    ig_tensor_release(w);
    ig_tensor_release(x);
    ig_ctx_destroy(ctx);
}

/* Rows that are stored in pages can be stored again: nothing is kept, whatever the device says, and
 * nothing moves but what is looked at. */
static void a_later_failure_that_only_stores_rows_loses_nothing(void **state) {
    (void)state;
    static const char *const fails[] = {"later", "costly"};
    for (size_t i = 0; i < 2; i++) {
        ig_ctx *ctx = far_ctx(fails[i], false);
        ig_tensor *pages = FLOATS(ctx, IG_SHAPE(3, 2), 0, 0, 0, 0, 0, 0);
        ig_tensor *rows = FLOATS(ctx, IG_SHAPE(1, 2), 1, 2), *at = NULL;
        const int32_t second = 1;
        must(ig_tensor_create_from(ctx, (ig_desc){IG_I32, IG_SHAPE(1)}, &second, &at));
        for (int step = 0; step < 8; step++) {
            must(ig_store_rows(pages, ig_neg(ig_neg(rows)), at));
            HOLDS(ig_add(pages, pages), 0, 0, 2, 4, 0, 0);
            must(ig_ctx_step_end(ctx));
        }
        json_t *report = report_of(ctx);
        assert_non_null(strstr(json_string_value(json_object_get(fallback_of(report), "reason")),
                               "caught fire"));
        json_decref(report);
        ig_tensor_release(pages);
        ig_tensor_release(rows);
        ig_tensor_release(at);
        ig_ctx_destroy(ctx);
    }
}

static void absurd_answers_are_errors_that_name_the_device(void **state) {
    (void)state;
    static const struct {
        const char *fails, *why;
    } rows[] = {
        {"count", "far: count() says 4294967295 devices"},
        {"open", "far:0: open() gave status 4711"},
        {"alloc", "far:0: buffer_alloc() gave no buffer of"},
        {"scratch", "far:0: scratch_bytes(): 18446744073709551608 bytes for neg"},
        {"prepare", "far:0: prepare(): far: cannot prepare"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ig_ctx *ctx = NULL;
        setenv("FAR_FAILS", rows[i].fails, 1);
        ig_status status = ig_ctx_create(
            &(ig_ctx_options){.device = "far", .plugins = TEST_PLUGIN_DIR "/far/far.so"}, &ctx);
        ig_tensor *x = ctx ? FLOATS(ctx, IG_SHAPE(2), 1, 2) : NULL, *y = ctx ? ig_neg(x) : NULL;
        if (ctx) status = ig_eval(&y, 1);
        assert_int_equal(status, IG_ERR_DEVICE);
        if (!strstr(ig_error_text(), rows[i].why)) fail_msg("%s", ig_error_text());
        ig_tensor_release(x);
        ig_ctx_destroy(ctx);
    }
}

static void strict_refuses_a_level_that_fails(void **state) {
    (void)state;
    static const char *const fails[] = {"compile", "submit", "nothing"};
    for (size_t i = 0; i < 3; i++) {
        ig_ctx *ctx = far_ctx(fails[i], true);
        ig_tensor *w = FLOATS(ctx, IG_SHAPE(3), 1, 2, 3), *x = FLOATS(ctx, IG_SHAPE(3), 1, 1, 1);
        const ig_status status = count_up(ctx, w, x);
        assert_int_equal(status, IG_ERR_UNSUPPORTED);
        assert_non_null(strstr(ig_error_text(), "strict: far:0: compile: far"));
        ig_tensor_release(w);
        ig_tensor_release(x);
        ig_ctx_destroy(ctx);
    }
}

static void what_another_device_runs_is_listed_with_bytes_and_time(void **state) {
    (void)state;
    ig_ctx *ctx = far_ctx("nothing", false);
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(4), 1, 2, 3, 4);
    HOLDS(ig_neg(x), -1, -2, -3, -4);
    json_t *report = report_of(ctx);
    const json_t *f = json_array_get(json_object_get(report, "fallbacks"), 0);
    assert_string_equal(json_string_value(json_object_get(f, "from")), "far:0");
    assert_string_equal(json_string_value(json_object_get(f, "to")), "cpu:0");
    assert_non_null(strstr(json_string_value(json_object_get(f, "reason")), "made no program"));
    assert_int_equal(json_integer_value(json_object_get(f, "runs")), 1);
    assert_true(json_is_integer(json_object_get(f, "bytes_moved")));
    assert_true(json_is_real(json_object_get(f, "ms_lost")));
    json_decref(report);
    ig_tensor_release(x);
    ig_ctx_destroy(ctx);
}

/* A step on either side of a graph break: a custom op in the middle runs on the host. */
static ig_status twice(void *user, const ig_custom_operand *in, uint32_t n_in,
                       const ig_custom_operand *out) {
    (void)user, (void)n_in;
    for (int i = 0; i < 4; i++) ((float *)out[0].bytes)[i] = 2 * ((const float *)in[0].bytes)[i];
    return IG_OK;
}

static ig_status like_input(void *user, const ig_desc *in, uint32_t n_in, ig_desc *out) {
    (void)user, (void)n_in;
    *out = in[0];
    return IG_OK;
}

static void what_crosses_between_two_memories_is_counted(void **state) {
    (void)state;
    ig_ctx *ctx = far_ctx("", false);
    uint32_t id = 0;
    must(ig_custom_register(
        ctx, &(ig_custom_op){.name = "twice", .n_out = 1, .infer = like_input, .run = twice}, &id));
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(4), 1, 2, 3, 4), *y[1];
    for (int step = 0; step < 3; step++) {
        ig_tensor *h = ig_neg(ig_exp(ig_scale(x, 0, 0))); /* all -1 */
        ig_custom(ctx, id, &h, 1, y);
        HOLDS(ig_add(y[0], h), -3, -3, -3, -3);
        must(ig_ctx_step_end(ctx));
    }
    static char text[1 << 16];
    assert_true(ig_report_plan_json(ctx, 0, text, sizeof text) < sizeof text);
    assert_non_null(strstr(text, "{\"to\":\"host\",\"bytes\":16}"));
    assert_non_null(strstr(text, "{\"to\":\"far:0\",\"bytes\":16}"));
    json_t *report = report_of(ctx);
    assert_true(json_integer_value(json_object_get(report, "moved_bytes")) >= 3 * 16);
    json_decref(report);
    ig_tensor_release(x);
    ig_ctx_destroy(ctx);
}

static void memory_from_outside_is_seen_on_the_device_and_its_results_outside(void **state) {
    (void)state;
    ig_ctx *ctx = far_ctx("", false);
    float memory[3] = {1, 2, 3};
    ig_tensor *w = NULL;
    must(ig_tensor_wrap(ctx, (ig_desc){IG_F32, IG_SHAPE(3)}, NULL, memory, NULL, NULL, &w));
    for (int step = 0; step < 4; step++) {
        memory[0] = 10; /* without a call to the library */
        must(ig_accumulate(w, w));
        must(ig_ctx_step_end(ctx));
        assert_true(memory[0] == 20);
    }
    assert_true(memory[1] == 32);
    ig_tensor_release(w);
    ig_ctx_destroy(ctx);
}

static void a_frozen_tensor_cannot_be_written_to(void **state) {
    (void)state;
    ig_ctx *ctx = far_ctx("", false);
    ig_tensor *w = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    must(ig_tensor_freeze(w));
    refused(ig_tensor_write(w, (float[]){3, 4}, 8), IG_ERR_STATE, "write: the tensor is frozen");
    refused(ig_accumulate(w, w), IG_ERR_STATE, "accumulate: the tensor is frozen");
    refused(ig_tensor_freeze(ig_neg(w)), IG_ERR_ARGUMENT, "the result of an op");
    for (int i = 0; i < 3; i++) {
        HOLDS(ig_add(w, w), 2, 4);
        must(ig_ctx_step_end(ctx));
    }
    ig_tensor_release(w);
    ig_ctx_destroy(ctx);
}

/* More single ops than plans are kept: those that went are still told of, once each. */
static void ops_whose_plans_went_stay_in_the_timeline(void **state) {
    (void)state;
    enum { MANY = 4100 };
    ig_ctx *ctx = NULL;
    must(ig_ctx_create(&(ig_ctx_options){.device = "cpu", .threads = 1}, &ctx));
    ig_tensor *x = NULL;
    must(ig_tensor_create(ctx, (ig_desc){IG_F32, IG_SHAPE(MANY)}, &x));
    ig_tensor *y = ig_exp(x);
    must(ig_eval(&y, 1));
    for (int64_t n = 1; n <= MANY; n++) {
        y = ig_neg(ig_slice(x, 0, 0, n));
        must(ig_eval(&y, 1));
        if (n % 64 == 0) must(ig_ctx_step_end(ctx));
    }
    const size_t bytes = ig_report_json(ctx, NULL, 0) + 1;
    char *text = malloc(bytes);
    ig_report_json(ctx, text, bytes);
    json_t *report = json_loads(text, 0, NULL);
    size_t i, found[2] = {0, 0};
    const json_t *entry;
    json_array_foreach(json_object_get(report, "backend_timeline"), i, entry) {
        const char *module = json_string_value(json_object_get(entry, "module"));
        found[0] += strcmp(module, "exp") == 0;
        found[1] += strcmp(module, "neg") == 0;
    }
    assert_int_equal(found[0], 1);
    assert_in_range(found[1], 2, 100); /* one for all that went, and those that are there */
    json_decref(report);
    free(text);
    ig_tensor_release(x);
    ig_ctx_destroy(ctx);
}

/* ---- tags ---- */

static void steps_and_their_gradients_are_part_of_what_their_builder_says(void **state) {
    (void)state;
    ig_ctx *ctx = far_ctx("", false);
    ig_tensor *w = FLOATS(ctx, IG_SHAPE(2, 2), 1, 2, 3, 4),
              *x = FLOATS(ctx, IG_SHAPE(2, 2), 1, 1, 1, 1);
    must(ig_tensor_require_grad(w));
    for (int step = 0; step < 4; step++) {
        ig_tag_begin(ctx, IG_TAG_FFN);
        ig_tag_begin(ctx, IG_TAG_ATTENTION); /* the outermost counts */
        ig_tensor *y = ig_tanh(ig_matmul(x, w));
        ig_tag_end(ctx);
        ig_tag_end(ctx);
        must(ig_backward(sum_all(ig_exp(ig_matmul(y, x)))));
        must(ig_accumulate(w, ig_tensor_grad(w)));
        must(ig_ctx_step_end(ctx));
    }
    static char text[1 << 16];
    json_error_t error;
    assert_true(ig_report_plan_json(ctx, 0, text, sizeof text) < sizeof text);
    json_t *plan = json_loads(text, 0, &error);
    int products[2] = {0, 0}; /* of the ffn, and by themselves */
    size_t i;
    const json_t *s;
    json_array_foreach(json_object_get(plan, "steps"), i, s) {
        const char *op = json_string_value(json_object_get(s, "op"));
        const char *tag = json_string_value(json_object_get(s, "tag"));
        assert_string_not_equal(tag, "attention");
        if (strcmp(op, "exp") == 0) assert_string_equal(tag, "");
        if (strncmp(op, "matmul", strlen("matmul")) != 0) continue; /* one has tanh fused into it */
        products[0] += strcmp(tag, "ffn") == 0;
        products[1] += strcmp(tag, "matmul") == 0;
    }
    assert_int_equal(products[0], 2); /* forward and the gradient of w */
    assert_int_equal(products[1], 2);
    json_decref(plan);
    ig_tensor_release(w);
    ig_tensor_release(x);
    ig_ctx_destroy(ctx);
}

static json_int_t moved_bytes(const ig_ctx *ctx) {
    json_t *report = report_of(ctx);
    const json_int_t bytes = json_integer_value(json_object_get(report, "moved_bytes"));
    json_decref(report);
    return bytes;
}

/* The result of a replayed step is 32 bytes; nothing else has to move. */
static void results_stay_on_a_device_until_they_are_read(void **state) {
    (void)state;
    enum { N = 8, STEPS = 10 };
    ig_ctx *ctx = far_ctx("", false);
    const float ones[N] = {1, 1, 1, 1, 1, 1, 1, 1};
    float got[N];
    ig_tensor *x;
    must(ig_tensor_create_from(ctx, (ig_desc){IG_F32, IG_SHAPE(N)}, ones, &x));
    json_int_t before = 0;
    for (int step = 0; step < STEPS; step++) {
        ig_tensor *y = ig_neg(ig_add(x, x));
        const bool looks = step < 4 || step == 7;
        must(ig_ctx_step_end(ctx));
        if (looks) must(ig_tensor_read(y, got, sizeof got));
        if (looks) assert_true(got[0] == -2 && got[N - 1] == -2);
        if (step == 4) before = moved_bytes(ctx);
    }
    assert_int_equal(moved_bytes(ctx) - before, sizeof got);
    ig_tensor_release(x);
    ig_ctx_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_stay_on_a_device_until_they_are_read),
        cmocka_unit_test(every_way_to_fail_ends_with_the_right_numbers_and_the_reason),
        cmocka_unit_test(a_device_that_fails_when_it_runs_is_left_for_another),
        cmocka_unit_test(a_device_that_fails_later_is_left_where_nothing_is_lost),
        cmocka_unit_test(a_device_that_fails_later_in_an_update_is_left_for_another),
        cmocka_unit_test(strict_fails_later_without_a_trace),
        cmocka_unit_test(a_later_failure_that_loses_something_is_an_error),
        cmocka_unit_test(a_later_failure_that_only_stores_rows_loses_nothing),
        cmocka_unit_test(absurd_answers_are_errors_that_name_the_device),
        cmocka_unit_test(strict_refuses_a_level_that_fails),
        cmocka_unit_test(what_another_device_runs_is_listed_with_bytes_and_time),
        cmocka_unit_test(what_crosses_between_two_memories_is_counted),
        cmocka_unit_test(memory_from_outside_is_seen_on_the_device_and_its_results_outside),
        cmocka_unit_test(a_frozen_tensor_cannot_be_written_to),
        cmocka_unit_test(ops_whose_plans_went_stay_in_the_timeline),
        cmocka_unit_test(steps_and_their_gradients_are_part_of_what_their_builder_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
