/*
 * The llm architecture by dispatches: RMSNorm, RoPE, grouped-query attention, SwiGLU.
 *
 * init() creates every buffer and plans three batches; forward(), backward() and step() run one
 * each and allocate nothing.  The weights start as those of llm: equal losses, bit by bit.
 *
 *     cc -shared -fPIC -Iinclude examples/production_llm.c -o production_llm.so
 *     ingot train --plugin ./production_llm.so --arch production_llm -d data.txt
 *     ingot chat --plugin ./production_llm.so -m production_llm.oam
 */
#include <ingot/arch.h>
#include <math.h>
#include <stdlib.h>

enum { NORM1, Q, K, V, O, NORM2, GATE, UP, DOWN, WEIGHTS };
typedef ig_production_param param;

/* R tokens, H query heads and G key heads of width d: [R, n], or *_4 [batch, rows, heads, d]. */
typedef struct layer {
    const param *w;
    ig_tensor *n1, *q0, *k0, *v, *att, *h1, *n2, *g, *u, *s, *su, *out;
    ig_tensor *q0_4, *k0_4, *v_4, *att_4, *q1_4, *k1_4, *lse;
} layer;

typedef struct model {
    ig_production_args a;
    int64_t L, R, D, F, H, G, d;
    ig_batch *batch[3], *open; /* forward, backward, step; the one being dispatched */
    ig_status status;          /* the first failure: everything after it is skipped */
    const param *embed, *norm, *head;
    ig_tensor *h0, *nf, *logits, *losses, *loss, *part;
    ig_tensor *dlosses, *dlogits, *dh, *dh1, *dn, *unit, *product, *dsu, *ds, *du, *dg;
    ig_tensor *datt, *dq0, *dk0, *dv, *datt_4, *dq0_4, *dk0_4, *dv_4, *dq1_4, *dk1_4;
    layer layers[];
} model;

