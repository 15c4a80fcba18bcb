/* Ops of a program's own: shapes, results, gradients, and all the ways in which callbacks fail. */
#include "unit/check.h"

static const ig_shape scalar = {0};

/* What the callbacks of a test look at. */
typedef struct probe {
    int infers, runs, grads;
    ig_status infer_status, run_status, grad_status;
    ig_shape out_shape;  /* instead of the input's, if its rank is not 0 */
    ig_tensor *constant; /* what the gradient multiplies with */
    ig_tensor *kept;     /* what the gradient retains */
    bool dout_missing[2];
} probe;

static ig_status infer_alike(void *user, const ig_desc *in, uint32_t n_in, ig_desc *out) {
    probe *p = user;
    p->infers++;
    if (p->infer_status != IG_OK)
        return IG_FAIL(p->infer_status, "cube: %u inputs do not please", n_in);
    *out = in[0];
    if (p->out_shape.rank) out->shape = p->out_shape;
    return IG_OK;
}

static ig_status run_cube(void *user, const ig_custom_operand *in, uint32_t n_in,
                          const ig_custom_operand *out) {
    probe *p = user;
    (void)n_in;
    p->runs++;
    if (p->run_status != IG_OK) return IG_FAIL(p->run_status, "cube: the machine burns");
    const float *x = in[0].bytes;
    float *y = out[0].bytes;
    for (int64_t i = 0; i < ig_shape_count(in[0].desc.shape); i++) y[i] = x[i] * x[i] * x[i];
    return IG_OK;
}

/* dx = 3 x^2 dy, times the constant if there is one */
static ig_status grad_cube(void *user, ig_tensor *const *in, uint32_t n_in, ig_tensor *const *out,
                           ig_tensor *const *dout, ig_tensor **din) {
    probe *p = user;
    (void)n_in, (void)out;
    p->grads++;
    if (p->grad_status != IG_OK) return IG_FAIL(p->grad_status, "cube: no way back");
    ig_tensor *slope = ig_scale(ig_mul(in[0], in[0]), 3, 0);
    if (p->constant) slope = ig_mul(slope, p->constant);
    if (!p->kept) p->kept = ig_tensor_retain(slope);
    din[0] = ig_mul(slope, dout[0]);
    return IG_OK;
}

static ig_custom_op cube_op(probe *p) {
    return (ig_custom_op){.name = "cube",
                          .n_out = 1,
                          .infer = infer_alike,
                          .run = run_cube,
                          .grad = grad_cube,
                          .user = p};
}

static uint32_t registered(ig_ctx *ctx, ig_custom_op op) {
    uint32_t id = 0;
    must(ig_custom_register(ctx, &op, &id));
    return id;
}

static ig_tensor *call(ig_ctx *ctx, uint32_t id, ig_tensor *x) {
    ig_tensor *y = NULL;
    ig_custom(ctx, id, &x, 1, &y);
    assert_non_null(y);
    return y;
}

static ig_status eval(ig_tensor *t) { return ig_eval(&t, 1); }

static ig_status infer_first(void *user, const ig_desc *in, uint32_t n_in, ig_desc *out) {
    (void)user, (void)n_in;
    *out = in[0];
    return IG_OK;
}

/* ---- forward ---- */

static void a_custom_op_computes_what_its_function_says(void **state) {
    ig_ctx *ctx = *state;
    probe p = {0};
    const uint32_t id = registered(ctx, cube_op(&p));
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2, 2), 1, 2, 3, 4);
    HOLDS(call(ctx, id, x), 1, 8, 27, 64);
    HOLDS(ig_neg(call(ctx, id, ig_neg(x))), 1, 8, 27, 64);
    assert_int_equal(p.runs, 2);
    ig_tensor_release(x);
}

