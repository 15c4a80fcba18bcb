#include "unit/nets.h"

#include "cli/bench/workload.h"

/* A rate that rises, then falls: no two steps have the same. */
static double rate_at(int step) { return 0.02 * (1 + step % 10) / (5 + step); }

static void put_params(trail *t, const ig_module *module) {
    for (size_t i = 0; i < ig_module_param_count(module); i++) {
        const ig_param param = ig_module_param(module, i);
        trail_name(t, "%s", param.path);
        trail_put_tensor(t, param.tensor);
    }
}

/* ---- char-mlp ---- */

void train_char_mlp(ig_ctx *ctx, trail *t) {
    ig_workload *w = NULL;
    must(ig_workload_create(&ig_workload_char_mlp, ctx, (ig_workload_sizes){.batch = 32}, &w));
    for (int i = 0; i < NET_STEPS; i++) {
        double loss = 0;
        ig_optimizer_set_lr(w->optimizer, rate_at(i));
        must(ig_workload_next_batch(w));
        must(ig_workload_step(w, &loss));
        trail_name(t, "loss of step %d", i);
        trail_put(t, loss);
    }
    put_params(t, w->model);
    ig_workload_destroy(w);
}

/* ---- an op of one's own ---- */

static ig_status infer_square(void *user, const ig_desc *in, uint32_t n_in, ig_desc *out) {
    (void)user, (void)n_in;
    *out = in[0];
    return IG_OK;
}

static ig_status run_square(void *user, const ig_custom_operand *in, uint32_t n_in,
                            const ig_custom_operand *out) {
    (void)user, (void)n_in;
    const float *x = in[0].bytes;
    float *y = out[0].bytes;
    for (int64_t i = 0; i < ig_shape_count(in[0].desc.shape); i++) y[i] = x[i] * x[i];
    return IG_OK;
}

/* dx = 2 x dy */
static ig_status grad_square(void *user, ig_tensor *const *in, uint32_t n_in, ig_tensor *const *out,
                             ig_tensor *const *dout, ig_tensor **din) {
    (void)user, (void)n_in, (void)out;
    din[0] = ig_mul(ig_scale(in[0], 2, 0), dout[0]);
    return IG_OK;
}

uint32_t register_square(ig_ctx *ctx) {
    uint32_t id = 0;
    const ig_custom_op op = {.name = "square",
                             .n_out = 1,
                             .infer = infer_square,
                             .run = run_square,
                             .grad = grad_square};
    must(ig_custom_register(ctx, &op, &id));
    return id;
}

ig_tensor *square(ig_ctx *ctx, uint32_t id, ig_tensor *x) {
    ig_tensor *y = NULL;
    ig_custom(ctx, id, &x, 1, &y);
    return y;
}

/* ---- every op ---- */

enum { BATCH = 4, LENGTH = 12, WIDTH = 32, HEADS = 4, GROUPS = 2, HEAD = 8, SYMBOLS = 19 };
enum { QKV = (HEADS + 2 * GROUPS) * HEAD, INNER = 96 };

typedef struct every {
    ig_ctx *ctx;
    ig_module *module;
    ig_tensor *table, *ln_w, *ln_b, *qkv_w, *qkv_b, *proj, *rms_w, *gate, *up, *down, *factors;
    ig_tensor *ids, *targets, *positions, *shuffle, *places, *noise; /* inputs */
    uint32_t square;
} every;

static void param(every *e, const char *name, ig_shape shape, double mean, ig_tensor **out) {
    must(ig_module_add_param(e->module, name, (ig_desc){IG_F32, shape}, out));
    must(ig_tensor_fill_normal(*out, mean, 0.25));
}

static void integers(every *e, ig_shape shape, ig_tensor **out) {
    must(ig_tensor_create(e->ctx, (ig_desc){IG_I32, shape}, out));
}

