/*
 * Ops that fail: what they return, who reports it, and that the context goes on.
 *
 * Every op of ops.h is in the table below, called on tensors of one's choice, so that all of them
 * meet NULL, tensors that have gone, tensors of other contexts and tensors of failed ops.
 */
#include "unit/check.h"

static ig_desc f32(ig_shape shape) { return (ig_desc){IG_F32, shape}; }

static void assert_usable(ig_ctx *ctx) {
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    HOLDS(ig_add(x, x), 2, 4);
    ig_tensor_release(x);
}

/* ---- every op ---- */

typedef ig_tensor *call(ig_tensor *x);

static const int first_axis[] = {0}, both_axes[] = {1, 0, 2};
static const ig_shape six = {1, {6}};

static ig_tensor *call_add(ig_tensor *x) { return ig_add(x, x); }
static ig_tensor *call_sub(ig_tensor *x) { return ig_sub(x, x); }
static ig_tensor *call_mul(ig_tensor *x) { return ig_mul(x, x); }
static ig_tensor *call_div(ig_tensor *x) { return ig_div(x, x); }
static ig_tensor *call_equal(ig_tensor *x) { return ig_equal(x, x); }
static ig_tensor *call_scale(ig_tensor *x) { return ig_scale(x, 2, 1); }
static ig_tensor *call_gelu(ig_tensor *x) { return ig_gelu(x, IG_GELU_TANH); }
static ig_tensor *call_cast(ig_tensor *x) { return ig_cast(x, IG_F64); }
static ig_tensor *call_dropout(ig_tensor *x) { return ig_dropout(x, 0.5); }
static ig_tensor *call_no_dropout(ig_tensor *x) { return ig_dropout(x, 0); }
static ig_tensor *call_reshape(ig_tensor *x) { return ig_reshape(x, six); }
static ig_tensor *call_transpose(ig_tensor *x) { return ig_transpose(x, 0, -1); }
static ig_tensor *call_permute(ig_tensor *x) { return ig_permute(x, both_axes, 2); }
static ig_tensor *call_slice(ig_tensor *x) { return ig_slice(x, 1, 0, 1); }
static ig_tensor *call_broadcast(ig_tensor *x) { return ig_broadcast(x, IG_SHAPE(4, 2, 3)); }
static ig_tensor *call_pad(ig_tensor *x) { return ig_pad(x, -1, 1, 0); }
static ig_tensor *call_concat(ig_tensor *x) { return ig_concat((ig_tensor *[]){x, x}, 2, -1); }
static ig_tensor *call_gather(ig_tensor *x) { return ig_gather(x, ig_argmax(x, 0), 0); }
static ig_tensor *call_scatter(ig_tensor *x) { return ig_scatter_add(x, ig_cast(x, IG_I32), x, 0); }
static ig_tensor *call_embedding(ig_tensor *x) { return ig_embedding(x, ig_argmax(x, 1)); }
static ig_tensor *call_sum(ig_tensor *x) { return ig_sum(x, first_axis, 1, IG_KEEP_DIM); }
static ig_tensor *call_mean(ig_tensor *x) { return ig_mean(x, both_axes, 2, IG_DROP_DIM); }
static ig_tensor *call_max(ig_tensor *x) { return ig_max(x, NULL, 0, IG_DROP_DIM); }
static ig_tensor *call_argmax(ig_tensor *x) { return ig_argmax(x, -1); }
static ig_tensor *call_softmax(ig_tensor *x) { return ig_softmax(x, 0); }
static ig_tensor *call_log_softmax(ig_tensor *x) { return ig_log_softmax(x, -1); }
static ig_tensor *call_loss(ig_tensor *x) { return ig_cross_entropy(x, ig_argmax(x, 1)); }
static ig_tensor *call_mse(ig_tensor *x) { return ig_mse(x, x); }
static ig_tensor *call_rms_norm(ig_tensor *x) { return ig_rms_norm(x, NULL, 1e-5f); }
static ig_tensor *call_layer_norm(ig_tensor *x) { return ig_layer_norm(x, NULL, NULL, 1e-5f); }
static ig_tensor *call_matmul(ig_tensor *x) { return ig_matmul(x, ig_transpose(x, 0, 1)); }
static ig_tensor *call_rope(ig_tensor *x) { return ig_rope(x, x, (ig_rope_options){0}); }
static ig_tensor *call_attention(ig_tensor *x) {
    return ig_attention(x, x, x, (ig_attention_options){0});
}
static ig_tensor *call_norm(ig_tensor *x) { return ig_global_norm((ig_tensor *[]){x, x}, 2); }

