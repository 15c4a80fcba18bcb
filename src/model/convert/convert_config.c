/*
 * The table of config.json's keys. A key is read by the conversion, harmless for a stated reason,
 * or refused by name: silently dropping a key could change what the model computes.
 *
 * Sliding windows need the most care: config files describe them by a size, a flag, a period, a
 * number of layers or a list of layers, and GGUF by a size and a period.
 */
#include <stdio.h>
#include <string.h>

#include "model/convert/convert_parts.h"

/* ---- The table ---- */

enum {
    ALL = (1 << 9) - 1,
    DECODERS = IG_OF_LLAMA | IG_OF_MISTRAL | IG_OF_QWEN2 | IG_OF_QWEN3 | IG_OF_QWEN3MOE |
               IG_OF_GEMMA3 | IG_OF_PHI3,
    QWEN = IG_OF_QWEN2 | IG_OF_QWEN3 | IG_OF_QWEN3MOE,
};

typedef struct config_key {
    const char *name;
    unsigned archs;                        /* bit set of IG_OF_* families that have the key */
    enum { READ, HARMLESS, OFF, ON } rule; /* OFF: must be false, 0 or empty; ON: must be true */
    const char *why;                       /* why it is harmless or refused */
} config_key;

static const char training[] = "used by training alone";
static const char outputs[] = "chooses what the Python class returns";
static const char sampling[] = "a default of generate(), not of the model";
static const char loading[] = "how Python loads the model";
static const char heads[] = "labels of classifiers, which are not converted";
static const char vision[] = "of the image encoder, which is not converted";
static const char shapes[] = "the tensors show it";
static const char encoder[] = "encoder-decoder models are not converted";

