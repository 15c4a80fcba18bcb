/* Reads the hyperparameters of a GGUF file. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/gguf/decoder.h"

enum { KEY_BYTES = 128, MOST = 1 << 24 };

static const char *full_name(const ig_keys *keys, const char *name, char out[KEY_BYTES]) {
    snprintf(out, KEY_BYTES, "%s.%s", keys->arch, name);
    return out;
}

static ig_status lacking(const ig_keys *keys, const char *key) {
    return IG_FAIL(IG_ERR_FORMAT, "%s: key %s is missing or not a number", keys->source, key);
}

/* A per-layer array of numbers must have equal elements. */
static ig_status read_layers(const ig_keys *keys, const char *key, const ig_gguf_value *value,
                             int64_t *out) {
    char count[KEY_BYTES];
    int64_t layers = 0;
    if (value->count == 0 || !value->packed || value->elements == IG_GGUF_F32 ||
        value->elements == IG_GGUF_F64 ||
        !ig_gguf_int(keys->file, full_name(keys, "block_count", count), &layers))
        return lacking(keys, key);
    if ((int64_t)value->count != layers)
        return IG_FAIL(IG_ERR_FORMAT, "%s: key %s has %llu numbers for %lld layers", keys->source,
                       key, (unsigned long long)value->count, (long long)layers);
    *out = ig_gguf_int_at(value, 0);
    for (uint64_t i = 1; i < value->count; i++)
        if (ig_gguf_int_at(value, i) != *out)
            return IG_FAIL(IG_ERR_FORMAT,
                           "%s: key %s is %lld in layer 0 and %lld in layer %llu; layers that "
                           "differ in it are not supported",
                           keys->source, key, (long long)*out, (long long)ig_gguf_int_at(value, i),
                           (unsigned long long)i);
    return IG_OK;
}

static ig_status read_int(const ig_keys *keys, const char *key, int64_t *out) {
    const ig_gguf_value *value = ig_gguf_find(keys->file, key);
    if (value && value->type == IG_GGUF_ARRAY) return read_layers(keys, key, value, out);
    return ig_gguf_int(keys->file, key, out) ? IG_OK : lacking(keys, key);
}

ig_status ig_key_int(const ig_keys *keys, const char *name, ig_need need, int64_t low, int64_t high,
                     int64_t *out) {
    char key[KEY_BYTES];
    int64_t value = 0;
    full_name(keys, name, key);
    if (need == IG_OPTIONAL && !ig_gguf_find(keys->file, key)) return IG_OK;
    IG_TRY(read_int(keys, key, &value));
    if (value < low || value > high)
        return IG_FAIL(IG_ERR_FORMAT, "%s: key %s is %lld; from %lld to %lld", keys->source, key,
                       (long long)value, (long long)low, (long long)high);
    *out = value;
    return IG_OK;
}

ig_status ig_key_real(const ig_keys *keys, const char *name, ig_need need, float low, float high,
                      float *out) {
    char key[KEY_BYTES];
    double value;
    full_name(keys, name, key);
    if (need == IG_OPTIONAL && !ig_gguf_find(keys->file, key)) return IG_OK;
    if (!ig_gguf_real(keys->file, key, &value)) return lacking(keys, key);
    if (!(value >= (double)low && value <= (double)high))
        return IG_FAIL(IG_ERR_FORMAT, "%s: key %s is %g; from %g to %g", keys->source, key, value,
                       (double)low, (double)high);
    *out = (float)value;
    return IG_OK;
}

ig_status ig_key_bool(const ig_keys *keys, const char *name, bool *out) {
    char key[KEY_BYTES];
    if (!ig_gguf_find(keys->file, full_name(keys, name, key))) return IG_OK;
    if (ig_gguf_bool(keys->file, key, out)) return IG_OK;
    return IG_FAIL(IG_ERR_FORMAT, "%s: key %s is neither true nor false", keys->source, key);
}

/* ---- sizes ---- */