/* `fits`: it computes something of a [2,3] in f32 */
static const struct {
    const char *name;
    call *call;
    bool fits;
} calls[] = {
    {"add", call_add, true},
    {"sub", call_sub, true},
    {"mul", call_mul, true},
    {"div", call_div, true},
    {"equal", call_equal, true},
    {"scale", call_scale, true},
    {"neg", ig_neg, true},
    {"exp", ig_exp, true},
    {"log", ig_log, true},
    {"sqrt", ig_sqrt, true},
    {"tanh", ig_tanh, true},
    {"sigmoid", ig_sigmoid, true},
    {"relu", ig_relu, true},
    {"gelu", call_gelu, true},
    {"silu", ig_silu, true},
    {"softplus", ig_softplus, true},
    {"positive", ig_positive, true},
    {"cast", call_cast, true},
    {"copy", ig_copy, true},
    {"dropout", call_dropout, true},
    {"dropout of nothing", call_no_dropout, true},
    {"reshape", call_reshape, true},
    {"transpose", call_transpose, true},
    {"permute", call_permute, true},
    {"slice", call_slice, true},
    {"broadcast", call_broadcast, true},
    {"pad", call_pad, true},
    {"concat", call_concat, true},
    {"gather", call_gather, false},
    {"scatter_add", call_scatter, true},
    {"embedding", call_embedding, true},
    {"sum", call_sum, true},
    {"mean", call_mean, true},
    {"max", call_max, true},
    {"argmax", call_argmax, true},
    {"softmax", call_softmax, true},
    {"log_softmax", call_log_softmax, true},
    {"cross_entropy", call_loss, true},
    {"mse", call_mse, true},
    {"rms_norm", call_rms_norm, true},
    {"layer_norm", call_layer_norm, true},
    {"matmul", call_matmul, true},
    {"rope", call_rope, false},
    {"attention", call_attention, false},
    {"global_norm", call_norm, true},
};
enum { CALLS = sizeof calls / sizeof calls[0] };

static void fails(int i, ig_tensor *y, ig_status want, const char *words) {
    if (!y) fail_msg("%s: NULL", calls[i].name);
    const ig_status got = ig_eval(&y, 1);
    if (got != want || !strstr(ig_error_text(), words))
        fail_msg("%s: \"%s\" (%s), not \"%s\" (%s)", calls[i].name, ig_status_text(got),
                 ig_error_text(), ig_status_text(want), words);
}

static void every_op_computes_or_names_the_shape(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2, 3), 0, 0, 1, 1, 0, 1);
    for (int i = 0; i < CALLS; i++) {
        ig_tensor *y = calls[i].call(x);
        if (calls[i].fits && ig_eval(&y, 1) != IG_OK)
            fail_msg("%s: %s", calls[i].name, ig_error_text());
        if (!calls[i].fits) fails(i, y, IG_ERR_SHAPE, calls[i].name);
    }
    ig_tensor_release(x);
}

static void every_op_takes_empty_and_single_dimensions(void **state) {
    static const ig_shape shapes[] = {{2, {0, 3}}, {2, {3, 0}}, {2, {0, 0}},   {2, {1, 1}},
                                      {2, {1, 3}}, {2, {3, 1}}, {3, {2, 0, 1}}};
    ig_ctx *ctx = *state;
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        ig_tensor *x = ig_full(ctx, f32(shapes[s]), 1);
        for (int i = 0; i < CALLS; i++) {
            ig_tensor *y = calls[i].call(x);
            const ig_status status = ig_eval(&y, 1); /* words, or a result */
            if (status != IG_OK && status != IG_ERR_SHAPE)
                fail_msg("%s: %s", calls[i].name, ig_error_text());
        }
    }
    assert_usable(ctx);
}