/* The weights, in the order in which init() gets them. */
static ig_status create(ig_ctx *ctx, const ig_lm_config *c, ig_module *root, void **out) {
    static const char *const names[] = {"attn_norm", "q",    "k",  "v",   "o",
                                        "ffn_norm",  "gate", "up", "down"};
    static const int order[] = {Q, K, V, GATE, UP, O, DOWN}; /* the last two feed the residual */
    const int64_t D = c->d_model, F = c->d_ff, kv = D / c->n_heads * c->n_kv_heads;
    const int64_t n_in[] = {0, D, D, D, D, 0, D, D, F}, n_out[] = {0, D, kv, kv, D, 0, F, F, D};
    const double std = 0.02, deep = std / sqrt(2.0 * (double)c->n_layers);
    ig_module *layers, *group, *m[WEIGHTS];
    (void)ctx, (void)out;
    IG_TRY(ig_arch_check_heads("production_llm", c));
    IG_TRY(ig_arch_embedding(root, "embed", c->vocabulary, D, std, m));
    IG_TRY(ig_arch_group(root, "layers", &layers));
    for (int64_t i = 0; i < c->n_layers; i++) {
        IG_TRY(ig_arch_layer_group(layers, i, &group));
        for (int k = 0; k < WEIGHTS; k++)
            IG_TRY(n_in[k] ? ig_arch_linear(group, names[k], n_in[k], n_out[k], false, &m[k])
                           : ig_arch_rms_norm(group, names[k], D, &m[k]));
        for (int k = 0; k < 7; k++) IG_TRY(ig_arch_reinit(m[order[k]], k < 5 ? std : deep));
    }
    IG_TRY(ig_arch_rms_norm(root, "norm", D, m));
    IG_TRY(ig_arch_linear(root, "head", D, c->vocabulary, false, m));
    return ig_arch_reinit(m[0], std);
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
static ig_tensor *heads(model *m, int64_t n, ig_tensor **out_4) {
    ig_tensor *t = rows(m, n * m->d);
    *out_4 = make(m, t, IG_SHAPE(m->a.batch, m->a.rows, n, m->d));
    return t;
}

static void make_layer(model *m, layer *l, const param *w) {
    l->w = w;
    l->n1 = rows(m, m->D), l->h1 = rows(m, m->D), l->n2 = rows(m, m->D), l->out = rows(m, m->D);
    l->g = rows(m, m->F), l->u = rows(m, m->F), l->s = rows(m, m->F), l->su = rows(m, m->F);
    l->q0 = heads(m, m->H, &l->q0_4), l->k0 = heads(m, m->G, &l->k0_4);
    l->v = heads(m, m->G, &l->v_4), l->att = heads(m, m->H, &l->att_4);
    heads(m, m->H, &l->q1_4), heads(m, m->G, &l->k1_4);
    l->lse = make(m, NULL, IG_SHAPE(m->a.batch, m->a.rows, m->H));
}

/* One set of gradients serves all layers. */
static void make_gradients(model *m) {
    m->dlosses = make(m, NULL, IG_SHAPE(m->R)), m->dlogits = rows(m, m->a.config->vocabulary);
    m->dh = rows(m, m->D), m->dh1 = rows(m, m->D), m->dn = rows(m, m->D);
    m->unit = rows(m, m->D), m->product = rows(m, m->D);
    m->dsu = rows(m, m->F), m->ds = rows(m, m->F), m->du = rows(m, m->F), m->dg = rows(m, m->F);
    m->datt = heads(m, m->H, &m->datt_4), m->dq0 = heads(m, m->H, &m->dq0_4);
    m->dk0 = heads(m, m->G, &m->dk0_4), m->dv = heads(m, m->G, &m->dv_4);
    heads(m, m->H, &m->dq1_4), heads(m, m->G, &m->dk1_4);
}

static const ig_attrs_norm eps = {1e-5f};
static const ig_attrs_attention causal = {.causal = 1};
static const ig_attrs_rope turn = {10000, 1, .type = IG_ROPE_NEOX};
static const ig_attrs_rope turn_back = {10000, 1, .type = IG_ROPE_NEOX, .inverse = 1};
static const ig_attrs_reduce over_rows = {.axes = 1};

#define LIST(...) (ig_tensor *[]){__VA_ARGS__}, sizeof((void *[]){__VA_ARGS__}) / sizeof(void *)
static void ops(model *m, const char *kernel, const void *attrs, ig_tensor *const *in, size_t n_in,
                ig_tensor *const *out, size_t n_out) {
    if (m->status) return;
    m->status = ig_dispatch(m->open, kernel, attrs, in, (uint32_t)n_in, out, (uint32_t)n_out);
}
#define OP(kernel, attrs, y, ...) ops(m, kernel, attrs, LIST(__VA_ARGS__), &(y), 1)
static void linear(model *m, ig_tensor *y, ig_tensor *x, const param *w) {
    OP("matmul", &(ig_attrs_matmul){.transpose_b = 1}, y, x, w->weight); /* x w^T */
}
/* dw = dy^T x; dx = dy w */
static void linear_back(model *m, ig_tensor *dx, ig_tensor *dy, ig_tensor *x, const param *w) {
    OP("matmul", &(ig_attrs_matmul){.transpose_a = 1}, w->grad, dy, x);
    OP("matmul", NULL, dx, dy, w->weight);
}
/* dx and dw of y = norm(x), with dn as dy */
static void norm_back(model *m, ig_tensor *dx, ig_tensor *x, const param *w) {
    OP("rms_norm_grad", &eps, dx, x, m->dn, w->weight);
    OP("rms_norm", &eps, m->unit, x);
    OP("mul", NULL, m->product, m->dn, m->unit);
    OP("sum", &over_rows, w->grad, m->product);
}

static void layer_forward(model *m, const layer *l, ig_tensor *h) {
    OP("rms_norm", &eps, l->n1, h, l->w[NORM1].weight);
    linear(m, l->q0, l->n1, &l->w[Q]);
    linear(m, l->k0, l->n1, &l->w[K]);
    linear(m, l->v, l->n1, &l->w[V]);
    OP("rope", &turn, l->q1_4, l->q0_4, m->a.positions);
    OP("rope", &turn, l->k1_4, l->k0_4, m->a.positions);
    ops(m, "attention", &causal, LIST(l->q1_4, l->k1_4, l->v_4), LIST(l->att_4, l->lse));
    linear(m, m->part, l->att, &l->w[O]);
    OP("add", NULL, l->h1, h, m->part);
    OP("rms_norm", &eps, l->n2, l->h1, l->w[NORM2].weight);
    linear(m, l->g, l->n2, &l->w[GATE]);
    linear(m, l->u, l->n2, &l->w[UP]);
    OP("silu", NULL, l->s, l->g);
    OP("mul", NULL, l->su, l->s, l->u);
    linear(m, m->part, l->su, &l->w[DOWN]);
    OP("add", NULL, l->out, l->h1, m->part);
}

/* The mirror of layer_forward(): dh is the gradient of l->out before, and of h after. */
static void layer_backward(model *m, const layer *l, ig_tensor *h) {
    linear_back(m, m->dsu, m->dh, l->su, &l->w[DOWN]);
    OP("mul", NULL, m->ds, m->dsu, l->u);
    OP("mul", NULL, m->du, m->dsu, l->s);
    OP("silu_grad", NULL, m->dg, l->g, m->ds);
    linear_back(m, m->dn, m->du, l->n2, &l->w[UP]);
    linear_back(m, m->part, m->dg, l->n2, &l->w[GATE]);
    ops(m, "accumulate", NULL, LIST(m->dn, m->part), NULL, 0);
    norm_back(m, m->part, l->h1, &l->w[NORM2]);
    OP("add", NULL, m->dh1, m->dh, m->part);
    linear_back(m, m->datt, m->dh1, l->att, &l->w[O]);
    ops(m, "attention_grad", &causal, LIST(l->q1_4, l->k1_4, l->v_4, l->att_4, l->lse, m->datt_4),
        LIST(m->dq1_4, m->dk1_4, m->dv_4));
    OP("rope", &turn_back, m->dq0_4, m->dq1_4, m->a.positions);
    OP("rope", &turn_back, m->dk0_4, m->dk1_4, m->a.positions);
    linear_back(m, m->dn, m->dv, l->n1, &l->w[V]);
    linear_back(m, m->part, m->dk0, l->n1, &l->w[K]);
    ops(m, "accumulate", NULL, LIST(m->dn, m->part), NULL, 0);
    linear_back(m, m->part, m->dq0, l->n1, &l->w[Q]);
    ops(m, "accumulate", NULL, LIST(m->dn, m->part), NULL, 0);
    norm_back(m, m->part, h, &l->w[NORM1]);
    OP("add", NULL, m->dh, m->dh1, m->part);
}

static ig_tensor *input(const model *m, int64_t i) { return i ? m->layers[i - 1].out : m->h0; }

static void dispatch_forward(model *m) {
    OP("byte_embed", NULL, m->h0, m->embed->weight, m->a.ids);
    for (int64_t i = 0; i < m->L; i++) layer_forward(m, &m->layers[i], input(m, i));
    OP("rms_norm", &eps, m->nf, input(m, m->L), m->norm->weight);
    linear(m, m->logits, m->nf, m->head);
    OP("cross_entropy", NULL, m->losses, m->logits, m->a.targets);
    OP("mean", &over_rows, m->loss, m->losses);
}

static void dispatch_backward(model *m) {
    const ig_attrs_rows vocabulary = {m->a.config->vocabulary};
    const ig_attrs_scale mean = {.scale = 0, .shift = 1 / (double)m->R};
    OP("scale", &mean, m->dlosses, m->losses); /* of the mean: 1 / R each */
    OP("cross_entropy_grad", NULL, m->dlogits, m->logits, m->a.targets, m->dlosses);
    linear_back(m, m->dn, m->dlogits, m->nf, m->head);
    norm_back(m, m->dh, input(m, m->L), m->norm);
    for (int64_t i = m->L; i-- > 0;) layer_backward(m, &m->layers[i], input(m, i));
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
    if (!m) return IG_FAIL(IG_ERR_MEMORY, "production_llm: %lld layers", (long long)L);
    out->model = m; /* destroy() frees it, also after a failure */
    m->a = *a, m->L = L, m->R = a->batch * a->rows, m->D = c->d_model, m->F = c->d_ff;
    m->H = c->n_heads, m->G = c->n_kv_heads, m->d = m->D / m->H;
    m->embed = a->params, m->norm = a->params + 1 + WEIGHTS * L, m->head = m->norm + 1;
    for (int i = 0; i < 3; i++) IG_TRY(ig_batch_create(ctx, &m->batch[i]));
    m->open = m->batch[0]; /* which owns the buffers */
    m->h0 = rows(m, m->D), m->nf = rows(m, m->D), m->part = rows(m, m->D);
    m->logits = out->logits = rows(m, c->vocabulary);
    m->losses = make(m, NULL, IG_SHAPE(m->R)), m->loss = out->loss = make(m, NULL, (ig_shape){0});
    for (int64_t i = 0; i < L; i++) make_layer(m, &m->layers[i], a->params + 1 + WEIGHTS * i);
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
    .name = "production_llm",
    .defaults = {.d_model = 256, .n_layers = 4, .n_heads = 4, .n_kv_heads = 4, .ctx_len = 256},
    .create = create,
    .production = &production,
};
const ig_arch_desc *ig_arch_entry(size_t i) { return i == 0 ? &arch : NULL; }
