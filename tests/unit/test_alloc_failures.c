/*
 * A whole small training run in which every allocation fails once.
 *
 * The run is repeated with the N-th allocation failing, for N from 1 until none
 * fails any more; and once more with all allocations from the N-th on failing.
 * However it ends, it ends with IG_OK or with IG_ERR_MEMORY and words, and
 * everything that was allocated has been freed.
 */
#include <stdlib.h>

#include "unit/meter.h"

/* ---- the run ---- */

enum { ROWS = 4, WIDTH = 6, CLASSES = 3, STEPS = 3 };

typedef struct net {
    ig_ctx *ctx;
    ig_tensor *x, *ids, *wrapped; /* inputs; the last is `memory` below */
    ig_tensor *w1, *w2, *scale;   /* parameters */
    ig_tensor *mean[2], *variance[2], *momentum;
    uint32_t lr_slot, step_slot, square; /* a custom op */
    float memory[2 * WIDTH];
} net;

static ig_status infer_square(void *user, const ig_desc *in, uint32_t n_in, ig_desc *out) {
    (void)user, (void)n_in;
    *out = in[0];
    return IG_OK;
}

static ig_status run_square(void *user, const ig_custom_operand *in, uint32_t n_in,
                            const ig_custom_operand *out) {
    (void)user, (void)n_in;
    const float *x = in[0].bytes;
    for (int64_t i = 0; i < ig_shape_count(in[0].desc.shape); i++)
        ((float *)out[0].bytes)[i] = x[i] * x[i];
    return IG_OK;
}

static ig_status grad_square(void *user, ig_tensor *const *in, uint32_t n_in, ig_tensor *const *out,
                             ig_tensor *const *dout, ig_tensor **din) {
    (void)user, (void)n_in, (void)out;
    din[0] = ig_mul(ig_scale(in[0], 2, 0), dout[0]);
    return IG_OK;
}

static ig_status make_param(ig_ctx *ctx, ig_shape shape, const char *name, ig_tensor **out) {
    IG_TRY(ig_tensor_create(ctx, (ig_desc){IG_F32, shape}, out));
    IG_TRY(ig_tensor_set_name(*out, name));
    IG_TRY(ig_tensor_fill_normal(*out, 0, 0.5));
    return ig_tensor_require_grad(*out);
}

static ig_status make(net *n) {
    static const int32_t ids[ROWS] = {0, 2, 1, 2};
    const ig_desc input = {IG_F32, IG_SHAPE(ROWS, WIDTH)};
    ig_ctx *ctx = n->ctx;
    IG_TRY(ig_tensor_create(ctx, input, &n->x));
    IG_TRY(ig_tensor_fill_uniform(n->x, -1, 1));
    IG_TRY(ig_tensor_create_from(ctx, (ig_desc){IG_I32, IG_SHAPE(ROWS)}, ids, &n->ids));
    IG_TRY(ig_tensor_wrap(ctx, (ig_desc){IG_F32, IG_SHAPE(WIDTH)}, (int64_t[]){2}, n->memory, NULL,
                          NULL, &n->wrapped));
    IG_TRY(make_param(ctx, IG_SHAPE(WIDTH, WIDTH), "w1", &n->w1));
    IG_TRY(make_param(ctx, IG_SHAPE(CLASSES, WIDTH), "w2", &n->w2));
    IG_TRY(make_param(ctx, IG_SHAPE(WIDTH), "scale", &n->scale));
    for (int i = 0; i < 2; i++) {
        const ig_desc desc = ig_tensor_desc(i ? n->w2 : n->w1);
        IG_TRY(ig_tensor_create(ctx, desc, &n->mean[i]));
        IG_TRY(ig_tensor_create(ctx, desc, &n->variance[i]));
    }
    IG_TRY(ig_tensor_create(ctx, ig_tensor_desc(n->scale), &n->momentum));
    IG_TRY(ig_slot_create(ctx, &n->lr_slot));
    IG_TRY(ig_slot_create(ctx, &n->step_slot));
    return ig_custom_register(ctx,
                              &(ig_custom_op){.name = "square",
                                              .n_out = 1,
                                              .infer = infer_square,
                                              .run = run_square,
                                              .grad = grad_square},
                              &n->square);
}

