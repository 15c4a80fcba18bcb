/*
 * The gpt architecture by dispatches: LayerNorm, learned positions, attention, GELU, biases.
 *
 * As production_llm.c, with the built-in gpt as the model that it equals.
 *
 *     cc -shared -fPIC -Iinclude examples/production_gpt.c -o production_gpt.so
 *     ingot train --plugin ./production_gpt.so --arch production_gpt -d data.txt
 */
#include <ingot/arch.h>
#include <math.h>
#include <stdlib.h>

/* The parameters of a layer: each weight has its bias after it. */
enum { NORM1 = 0, QKV = 2, O = 4, NORM2 = 6, UP = 8, DOWN = 10, WEIGHTS = 12 };
typedef ig_production_param param;

/* R tokens, H heads of width d: [R, n], or *_4 [batch, rows, H, d]. */
typedef struct layer {
    const param *w;
    ig_tensor *n1, *qkv, *att, *h1, *n2, *u, *gelu, *out, *lse;
    ig_tensor *q_4, *k_4, *v_4, *att_4; /* views: of qkv, strided */
} layer;

typedef struct model {
    ig_production_args a;
    int64_t L, R, D, F, H;
    ig_batch *batch[3], *open; /* forward, backward, step; the one being dispatched */
    ig_status status;          /* the first failure: everything after it is skipped */
    const param *embed, *positions, *norm, *head;
    ig_tensor *tokens, *tokens_3, *places, *h0, *h0_3, *nf, *logits, *losses, *loss, *part;
    ig_tensor *dlosses, *dlogits, *dh, *dh_3, *dh1, *dn, *unit, *product, *dplaces;
    ig_tensor *dgelu, *du, *dqkv, *datt, *dq, *dk, *dv, *datt_4, *dq_4, *dk_4, *dv_4;
    layer layers[];
} model;

/* The weights, in the order in which init() gets them. */
static ig_status create(ig_ctx *ctx, const ig_lm_config *c, ig_module *root, void **out) {
    const int64_t D = c->d_model, F = c->d_ff;
    const double std = 0.02, deep = std / sqrt(2.0 * (double)c->n_layers);
    ig_module *layers, *group, *m, *qkv, *o, *up, *down;
    (void)ctx, (void)out;
    IG_TRY(ig_arch_check_heads("production_gpt", c));
    IG_TRY(ig_arch_embedding(root, "embed", c->vocabulary, D, std, &m));
    IG_TRY(ig_arch_embedding(root, "positions", c->ctx_len, D, 0.01, &m));
    IG_TRY(ig_arch_group(root, "layers", &layers));
    for (int64_t i = 0; i < c->n_layers; i++) {
        IG_TRY(ig_arch_layer_group(layers, i, &group));
        IG_TRY(ig_arch_layer_norm(group, "attn_norm", D, &m));
        IG_TRY(ig_arch_linear(group, "qkv", D, 3 * D, true, &qkv));
        IG_TRY(ig_arch_linear(group, "o", D, D, true, &o));
        IG_TRY(ig_arch_layer_norm(group, "ffn_norm", D, &m));
        IG_TRY(ig_arch_linear(group, "up", D, F, true, &up));
        IG_TRY(ig_arch_linear(group, "down", F, D, true, &down));
        IG_TRY(ig_arch_reinit(qkv, std));
        IG_TRY(ig_arch_reinit(up, std));
        IG_TRY(ig_arch_reinit(o, deep));
        IG_TRY(ig_arch_reinit(down, deep));
    }
    IG_TRY(ig_arch_layer_norm(root, "norm", D, &m));
    IG_TRY(ig_arch_linear(root, "head", D, c->vocabulary, false, &m));
    return ig_arch_reinit(m, std);
}

