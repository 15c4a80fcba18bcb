/*
 * llm by hand.  In the comments R is batch times rows, D the width, F the
 * feed-forward's, H and G the heads of queries and of keys, d the width of one.
 * Matrices are seen as [R, ...] by products and norms, as [batch, rows, heads, d]
 * by rope and attention: two tensors on the same bytes.
 */
#include "model/production.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ingot/context.h"

extern const ig_arch ig_arch_llm;

/* A weight with its gradient and moments. */
typedef struct param {
    ig_tensor *w, *g, *m, *v;
} param;

/* What a layer keeps from forward to backward. */
typedef struct layer {
    param norm1, q, k, v, o, norm2, gate, up, down;
    ig_tensor *n1, *q0, *k0, *vv;              /* [R, D] and [R, G d] */
    ig_tensor *q0_4, *k0_4, *v_4;              /* the same as [b, t, heads, d] */
    ig_tensor *q1, *k1, *att, *lse, *att_rows; /* after rope; [b, t, H, d]; [b, t, H]; [R, D] */
    ig_tensor *h1, *n2, *g, *u, *s, *su;       /* [R, D]; [R, F] */
    ig_tensor *out;                            /* [R, D]: the next layer's input */
} layer;

struct ig_production {
    ig_ctx *ctx;
    ig_lm_config c;
    int64_t b, t, r, d;
    ig_module *root;
    void *easy; /* arch/llm.c's view of the weights */
    ig_batch *forward, *backward, *update;
    uint32_t rate_slot, step_slot;

    ig_tensor **owned; /* every tensor made here */
    size_t n_owned, owned_room;
    param *params; /* in the order of the module's */
    size_t n_params;

    ig_tensor *ids, *targets, *positions, *flat_ids, *flat_targets, *dlosses;
    param embed, norm, head;
    layer *layers;
    ig_tensor *h0, *nf, *logits, *losses, *loss;
    /* Gradients on their way back: one set serves all layers. */
    ig_tensor *dlogits, *dh, *dh2, *dn, *part, *unit, *product;
    ig_tensor *datt, *datt_4, *dq1, *dk1, *dv, *dq0, *dk0, *dq0_rows, *dk0_rows, *dv_rows;
    ig_tensor *dsu, *ds, *du, *dg;
};

/* ---- making ---- */

static ig_status keep(ig_production *p, ig_status made, ig_tensor *t, ig_tensor **out) {
    if (made != IG_OK) return made;
    if (!IG_GROW(ig_ctx_allocator(p->ctx), p->owned, &p->owned_room, p->n_owned + 1)) {
        ig_tensor_release(t);
        return IG_FAIL(IG_ERR_MEMORY, "production: %zu tensors", p->n_owned);
    }
    *out = p->owned[p->n_owned++] = t;
    return IG_OK;
}

static ig_status make(ig_production *p, ig_dtype dtype, ig_shape shape, ig_tensor **out) {
    ig_tensor *t = NULL;
    const ig_status made = ig_tensor_create(p->ctx, (ig_desc){dtype, shape}, &t);
    return keep(p, made, t, out);
}

static ig_status real(ig_production *p, ig_shape shape, ig_tensor **out) {
    return make(p, IG_F32, shape, out);
}

static ig_status view(ig_production *p, ig_tensor *of, ig_shape shape, ig_tensor **out) {
    ig_tensor *t = NULL;
    const ig_desc desc = {ig_tensor_desc(of).dtype, shape};
    const ig_status made = ig_tensor_create_view(of, desc, NULL, 0, &t);
    return keep(p, made, t, out);
}

/* [rows..., heads d] and the same bytes as [b, t, heads, d] */
static ig_status real_and_heads(ig_production *p, int64_t heads, ig_tensor **rows,
                                ig_tensor **by_head) {
    IG_TRY(real(p, IG_SHAPE(p->r, heads * p->d), rows));
    return view(p, *rows, IG_SHAPE(p->b, p->t, heads, p->d), by_head);
}