static void every_op_on_null_says_so(void **state) {
    for (int i = 0; i < CALLS; i++)
        fails(i, calls[i].call(NULL), IG_ERR_ARGUMENT, "a tensor is NULL");
    assert_usable(*state);
}

static void every_op_on_a_tensor_that_has_gone_says_so(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    ig_scope_begin(ctx);
    ig_tensor *gone = ig_neg(x);
    ig_scope_end(ctx);
    for (int i = 0; i < CALLS; i++) {
        ig_scope_begin(ctx); /* or the handle would be reused in time */
        fails(i, calls[i].call(gone), IG_ERR_STATE,
              "the tensor was released with its scope or step");
        ig_scope_end(ctx);
    }
    assert_usable(ctx);
    ig_tensor_release(x);
}

static void every_op_on_a_failed_result_hands_it_on(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    for (int i = 0; i < CALLS; i++) {
        ig_tensor *bad = ig_reshape(x, IG_SHAPE(7));
        fails(i, calls[i].call(bad), IG_ERR_SHAPE, "reshape: [2,3] cannot become [7]");
        fails(i, calls[i].call(bad), IG_ERR_STATE, "comes from an op that failed"); /* known now */
    }
    assert_usable(ctx);
    ig_tensor_release(x);
}

static void two_contexts_do_not_mix(void **state) {
    ig_ctx *ctx = *state, *other = NULL;
    must(ig_ctx_create(NULL, &other));
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 2), *y = FLOATS(other, IG_SHAPE(2), 3, 4);
    ig_tensor *sum = ig_add(x, y);
    refused(ig_eval(&sum, 1), IG_ERR_ARGUMENT, "add: a tensor belongs to another context");
    refused(ig_assign(x, y), IG_ERR_ARGUMENT, "assign: a tensor belongs to another context");
    HOLDS(ig_neg(y), -3, -4);
    ig_tensor_release(y);
    ig_ctx_destroy(other);
    assert_usable(ctx);
    ig_tensor_release(x);
}

/* ---- who reports ---- */

static void the_first_failure_is_reported_once(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *a = FLOATS(ctx, IG_SHAPE(2), 1, 2), *b = FLOATS(ctx, IG_SHAPE(3), 1, 2, 3);
    ig_tensor *bad = ig_add(a, b), *worse = ig_matmul(a, b);
    ig_tensor *y = ig_exp(ig_mul(bad, worse));
    float out[2];
    refused(ig_tensor_read(y, out, sizeof out), IG_ERR_SHAPE, "add: [2] x [3]");
    refused(ig_tensor_read(y, out, sizeof out), IG_ERR_STATE, "comes from an op that failed");
    must(ig_ctx_step_end(ctx));
    assert_usable(ctx);
    ig_tensor_release(a);
    ig_tensor_release(b);
}

/* Reports a failure that was made before. */
static ig_status by_read(ig_ctx *ctx, ig_tensor *bad) {
    (void)ctx;
    float out;
    return ig_tensor_read(bad, &out, sizeof out);
}
static ig_status by_item(ig_ctx *ctx, ig_tensor *bad) {
    (void)ctx;
    double out;
    return ig_tensor_item(bad, &out);
}
static ig_status by_eval(ig_ctx *ctx, ig_tensor *bad) {
    (void)ctx;
    return ig_eval(&bad, 1);
}
static ig_status by_backward(ig_ctx *ctx, ig_tensor *bad) {
    (void)ctx;
    return ig_backward(bad);
}
static ig_status by_step(ig_ctx *ctx, ig_tensor *bad) {
    (void)bad;
    return ig_ctx_step_end(ctx);
}
static ig_status by_update(ig_ctx *ctx, ig_tensor *bad) {
    ig_tensor *w = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    const ig_status status = ig_assign(w, bad);
    HOLDS(w, 1, 2);
    ig_tensor_release(w);
    return status;
}

