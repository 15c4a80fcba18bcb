/*
 * Gradients as callers see them: what adds up, what is refused, what a step leaves behind.
 *
 * The numbers are small integers, so every gradient here is exact.  Whether each op's rule is right
 * is the business of the conformance tests.
 */
#include "unit/check.h"

static ig_desc f32(ig_shape shape) { return (ig_desc){IG_F32, shape}; }

/* A tensor that asks for its gradient. */
static ig_tensor *param(ig_ctx *ctx, ig_shape shape, const float *values, const char *name) {
    ig_tensor *w = floats(ctx, shape, values);
    must(ig_tensor_require_grad(w));
    must(ig_tensor_set_name(w, name));
    return w;
}

#define PARAM(ctx, shape, ...) param(ctx, shape, (const float[]){__VA_ARGS__}, "w")

/* ---- what adds up ---- */

static void every_use_of_a_tensor_adds_to_its_gradient(void **state) {
    ig_tensor *w = PARAM(*state, IG_SHAPE(2), 3, 5);
    ig_tensor *y = ig_add(ig_mul(w, w), ig_scale(w, 10, 0)); /* w^2 + 10 w */
    must(ig_backward(sum_all(ig_add(y, w))));
    HOLDS(ig_tensor_grad(w), 17, 21);
    ig_tensor_release(w);
}

static void results_that_are_used_twice_add_up_too(void **state) {
    ig_tensor *w = PARAM(*state, IG_SHAPE(2), 3, 5);
    ig_tensor *y = ig_mul(w, w), *z = ig_add(y, y); /* 2 w^2, and its square: 4 w^4 */
    must(ig_backward(sum_all(ig_mul(z, z))));
    HOLDS(ig_tensor_grad(w), 16 * 27, 16 * 125);
    ig_tensor_release(w);
}

static void several_backward_calls_accumulate_until_zeroed(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *w = PARAM(ctx, IG_SHAPE(2), 3, 5);
    assert_null(ig_tensor_grad(w));
    for (int i = 1; i <= 3; i++) {
        must(ig_backward(sum_all(ig_mul(w, w))));
        HOLDS(ig_tensor_grad(w), 6 * (float)i, 10 * (float)i);
        if (i == 2) must(ig_ctx_step_end(ctx)); /* over steps as well */
    }
    ig_tensor_zero_grad(w);
    assert_null(ig_tensor_grad(w));
    must(ig_backward(sum_all(ig_scale(w, 4, 0))));
    HOLDS(ig_tensor_grad(w), 4, 4);
    ig_tensor_zero_grad(NULL);
    ig_tensor_release(w);
}

static void many_leaves_get_their_own(void **state) {
    enum { LEAVES = 100 };
    ig_ctx *ctx = *state;
    ig_tensor *w[LEAVES], *loss = NULL;
    for (int i = 0; i < LEAVES; i++) {
        w[i] = PARAM(ctx, IG_SHAPE(2), 1, 1);
        ig_tensor *part = ig_scale(w[i], i, 0);
        loss = loss ? ig_add(loss, part) : part;
    }
    must(ig_backward(sum_all(loss)));
    for (int i = 0; i < LEAVES; i++) {
        HOLDS(ig_tensor_grad(w[i]), (float)i, (float)i);
        ig_tensor_release(w[i]);
    }
}

static void what_was_broadcast_is_summed_up(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    ig_tensor *row = PARAM(ctx, IG_SHAPE(3), 1, 1, 1), *column = PARAM(ctx, IG_SHAPE(2, 1), 1, 1);
    ig_tensor *one = PARAM(ctx, (ig_shape){0}, 1);
    must(ig_backward(sum_all(ig_mul(ig_mul(ig_mul(x, row), column), one))));
    HOLDS(ig_tensor_grad(row), 5, 7, 9);
    HOLDS(ig_tensor_grad(column), 6, 15);
    HOLDS(ig_tensor_grad(one), 21);
    ig_tensor_release(one);
    ig_tensor_release(column);
    ig_tensor_release(row);
    ig_tensor_release(x);
}

