/* The weights of a file: located once, bound to each context. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/quant_blocks.h"
#include "ingot/batch.h"
#include "model/gguf/decoder.h"

enum { NAME_BYTES = 64, SHOWN_BYTES = 128 };
static const int64_t any_extent = -1;

/* ---- shapes ---- */

static int64_t extent_of(const ig_hparams *h, ig_extent extent) {
    const ig_lm_config *c = &h->size;
    const int64_t q = c->n_heads * c->key_width, k = c->n_kv_heads * c->key_width;
    const int64_t v = c->n_kv_heads * c->value_width,
                  qk_nope = h->qk_head_dim - h->rope.rotary_dims;
    const int64_t extents[IG_EXTENTS] = {
        [IG_BY_VOCABULARY] = c->vocabulary,
        [IG_BY_MODEL] = c->d_model,
        [IG_BY_HEADS] = q,
        [IG_BY_KEYS] = k,
        [IG_BY_VALUES] = v,
        [IG_BY_HEAD_VALUES] = c->n_heads * c->value_width,
        [IG_BY_QKV] = q + k + v,
        [IG_BY_HEAD] = c->key_width,
        [IG_BY_EACH_HEAD] = c->n_heads,
        [IG_BY_FF] = c->d_ff,
        [IG_BY_TWO_FF] = 2 * c->d_ff,
        [IG_BY_EXPERTS] = h->n_experts,
        [IG_BY_EXPERT_FF] = h->d_ff_expert,
        [IG_BY_SHARED_FF] = h->d_ff_shared_expert,
        [IG_BY_CONTEXT] = c->ctx_len,
        [IG_BY_TYPES] = any_extent,
        [IG_BY_ROPE_PAIRS] = h->rope.rotary_dims / 2,
        [IG_BY_Q_LORA] = h->q_lora_rank,
        [IG_BY_KV_LORA] = h->kv_lora_rank,
        [IG_BY_MLA_ROW] = h->kv_lora_rank + h->rope.rotary_dims,
        [IG_BY_MLA_HEADS] = c->n_heads * h->qk_head_dim,
        [IG_BY_MLA_ROPE] = c->n_heads * (qk_nope + h->v_head_dim),
        [IG_BY_MLA_VALUES] = c->n_heads * h->v_head_dim,
        [IG_BY_QK_NOPE] = qk_nope,
        [IG_BY_MLA_VALUE] = h->v_head_dim,
    };
    return extents[extent];
}

/* A free dimension takes the tensor's extent. */
static ig_shape wanted_shape(const ig_hparams *h, const ig_weight_row *row, ig_shape got) {
    ig_shape shape = {0};
    for (size_t d = 0; d < sizeof row->dim / sizeof row->dim[0] && row->dim[d]; d++) {
        const int64_t extent = extent_of(h, row->dim[d]);
        shape.dim[shape.rank] = extent == any_extent ? got.dim[shape.rank] : extent;
        shape.rank++;
    }
    return shape;
}

/* ---- looking ---- */

static const char *name_of(const ig_weight_row *row, int64_t layer, char out[NAME_BYTES]) {
    if (row->flags & IG_EACH_LAYER)
        snprintf(out, NAME_BYTES, "blk.%lld.%s", (long long)layer, row->name);
    else
        snprintf(out, NAME_BYTES, "%s", row->name);
    return out;
}

/* The tensor's name for messages. */
static const char *shown(const ig_keys *keys, const char *name, char out[SHOWN_BYTES]) {
    return keys->shown ? keys->shown(keys->user, name, out, SHOWN_BYTES) : name;
}

/* Whether layer i has such a weight in the file. */
static bool is_in(const ig_keys *keys, const ig_weight_row *row, int64_t layer) {
    char name[NAME_BYTES];
    if (!(row->flags & (IG_SPLIT_QKV | IG_FUSED_QKV))) return true;
    snprintf(name, sizeof name, "blk.%lld.attn_qkv.weight", (long long)layer);
    const bool is_fused = ig_gguf_find_tensor(keys->file, name) != NULL;
    return is_fused == ((row->flags & IG_FUSED_QKV) != 0);
}