static ig_status find_param(ig_production *p, const char *path, param *out) {
    for (size_t i = 0; i < p->n_params; i++)
        if (strcmp(ig_module_param(p->root, i).path, path) == 0) {
            *out = p->params[i];
            return IG_OK;
        }
    return IG_FAIL(IG_ERR_ARGUMENT, "production: there is no weight %s", path);
}

static ig_status make_params(ig_production *p) {
    p->n_params = ig_module_param_count(p->root);
    p->params = ig_alloc(ig_ctx_allocator(p->ctx), p->n_params, sizeof *p->params);
    if (!p->params) return IG_FAIL(IG_ERR_MEMORY, "production: %zu weights", p->n_params);
    for (size_t i = 0; i < p->n_params; i++) {
        param *q = &p->params[i];
        q->w = ig_module_param(p->root, i).tensor;
        const ig_shape shape = ig_tensor_desc(q->w).shape;
        IG_TRY(real(p, shape, &q->g));
        IG_TRY(real(p, shape, &q->m));
        IG_TRY(real(p, shape, &q->v));
    }
    return IG_OK;
}

static ig_status make_layer(ig_production *p, int64_t i) {
    layer *l = &p->layers[i];
    const int64_t D = p->c.d_model, F = p->c.d_ff, H = p->c.n_heads, G = p->c.n_kv_heads;
    const struct {
        const char *name;
        param *to;
    } names[] = {{"attn_norm", &l->norm1},
                 {"q", &l->q},
                 {"k", &l->k},
                 {"v", &l->v},
                 {"o", &l->o},
                 {"ffn_norm", &l->norm2},
                 {"gate", &l->gate},
                 {"up", &l->up},
                 {"down", &l->down}};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        char path[64];
        snprintf(path, sizeof path, "layers.%lld.%s.weight", (long long)i, names[k].name);
        IG_TRY(find_param(p, path, names[k].to));
    }
    ig_tensor **wide[] = {&l->n1, &l->h1, &l->n2, &l->out},
              **deep[] = {&l->g, &l->u, &l->s, &l->su};
    for (int k = 0; k < 4; k++) {
        IG_TRY(real(p, IG_SHAPE(p->r, D), wide[k]));
        IG_TRY(real(p, IG_SHAPE(p->r, F), deep[k]));
    }
    IG_TRY(real_and_heads(p, H, &l->q0, &l->q0_4));
    IG_TRY(real_and_heads(p, G, &l->k0, &l->k0_4));
    IG_TRY(real_and_heads(p, G, &l->vv, &l->v_4));
    IG_TRY(real_and_heads(p, H, &l->att_rows, &l->att));
    IG_TRY(real(p, IG_SHAPE(p->b, p->t, H, p->d), &l->q1));
    IG_TRY(real(p, IG_SHAPE(p->b, p->t, G, p->d), &l->k1));
    return real(p, IG_SHAPE(p->b, p->t, H), &l->lse);
}

/* What is given from outside, and the loss. */
static ig_status make_ends(ig_production *p) {
    const int64_t D = p->c.d_model, V = p->c.vocabulary;
    IG_TRY(make(p, IG_I32, IG_SHAPE(p->b, p->t), &p->ids));
    IG_TRY(make(p, IG_I32, IG_SHAPE(p->b, p->t), &p->targets));
    IG_TRY(make(p, IG_I32, IG_SHAPE(p->t), &p->positions));
    IG_TRY(view(p, p->ids, IG_SHAPE(p->r), &p->flat_ids));
    IG_TRY(view(p, p->targets, IG_SHAPE(p->r), &p->flat_targets));
    IG_TRY(real(p, IG_SHAPE(p->r), &p->dlosses));
    int32_t *positions = ig_tensor_map(p->positions);
    float *dlosses = ig_tensor_map(p->dlosses); /* of the mean */
    for (int64_t i = 0; i < p->t; i++) positions[i] = (int32_t)i;
    for (int64_t i = 0; i < p->r; i++) dlosses[i] = (float)(1.0 / (double)p->r);
    IG_TRY(real(p, IG_SHAPE(p->r, D), &p->h0));
    IG_TRY(real(p, IG_SHAPE(p->r, D), &p->nf));
    IG_TRY(real(p, IG_SHAPE(p->r, V), &p->logits));
    IG_TRY(real(p, IG_SHAPE(p->r), &p->losses));
    IG_TRY(real(p, (ig_shape){0}, &p->loss));
    IG_TRY(find_param(p, "embed.weight", &p->embed));
    IG_TRY(find_param(p, "norm.weight", &p->norm));
    return find_param(p, "head.weight", &p->head);
}