static void its_inputs_arrive_packed(void **state) {
    ig_ctx *ctx = *state;
    probe p = {0};
    const uint32_t id = registered(ctx, cube_op(&p));
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    HOLDS(call(ctx, id, ig_transpose(x, 0, 1)), 1, 64, 8, 125, 27, 216);
    HOLDS(call(ctx, id, ig_slice(x, 1, 1, 3)), 8, 27, 125, 216);
    HOLDS(call(ctx, id, ig_slice(x, 0, 1, 2)), 64, 125, 216); /* packed, though not at the start */
    HOLDS(call(ctx, id, ig_full(ctx, (ig_desc){IG_F32, IG_SHAPE(3)}, 2)), 8, 8, 8);
    ig_tensor *none = ig_slice(x, 0, 1, 1);
    must(eval(call(ctx, id, ig_transpose(none, 0, 1))));
    ig_tensor_release(x);
}

static void a_long_name_is_reported_complete(void **state) {
    static const char name[] =
        "a name that a program has generated, with more letters than any op of ours has: cube";
    static char plan[1 << 14];
    ig_ctx *ctx = *state;
    probe p = {0};
    ig_custom_op op = cube_op(&p);
    op.name = name;
    const uint32_t id = registered(ctx, op);
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    must(ig_mode_set(ctx, IG_MODE_COMPILED));
    for (int step = 0; step < 2; step++) {
        HOLDS(call(ctx, id, x), 1, 8);
        must(ig_ctx_step_end(ctx));
    }
    assert_true(ig_report_plan_json(ctx, 0, plan, sizeof plan) < sizeof plan);
    assert_non_null(strstr(plan, name));
    ig_tensor_release(x);
}

static void it_goes_on_working_when_others_are_registered(void **state) {
    ig_ctx *ctx = *state;
    probe p = {0};
    const uint32_t id = registered(ctx, cube_op(&p));
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    HOLDS(call(ctx, id, x), 1, 8);
    for (int i = 0; i < 100; i++) (void)registered(ctx, cube_op(&p));
    HOLDS(call(ctx, id, x), 1, 8); /* by the plan that was made before */
    assert_int_equal(p.runs, 2);
    ig_tensor_release(x);
}

static void the_caller_s_struct_and_name_may_go(void **state) {
    ig_ctx *ctx = *state;
    probe p = {.run_status = IG_ERR_DEVICE};
    char name[] = "mine";
    ig_custom_op op = cube_op(&p);
    op.name = name;
    const uint32_t id = registered(ctx, op);
    memset(name, 'x', sizeof name - 1);
    memset(&op, 0xff, sizeof op);
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    refused(eval(call(ctx, id, x)), IG_ERR_DEVICE, "the machine burns");
    char json[8192];
    p.run_status = IG_OK;
    must(eval(call(ctx, id, x)));
    assert_true(ig_report_json(ctx, json, sizeof json) < sizeof json);
    assert_non_null(strstr(json, "\"module\":\"mine\""));
    ig_tensor_release(x);
}

/* x -> x + 1 and the sum of x, a scalar */
static ig_status infer_two(void *user, const ig_desc *in, uint32_t n_in, ig_desc *out) {
    (void)user, (void)n_in;
    out[0] = in[0];
    out[1] = (ig_desc){in[0].dtype, {0}};
    return IG_OK;
}

static ig_status run_two(void *user, const ig_custom_operand *in, uint32_t n_in,
                         const ig_custom_operand *out) {
    (void)user, (void)n_in;
    const float *x = in[0].bytes;
    float sum = 0;
    for (int64_t i = 0; i < ig_shape_count(in[0].desc.shape); i++) {
        ((float *)out[0].bytes)[i] = x[i] + 1;
        sum += x[i];
    }
    *(float *)out[1].bytes = sum;
    return IG_OK;
}

