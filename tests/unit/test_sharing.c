/*
 * Several names for one memory, and functions that only the first run calls: what
 * a recording cannot see by itself.  The numbers are those of Dynamic mode.
 */
#include <stdio.h>
#include <stdlib.h>

#include "ingot/batch.h"
#include "unit/nets.h"

enum { TIMES = 12 };

static const ig_desc row_of_4 = {IG_F32, {1, {4}}};

/* ---- views that outlive their step ---- */

/* A row of w, held; later steps read it, before and after w is overwritten. */
static void hold_a_row(ig_ctx *ctx, trail *t) {
    ig_tensor *w = ramp(ctx, IG_SHAPE(3, 4), 1, 1), *x = ramp(ctx, IG_SHAPE(3, 4), 0, 0.25);
    ig_tensor *row = ig_tensor_retain(ig_slice(w, 0, 1, 2)); /* [1,4] */
    must(ig_ctx_step_end(ctx));
    for (int i = 0; i < TIMES; i++) {
        must(ig_tensor_fill_uniform(x, -1, 1));
        ig_tensor *before = ig_copy(row);
        must(ig_accumulate(w, ig_mul(x, row)));
        ig_tensor *after = ig_copy(row);
        must(ig_ctx_step_end(ctx));
        trail_put_tensor(t, before);
        trail_put_tensor(t, after);
        trail_put_tensor(t, row);
    }
    trail_put_tensor(t, w);
    ig_tensor_release(row);
    ig_tensor_release(w);
    ig_tensor_release(x);
}

static void a_held_view_sees_what_its_tensor_becomes(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(hold_a_row);
}

/* A view made in the step, read again after the update. */
static void look_through_an_old_view(ig_ctx *ctx, trail *t) {
    ig_tensor *w = ramp(ctx, IG_SHAPE(3, 4), 1, 1), *x = ramp(ctx, IG_SHAPE(3, 4), 0, 0.25);
    ig_tensor *other = ramp(ctx, IG_SHAPE(1, 4), 5, 5);
    for (int i = 0; i < TIMES; i++) {
        must(ig_tensor_fill_uniform(x, -1, 1));
        ig_tensor *row = ig_slice(w, 0, 1, 2);
        ig_tensor *before = ig_neg(row), *far = ig_neg(other);
        must(ig_accumulate(w, x));
        ig_tensor *after = ig_neg(row);
        must(ig_ctx_step_end(ctx));
        trail_put_tensor(t, before);
        trail_put_tensor(t, after);
        trail_put_tensor(t, far);
    }
    ig_tensor_release(other);
    ig_tensor_release(w);
    ig_tensor_release(x);
}

static void a_view_from_before_an_update_sees_it(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(look_through_an_old_view);
}

/* The caller's own views: parts are overwritten while the whole is read. */
static void write_parts_read_the_whole(ig_ctx *ctx, trail *t) {
    ig_tensor *all = ramp(ctx, IG_SHAPE(2, 4), 1, 1), *part[2],
              *x = ramp(ctx, IG_SHAPE(4), 0, 0.25);
    for (int i = 0; i < 2; i++) must(ig_tensor_create_view(all, row_of_4, NULL, 4 * i, &part[i]));
    for (int i = 0; i < TIMES; i++) {
        must(ig_tensor_fill_uniform(x, -1, 1));
        ig_tensor *before = ig_tanh(all);
        must(ig_accumulate(part[i % 2], x));
        ig_tensor *between = ig_tanh(all);
        must(ig_assign(part[1], ig_neg(part[0])));
        ig_tensor *after = sum_all(ig_mul(all, between));
        must(ig_ctx_step_end(ctx));
        trail_put_tensor(t, before);
        trail_put_tensor(t, between);
        trail_put_item(t, after);
    }
    trail_put_tensor(t, all);
    ig_tensor_release(part[0]);
    ig_tensor_release(part[1]);
    ig_tensor_release(all);
    ig_tensor_release(x);
}