static void write_integers(ig_tensor *t, int step, int factor, int below) {
    int32_t all[BATCH * LENGTH * WIDTH];
    const size_t count = (size_t)ig_shape_count(ig_tensor_desc(t).shape);
    assert_true(count <= sizeof all / sizeof all[0]);
    for (size_t i = 0; i < count; i++)
        all[i] = (int32_t)((i * (size_t)factor + i / 7 + (size_t)step * 5) % (size_t)below);
    must(ig_tensor_write(t, all, count * sizeof all[0]));
}

static void make_every(every *e) {
    must(ig_module_create(e->ctx, NULL, NULL, &e->module));
    param(e, "table", IG_SHAPE(SYMBOLS, WIDTH), 0, &e->table);
    param(e, "ln_w", IG_SHAPE(WIDTH), 1, &e->ln_w);
    param(e, "ln_b", IG_SHAPE(WIDTH), 0, &e->ln_b);
    param(e, "qkv_w", IG_SHAPE(QKV, WIDTH), 0, &e->qkv_w);
    param(e, "qkv_b", IG_SHAPE(QKV), 0, &e->qkv_b);
    param(e, "proj", IG_SHAPE(HEADS * HEAD, WIDTH), 0, &e->proj);
    param(e, "rms_w", IG_SHAPE(WIDTH), 1, &e->rms_w);
    param(e, "gate", IG_SHAPE(WIDTH, INNER), 0, &e->gate);
    param(e, "up", IG_SHAPE(WIDTH, INNER), 0, &e->up);
    param(e, "down", IG_SHAPE(INNER, WIDTH), 0, &e->down);
    param(e, "factors", IG_SHAPE(1, WIDTH), 2, &e->factors);
    integers(e, IG_SHAPE(BATCH, LENGTH), &e->ids);
    integers(e, IG_SHAPE(BATCH, LENGTH), &e->targets);
    integers(e, IG_SHAPE(LENGTH), &e->positions);
    integers(e, IG_SHAPE(BATCH, LENGTH, 5), &e->shuffle);
    integers(e, IG_SHAPE(BATCH, LENGTH, 3), &e->places);
    must(ig_tensor_create(e->ctx, (ig_desc){IG_F32, IG_SHAPE(BATCH, LENGTH, 3)}, &e->noise));
    e->square = register_square(e->ctx);
}

/* [b, t, from..to) -> [b, t, heads, HEAD] */
static ig_tensor *heads(ig_tensor *x, int64_t from, int64_t count) {
    x = ig_slice(x, -1, from * HEAD, (from + count) * HEAD);
    return ig_reshape(x, IG_SHAPE(BATCH, LENGTH, count, HEAD));
}

static ig_tensor *attend(const every *e, ig_tensor *x) {
    const ig_rope_options interleaved = {0}, neox = {.type = IG_ROPE_NEOX, .rotary_dims = 4};
    x = ig_layer_norm(x, e->ln_w, e->ln_b, 1e-5f);
    x = ig_matmul_with(x, e->qkv_w, (ig_matmul_options){.transpose_b = true, .bias = e->qkv_b});
    ig_tensor *q = ig_rope(heads(x, 0, HEADS), e->positions, interleaved);
    ig_tensor *k = ig_rope(heads(x, HEADS, GROUPS), e->positions, neox);
    ig_tensor *v = heads(x, HEADS + GROUPS, GROUPS);
    x = ig_attention(q, k, v, (ig_attention_options){.causal = true});
    x = ig_reshape(x, IG_SHAPE(BATCH, LENGTH, HEADS * HEAD));
    return ig_dropout(ig_matmul(x, e->proj), 0.2);
}

static ig_tensor *feed_forward(const every *e, ig_tensor *x) {
    x = ig_rms_norm(x, e->rms_w, 1e-6f);
    ig_tensor *y =
        ig_mul(ig_silu(ig_matmul(x, e->gate)), ig_gelu(ig_matmul(x, e->up), IG_GELU_ERF));
    y = ig_add(y, ig_gelu(ig_relu(y), IG_GELU_TANH));
    return ig_matmul(ig_dropout(y, 0.1), e->down);
}

