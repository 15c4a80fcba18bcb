/* What a context tells of itself: counters, memory, and the report as JSON. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "unit/check.h"

static ig_desc f32(ig_shape shape) { return (ig_desc){IG_F32, shape}; }

/* ---- counters ---- */

/* A layer with views in it: [4,3] x [3,5], five ops and five views. */
static ig_tensor *layer(ig_tensor *x, ig_tensor *w) {
    ig_tensor *y = ig_matmul(x, ig_transpose(w, 0, 1));
    ig_tensor *half = ig_slice(ig_tanh(y), 1, 0, 3);
    ig_tensor *flat = ig_reshape(ig_exp(half), IG_SHAPE(12));
    return sum_all(ig_mul(flat, ig_broadcast(ig_slice(flat, 0, 0, 1), IG_SHAPE(12))));
}

static void every_op_is_one_submit_and_views_are_none(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *x = NULL, *w = NULL;
    must(ig_tensor_create(ctx, f32(IG_SHAPE(4, 3)), &x));
    must(ig_tensor_create(ctx, f32(IG_SHAPE(5, 3)), &w));
    must(ig_tensor_fill_uniform(w, -1, 1));
    must(ig_eval((ig_tensor *[]){layer(x, w)}, 1));
    ig_counters c = ig_report_counters(ctx);
    assert_int_equal(c.ops, 5);
    assert_int_equal(c.submits, c.ops);
    assert_int_equal(c.views, 5);
    assert_int_equal(c.dispatches, c.ops + c.copies);

    must(ig_tensor_require_grad(w));
    for (int step = 0; step < 10; step++) {
        must(ig_backward(layer(x, w)));
        must(ig_accumulate(w, ig_tensor_grad(w)));
        must(ig_ctx_step_end(ctx));
        c = ig_report_counters(ctx);
        assert_int_equal(c.submits, c.ops); /* forward, backward and updates */
        assert_int_equal(c.dispatches, c.ops + c.copies);
    }
    assert_int_equal(c.steps, 10);
    assert_int_equal(c.records + c.replays, 0);
    ig_tensor_release(x);
    ig_tensor_release(w);
}

static void equal_ops_share_a_program(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    for (int i = 0; i < 10; i++) (void)ig_neg(ig_exp(x));
    ig_counters c = ig_report_counters(ctx);
    assert_int_equal(c.programs, 2);
    assert_int_equal(c.program_misses, 2);
    assert_int_equal(c.program_hits, 18);
    (void)ig_neg(ig_slice(x, 0, 1, 2)); /* another shape */
    (void)ig_scale(x, 1, 0);
    (void)ig_scale(x, 2, 0); /* other attributes */
    c = ig_report_counters(ctx);
    assert_int_equal(c.programs, 5);
    ig_tensor_release(x);
}

static void thousands_of_different_ops_do_not_pile_up(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    for (int i = 0; i < 10000; i++) {
        ig_scope_begin(ctx);
        HOLDS(ig_scale(x, i, 0), (float)i, 2 * (float)i);
        ig_scope_end(ctx);
    }
    assert_in_range(ig_report_counters(ctx).programs, 1, 5000);
    ig_tensor_release(x);
}

static void tensors_alive_are_counted(void **state) {
    ig_ctx *ctx = *state;
    assert_int_equal(ig_report_counters(ctx).tensors, 0);
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    ig_scope_begin(ctx);
    for (int i = 0; i < 100; i++) (void)ig_neg(x);
    ig_tensor *kept = ig_tensor_retain(ig_exp(x));
    assert_int_equal(ig_report_counters(ctx).tensors, 102);
    ig_scope_end(ctx);
    assert_int_equal(ig_report_counters(ctx).tensors, 2);
    ig_tensor_release(kept);
    ig_tensor_release(x);
    assert_int_equal(ig_report_counters(ctx).tensors, 0);
}

/* ---- memory ---- */

/* Fills the pool: what a step of the loop below takes, and what stays. */
static void train_step(ig_ctx *ctx, ig_tensor *x, ig_tensor *const *w) {
    ig_tensor *h = x;
    for (int i = 0; i < 2; i++) h = ig_tanh(ig_matmul(h, w[i]));
    ig_tensor *loss = ig_mean(ig_mul(h, h), NULL, 0, IG_DROP_DIM);
    for (int i = 0; i < 2; i++) ig_tensor_zero_grad(w[i]);
    must(ig_backward(loss));
    for (int i = 0; i < 2; i++) must(ig_accumulate(w[i], ig_scale(ig_tensor_grad(w[i]), -0.1, 0)));
    must(ig_ctx_step_end(ctx));
}

