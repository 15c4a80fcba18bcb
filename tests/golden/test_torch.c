/*
 * Ten training steps, as PyTorch computed them.
 *
 * make_torch.py has the same two networks in Python and recorded their initial
 * weights, inputs, losses, norms before clipping, and final weights.  Here they
 * are built from Ingot's layers and ops, start from those weights, and must end
 * at the same numbers, on the reference backend and on the CPU.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "golden.h"
#include "ingot/ingot.h"

/* Relative to 1 + |x|.  PyTorch's own rounding, F32 against F64, is below 5e-7 in every run. */
static const double tolerance = 1e-5;

enum { STEPS = 10, LAYERS = 2 };

typedef struct net net;

/* What a run of the test is. */
typedef struct run {
    const char *file; /* data/FILE.bin */
    ig_status (*create)(net *n);
    ig_tensor *(*loss)(net *n, int step);
    ig_status (*optimizer)(ig_module *module, ig_optimizer **out);
    double limit; /* of the gradients' norm; 0: not clipped */
} run;

enum { MAX_INPUTS = 16 };

struct net {
    ig_ctx *ctx;
    golden data;
    ig_module *root;
    ig_module *embed, *norm1, *norm2, *q, *k, *v, *o, *up, *down, *head; /* of every_op */
    struct {
        ig_module *norm, *up, *down;
    } layers[LAYERS]; /* of tiny_llm */
    ig_tensor *shift, *time, *gate, *half, *offset, *router, *experts;
    ig_tensor *inputs[MAX_INPUTS]; /* owned */
    int n_inputs;
    bool used[IG_OP_COUNT];
};

/* ---- Help ---- */

/* cmocka's checks jump out of the test: what is left then is the process's to clean up. */
static void must(ig_status status) {
    if (status != IG_OK) fail_msg("%s: %s", ig_status_text(status), ig_error_text());
}

static ig_status add(ig_module *parent, const char *name, ig_status made, ig_module **child) {
    if (made != IG_OK) return made;
    return ig_module_add(parent, name, *child);
}

static const golden_record *record(const net *n, const char *name) {
    const golden_record *r = golden_find(&n->data, name);
    if (!r) fail_msg("the file has no record %s", name);
    return r;
}

/* An input of a step: all of the record, or row `step` of it. */
static ig_tensor *input(net *n, const char *name, int step) {
    const golden_record *r = record(n, name);
    ig_desc desc = r->desc;
    const char *bytes = r->elements;
    if (step >= 0) {
        const int64_t row = r->count / desc.shape.dim[0];
        desc.shape.rank--;
        memmove(desc.shape.dim, desc.shape.dim + 1, sizeof desc.shape.dim - sizeof(int64_t));
        bytes += step * row * 4;
    }
    assert_true(n->n_inputs < MAX_INPUTS);
    ig_tensor **made = &n->inputs[n->n_inputs];
    must(ig_tensor_create_from(n->ctx, desc, bytes, made));
    n->n_inputs++;
    return *made;
}

static void release_inputs(net *n) {
    while (n->n_inputs > 0) ig_tensor_release(n->inputs[--n->n_inputs]);
}

/* ---- TinyLlm: examples/easy.c, smaller ---- */

static ig_tensor *tiny_forward(ig_module *module, ig_tensor *ids) {
    net *n = ig_module_data(module);
    ig_tensor *h = ig_module_call(n->embed, ids);
    for (int i = 0; i < LAYERS; i++) {
        ig_tensor *r = ig_module_call(n->layers[i].norm, h);
        r = ig_silu(ig_module_call(n->layers[i].up, r));
        h = ig_add(h, ig_module_call(n->layers[i].down, r));
    }
    return ig_module_call(n->head, h);
}

static ig_status tiny_create(net *n) {
    enum { VOCABULARY = 32, WIDTH = 16, HIDDEN = 32 };
    static const char *const names[LAYERS] = {"0", "1"};
    ig_ctx *ctx = n->ctx;
    IG_TRY(ig_module_create(ctx, tiny_forward, n, &n->root));
    IG_TRY(
        add(n->root, "embed", ig_embedding_create(ctx, VOCABULARY, WIDTH, &n->embed), &n->embed));
    for (int i = 0; i < LAYERS; i++) {
        ig_module *layer, **norm = &n->layers[i].norm;
        ig_module **up = &n->layers[i].up, **down = &n->layers[i].down;
        IG_TRY(add(n->root, names[i], ig_module_create(ctx, NULL, NULL, &layer), &layer));
        IG_TRY(add(layer, "norm", ig_rms_norm_create(ctx, WIDTH, 0, norm), norm));
        IG_TRY(add(layer, "up", ig_linear_create(ctx, WIDTH, HIDDEN, NULL, up), up));
        IG_TRY(add(layer, "down", ig_linear_create(ctx, HIDDEN, WIDTH, NULL, down), down));
    }
    return add(n->root, "head", ig_linear_create(ctx, WIDTH, VOCABULARY, NULL, &n->head), &n->head);
}