static void parts_may_be_overwritten_while_the_whole_is_read(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(write_parts_read_the_whole);
}

/* Reads and writes from outside, by another name than the step knows. */
static void reach_in_by_another_name(ig_ctx *ctx, trail *t) {
    ig_tensor *all = ramp(ctx, IG_SHAPE(2, 4), 1, 1), *part = NULL,
              *x = ramp(ctx, IG_SHAPE(2, 4), 0, 1);
    must(ig_tensor_create_view(all, row_of_4, NULL, 4, &part));
    for (int i = 0; i < TIMES; i++) {
        must(ig_tensor_fill_uniform(x, -1, 1));
        ig_tensor *y = ig_tanh(all);
        if (i % 4 == 2) must(ig_tensor_fill_uniform(part, -1, 1)); /* y has seen the old bytes */
        must(ig_accumulate(all, ig_mul(x, y)));
        if (i % 4 == 3) trail_put_tensor(t, part); /* and this sees the new ones */
        must(ig_ctx_step_end(ctx));
        trail_put_tensor(t, y);
    }
    trail_put_tensor(t, all);
    ig_tensor_release(part);
    ig_tensor_release(all);
    ig_tensor_release(x);
}

static void reads_and_writes_by_another_name_keep_the_order(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(reach_in_by_another_name);
}

/* A tensor is written in the middle of the step that is recorded, and not in later ones. */
static void write_in_the_first_step(ig_ctx *ctx, trail *t) {
    ig_tensor *w = ramp(ctx, IG_SHAPE(40, 50), 1, 0.01), *x = ramp(ctx, IG_SHAPE(40, 50), 0, 0.001);
    for (int i = 0; i < TIMES; i++) {
        ig_tensor *y = sum_all(ig_tanh(ig_matmul(w, ig_transpose(w, 0, 1))));
        if (i < 4) must(ig_tensor_fill_uniform(w, -1, 1));
        ig_tensor *z = ig_add(w, x);
        must(ig_assign(w, ig_scale(z, 0.5, 0.1)));
        must(ig_ctx_step_end(ctx));
        trail_put_item(t, y);
    }
    trail_put_tensor(t, w);
    ig_tensor_release(w);
    ig_tensor_release(x);
}

static void a_write_in_the_recorded_step_does_no_harm_to_later_ones(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(write_in_the_first_step);
}

/* Wrapped memory may be another piece at every step, and change between steps. */
static void wrap_again_every_step(ig_ctx *ctx, trail *t) {
    float memory[TIMES][6];
    ig_tensor *w = parameter(ctx, IG_SHAPE(3, 2), "w");
    for (int i = 0; i < TIMES; i++) {
        ig_tensor *x = NULL;
        for (int j = 0; j < 6; j++) memory[i][j] = (float)(i * j) * 0.1f;
        must(ig_tensor_wrap(ctx, (ig_desc){IG_F32, IG_SHAPE(2, 3)}, NULL, memory[i], NULL, NULL,
                            &x));
        ig_tensor *loss = sum_all(ig_tanh(ig_matmul(x, w)));
        ig_tensor_zero_grad(w);
        must(ig_backward(loss));
        must(ig_ctx_step_end(ctx));
        trail_put_item(t, loss);
        trail_put_tensor(t, ig_tensor_grad(w));
        ig_tensor_release(x);
    }
    ig_tensor_release(w);
}

static void wrapped_inputs_may_be_others_every_step(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(wrap_again_every_step);
    trail t = {0};
    const ig_counters c = play((setting){IG_MODE_COMPILED, NULL, 1}, wrap_again_every_step, &t);
    assert_int_equal(c.records, 1);
    assert_int_equal(c.replays, TIMES - 1);
    trail_free(&t);
}

/* ---- tensors that go before the step ends ---- */