/* ---- views ---- */

static void gradients_go_through_views_to_the_right_elements(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *w = PARAM(ctx, IG_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    ig_tensor *c = FLOATS(ctx, IG_SHAPE(2, 2), 10, 20, 30, 40);
    must(ig_backward(sum_all(ig_mul(ig_slice(w, 1, 1, 3), c))));
    HOLDS(ig_tensor_grad(w), 0, 10, 20, 0, 30, 40);

    ig_tensor_zero_grad(w);
    ig_tensor *turned = ig_slice(ig_transpose(w, 0, 1), 0, 0, 2); /* [[1, 4], [2, 5]] */
    must(ig_backward(sum_all(ig_mul(turned, c))));
    HOLDS(ig_tensor_grad(w), 10, 30, 0, 20, 40, 0);

    ig_tensor_zero_grad(w);
    ig_tensor *flat = ig_reshape(ig_transpose(w, 0, 1), IG_SHAPE(6)); /* 1 4 2 5 3 6 */
    must(ig_backward(sum_all(ig_slice(flat, 0, 1, 3))));
    HOLDS(ig_tensor_grad(w), 0, 1, 0, 1, 0, 0);

    ig_tensor_zero_grad(w);
    must(ig_backward(sum_all(ig_broadcast(ig_slice(w, 0, 0, 1), IG_SHAPE(4, 3)))));
    HOLDS(ig_tensor_grad(w), 4, 4, 4, 0, 0, 0);
    ig_tensor_release(c);
    ig_tensor_release(w);
}

static void overlapping_views_add_up(void **state) {
    ig_tensor *w = PARAM(*state, IG_SHAPE(4), 1, 2, 3, 4);
    ig_tensor *y = ig_mul(ig_slice(w, 0, 0, 3), ig_slice(w, 0, 1, 4)); /* w[i] w[i + 1] */
    must(ig_backward(sum_all(y)));
    HOLDS(ig_tensor_grad(w), 2, 4, 6, 3);
    ig_tensor_release(w);
}

/* x [4, 4] and w [4, 4], transposed in every way, multiplied and differentiated: in 16 bits, or as
 * the F32 numbers that these stand for.  Writes the product and both gradients. */
static void multiply_rounded(ig_ctx *ctx, int turned, ig_dtype dtype, bool stored,
                             float out[3][16]) {
    float values[2][16];
    for (int i = 0; i < 16; i++) values[0][i] = 1.0f / (float)(i + 3), values[1][i] = (float)i / 7;
    ig_tensor *x = param(ctx, IG_SHAPE(4, 4), values[0], "x");
    ig_tensor *w = param(ctx, IG_SHAPE(4, 4), values[1], "w");
    const ig_matmul_options options = {.transpose_a = turned & 1, .transpose_b = turned & 2};
    ig_tensor *y = stored ? ig_matmul_with(ig_cast(x, dtype), ig_cast(w, dtype), options)
                          : ig_matmul_with(ig_round_to(x, dtype), ig_round_to(w, dtype), options);
    assert_int_equal(ig_tensor_desc(y).dtype, IG_F32);
    must(ig_tensor_read(y, out[0], sizeof out[0]));
    must(ig_backward(sum_all(ig_mul(y, y))));
    must(ig_tensor_read(ig_tensor_grad(x), out[1], sizeof out[1]));
    must(ig_tensor_read(ig_tensor_grad(w), out[2], sizeof out[2]));
    ig_tensor_release(x);
    ig_tensor_release(w);
}

/* Kernels may add up in another order: sums of four products of numbers up to 30 or so. */
static const float order_of_sums = 1e-5f;

static void matmuls_of_16_bit_floats_have_the_gradients_of_their_values(void **state) {
    const ig_dtype float16s[] = {IG_F16, IG_BF16};
    for (int i = 0; i < 8; i++) {
        float stored[3][16], numbers[3][16];
        multiply_rounded(*state, i / 2, float16s[i % 2], true, stored);
        multiply_rounded(*state, i / 2, float16s[i % 2], false, numbers);
        for (int j = 0; j < 3 * 16; j++)
            assert_float_equal(stored[j / 16][j % 16], numbers[j / 16][j % 16], order_of_sums);
    }
}

static void empty_tensors_have_gradients_too(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *w = NULL, *v = PARAM(ctx, IG_SHAPE(2), 1, 2);
    must(ig_tensor_create(ctx, f32(IG_SHAPE(0, 3)), &w));
    must(ig_tensor_require_grad(w));
    must(ig_backward(ig_add(sum_all(ig_mul(w, w)), sum_all(ig_slice(v, 0, 1, 1)))));
    must(ig_tensor_read(ig_tensor_grad(w), NULL, 0));
    HOLDS(ig_tensor_grad(v), 0, 0);
    ig_tensor_release(v);
    ig_tensor_release(w);
}

/* ---- what asks for no gradient ---- */

static void without_grad_nothing_is_remembered(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *w = PARAM(ctx, IG_SHAPE(2), 3, 5);
    ig_no_grad_begin(ctx);
    ig_no_grad_begin(ctx);
    ig_no_grad_end(ctx);
    ig_tensor *detached = ig_mul(w, w); /* pairs nest: still without */
    ig_no_grad_end(ctx);
    ig_no_grad_end(ctx); /* one too many */
    refused(ig_backward(sum_all(detached)), IG_ERR_STATE, "requires a gradient");
    must(ig_backward(sum_all(ig_mul(detached, w)))); /* 9 w, 25 w: a constant times w */
    HOLDS(ig_tensor_grad(w), 9, 25);
    ig_tensor_release(w);
}

static void a_tensor_that_is_used_with_and_without_grad_keeps_them_apart(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *w = PARAM(ctx, IG_SHAPE(2), 3, 5);
    ig_no_grad_begin(ctx);
    (void)ig_exp(w); /* its first use */
    ig_no_grad_end(ctx);
    ig_tensor *y = ig_mul(w, w);
    ig_no_grad_begin(ctx);
    ig_tensor *copy = ig_copy(y);
    ig_no_grad_end(ctx);
    must(ig_backward(sum_all(ig_add(y, copy))));
    HOLDS(ig_tensor_grad(w), 6, 10);
    ig_tensor_release(w);
}

static void only_callers_tensors_of_real_numbers_may_ask(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 2), *i = INTS(ctx, IG_SHAPE(2), 1, 2);
    refused(ig_tensor_require_grad(ig_neg(x)), IG_ERR_ARGUMENT, "result of an op");
    refused(ig_tensor_require_grad(i), IG_ERR_ARGUMENT, "i32 has no gradient");
    static const ig_dtype narrow[] = {IG_BF16, IG_F16}; /* a second gradient could not be added */
    for (size_t n = 0; n < sizeof narrow / sizeof narrow[0]; n++) {
        ig_tensor *half = NULL;
        must(ig_tensor_create(ctx, (ig_desc){narrow[n], IG_SHAPE(2)}, &half));
        refused(ig_tensor_require_grad(half), IG_ERR_ARGUMENT, "f16 has no gradient: only f32 and");
        ig_tensor_release(half);
    }
    refused(ig_tensor_require_grad(NULL), IG_ERR_ARGUMENT, "NULL");
    assert_null(ig_tensor_grad(NULL));
    ig_tensor_release(x);
    ig_tensor_release(i);
}