static const struct {
    const char *name;
    size_t to;
    ig_need need;
    int64_t low, high;
} sizes[] = {
    {"context_length", offsetof(ig_hparams, size.ctx_len), IG_REQUIRED, 1, MOST},
    {"embedding_length", offsetof(ig_hparams, size.d_model), IG_REQUIRED, 1, MOST},
    {"block_count", offsetof(ig_hparams, size.n_layers), IG_REQUIRED, 1, 4096},
    {"feed_forward_length", offsetof(ig_hparams, size.d_ff), IG_REQUIRED, 1, MOST},
    {"attention.head_count", offsetof(ig_hparams, size.n_heads), IG_REQUIRED, 1, 65536},
    {"attention.head_count_kv", offsetof(ig_hparams, size.n_kv_heads), IG_OPTIONAL, 1, 65536},
    {"attention.key_length", offsetof(ig_hparams, size.key_width), IG_OPTIONAL, 1, 65536},
    {"attention.value_length", offsetof(ig_hparams, size.value_width), IG_OPTIONAL, 1, 65536},
    {"expert_count", offsetof(ig_hparams, n_experts), IG_OPTIONAL, 0, 65536},
    {"expert_used_count", offsetof(ig_hparams, n_experts_used), IG_OPTIONAL, 0, 65536},
    {"expert_feed_forward_length", offsetof(ig_hparams, d_ff_expert), IG_OPTIONAL, 1, MOST},
    {"expert_shared_feed_forward_length", offsetof(ig_hparams, d_ff_shared_expert), IG_OPTIONAL, 0,
     MOST},
    {"attention.sliding_window", offsetof(ig_hparams, sliding_window), IG_OPTIONAL, 0, MOST},
    {"rope.scaling.original_context_length", offsetof(ig_hparams, orig_ctx_len), IG_OPTIONAL, 1,
     MOST},
    {"pooling_type", offsetof(ig_hparams, pooling), IG_OPTIONAL, 0, MOST},
};

static ig_status read_sizes(const ig_keys *keys, ig_hparams *h) {
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        IG_TRY(ig_key_int(keys, sizes[i].name, sizes[i].need, sizes[i].low, sizes[i].high,
                          (int64_t *)((char *)h + sizes[i].to)));
    ig_lm_config *c = &h->size;
    if (c->n_kv_heads == 0) c->n_kv_heads = c->n_heads;
    if (c->n_heads % c->n_kv_heads != 0)
        return IG_FAIL(IG_ERR_FORMAT,
                       "%s: %s: n_heads %lld is not a multiple of n_kv_heads %lld (GQA)",
                       keys->source, keys->arch, (long long)c->n_heads, (long long)c->n_kv_heads);
    if (c->key_width == 0 && c->d_model % c->n_heads != 0)
        return IG_FAIL(IG_ERR_FORMAT, "%s: %s: a width of %lld is not divisible by %lld heads",
                       keys->source, keys->arch, (long long)c->d_model, (long long)c->n_heads);
    c->key_width = ig_lm_key_width(c);
    if (c->value_width == 0) c->value_width = c->key_width;
    const ig_gguf_tensor *embed = ig_gguf_find_tensor(keys->file, "token_embd.weight");
    if (!embed || embed->desc.shape.rank != 2 || embed->desc.shape.dim[0] < 1)
        return IG_FAIL(IG_ERR_FORMAT, "%s: %s: tensor token_embd.weight is missing, or no matrix",
                       keys->source, keys->arch);
    c->vocabulary = embed->desc.shape.dim[0];
    return IG_OK;
}

/* ---- rotary positions ---- */

static bool is_text(ig_string_view text, const char *word) {
    return text.n_bytes == strlen(word) && memcmp(text.bytes, word, text.n_bytes) == 0;
}