/* A new buffer, or the bytes of another one in this shape. */
static ig_tensor *make(model *m, ig_tensor *of, ig_shape shape) {
    ig_tensor *t = NULL;
    if (m->status) return NULL;
    m->status = of ? ig_batch_create_view(m->open, of, (ig_desc){IG_F32, shape}, NULL, 0, &t)
                   : ig_batch_create_tensor(m->open, (ig_desc){IG_F32, shape}, &t);
    return t;
}
static ig_tensor *rows(model *m, int64_t n) { return make(m, NULL, IG_SHAPE(m->R, n)); }
static ig_shape by_head(const model *m) {
    return IG_SHAPE(m->a.batch, m->a.rows, m->H, m->D / m->H);
}
static ig_tensor *heads(model *m, ig_tensor **out_4) {
    ig_tensor *t = rows(m, m->D);
    *out_4 = make(m, t, by_head(m));
    return t;
}
/* [R, D], and the same bytes as [batch, rows, D] */
static ig_tensor *sequences(model *m, ig_tensor **out_3) {
    ig_tensor *t = rows(m, m->D);
    *out_3 = make(m, t, IG_SHAPE(m->a.batch, m->a.rows, m->D));
    return t;
}
/* The i-th third of qkv [R, 3 D], as heads */
static ig_tensor *third(model *m, ig_tensor *qkv, int64_t i) {
    const int64_t d = m->D / m->H, stride[] = {m->a.rows * 3 * m->D, 3 * m->D, d, 1};
    ig_tensor *t = NULL;
    if (!m->status)
        m->status =
            ig_batch_create_view(m->open, qkv, (ig_desc){IG_F32, by_head(m)}, stride, i * m->D, &t);
    return t;
}

static void make_layer(model *m, layer *l, const param *w) {
    l->w = w;
    l->n1 = rows(m, m->D), l->h1 = rows(m, m->D), l->n2 = rows(m, m->D), l->out = rows(m, m->D);
    l->u = rows(m, m->F), l->gelu = rows(m, m->F), l->qkv = rows(m, 3 * m->D);
    l->q_4 = third(m, l->qkv, 0), l->k_4 = third(m, l->qkv, 1), l->v_4 = third(m, l->qkv, 2);
    l->att = heads(m, &l->att_4), l->lse = make(m, NULL, IG_SHAPE(m->a.batch, m->a.rows, m->H));
}

/* One set of gradients serves all layers. */
static void make_gradients(model *m) {
    m->dlosses = make(m, NULL, IG_SHAPE(m->R)), m->dlogits = rows(m, m->a.config->vocabulary);
    m->dh = sequences(m, &m->dh_3), m->dh1 = rows(m, m->D), m->dn = rows(m, m->D);
    m->unit = rows(m, m->D), m->product = rows(m, m->D), m->dgelu = rows(m, m->F);
    m->du = rows(m, m->F), m->dqkv = rows(m, 3 * m->D), m->datt = heads(m, &m->datt_4);
    m->dq = heads(m, &m->dq_4), m->dk = heads(m, &m->dk_4), m->dv = heads(m, &m->dv_4);
    m->dplaces = make(m, NULL, IG_SHAPE(m->a.rows, m->D));
}

static const ig_attrs_norm eps = {1e-5f};
static const ig_attrs_attention causal = {.causal = 1};
static const ig_attrs_gelu tanh_form = {IG_GELU_TANH};
static const ig_attrs_axis columns = {1};
static const ig_attrs_reduce over_rows = {.axes = 1};