static void a_request_counts_from_its_next_use_on(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 3, 5), *w = PARAM(ctx, IG_SHAPE(2), 1, 1);
    ig_tensor *before = ig_mul(ig_mul(x, x), w);
    must(ig_tensor_require_grad(x));
    must(ig_backward(sum_all(ig_add(before, x))));
    HOLDS(ig_tensor_grad(x), 1, 1);
    HOLDS(ig_tensor_grad(w), 9, 25);
    ig_tensor_release(w);
    ig_tensor_release(x);
}

/* ---- what is refused ---- */

static void a_loss_is_one_element(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *w = PARAM(ctx, IG_SHAPE(2, 2), 1, 2, 3, 4);
    refused(ig_backward(ig_mul(w, w)), IG_ERR_SHAPE, "backward: the loss is [2,2]");
    refused(ig_backward(NULL), IG_ERR_ARGUMENT, "NULL");
    refused(ig_backward(w), IG_ERR_SHAPE, "[2,2]");
    ig_tensor *x = FLOATS(ctx, (ig_shape){0}, 1);
    refused(ig_backward(x), IG_ERR_STATE, "does not come from any tensor");
    must(ig_backward(ig_reshape(sum_all(w), IG_SHAPE(1, 1, 1)))); /* one element, any shape */
    HOLDS(ig_tensor_grad(w), 1, 1, 1, 1);
    ig_tensor_release(x);
    ig_tensor_release(w);
}