/* LongRoPE consists of its factors; without them, positions would not be scaled. */
static ig_status check_factors(const ig_keys *keys, const char *key) {
    const bool has_long = ig_gguf_find_tensor(keys->file, "rope_factors_long.weight");
    const bool has_short = ig_gguf_find_tensor(keys->file, "rope_factors_short.weight");
    if ((has_long && has_short) || ig_gguf_find_tensor(keys->file, "rope_freqs.weight"))
        return IG_OK;
    return IG_FAIL(IG_ERR_FORMAT, "%s: key %s is longrope, but %s missing", keys->source, key,
                   has_long    ? "tensor rope_factors_short.weight is"
                   : has_short ? "tensor rope_factors_long.weight is"
                               : "tensors rope_factors_long.weight and rope_factors_short.weight "
                                 "are");
}

/* RoPE scaling beyond the original context length. */
static ig_status read_scaling(const ig_keys *keys, ig_hparams *h) {
    char key[KEY_BYTES];
    ig_string_view type = {"linear", 6};
    float factor = 0;
    IG_TRY(
        ig_key_real(keys, "rope.scale_linear", IG_OPTIONAL, 0, 1e6F, &factor)); /* older spelling */
    IG_TRY(ig_key_real(keys, "rope.scaling.factor", IG_OPTIONAL, 0, 1e6F, &factor));
    IG_TRY(ig_key_real(keys, "rope.scaling.attn_factor", IG_OPTIONAL, 0, 1e6F, &h->mscale));
    (void)ig_gguf_string(keys->file, full_name(keys, "rope.scaling.type", key), &type);
    if (is_text(type, "none")) return IG_OK;
    if (is_text(type, "longrope")) return check_factors(keys, key);
    if (is_text(type, "linear") || is_text(type, "yarn")) {
        h->rope.freq_scale = factor > 0 && is_text(type, "linear") ? 1 / factor : 1;
        h->yarn_scale = is_text(type, "yarn") ? factor : 0;
        if (h->yarn_scale > 1) /* YaRN's attention factor */
            h->mscale = (h->mscale > 0 ? h->mscale : 1) * (1 + 0.1F * logf(h->yarn_scale));
        return IG_OK;
    }
    return IG_FAIL(IG_ERR_FORMAT, "%s: key %s is %.*s; known are none, linear, yarn and longrope",
                   keys->source, key, (int)(type.n_bytes < 32 ? type.n_bytes : 32), type.bytes);
}

static ig_status read_rope(const ig_keys *keys, ig_hparams *h) {
    char key[KEY_BYTES];
    int64_t dims = h->size.key_width;
    h->rope = (ig_rope_options){.freq_base = 10000, .freq_scale = 1};
    h->yarn_fast = 32, h->yarn_slow = 1;
    IG_TRY(
        ig_key_real(keys, "rope.scaling.yarn_beta_fast", IG_OPTIONAL, 1e-3F, 1e6F, &h->yarn_fast));
    IG_TRY(
        ig_key_real(keys, "rope.scaling.yarn_beta_slow", IG_OPTIONAL, 1e-3F, 1e6F, &h->yarn_slow));
    IG_TRY(ig_key_real(keys, "rope.freq_base", IG_OPTIONAL, 1, 1e12F, &h->rope.freq_base));
    IG_TRY(ig_key_int(keys, "rope.dimension_count", IG_OPTIONAL, 2, dims, &dims));
    if (dims % 2 != 0)
        return IG_FAIL(IG_ERR_FORMAT, "%s: %s: rotary dimension %lld must be even for RoPE",
                       keys->source, keys->arch, (long long)dims);
    h->rope.rotary_dims = (int)dims;
    if (ig_gguf_find(keys->file, full_name(keys, "rope.dimension_sections", key)))
        return IG_FAIL(IG_ERR_FORMAT, "%s: key %s: positions in pictures are not known",
                       keys->source, key);
    return read_scaling(keys, h);
}

ig_status ig_hparams_read_windows(const ig_keys *keys, ig_hparams *h) {
    IG_TRY(ig_key_int(keys, "attention.sliding_window_pattern", IG_OPTIONAL, 1, 4096,
                      &h->full_attn_period));
    return ig_key_real(keys, "rope.freq_base_swa", IG_OPTIONAL, 1, 1e12F, &h->rope_swa.freq_base);
}