static void the_peak_stays_the_same_over_a_thousand_steps(void **state) {
    for (int scoped = 0; scoped < 2; scoped++) {
        ig_ctx *ctx = *state;
        ig_tensor *x = NULL, *w[2] = {NULL, NULL};
        must(ig_tensor_create(ctx, f32(IG_SHAPE(8, 16)), &x));
        must(ig_tensor_fill_normal(x, 0, 1));
        for (int i = 0; i < 2; i++) {
            must(ig_tensor_create(ctx, f32(IG_SHAPE(16, 16)), &w[i]));
            must(ig_tensor_fill_normal(w[i], 0, 0.3));
            must(ig_tensor_require_grad(w[i]));
        }
        ig_memory_stats settled = {0};
        uint64_t tensors = 0;
        for (int step = 0; step < 1000; step++) {
            if (scoped) ig_scope_begin(ctx);
            train_step(ctx, x, w);
            if (scoped) ig_scope_end(ctx);
            if (step == 2)
                settled = ig_report_memory(ctx), tensors = ig_report_counters(ctx).tensors;
        }
        const ig_memory_stats m = ig_report_memory(ctx);
        assert_int_equal(m.peak_bytes, settled.peak_bytes);
        assert_int_equal(m.allocated_bytes, settled.allocated_bytes);
        assert_int_equal(ig_report_counters(ctx).tensors, tensors);
        for (int i = 0; i < 2; i++) ig_tensor_release(w[i]);
        ig_tensor_release(x);
    }
}

static void the_peak_starts_again_after_a_reset(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *x = NULL;
    must(ig_tensor_create(ctx, f32(IG_SHAPE(1 << 18)), &x));
    assert_true(ig_report_memory(ctx).peak_bytes >= 1 << 20);
    assert_true(ig_report_memory(ctx).allocated_bytes >= 1 << 20);
    assert_true(ig_report_memory(ctx).available_bytes > 0);
    ig_report_reset_memory(ctx);
    assert_int_equal(ig_report_memory(ctx).peak_bytes, ig_report_memory(ctx).allocated_bytes);
    ig_tensor_release(x);
}

static void what_is_larger_than_all_memory_is_refused_before_it_is_touched(void **state) {
    ig_ctx *ctx = *state;
    const ig_memory_stats before = ig_report_memory(ctx);
    ig_tensor *x = NULL;
    if (before.available_bytes == UINT64_MAX) skip();
    const int64_t rows = (int64_t)(before.available_bytes >> 20) + 4096; /* of a mebibyte each */
    refused(ig_tensor_create(ctx, f32(IG_SHAPE(rows, 1 << 18)), &x), IG_ERR_MEMORY,
            "are available");
    assert_null(x);
    assert_int_equal(ig_report_memory(ctx).allocated_bytes, before.allocated_bytes);
}

/* ---- the report ---- */

static json_t *report_of(const ig_ctx *ctx) {
    json_error_t error;
    const size_t bytes = ig_report_json(ctx, NULL, 0);
    char *text = malloc(bytes + 1);
    assert_non_null(text);
    assert_int_equal(ig_report_json(ctx, text, bytes + 1), bytes);
    assert_int_equal(strlen(text), bytes);
    json_t *report = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!report) fail_msg("%s at %d of %s", error.text, error.position, text);
    free(text);
    return report;
}

static const json_t *at(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!value) fail_msg("there is no \"%s\"", key);
    return value;
}

static void the_report_is_json_with_the_keys_that_are_agreed(void **state) {
    static const char *const counters[] = {"steps",   "ops",       "views",    "submits",
                                           "records", "replays",   "programs", "program_hits",
                                           "tensors", "dispatches"};
    ig_ctx *ctx = *state;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    for (int i = 0; i < 3; i++) (void)ig_exp(x);
    json_t *r = report_of(ctx);
    assert_string_equal(json_string_value(at(r, "schema_version")), "1.0.0");
    assert_string_equal(json_string_value(at(r, "backend")), ig_ctx_device(ctx));
    assert_string_equal(json_string_value(at(r, "execution_mode")), "dynamic");
    assert_true(json_is_object(at(r, "config_resolved")));
    assert_string_equal(json_string_value(at(at(r, "config_resolved"), "device")),
                        ig_ctx_device(ctx));
    assert_true(json_integer_value(at(at(r, "config_resolved"), "threads")) >= 1);
    assert_true(json_is_null(at(r, "error")));
    assert_int_equal(json_integer_value(at(at(r, "cache_hits"), "op")), 2);
    assert_true(json_integer_value(at(at(r, "memory"), "allocated_bytes")) > 0);
    assert_true(json_integer_value(at(at(r, "memory"), "peak_bytes")) > 0);
    (void)at(at(r, "memory"), "available_bytes");
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++)
        assert_true(json_is_integer(at(at(r, "counters"), counters[i])));
    assert_int_equal(json_integer_value(at(at(r, "counters"), "ops")), 3);
    json_decref(r);
    ig_tensor_release(x);
}