static void a_second_backward_through_the_same_loss_is_refused(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *w = PARAM(ctx, IG_SHAPE(2), 3, 5);
    ig_tensor *shared = ig_mul(w, w), *loss = sum_all(shared), *other = sum_all(ig_exp(shared));
    must(ig_backward(loss));
    refused(ig_backward(loss), IG_ERR_STATE, "sum the losses and call ig_backward() once");
    refused(ig_backward(other), IG_ERR_STATE, "sum the losses and call ig_backward() once");
    HOLDS(ig_tensor_grad(w), 6, 10); /* of the first alone */
    must(ig_backward(sum_all(ig_mul(w, w))));
    HOLDS(ig_tensor_grad(w), 12, 20);
    ig_tensor_release(w);
}

static void results_may_be_used_after_their_backward(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *w = PARAM(ctx, IG_SHAPE(2, 2), 1, 4, 3, 2);
    ig_tensor *logits = ig_mul(w, w), *loss = sum_all(logits);
    must(ig_backward(loss));
    assert_true(item(loss) == 30);
    ig_no_grad_begin(ctx);
    ig_tensor *best = ig_argmax(logits, 1); /* an accuracy, say */
    assert_true(item(ig_sum(ig_cast(best, IG_F32), NULL, 0, IG_DROP_DIM)) == 1);
    ig_no_grad_end(ctx);
    ig_tensor *more = ig_scale(logits, 2, 0);
    HOLDS(more, 2, 32, 18, 8);
    refused(ig_backward(sum_all(more)), IG_ERR_STATE, "backward"); /* but not to go back again */
    ig_tensor_release(w);
}

static void a_loss_of_an_ended_step_is_refused(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *w = PARAM(ctx, IG_SHAPE(2), 3, 5);
    ig_tensor *loss = ig_tensor_retain(sum_all(w));
    must(ig_ctx_step_end(ctx));
    refused(ig_backward(loss), IG_ERR_STATE, "its step has ended");
    ig_tensor_release(loss);
    ig_tensor_release(w);
}

static void written_after_forward(ig_ctx *ctx, ig_tensor *w, ig_tensor *loss, int how) {
    float values[6] = {9, 9, 9, 9, 9, 9};
    ig_tensor *ones = ig_full(ctx, ig_tensor_desc(w), 1);
    must(how == 0   ? ig_tensor_write(w, values, sizeof values)
         : how == 1 ? ig_assign(w, ones)
                    : ig_accumulate(w, ones));
    refused(ig_backward(loss), IG_ERR_STATE, "backward: blocks.3.weight was written to");
    assert_null(ig_tensor_grad(w));
    must(ig_ctx_step_end(ctx));
}

static void a_parameter_written_between_forward_and_backward_is_named(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(1, 3), 1, 2, 3);
    ig_tensor *w = param(ctx, IG_SHAPE(2, 3), (float[]){1, 2, 3, 4, 5, 6}, "blocks.3.weight");
    for (int how = 0; how < 3; how++) {
        written_after_forward(ctx, w, sum_all(ig_mul(w, w)), how);
        /* By way of views, as layers use their weights. */
        written_after_forward(ctx, w, sum_all(ig_matmul(x, ig_transpose(w, 0, 1))), how);
        written_after_forward(ctx, w, sum_all(ig_exp(ig_slice(w, 1, 0, 2))), how);
    }
    ig_tensor_zero_grad(w);
    must(ig_backward(sum_all(w))); /* the next step is as any */
    ig_tensor_release(w);
    ig_tensor_release(x);
}