/* What is left of op.def, on [b, t, WIDTH]. */
static ig_tensor *odds_and_ends(const every *e, ig_tensor *x) {
    ig_tensor *turned = ig_transpose(ig_transpose(x, 1, 2), 1, 2); /* as it was */
    ig_tensor *soft = ig_softmax(ig_scale(turned, 0.5, 0), 1);
    ig_tensor *logs = ig_log_softmax(x, -1);
    ig_tensor *some = ig_gather(soft, e->shuffle, -1);                 /* [b, t, 5] */
    ig_tensor *spread = ig_scatter_add(logs, e->places, e->noise, -1); /* [b, t, WIDTH] */
    ig_tensor *wide = ig_broadcast(e->factors, IG_SHAPE(BATCH, LENGTH, WIDTH));
    ig_tensor *y = ig_div(ig_sub(spread, soft), ig_softplus(wide));
    y = ig_add(y, ig_sigmoid(ig_neg(x)));
    y = ig_mul(y, ig_sqrt(ig_scale(ig_exp(ig_tanh(x)), 1, 0.25)));
    y = ig_sub(y, ig_max(y, (int[]){-1}, 1, IG_KEEP_DIM));
    y = ig_add(y, ig_log(ig_scale(square(e->ctx, e->square, x), 1, 1)));
    ig_tensor *parts[] = {ig_slice(y, -1, 0, 7), some, ig_pad(ig_slice(y, -1, 7, 20), -1, 3, 4)};
    y = ig_copy(ig_concat(parts, 3, -1)); /* 7 + 5 + 20 */
    ig_tensor *mask = ig_mul(ig_positive(x), ig_equal(ig_relu(x), x));
    return ig_add(ig_mul(y, mask), ig_cast(ig_cast(y, IG_BF16), IG_F32));
}

static ig_tensor *loss_of(const every *e) {
    ig_tensor *x = ig_embedding(e->table, e->ids);
    x = ig_add(x, attend(e, x));
    x = ig_add(x, feed_forward(e, x));
    ig_tensor *y = odds_and_ends(e, x);
    ig_tensor *logits = ig_matmul_with(x, e->table, (ig_matmul_options){.transpose_b = true});
    ig_tensor *entropy = ig_cross_entropy(logits, e->targets);
    ig_tensor *mean = ig_mean(x, (int[]){0}, 1, IG_KEEP_DIM);
    ig_tensor *apart =
        ig_mse(ig_scale(y, 0.1, 0), ig_broadcast(mean, IG_SHAPE(BATCH, LENGTH, WIDTH)));
    return ig_add(entropy, ig_scale(ig_add(apart, ig_mean(y, NULL, 0, IG_DROP_DIM)), 0.01, 0));
}

static void unmake_every(every *e) {
    ig_tensor *const inputs[] = {e->ids, e->targets, e->positions, e->shuffle, e->places, e->noise};
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) ig_tensor_release(inputs[i]);
    ig_module_destroy(e->module);
}

void train_every_op(ig_ctx *ctx, trail *t) {
    every e = {.ctx = ctx};
    ig_optimizer *opt = NULL;
    make_every(&e);
    must(ig_adamw_create(e.module, &(ig_adamw_options){.weight_decay = 0.1}, &opt));
    write_integers(e.positions, 0, 1, 1000);
    for (int i = 0; i < NET_STEPS; i++) {
        write_integers(e.ids, i, 3, SYMBOLS);
        write_integers(e.targets, i + 1, 3, SYMBOLS);
        write_integers(e.shuffle, i, 11, WIDTH);
        write_integers(e.places, i, 5, WIDTH + 2); /* some point nowhere */
        must(ig_tensor_fill_uniform(e.noise, -1, 1));
        ig_optimizer_set_lr(opt, rate_at(i));
        ig_optimizer_zero_grad(opt);
        ig_tensor *loss = loss_of(&e);
        must(ig_backward(loss));
        ig_tensor *norm = ig_optimizer_clip_grad_norm(opt, 0.5);
        must(ig_optimizer_step(opt));
        trail_name(t, "loss and norm of step %d", i);
        trail_put_item(t, loss);
        trail_put_item(t, norm);
    }
    put_params(t, e.module);
    ig_optimizer_destroy(opt);
    unmake_every(&e);
}