static ig_status add_one(void *arg) {
    ig_tensor *const *x = arg;
    return ig_accumulate(*x, ig_full(ig_tensor_ctx(*x), f32(IG_SHAPE(2)), 1));
}

static void the_mode_is_what_ran_and_not_what_was_asked_for(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    ig_captured *captured = NULL;
    must(ig_mode_set(ctx, IG_MODE_AUTO));
    must(ig_ctx_step_end(ctx));
    json_t *before = report_of(ctx);
    assert_string_equal(json_string_value(at(before, "execution_mode")), "dynamic");
    must(ig_mode_set(ctx, IG_MODE_DYNAMIC));
    must(ig_capture(ctx, add_one, &x, &captured));
    for (int i = 0; i < 3; i++) must(ig_captured_replay(captured));
    json_t *r = report_of(ctx);
    assert_string_equal(json_string_value(at(r, "execution_mode")), "compiled");
    assert_int_equal(json_integer_value(at(at(r, "recordings"), "count")), 1);
    assert_int_equal(json_integer_value(at(at(r, "counters"), "replays")), 3);
    json_decref(r);
    json_decref(before);
    ig_captured_destroy(captured);
    ig_tensor_release(x);
}

/* A recording, its replays, and another recording with what changed. */
static void the_recorder_tells_what_it_did_and_why(void **state) {
    static const char *const what[] = {"record", "replay", "record", "replay"};
    ig_ctx *ctx = *state;
    must(ig_mode_set(ctx, IG_MODE_COMPILED));
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 4);
    for (int i = 0; i < 4; i++) {
        HOLDS(ig_neg(x), -1, -4);
        must(ig_ctx_step_end(ctx));
    }
    for (int i = 0; i < 2; i++) {
        HOLDS(ig_sqrt(x), 1, 2);
        must(ig_ctx_step_end(ctx));
    }
    json_t *r = report_of(ctx);
    const json_t *events = at(at(r, "recordings"), "events");
    assert_int_equal(json_array_size(events), 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(json_string_value(at(json_array_get(events, i), "event")), what[i]);
    assert_int_equal(json_integer_value(at(json_array_get(events, 1), "count")), 3);
    assert_string_equal(json_string_value(at(json_array_get(events, 0), "why")), "");
    const char *why = json_string_value(at(json_array_get(events, 2), "why"));
    if (!strstr(why, "event 0: sqrt")) fail_msg("%s", why);
    json_decref(r);
    ig_tensor_release(x);
}

static void the_timeline_has_three_attempts_for_every_module(void **state) {
    static const char *const levels[] = {"compile", "kernel_override", "eager"};
    static const char *const modules[] = {"tanh", "matmul"};
    ig_ctx *ctx = *state;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    (void)ig_matmul(x, ig_transpose(ig_tanh(x), 0, 1));
    json_t *r = report_of(ctx);
    const json_t *timeline = at(r, "backend_timeline");
    assert_int_equal(json_array_size(timeline), 2);
    for (size_t i = 0; i < json_array_size(timeline); i++) {
        const json_t *entry = json_array_get(timeline, i), *attempts = at(entry, "attempts");
        assert_string_equal(json_string_value(at(entry, "module")), modules[i]);
        assert_int_equal(json_array_size(attempts), 3);
        int selected = 0;
        for (size_t j = 0; j < 3; j++) {
            const json_t *attempt = json_array_get(attempts, j);
            assert_string_equal(json_string_value(at(attempt, "level")), levels[j]);
            assert_true(json_is_string(at(attempt, "reason")));
            assert_true(json_is_boolean(at(attempt, "ok")));
            selected += json_is_true(at(attempt, "selected"));
        }
        assert_int_equal(selected, 1);
        assert_string_equal(json_string_value(at(json_array_get(attempts, 1), "reason")),
                            "no override registered");
    }
    json_decref(r);
    ig_tensor_release(x);
}