static void an_input_written_between_forward_and_backward_is_found_out(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 3, 5), *w = PARAM(ctx, IG_SHAPE(2), 1, 1);
    ig_tensor *loss = sum_all(ig_mul(w, x));
    must(ig_tensor_write(x, (float[]){7, 7}, 8));
    refused(ig_backward(loss), IG_ERR_STATE, "was written to after the loss");
    ig_tensor_release(w);
    ig_tensor_release(x);
}

static void a_parameter_may_be_written_before_its_next_use(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *w = PARAM(ctx, IG_SHAPE(2), 3, 5);
    (void)ig_mul(w, w); /* no backward pass goes through this */
    must(ig_tensor_write(w, (float[]){1, 2}, 8));
    must(ig_backward(sum_all(ig_mul(w, w))));
    HOLDS(ig_tensor_grad(w), 2, 4);
    ig_tensor_release(w);
}

static void a_view_of_a_parameter_shows_what_was_written_to_it(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *w = PARAM(ctx, IG_SHAPE(2), 3, 5), *v = ig_slice(w, 0, 1, 2);
    must(ig_tensor_write(w, (float[]){1, 2}, 8));
    HOLDS(v, 2);
    ig_no_grad_begin(ctx);
    HOLDS(ig_scale(v, 10, 0), 20);
    ig_no_grad_end(ctx);
    ig_tensor_release(w);
}

static void a_view_made_before_a_write_is_not_used_without_its_gradient(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *w = param(ctx, IG_SHAPE(2), (float[]){3, 5}, "blocks.3.weight");
    for (int how = 0; how < 2; how++) {
        ig_tensor *v = ig_slice(w, 0, 1, 2), *ones = ig_full(ctx, ig_tensor_desc(w), 1);
        must(how ? ig_assign(w, ones) : ig_tensor_write(w, (float[]){1, 2}, 8));
        refused(ig_backward(sum_all(ig_add(sum_all(w), ig_scale(v, 10, 0)))), IG_ERR_STATE,
                "a view of blocks.3.weight is used after blocks.3.weight was written to");
        must(ig_backward(sum_all(ig_scale(ig_slice(w, 0, 1, 2), 10, 0)))); /* a new view */
        HOLDS(ig_tensor_grad(w), 0, 10);
        ig_tensor_zero_grad(w);
        must(ig_ctx_step_end(ctx));
    }
    ig_tensor_release(w);
}

/* ---- from step to step ---- */

static void retained_results_are_leaves_in_the_next_step(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *w = PARAM(ctx, IG_SHAPE(2), 3, 5), *hidden = NULL;
    for (int step = 0; step < 4; step++) { /* a recurrent net cut off at every step */
        ig_scope_begin(ctx);
        ig_tensor *next = hidden ? ig_mul(w, hidden) : ig_scale(w, 1, 0);
        ig_tensor_zero_grad(w);
        must(ig_backward(sum_all(next)));
        const float third = step == 0 ? 1 : step == 1 ? 3 : step == 2 ? 9 : 27;
        const float fifth = step == 0 ? 1 : step == 1 ? 5 : step == 2 ? 25 : 125;
        HOLDS(ig_tensor_grad(w), third, fifth); /* nothing flows into the steps before */
        ig_tensor_release(hidden);
        hidden = ig_tensor_retain(next);
        ig_scope_end(ctx);
    }
    ig_tensor_release(hidden);
    ig_tensor_release(w);
}

/*
 * A generator g and a discriminator d, each one number, trained in turn inside one scope:
 *     fake = g z,   loss of d = d (fake - real),   loss of g = -d fake
 */
