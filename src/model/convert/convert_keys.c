/* Writes config.json's values as GGUF keys, or fails on a value that GGUF cannot represent. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/convert/convert_parts.h"

enum { KEY_BYTES = 96 };

static const double usual_local_base = 1e4; /* gemma3's RoPE base of sliding-window layers */

int64_t convert_int(const ig_conversion *c, const char *name, const char *other, int64_t absent) {
    const json_t *value = json_object_get(c->text, name);
    if (!json_is_integer(value) && other) value = json_object_get(c->text, other);
    return json_is_integer(value) ? json_integer_value(value) : absent;
}

double convert_real(const ig_conversion *c, const char *name, const char *other, double absent) {
    const json_t *value = json_object_get(c->text, name);
    if (!json_is_number(value) && other) value = json_object_get(c->text, other);
    return json_is_number(value) ? json_number_value(value) : absent;
}

/* ---- Rotations ---- */

/* The config's RoPE scaling; NULL: none.  Where sliding-window layers have their own, this is the
 * one of the full-attention layers. */
static const json_t *scaling_of(const ig_conversion *c) {
    const json_t *scaling = json_object_get(c->text, "rope_scaling");
    if (!json_is_object(scaling)) scaling = json_object_get(c->text, "rope_parameters");
    const json_t *of_all = json_object_get(scaling, "full_attention");
    if (json_is_object(of_all)) scaling = of_all;
    return json_is_object(scaling) ? scaling : NULL;
}

/* The RoPE parameters of the sliding-window layers alone; NULL: none. */
static const json_t *scaling_of_windows(const ig_conversion *c) {
    const json_t *all = json_object_get(c->text, "rope_parameters");
    const json_t *own = json_object_get(all, "sliding_attention");
    return json_is_object(own) ? own : NULL;
}

static const char *scaling_type(const json_t *scaling) {
    const char *type = json_string_value(json_object_get(scaling, "rope_type"));
    if (!type) type = json_string_value(json_object_get(scaling, "type"));
    return type ? type : "default";
}

static double scaling_real(const json_t *scaling, const char *key, double absent) {
    const json_t *value = json_object_get(scaling, key);
    return json_is_number(value) ? json_number_value(value) : absent;
}

static double rope_base(const ig_conversion *c) {
    const double usual = c->arch->gemma3 ? 1e6 : 1e4;
    return convert_real(c, "rope_theta", NULL, scaling_real(scaling_of(c), "rope_theta", usual));
}

static int64_t rotated_size(const ig_conversion *c) {
    const double part = convert_real(c, "partial_rotary_factor", NULL,
                                     scaling_real(scaling_of(c), "partial_rotary_factor", 1));
    return part > 0 && part < 1 ? (int64_t)(part * (double)c->head_size) : c->head_size;
}

/* ---- Checks ---- */

ig_status convert_refuse(const ig_conversion *c, const char *key, const char *why) {
    return IG_FAIL(IG_ERR_FORMAT, "%s/config.json: %s: %s", c->dir, key, why);
}

/* The key must have this one value, or be absent. */
static ig_status check_is(const ig_conversion *c, const char *key, const char *wanted) {
    const char *value = json_string_value(json_object_get(c->text, key));
    if (!value || strcmp(value, wanted) == 0) return IG_OK;
    return IG_FAIL(IG_ERR_FORMAT, "%s/config.json: %s is %.32s, a %s is converted only with %s",
                   c->dir, key, value, c->arch->name, wanted);
}

static bool is_set(const ig_conversion *c, const char *key) {
    const json_t *value = json_object_get(c->text, key);
    return value && !json_is_null(value) && !json_is_false(value);
}

static ig_status check_gemma3(const ig_conversion *c) {
    const double scale = convert_real(c, "query_pre_attn_scalar", NULL, (double)c->head_size);
    const int64_t embedding = convert_int(c, "hidden_size", NULL, 0);
    if (scale != (double)c->head_size && scale * (double)c->heads != (double)embedding)
        return convert_refuse(c, "query_pre_attn_scalar", "is not a valid head_dim");
    return IG_OK;
}

/* ---- RoPE parameters ---- */

enum {
    LINEAR = 1 << 0,
    YARN = 1 << 1,
    LLAMA3 = 1 << 2,
    LONGROPE = 1 << 3,
    PLAIN = 1 << 4,
    ANY_SCALING = LINEAR | YARN | LLAMA3 | LONGROPE | PLAIN,
};