/* What happens to wrapped memory when its last name goes. */
static void spoil(void *owner) {
    for (int i = 0; i < 6; i++) ((float *)owner)[i] = -1e30f;
}

static void let_go_early(ig_ctx *ctx, trail *t) {
    float memory[TIMES][6];
    ig_tensor *w = parameter(ctx, IG_SHAPE(3, 2), "w");
    for (int i = 0; i < TIMES; i++) {
        ig_tensor *x = NULL, *y = ramp(ctx, IG_SHAPE(2, 2), i, 0.5);
        const ig_desc desc = {IG_F32, IG_SHAPE(2, 3)};
        for (int j = 0; j < 6; j++) memory[i][j] = (float)(i * j) * 0.1f;
        must(ig_tensor_wrap(ctx, desc, NULL, memory[i], spoil, memory[i], &x));
        ig_tensor *loss = ig_mse(ig_matmul(x, w), y);
        ig_tensor_release(x);
        ig_tensor_release(y);
        ig_tensor_zero_grad(w);
        must(ig_backward(loss));
        for (int k = 0; k < 5; k++) /* others take the places of those that went */
            ig_tensor_release(ramp(ctx, IG_SHAPE(2, 2), 100, 1));
        must(ig_ctx_step_end(ctx));
        trail_put_item(t, loss);
        trail_put_tensor(t, ig_tensor_grad(w));
        assert_true(memory[i][0] == -1e30f); /* it went with the step at the latest */
    }
    ig_tensor_release(w);
}

static void inputs_may_be_released_before_the_step_ends(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(let_go_early);
    trail t = {0};
    const ig_counters c = play((setting){IG_MODE_COMPILED, NULL, 1}, let_go_early, &t);
    assert_int_equal(c.records, 1);
    assert_int_equal(c.replays, TIMES - 1);
    trail_free(&t);
}

static void let_a_parameter_go_early(ig_ctx *ctx, trail *t) {
    ig_tensor *x = ramp(ctx, IG_SHAPE(2, 3), 0, 0.2), *w = parameter(ctx, IG_SHAPE(3, 2), "w");
    for (int i = 0; i < TIMES; i++) {
        ig_tensor *y = ig_tanh(ig_matmul(x, w)), *loss = sum_all(y);
        ig_tensor_zero_grad(w);
        must(ig_backward(loss));
        if (i % 5 == 4) { /* both it and its gradient go */
            ig_tensor_release(w);
            w = parameter(ctx, IG_SHAPE(3, 2), "w");
        }
        must(ig_assign(x, ig_scale(x, 0.9, 0)));
        must(ig_ctx_step_end(ctx));
        trail_put_item(t, loss);
    }
    ig_tensor_release(w);
    ig_tensor_release(x);
}

static void a_parameter_may_be_released_before_the_step_ends(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(let_a_parameter_go_early);
}

/* ---- functions of the program's own ---- */

typedef struct own_op {
    ig_tensor *factor; /* what the gradient is multiplied by; NULL: nothing */
    bool draws;        /* the gradient drops some elements */
    int64_t rows;      /* of the result; 0: as many as it is given */
} own_op;

static ig_status infer_own(void *user, const ig_desc *in, uint32_t n_in, ig_desc *out) {
    const own_op *o = user;
    (void)n_in;
    *out = in[0];
    if (o->rows) out->shape.dim[0] = o->rows;
    return IG_OK;
}

static ig_status run_own(void *user, const ig_custom_operand *in, uint32_t n_in,
                         const ig_custom_operand *out) {
    (void)user, (void)n_in;
    const int64_t from = ig_shape_count(in[0].desc.shape), to = ig_shape_count(out[0].desc.shape);
    for (int64_t i = 0; i < to; i++)
        ((float *)out[0].bytes)[i] = ((const float *)in[0].bytes)[i % from] * 3;
    return IG_OK;
}