static ig_status grad_two(void *user, ig_tensor *const *in, uint32_t n_in, ig_tensor *const *out,
                          ig_tensor *const *dout, ig_tensor **din) {
    probe *p = user;
    (void)n_in, (void)out;
    for (int i = 0; i < 2; i++) p->dout_missing[i] = dout[i] == NULL;
    ig_tensor *whole = dout[1] ? ig_broadcast(dout[1], ig_tensor_desc(in[0]).shape) : NULL;
    din[0] = dout[0] && whole ? ig_add(dout[0], whole) : dout[0] ? dout[0] : whole;
    return IG_OK;
}

static void an_op_of_two_results_has_the_gradients_of_those_in_use(void **state) {
    ig_ctx *ctx = *state;
    probe p = {0};
    const uint32_t id = registered(ctx, (ig_custom_op){.name = "two",
                                                       .n_out = 2,
                                                       .infer = infer_two,
                                                       .run = run_two,
                                                       .grad = grad_two,
                                                       .user = &p});
    ig_tensor *w = FLOATS(ctx, IG_SHAPE(3), 1, 2, 3), *out[2];
    must(ig_tensor_require_grad(w));
    for (int used = 1; used <= 3; used++) { /* the first, the second, both */
        ig_custom(ctx, id, &w, 1, out);
        HOLDS(out[0], 2, 3, 4);
        HOLDS(out[1], 6);
        ig_tensor *a = ig_scale(sum_all(out[0]), 10, 0);
        ig_tensor *loss = used == 1 ? a : used == 2 ? out[1] : ig_add(a, out[1]);
        ig_tensor_zero_grad(w);
        must(ig_backward(loss));
        const float want = (used & 1 ? 10.f : 0) + (used & 2 ? 1.f : 0);
        HOLDS(ig_tensor_grad(w), want, want, want);
        assert_int_equal(p.dout_missing[0], !(used & 1));
        assert_int_equal(p.dout_missing[1], !(used & 2));
        must(ig_ctx_step_end(ctx));
    }
    ig_tensor_release(w);
}

/* ---- gradients ---- */

static void its_gradient_is_written_in_ops(void **state) {
    ig_ctx *ctx = *state;
    probe p = {0};
    const uint32_t id = registered(ctx, cube_op(&p));
    ig_tensor *w = FLOATS(ctx, IG_SHAPE(3), 1, 2, 3);
    must(ig_tensor_require_grad(w));
    must(ig_backward(sum_all(call(ctx, id, ig_scale(w, 2, 0)))));
    HOLDS(ig_tensor_grad(w), 24, 96, 216); /* 3 (2 w)^2 2 */
    ig_no_grad_begin(ctx);
    must(eval(call(ctx, id, w)));
    ig_no_grad_end(ctx);
    assert_int_equal(p.grads, 1);
    ig_tensor_release(p.kept);
    ig_tensor_release(w);
}

static void what_its_gradient_reads_or_keeps_stays_usable_in_the_step(void **state) {
    ig_ctx *ctx = *state;
    probe p = {0};
    const uint32_t id = registered(ctx, cube_op(&p));
    ig_tensor *w = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    p.constant = FLOATS(ctx, IG_SHAPE(2), 10, 100);
    must(ig_tensor_require_grad(w));
    ig_scope_begin(ctx);
    must(ig_backward(sum_all(call(ctx, id, w))));
    HOLDS(ig_tensor_grad(w), 30, 1200);
    for (int i = 0; i < 20; i++) { /* others take the places of what the backward built */
        HOLDS(ig_scale(w, i, 0), (float)i, 2 * (float)i);
        ig_tensor *y = ig_mul(w, ig_scale(w, 1, i));
        HOLDS(y, (float)(1 + i), 2 * (float)(2 + i));
    }
    HOLDS(ig_neg(p.constant), -10, -100);
    HOLDS(ig_neg(p.kept), -30, -1200);
    HOLDS(ig_mul(w, p.constant), 10, 200);
    ig_scope_end(ctx);
    HOLDS(p.kept, 30, 1200);
    ig_tensor_release(p.kept);
    ig_tensor_release(p.constant);
    ig_tensor_release(w);
}