static ig_status make_gradients(ig_production *p) {
    const int64_t D = p->c.d_model, F = p->c.d_ff, H = p->c.n_heads, G = p->c.n_kv_heads;
    ig_tensor **wide[] = {&p->dh, &p->dh2, &p->dn, &p->part, &p->unit, &p->product};
    ig_tensor **deep[] = {&p->dsu, &p->ds, &p->du, &p->dg};
    for (size_t k = 0; k < sizeof wide / sizeof wide[0]; k++)
        IG_TRY(real(p, IG_SHAPE(p->r, D), wide[k]));
    for (size_t k = 0; k < sizeof deep / sizeof deep[0]; k++)
        IG_TRY(real(p, IG_SHAPE(p->r, F), deep[k]));
    IG_TRY(real(p, IG_SHAPE(p->r, p->c.vocabulary), &p->dlogits));
    IG_TRY(real_and_heads(p, H, &p->datt, &p->datt_4));
    IG_TRY(real_and_heads(p, H, &p->dq0_rows, &p->dq0));
    IG_TRY(real_and_heads(p, G, &p->dk0_rows, &p->dk0));
    IG_TRY(real_and_heads(p, G, &p->dv_rows, &p->dv));
    IG_TRY(real(p, IG_SHAPE(p->b, p->t, H, p->d), &p->dq1));
    return real(p, IG_SHAPE(p->b, p->t, G, p->d), &p->dk1);
}

static ig_status init(ig_production *p) {
    IG_TRY(ig_arch_llm.check(&p->c));
    IG_TRY(ig_module_create(p->ctx, NULL, NULL, &p->root));
    IG_TRY(ig_arch_llm.create(p->ctx, &p->c, p->root, &p->easy));
    IG_TRY(ig_batch_create(p->ctx, &p->forward));
    IG_TRY(ig_batch_create(p->ctx, &p->backward));
    IG_TRY(ig_batch_create(p->ctx, &p->update));
    IG_TRY(ig_slot_create(p->ctx, &p->rate_slot));
    IG_TRY(ig_slot_create(p->ctx, &p->step_slot));
    IG_TRY(make_params(p));
    IG_TRY(make_ends(p));
    IG_TRY(make_gradients(p));
    for (int64_t i = 0; i < p->c.n_layers; i++) IG_TRY(make_layer(p, i));
    return IG_OK;
}

ig_status ig_production_create(ig_ctx *ctx, const ig_lm_config *config, int64_t batch, int64_t rows,
                               ig_production **out) {
    const ig_allocator *memory = ig_ctx_allocator(ctx);
    ig_production *p = ig_alloc(memory, 1, sizeof *p);
    layer *layers = ig_alloc(memory, (size_t)config->n_layers, sizeof *layers);
    if (!p || !layers) {
        ig_free(memory, layers);
        ig_free(memory, p);
        return IG_FAIL(IG_ERR_MEMORY, "production: %lld layers", (long long)config->n_layers);
    }
    *p = (ig_production){.ctx = ctx, .c = *config, .b = batch, .t = rows, .layers = layers};
    p->r = batch * rows;
    p->d = config->d_model / config->n_heads;
    const ig_status status = init(p);
    if (status == IG_OK)
        *out = p;
    else
        ig_production_destroy(p);
    return status;
}