static ig_tensor *tiny_loss(net *n, int step) {
    ig_tensor *logits = ig_module_call(n->root, input(n, "ids", step));
    return ig_cross_entropy(logits, input(n, "targets", step));
}

/* ---- Every op that has a gradient; OP() notes that it was called ---- */

#define OP(ID, call) (n->used[IG_OP_##ID] = true, (call))

enum {
    B = 2,
    T = 6,
    D = 8,
    HEADS = 2,
    GROUPS = 1,
    HEAD_WIDTH = 4,
    PIECE = 3,
    PIECES = 7,
    EXPERTS = 4
};

static ig_status every_create(net *n) {
    enum { VOCABULARY = 12, Q = HEADS * HEAD_WIDTH, KV = GROUPS * HEAD_WIDTH, U = PIECE * PIECES };
    const ig_linear_options no_bias = {.no_bias = true};
    const ig_desc row = {IG_F32, IG_SHAPE(D)};
    ig_ctx *ctx = n->ctx;
    IG_TRY(ig_module_create(ctx, NULL, n, &n->root));
    ig_module *r = n->root;
    IG_TRY(add(r, "embed", ig_embedding_create(ctx, VOCABULARY, D, &n->embed), &n->embed));
    IG_TRY(add(r, "norm1", ig_rms_norm_create(ctx, D, 0, &n->norm1), &n->norm1));
    IG_TRY(add(r, "q", ig_linear_create(ctx, D, Q, NULL, &n->q), &n->q));
    IG_TRY(add(r, "k", ig_linear_create(ctx, D, KV, &no_bias, &n->k), &n->k));
    IG_TRY(add(r, "v", ig_linear_create(ctx, D, KV, NULL, &n->v), &n->v));
    IG_TRY(add(r, "o", ig_linear_create(ctx, Q, D, NULL, &n->o), &n->o));
    IG_TRY(add(r, "norm2", ig_layer_norm_create(ctx, D, 1e-3f, &n->norm2), &n->norm2));
    IG_TRY(add(r, "up", ig_linear_create(ctx, D, U, NULL, &n->up), &n->up));
    IG_TRY(add(r, "down", ig_linear_create(ctx, U, D, NULL, &n->down), &n->down));
    IG_TRY(add(r, "head", ig_linear_create(ctx, D, VOCABULARY, NULL, &n->head), &n->head));
    IG_TRY(ig_module_add_param(r, "shift", row, &n->shift));
    IG_TRY(ig_module_add_param(r, "time", (ig_desc){IG_F32, IG_SHAPE(T, T)}, &n->time));
    IG_TRY(ig_module_add_param(r, "gate", row, &n->gate));
    IG_TRY(ig_module_add_param(r, "half", row, &n->half));
    IG_TRY(ig_module_add_param(r, "offset", row, &n->offset));
    IG_TRY(ig_module_add_param(r, "router", (ig_desc){IG_F32, IG_SHAPE(EXPERTS, D)}, &n->router));
    return ig_module_add_param(r, "experts", (ig_desc){IG_F32, IG_SHAPE(EXPERTS, D, D)},
                               &n->experts);
}

static ig_tensor *split_heads(net *n, ig_module *layer, ig_tensor *x, int64_t heads) {
    ig_tensor *y = OP(MATMUL, ig_module_call(layer, x));
    return OP(RESHAPE, ig_reshape(y, IG_SHAPE(B, T, heads, -1)));
}