static void without_a_gradient_function_a_backward_names_the_op(void **state) {
    ig_ctx *ctx = *state;
    probe p = {0};
    ig_custom_op op = cube_op(&p);
    op.grad = NULL;
    const uint32_t id = registered(ctx, op);
    ig_tensor *w = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    must(ig_tensor_require_grad(w));
    refused(ig_backward(sum_all(call(ctx, id, w))), IG_ERR_UNSUPPORTED,
            "backward: cube has no gradient function");
    assert_null(ig_tensor_grad(w));
    must(ig_ctx_step_end(ctx));
    must(ig_backward(sum_all(w))); /* the context goes on */
    HOLDS(ig_tensor_grad(w), 1, 1);
    ig_tensor_release(w);
}

static void a_gradient_function_that_fails_is_reported_by_backward(void **state) {
    ig_ctx *ctx = *state;
    probe p = {.grad_status = IG_ERR_IO};
    const uint32_t id = registered(ctx, cube_op(&p));
    ig_tensor *w = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    must(ig_tensor_require_grad(w));
    refused(ig_backward(sum_all(call(ctx, id, w))), IG_ERR_IO, "cube: no way back");
    p.grad_status = IG_OK;
    must(ig_ctx_step_end(ctx));
    must(ig_backward(sum_all(call(ctx, id, w))));
    HOLDS(ig_tensor_grad(w), 3, 12);
    ig_tensor_release(p.kept);
    ig_tensor_release(w);
}

/* The gradient of `late` is there before that of the cube is asked for. */
static void a_backward_that_fails_midway_changes_no_gradient(void **state) {
    ig_ctx *ctx = *state;
    probe p = {.grad_status = IG_ERR_IO};
    const uint32_t id = registered(ctx, cube_op(&p));
    ig_tensor *w = FLOATS(ctx, IG_SHAPE(2), 1, 2), *late = FLOATS(ctx, IG_SHAPE(2), 3, 4);
    must(ig_tensor_require_grad(w));
    must(ig_tensor_require_grad(late));
    refused(ig_backward(sum_all(ig_mul(call(ctx, id, w), late))), IG_ERR_IO, "cube: no way back");
    assert_null(ig_tensor_grad(late));
    assert_null(ig_tensor_grad(w));
    must(ig_ctx_step_end(ctx));

    must(ig_backward(sum_all(ig_mul(late, late))));
    HOLDS(ig_tensor_grad(late), 6, 8);
    must(ig_ctx_step_end(ctx));
    refused(ig_backward(sum_all(ig_mul(call(ctx, id, w), late))), IG_ERR_IO, "cube: no way back");
    HOLDS(ig_tensor_grad(late), 6, 8);
    must(ig_ctx_step_end(ctx));

    p.grad_status = IG_OK;
    must(ig_backward(sum_all(ig_mul(call(ctx, id, w), late))));
    HOLDS(ig_tensor_grad(late), 7, 16);
    ig_tensor_release(p.kept);
    ig_tensor_release(late);
    ig_tensor_release(w);
}

static ig_status grad_of_wrong_shape(void *user, ig_tensor *const *in, uint32_t n_in,
                                     ig_tensor *const *out, ig_tensor *const *dout,
                                     ig_tensor **din) {
    (void)user, (void)n_in, (void)out, (void)in;
    din[0] = sum_all(dout[0]);
    return IG_OK;
}

static ig_status grad_of_wrong_op(void *user, ig_tensor *const *in, uint32_t n_in,
                                  ig_tensor *const *out, ig_tensor *const *dout, ig_tensor **din) {
    (void)user, (void)n_in, (void)out, (void)dout;
    din[0] = ig_reshape(in[0], IG_SHAPE(7));
    return IG_OK;
}

static ig_status grad_of_nothing(void *user, ig_tensor *const *in, uint32_t n_in,
                                 ig_tensor *const *out, ig_tensor *const *dout, ig_tensor **din) {
    (void)user, (void)in, (void)n_in, (void)out, (void)dout, (void)din;
    return IG_OK;
}