void ig_production_destroy(ig_production *p) {
    if (!p) return;
    const ig_allocator *memory = ig_ctx_allocator(p->ctx);
    ig_batch_destroy(p->forward);
    ig_batch_destroy(p->backward);
    ig_batch_destroy(p->update);
    for (size_t i = p->n_owned; i > 0; i--) ig_tensor_release(p->owned[i - 1]);
    if (p->easy) ig_arch_llm.destroy(p->ctx, p->easy);
    ig_module_destroy(p->root);
    ig_free(memory, p->owned);
    ig_free(memory, p->params);
    ig_free(memory, p->layers);
    ig_free(memory, p);
}

/* ---- dispatches ---- */

static const ig_attrs_norm norm_attrs = {1e-5f};
static const ig_attrs_attention causal = {0, 1};

static ig_status one(ig_batch *b, const char *kernel, const void *attrs, ig_tensor *x,
                     ig_tensor *y) {
    return ig_dispatch(b, kernel, attrs, &x, 1, &y, 1);
}

static ig_status two(ig_batch *b, const char *kernel, const void *attrs, ig_tensor *x, ig_tensor *y,
                     ig_tensor *z) {
    return ig_dispatch(b, kernel, attrs, (ig_tensor *[]){x, y}, 2, &z, 1);
}

/* y = x w^T; dx = dy w; dw = dy^T x */
static ig_status linear(ig_batch *b, ig_tensor *x, const param *w, ig_tensor *y) {
    static const ig_attrs_matmul turned = {.transpose_b = 1};
    return two(b, "matmul", &turned, x, w->w, y);
}
static ig_status linear_dx(ig_batch *b, ig_tensor *dy, const param *w, ig_tensor *dx) {
    static const ig_attrs_matmul plain = {0};
    return two(b, "matmul", &plain, dy, w->w, dx);
}
static ig_status linear_dw(ig_batch *b, ig_tensor *dy, ig_tensor *x, const param *w) {
    static const ig_attrs_matmul turned = {.transpose_a = 1};
    return two(b, "matmul", &turned, dy, x, w->g);
}

static ig_attrs_rope rope_attrs(bool inverse) {
    return (ig_attrs_rope){10000, 1, .form = IG_ROPE_HALVES, .inverse = inverse};
}

/* ---- forward ---- */

static ig_status forward_layer(ig_production *p, const layer *l, ig_tensor *h) {
    ig_batch *b = p->forward;
    const ig_attrs_rope rope = rope_attrs(false);
    IG_TRY(two(b, "rmsnorm", &norm_attrs, h, l->norm1.w, l->n1));
    IG_TRY(linear(b, l->n1, &l->q, l->q0));
    IG_TRY(linear(b, l->n1, &l->k, l->k0));
    IG_TRY(linear(b, l->n1, &l->v, l->vv));
    IG_TRY(two(b, "rope", &rope, l->q0_4, p->positions, l->q1));
    IG_TRY(two(b, "rope", &rope, l->k0_4, p->positions, l->k1));
    IG_TRY(ig_dispatch(b, "attention", &causal, (ig_tensor *[]){l->q1, l->k1, l->v_4}, 3,
                       (ig_tensor *[]){l->att, l->lse}, 2));
    IG_TRY(linear(b, l->att_rows, &l->o, l->n2)); /* n2 is free until its norm */
    IG_TRY(two(b, "add", NULL, h, l->n2, l->h1));
    IG_TRY(two(b, "rmsnorm", &norm_attrs, l->h1, l->norm2.w, l->n2));
    IG_TRY(linear(b, l->n2, &l->gate, l->g));
    IG_TRY(linear(b, l->n2, &l->up, l->u));
    IG_TRY(one(b, "silu", NULL, l->g, l->s));
    IG_TRY(two(b, "mul", NULL, l->s, l->u, l->su));
    IG_TRY(linear(b, l->su, &l->down, p->part));
    return two(b, "add", NULL, l->h1, p->part, l->out);
}