/* Whether the row applies, given the hyperparameters. */
static bool is_of(const ig_weight_row *row, const ig_hparams *h, int64_t layer) {
    const bool mixed = h->n_experts > 0 && layer >= h->n_dense_layers;
    const struct {
        int flag;
        bool holds;
    } conditions[] = {{IG_DENSE, !mixed},
                      {IG_MOE, mixed},
                      {IG_SHARED_EXPERT, h->d_ff_shared_expert > 0},
                      {IG_LOW_QUERY, h->q_lora_rank > 0},
                      {IG_FULL_QUERY, h->q_lora_rank == 0},
                      {IG_MLA_ABSORBED, h->mla_absorbed},
                      {IG_MLA_EXPANDED, !h->mla_absorbed}};
    for (size_t i = 0; i < sizeof conditions / sizeof conditions[0]; i++)
        if ((int)row->flags & conditions[i].flag && !conditions[i].holds) return false;
    return true;
}

/* NULL through `out`: optional and missing. */
static ig_status find(const ig_keys *keys, const ig_hparams *h, const ig_weight_row *row,
                      int64_t layer, const ig_gguf_tensor **out) {
    char name[NAME_BYTES], room[SHOWN_BYTES];
    char got[IG_SHAPE_TEXT_BYTES], want[IG_SHAPE_TEXT_BYTES];
    const ig_gguf_tensor *t = ig_gguf_find_tensor(keys->file, name_of(row, layer, name));
    const bool is_needed = is_in(keys, row, layer);
    *out = NULL;
    if (!is_of(row, h, layer)) return IG_OK;
    *out = t;
    if (!t && (!is_needed || row->flags & IG_OPTIONAL_WEIGHT)) return IG_OK;
    if (!t)
        return IG_FAIL(IG_ERR_FORMAT, "%s: %s: tensor %s is missing", keys->source, keys->arch,
                       shown(keys, name, room));
    if (!is_needed)
        return IG_FAIL(IG_ERR_FORMAT, "%s: %s: tensor %s is none of a layer %s attn_qkv.weight",
                       keys->source, keys->arch, shown(keys, name, room),
                       row->flags & IG_FUSED_QKV ? "without" : "with");
    const ig_shape shape = wanted_shape(h, row, t->desc.shape);
    if (!ig_shape_equal(t->desc.shape, shape))
        return IG_FAIL(IG_ERR_FORMAT, "%s: %s: tensor %s is %s; %s is needed", keys->source,
                       keys->arch, shown(keys, name, room), ig_shape_text(t->desc.shape, got),
                       ig_shape_text(shape, want));
    if (!ig_blocks_can_dequantize(t->desc.dtype))
        return IG_FAIL(IG_ERR_FORMAT, "%s: %s: tensor %s is %s, which no weights are", keys->source,
                       keys->arch, shown(keys, name, room), ig_dtype_name(t->desc.dtype));
    return IG_OK;
}

/* Row i of all tables; NULL: past the end. */
static const ig_weight_row *row_at(const ig_arch *arch, size_t i) {
    for (const ig_weight_row *const *table = arch->weights; *table; table++)
        for (const ig_weight_row *row = *table; row->name; row++)
            if (i-- == 0) return row;
    return NULL;
}

static int64_t times_of(const ig_weight_row *row, const ig_hparams *h) {
    return row->flags & IG_EACH_LAYER ? h->size.n_layers : 1;
}

/* The name after "blk.N." and the layer; for other names the name itself and layer -1. */
static const char *name_in_layer(const char *name, const ig_hparams *h, int64_t *out_layer) {
    int layer = 0, length = 0;
    char again[NAME_BYTES];
    bool is_in_layer = sscanf(name, "blk.%6d.%n", &layer, &length) == 1 && length > 0 &&
                       layer >= 0 && layer < h->size.n_layers;
    snprintf(again, sizeof again, "blk.%d.", layer);
    is_in_layer = is_in_layer && strncmp(name, again, (size_t)length) == 0; /* refuses 00 and +1 */
    *out_layer = is_in_layer ? layer : -1;
    return is_in_layer ? name + length : name;
}

/* Classification heads, which embeddings do not use, and redundant RoPE frequencies of older
 * files. */
static bool is_beside(const char *name) {
    static const char *const beside[] = {"cls.", "attn_rot_embd."};
    for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++)
        if (strncmp(name, beside[i], strlen(beside[i])) == 0) return true;
    return false;
}