static ig_tensor *attend(net *n, ig_tensor *h) {
    ig_tensor *at = input(n, "positions", -1), *factors = input(n, "factors", -1);
    ig_tensor *r = OP(RMS_NORM, ig_module_call(n->norm1, h));
    ig_tensor *q = split_heads(n, n->q, r, HEADS);
    ig_tensor *k = split_heads(n, n->k, r, GROUPS), *v = split_heads(n, n->v, r, GROUPS);
    const ig_rope_options turn = {.freq_base = 100, .type = IG_ROPE_NEOX, .freq_factors = factors};
    q = OP(ROPE, ig_rope(q, at, turn));
    k = ig_rope(k, at, turn);
    v = ig_rope(
        v, at,
        (ig_rope_options){.freq_scale = 0.5f, .rotary_dims = 2, .type = IG_ROPE_INTERLEAVED});
    ig_tensor *a = OP(ATTENTION, ig_attention(q, k, v, (ig_attention_options){.causal = true}));
    a = ig_reshape(a, IG_SHAPE(B, T, -1));
    return OP(ADD, ig_add(h, ig_module_call(n->o, a)));
}

static ig_tensor *mix_times(net *n, ig_tensor *h) {
    ig_tensor *y = ig_matmul(OP(TRANSPOSE, ig_transpose(h, 1, 2)), n->time); /* [b, d, t] */
    y = ig_permute(y, (const int[]){0, 2, 1}, 3);
    ig_tensor *gram =
        ig_matmul_with(y, h, (ig_matmul_options){.transpose_a = true}); /* [b, d, d] */
    gram = OP(SOFTMAX, ig_softmax(gram, 1));
    return ig_add(h, OP(SCALE, ig_scale(ig_matmul(h, gram), 0.5, 0)));
}

static ig_tensor *feed_forward(net *n, ig_tensor *h) {
    ig_tensor *u = ig_module_call(n->up, OP(LAYER_NORM, ig_module_call(n->norm2, h)));
    ig_tensor *x[PIECES];
    for (int i = 0, begin = 0; i < PIECES; i++, begin += PIECE)
        x[i] = OP(SLICE, ig_slice(u, -1, begin, begin + PIECE));
    x[0] = OP(TANH, ig_tanh(x[0]));
    x[1] = OP(SIGMOID, ig_sigmoid(x[1]));
    x[2] = OP(RELU, ig_relu(x[2]));
    x[3] = OP(GELU, ig_gelu(ig_scale(x[3], 3, 0), IG_GELU_ERF));
    x[4] = ig_gelu(ig_scale(x[4], 3, 0), IG_GELU_TANH);
    x[5] = OP(SILU, ig_silu(x[5]));
    x[6] = OP(SOFTPLUS, ig_softplus(x[6]));
    return ig_add(h, ig_module_call(n->down, OP(CONCAT, ig_concat(x, PIECES, -1))));
}

static ig_tensor *reshape_values(net *n, ig_tensor *h) {
    ig_tensor *up = OP(EXP, ig_exp(ig_scale(OP(NEG, ig_neg(n->gate)), -0.5, 0.1)));
    ig_tensor *low = OP(SQRT, ig_sqrt(ig_scale(ig_softplus(n->gate), 1, 0.5)));
    up = OP(LOG, ig_log(ig_scale(up, 1, 1.5)));
    h = OP(MUL, ig_mul(h, OP(DIV, ig_div(up, low))));
    ig_tensor *half = OP(CAST, ig_cast(ig_scale(n->half, 0.01, 0), IG_F16));
    ig_tensor *offset = OP(BROADCAST, ig_broadcast(n->offset, IG_SHAPE(B, T, D)));
    return ig_add(ig_add(h, ig_cast(half, IG_F32)), OP(COPY, ig_copy(offset)));
}

/* Each row through two of the experts, twice: weighed among the two and among all. */
static ig_tensor *mix_experts(net *n, ig_tensor *h) {
    ig_tensor *rows = ig_reshape(h, IG_SHAPE(B * T, D));
    ig_tensor *logits = ig_matmul_with(rows, n->router, (ig_matmul_options){.transpose_b = true});
    const ig_routed two = OP(ROUTE, ig_route(logits, (ig_route_options){2, true}));
    const ig_routed all = ig_route(logits, (ig_route_options){2, false});
    const ig_groups groups = ig_group_rows(two.ids, EXPERTS);
    ig_tensor *y = ig_embedding(rows, groups.rows);
    y = OP(MATMUL_GROUPED, ig_matmul_grouped(y, n->experts, groups.offsets));
    y = OP(COMBINE, ig_combine(y, groups.inverse, ig_add(two.weights, all.weights)));
    return ig_add(h, ig_reshape(ig_scale(y, 0.3, 0), IG_SHAPE(B, T, D)));
}

