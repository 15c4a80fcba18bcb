/* Tensors as callers hold them: made, wrapped, read and written; scopes, and when tensors go. */
#include <math.h>

#include "unit/check.h"

static ig_desc f32(ig_shape shape) { return (ig_desc){IG_F32, shape}; }

/* The context still computes. */
static void assert_usable(ig_ctx *ctx) {
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    HOLDS(ig_add(x, x), 2, 4);
    ig_tensor_release(x);
}

/* ---- converting ---- */

/* There and back through every float type, on the host and on a device with memory of its own. */
static void floats_are_converted_on_their_way_in_and_out(void **state) {
    (void)state;
    static const struct {
        ig_dtype dtype;
        double most_off; /* half of a last bit, beside the number */
    } rows[] = {{IG_F64, 0}, {IG_F32, 0}, {IG_F16, 1.0 / 2048}, {IG_BF16, 1.0 / 256}};
    static const char *const devices[] = {"cpu", "far"};
    for (size_t i = 0; i < 8; i++) {
        ig_ctx *ctx = NULL;
        must(ig_ctx_create(
            &(ig_ctx_options){.device = devices[i % 2], .plugins = TEST_PLUGIN_DIR "/far/far.so"},
            &ctx));
        const float src[] = {1, -2.7182817F, 1.0e-3F, 65000, 0.33333334F, -0.0F};
        float got[6];
        ig_tensor *t = NULL;
        must(ig_tensor_create(ctx, (ig_desc){rows[i / 2].dtype, IG_SHAPE(2, 3)}, &t));
        must(ig_tensor_write_as(t, IG_F32, src, sizeof src));
        must(ig_tensor_read_as(t, IG_F32, got, sizeof got));
        for (int k = 0; k < 6; k++)
            if (fabs((double)got[k] - src[k]) > rows[i / 2].most_off * fabs((double)src[k]))
                fail_msg("%s: %g became %g", ig_dtype_name(rows[i / 2].dtype), (double)src[k],
                         (double)got[k]);
        ig_tensor_release(t);
        ig_ctx_destroy(ctx);
    }
}

static void what_cannot_be_converted_is_refused(void **state) {
    ig_ctx *ctx = *state;
    int32_t whole[2] = {1, 2};
    float two[2] = {1, 2};
    uint16_t f16[2];
    ig_tensor *t = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    refused(ig_tensor_write_as(t, IG_I32, whole, sizeof whole), IG_ERR_UNSUPPORTED, "f32 and i32");
    refused(ig_tensor_read_as(t, IG_Q8_0, whole, sizeof whole), IG_ERR_UNSUPPORTED, "q8_0");
    refused(ig_tensor_read_as(t, (ig_dtype)77, whole, sizeof whole), IG_ERR_UNSUPPORTED, "unknown");
    refused(ig_tensor_read_as(t, IG_F16, f16, 3), IG_ERR_ARGUMENT, "3 bytes; [2] of f16 takes 4");
    refused(ig_tensor_write_as(t, IG_F16, NULL, 4), IG_ERR_ARGUMENT, "the memory is NULL");
    refused(ig_tensor_write_as(NULL, IG_F32, two, sizeof two), IG_ERR_ARGUMENT, "NULL");
    HOLDS(t, 1, 2);
    ig_tensor_release(t);
}

/* ---- making ---- */

static void a_new_tensor_is_zero_though_its_memory_was_used_before(void **state) {
    static const char *const devices[] = {NULL, "null"}; /* the second has memory of its own */
    (void)state;
    for (int i = 0; i < 2; i++) {
        ig_ctx *ctx = NULL;
        must(ig_ctx_create(&(ig_ctx_options){.device = devices[i], .unsafe_device = true}, &ctx));
        ig_tensor *t = FLOATS(ctx, IG_SHAPE(4), 7, 7, 7, 7);
        ig_tensor_release(t);
        must(ig_tensor_create(ctx, f32(IG_SHAPE(4)), &t));
        HOLDS(t, 0, 0, 0, 0);
        ig_tensor_release(t);
        ig_ctx_destroy(ctx);
    }
}