/* Belongs to a trailing MTP layer. */
static bool is_ahead(const char *name, const ig_hparams *h) {
    ig_hparams all = *h;
    int64_t layer;
    all.size.n_layers += h->n_mtp_layers;
    (void)name_in_layer(name, &all, &layer);
    return layer >= h->size.n_layers;
}

/* Refuses weights that no table binds: the model would silently compute without them. */
static ig_status check_known(const ig_keys *keys, const ig_arch *arch, const ig_hparams *h,
                             const ig_gguf_tensor *t) {
    int64_t layer;
    char room[SHOWN_BYTES];
    const char *name = name_in_layer(t->name, h, &layer);
    const ig_weight_row *row;
    for (size_t i = 0; (row = row_at(arch, i)) != NULL; i++)
        if (is_of(row, h, layer) && (layer >= 0) == ((row->flags & IG_EACH_LAYER) != 0) &&
            strcmp(row->name, name) == 0)
            return IG_OK;
    if (is_beside(name) || is_ahead(t->name, h)) return IG_OK;
    return IG_FAIL(IG_ERR_FORMAT, "%s: %s: tensor %s is none that is known in %lld layers",
                   keys->source, keys->arch, shown(keys, t->name, room),
                   (long long)h->size.n_layers);
}

ig_status ig_weights_check(const ig_keys *keys, const ig_arch *arch, const ig_hparams *h) {
    const ig_gguf_tensor *unused;
    const ig_weight_row *row;
    for (size_t r = 0; (row = row_at(arch, r)) != NULL; r++)
        for (int64_t i = 0; i < times_of(row, h); i++) IG_TRY(find(keys, h, row, i, &unused));
    for (size_t i = 0; i < ig_gguf_n_tensors(keys->file); i++)
        IG_TRY(check_known(keys, arch, h, ig_gguf_tensor_at(keys->file, i)));
    return IG_OK;
}

/* ---- binding ---- */

typedef struct binding {
    ig_ctx *ctx;
    const ig_keys *keys;
    const ig_hparams *hyper;
    ig_weights_owner owner;
    ig_lm *lm;
} binding;

static ig_tensor **place_of(ig_lm *m, const ig_weight_row *row, int64_t layer) {
    char *base = row->flags & IG_EACH_LAYER ? (char *)&m->layers[layer] : (char *)m;
    return (ig_tensor **)(base + row->to);
}

/* Ops read vectors as F32; few files have other types. */
static ig_status widen(const binding *b, const ig_gguf_tensor *t, ig_tensor **out) {
    const int64_t n = ig_shape_count(t->desc.shape);
    ig_tensor *wide = NULL;
    IG_TRY(ig_tensor_create(b->ctx, (ig_desc){IG_F32, t->desc.shape}, &wide));
    float *numbers = ig_tensor_map(wide);
    if (!numbers) {
        ig_tensor_release(wide);
        return IG_FAIL(IG_ERR_UNSUPPORTED, "%s: the device's memory is not the host's", t->name);
    }
    ig_blocks_dequantize(t->desc.dtype, t->bytes, numbers, n);
    *out = wide;
    return IG_OK;
}

/* A misaligned tensor is copied to aligned memory. */
static bool is_aligned(const ig_gguf_tensor *t) {
    const uintptr_t each = t->desc.dtype == IG_F32 ? 4 : 2;
    return ig_dtype_block(t->desc.dtype) > 1 || (uintptr_t)t->bytes % each == 0;
}

static ig_status take(const binding *b, const ig_gguf_tensor *t, ig_tensor **out) {
    if (t->desc.shape.rank == 1 && t->desc.dtype != IG_F32) return widen(b, t, out);
    if (!is_aligned(t)) return ig_tensor_create_from(b->ctx, t->desc, t->bytes, out);
    b->owner.retain(b->owner.owner);
    const ig_status status = ig_tensor_wrap(b->ctx, t->desc, NULL, (void *)(uintptr_t)t->bytes,
                                            b->owner.release, b->owner.owner, out);
    if (status != IG_OK) b->owner.release(b->owner.owner);
    return status;
}

/* Weights never change, so a device may repack them and keep the result. */
static ig_status bind(const binding *b, const ig_weight_row *row, int64_t layer) {
    const ig_gguf_tensor *t;
    ig_tensor **out = place_of(b->lm, row, layer);
    IG_TRY(find(b->keys, b->hyper, row, layer, &t));
    if (!t) return IG_OK;
    IG_TRY(take(b, t, out));
    return ig_tensor_freeze(*out);
}

