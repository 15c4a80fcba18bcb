/*
 * A step that is not the recorded one after all, from every event on.
 *
 * The step is a list of stages.  For each stage in turn, some steps do that one
 * differently: another attribute, a read more or less.  What comes
 * out must be what Dynamic mode gives, in the changed step and in those after it.
 */
#include <stdio.h>

#include "unit/nets.h"

enum { STEPS = 14 };

/* A step in the making: the net, and what its stages hand on. */
typedef struct work {
    small_net net;
    trail *t;
    ig_tensor *h, *logits, *loss, *norm;
} work;

typedef void stage(work *w, bool varied);

static void draw_batch(work *w, bool varied) {
    if (!varied) small_next_batch(&w->net);
}

static void clear_gradients(work *w, bool varied) {
    if (!varied) small_zero_grad(&w->net); /* else the next are added to the last */
}

static void multiply(work *w, bool varied) {
    ig_tensor *x = w->net.x;
    w->h = ig_matmul(varied ? ig_neg(x) : x, w->net.w[0]);
}

static void activate(work *w, bool varied) { w->h = varied ? ig_sigmoid(w->h) : ig_tanh(w->h); }

static void drop(work *w, bool varied) { w->h = ig_dropout(w->h, varied ? 0.5 : 0.25); }

static void look_at_h(work *w, bool varied) {
    if (varied) trail_put_tensor(w->t, w->h);
}

static void normalize(work *w, bool varied) {
    w->h = ig_rms_norm(w->h, w->net.w[2], varied ? 1e-2f : 1e-5f);
}

static void look_at_norm_weight(work *w, bool varied) {
    if (!varied) trail_put_tensor(w->t, w->net.w[2]); /* a read that is left out */
}

static void cut_out(work *w, bool varied) {
    w->h = ig_slice(w->h, 0, 0, varied ? SMALL_ROWS - 1 : SMALL_ROWS);
    w->h = ig_pad(w->h, 0, 0, SMALL_ROWS - ig_tensor_desc(w->h).shape.dim[0]);
}

static void take_logits(work *w, bool varied) {
    w->logits = ig_matmul(w->h, w->net.w[1]);
    if (varied) w->logits = ig_scale(w->logits, 2, 0);
}

static void take_loss(work *w, bool varied) {
    w->loss = ig_cross_entropy(w->logits, w->net.y);
    if (varied) w->loss = ig_add(w->loss, ig_mse(w->logits, ig_tanh(w->logits)));
}

static void go_back(work *w, bool varied) {
    if (varied) {
        ig_tensor *more = ig_scale(sum_all(ig_mul(w->net.w[0], w->net.w[0])), 0.01, 0);
        must(ig_backward(ig_add(w->loss, more)));
    } else {
        must(ig_backward(w->loss));
    }
}

static void look_at_loss(work *w, bool varied) {
    trail_put_item(w->t, w->loss);
    if (varied) trail_put_item(w->t, ig_mean(w->logits, NULL, 0, IG_DROP_DIM));
}

static void measure(work *w, bool varied) {
    ig_tensor *grads[SMALL_PARAMS];
    for (int i = 0; i < SMALL_PARAMS; i++) grads[i] = ig_tensor_grad(w->net.w[i]);
    w->norm = ig_global_norm(grads, varied ? 2 : SMALL_PARAMS);
}

static void clip(work *w, bool varied) {
    for (int i = 0; i < SMALL_PARAMS; i++)
        must(ig_clip(ig_tensor_grad(w->net.w[i]), w->norm, varied && i == 1 ? 0.1f : 0.5f));
}

static void look_at_norm(work *w, bool varied) {
    if (varied)
        trail_put_item(w->t, w->norm);
    else
        trail_put_tensor(w->t, ig_tensor_grad(w->net.w[2]));
}

static void update(work *w, bool varied) {
    small_net *n = &w->net;
    ig_slot_set_real(n->ctx, n->rate, 0.05);
    ig_slot_set_count(n->ctx, n->count, ++n->steps);
    for (int i = 0; i < SMALL_PARAMS; i++) {
        const ig_attrs_adamw attrs = {
            varied && i == 2 ? 0.5f : 0.9f, 0.99f, 1e-8f, 0.01f, n->rate, n->count};
        must(ig_adamw(n->w[i], ig_tensor_grad(n->w[i]), n->mean[i], n->variance[i], attrs));
    }
}