static unsigned scaling_kind(const char *type) {
    static const struct {
        const char *type;
        unsigned kind;
    } rows[] = {{"default", PLAIN}, {"linear", LINEAR},     {"yarn", YARN},
                {"llama3", LLAMA3}, {"longrope", LONGROPE}, {"su", LONGROPE}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].type, type) == 0) return rows[i].kind;
    return 0;
}

/* The keys read for each scaling type; others are refused. */
static const struct {
    const char *name;
    unsigned kinds;
} scaling_keys[] = {
    {"rope_type", ANY_SCALING},
    {"type", ANY_SCALING},
    {"rope_theta", ANY_SCALING},
    {"partial_rotary_factor", ANY_SCALING},
    {"factor", LINEAR | YARN | LLAMA3 | LONGROPE},
    {"original_max_position_embeddings", YARN | LLAMA3 | LONGROPE},
    {"low_freq_factor", LLAMA3},
    {"high_freq_factor", LLAMA3},
    {"long_factor", LONGROPE},
    {"short_factor", LONGROPE},
    {"attention_factor", YARN | LONGROPE},
    {"beta_fast", YARN},
    {"beta_slow", YARN},
    {"mscale", YARN},
    {"mscale_all_dim", YARN},
};

static ig_status check_scaling_keys(const ig_conversion *c, const json_t *scaling) {
    const unsigned kind = scaling_kind(scaling_type(scaling));
    const char *name;
    json_t *value;
    if (!kind) return IG_OK; /* convert_add_rotations() refuses the type */
    json_object_foreach((json_t *)scaling, name, value) {
        bool known = json_is_null(value);
        for (size_t i = 0; i < sizeof scaling_keys / sizeof *scaling_keys; i++)
            known =
                known || (strcmp(scaling_keys[i].name, name) == 0 && scaling_keys[i].kinds & kind);
        if (strcmp(name, "truncate") == 0 && kind == YARN) known = json_is_true(value);
        if (!known)
            return IG_FAIL(IG_ERR_FORMAT,
                           "%s/config.json: rope_scaling: %.64s is not converted with type %s",
                           c->dir, name, scaling_type(scaling));
    }
    return IG_OK;
}

/* GGUF has one RoPE scaling, for the full-attention layers, and only a base for sliding-window
 * layers. */
static ig_status check_scaling(const ig_conversion *c) {
    const json_t *of_all = scaling_of(c), *of_windows = scaling_of_windows(c);
    if (!c->arch->phi3 && rotated_size(c) != c->head_size)
        return convert_refuse(c, "partial_rotary_factor", "is supported for phi3 only");
    if (of_all) IG_TRY(check_scaling_keys(c, of_all));
    if (!of_windows) return IG_OK;
    if (!c->arch->gemma3)
        return convert_refuse(c, "rope_parameters",
                              "differs between layers, which is not converted");
    if (strcmp(scaling_type(of_windows), "default") != 0)
        return convert_refuse(c, "rope_parameters",
                              "sliding-window layers have RoPE scaling, which is not converted");
    return check_scaling_keys(c, of_windows);
}

static ig_status check_experts(const ig_conversion *c) {
    if (convert_int(c, "decoder_sparse_step", NULL, 1) != 1 ||
        json_array_size(json_object_get(c->text, "mlp_only_layers")) > 0)
        return convert_refuse(c, "decoder_sparse_step", "layers without experts are not converted");
    if (json_is_false(json_object_get(c->text, "norm_topk_prob")))
        return convert_refuse(c, "norm_topk_prob",
                              "weights of experts that do not add up to 1 are not "
                              "converted");
    if (c->n_experts < 1 || c->n_experts > 4096)
        return convert_refuse(c, "num_experts", "must be from 1 to 4096");
    return IG_OK;
}