static const config_key table[] = {
    {"architectures", ALL, READ, NULL},
    {"text_config", ALL, READ, NULL},
    {"quantization_config", ALL, READ, NULL},
    {"bos_token_id", ALL, READ, NULL},
    {"eos_token_id", ALL, READ, NULL},
    {"pad_token_id", ALL, READ, NULL},
    {"sep_token_id", ALL, READ, NULL},
    {"cls_token_id", ALL, READ, NULL},
    {"unk_token_id", ALL, READ, NULL},
    {"mask_token_id", ALL, READ, NULL},
    {"tie_word_embeddings", ALL, READ, NULL},
    {"hidden_size", ALL, READ, NULL},
    {"num_hidden_layers", ALL, READ, NULL},
    {"num_attention_heads", ALL, READ, NULL},
    {"intermediate_size", ALL, READ, NULL},
    {"max_position_embeddings", ALL, READ, NULL},
    {"hidden_act", ALL, READ, NULL},
    {"layer_norm_eps", IG_OF_BERT | IG_OF_GPT2, READ, NULL},

    {"num_key_value_heads", DECODERS, READ, NULL},
    {"head_dim", DECODERS, READ, NULL},
    {"rms_norm_eps", DECODERS, READ, NULL},
    {"rope_theta", DECODERS, READ, NULL},
    {"rope_scaling", DECODERS, READ, NULL},
    {"rope_parameters", DECODERS, READ, NULL},
    {"partial_rotary_factor", DECODERS, READ, NULL},
    {"original_max_position_embeddings", DECODERS, READ, NULL},
    {"sliding_window", DECODERS, READ, NULL},
    {"layer_types", DECODERS, READ, NULL},
    {"use_sliding_window", QWEN, READ, NULL},
    {"max_window_layers", QWEN, READ, NULL},
    {"sliding_window_pattern", IG_OF_GEMMA3, READ, NULL},
    {"_sliding_window_pattern", IG_OF_GEMMA3, READ, NULL},
    {"rope_local_base_freq", IG_OF_GEMMA3, READ, NULL},
    {"query_pre_attn_scalar", IG_OF_GEMMA3, READ, NULL},
    {"hidden_activation", IG_OF_GEMMA3, READ, NULL},
    {"num_experts", IG_OF_QWEN3MOE, READ, NULL},
    {"num_local_experts", IG_OF_QWEN3MOE, READ, NULL},
    {"num_experts_per_tok", IG_OF_QWEN3MOE, READ, NULL},
    {"moe_intermediate_size", IG_OF_QWEN3MOE, READ, NULL},
    {"decoder_sparse_step", IG_OF_QWEN3MOE, READ, NULL},
    {"mlp_only_layers", IG_OF_QWEN3MOE, READ, NULL},
    {"norm_topk_prob", IG_OF_QWEN3MOE, READ, NULL},
    {"n_embd", IG_OF_GPT2, READ, NULL},
    {"n_layer", IG_OF_GPT2, READ, NULL},
    {"n_head", IG_OF_GPT2, READ, NULL},
    {"n_positions", IG_OF_GPT2, READ, NULL},
    {"n_inner", IG_OF_GPT2, READ, NULL},
    {"activation_function", IG_OF_GPT2, READ, NULL},
    {"layer_norm_epsilon", IG_OF_GPT2, READ, NULL},
    {"type_vocab_size", IG_OF_BERT, READ, NULL},
    {"position_embedding_type", IG_OF_BERT, READ, NULL},

    {"attn_logit_softcapping", IG_OF_GEMMA3, OFF, "scores of a gemma3 are not capped"},
    {"final_logit_softcapping", IG_OF_GEMMA3, OFF, "logits of a gemma3 are not capped"},
    {"use_bidirectional_attention", IG_OF_GEMMA3, OFF, "a decoder's attention is causal"},
    {"scale_attn_weights", IG_OF_GPT2, ON, "scores are always scaled by the head size"},
    {"scale_attn_by_inverse_layer_idx", IG_OF_GPT2, OFF, "scores are not scaled by layer"},
    {"is_encoder_decoder", ALL, OFF, encoder},
    {"add_cross_attention", ALL, OFF, encoder},
    {"cross_attention_hidden_size", ALL, OFF, encoder},
    {"tie_encoder_decoder", ALL, OFF, encoder},
    {"pruned_heads", ALL, OFF, "heads are missing from the tensors"},
    {"is_decoder", IG_OF_BERT, OFF, "a causal BERT is not converted"},
    {"is_decoder", ALL & ~IG_OF_BERT, HARMLESS, "a decoder is always causal"},

    {"vocab_size", ALL, HARMLESS, shapes},
    {"attention_bias", DECODERS, HARMLESS, shapes},
    {"mlp_bias", DECODERS, HARMLESS, shapes},
    {"use_qk_norm", IG_OF_QWEN3 | IG_OF_QWEN3MOE, HARMLESS, shapes},
    {"n_ctx", IG_OF_GPT2, HARMLESS, "n_positions says it"},
    {"pretraining_tp", DECODERS, HARMLESS, "splits a matmul without changing its result"},
    {"chunk_size_feed_forward", ALL, HARMLESS, "splits a matmul without changing its result"},
    {"reorder_and_upcast_attn", IG_OF_GPT2, HARMLESS, "accumulation is FP32 already"},
    {"model_type", ALL, HARMLESS, "architectures says it"},
    {"cache_implementation", ALL, HARMLESS, "a layout of the KV cache"},
    {"use_cache", ALL, HARMLESS, "a KV cache does not change results"},

    {"_name_or_path", ALL, HARMLESS, loading},
    {"name_or_path", ALL, HARMLESS, loading},
    {"_commit_hash", ALL, HARMLESS, loading},
    {"_attn_implementation", ALL, HARMLESS, loading},
    {"_attn_implementation_autoset", ALL, HARMLESS, loading},
    {"_attn_implementation_internal", ALL, HARMLESS, loading},
    {"_experts_implementation", ALL, HARMLESS, loading},
    {"attn_implementation", ALL, HARMLESS, loading},
    {"auto_map", ALL, HARMLESS, loading},
    {"custom_pipelines", ALL, HARMLESS, loading},
    {"dtype", ALL, HARMLESS, loading},
    {"torch_dtype", ALL, HARMLESS, loading},
    {"torchscript", ALL, HARMLESS, loading},
    {"use_bfloat16", ALL, HARMLESS, loading},
    {"tf_legacy_loss", ALL, HARMLESS, loading},
    {"tokenizer_class", ALL, HARMLESS, loading},
    {"transformers_version", ALL, HARMLESS, loading},
    {"transformers.js_config", ALL, HARMLESS, loading},
    {"unsloth_version", ALL, HARMLESS, loading},
    {"unsloth_fixed", ALL, HARMLESS, loading},

    {"attention_dropout", ALL, HARMLESS, training},
    {"attention_probs_dropout_prob", ALL, HARMLESS, training},
    {"attn_pdrop", ALL, HARMLESS, training},
    {"classifier_dropout", ALL, HARMLESS, training},
    {"embd_pdrop", ALL, HARMLESS, training},
    {"gradient_checkpointing", ALL, HARMLESS, training},
    {"hidden_dropout", ALL, HARMLESS, training},
    {"hidden_dropout_prob", ALL, HARMLESS, training},
    {"initializer_factor", ALL, HARMLESS, training},
    {"initializer_range", ALL, HARMLESS, training},
    {"resid_pdrop", ALL, HARMLESS, training},
    {"router_aux_loss_coef", ALL, HARMLESS, training},
    {"router_jitter_noise", ALL, HARMLESS, training},

    {"output_attentions", ALL, HARMLESS, outputs},
    {"output_hidden_states", ALL, HARMLESS, outputs},
    {"output_router_logits", ALL, HARMLESS, outputs},
    {"output_scores", ALL, HARMLESS, outputs},
    {"return_dict", ALL, HARMLESS, outputs},
    {"return_dict_in_generate", ALL, HARMLESS, outputs},

    {"finetuning_task", ALL, HARMLESS, heads},
    {"id2label", ALL, HARMLESS, heads},
    {"label2id", ALL, HARMLESS, heads},
    {"num_labels", ALL, HARMLESS, heads},
    {"problem_type", ALL, HARMLESS, heads},
    {"summary_activation", ALL, HARMLESS, heads},
    {"summary_first_dropout", ALL, HARMLESS, heads},
    {"summary_proj_to_labels", ALL, HARMLESS, heads},
    {"summary_type", ALL, HARMLESS, heads},
    {"summary_use_proj", ALL, HARMLESS, heads},

    {"bad_words_ids", ALL, HARMLESS, sampling},
    {"begin_suppress_tokens", ALL, HARMLESS, sampling},
    {"decoder_start_token_id", ALL, HARMLESS, sampling},
    {"diversity_penalty", ALL, HARMLESS, sampling},
    {"do_sample", ALL, HARMLESS, sampling},
    {"early_stopping", ALL, HARMLESS, sampling},
    {"encoder_no_repeat_ngram_size", ALL, HARMLESS, sampling},
    {"exponential_decay_length_penalty", ALL, HARMLESS, sampling},
    {"forced_bos_token_id", ALL, HARMLESS, sampling},
    {"forced_eos_token_id", ALL, HARMLESS, sampling},
    {"length_penalty", ALL, HARMLESS, sampling},
    {"max_length", ALL, HARMLESS, sampling},
    {"min_length", ALL, HARMLESS, sampling},
    {"no_repeat_ngram_size", ALL, HARMLESS, sampling},
    {"num_beam_groups", ALL, HARMLESS, sampling},
    {"num_beams", ALL, HARMLESS, sampling},
    {"num_return_sequences", ALL, HARMLESS, sampling},
    {"prefix", ALL, HARMLESS, sampling},
    {"remove_invalid_values", ALL, HARMLESS, sampling},
    {"repetition_penalty", ALL, HARMLESS, sampling},
    {"suppress_tokens", ALL, HARMLESS, sampling},
    {"task_specific_params", ALL, HARMLESS, sampling},
    {"temperature", ALL, HARMLESS, sampling},
    {"top_k", ALL, HARMLESS, sampling},
    {"top_p", ALL, HARMLESS, sampling},
    {"typical_p", ALL, HARMLESS, sampling},

    {"boi_token_index", IG_OF_GEMMA3, HARMLESS, vision},
    {"eoi_token_index", IG_OF_GEMMA3, HARMLESS, vision},
    {"image_token_index", IG_OF_GEMMA3, HARMLESS, vision},
    {"boi_token_id", IG_OF_GEMMA3, HARMLESS, vision},
    {"eoi_token_id", IG_OF_GEMMA3, HARMLESS, vision},
    {"image_token_id", IG_OF_GEMMA3, HARMLESS, vision},
    {"mm_tokens_per_image", IG_OF_GEMMA3, HARMLESS, vision},
    {"vision_config", IG_OF_GEMMA3, HARMLESS, vision},
};