static void two_models_are_trained_in_turn_inside_one_scope(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *g = PARAM(ctx, (ig_shape){0}, 2), *d = PARAM(ctx, (ig_shape){0}, 3);
    ig_tensor *z = FLOATS(ctx, (ig_shape){0}, 5), *real = FLOATS(ctx, (ig_shape){0}, 7);
    ig_scope_begin(ctx);
    ig_tensor *fake = ig_mul(g, z);
    ig_no_grad_begin(ctx);
    ig_tensor *cut = ig_copy(fake); /* nothing flows back into g */
    ig_no_grad_end(ctx);
    must(ig_backward(ig_sub(ig_mul(d, cut), ig_mul(d, real))));
    assert_null(ig_tensor_grad(g));
    HOLDS(ig_tensor_grad(d), 3); /* 10 - 7 */
    must(ig_accumulate(d, ig_neg(ig_tensor_grad(d))));
    HOLDS(d, 0);
    must(ig_ctx_step_end(ctx)); /* an optimizer's step, inside of the scope */

    must(ig_accumulate(d, ig_full(ctx, f32((ig_shape){0}), 4)));
    ig_tensor_zero_grad(d);
    must(ig_backward(ig_neg(ig_mul(d, fake)))); /* the new d, and fake of before */
    HOLDS(ig_tensor_grad(g), -20);
    must(ig_accumulate(g, ig_neg(ig_tensor_grad(g))));
    HOLDS(g, 22);
    must(ig_ctx_step_end(ctx));
    HOLDS(fake, 10);
    ig_scope_end(ctx);
    ig_tensor_release(real);
    ig_tensor_release(z);
    ig_tensor_release(d);
    ig_tensor_release(g);
}

static void gradients_can_be_computed_with(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *w = PARAM(ctx, IG_SHAPE(2), 3, 4);
    must(ig_backward(sum_all(ig_mul(w, ig_scale(w, 0.5, 0)))));
    ig_tensor *grad = ig_tensor_grad(w), *norm = ig_global_norm(&grad, 1);
    assert_true(item(norm) == 5);
    must(ig_clip(grad, norm, 1e9f));
    HOLDS(ig_tensor_grad(w), 3, 4);
    ig_tensor *before = ig_copy(grad);
    must(ig_backward(sum_all(ig_mul(w, grad)))); /* the gradient is a constant here */
    HOLDS(ig_sub(grad, before), 3, 4);
    HOLDS(ig_neg(grad), -6, -8);
    ig_tensor_release(w);
}

/* ---- memory ---- */

/* The most memory that a chain of tanh takes beyond what is there, forward or both ways. */
static uint64_t peak_of_chain(ig_ctx *ctx, ig_tensor *w, int length, bool back) {
    ig_report_reset_memory(ctx);
    const uint64_t before = ig_report_memory(ctx).allocated_bytes;
    ig_scope_begin(ctx);
    ig_tensor *y = ig_tensor_retain(w);
    for (int i = 0; i < length; i++) {
        ig_scope_begin(ctx); /* only the tape holds what lies between */
        ig_tensor *next = ig_tensor_retain(ig_tanh(y));
        ig_scope_end(ctx);
        ig_tensor_release(y);
        y = next;
    }
    ig_tensor *loss = sum_all(y);
    ig_tensor_release(y);
    if (back) must(ig_backward(loss));
    ig_scope_end(ctx);
    return ig_report_memory(ctx).peak_bytes - before;
}

static void memory_is_given_back_while_going_back(void **state) {
    enum { ELEMENTS = 1 << 14, LENGTH = 40 };
    (void)state;
    const uint64_t each = ELEMENTS * sizeof(float);
    uint64_t peaks[2];
    for (int back = 0; back < 2; back++) {
        ig_ctx *ctx = NULL;
        ig_tensor *w = NULL;
        must(ig_ctx_create(NULL, &ctx));
        must(ig_tensor_create(ctx, f32(IG_SHAPE(ELEMENTS)), &w));
        must(ig_tensor_require_grad(w));
        peaks[back] = peak_of_chain(ctx, w, LENGTH, back);
        ig_tensor_release(w);
        ig_ctx_destroy(ctx);
    }
    assert_true(peaks[0] >= LENGTH * each); /* forward keeps what backward needs */
    /* Going back adds a few tensors, not one or more for each step of the chain. */
    assert_true(peaks[1] < peaks[0] + 8 * each);
}