/* Views, a copy for a reshape, dropout, a custom op on strided input, many inputs, a loss. */
static ig_tensor *forward(const net *n) {
    ig_ctx *ctx = n->ctx;
    ig_tensor *h = ig_tanh(ig_matmul(ig_mul(n->x, n->wrapped), n->w1));
    h = ig_rms_norm(ig_dropout(h, 0.2), n->scale, 1e-5f);
    ig_tensor *turned = ig_transpose(h, 0, 1), *square = NULL;
    ig_custom(ctx, n->square, &turned, 1, &square);
    h = ig_add(
        h, ig_reshape(ig_reshape(ig_transpose(square, 0, 1), IG_SHAPE(-1)), IG_SHAPE(ROWS, WIDTH)));
    ig_tensor *parts[40];
    for (int i = 0; i < 40; i++) parts[i] = ig_slice(h, 1, i % WIDTH, i % WIDTH + 1);
    ig_tensor *joined = ig_concat(parts, 40, 1);
    h = ig_add(h, ig_mean(joined, (int[]){1}, 1, IG_KEEP_DIM));
    return ig_cross_entropy(ig_matmul_with(h, n->w2, (ig_matmul_options){.transpose_b = true}),
                            n->ids);
}

static ig_status update(net *n, int64_t step) {
    const ig_attrs_adamw adamw = {0.9f, 0.999f, 1e-8f, 0.01f, n->lr_slot, n->step_slot};
    ig_tensor *grads[] = {ig_tensor_grad(n->w1), ig_tensor_grad(n->w2), ig_tensor_grad(n->scale)};
    ig_slot_set_real(n->ctx, n->lr_slot, 0.01);
    ig_slot_set_count(n->ctx, n->step_slot, step);
    ig_tensor *norm = ig_global_norm(grads, 3);
    for (int i = 0; i < 3; i++) IG_TRY(ig_clip(grads[i], norm, 0.5f));
    IG_TRY(ig_adamw(n->w1, grads[0], n->mean[0], n->variance[0], adamw));
    IG_TRY(ig_adamw(n->w2, grads[1], n->mean[1], n->variance[1], adamw));
    IG_TRY(ig_sgd(n->scale, grads[2], n->momentum,
                  (ig_attrs_sgd){.momentum = 0.9f, .lr_slot = n->lr_slot}));
    return ig_ctx_step_end(n->ctx);
}

static ig_status train(net *n, double *out_loss) {
    for (int step = 1; step <= STEPS; step++) {
        for (int i = 0; i < 2 * WIDTH; i++) n->memory[i] = (float)(i + step);
        ig_scope_begin(n->ctx);
        ig_tensor *loss = forward(n);
        ig_tensor_zero_grad(n->w1);
        ig_tensor_zero_grad(n->w2);
        ig_tensor_zero_grad(n->scale);
        ig_status status = ig_backward(loss);
        if (status == IG_OK) status = ig_tensor_item(loss, out_loss);
        if (status == IG_OK) status = update(n, step);
        ig_scope_end(n->ctx);
        IG_TRY(status);
    }
    return ig_ctx_step_end(n->ctx);
}

static void unmake(net *n) {
    ig_tensor *const all[] = {n->x,           n->ids,         n->wrapped, n->w1,
                              n->w2,          n->scale,       n->mean[0], n->mean[1],
                              n->variance[0], n->variance[1], n->momentum};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) ig_tensor_release(all[i]);
}

/* `resume`: after a failure, memory is there again and the same context trains on. */
static ig_status run(meter *m, bool resume, double *out_loss) {
    net n = {0};
    const ig_ctx_options options = {
        .threads = 2, .seed = 1, .allocator = {meter_alloc, meter_free, m}};
    ig_status status = ig_ctx_create(&options, &n.ctx);
    if (status != IG_OK) {
        assert_null(n.ctx);
        return status;
    }
    status = make(&n);
    if (status == IG_OK) {
        status = train(&n, out_loss);
        if (status != IG_OK && resume) {
            char words[512] = {0};
            strncpy(words, ig_error_text(), sizeof words - 1);
            m->fail_at = 0;
            must(train(&n, out_loss));
            (void)ig_fail(status, NULL, 0, "%s", words);
        }
    }
    unmake(&n);
    ig_ctx_destroy(n.ctx);
    return status;
}