static bool is_off(const json_t *value) {
    if (json_is_object(value)) return json_object_size(value) == 0;
    if (json_is_array(value)) return json_array_size(value) == 0;
    return json_is_false(value) || (json_is_number(value) && json_number_value(value) == 0);
}

static ig_status check_key(const ig_conversion *c, const char *name, const json_t *value) {
    const config_key *row = NULL;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if ((table[i].archs & c->arch->family) && strcmp(table[i].name, name) == 0) row = &table[i];
    if (!row)
        return IG_FAIL(IG_ERR_FORMAT,
                       "%s/config.json: %.64s: unknown key of a %s; remove it from config.json if "
                       "it does not change what the model computes",
                       c->dir, name, c->arch->model);
    if ((row->rule == OFF && !is_off(value)) || (row->rule == ON && !json_is_true(value)))
        return convert_refuse(c, name, row->why);
    return IG_OK;
}

/* null is Python's None: the key is not set. */
static ig_status check_object(const ig_conversion *c, json_t *object) {
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value) {
        if (!json_is_null(value)) IG_TRY(check_key(c, name, value));
    }
    return IG_OK;
}

ig_status convert_check_known(const ig_conversion *c) {
    if (c->checkpoint) return IG_OK; /* its config was generated by convert_oam.c */
    IG_TRY(check_object(c, c->config));
    return c->text == c->config ? IG_OK
                                : check_object(c, json_object_get(c->config, "text_config"));
}