#define LIST(...) (ig_tensor *[]){__VA_ARGS__}, sizeof((void *[]){__VA_ARGS__}) / sizeof(void *)
static void ops(model *m, const char *kernel, const void *attrs, ig_tensor *const *in, size_t n_in,
                ig_tensor *const *out, size_t n_out) {
    if (m->status) return;
    m->status = ig_dispatch(m->open, kernel, attrs, in, (uint32_t)n_in, out, (uint32_t)n_out);
}
#define OP(kernel, attrs, y, ...) ops(m, kernel, attrs, LIST(__VA_ARGS__), &(y), 1)
static void linear(model *m, ig_tensor *y, ig_tensor *x, const param *w) {
    OP("matmul", &(ig_attrs_matmul){.transpose_b = 1}, y, x, w[0].weight, w[1].weight);
}
/* dw = dy^T x; dx = dy w */
static void matmul_back(model *m, ig_tensor *dx, ig_tensor *dy, ig_tensor *x, const param *w) {
    OP("matmul", &(ig_attrs_matmul){.transpose_a = 1}, w->grad, dy, x);
    OP("matmul", NULL, dx, dy, w->weight);
}
static void linear_back(model *m, ig_tensor *dx, ig_tensor *dy, ig_tensor *x, const param *w) {
    matmul_back(m, dx, dy, x, w);
    OP("sum", &over_rows, w[1].grad, dy);
}
static void norm(model *m, ig_tensor *y, ig_tensor *x, const param *w) {
    OP("layer_norm", &eps, y, x, w[0].weight, w[1].weight);
}
/* dx, dw and db of y = norm(x), with dn as dy */
static void norm_back(model *m, ig_tensor *dx, ig_tensor *x, const param *w) {
    OP("layer_norm_grad", &eps, dx, x, m->dn, w->weight);
    OP("layer_norm", &eps, m->unit, x);
    OP("mul", NULL, m->product, m->dn, m->unit);
    OP("sum", &over_rows, w[0].grad, m->product);
    OP("sum", &over_rows, w[1].grad, m->dn);
}

static void layer_forward(model *m, const layer *l, ig_tensor *h) {
    norm(m, l->n1, h, &l->w[NORM1]);
    linear(m, l->qkv, l->n1, &l->w[QKV]);
    ops(m, "attention", &causal, LIST(l->q_4, l->k_4, l->v_4), LIST(l->att_4, l->lse));
    linear(m, m->part, l->att, &l->w[O]);
    OP("add", NULL, l->h1, h, m->part);
    norm(m, l->n2, l->h1, &l->w[NORM2]);
    linear(m, l->u, l->n2, &l->w[UP]);
    OP("gelu", &tanh_form, l->gelu, l->u);
    linear(m, m->part, l->gelu, &l->w[DOWN]);
    OP("add", NULL, l->out, l->h1, m->part);
}

/* The mirror of layer_forward(): dh is the gradient of l->out before, and of h after. */
static void layer_backward(model *m, const layer *l, ig_tensor *h) {
    linear_back(m, m->dgelu, m->dh, l->gelu, &l->w[DOWN]);
    OP("gelu_grad", &tanh_form, m->du, l->u, m->dgelu);
    linear_back(m, m->dn, m->du, l->n2, &l->w[UP]);
    norm_back(m, m->part, l->h1, &l->w[NORM2]);
    OP("add", NULL, m->dh1, m->dh, m->part);
    linear_back(m, m->datt, m->dh1, l->att, &l->w[O]);
    ops(m, "attention_grad", &causal, LIST(l->q_4, l->k_4, l->v_4, l->att_4, l->lse, m->datt_4),
        LIST(m->dq_4, m->dk_4, m->dv_4));
    OP("concat", &columns, m->dqkv, m->dq, m->dk, m->dv);
    linear_back(m, m->dn, m->dqkv, l->n1, &l->w[QKV]);
    norm_back(m, m->part, h, &l->w[NORM1]);
    OP("add", NULL, m->dh, m->dh1, m->part);
}

static ig_tensor *input(const model *m, int64_t i) { return i ? m->layers[i - 1].out : m->h0; }

static void dispatch_forward(model *m) {
    OP("byte_embed", NULL, m->tokens, m->embed->weight, m->a.ids);
    OP("embedding", NULL, m->places, m->positions->weight, m->a.positions);
    OP("add", NULL, m->h0_3, m->tokens_3, m->places);
    for (int64_t i = 0; i < m->L; i++) layer_forward(m, &m->layers[i], input(m, i));
    norm(m, m->nf, input(m, m->L), m->norm);
    OP("matmul", &(ig_attrs_matmul){.transpose_b = 1}, m->logits, m->nf, m->head->weight);
    OP("cross_entropy", NULL, m->losses, m->logits, m->a.targets);
    OP("mean", &over_rows, m->loss, m->losses);
}