/* Runs with each allocation failing in turn. */
static void fail_each(bool fail_on, bool resume) {
    meter calm = {0};
    double want = 0, got = 0;
    must(run(&calm, false, &want));
    assert_int_equal(calm.held, 0);
    assert_true(calm.asked > 100);

    for (uint64_t n = 1;; n++) {
        meter m = {.fail_at = n, .fail_on = fail_on};
        (void)ig_fail(IG_OK, NULL, 0, "%s", ""); /* so that old words do not count */
        const ig_status status = run(&m, resume, &got);
        if (m.held != 0) fail_msg("allocation %d fails: %d are not freed", (int)n, (int)m.held);
        if (status != IG_OK && status != IG_ERR_MEMORY)
            fail_msg("allocation %d fails: %s: %s", (int)n, ig_status_text(status),
                     ig_error_text());
        if (status == IG_ERR_MEMORY) assert_true(m.failed && strlen(ig_error_text()) > 3);
        if (status == IG_OK && !(got == want)) fail_msg("allocation %d fails: %g", (int)n, got);
        if (m.failed) continue;
        assert_int_equal(status, IG_OK);
        assert_true(n > calm.asked);
        return;
    }
}

static void a_run_in_which_any_allocation_fails_ends_with_words_and_no_leak(void **state) {
    (void)state;
    fail_each(false, false);
}

static void a_run_in_which_memory_ends_anywhere_ends_with_words_and_no_leak(void **state) {
    (void)state;
    fail_each(true, false);
}

static void a_context_trains_on_when_there_is_memory_again(void **state) {
    (void)state;
    fail_each(true, true);
}

/* When the device is full, what lies unused in the pool goes before an op fails. */
typedef struct budget {
    size_t left;
} budget;

static void *budget_alloc(void *user, size_t bytes, size_t alignment) {
    budget *b = user;
    const size_t rounded = (bytes + alignment - 1) / alignment * alignment + alignment;
    if (rounded > b->left) return NULL;
    char *p = aligned_alloc(alignment, rounded);
    assert_non_null(p);
    *(size_t *)p = rounded;
    b->left -= rounded;
    return p + alignment;
}

static void budget_free(void *user, void *p) {
    char *start = (char *)p - 64; /* the alignment that everything has */
    ((budget *)user)->left += *(size_t *)start;
    free(start);
}

static void unused_memory_is_given_back_before_an_op_fails(void **state) {
    (void)state;
    budget b = {8 << 20};
    ig_ctx *ctx = NULL;
    const ig_ctx_options options = {.threads = 1, .allocator = {budget_alloc, budget_free, &b}};
    must(ig_ctx_create(&options, &ctx));
    for (int64_t elements = 100000; elements < 1500000; elements += 100000) { /* 0.4 to 5.6 MB */
        ig_tensor *t = NULL;
        must(ig_tensor_create(ctx, (ig_desc){IG_F32, IG_SHAPE(elements)}, &t));
        ig_tensor_release(t);
    }
    ig_ctx_destroy(ctx);
    assert_int_equal(b.left, 8 << 20);
}

/* Only an update that has run makes older results stale. */
static void an_update_that_fails_does_not_spoil_the_backward(void **state) {
    (void)state;
    bool failed = true;
    for (uint64_t n = 1; failed; n++) {
        meter m = {0};
        const ig_ctx_options options = {.threads = 1, .allocator = {meter_alloc, meter_free, &m}};
        ig_ctx *ctx = NULL;
        must(ig_ctx_create(&options, &ctx));
        ig_tensor *w = FLOATS(ctx, IG_SHAPE(2), 3, 5), *x = FLOATS(ctx, IG_SHAPE(2), 1, 1);
        must(ig_tensor_require_grad(w));
        ig_tensor *loss = sum_all(ig_mul(w, w));
        m.asked = 0;
        m.fail_at = n;
        const ig_status status = ig_accumulate(w, x);
        m.fail_at = 0;
        failed = status != IG_OK;
        if (failed) {
            assert_int_equal(status, IG_ERR_MEMORY);
            must(ig_backward(loss));
            HOLDS(ig_tensor_grad(w), 6, 10);
        } else {
            refused(ig_backward(loss), IG_ERR_STATE, "was written to");
        }
        ig_tensor_release(x);
        ig_tensor_release(w);
        ig_ctx_destroy(ctx);
        assert_int_equal(m.held, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_in_which_any_allocation_fails_ends_with_words_and_no_leak),
        cmocka_unit_test(a_run_in_which_memory_ends_anywhere_ends_with_words_and_no_leak),
        cmocka_unit_test(a_context_trains_on_when_there_is_memory_again),
        cmocka_unit_test(unused_memory_is_given_back_before_an_op_fails),
        cmocka_unit_test(an_update_that_fails_does_not_spoil_the_backward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