ig_status ig_production_forward(ig_production *p, double *out_loss) {
    static const ig_attrs_reduce all = {.axes = 1};
    ig_batch *b = p->forward;
    ig_tensor *h = p->h0;
    IG_TRY(ig_batch_begin(b));
    IG_TRY(two(b, "byte_embed", NULL, p->embed.w, p->flat_ids, h));
    for (int64_t i = 0; i < p->c.n_layers; i++) {
        IG_TRY(forward_layer(p, &p->layers[i], h));
        h = p->layers[i].out;
    }
    IG_TRY(two(b, "rmsnorm", &norm_attrs, h, p->norm.w, p->nf));
    IG_TRY(linear(b, p->nf, &p->head, p->logits));
    IG_TRY(two(b, "cross_entropy", NULL, p->logits, p->flat_targets, p->losses));
    IG_TRY(one(b, "mean", &all, p->losses, p->loss));
    IG_TRY(ig_batch_flush(b));
    return out_loss ? ig_tensor_item(p->loss, out_loss) : IG_OK;
}

/* ---- backward: the mirror of forward, newest first ---- */

/* dh of h, whose norm gave `dn`; dw of the norm's weight. */
static ig_status norm_back(ig_production *p, ig_tensor *h, const param *w, ig_tensor *dh) {
    static const ig_attrs_reduce rows = {.axes = 1};
    ig_batch *b = p->backward;
    IG_TRY(
        ig_dispatch(b, "rms_norm_grad", &norm_attrs, (ig_tensor *[]){h, p->dn, w->w}, 3, &dh, 1));
    IG_TRY(one(b, "rmsnorm", &norm_attrs, h, p->unit));
    IG_TRY(two(b, "mul", NULL, p->dn, p->unit, p->product));
    return one(b, "sum", &rows, p->product, w->g);
}

/* dh in, of the layer's result; p->dh2 out, of the sum before the feed-forward. */
static ig_status feed_forward_back(ig_production *p, const layer *l) {
    ig_batch *b = p->backward;
    IG_TRY(linear_dw(b, p->dh, l->su, &l->down));
    IG_TRY(linear_dx(b, p->dh, &l->down, p->dsu));
    IG_TRY(two(b, "mul", NULL, p->dsu, l->u, p->ds));
    IG_TRY(two(b, "mul", NULL, p->dsu, l->s, p->du));
    IG_TRY(two(b, "silu_grad", NULL, l->g, p->ds, p->dg));
    IG_TRY(linear_dw(b, p->dg, l->n2, &l->gate));
    IG_TRY(linear_dw(b, p->du, l->n2, &l->up));
    IG_TRY(linear_dx(b, p->du, &l->up, p->dn));
    IG_TRY(linear_dx(b, p->dg, &l->gate, p->part));
    IG_TRY(ig_dispatch(b, "accumulate", NULL, (ig_tensor *[]){p->dn, p->part}, 2, NULL, 0));
    IG_TRY(norm_back(p, l->h1, &l->norm2, p->part));
    return two(b, "add", NULL, p->dh, p->part, p->dh2);
}