static ig_tensor *hidden(net *n, int step) {
    ig_tensor *h = OP(EMBEDDING, ig_module_call(n->embed, input(n, "ids", step)));
    h = OP(DROPOUT, ig_dropout(h, 0));
    ig_tensor *before = ig_slice(OP(PAD, ig_pad(h, 1, 1, 0)), 1, 0, T);
    h = ig_add(h, ig_mul(n->shift, OP(SUB, ig_sub(before, h))));
    h = reshape_values(n, feed_forward(n, mix_times(n, attend(n, h))));
    h = mix_experts(n, h);
    ig_tensor *picked = OP(GATHER, ig_gather(h, input(n, "from", -1), 1));
    h = OP(SCATTER_ADD, ig_scatter_add(h, input(n, "to", -1), picked, 1));

    ig_tensor *peak = OP(MAX, ig_max(h, (const int[]){1}, 1, IG_KEEP_DIM)); /* [b, 1, d] */
    ig_tensor *mean = OP(MEAN, ig_mean(h, (const int[]){-1}, 1, IG_KEEP_DIM));
    return ig_add(ig_sub(h, ig_scale(mean, 0.3, 0)), ig_scale(peak, 0.1, 0));
}

static ig_tensor *every_loss(net *n, int step) {
    ig_tensor *h = hidden(n, step), *logits = ig_module_call(n->head, h);
    ig_tensor *loss = OP(CROSS_ENTROPY, ig_cross_entropy(logits, input(n, "targets", step)));
    ig_tensor *mse = OP(MSE, ig_mse(ig_tanh(h), input(n, "want", step)));
    ig_tensor *even = ig_mean(OP(LOG_SOFTMAX, ig_log_softmax(logits, 1)), NULL, 0, IG_DROP_DIM);
    ig_tensor *size = OP(SUM, ig_sum(ig_mul(h, h), (const int[]){0, 2}, 2, IG_DROP_DIM)); /* [t] */
    loss = ig_add(loss, ig_scale(mse, 0.5, 0));
    loss = ig_sub(loss, ig_scale(even, 0.1, 0));
    return ig_add(loss, ig_scale(ig_mean(size, NULL, 0, IG_DROP_DIM), 0.01, 0));
}

/* Every row of op.def that is recorded and whose gradient is a rule of ours has been called.
 * Later rows have their cases in conformance.grad, which wants one of every rule. */
static void check_all_used(const net *n) {
    enum { RECORDED = IG_OP_COMBINE + 1 };
    static const char *const grads[IG_OP_COUNT] = {
#define IG_OP(ID, name, in_min, in_max, out_min, out_max, attrs, shape, grad, build, traits) #grad,
#include "ingot/op.def"
    };
    for (uint32_t op = 0; op < RECORDED; op++) {
        const char *rule = grads[op];
        const bool flows =
            strcmp(rule, "none") != 0 && strcmp(rule, "refuse") != 0 && strcmp(rule, "custom") != 0;
        if (flows && !n->used[op]) fail_msg("the network does not use %s", ig_op_name(op));
    }
}

/* ---- A run ---- */

static void load_init(net *n) {
    size_t loaded = 0;
    for (int i = 0; i < n->data.count; i++) {
        const golden_record *r = &n->data.records[i];
        if (strncmp(r->name, "init.", 5) != 0) continue;
        ig_tensor *param = ig_module_find(n->root, r->name + 5);
        if (!param) fail_msg("the network has no parameter %s", r->name + 5);
        assert_true(ig_shape_equal(ig_tensor_desc(param).shape, r->desc.shape));
        must(ig_tensor_write(param, r->elements, (size_t)r->count * 4));
        loaded++;
    }
    assert_int_equal(loaded, ig_module_param_count(n->root));
}

/* Fails beyond the tolerance; keeps the largest difference. */
static void compare(const char *what, int64_t i, double got, double want, double *largest) {
    const double off = fabs(got - want) / (1 + fabs(want));
    if (!(off <= tolerance))
        fail_msg("%s[%lld]: %.9g, PyTorch has %.9g", what, (long long)i, got, want);
    if (off > *largest) *largest = off;
}