static void each_call_that_evaluates_reports_a_failure(void **state) {
    static ig_status (*const reporters[])(ig_ctx *, ig_tensor *) = {
        by_read, by_item, by_eval, by_backward, by_step, by_update};
    ig_ctx *ctx = *state;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    for (size_t i = 0; i < sizeof reporters / sizeof reporters[0]; i++) {
        refused(reporters[i](ctx, ig_slice(x, 0, 1, 5)), IG_ERR_SHAPE,
                "slice: [1, 5) of axis 0 of [2]");
        assert_usable(ctx);
    }
    ig_tensor_release(x);
}

static void a_failed_result_looks_like_a_scalar(void **state) {
    ig_tensor *x = FLOATS(*state, IG_SHAPE(2), 1, 2), *bad = ig_slice(x, 3, 0, 1);
    const ig_desc desc = ig_tensor_desc(bad);
    assert_int_equal(desc.dtype, IG_F32);
    assert_int_equal(desc.shape.rank, 0);
    assert_ptr_equal(ig_tensor_ctx(bad), *state);
    assert_ptr_equal(ig_tensor_retain(bad), bad);
    ig_tensor_release(bad);
    ig_tensor_release(bad); /* any number of times */
    assert_null(ig_tensor_grad(bad));
    refused(ig_tensor_require_grad(bad), IG_ERR_STATE, "failed");
    refused(ig_tensor_set_name(bad, "x"), IG_ERR_SHAPE, "slice: axis 3 of [2]");
    ig_tensor_release(x);
}

static void a_failure_leaves_the_step_s_gradients_intact(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *w = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    must(ig_tensor_require_grad(w));
    ig_tensor *loss = sum_all(ig_mul(w, w));
    ig_tensor *bad = ig_add(loss, ig_slice(w, 0, 0, 9));
    refused(ig_backward(bad), IG_ERR_SHAPE, "slice");
    must(ig_backward(loss));
    HOLDS(ig_tensor_grad(w), 2, 4);
    ig_tensor_release(w);
}

/* ---- arguments ---- */

static void axes_count_from_the_end_too(void **state) {
    ig_tensor *x = FLOATS(*state, IG_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    HOLDS(ig_sum(x, (int[]){-2}, 1, IG_DROP_DIM), 5, 7, 9);
    HOLDS(ig_slice(x, -1, 0, 1), 1, 4);
    HOLDS(ig_transpose(x, -1, -2), 1, 4, 2, 5, 3, 6);
    HOLDS(ig_concat((ig_tensor *[]){x, x}, 2, -2), 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6);
    ig_tensor_release(x);
}

static void axes_that_are_not_there_are_named(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2, 3), 1, 2, 3, 4, 5, 6), *y;
    ig_tensor *one = FLOATS(ctx, (ig_shape){0}, 1);
    refused(by_eval(ctx, ig_sum(x, (int[]){2}, 1, IG_DROP_DIM)), IG_ERR_SHAPE,
            "sum: axis 2 of [2,3]");
    refused(by_eval(ctx, ig_sum(x, (int[]){-3}, 1, IG_DROP_DIM)), IG_ERR_SHAPE, "sum: axis -3 of");
    refused(by_eval(ctx, ig_transpose(x, 0, 7)), IG_ERR_SHAPE, "transpose: axis 7 of [2,3]");
    refused(by_eval(ctx, ig_transpose(x, -4, 0)), IG_ERR_SHAPE, "transpose: axis -4 of [2,3]");
    refused(by_eval(ctx, ig_transpose(one, 0, 1)), IG_ERR_SHAPE, "transpose: axis 0 of []");
    refused(by_eval(ctx, ig_softmax(x, 2)), IG_ERR_SHAPE, "axis 2 of [2,3]");
    refused(by_eval(ctx, ig_softmax(one, 0)), IG_ERR_SHAPE, "of []");
    refused(by_eval(ctx, ig_argmax(x, 5)), IG_ERR_SHAPE, "argmax: axis 5 of [2,3]");
    y = ig_transpose(x, 1, 1);
    HOLDS(y, 1, 2, 3, 4, 5, 6);
    ig_tensor_release(one);
    ig_tensor_release(x);
}