static void a_failed_backward_leaves_no_memory_behind(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *w = PARAM(ctx, IG_SHAPE(2), 3, 5);
    uint64_t allocated = 0;
    for (int i = 0; i < 50; i++) {
        ig_scope_begin(ctx);
        ig_tensor *loss = sum_all(ig_exp(ig_mul(w, w)));
        must(ig_tensor_write(w, (float[]){1, 2}, 8));
        refused(ig_backward(loss), IG_ERR_STATE, "written to");
        ig_scope_end(ctx);
        if (i == 2) allocated = ig_report_memory(ctx).allocated_bytes;
    }
    assert_int_equal(ig_report_memory(ctx).allocated_bytes, allocated);
    assert_int_equal(ig_report_counters(ctx).tensors, 1);
    ig_tensor_release(w);
}

static void a_parameter_may_be_released_before_its_step_ends(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *w = PARAM(ctx, IG_SHAPE(2), 3, 5), *v = PARAM(ctx, IG_SHAPE(2), 1, 1);
    ig_tensor *loss = sum_all(ig_mul(ig_mul(w, w), v));
    ig_tensor_release(w); /* the tape still holds it */
    must(ig_backward(loss));
    HOLDS(ig_tensor_grad(v), 9, 25);
    must(ig_ctx_step_end(ctx));
    ig_tensor_release(v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST_WITH_CTX(every_use_of_a_tensor_adds_to_its_gradient),
        TEST_WITH_CTX(results_that_are_used_twice_add_up_too),
        TEST_WITH_CTX(several_backward_calls_accumulate_until_zeroed),
        TEST_WITH_CTX(many_leaves_get_their_own),
        TEST_WITH_CTX(what_was_broadcast_is_summed_up),
        TEST_WITH_CTX(gradients_go_through_views_to_the_right_elements),
        TEST_WITH_CTX(overlapping_views_add_up),
        TEST_WITH_CTX(matmuls_of_16_bit_floats_have_the_gradients_of_their_values),
        TEST_WITH_CTX(empty_tensors_have_gradients_too),
        TEST_WITH_CTX(without_grad_nothing_is_remembered),
        TEST_WITH_CTX(a_tensor_that_is_used_with_and_without_grad_keeps_them_apart),
        TEST_WITH_CTX(only_callers_tensors_of_real_numbers_may_ask),
        TEST_WITH_CTX(a_request_counts_from_its_next_use_on),
        TEST_WITH_CTX(a_loss_is_one_element),
        TEST_WITH_CTX(a_second_backward_through_the_same_loss_is_refused),
        TEST_WITH_CTX(results_may_be_used_after_their_backward),
        TEST_WITH_CTX(a_loss_of_an_ended_step_is_refused),
        TEST_WITH_CTX(a_parameter_written_between_forward_and_backward_is_named),
        TEST_WITH_CTX(an_input_written_between_forward_and_backward_is_found_out),
        TEST_WITH_CTX(a_parameter_may_be_written_before_its_next_use),
        TEST_WITH_CTX(a_view_of_a_parameter_shows_what_was_written_to_it),
        TEST_WITH_CTX(a_view_made_before_a_write_is_not_used_without_its_gradient),
        TEST_WITH_CTX(retained_results_are_leaves_in_the_next_step),
        TEST_WITH_CTX(two_models_are_trained_in_turn_inside_one_scope),
        TEST_WITH_CTX(gradients_can_be_computed_with),
        cmocka_unit_test(memory_is_given_back_while_going_back),
        TEST_WITH_CTX(a_failed_backward_leaves_no_memory_behind),
        TEST_WITH_CTX(a_parameter_may_be_released_before_its_step_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