/* ---- momentum, and an op of one's own between two layers ---- */

static void add_linear(ig_ctx *ctx, ig_module *to, const char *name, int64_t n_in, int64_t n_out) {
    ig_module *child = NULL;
    must(ig_linear_create(ctx, n_in, n_out, NULL, &child));
    must(ig_module_add(to, name, child));
}

void train_by_sgd(ig_ctx *ctx, trail *t) {
    const ig_sgd_options options = {.momentum = 0.9, .weight_decay = 0.01, .nesterov = true};
    ig_module *net = NULL, *drop = NULL;
    ig_optimizer *opt = NULL;
    ig_tensor *x = ramp(ctx, IG_SHAPE(33, 40), -1, 0.0015),
              *y = ramp(ctx, IG_SHAPE(33, 3), 0, 0.01);
    must(ig_sequential_create(ctx, &net));
    add_linear(ctx, net, "in", 40, 65);
    must(ig_dropout_create(ctx, 0.25, &drop));
    must(ig_module_add(net, "drop", drop));
    add_linear(ctx, net, "out", 65, 3);
    must(ig_sgd_create(net, &options, &opt));
    for (int i = 0; i < NET_STEPS; i++) {
        must(ig_tensor_fill_normal(x, 0, 1));
        ig_optimizer_set_lr(opt, rate_at(i));
        ig_optimizer_zero_grad(opt);
        ig_tensor *loss = ig_mse(ig_module_call(net, x), y);
        must(ig_backward(loss));
        ig_tensor *norm = ig_optimizer_clip_grad_norm(opt, 0.3);
        must(ig_optimizer_step(opt));
        trail_name(t, "loss and norm of step %d", i);
        trail_put_item(t, loss);
        trail_put_item(t, norm);
    }
    put_params(t, net);
    ig_optimizer_destroy(opt);
    ig_module_destroy(net);
    ig_tensor_release(x);
    ig_tensor_release(y);
}

void train_custom_op(ig_ctx *ctx, trail *t) {
    const uint32_t id = register_square(ctx);
    ig_module *net = NULL;
    ig_optimizer *opt = NULL;
    ig_tensor *x = ramp(ctx, IG_SHAPE(9, 20), -1, 0.01), *y = ramp(ctx, IG_SHAPE(9, 4), 0, 0.02);
    must(ig_sequential_create(ctx, &net));
    add_linear(ctx, net, "a", 20, 24);
    add_linear(ctx, net, "b", 24, 4);
    must(ig_adamw_create(net, NULL, &opt));
    ig_tensor *const a = ig_module_find(net, "a.weight"), *const b =
                                                              ig_module_find(net, "b.weight");
    for (int i = 0; i < NET_STEPS; i++) {
        must(ig_tensor_fill_uniform(x, -1, 1));
        ig_optimizer_set_lr(opt, rate_at(i));
        ig_optimizer_zero_grad(opt);
        const ig_matmul_options turned = {.transpose_b = true};
        ig_tensor *h = square(ctx, id, ig_transpose(ig_matmul_with(x, a, turned), 0, 1));
        ig_tensor *got = square(ctx, id, ig_matmul_with(ig_transpose(h, 0, 1), b, turned));
        ig_tensor *loss = ig_mse(got, y);
        must(ig_backward(loss));
        must(ig_optimizer_step(opt));
        trail_name(t, "loss of step %d", i);
        trail_put_item(t, loss);
    }
    put_params(t, net);
    ig_optimizer_destroy(opt);
    ig_module_destroy(net);
    ig_tensor_release(x);
    ig_tensor_release(y);
}

