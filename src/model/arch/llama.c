/*
 * llama: Llama 1 to 3, Mistral and what is built like them.  RMSNorm, rotary
 * positions in neighbouring pairs, heads that share keys and values, SwiGLU.
 * Files for long contexts bring a factor for each pair.
 */
#include "model/lm.h"

static const ig_weight_row own[] = {
    {"rope_freqs.weight", IG_LM(rope_factors), {IG_BY_TURNS}, IG_MAY_LACK},
    {"attn_q.bias", IG_LAYER(q_bias), {IG_BY_HEADS}, IG_EACH_LAYER | IG_MAY_LACK},
    {"attn_k.bias", IG_LAYER(k_bias), {IG_BY_KEYS}, IG_EACH_LAYER | IG_MAY_LACK},
    {"attn_v.bias", IG_LAYER(v_bias), {IG_BY_VALUES}, IG_EACH_LAYER | IG_MAY_LACK},
    {"attn_output.bias", IG_LAYER(o_bias), {IG_BY_MODEL}, IG_EACH_LAYER | IG_MAY_LACK},
    {"ffn_gate.bias", IG_LAYER(gate_bias), {IG_BY_FF}, IG_EACH_LAYER | IG_MAY_LACK},
    {"ffn_up.bias", IG_LAYER(up_bias), {IG_BY_FF}, IG_EACH_LAYER | IG_MAY_LACK},
    {"ffn_down.bias", IG_LAYER(down_bias), {IG_BY_MODEL}, IG_EACH_LAYER | IG_MAY_LACK},
    {0},
};

static const ig_weight_row *const weights[] = {
    ig_weights_ends, ig_weights_attention, ig_weights_gated, ig_weights_long_rope, own, NULL};

/* Converters have put the rows of q and k in an order that makes pairs neighbours. */
static ig_status read(const ig_keys *keys, ig_hyper *h) {
    h->rope.form = IG_ROPE_PAIRS;
    if (h->n_experts == 0) return IG_OK;
    return IG_FAIL(IG_ERR_FORMAT, "%s: llama with %lld experts (Mixtral) is not known",
                   keys->source, (long long)h->n_experts);
}

static ig_tensor *hidden(void *model, const ig_rows *rows) {
    return ig_lm_decode(model, rows, ig_lm_swiglu);
}

const ig_arch ig_arch_llama = {
    .name = "llama",
    .description = "Llama, Mistral: RMSNorm, rotary positions, grouped attention, SwiGLU",
    .has_cache = true,
    .weights = weights,
    .read = read,
    .hidden = hidden,
    .head = ig_lm_head,
};