static ig_status grad_own(void *user, ig_tensor *const *in, uint32_t n_in, ig_tensor *const *out,
                          ig_tensor *const *dout, ig_tensor **din) {
    const own_op *o = user;
    (void)in, (void)n_in, (void)out;
    din[0] = ig_scale(dout[0], 3, 0);
    if (o->factor) din[0] = ig_mul(din[0], o->factor);
    if (o->draws) din[0] = ig_dropout(din[0], 0.5);
    return IG_OK;
}

static uint32_t register_own(ig_ctx *ctx, own_op *o) {
    uint32_t id = 0;
    const ig_custom_op op = {
        .name = "own", .n_out = 1, .infer = infer_own, .run = run_own, .grad = grad_own, .user = o};
    must(ig_custom_register(ctx, &op, &id));
    return id;
}

static void train_own(ig_ctx *ctx, trail *t, own_op *o, uint32_t id, int steps) {
    ig_tensor *w = parameter(ctx, IG_SHAPE(3, 4), "w"), *x = ramp(ctx, IG_SHAPE(3, 4), 0, 0.1);
    for (int i = 0; i < steps; i++) {
        ig_tensor *before = ig_dropout(ig_mul(w, x), 0.3), *y = NULL;
        ig_custom(ctx, id, &before, 1, &y);
        ig_tensor *loss = sum_all(ig_tanh(y));
        ig_tensor_zero_grad(w);
        must(ig_backward(loss));
        ig_tensor *noise = sum_all(ig_dropout(x, 0.5)); /* drawn after those of the backward */
        must(ig_accumulate(w, ig_scale(ig_tensor_grad(w), 0.1, 0)));
        must(ig_ctx_step_end(ctx));
        trail_put_item(t, loss);
        trail_put_item(t, noise);
        if (o->factor) must(ig_tensor_fill_uniform(o->factor, 0, 1));
    }
    trail_put_tensor(t, w);
    ig_tensor_release(w);
    ig_tensor_release(x);
}

static void use_a_factor_in_the_gradient(ig_ctx *ctx, trail *t) {
    own_op o = {0};
    const uint32_t id = register_own(ctx, &o);
    for (int life = 0; life < 3; life++) {
        o.factor = ramp(ctx, IG_SHAPE(3, 4), 1, 0.5);
        train_own(ctx, t, &o, id, 6);
        ig_tensor_release(o.factor); /* and another one takes its place */
    }
}

static void a_gradient_may_read_a_tensor_that_the_step_does_not_know(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(use_a_factor_in_the_gradient);
}

static void draw_in_the_gradient(ig_ctx *ctx, trail *t) {
    own_op o = {.draws = true};
    train_own(ctx, t, &o, register_own(ctx, &o), TIMES);
}

static void a_gradient_may_draw_random_numbers(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(draw_in_the_gradient);
    trail t = {0};
    const ig_counters c = play((setting){IG_MODE_COMPILED, NULL, 1}, draw_in_the_gradient, &t);
    assert_int_equal(c.records, 1);
    assert_int_equal(c.replays, TIMES - 1);
    trail_free(&t);
}

static void change_the_shape_rule(ig_ctx *ctx, trail *t) {
    own_op o = {0};
    const uint32_t id = register_own(ctx, &o);
    ig_tensor *x = ramp(ctx, IG_SHAPE(3, 4), 0, 0.1);
    for (int i = 0; i < TIMES; i++) {
        ig_tensor *y = NULL, *from = ig_neg(x);
        o.rows = i % 5 == 4 ? 5 : 0;
        ig_custom(ctx, id, &from, 1, &y);
        trail_put(t, (double)ig_tensor_desc(y).shape.dim[0]);
        trail_put_item(t, sum_all(y));
        must(ig_ctx_step_end(ctx));
    }
    ig_tensor_release(x);
}

static void an_own_shape_rule_may_answer_otherwise_later(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(change_the_shape_rule);
}