static ig_status grad_as_it_comes(void *user, ig_tensor *const *in, uint32_t n_in,
                                  ig_tensor *const *out, ig_tensor *const *dout, ig_tensor **din) {
    (void)user, (void)in, (void)n_in, (void)out;
    din[0] = dout[0];
    return IG_OK;
}

typedef ig_status grad_fn(void *user, ig_tensor *const *in, uint32_t n_in, ig_tensor *const *out,
                          ig_tensor *const *dout, ig_tensor **din);

/* The status of a backward through a cube whose gradient is this function. */
static ig_status backward_with(ig_ctx *ctx, ig_tensor *w, grad_fn *grad) {
    static probe p;
    ig_custom_op op = cube_op(&p);
    op.grad = grad;
    ig_tensor *loss = sum_all(call(ctx, registered(ctx, op), w));
    ig_tensor_zero_grad(w);
    const ig_status status = ig_backward(loss);
    char words[512];
    strncpy(words, ig_error_text(), sizeof words - 1);
    words[sizeof words - 1] = '\0';
    must(ig_ctx_step_end(ctx));
    return status == IG_OK ? IG_OK : ig_fail(status, NULL, 0, "%s", words);
}

static void gradients_that_do_not_fit_are_refused(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *w = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    must(ig_tensor_require_grad(w));
    refused(backward_with(ctx, w, grad_of_wrong_shape), IG_ERR_SHAPE,
            "backward: cube: gradient 0 is [], its input [2]");
    refused(backward_with(ctx, w, grad_of_wrong_op), IG_ERR_SHAPE,
            "reshape: [2] cannot become [7]");
    must(backward_with(ctx, w, grad_of_nothing));
    assert_null(ig_tensor_grad(w));
    must(backward_with(ctx, w, grad_as_it_comes));
    HOLDS(ig_tensor_grad(w), 1, 1);
    ig_tensor_release(w);
}

static void a_gradient_of_what_an_earlier_backward_gave_up_is_an_error(void **state) {
    ig_ctx *ctx = *state;
    probe p = {0};
    const uint32_t id = registered(ctx, cube_op(&p));
    ig_tensor *w = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    must(ig_tensor_require_grad(w));
    ig_tensor *y = ig_scale(w, 2, 0), *one = sum_all(y), *two = sum_all(call(ctx, id, y));
    must(ig_backward(one));
    refused(ig_backward(two), IG_ERR_STATE, "backward");
    HOLDS(ig_tensor_grad(w), 2, 2); /* of the first alone */
    ig_tensor_release(p.kept);
    ig_tensor_release(w);
}

static ig_status grad_going_back(void *user, ig_tensor *const *in, uint32_t n_in,
                                 ig_tensor *const *out, ig_tensor *const *dout, ig_tensor **din) {
    (void)in, (void)n_in, (void)out, (void)dout, (void)din;
    ig_tensor **loss = user;
    return ig_backward(*loss);
}

static void a_backward_inside_a_backward_is_refused(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *w = FLOATS(ctx, IG_SHAPE(2), 1, 2), *other = NULL;
    must(ig_tensor_require_grad(w));
    other = sum_all(ig_mul(w, w));
    ig_custom_op nested = {.name = "nested",
                           .n_out = 2,
                           .infer = infer_two,
                           .run = run_two,
                           .grad = grad_going_back,
                           .user = &other};
    ig_tensor *out[2];
    ig_custom(ctx, registered(ctx, nested), &w, 1, out);
    refused(ig_backward(out[1]), IG_ERR_STATE, "backward");
    must(ig_backward(other));
    HOLDS(ig_tensor_grad(w), 2, 4);
    ig_tensor_release(w);
}

/* ---- what does not fit ---- */