ig_status convert_check_config(ig_conversion *c) {
    c->heads = convert_int(c, "num_attention_heads", "n_head", 0);
    c->kv_heads = convert_int(c, "num_key_value_heads", NULL, c->heads);
    c->n_experts = convert_int(c, "num_experts", "num_local_experts", 0);
    const int64_t embedding = convert_int(c, "hidden_size", "n_embd", 0);
    const int64_t layers = convert_int(c, "num_hidden_layers", "n_layer", 0);
    if (c->heads < 1 || c->heads > 65536 || c->kv_heads < 1 || c->kv_heads > c->heads)
        return convert_refuse(c, "num_attention_heads",
                              "must be from 1 to 65536, and num_key_value_heads from 1 to it");
    if (embedding < 1 || embedding > (1 << 24) || layers < 1 || layers > 65536)
        return convert_refuse(c, "hidden_size",
                              "it or num_hidden_layers is missing or out of range");
    if (convert_int(c, "max_position_embeddings", "n_positions", 0) < 1)
        return convert_refuse(c, c->arch->gpt2 ? "n_positions" : "max_position_embeddings",
                              "is missing or below 1");
    c->head_size = convert_int(c, "head_dim", NULL, embedding / c->heads);
    if (c->head_size < 1 || c->head_size > (1 << 16))
        return convert_refuse(c, "head_dim", "is not a valid head_dim");
    if (!(rope_base(c) > 0 && rope_base(c) < 1e30))
        return convert_refuse(c, "rope_theta", "is not a valid RoPE base");
    if (is_set(c, "quantization_config"))
        return convert_refuse(c, "quantization_config",
                              "the weights are quantized already; convert the original model");
    if (c->arch->act) {
        IG_TRY(check_is(c, "hidden_act", c->arch->act));
        IG_TRY(check_is(c, "hidden_activation", c->arch->act));
        IG_TRY(check_is(c, "activation_function", c->arch->act));
    }
    IG_TRY(check_is(c, "position_embedding_type", "absolute"));
    if (c->arch->rotated) IG_TRY(check_scaling(c));
    IG_TRY(convert_find_window(c, &c->window));
    if (c->arch->gemma3) IG_TRY(check_gemma3(c));
    if (c->arch->experts) IG_TRY(check_experts(c));
    return convert_check_known(c);
}

/* ---- Rotations as tensors ---- */

/* Llama 3's RoPE scaling: low frequencies are scaled, high ones are not, with a linear ramp in
 * between. */
static double llama3_factor(const json_t *s, double wavelength) {
    const double factor = scaling_real(s, "factor", 8);
    const double low = scaling_real(s, "low_freq_factor", 1);
    const double high = scaling_real(s, "high_freq_factor", 4);
    const double context = scaling_real(s, "original_max_position_embeddings", 8192);
    if (wavelength < context / high) return 1;
    if (wavelength > context / low) return factor;
    const double smooth = (context / wavelength - low) / (high - low);
    return 1 / ((1 - smooth) / factor + smooth);
}

static ig_status add_llama3(ig_conversion *c, const json_t *scaling) {
    const double pi = 3.14159265358979323846;
    const int64_t n = rotated_size(c) / 2;
    float *numbers = ig_alloc(c->allocator, (size_t)n, sizeof *numbers);
    bool good = true;
    for (int64_t i = 0; numbers && i < n; i++) {
        const double power = pow(rope_base(c), (double)i / (double)n);
        numbers[i] = (float)llama3_factor(scaling, 2 * pi * power);
        good = good && isfinite(numbers[i]) && numbers[i] > 0;
    }
    if (!good) {
        ig_free(c->allocator, numbers);
        return convert_refuse(c, "rope_scaling", "has no usable frequency factors");
    }
    return convert_add_computed(c, "rope_freqs.weight", numbers, n);
}

/* LongRoPE: lists of frequency factors, one for short contexts and one for long ones. */
static ig_status add_list(ig_conversion *c, const json_t *list, const char *name) {
    const int64_t n = rotated_size(c) / 2;
    if ((int64_t)json_array_size(list) != n)
        return convert_refuse(c, "rope_scaling", "needs one factor per RoPE pair");
    float *numbers = ig_alloc(c->allocator, (size_t)n, sizeof *numbers);
    for (int64_t i = 0; numbers && i < n; i++)
        numbers[i] = (float)json_number_value(json_array_get(list, (size_t)i));
    return convert_add_computed(c, name, numbers, n);
}

ig_status convert_add_rotations(ig_conversion *c) {
    const json_t *scaling = scaling_of(c);
    if (!c->arch->rotated || !scaling) return IG_OK;
    const char *type = scaling_type(scaling);
    if (strcmp(type, "llama3") == 0) return add_llama3(c, scaling);
    if (strcmp(type, "longrope") == 0 || strcmp(type, "su") == 0) {
        IG_TRY(add_list(c, json_object_get(scaling, "long_factor"), "rope_factors_long.weight"));
        return add_list(c, json_object_get(scaling, "short_factor"), "rope_factors_short.weight");
    }
    if (strcmp(type, "default") == 0 || strcmp(type, "linear") == 0 || strcmp(type, "yarn") == 0)
        return IG_OK;
    return IG_FAIL(IG_ERR_FORMAT, "%s/config.json: rope_scaling type %.32s is not supported",
                   c->dir, type);
}