static void compare_final(net *n, double *largest) {
    for (size_t i = 0; i < ig_module_param_count(n->root); i++) {
        const ig_param param = ig_module_param(n->root, i);
        char name[GOLDEN_NAME_BYTES + 8];
        snprintf(name, sizeof name, "final.%s", param.path);
        const golden_record *want = record(n, name);
        const float *w = want->elements;
        float *got = malloc((size_t)want->count * sizeof *got);
        assert_non_null(got);
        must(ig_tensor_read(param.tensor, got, (size_t)want->count * sizeof *got));
        for (int64_t j = 0; j < want->count; j++) compare(name, j, got[j], w[j], largest);
        free(got);
    }
}

static void train_step(net *n, const run *r, ig_optimizer *opt, int step, double *largest) {
    double value;
    ig_tensor *loss = r->loss(n, step);
    must(ig_backward(loss));
    if (r->limit > 0) {
        must(ig_tensor_item(ig_optimizer_clip_grad_norm(opt, r->limit), &value));
        compare("norm", step, value, ((float *)record(n, "norm")->elements)[step], largest);
    }
    must(ig_optimizer_step(opt));
    ig_optimizer_zero_grad(opt);
    must(ig_tensor_item(loss, &value));
    compare("loss", step, value, ((float *)record(n, "loss")->elements)[step], largest);
    release_inputs(n);
}

static void run_on(const run *r, const char *device) {
    char path[1024];
    net n = {0};
    ig_optimizer *opt = NULL;
    double largest = 0;
    snprintf(path, sizeof path, TEST_DATA_DIR "/data/%s.bin", r->file);
    must(ig_ctx_create(&(ig_ctx_options){.device = device, .strict = true}, &n.ctx));
    if (!golden_read(path, &n.data)) fail_msg("%s: cannot be read", path);
    must(r->create(&n));
    load_init(&n);
    must(r->optimizer(n.root, &opt));
    for (int step = 0; step < STEPS; step++) train_step(&n, r, opt, step, &largest);
    compare_final(&n, &largest);
    if (r->loss == every_loss) check_all_used(&n);
    print_message("%s on %s: the largest difference is %.1e\n", r->file, device, largest);

    ig_optimizer_destroy(opt);
    ig_module_destroy(n.root);
    ig_ctx_destroy(n.ctx);
    golden_free(&n.data);
}

static void run_everywhere(const run *r) {
    run_on(r, "ref");
    run_on(r, "cpu");
}

/* ---- The runs, with the optimizers of make_torch.py ---- */

static ig_status tiny_adamw(ig_module *module, ig_optimizer **out) {
    return ig_adamw_create(module, &(ig_adamw_options){.lr = 1e-2}, out);
}

static ig_status every_adamw(ig_module *module, ig_optimizer **out) {
    return ig_adamw_create(
        module,
        &(ig_adamw_options){
            .lr = 5e-3, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1},
        out);
}

static ig_status every_sgd(ig_module *module, ig_optimizer **out) {
    return ig_sgd_create(module, &(ig_sgd_options){.lr = 0.02, .momentum = 0.9}, out);
}

static ig_status every_nesterov(ig_module *module, ig_optimizer **out) {
    return ig_sgd_create(
        module,
        &(ig_sgd_options){.lr = 0.02, .momentum = 0.8, .weight_decay = 0.05, .nesterov = true},
        out);
}

static void tiny_llm_trains_as_in_pytorch(void **state) {
    (void)state;
    run_everywhere(&(run){"tiny_llm_adamw", tiny_create, tiny_loss, tiny_adamw, 0});
}

static void every_op_with_adamw_and_clipping_trains_as_in_pytorch(void **state) {
    (void)state;
    run_everywhere(&(run){"every_op_adamw", every_create, every_loss, every_adamw, 2.5});
}

static void every_op_with_momentum_trains_as_in_pytorch(void **state) {
    (void)state;
    run_everywhere(&(run){"every_op_sgd", every_create, every_loss, every_sgd, 0});
}

static void every_op_with_nesterov_and_clipping_trains_as_in_pytorch(void **state) {
    (void)state;
    run_everywhere(&(run){"every_op_nesterov", every_create, every_loss, every_nesterov, 1.5});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_llm_trains_as_in_pytorch),
        cmocka_unit_test(every_op_with_adamw_and_clipping_trains_as_in_pytorch),
        cmocka_unit_test(every_op_with_momentum_trains_as_in_pytorch),
        cmocka_unit_test(every_op_with_nesterov_and_clipping_trains_as_in_pytorch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