/* ---- batches beside steps ---- */

static void flush_beside_steps(ig_ctx *ctx, trail *t) {
    enum { N = 64 };
    ig_batch *batch = NULL;
    ig_tensor *a = ramp(ctx, IG_SHAPE(N, N), 0, 0.0001), *b = ramp(ctx, IG_SHAPE(N, N), 1, -0.0001);
    ig_tensor *c = ramp(ctx, IG_SHAPE(N, N), 0, 0), *x = ramp(ctx, IG_SHAPE(N, N), 0, 0.001);
    must(ig_batch_create(ctx, &batch));
    for (int i = 0; i < TIMES; i++) {
        must(ig_tensor_fill_uniform(x, -1, 1));
        ig_tensor *y = ig_matmul(x, b), *sum = sum_all(ig_tanh(y));
        if (i % 4 == 2) must(ig_ctx_step_end(ctx)); /* between two steps, */
        must(ig_batch_begin(batch));
        must(ig_dispatch(batch, "matmul", NULL, (ig_tensor *[]){a, x}, 2, &c, 1));
        must(
            ig_dispatch(batch, "matmul", NULL, (ig_tensor *[]){c, a}, 2, &b, 1)); /* y has read b */
        if (i % 2 == 0) must(ig_batch_flush(batch)); /* or in the middle of one */
        if (i % 4 == 2) trail_put_item(t, sum);
        ig_tensor *z = sum_all(ig_mul(b, b));
        must(ig_ctx_step_end(ctx));
        if (i % 4 != 2) trail_put_item(t, sum);
        trail_put_item(t, z);
    }
    trail_put_tensor(t, b);
    ig_batch_destroy(batch);
    ig_tensor *const all[] = {a, b, c, x};
    for (int i = 0; i < 4; i++) ig_tensor_release(all[i]);
}

static void batches_and_steps_keep_their_order(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(flush_beside_steps);
}

static void look_at_mapped_bytes(ig_ctx *ctx, trail *t) {
    ig_tensor *x = ramp(ctx, IG_SHAPE(2, 3), 0, 0.1), *w = ramp(ctx, IG_SHAPE(2, 3), 0, 0);
    for (int i = 0; i < TIMES; i++) {
        ((float *)ig_tensor_map(x))[i % 6] = (float)i;
        ig_tensor *y = ig_tanh(x);
        const float *bytes = ig_tensor_map(y);
        for (int j = 0; j < 6; j++) trail_put(t, (double)bytes[j]);
        must(ig_accumulate(w, y));
        bytes = ig_tensor_map(w);
        for (int j = 0; j < 6; j++) trail_put(t, (double)bytes[j]);
        must(ig_ctx_step_end(ctx));
    }
    ig_tensor_release(x);
    ig_tensor_release(w);
}

static void mapping_a_result_computes_it(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(look_at_mapped_bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_held_view_sees_what_its_tensor_becomes),
        cmocka_unit_test(a_view_from_before_an_update_sees_it),
        cmocka_unit_test(parts_may_be_overwritten_while_the_whole_is_read),
        cmocka_unit_test(reads_and_writes_by_another_name_keep_the_order),
        cmocka_unit_test(a_write_in_the_recorded_step_does_no_harm_to_later_ones),
        cmocka_unit_test(wrapped_inputs_may_be_others_every_step),
        cmocka_unit_test(inputs_may_be_released_before_the_step_ends),
        cmocka_unit_test(a_parameter_may_be_released_before_the_step_ends),
        cmocka_unit_test(a_gradient_may_read_a_tensor_that_the_step_does_not_know),
        cmocka_unit_test(a_gradient_may_draw_random_numbers),
        cmocka_unit_test(an_own_shape_rule_may_answer_otherwise_later),
        cmocka_unit_test(batches_and_steps_keep_their_order),
        cmocka_unit_test(mapping_a_result_computes_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