/* ---- Keys ---- */

typedef struct keys {
    ig_gguf_writer *w;
    const char *arch;
    const char *bad; /* name of a key whose value does not fit; NULL: none */
    char text[KEY_BYTES];
} keys;

static const char *key(keys *k, const char *name) {
    snprintf(k->text, sizeof k->text, "%s.%s", k->arch, name);
    return k->text;
}

static void put_int(keys *k, const char *name, int64_t value) {
    if (value < 0 || value > UINT32_MAX) k->bad = name;
    ig_gguf_writer_u32(k->w, key(k, name), (uint32_t)value);
}

static void put_sizes(const ig_conversion *c, keys *k) {
    const int64_t embedding = convert_int(c, "hidden_size", "n_embd", 0);
    put_int(k, "context_length", convert_int(c, "max_position_embeddings", "n_positions", 0));
    put_int(k, "embedding_length", embedding);
    put_int(k, "block_count", convert_int(c, "num_hidden_layers", "n_layer", 0));
    put_int(k, "feed_forward_length",
            convert_int(c, "intermediate_size", "n_inner", 4 * embedding));
    put_int(k, "attention.head_count", c->heads);
    put_int(k, "vocab_size", c->n_tokens);
    if (!c->arch->rotated) {
        const double epsilon = convert_real(c, "layer_norm_eps", "layer_norm_epsilon", 1e-5);
        ig_gguf_writer_f32(k->w, key(k, "attention.layer_norm_epsilon"), (float)epsilon);
        return;
    }
    put_int(k, "attention.head_count_kv", c->kv_heads);
    put_int(k, "attention.key_length", c->head_size);
    put_int(k, "attention.value_length", c->head_size);
    put_int(k, "rope.dimension_count", rotated_size(c));
    ig_gguf_writer_f32(k->w, key(k, "rope.freq_base"), (float)rope_base(c));
    ig_gguf_writer_f32(k->w, key(k, "attention.layer_norm_rms_epsilon"),
                       (float)convert_real(c, "rms_norm_eps", NULL, 1e-6));
}

static double yarn_mscale(double factor, double by) {
    return factor > 1 ? 0.1 * by * log(factor) + 1 : 1;
}

/* Readers multiply attn_factor by YaRN's own mscale, 0.1 log(factor) + 1. */
static void put_yarn(const json_t *scaling, keys *k) {
    const double factor = scaling_real(scaling, "factor", 1), usual = yarn_mscale(factor, 1);
    const double mscale = scaling_real(scaling, "mscale", 0);
    const double all_dim = scaling_real(scaling, "mscale_all_dim", 0);
    const double fast = scaling_real(scaling, "beta_fast", 32);
    const double slow = scaling_real(scaling, "beta_slow", 1);
    double attention = usual;
    if (mscale != 0 && all_dim != 0)
        attention = yarn_mscale(factor, mscale) / yarn_mscale(factor, all_dim);
    attention = scaling_real(scaling, "attention_factor", attention);
    if (attention != usual)
        ig_gguf_writer_f32(k->w, key(k, "rope.scaling.attn_factor"), (float)(attention / usual));
    if (fast != 32) ig_gguf_writer_f32(k->w, key(k, "rope.scaling.yarn_beta_fast"), (float)fast);
    if (slow != 1) ig_gguf_writer_f32(k->w, key(k, "rope.scaling.yarn_beta_slow"), (float)slow);
}

static void put_scaling(const ig_conversion *c, keys *k) {
    const json_t *scaling = scaling_of(c);
    const char *type = scaling_type(scaling);
    const int64_t context = convert_int(c, "max_position_embeddings", NULL, 0);
    const bool is_list = strcmp(type, "longrope") == 0 || strcmp(type, "su") == 0;
    if (!scaling || (!is_list && strcmp(type, "linear") != 0 && strcmp(type, "yarn") != 0)) return;

    const double original =
        convert_real(c, "original_max_position_embeddings", NULL,
                     scaling_real(scaling, "original_max_position_embeddings", (double)context));
    if (original > 0 && original < UINT32_MAX)
        put_int(k, "rope.scaling.original_context_length", (int64_t)original);
    if (is_list) {
        const double ratio = original > 1 ? (double)context / original : 1;
        const double factor = ratio > 1 ? sqrt(1 + log(ratio) / log(original)) : 1;
        ig_gguf_writer_f32(k->w, key(k, "rope.scaling.attn_factor"),
                           (float)scaling_real(scaling, "attention_factor", factor));
        return;
    }
    ig_gguf_writer_text(k->w, key(k, "rope.scaling.type"), type);
    ig_gguf_writer_f32(k->w, key(k, "rope.scaling.factor"),
                       (float)scaling_real(scaling, "factor", 1));
    if (strcmp(type, "yarn") == 0) put_yarn(scaling, k);
}