static void the_timeline_is_in_the_order_of_first_use(void **state) {
    static const char *const order[] = {"exp",  "add", "tanh", "mul",     "neg",
                                        "sqrt", "sub", "relu", "sigmoid", "div"};
    enum { COUNT = sizeof order / sizeof order[0], SIZES = 20 };
    ig_ctx *ctx = *state;
    for (int64_t n = 1; n <= SIZES; n++) { /* more than the table begins with */
        ig_tensor *x = ig_copy(ig_full(ctx, (ig_desc){IG_F32, IG_SHAPE(n)}, 4));
        (void)ig_exp(x), (void)ig_add(x, x), (void)ig_tanh(x), (void)ig_mul(x, x);
        (void)ig_neg(x), (void)ig_sqrt(x), (void)ig_sub(x, x), (void)ig_relu(x);
        (void)ig_sigmoid(x), (void)ig_div(x, x), (void)ig_exp(x);
    }
    json_t *r = report_of(ctx);
    const json_t *timeline = at(r, "backend_timeline");
    assert_string_equal(json_string_value(at(json_array_get(timeline, 0), "module")), "fill");
    assert_int_equal(json_array_size(timeline), 1 + SIZES * (COUNT + 1));
    for (size_t i = 1; i < json_array_size(timeline); i++) {
        const char *module = json_string_value(at(json_array_get(timeline, i), "module"));
        const size_t place = (i - 1) % (COUNT + 1);
        assert_string_equal(module, place == 0 ? "copy" : order[place - 1]);
    }
    json_decref(r);
}

static void seeds_are_numbers_as_long_as_json_can_count(void **state) {
    (void)state;
    static const struct {
        uint64_t seed;
        const char *text; /* NULL: a number */
    } cases[] = {{0, NULL},
                 {INT64_MAX, NULL},
                 {(uint64_t)INT64_MAX + 1, "9223372036854775808"},
                 {UINT64_MAX, "18446744073709551615"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ig_ctx *ctx = NULL;
        must(ig_ctx_create(&(ig_ctx_options){.seed = cases[i].seed}, &ctx));
        json_t *r = report_of(ctx);
        const json_t *seed = at(at(r, "config_resolved"), "seed");
        if (cases[i].text)
            assert_string_equal(json_string_value(seed), cases[i].text);
        else
            assert_true((uint64_t)json_integer_value(seed) == cases[i].seed);
        json_decref(r);
        ig_ctx_destroy(ctx);
    }
}

static void a_report_that_does_not_fit_is_cut_off_and_counted(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    (void)ig_exp(x);
    const size_t bytes = ig_report_json(ctx, NULL, 0);
    char *out = malloc(bytes + 2), *whole = malloc(bytes + 1);
    assert_true(out && whole);
    (void)ig_report_json(ctx, whole, bytes + 1);
    for (size_t room = 1; room <= bytes + 1; room += 13) {
        memset(out, 'x', bytes + 2);
        assert_int_equal(ig_report_json(ctx, out, room), bytes);
        assert_int_equal(strlen(out), room - 1 < bytes ? room - 1 : bytes);
        assert_int_equal(out[room], 'x'); /* nothing was written behind the room */
        assert_memory_equal(out, "{\"schema_version", strlen(out) < 16 ? strlen(out) : 16);
    }
    free(whole);
    free(out);
    ig_tensor_release(x);
}

static ig_status infer_same(void *user, const ig_desc *in, uint32_t n_in, ig_desc *out) {
    (void)user, (void)n_in;
    *out = *in;
    return IG_OK;
}

static ig_status run_nothing(void *user, const ig_custom_operand *in, uint32_t n_in,
                             const ig_custom_operand *out) {
    (void)user, (void)in, (void)n_in, (void)out;
    return IG_OK;
}

static void names_from_outside_are_written_as_json(void **state) {
    (void)state;
    static const char name[] = "my \"op\"\\ \n\t\x01 é";
    ig_ctx *ctx = NULL;
    uint32_t id = 0;
    must(ig_ctx_create(&(ig_ctx_options){.seed = INT64_MAX}, &ctx));
    must(ig_custom_register(
        ctx, &(ig_custom_op){.name = name, .n_out = 1, .infer = infer_same, .run = run_nothing},
        &id));
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 2), *y = NULL;
    ig_custom(ctx, id, &x, 1, &y);
    must(ig_eval(&y, 1));
    json_t *r = report_of(ctx);
    const json_t *entry = json_array_get(at(r, "backend_timeline"), 0);
    assert_string_equal(json_string_value(at(entry, "module")), name);
    json_decref(r);
    ig_tensor_release(x);
    ig_ctx_destroy(ctx);
}