/* p->dh2 in; p->dh out, of the layer's input h. */
static ig_status attention_back(ig_production *p, const layer *l, ig_tensor *h) {
    ig_batch *b = p->backward;
    const ig_attrs_rope back = rope_attrs(true);
    IG_TRY(linear_dw(b, p->dh2, l->att_rows, &l->o));
    IG_TRY(linear_dx(b, p->dh2, &l->o, p->datt));
    IG_TRY(ig_dispatch(b, "attention_grad", &causal,
                       (ig_tensor *[]){l->q1, l->k1, l->v_4, l->att, l->lse, p->datt_4}, 6,
                       (ig_tensor *[]){p->dq1, p->dk1, p->dv}, 3));
    IG_TRY(two(b, "rope", &back, p->dq1, p->positions, p->dq0));
    IG_TRY(two(b, "rope", &back, p->dk1, p->positions, p->dk0));
    IG_TRY(linear_dw(b, p->dq0_rows, l->n1, &l->q));
    IG_TRY(linear_dw(b, p->dk0_rows, l->n1, &l->k));
    IG_TRY(linear_dw(b, p->dv_rows, l->n1, &l->v));
    IG_TRY(linear_dx(b, p->dv_rows, &l->v, p->dn));
    IG_TRY(linear_dx(b, p->dk0_rows, &l->k, p->part));
    IG_TRY(ig_dispatch(b, "accumulate", NULL, (ig_tensor *[]){p->dn, p->part}, 2, NULL, 0));
    IG_TRY(linear_dx(b, p->dq0_rows, &l->q, p->part));
    IG_TRY(ig_dispatch(b, "accumulate", NULL, (ig_tensor *[]){p->dn, p->part}, 2, NULL, 0));
    IG_TRY(norm_back(p, h, &l->norm1, p->part));
    return two(b, "add", NULL, p->dh2, p->part, p->dh);
}

ig_status ig_production_backward(ig_production *p) {
    ig_batch *b = p->backward;
    const ig_attrs_rows vocabulary = {p->c.vocabulary};
    const int64_t n = p->c.n_layers;
    IG_TRY(ig_batch_begin(b));
    IG_TRY(ig_dispatch(b, "cross_entropy_grad", NULL,
                       (ig_tensor *[]){p->logits, p->flat_targets, p->dlosses}, 3, &p->dlogits, 1));
    IG_TRY(linear_dw(b, p->dlogits, p->nf, &p->head));
    IG_TRY(linear_dx(b, p->dlogits, &p->head, p->dn));
    IG_TRY(norm_back(p, n > 0 ? p->layers[n - 1].out : p->h0, &p->norm, p->dh));
    for (int64_t i = n - 1; i >= 0; i--) {
        IG_TRY(feed_forward_back(p, &p->layers[i]));
        IG_TRY(attention_back(p, &p->layers[i], i > 0 ? p->layers[i - 1].out : p->h0));
    }
    IG_TRY(two(b, "embedding_grad", &vocabulary, p->flat_ids, p->dh, p->embed.g));
    return ig_batch_flush(b);
}

/* ---- update ---- */

ig_status ig_production_step(ig_production *p, int64_t step, double rate) {
    const ig_attrs_adamw adamw = {0.9f, 0.95f, 1e-8f, 0.01f, p->rate_slot, p->step_slot};
    ig_slot_set_real(p->ctx, p->rate_slot, rate);
    ig_slot_set_count(p->ctx, p->step_slot, step);
    IG_TRY(ig_batch_begin(p->update));
    for (size_t i = 0; i < p->n_params; i++) {
        const param *q = &p->params[i];
        IG_TRY(ig_dispatch(p->update, "adamw", &adamw, (ig_tensor *[]){q->w, q->g, q->m, q->v}, 4,
                           NULL, 0));
    }
    return ig_batch_flush(p->update);
}

ig_module *ig_production_module(const ig_production *p) { return p->root; }
ig_tensor *ig_production_ids(const ig_production *p) { return p->ids; }
ig_tensor *ig_production_targets(const ig_production *p) { return p->targets; }
ig_tensor *ig_production_logits(const ig_production *p) { return p->logits; }

ig_tensor *ig_production_grad(const ig_production *p, const char *path) {
    for (size_t i = 0; i < p->n_params; i++)
        if (strcmp(ig_module_param(p->root, i).path, path) == 0) return p->params[i].g;
    return NULL;
}