static void shapes_that_cannot_be_are_refused(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *t = NULL;
    const int64_t huge = INT64_C(1) << 40;
    refused(ig_tensor_create(ctx, f32(IG_SHAPE(2, -3)), &t), IG_ERR_SHAPE, "[2,-3] of f32");
    refused(ig_tensor_create(ctx, f32(IG_SHAPE(huge, huge)), &t), IG_ERR_SHAPE,
            "is not a valid size");
    refused(ig_tensor_create(ctx, f32((ig_shape){.rank = 7}), &t), IG_ERR_SHAPE, "rank 7");
    refused(ig_tensor_create(ctx, f32((ig_shape){.rank = -1}), &t), IG_ERR_SHAPE, "rank -1");
    refused(ig_tensor_create(ctx, (ig_desc){(ig_dtype)77, {0}}, &t), IG_ERR_SHAPE, "unknown");
    refused(ig_tensor_create(NULL, f32((ig_shape){0}), &t), IG_ERR_ARGUMENT, "NULL");
    refused(ig_tensor_create(ctx, f32((ig_shape){0}), NULL), IG_ERR_ARGUMENT, "NULL");
    assert_null(t);
    assert_usable(ctx);
}

static void more_memory_than_there_is_is_refused(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *t = NULL;
    refused(ig_tensor_create(ctx, f32(IG_SHAPE(INT64_C(1) << 44)), &t), IG_ERR_MEMORY, "bytes");
    refused(ig_tensor_create(ctx, f32(IG_SHAPE(INT64_C(1) << 60)), &t), IG_ERR_MEMORY, "bytes");
    ig_tensor *wide = ig_full(ctx, f32(IG_SHAPE(INT64_C(1) << 44)), 1); /* takes four bytes */
    must(ig_eval(&wide, 1));
    ig_tensor *copy = ig_copy(wide);
    refused(ig_eval(&copy, 1), IG_ERR_MEMORY, "bytes");
    assert_null(t);
    assert_usable(ctx);
}

/* A limit that the context was given counts on the host and on a device with its own memory; what
 * is only kept for later use goes before anything is refused. */
static void memory_is_capped_and_given_back(void **state) {
    (void)state;
    enum { LIMIT = 1 << 16, MOST = LIMIT / sizeof(float) };
    static const char *const devices[] = {"cpu", "far"};
    for (int i = 0; i < 2; i++) {
        ig_ctx *ctx = NULL;
        must(ig_ctx_create(&(ig_ctx_options){.device = devices[i],
                                             .plugins = TEST_PLUGIN_DIR "/far/far.so",
                                             .memory_bytes = LIMIT},
                           &ctx));
        ig_tensor *t = NULL, *more = NULL;
        must(ig_tensor_create(ctx, f32(IG_SHAPE(MOST / 2)), &t));
        assert_true(ig_report_memory(ctx).available_bytes <= LIMIT);
        refused(ig_tensor_create(ctx, f32(IG_SHAPE(MOST)), &more), IG_ERR_MEMORY, "of 65536 bytes");
        ig_tensor_release(t);
        must(ig_tensor_create(ctx, f32(IG_SHAPE(MOST)), &more)); /* what was kept of t has gone */
        ig_tensor_release(more);
        must(ig_tensor_create(ctx, f32(IG_SHAPE(16)), &t));
        ig_tensor *y = ig_neg(t);
        must(ig_eval(&y, 1));
        ig_tensor_release(t);
        must(ig_ctx_step_end(ctx));
        ig_ctx_release_memory(ctx);
        ig_report_reset_memory(ctx);
        assert_true(ig_report_memory(ctx).allocated_bytes < LIMIT / 2);
        assert_true(ig_report_memory(ctx).peak_bytes < LIMIT / 2);
        ig_ctx_destroy(ctx);
    }
}

static void a_tensor_of_no_elements_is_read_and_written_as_nothing(void **state) {
    ig_tensor *t = NULL;
    must(ig_tensor_create(*state, f32(IG_SHAPE(3, 0)), &t));
    must(ig_tensor_write(t, NULL, 0));
    must(ig_tensor_read(t, NULL, 0));
    must(ig_tensor_read(ig_transpose(t, 0, 1), NULL, 0));
    assert_true(item(sum_all(t)) == 0);
    ig_tensor_release(t);
}