static void shape_rules_that_fail_poison_the_result(void **state) {
    ig_ctx *ctx = *state;
    probe p = {.infer_status = IG_ERR_SHAPE};
    const uint32_t id = registered(ctx, cube_op(&p));
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    refused(eval(ig_exp(call(ctx, id, x))), IG_ERR_SHAPE, "cube: 1 inputs do not please");
    p = (probe){.out_shape = IG_SHAPE(2, -2)};
    refused(eval(call(ctx, id, x)), IG_ERR_SHAPE,
            "cube: its shape rule gives output 0 an invalid shape");
    p = (probe){.out_shape = {.rank = 9}};
    refused(eval(call(ctx, id, x)), IG_ERR_SHAPE,
            "cube: its shape rule gives output 0 an invalid shape");
    assert_int_equal(p.runs, 0);
    p = (probe){0};
    HOLDS(call(ctx, id, x), 1, 8);
    ig_tensor_release(x);
}

static void a_failed_input_does_not_reach_the_callbacks(void **state) {
    ig_ctx *ctx = *state;
    probe p = {0};
    const uint32_t id = registered(ctx, cube_op(&p));
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 2), *bad = ig_slice(x, 0, 0, 9);
    refused(eval(call(ctx, id, bad)), IG_ERR_SHAPE, "slice");
    refused(eval(call(ctx, id, bad)), IG_ERR_STATE, "comes from an op that failed");
    refused(eval(call(ctx, id, NULL)), IG_ERR_ARGUMENT, "a tensor is NULL");
    assert_int_equal(p.infers + p.runs, 0);
    ig_tensor_release(x);
}

/* What a run() must not do, by number. */
typedef struct offence {
    ig_ctx *ctx;
    ig_tensor *x;
    int what;
} offence;

enum { OFFENCES = 8 };

static ig_status run_offending(void *user, const ig_custom_operand *in, uint32_t n_in,
                               const ig_custom_operand *out) {
    const offence *o = user;
    float value[2];
    double one;
    ig_status ignored = IG_OK;
    (void)in, (void)n_in;
    memset(out[0].bytes, 0, 2 * sizeof(float));
    switch (o->what) {
    case 0: (void)ig_neg(o->x); break;
    case 1: ignored = ig_assign(o->x, o->x); break;
    case 2: ignored = ig_tensor_read(o->x, value, sizeof value); break;
    case 3: ignored = ig_tensor_write(o->x, (float[]){9, 9}, 8); break;
    case 4: ignored = ig_ctx_step_end(o->ctx); break;
    case 5: ig_scope_begin(o->ctx); break;
    case 6: ignored = ig_backward(o->x); break;
    case 7: ignored = ig_tensor_item(o->x, &one); break;
    default: break; /* nothing */
    }
    (void)ignored;
    return IG_OK;
}

static void its_run_may_not_call_the_context(void **state) {
    ig_ctx *ctx = *state;
    offence o = {ctx, FLOATS(ctx, IG_SHAPE(2), 1, 2), 0};
    probe p = {0};
    ig_custom_op op = cube_op(&p);
    op.name = "meddler";
    op.run = run_offending;
    op.user = &o;
    op.infer = infer_first;
    const uint32_t id = registered(ctx, op);
    for (o.what = 0; o.what < OFFENCES; o.what++)
        refused(eval(call(ctx, id, o.x)), IG_ERR_STATE,
                "meddler: its run() called the context during a run");
    HOLDS(call(ctx, id, o.x), 0, 0); /* without an offence */
    HOLDS(o.x, 1, 2);
    ig_tensor_release(o.x);
}