/* Keys that change the computation: read for architectures that own them, refused otherwise. */
static const struct {
    const char *name;
    double usual; /* a neutral value; 0 is neutral, too */
    size_t to;    /* 0: no field */
} numbers[] = {
    {"attn_logit_softcapping", 0, offsetof(ig_hparams, attn_softcap)},
    {"final_logit_softcapping", 0, offsetof(ig_hparams, final_softcap)},
    {"logit_scale", 1, offsetof(ig_hparams, logit_scale)},
    {"embedding_scale", 1, offsetof(ig_hparams, embedding_scale)},
    {"residual_scale", 1, offsetof(ig_hparams, residual_scale)},
    {"attention.max_alibi_bias", 0, 0},
    {"attention.clamp_kqv", 0, 0},
    {"attention.temperature_scale", 0, 0},
    {"expert_gating_func", 1, 0}, /* softmax */
    {"expert_weights_scale", 1, offsetof(ig_hparams, routed_scaling)},
    {"expert_shared_count", 0, 0},
    {"expert_group_count", 1, 0},
    {"expert_group_used_count", 1, 0},
    {"leading_dense_block_count", 0, 0},
    {"interleave_moe_layer_step", 1, 0},
    {"nextn_predict_layers", 0, 0},
    {"rope.scaling.yarn_log_multiplier", 0, 0},
    {"rope.scaling.yarn_ext_factor", 1, 0},
    {"rope.scaling.yarn_attn_factor", 1, 0},
};

static bool owns(const ig_arch *arch, const char *name) {
    for (const char *const *own = arch->own_keys; own && *own; own++)
        if (strcmp(*own, name) == 0) return true;
    return false;
}

static ig_status check_unread(const ig_keys *keys, const char *name, double usual) {
    char key[KEY_BYTES];
    double value = 0;
    if (!ig_gguf_find(keys->file, full_name(keys, name, key))) return IG_OK;
    if (!ig_gguf_real(keys->file, key, &value)) return lacking(keys, key);
    if (value == 0 || value == usual) return IG_OK;
    return IG_FAIL(IG_ERR_FORMAT, "%s: key %s is %g, which a %s is not known to have", keys->source,
                   key, value, keys->arch);
}

static ig_status read_numbers(const ig_keys *keys, const ig_arch *arch, ig_hparams *h) {
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (numbers[i].to > 0 && owns(arch, numbers[i].name))
            IG_TRY(ig_key_real(keys, numbers[i].name, IG_OPTIONAL, 0, 1e6F,
                               (float *)(void *)((char *)h + numbers[i].to)));
        else if (!owns(arch, numbers[i].name)) /* otherwise read() handles it */
            IG_TRY(check_unread(keys, numbers[i].name, numbers[i].usual));
    }
    return IG_OK;
}

ig_status ig_hparams_read_experts(const ig_keys *keys, ig_hparams *h) {
    enum { BY_SOFTMAX = 1, BY_SIGMOID = 2 };
    int64_t shared = 0, gating = h->sigmoid_gating ? BY_SIGMOID : BY_SOFTMAX;
    bool sums_to_one = false;
    IG_TRY(ig_key_int(keys, "expert_count", IG_REQUIRED, 1, 65536, &h->n_experts));
    IG_TRY(ig_key_int(keys, "expert_feed_forward_length", IG_REQUIRED, 1, MOST, &h->d_ff_expert));
    IG_TRY(ig_key_int(keys, "nextn_predict_layers", IG_OPTIONAL, 0, h->size.n_layers - 1,
                      &h->n_mtp_layers));
    h->size.n_layers -= h->n_mtp_layers;
    IG_TRY(ig_key_int(keys, "leading_dense_block_count", IG_OPTIONAL, 0, h->size.n_layers,
                      &h->n_dense_layers));
    IG_TRY(ig_key_int(keys, "expert_shared_count", IG_OPTIONAL, 0, 64, &shared));
    h->d_ff_shared_expert =
        shared * (h->d_ff_shared_expert > 0 ? h->d_ff_shared_expert : h->d_ff_expert);
    IG_TRY(ig_key_int(keys, "expert_gating_func", IG_OPTIONAL, 1, BY_SIGMOID, &gating));
    h->sigmoid_gating = gating == BY_SIGMOID;
    IG_TRY(ig_key_bool(keys, "expert_weights_norm", &sums_to_one));
    h->no_norm_topk = !sums_to_one;
    IG_TRY(ig_key_int(keys, "expert_group_count", IG_OPTIONAL, 0, h->n_experts, &h->n_groups));
    if (h->n_groups <= 1) {
        h->n_groups = 0;
        return IG_OK;
    }
    if (h->n_experts % h->n_groups != 0 || h->n_experts < 2 * h->n_groups)
        return IG_FAIL(IG_ERR_FORMAT, "%s: %s: %lld experts in %lld groups", keys->source,
                       keys->arch, (long long)h->n_experts, (long long)h->n_groups);
    IG_TRY(ig_key_int(keys, "expert_group_used_count", IG_REQUIRED, 1, h->n_groups,
                      &h->n_groups_used));
    if (h->n_experts_used > h->n_experts / h->n_groups * h->n_groups_used)
        return IG_FAIL(IG_ERR_FORMAT, "%s: %s: %lld experts out of %lld groups of %lld",
                       keys->source, keys->arch, (long long)h->n_experts_used,
                       (long long)h->n_groups_used, (long long)(h->n_experts / h->n_groups));
    return IG_OK;
}