static void a_tensor_has_a_name_if_it_is_given_one(void **state) {
    ig_tensor *t = FLOATS(*state, IG_SHAPE(1), 0);
    char name[] = "embed.weight";
    assert_string_equal(ig_tensor_name(t), "");
    must(ig_tensor_set_name(t, name));
    name[0] = 'x';
    assert_string_equal(ig_tensor_name(t), "embed.weight");
    must(ig_tensor_set_name(t, "other"));
    assert_string_equal(ig_tensor_name(t), "other");
    must(ig_tensor_set_name(t, NULL));
    assert_string_equal(ig_tensor_name(t), "");
    assert_string_equal(ig_tensor_name(NULL), "");
    ig_tensor_release(t);
}

/* ---- reading and writing ---- */

static void bytes_that_do_not_match_are_refused_with_both_numbers(void **state) {
    float out[8] = {0};
    ig_tensor *t = FLOATS(*state, IG_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    refused(ig_tensor_read(t, out, 20), IG_ERR_ARGUMENT, "read: 20 bytes; [2,3] of f32 takes 24");
    refused(ig_tensor_read(t, out, 32), IG_ERR_ARGUMENT, "read: 32 bytes");
    refused(ig_tensor_read(t, NULL, 24), IG_ERR_ARGUMENT, "NULL");
    refused(ig_tensor_write(t, out, 4), IG_ERR_ARGUMENT, "write: 4 bytes; [2,3] of f32 takes 24");
    refused(ig_tensor_write(t, NULL, 24), IG_ERR_ARGUMENT, "NULL");
    assert_true(out[0] == 0);
    HOLDS(t, 1, 2, 3, 4, 5, 6);
    ig_tensor_release(t);
}

static void views_are_read_row_by_row(void **state) {
    ig_tensor *t = FLOATS(*state, IG_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    HOLDS(ig_transpose(t, 0, 1), 1, 4, 2, 5, 3, 6);
    HOLDS(ig_slice(t, 1, 1, 3), 2, 3, 5, 6);
    HOLDS(ig_slice(ig_transpose(t, 0, 1), 0, 1, 3), 2, 5, 3, 6);
    HOLDS(ig_broadcast(ig_slice(t, 0, 1, 2), IG_SHAPE(2, 3)), 4, 5, 6, 4, 5, 6);
    HOLDS(ig_reshape(ig_transpose(t, 0, 1), IG_SHAPE(-1)), 1, 4, 2, 5, 3, 6);
    HOLDS(ig_slice(ig_slice(t, 0, 1, 2), 1, 2, 3), 6);
    ig_tensor_release(t);
}

static void results_of_ops_cannot_be_overwritten(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *t = FLOATS(ctx, IG_SHAPE(2), 1, 2), *y = ig_add(t, t);
    refused(ig_tensor_write(y, (float[]){0, 0}, 8), IG_ERR_ARGUMENT, "result of an op");
    refused(ig_tensor_write(ig_slice(t, 0, 0, 1), (float[]){0}, 4), IG_ERR_ARGUMENT, "write");
    refused(ig_assign(y, t), IG_ERR_ARGUMENT, "assign: the result of an op");
    refused(ig_tensor_fill_uniform(y, 0, 1), IG_ERR_ARGUMENT, "result of an op");
    HOLDS(y, 2, 4);
    HOLDS(t, 1, 2);
    ig_tensor_release(t);
}

static void an_item_is_the_one_element_there_is(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *t = FLOATS(ctx, IG_SHAPE(2, 3), 1, 2, 3, 4, 5, 6);
    ig_tensor *i = INTS(ctx, IG_SHAPE(1, 1), -7);
    double x = 99;
    assert_true(item(ig_slice(ig_slice(t, 0, 1, 2), 1, 1, 2)) == 5);
    assert_true(item(i) == -7);
    assert_true(item(ig_full(ctx, (ig_desc){IG_F64, {0}}, 0.1)) == 0.1);
    refused(ig_tensor_item(t, &x), IG_ERR_SHAPE, "item: [2,3]");
    refused(ig_tensor_item(ig_slice(t, 0, 0, 0), &x), IG_ERR_SHAPE, "item: [0,3]");
    refused(ig_tensor_item(ig_full(ctx, (ig_desc){IG_BF16, {0}}, 1), &x), IG_ERR_UNSUPPORTED,
            "item: bf16: cast it to f32");
    assert_true(x == 99);
    ig_tensor_release(t);
    ig_tensor_release(i);
}

/* ---- memory of the caller ---- */

static void count_release(void *owner) { ++*(int *)owner; }

static void wrapped_memory_is_read_where_its_strides_say(void **state) {
    float memory[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    ig_tensor *t = NULL;
    must(ig_tensor_wrap(*state, f32(IG_SHAPE(2, 3)), (int64_t[]){6, 2}, memory, NULL, NULL, &t));
    HOLDS(t, 0, 2, 4, 6, 8, 10);
    HOLDS(ig_add(t, t), 0, 4, 8, 12, 16, 20);
    HOLDS(ig_transpose(t, 0, 1), 0, 6, 2, 8, 4, 10);
    ig_tensor_release(t);
    must(ig_tensor_wrap(*state, f32(IG_SHAPE(3)), NULL, memory, NULL, NULL, &t));
    HOLDS(ig_scale(t, 10, 0), 0, 10, 20);
    ig_tensor_release(t);
    must(
        ig_tensor_wrap(*state, f32(IG_SHAPE(2, 2)), (int64_t[]){0, 1}, memory + 4, NULL, NULL, &t));
    HOLDS(ig_neg(t), -4, -5, -4, -5);
    ig_tensor_release(t);
}

static void what_the_owner_writes_between_steps_is_seen(void **state) {
    ig_ctx *ctx = *state;
    float memory[3] = {1, 2, 3};
    ig_tensor *t = NULL, *w = FLOATS(ctx, IG_SHAPE(3), 1, 1, 1);
    must(ig_tensor_require_grad(w));
    must(ig_tensor_wrap(ctx, f32(IG_SHAPE(3)), NULL, memory, NULL, NULL, &t));
    for (int step = 0; step < 5; step++) {
        for (int i = 0; i < 3; i++) memory[i] = (float)(10 * step + i);
        ig_tensor *loss = sum_all(ig_mul(w, t));
        assert_true(item(loss) == 30 * step + 3);
        ig_tensor_zero_grad(w);
        must(ig_backward(loss));
        HOLDS(ig_tensor_grad(w), memory[0], memory[1], memory[2]);
        must(ig_ctx_step_end(ctx));
    }
    ig_tensor_release(t);
    ig_tensor_release(w);
}

static void writing_to_wrapped_memory_leaves_the_gaps_alone(void **state) {
    float memory[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    const float want[8] = {-1, 1, 2, -2, 4, 5, -3, 7};
    ig_tensor *t = NULL;
    must(ig_tensor_wrap(*state, f32(IG_SHAPE(3)), (int64_t[]){3}, memory, NULL, NULL, &t));
    must(ig_tensor_write(t, (float[]){-1, -2, -3}, 12));
    assert_memory_equal(memory, want, sizeof want);
    must(ig_accumulate(t, t));
    assert_true(memory[3] == -4 && memory[4] == 4);
    ig_tensor_release(t);
}

static void the_owner_is_notified_once_when_the_last_reference_goes(void **state) {
    ig_ctx *ctx = *state;
    float memory[4] = {1, 2, 3, 4};
    int released = 0;
    ig_tensor *t = NULL;
    must(ig_tensor_wrap(ctx, f32(IG_SHAPE(2, 2)), NULL, memory, count_release, &released, &t));
    ig_scope_begin(ctx);
    ig_tensor *view = ig_tensor_retain(ig_transpose(t, 0, 1));
    ig_tensor *copy = ig_tensor_retain(ig_copy(t));
    ig_scope_end(ctx);
    ig_tensor_release(t);
    assert_int_equal(released, 0); /* the view still shows the memory */
    HOLDS(view, 1, 3, 2, 4);
    ig_tensor_release(view);
    assert_int_equal(released, 1);
    ig_tensor_release(copy);
    assert_int_equal(released, 1);
}

static void the_owner_is_notified_even_if_the_context_goes_first(void **state) {
    (void)state;
    float memory[2] = {1, 2};
    int released = 0;
    ig_ctx *ctx = NULL;
    ig_tensor *t = NULL;
    must(ig_ctx_create(NULL, &ctx));
    must(ig_tensor_wrap(ctx, f32(IG_SHAPE(2)), NULL, memory, count_release, &released, &t));
    (void)ig_reshape(t, IG_SHAPE(2, 1));
    ig_ctx_destroy(ctx);
    assert_int_equal(released, 1);
}

static void a_tensor_moves_into_memory_that_it_adopts(void **state) {
    ig_ctx *ctx = *state;
    float memory[3] = {4, 5, 6};
    int released = 0;
    ig_tensor *t = NULL;
    must(ig_tensor_create_from(ctx, f32(IG_SHAPE(3)), (float[]){1, 2, 3}, &t));
    const uint64_t before = ig_report_memory(ctx).allocated_bytes;
    must(ig_tensor_adopt(t, memory, count_release, &released));
    assert_true(ig_report_memory(ctx).allocated_bytes < before);
    HOLDS(ig_scale(t, 2, 0), 8, 10, 12);
    must(ig_tensor_write(t, (float[]){7, 8, 9}, 12));
    assert_true(memory[2] == 9);
    refused(ig_tensor_adopt(ig_neg(t), memory, count_release, &released), IG_ERR_ARGUMENT, "view");
    refused(ig_tensor_adopt(t, (char *)memory + 1, count_release, &released), IG_ERR_ARGUMENT,
            "multiple of 4");
    assert_int_equal(released, 0);
    must(ig_ctx_step_end(ctx));
    ig_tensor_release(t);
    must(ig_ctx_step_end(ctx));
    assert_int_equal(released, 1);
}

static void weights_that_a_file_will_bring_are_not_drawn(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *first = NULL, *second = NULL;
    float drawn[2][2];
    must(ig_tensor_create(ctx, f32(IG_SHAPE(2)), &first));
    ig_no_init_begin(ctx);
    must(ig_tensor_fill_normal(first, 0, 1));
    ig_no_init_end(ctx);
    HOLDS(first, 0, 0);
    must(ig_tensor_fill_normal(first, 0, 1)); /* the second draw of the context, */
    must(ig_tensor_read(first, drawn[0], sizeof drawn[0]));

    ig_ctx *other = NULL;
    must(ig_ctx_create(&(ig_ctx_options){.seed = ig_ctx_seed(ctx)}, &other));
    must(ig_tensor_create(other, f32(IG_SHAPE(2)), &second));
    for (int i = 0; i < 2; i++) must(ig_tensor_fill_normal(second, 0, 1)); /* as here */
    must(ig_tensor_read(second, drawn[1], sizeof drawn[1]));
    assert_memory_equal(drawn[0], drawn[1], sizeof drawn[0]);
    ig_tensor_release(first);
    ig_tensor_release(second);
    ig_ctx_destroy(other);
}

static void memory_that_cannot_be_wrapped_stays_its_owner_s(void **state) {
    ig_ctx *ctx = *state;
    float memory[4] = {0};
    int told = 0;
    ig_tensor *t = NULL;
    const ig_desc four = f32(IG_SHAPE(2, 2));
    void (*release)(void *) = count_release;
    refused(ig_tensor_wrap(ctx, four, (int64_t[]){2, -1}, memory, release, &told, &t),
            IG_ERR_ARGUMENT, "stride 1 is -1");
    refused(ig_tensor_wrap(ctx, four, (int64_t[]){INT64_MAX / 2, 1}, memory, release, &told, &t),
            IG_ERR_ARGUMENT, "tensor_wrap: ");
    refused(ig_tensor_wrap(ctx, f32(IG_SHAPE(5)), (int64_t[]){INT64_MAX / 2}, memory, release,
                           &told, &t),
            IG_ERR_ARGUMENT, "tensor_wrap: ");
    refused(ig_tensor_wrap(ctx, four, NULL, (char *)memory + 1, release, &told, &t),
            IG_ERR_ARGUMENT, "tensor_wrap: ");
    refused(ig_tensor_wrap(ctx, four, NULL, NULL, release, &told, &t), IG_ERR_ARGUMENT, "NULL");
    refused(ig_tensor_wrap(ctx, f32(IG_SHAPE(-1)), NULL, memory, release, &told, &t), IG_ERR_SHAPE,
            "tensor_wrap");
    assert_int_equal(told, 0);
    assert_null(t);
}

/* ---- updates of what shows the same memory ---- */

/* Half of the elements would be read after they were overwritten. */
static void a_view_of_what_is_overwritten_must_be_copied_first(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *t = FLOATS(ctx, IG_SHAPE(2, 2), 1, 2, 3, 4);
    refused(ig_assign(t, ig_transpose(t, 0, 1)), IG_ERR_ARGUMENT,
            "assign: input 1 is a view of what is overwritten");
    ig_tensor *turned = ig_tensor_retain(ig_transpose(t, 0, 1));
    must(ig_ctx_step_end(ctx));
    refused(ig_accumulate(t, turned), IG_ERR_ARGUMENT, "ig_copy() it first"); /* of another step */
    HOLDS(t, 1, 2, 3, 4);

    must(ig_assign(t, ig_copy(turned)));
    HOLDS(t, 1, 3, 2, 4);
    must(ig_assign(t, t)); /* in the same order nothing is read too late */
    must(ig_accumulate(t, ig_reshape(t, IG_SHAPE(2, 2))));
    HOLDS(t, 2, 6, 4, 8);
    ig_tensor_release(turned);
    ig_tensor_release(t);
}

/* ---- scopes ---- */

static void assert_gone(ig_tensor *t) {
    float out[4];
    refused(ig_tensor_read(t, out, sizeof out), IG_ERR_STATE, "released with its scope or step");
}

static void results_go_with_their_scope(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    ig_scope_begin(ctx);
    ig_tensor *outer = ig_neg(x);
    ig_scope_begin(ctx);
    ig_tensor *inner = ig_neg(outer), *kept = ig_tensor_retain(ig_neg(inner));
    ig_scope_end(ctx);
    assert_gone(inner);
    HOLDS(outer, -1, -2);
    HOLDS(kept, -1, -2);
    HOLDS(ig_add(outer, kept), -2, -4);
    ig_scope_end(ctx);
    assert_gone(outer);
    HOLDS(kept, -1, -2);
    HOLDS(x, 1, 2); /* callers' own tensors are no scope's */
    ig_tensor_release(kept);
    assert_gone(kept);
    ig_tensor_release(x);
}

static void a_view_keeps_the_memory_that_it_shows(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(4), 1, 2, 3, 4);
    ig_scope_begin(ctx);
    ig_tensor *view = ig_tensor_retain(ig_slice(ig_neg(x), 0, 1, 3));
    ig_scope_end(ctx);
    for (int i = 0; i < 10; i++) (void)ig_scale(x, i, 0); /* would take the memory again */
    HOLDS(view, -2, -3);
    ig_tensor_release(view);
    ig_tensor_release(x);
}

static void outside_of_scopes_results_go_when_the_next_step_begins(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 2);
    ig_tensor *y = ig_neg(x), *kept = ig_tensor_retain(ig_scale(x, 3, 0));
    HOLDS(y, -1, -2);
    must(ig_ctx_step_end(ctx));
    HOLDS(y, -1, -2); /* the step has ended, the next has not begun */
    ig_tensor *z = ig_neg(x);
    assert_gone(y);
    HOLDS(kept, 3, 6);
    HOLDS(z, -1, -2);
    ig_tensor_release(kept);
    ig_tensor_release(x);
}

static void scopes_leave_results_from_outside_alone(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 2), *y = ig_neg(x);
    for (int i = 0; i < 3; i++) {
        ig_scope_begin(ctx);
        HOLDS(ig_neg(y), 1, 2);
        ig_scope_end(ctx);
    }
    HOLDS(y, -1, -2);
    ig_tensor_release(x);
}

static void a_scope_that_was_not_begun_cannot_end(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 2), *y = ig_neg(x);
    ig_scope_end(ctx);
    ig_scope_end(ctx);
    HOLDS(y, -1, -2);
    ig_scope_begin(NULL);
    ig_scope_end(NULL);
    ig_tensor_release(x);
    assert_usable(ctx);
}