static void a_permute_names_as_many_axes_as_there_are(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    static const int turned[] = {-1, 0}, one[] = {0};
    HOLDS(ig_permute(x, turned, 2), 1, 4, 2, 5, 3, 6);
    ig_tensor *y = ig_permute(x, one, 1);
    refused(ig_eval(&y, 1), IG_ERR_SHAPE, "permute: 1 axes of [2,3]");
    y = ig_permute(x, NULL, 2);
    refused(ig_eval(&y, 1), IG_ERR_SHAPE, "permute: 0 axes of [2,3]");
    y = ig_permute(x, turned, -1);
    refused(ig_eval(&y, 1), IG_ERR_SHAPE, "permute: -1 axes of [2,3]");
    ig_tensor_release(x);
}

static void calls_without_a_context_are_harmless(void **state) {
    char text[8] = "x";
    ig_no_grad_begin(NULL);
    ig_no_grad_end(NULL);
    ig_scope_begin(NULL);
    ig_scope_end(NULL);
    ig_ctx_set_step_count(NULL, 3);
    assert_int_equal(ig_ctx_step_count(NULL), 0);
    assert_int_equal(ig_mode_get(NULL), IG_MODE_DYNAMIC);
    assert_int_equal(ig_report_counters(NULL).ops, 0);
    assert_int_equal(ig_report_memory(NULL).allocated_bytes, 0);
    ig_report_reset_memory(NULL);
    assert_true(ig_report_json(NULL, text, sizeof text) > 0);
    assert_memory_equal(text, "{\"schem", 7); /* all fields, empty */
    assert_int_equal(ig_report_plan_json(NULL, 0, text, sizeof text), 0);

    ig_tensor *nowhere = ig_add(NULL, NULL); /* what cannot be written to is not */
    ig_tensor_zero_grad(nowhere);
    ig_tensor_release(ig_tensor_retain(nowhere));
    refused(ig_tensor_require_grad(nowhere), IG_ERR_ARGUMENT, "NULL");
    refused(ig_tensor_set_name(nowhere, "x"), IG_ERR_ARGUMENT, "NULL");
    assert_usable(*state);
}

static void a_reshape_finds_the_extent_that_is_left_open(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2, 3), 1, 2, 3, 4, 5, 6), *none = NULL;
    must(ig_tensor_create(ctx, f32(IG_SHAPE(0, 3)), &none));
    assert_true(
        ig_shape_equal(ig_tensor_desc(ig_reshape(x, IG_SHAPE(3, -1))).shape, IG_SHAPE(3, 2)));
    assert_true(
        ig_shape_equal(ig_tensor_desc(ig_reshape(none, IG_SHAPE(5, -1))).shape, IG_SHAPE(5, 0)));
    refused(by_eval(ctx, ig_reshape(x, IG_SHAPE(4, -1))), IG_ERR_SHAPE, "cannot become [4,-1]");
    refused(by_eval(ctx, ig_reshape(x, IG_SHAPE(-1, -1))), IG_ERR_SHAPE, "cannot become");
    refused(by_eval(ctx, ig_reshape(none, IG_SHAPE(0, -1))), IG_ERR_SHAPE, "cannot become [0,-1]");
    refused(by_eval(ctx, ig_reshape(x, (ig_shape){.rank = 99})), IG_ERR_SHAPE, "rank 99");
    ig_tensor_release(none);
    ig_tensor_release(x);
}