/* ---- the small one ---- */

small_net small_make(ig_ctx *ctx) {
    static const char *const names[SMALL_PARAMS] = {"w0", "w1", "w2"};
    static const int32_t classes[SMALL_ROWS] = {0, 1, 2, 3, 0};
    const ig_shape shapes[SMALL_PARAMS] = {IG_SHAPE(SMALL_IN, SMALL_INNER),
                                           IG_SHAPE(SMALL_INNER, SMALL_OUT), IG_SHAPE(SMALL_INNER)};
    small_net n = {.ctx = ctx};
    for (int i = 0; i < SMALL_PARAMS; i++) {
        n.w[i] = parameter(ctx, shapes[i], names[i]);
        n.mean[i] = ramp(ctx, shapes[i], 0, 0);
        n.variance[i] = ramp(ctx, shapes[i], 0, 0);
    }
    n.x = ramp(ctx, IG_SHAPE(SMALL_ROWS, SMALL_IN), -1, 0.07);
    n.y = ints(ctx, IG_SHAPE(SMALL_ROWS), classes);
    must(ig_slot_create(ctx, &n.rate));
    must(ig_slot_create(ctx, &n.count));
    return n;
}

void small_unmake(small_net *n) {
    for (int i = 0; i < SMALL_PARAMS; i++) {
        ig_tensor_release(n->w[i]);
        ig_tensor_release(n->mean[i]);
        ig_tensor_release(n->variance[i]);
    }
    ig_tensor_release(n->x);
    ig_tensor_release(n->y);
}

void small_next_batch(small_net *n) { must(ig_tensor_fill_uniform(n->x, -1, 1)); }

ig_tensor *small_logits(const small_net *n, ig_tensor *x, double dropout) {
    ig_tensor *h = ig_tanh(ig_matmul(x, n->w[0]));
    if (dropout > 0) h = ig_dropout(h, dropout);
    return ig_matmul(ig_rms_norm(h, n->w[2], 1e-5f), n->w[1]);
}

ig_tensor *small_loss(const small_net *n) {
    return ig_cross_entropy(small_logits(n, n->x, 0.3), n->y);
}

void small_zero_grad(small_net *n) {
    for (int i = 0; i < SMALL_PARAMS; i++) ig_tensor_zero_grad(n->w[i]);
}

void small_update(small_net *n, double rate) {
    const ig_attrs_adamw attrs = {0.9f, 0.99f, 1e-8f, 0.01f, n->rate, n->count};
    ig_tensor *grads[SMALL_PARAMS];
    for (int i = 0; i < SMALL_PARAMS; i++) grads[i] = ig_tensor_grad(n->w[i]);
    ig_tensor *norm = ig_global_norm(grads, SMALL_PARAMS);
    for (int i = 0; i < SMALL_PARAMS; i++) must(ig_clip(grads[i], norm, 0.5f));
    ig_slot_set_real(n->ctx, n->rate, rate);
    ig_slot_set_count(n->ctx, n->count, ++n->steps);
    for (int i = 0; i < SMALL_PARAMS; i++)
        must(ig_adamw(n->w[i], grads[i], n->mean[i], n->variance[i], attrs));
}

void small_step(small_net *n, double rate, trail *t) {
    small_next_batch(n);
    small_zero_grad(n);
    ig_tensor *loss = small_loss(n);
    must(ig_backward(loss));
    small_update(n, rate);
    must(ig_ctx_step_end(n->ctx));
    trail_put_item(t, loss);
}

void small_put(const small_net *n, trail *t) {
    for (int i = 0; i < SMALL_PARAMS; i++) trail_put_tensor(t, n->w[i]);
}