/*
 * YaRN: pairs that rotate often keep their frequency, pairs that rotate less than once in the
 * original context are scaled by the full factor, and pairs in between by a part of it. (Peng et
 * al., 2023; the defaults are 32 rotations and 1.)
 */
static double yarn_factor(const ig_hparams *h, int64_t pair) {
    const double dims = h->rope.rotary_dims, base = (double)h->rope.freq_base;
    const double ctx = (double)(h->orig_ctx_len ? h->orig_ctx_len : h->size.ctx_len);
    const double two_pi = 6.283185307179586;
    const double first = floor(dims * log(ctx / ((double)h->yarn_fast * two_pi)) / (2 * log(base)));
    const double last = ceil(dims * log(ctx / ((double)h->yarn_slow * two_pi)) / (2 * log(base)));
    const double low = fmax(first, 0), high = fmin(last, dims - 1);
    const double along = ((double)pair - low) / fmax(high - low, 0.001);
    const double slow = fmin(fmax(along, 0), 1); /* 0: original frequency, 1: fully scaled */
    return 1 / ((1 - slow) + slow / (double)h->yarn_scale);
}

static ig_status make_yarn(const binding *b) {
    const ig_hparams *h = b->hyper;
    const int64_t n = h->rope.rotary_dims / 2;
    if (h->yarn_scale == 0 || b->lm->rope_factors) return IG_OK;
    IG_TRY(ig_tensor_create(b->ctx, (ig_desc){IG_F32, IG_SHAPE(n)}, &b->lm->rope_factors));
    float *factors = ig_tensor_map(b->lm->rope_factors);
    if (!factors)
        return IG_FAIL(IG_ERR_UNSUPPORTED, "rope factors: the device's memory is not the host's");
    for (int64_t i = 0; i < n; i++) factors[i] = (float)yarn_factor(h, i);
    return IG_OK;
}

static ig_status make_head_numbers(const binding *b) {
    const int64_t n = b->hyper->size.n_heads;
    if (!b->hyper->mla_absorbed) return IG_OK;
    IG_TRY(ig_tensor_create(b->ctx, (ig_desc){IG_I32, IG_SHAPE(n)}, &b->lm->head_numbers));
    int32_t *numbers = ig_tensor_map(b->lm->head_numbers);
    if (!numbers)
        return IG_FAIL(IG_ERR_UNSUPPORTED, "head numbers: the device's memory is not the host's");
    for (int64_t i = 0; i < n; i++) numbers[i] = (int32_t)i;
    return IG_OK;
}

ig_status ig_lm_create(ig_ctx *ctx, const ig_keys *keys, const ig_arch *arch, const ig_hparams *h,
                       ig_weights_owner owner, ig_lm **out) {
    const size_t layers = (size_t)h->size.n_layers;
    ig_lm *m = ig_alloc(ig_ctx_allocator(ctx), 1, sizeof *m + layers * sizeof m->layers[0]);
    if (!m) return IG_FAIL(IG_ERR_MEMORY, "%s: %zu layers", keys->source, layers);
    m->hparams = h;
    const binding b = {ctx, keys, h, owner, m};
    ig_status status = IG_OK;
    const ig_weight_row *row;
    for (size_t r = 0; status == IG_OK && (row = row_at(arch, r)) != NULL; r++)
        for (int64_t i = 0; i < times_of(row, h) && status == IG_OK; i++) status = bind(&b, row, i);
    if (status == IG_OK) status = make_yarn(&b);
    if (status == IG_OK) status = make_head_numbers(&b);
    if (status == IG_OK)
        *out = m;
    else
        ig_lm_destroy(ctx, arch, m);
    return status;
}

void ig_lm_destroy(ig_ctx *ctx, const ig_arch *arch, ig_lm *m) {
    if (!m) return;
    if (m->hparams->yarn_scale != 0) { /* freed either way, once */
        ig_tensor_release(m->rope_factors);
        m->rope_factors = NULL;
    }
    ig_tensor_release(m->head_numbers);
    const ig_weight_row *row;
    for (size_t r = 0; (row = row_at(arch, r)) != NULL; r++)
        for (int64_t i = 0; i < times_of(row, m->hparams); i++)
            ig_tensor_release(*place_of(m, row, i));
    ig_free(ig_ctx_allocator(ctx), m);
}