static void numbers_that_make_no_sense_are_refused(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    ig_tensor *y = ig_concat(&x, 0, 0);
    assert_non_null(y);
    refused(by_eval(ctx, ig_dropout(x, 1.5)), IG_ERR_ARGUMENT, "dropout: p is 1.5");
    refused(by_eval(ctx, ig_dropout(x, -0.1)), IG_ERR_ARGUMENT, "dropout: p is -0.1");
    refused(by_eval(ctx, ig_gelu(x, (ig_gelu_form)9)), IG_ERR_ARGUMENT, "gelu: form 9");
    refused(by_eval(ctx, ig_cast(x, (ig_dtype)99)), IG_ERR_ARGUMENT, "cast: dtype 99");
    refused(by_eval(ctx, ig_full(ctx, (ig_desc){(ig_dtype)99, {0}}, 0)), IG_ERR_ARGUMENT, "99");
    refused(by_eval(ctx, ig_full(ctx, f32((ig_shape){.rank = 50}), 0)), IG_ERR_SHAPE, "rank 50");
    refused(by_eval(ctx, ig_full(ctx, f32(IG_SHAPE(-2)), 0)), IG_ERR_SHAPE, "[-2]");
    refused(by_eval(ctx, ig_rope(x, x, (ig_rope_options){.rotary_dims = -2})), IG_ERR_ARGUMENT,
            "-2 dims");
    refused(by_eval(ctx, ig_pad(x, 0, -1, 0)), IG_ERR_ARGUMENT, "pad: by -1 and 0");
    refused(by_eval(ctx, ig_pad(x, 0, INT64_MAX, INT64_MAX)), IG_ERR_SHAPE, "pad");
    assert_usable(ctx);
    ig_tensor_release(x);
}

static void slots_of_updates_must_exist(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *w = FLOATS(ctx, IG_SHAPE(2), 1, 2), *g = FLOATS(ctx, IG_SHAPE(2), 1, 1);
    uint32_t rate = 0;
    refused(ig_sgd(w, g, NULL, (ig_attrs_sgd){.lr_slot = 7}), IG_ERR_ARGUMENT, "sgd: slot 7");
    refused(ig_sgd(w, g, NULL, (ig_attrs_sgd){.lr_slot = 0}), IG_ERR_ARGUMENT, "slot 0");
    must(ig_slot_create(ctx, &rate));
    refused(ig_adamw(w, g, w, w, (ig_attrs_adamw){.lr_slot = rate, .step_slot = rate + 1}),
            IG_ERR_ARGUMENT, "adamw: slot");
    ig_slot_set_real(ctx, rate, 0.5);
    ig_slot_set_real(ctx, 99, 1); /* there is none: nothing happens */
    ig_slot_set_count(ctx, 99, 1);
    must(ig_sgd(w, g, NULL, (ig_attrs_sgd){.lr_slot = rate}));
    HOLDS(w, 0.5f, 1.5f);
    refused(ig_sgd(NULL, g, NULL, (ig_attrs_sgd){.lr_slot = rate}), IG_ERR_ARGUMENT, "NULL");
    refused(ig_sgd(w, NULL, NULL, (ig_attrs_sgd){.lr_slot = rate}), IG_ERR_ARGUMENT, "NULL");
    refused(ig_slot_create(NULL, &rate), IG_ERR_ARGUMENT, "NULL");
    ig_tensor_release(w);
    ig_tensor_release(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST_WITH_CTX(every_op_computes_or_names_the_shape),
        TEST_WITH_CTX(every_op_takes_empty_and_single_dimensions),
        TEST_WITH_CTX(every_op_on_null_says_so),
        TEST_WITH_CTX(every_op_on_a_tensor_that_has_gone_says_so),
        TEST_WITH_CTX(every_op_on_a_failed_result_hands_it_on),
        TEST_WITH_CTX(two_contexts_do_not_mix),
        TEST_WITH_CTX(the_first_failure_is_reported_once),
        TEST_WITH_CTX(each_call_that_evaluates_reports_a_failure),
        TEST_WITH_CTX(a_failed_result_looks_like_a_scalar),
        TEST_WITH_CTX(a_failure_leaves_the_step_s_gradients_intact),
        TEST_WITH_CTX(axes_count_from_the_end_too),
        TEST_WITH_CTX(axes_that_are_not_there_are_named),
        TEST_WITH_CTX(a_permute_names_as_many_axes_as_there_are),
        TEST_WITH_CTX(calls_without_a_context_are_harmless),
        TEST_WITH_CTX(a_reshape_finds_the_extent_that_is_left_open),
        TEST_WITH_CTX(numbers_that_make_no_sense_are_refused),
        TEST_WITH_CTX(slots_of_updates_must_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