/* ---- Sliding windows ---- */

enum { MISTRAL_WINDOW = 4096, GEMMA3_PERIOD = 6 };

static bool is_flag(const ig_conversion *c, const char *key) {
    return json_is_true(json_object_get(c->text, key));
}

/* Whether layer i has a sliding window, if `layer_types` does not say. */
static bool usual_window(const ig_conversion *c, int64_t i) {
    const int64_t period =
        convert_int(c, "sliding_window_pattern", "_sliding_window_pattern", GEMMA3_PERIOD);
    switch (c->arch->family) {
    case IG_OF_MISTRAL:
    case IG_OF_PHI3: return true;
    case IG_OF_GEMMA3: return period < 1 || (i + 1) % period != 0;
    case IG_OF_QWEN3MOE: return is_flag(c, "use_sliding_window");
    case IG_OF_QWEN2:
    case IG_OF_QWEN3:
        return is_flag(c, "use_sliding_window") &&
               i >= convert_int(c, "max_window_layers", NULL, 28);
    default: return false;
    }
}

static ig_status has_window(const ig_conversion *c, int64_t i, bool *out) {
    const json_t *types = json_object_get(c->text, "layer_types");
    const char *type = json_string_value(json_array_get(types, (size_t)i));
    *out = usual_window(c, i);
    if (!json_is_array(types)) return IG_OK;
    const bool windowed = type && strcmp(type, "sliding_attention") == 0;
    if (!windowed && (!type || strcmp(type, "full_attention") != 0))
        return IG_FAIL(IG_ERR_FORMAT,
                       "%s/config.json: layer_types: layer %lld is %.32s; expected "
                       "full_attention or sliding_attention",
                       c->dir, (long long)i, type ? type : "missing");
    /* transformers' mistral, phi3 and qwen3moe ignore the list. */
    const bool reads = c->arch->family & (IG_OF_GEMMA3 | IG_OF_QWEN2 | IG_OF_QWEN3);
    if (!reads && windowed != *out)
        return convert_refuse(c, "layer_types", "it contradicts sliding_window");
    *out = windowed;
    return IG_OK;
}

/* The smallest period p such that exactly the layers i with (i + 1) % p == 0 have full attention;
 * n + 1: all n layers have a sliding window. 0: there is no such period. */
static ig_status find_period(const ig_conversion *c, int64_t n, int64_t *out, bool *any) {
    int64_t period = n + 1;
    bool regular = true;
    *any = false;
    for (int64_t i = 0; i < n; i++) {
        bool windowed;
        IG_TRY(has_window(c, i, &windowed));
        if (!windowed && period > n) period = i + 1;
        regular = regular && windowed == ((i + 1) % period != 0);
        *any = *any || windowed;
    }
    *out = regular ? period : 0;
    return IG_OK;
}

static ig_status check_period(const ig_conversion *c, convert_window *w, int64_t period,
                              int64_t layers, bool any) {
    if (!c->arch->gemma3) {
        if (!any) *w = (convert_window){0};
        if (!any || period > layers) return IG_OK;
        return convert_refuse(c, "layer_types",
                              "GGUF has no key for a model of this architecture with a sliding "
                              "window in some layers only");
    }
    if (period == 0 || period > 4096)
        return convert_refuse(c, "layer_types",
                              "full-attention layers must follow at a regular distance");
    /* A small model may have fewer layers than the default period. */
    w->period = period > layers && layers < GEMMA3_PERIOD ? GEMMA3_PERIOD : period;
    return IG_OK;
}

ig_status convert_find_window(const ig_conversion *c, convert_window *out) {
    const json_t *given = json_object_get(c->text, "sliding_window");
    const int64_t layers = convert_int(c, "num_hidden_layers", "n_layer", 0);
    const int64_t unset = !given && c->arch->family == IG_OF_MISTRAL ? MISTRAL_WINDOW : 0;
    const int64_t size = convert_int(c, "sliding_window", NULL, unset);
    int64_t period;
    bool any;
    *out = (convert_window){0};
    if (given && !json_is_null(given) && (!json_is_integer(given) || size < 0))
        return convert_refuse(c, "sliding_window", "must be a number of tokens");
    IG_TRY(find_period(c, layers, &period, &any));
    if (size == 0 && any && json_is_array(json_object_get(c->text, "layer_types")))
        return convert_refuse(c, "layer_types",
                              "layers have a window, but sliding_window is not set");
    if (size == 0) return IG_OK;
    out->size = size;
    return check_period(c, out, period, layers, any);
}