/* The same for flags; a missing flag is neutral. */
static ig_status check_flag(const ig_keys *keys, const char *name, bool wanted) {
    char key[KEY_BYTES];
    bool value = wanted;
    if (!ig_gguf_find(keys->file, full_name(keys, name, key))) return IG_OK;
    if (ig_gguf_bool(keys->file, key, &value) && value == wanted) return IG_OK;
    return IG_FAIL(IG_ERR_FORMAT, "%s: key %s is not %s, as a %s must have it", keys->source, key,
                   wanted ? "true" : "false", keys->arch);
}

/* One of the two epsilons must exist, depending on the architecture. */
static ig_status read_eps(const ig_keys *keys, ig_hparams *h) {
    h->norm_eps = -1;
    IG_TRY(ig_key_real(keys, "attention.layer_norm_rms_epsilon", IG_OPTIONAL, 0, 1, &h->norm_eps));
    IG_TRY(ig_key_real(keys, "attention.layer_norm_epsilon", IG_OPTIONAL, 0, 1, &h->norm_eps));
    if (h->norm_eps >= 0) return IG_OK;
    return IG_FAIL(IG_ERR_FORMAT, "%s: key %s.attention.layer_norm_rms_epsilon is missing",
                   keys->source, keys->arch);
}

ig_status ig_hparams_read(const ig_keys *keys, const ig_arch *arch, ig_hparams *out) {
    ig_hparams h = {.layer_norm = arch->layer_norm, .parallel_residual = arch->parallel_residual};
    IG_TRY(read_sizes(keys, &h));
    IG_TRY(read_eps(keys, &h));
    IG_TRY(ig_key_real(keys, "attention.scale", IG_OPTIONAL, 0, 1e6F, &h.attention_scale));
    IG_TRY(read_rope(keys, &h));
    IG_TRY(read_numbers(keys, arch, &h));
    IG_TRY(check_flag(keys, "attention.causal", arch->has_cache));
    if (!owns(arch, "use_parallel_residual"))
        IG_TRY(check_flag(keys, "use_parallel_residual", false));
    if (h.n_experts > 0)
        IG_TRY(
            ig_key_int(keys, "expert_used_count", IG_REQUIRED, 1, h.n_experts, &h.n_experts_used));
    h.rope.type = arch->rope_interleaved ? IG_ROPE_INTERLEAVED : IG_ROPE_NEOX;
    h.rope_swa = h.rope;
    if (arch->read) IG_TRY(arch->read(keys, &h));
    if (h.d_ff_expert == 0) h.d_ff_expert = h.size.d_ff;
    IG_TRY(check_flag(keys, "expert_weights_norm", !h.no_norm_topk));
    *out = h;
    return IG_OK;
}