static void ops_that_cannot_be_are_not_registered(void **state) {
    ig_ctx *ctx = *state;
    uint32_t id = 77;
    ig_custom_op op = cube_op(NULL);
    op.n_out = 0;
    refused(ig_custom_register(ctx, &op, &id), IG_ERR_ARGUMENT, "cube: 0 outputs; from 1 to 8");
    op.n_out = 9;
    refused(ig_custom_register(ctx, &op, &id), IG_ERR_ARGUMENT, "cube: 9 outputs");
    op = cube_op(NULL);
    op.run = NULL;
    refused(ig_custom_register(ctx, &op, &id), IG_ERR_ARGUMENT, "infer and run are needed");
    op = cube_op(NULL);
    op.name = NULL;
    refused(ig_custom_register(ctx, &op, &id), IG_ERR_ARGUMENT, "a name");
    refused(ig_custom_register(ctx, NULL, &id), IG_ERR_ARGUMENT, "NULL");
    assert_int_equal(id, 77);

    ig_tensor *y = NULL;
    ig_custom(ctx, 99, NULL, 0, &y);
    refused(eval(y), IG_ERR_ARGUMENT, "custom: there is no op 99");
}

static void it_takes_from_one_to_thirty_two_inputs(void **state) {
    enum { MOST = 32 };
    ig_ctx *ctx = *state;
    probe p = {0};
    const uint32_t id = registered(ctx, cube_op(&p));
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 2), *in[MOST + 1], *y = NULL;
    must(ig_tensor_require_grad(x));
    for (int i = 0; i <= MOST; i++) in[i] = x;
    ig_custom(ctx, id, in, MOST, &y);
    HOLDS(y, 1, 8);
    must(ig_backward(sum_all(y)));
    HOLDS(ig_tensor_grad(x), 3, 12);
    ig_custom(ctx, id, in, MOST + 1, &y);
    refused(eval(y), IG_ERR_ARGUMENT, "cube: 33 inputs; from 1 to 32");
    ig_custom(ctx, id, in, 0, &y);
    refused(eval(y), IG_ERR_ARGUMENT, "cube: 0 inputs");
    ig_tensor_release(p.kept);
    ig_tensor_release(x);
}

/* null has memory of its own, and computes nothing there. */
static void it_runs_on_the_host_whatever_the_device(void **state) {
    (void)state;
    ig_ctx *ctx = NULL;
    probe p = {0};
    must(ig_ctx_create(&(ig_ctx_options){.device = "null", .unsafe_device = true}, &ctx));
    ig_tensor *x = FLOATS(ctx, scalar, 2);
    HOLDS(call(ctx, registered(ctx, cube_op(&p)), x), 8);
    ig_tensor_release(x);
    ig_ctx_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST_WITH_CTX(a_custom_op_computes_what_its_function_says),
        TEST_WITH_CTX(its_inputs_arrive_packed),
        TEST_WITH_CTX(it_goes_on_working_when_others_are_registered),
        TEST_WITH_CTX(a_long_name_is_reported_complete),
        TEST_WITH_CTX(the_caller_s_struct_and_name_may_go),
        TEST_WITH_CTX(an_op_of_two_results_has_the_gradients_of_those_in_use),
        TEST_WITH_CTX(its_gradient_is_written_in_ops),
        TEST_WITH_CTX(what_its_gradient_reads_or_keeps_stays_usable_in_the_step),
        TEST_WITH_CTX(without_a_gradient_function_a_backward_names_the_op),
        TEST_WITH_CTX(a_gradient_function_that_fails_is_reported_by_backward),
        TEST_WITH_CTX(a_backward_that_fails_midway_changes_no_gradient),
        TEST_WITH_CTX(gradients_that_do_not_fit_are_refused),
        TEST_WITH_CTX(a_gradient_of_what_an_earlier_backward_gave_up_is_an_error),
        TEST_WITH_CTX(a_backward_inside_a_backward_is_refused),
        TEST_WITH_CTX(shape_rules_that_fail_poison_the_result),
        TEST_WITH_CTX(a_failed_input_does_not_reach_the_callbacks),
        TEST_WITH_CTX(its_run_may_not_call_the_context),
        TEST_WITH_CTX(ops_that_cannot_be_are_not_registered),
        TEST_WITH_CTX(it_takes_from_one_to_thirty_two_inputs),
        cmocka_unit_test(it_runs_on_the_host_whatever_the_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