static void the_version_is_three_numbers(void **state) {
    (void)state;
    int major = -1, minor = -1, patch = -1;
    assert_int_equal(sscanf(ig_version(), "%d.%d.%d", &major, &minor, &patch), 3);
    assert_true(major >= 0 && minor >= 0 && patch >= 0);
}

/* ---- fallbacks ---- */

/* A context on the cpu; skips the test where that is not built. */
static ig_ctx *cpu_ctx(bool strict) {
    ig_ctx *ctx = NULL;
    if (ig_ctx_create(&(ig_ctx_options){.device = "cpu", .strict = strict}, &ctx) != IG_OK) skip();
    return ctx;
}

static void what_the_cpu_cannot_do_is_done_by_ref_and_listed(void **state) {
    (void)state;
    ig_ctx *ctx = cpu_ctx(false);
    ig_tensor *x = ig_full(ctx, (ig_desc){IG_F64, IG_SHAPE(3)}, 2);
    assert_true(item(sum_all(ig_mul(x, x))) == 12);
    json_t *r = report_of(ctx);
    const json_t *fallbacks = at(r, "fallbacks");
    bool found = false;
    for (size_t i = 0; i < json_array_size(fallbacks); i++) {
        const json_t *f = json_array_get(fallbacks, i);
        assert_string_equal(json_string_value(at(f, "from")), "cpu:0");
        assert_string_equal(json_string_value(at(f, "to")), "ref:0");
        if (strcmp(json_string_value(at(f, "op")), "mul") != 0) continue;
        found = true;
        assert_non_null(strstr(json_string_value(at(f, "reason")), "no kernel for mul of f64"));
    }
    assert_true(found);
    json_decref(r);
    ig_ctx_destroy(ctx);
}

static void strict_refuses_what_the_cpu_cannot_do(void **state) {
    (void)state;
    ig_ctx *ctx = cpu_ctx(true);
    ig_tensor *x = NULL;
    must(ig_tensor_create(ctx, (ig_desc){IG_F64, IG_SHAPE(3)}, &x));
    ig_tensor *y = ig_mul(x, x);
    refused(ig_eval(&y, 1), IG_ERR_UNSUPPORTED, "strict: cpu:0 has no kernel for mul of f64 [3]");
    ig_tensor *z = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    HOLDS(ig_mul(z, z), 1, 4); /* and continues with the other ops */
    ig_tensor_release(z);
    ig_tensor_release(x);
    ig_ctx_destroy(ctx);
}

static void f32_runs_where_it_was_asked_to(void **state) {
    (void)state;
    ig_ctx *ctx = cpu_ctx(false);
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2, 2), 1, 2, 3, 4);
    HOLDS(ig_matmul(x, x), 7, 10, 15, 22);
    json_t *r = report_of(ctx);
    assert_int_equal(json_array_size(at(r, "fallbacks")), 0);
    json_decref(r);
    ig_tensor_release(x);
    ig_ctx_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST_WITH_CTX(every_op_is_one_submit_and_views_are_none),
        TEST_WITH_CTX(equal_ops_share_a_program),
        TEST_WITH_CTX(thousands_of_different_ops_do_not_pile_up),
        TEST_WITH_CTX(tensors_alive_are_counted),
        TEST_WITH_CTX(the_peak_stays_the_same_over_a_thousand_steps),
        TEST_WITH_CTX(the_peak_starts_again_after_a_reset),
        TEST_WITH_CTX(what_is_larger_than_all_memory_is_refused_before_it_is_touched),
        TEST_WITH_CTX(the_report_is_json_with_the_keys_that_are_agreed),
        TEST_WITH_CTX(the_mode_is_what_ran_and_not_what_was_asked_for),
        TEST_WITH_CTX(the_recorder_tells_what_it_did_and_why),
        TEST_WITH_CTX(the_timeline_has_three_attempts_for_every_module),
        TEST_WITH_CTX(the_timeline_is_in_the_order_of_first_use),
        cmocka_unit_test(seeds_are_numbers_as_long_as_json_can_count),
        TEST_WITH_CTX(a_report_that_does_not_fit_is_cut_off_and_counted),
        cmocka_unit_test(names_from_outside_are_written_as_json),
        cmocka_unit_test(the_version_is_three_numbers),
        cmocka_unit_test(what_the_cpu_cannot_do_is_done_by_ref_and_listed),
        cmocka_unit_test(strict_refuses_what_the_cpu_cannot_do),
        cmocka_unit_test(f32_runs_where_it_was_asked_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