/* Pooling type: 1 mean, 2 CLS (the first token), 3 last token. */
static ig_status read_pooling(const ig_conversion *c, uint32_t *out) {
    static const struct {
        const char *mode;
        uint32_t type;
    } modes[] = {{"pooling_mode_mean_tokens", 1},
                 {"pooling_mode_cls_token", 2},
                 {"pooling_mode_lasttoken", 3}};
    static const char begin[] = "pooling_mode_";
    json_t *pooling = NULL, *value;
    const char *name;
    ig_status status = IG_OK;
    int n_modes = 0;
    *out = 1;
    if (c->source || !ig_json_exists(c->dir, "1_Pooling/config.json")) return IG_OK;
    IG_TRY(ig_json_load(c->allocator, c->dir, "1_Pooling/config.json", &pooling));
    json_object_foreach(pooling, name, value) {
        uint32_t type = 0;
        if (strncmp(name, begin, sizeof begin - 1) != 0 || !json_is_true(value)) continue;
        for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
            if (strcmp(modes[i].mode, name) == 0) type = modes[i].type;
        if (type == 0 || n_modes++ > 0)
            status = IG_FAIL(IG_ERR_FORMAT, "%s/1_Pooling/config.json: %.64s is not converted%s",
                             c->dir, name, type ? " together with another mode" : "");
        else
            *out = type;
    }
    json_decref(pooling);
    return status;
}

static ig_status put_special(const ig_conversion *c, keys *k) {
    if (c->window.size > 0) put_int(k, "attention.sliding_window", c->window.size);
    if (c->arch->gemma3 && c->window.size > 0 && c->window.period != 6)
        put_int(k, "attention.sliding_window_pattern", c->window.period);
    const double local =
        convert_real(c, "rope_local_base_freq", NULL,
                     scaling_real(scaling_of_windows(c), "rope_theta", usual_local_base));
    if (c->arch->gemma3 && local != usual_local_base)
        ig_gguf_writer_f32(k->w, key(k, "rope.freq_base_swa"), (float)local);
    if (c->arch->phi3 && !scaling_of(c))
        put_int(k, "rope.scaling.original_context_length",
                convert_int(c, "original_max_position_embeddings", "max_position_embeddings", 0));
    if (c->arch->experts) {
        put_int(k, "expert_count", c->n_experts);
        put_int(k, "expert_used_count", convert_int(c, "num_experts_per_tok", NULL, 0));
        put_int(k, "expert_feed_forward_length", convert_int(c, "moe_intermediate_size", NULL, 0));
    }
    if (c->arch->bert) {
        ig_gguf_writer_bool(k->w, key(k, "attention.causal"), false);
        uint32_t pooling;
        IG_TRY(read_pooling(c, &pooling));
        put_int(k, "pooling_type", pooling);
    }
    return IG_OK;
}

ig_status convert_put_keys(ig_conversion *c, ig_gguf_writer *w) {
    keys k = {.w = w, .arch = c->arch->name};
    char name[KEY_BYTES];
    size_t length = strlen(c->dir);
    while (length > 1 && c->dir[length - 1] == '/') length--;
    size_t begin = length;
    while (begin > 0 && c->dir[begin - 1] != '/') begin--;
    snprintf(name, sizeof name, "%.*s", (int)(length - begin), c->dir + begin);
    ig_gguf_writer_text(w, "general.architecture", c->arch->name);
    ig_gguf_writer_text(w, "general.type", "model");
    ig_gguf_writer_text(w, "general.name", name);
    put_sizes(c, &k);
    if (c->arch->rotated) put_scaling(c, &k);
    IG_TRY(put_special(c, &k));
    if (k.bad) return convert_refuse(c, k.bad, "is negative or too large");
    return IG_OK;
}
