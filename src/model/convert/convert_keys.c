/* What config.json says, as keys; and what of it cannot be kept, as errors. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/convert/convert_parts.h"

enum { KEY_BYTES = 96 };

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

/* The object that tells how positions are stretched; NULL: they are not.  Where layers with a
 * window have one of their own, it is that of the others. */
static const json_t *scaling_of(const ig_conversion *c) {
    const json_t *scaling = json_object_get(c->text, "rope_scaling");
    if (!json_is_object(scaling)) scaling = json_object_get(c->text, "rope_parameters");
    const json_t *of_all = json_object_get(scaling, "full_attention");
    if (json_is_object(of_all)) scaling = of_all;
    return json_is_object(scaling) ? scaling : NULL;
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
    const double part = convert_real(c, "partial_rotary_factor", NULL, 1);
    return part > 0 && part < 1 ? (int64_t)(part * (double)c->head_size) : c->head_size;
}

/* ---- Checks ---- */

static ig_status refuse(const ig_conversion *c, const char *key, const char *why) {
    return IG_FAIL(IG_ERR_FORMAT, "%s/config.json: %s: %s", c->dir, key, why);
}

/* A key that must be what it is always, or absent. */
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
    const int64_t pattern = convert_int(c, "sliding_window_pattern", "_sliding_window_pattern", 6);
    const int64_t embedding = convert_int(c, "hidden_size", NULL, 0);
    if (is_set(c, "final_logit_softcapping") || is_set(c, "attn_logit_softcapping"))
        return refuse(c, "final_logit_softcapping", "is not what a gemma3 has");
    if (pattern != 6)
        return refuse(c, "sliding_window_pattern", "is not 6, which is what is known");
    if (scale != (double)c->head_size && scale * (double)c->heads != (double)embedding)
        return refuse(c, "query_pre_attn_scalar", "is no size of a head");
    return IG_OK;
}

static ig_status check_experts(const ig_conversion *c) {
    if (convert_int(c, "decoder_sparse_step", NULL, 1) != 1 ||
        json_array_size(json_object_get(c->text, "mlp_only_layers")) > 0)
        return refuse(c, "decoder_sparse_step", "layers without experts are not converted");
    if (json_is_false(json_object_get(c->text, "norm_topk_prob")))
        return refuse(c, "norm_topk_prob",
                      "weights of experts that do not add up to 1 are not "
                      "converted");
    if (c->n_experts < 1 || c->n_experts > 4096)
        return refuse(c, "num_experts", "is no number of experts");
    return IG_OK;
}

ig_status convert_check_config(ig_conversion *c) {
    c->heads = convert_int(c, "num_attention_heads", "n_head", 0);
    c->kv_heads = convert_int(c, "num_key_value_heads", NULL, c->heads);
    c->n_experts = convert_int(c, "num_experts", "num_local_experts", 0);
    const int64_t embedding = convert_int(c, "hidden_size", "n_embd", 0);
    const int64_t layers = convert_int(c, "num_hidden_layers", "n_layer", 0);
    if (c->heads < 1 || c->heads > 65536 || c->kv_heads < 1 || c->kv_heads > c->heads)
        return refuse(c, "num_attention_heads", "are no numbers of heads");
    if (embedding < 1 || embedding > (1 << 24) || layers < 1 || layers > 65536)
        return refuse(c, "hidden_size", "it or num_hidden_layers is missing or no size of a model");
    if (convert_int(c, "max_position_embeddings", "n_positions", 0) < 1)
        return refuse(c, c->arch->gpt2 ? "n_positions" : "max_position_embeddings",
                      "is missing, or no length of a text");
    c->head_size = convert_int(c, "head_dim", NULL, embedding / c->heads);
    if (c->head_size < 1 || c->head_size > (1 << 16))
        return refuse(c, "head_dim", "is no size of a head");
    if (!(rope_base(c) > 0 && rope_base(c) < 1e30))
        return refuse(c, "rope_theta", "is no base of rotations");
    if (is_set(c, "quantization_config"))
        return refuse(c, "quantization_config",
                      "the weights are quantised already; convert the model that they are from");
    if (c->arch->act) {
        IG_TRY(check_is(c, "hidden_act", c->arch->act));
        IG_TRY(check_is(c, "hidden_activation", c->arch->act));
        IG_TRY(check_is(c, "activation_function", c->arch->act));
    }
    if (c->arch->gemma3) IG_TRY(check_gemma3(c));
    return c->arch->experts ? check_experts(c) : IG_OK;
}

/* ---- Rotations as tensors ---- */

/* Llama 3's: slow rotations are stretched, fast ones are not, and between there is a ramp. */
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
        return refuse(c, "rope_scaling", "does not give factors to stretch rotations by");
    }
    return convert_add_computed(c, "rope_freqs.weight", numbers, n);
}

/* Phi 3's: factors as a list, one for short and one for long texts. */
static ig_status add_list(ig_conversion *c, const json_t *list, const char *name) {
    const int64_t n = rotated_size(c) / 2;
    if ((int64_t)json_array_size(list) != n)
        return refuse(c, "rope_scaling", "its factors are not one for each rotation");
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
    return IG_FAIL(IG_ERR_FORMAT, "%s/config.json: rope_scaling of type %.32s is not known", c->dir,
                   type);
}

/* ---- Keys ---- */

typedef struct keys {
    ig_gguf_writer *w;
    const char *arch;
    const char *bad; /* name of a number that has no place in a key; NULL: none */
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
        ig_gguf_writer_f32(k->w, key(k, "rope.scaling.attn_factor"), (float)factor);
        return;
    }
    ig_gguf_writer_text(k->w, key(k, "rope.scaling.type"), type);
    ig_gguf_writer_f32(k->w, key(k, "rope.scaling.factor"),
                       (float)scaling_real(scaling, "factor", 1));
}

/* 1: the mean of all tokens; 2: the first one's; 3: the last one's. */
static uint32_t pooling_of(const ig_conversion *c) {
    json_t *pooling = NULL;
    uint32_t type = 1;
    if (!ig_json_exists(c->dir, "1_Pooling/config.json")) return type;
    if (ig_json_load(c->allocator, c->dir, "1_Pooling/config.json", &pooling) != IG_OK) return type;
    if (json_is_true(json_object_get(pooling, "pooling_mode_cls_token"))) type = 2;
    if (json_is_true(json_object_get(pooling, "pooling_mode_lasttoken"))) type = 3;
    json_decref(pooling);
    return type;
}

static void put_special(const ig_conversion *c, keys *k) {
    const int64_t window = convert_int(c, "sliding_window", NULL, 0);
    if ((c->arch->gemma3 || c->arch->phi3) && window > 0)
        put_int(k, "attention.sliding_window", window);
    const double local = convert_real(c, "rope_local_base_freq", NULL, 1e4);
    if (c->arch->gemma3 && local != 1e4)
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
        put_int(k, "pooling_type", pooling_of(c));
    }
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
    put_special(c, &k);
    if (k.bad) return refuse(c, k.bad, "is negative or too large");
    return IG_OK;
}