static void dispatch_backward(model *m) {
    const ig_attrs_rows vocabulary = {m->a.config->vocabulary}, ctx = {m->a.config->ctx_len};
    const ig_attrs_scale mean = {.scale = 0, .shift = 1 / (double)m->R};
    OP("scale", &mean, m->dlosses, m->losses); /* of the mean: 1 / R each */
    OP("cross_entropy_grad", NULL, m->dlogits, m->logits, m->a.targets, m->dlosses);
    matmul_back(m, m->dn, m->dlogits, m->nf, m->head);
    norm_back(m, m->dh, input(m, m->L), m->norm);
    for (int64_t i = m->L; i-- > 0;) layer_backward(m, &m->layers[i], input(m, i));
    OP("sum", &over_rows, m->dplaces, m->dh_3); /* over the batch */
    OP("embedding_grad", &ctx, m->positions->grad, m->a.positions, m->dplaces);
    OP("embedding_grad", &vocabulary, m->embed->grad, m->a.ids, m->dh);
}

static void dispatch_step(model *m) {
    for (size_t i = 0; i < m->a.n_params; i++) {
        const param *w = &m->a.params[i];
        ops(m, "adamw", &m->a.adamw, LIST(w->weight, w->grad, w->mean, w->variance), NULL, 0);
    }
}

static void (*const dispatches[3])(model *) = {dispatch_forward, dispatch_backward, dispatch_step};
static ig_status run(model *m, int i, ig_status (*end)(ig_batch *)) {
    m->open = m->batch[i];
    m->status = ig_batch_begin(m->open);
    dispatches[i](m);
    return m->status ? m->status : end(m->open);
}
static ig_status forward(void *m) { return run(m, 0, ig_batch_flush); }
static ig_status backward(void *m) { return run(m, 1, ig_batch_flush); }
static ig_status step(void *m) { return run(m, 2, ig_batch_flush); }

static void destroy(ig_ctx *ctx, void *data) {
    (void)ctx;
    for (int i = 3; i-- > 0;) ig_batch_destroy(((model *)data)->batch[i]);
    free(data);
}

static ig_status init(ig_ctx *ctx, const ig_production_args *a, ig_production_model *out) {
    const ig_lm_config *c = a->config;
    const int64_t L = c->n_layers;
    model *m = calloc(1, sizeof *m + (size_t)L * sizeof m->layers[0]);
    if (!m) return IG_FAIL(IG_ERR_MEMORY, "production_gpt: %lld layers", (long long)L);
    out->model = m; /* destroy() frees it, also after a failure */
    m->a = *a, m->L = L, m->R = a->batch * a->rows, m->D = c->d_model, m->F = c->d_ff;
    m->H = c->n_heads, m->embed = a->params, m->positions = a->params + 1;
    m->norm = a->params + 2 + WEIGHTS * L, m->head = m->norm + 2;
    for (int i = 0; i < 3; i++) IG_TRY(ig_batch_create(ctx, &m->batch[i]));
    m->open = m->batch[0]; /* which owns the buffers */
    m->tokens = sequences(m, &m->tokens_3), m->h0 = sequences(m, &m->h0_3);
    m->places = make(m, NULL, IG_SHAPE(a->rows, m->D));
    m->nf = rows(m, m->D), m->part = rows(m, m->D);
    m->logits = out->logits = rows(m, c->vocabulary);
    m->losses = make(m, NULL, IG_SHAPE(m->R)), m->loss = out->loss = make(m, NULL, (ig_shape){0});
    for (int64_t i = 0; i < L; i++) make_layer(m, &m->layers[i], a->params + 2 + WEIGHTS * i);
    if (!a->inference) make_gradients(m);
    for (int i = 0; !m->status && i < (a->inference ? 1 : 3); i++)
        m->status = run(m, i, ig_batch_prepare);
    return m->status;
}

static const ig_production production = {
    IG_ARCH_ABI, sizeof(ig_production), init, destroy, forward, backward, step};
static const ig_arch_desc arch = {
    .abi = IG_ARCH_ABI,
    .struct_size = sizeof(ig_arch_desc),
    .name = "production_gpt",
    .defaults = {.d_model = 256, .n_layers = 4, .n_heads = 4, .ctx_len = 256},
    .create = create,
    .production = &production,
};
const ig_arch_desc *ig_arch_entry(size_t i) { return i == 0 ? &arch : NULL; }