static void scopes_nest_a_thousand_deep(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(1), 0);
    ig_tensor *y = x;
    for (int i = 0; i < 1000; i++) {
        ig_scope_begin(ctx);
        y = ig_scale(y, 1, 1);
    }
    HOLDS(y, 1000);
    for (int i = 0; i < 1000; i++) ig_scope_end(ctx);
    assert_int_equal(ig_report_counters(ctx).tensors, 1);
    ig_tensor_release(x);
}

static void a_scope_s_reference_is_not_the_caller_s_to_release(void **state) {
    ig_ctx *ctx = *state;
    ig_tensor *x = FLOATS(ctx, IG_SHAPE(2), 1, 2), *y = ig_neg(x);
    for (int i = 0; i < 3; i++) ig_tensor_release(y);
    HOLDS(y, -1, -2);
    assert_ptr_equal(ig_tensor_retain(y), y);
    ig_tensor_release(y);
    HOLDS(y, -1, -2);
    ig_tensor_release(NULL);
    assert_null(ig_tensor_retain(NULL));
    ig_tensor_release(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_are_converted_on_their_way_in_and_out),
        TEST_WITH_CTX(what_cannot_be_converted_is_refused),
        cmocka_unit_test(memory_is_capped_and_given_back),
        cmocka_unit_test(a_new_tensor_is_zero_though_its_memory_was_used_before),
        TEST_WITH_CTX(shapes_that_cannot_be_are_refused),
        TEST_WITH_CTX(more_memory_than_there_is_is_refused),
        TEST_WITH_CTX(a_tensor_of_no_elements_is_read_and_written_as_nothing),
        TEST_WITH_CTX(a_tensor_has_a_name_if_it_is_given_one),
        TEST_WITH_CTX(bytes_that_do_not_match_are_refused_with_both_numbers),
        TEST_WITH_CTX(views_are_read_row_by_row),
        TEST_WITH_CTX(results_of_ops_cannot_be_overwritten),
        TEST_WITH_CTX(an_item_is_the_one_element_there_is),
        TEST_WITH_CTX(wrapped_memory_is_read_where_its_strides_say),
        TEST_WITH_CTX(what_the_owner_writes_between_steps_is_seen),
        TEST_WITH_CTX(writing_to_wrapped_memory_leaves_the_gaps_alone),
        TEST_WITH_CTX(the_owner_is_notified_once_when_the_last_reference_goes),
        cmocka_unit_test(the_owner_is_notified_even_if_the_context_goes_first),
        TEST_WITH_CTX(a_tensor_moves_into_memory_that_it_adopts),
        TEST_WITH_CTX(weights_that_a_file_will_bring_are_not_drawn),
        TEST_WITH_CTX(memory_that_cannot_be_wrapped_stays_its_owner_s),
        TEST_WITH_CTX(a_view_of_what_is_overwritten_must_be_copied_first),
        TEST_WITH_CTX(results_go_with_their_scope),
        TEST_WITH_CTX(a_view_keeps_the_memory_that_it_shows),
        TEST_WITH_CTX(outside_of_scopes_results_go_when_the_next_step_begins),
        TEST_WITH_CTX(scopes_leave_results_from_outside_alone),
        TEST_WITH_CTX(a_scope_that_was_not_begun_cannot_end),
        TEST_WITH_CTX(scopes_nest_a_thousand_deep),
        TEST_WITH_CTX(a_scope_s_reference_is_not_the_caller_s_to_release),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