static void look_at_weight(work *w, bool varied) {
    if (varied) trail_put_tensor(w->t, w->net.w[1]);
}

static void go_on(work *w, bool varied) {
    ig_no_grad_begin(w->net.ctx);
    ig_tensor *y = small_logits(&w->net, w->net.x, 0);
    if (varied) y = ig_softmax(y, -1);
    trail_put_item(w->t, sum_all(y));
    ig_no_grad_end(w->net.ctx);
}

static stage *const stages[] = {
    draw_batch, clear_gradients,     multiply,    activate,       drop,    look_at_h,    normalize,
    cut_out,    look_at_norm_weight, take_logits, take_loss,      go_back, look_at_loss, measure,
    clip,       look_at_norm,        update,      look_at_weight, go_on,
};
enum { STAGES = sizeof stages / sizeof stages[0] };

/* Steps 0 to 2 are plain, then every fourth is varied: at `first` and at `second` alternately. */
static void run_steps(ig_ctx *ctx, trail *t, int first, int second) {
    work w = {.net = small_make(ctx), .t = t};
    for (int step = 0; step < STEPS; step++) {
        const int varied = step % 4 == 3 ? first : step % 4 == 1 && step > 4 ? second : -1;
        for (int k = 0; k < STAGES; k++) stages[k](&w, k == varied);
        must(ig_ctx_step_end(ctx));
        trail_put_item(t, w.loss);
    }
    small_put(&w.net, t);
    small_unmake(&w.net);
}

static void try_pair(int first, int second, int threads, const char *device) {
    trail trails[3] = {{0}};
    for (ig_mode mode = IG_MODE_DYNAMIC; mode <= IG_MODE_AUTO; mode++) {
        ig_ctx *ctx = NULL;
        char what[64];
        const ig_ctx_options options = {.device = device, .threads = threads, .seed = 5};
        must(ig_ctx_create(&options, &ctx));
        must(ig_mode_set(ctx, mode));
        run_steps(ctx, &trails[mode], first, second);
        snprintf(what, sizeof what, "mode %d, stages %d and %d", (int)mode, first, second);
        trail_must_equal(&trails[mode], &trails[0], what);
        ig_ctx_destroy(ctx);
    }
    for (int i = 0; i < 3; i++) trail_free(&trails[i]);
}

static void a_step_that_differs_in_any_event_is_what_dynamic_gives(void **state) {
    (void)state;
    for (int k = 0; k < STAGES; k++) {
        try_pair(k, -1, 2, NULL);
        try_pair(k, k, 1, "ref");
    }
}

static void steps_that_alternate_in_two_places_equal_dynamic(void **state) {
    (void)state;
    for (int first = 0; first < STAGES; first++)
        for (int second = 0; second < STAGES; second++)
            if (first != second) try_pair(first, second, 1, NULL);
}

/* The step that is recorded first is a longer one, or a shorter one. */
static void end_after(ig_ctx *ctx, trail *t, int longest) {
    small_net n = small_make(ctx);
    for (int i = 0; i < 24; i++) {
        const int length = (i * 5 + longest) % 6;
        ig_tensor *y = n.x;
        small_next_batch(&n);
        for (int k = 0; k <= length; k++) y = ig_tanh(ig_scale(y, 1 + 0.1 * k, 0));
        if (length == 4) must(ig_assign(n.w[0], ig_scale(n.w[0], 0.5, 0)));
        must(ig_ctx_step_end(ctx));
        trail_put_tensor(t, y);
    }
    small_put(&n, t);
    small_unmake(&n);
}

static void ends_long_first(ig_ctx *ctx, trail *t) { end_after(ctx, t, 5); }
static void ends_short_first(ig_ctx *ctx, trail *t) { end_after(ctx, t, 0); }

static void steps_that_are_prefixes_of_each_other_are_distinguished(void **state) {
    (void)state;
    must_be_the_same_in_all_modes(ends_long_first);
    must_be_the_same_in_all_modes(ends_short_first);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_that_differs_in_any_event_is_what_dynamic_gives),
        cmocka_unit_test(steps_that_alternate_in_two_places_equal_dynamic),
        cmocka_unit_test(steps_that_are_prefixes_of_each_other_are_distinguished),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
