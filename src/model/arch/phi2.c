/*
 * phi2: attention and feed-forward have one LayerNorm, and both see the same state; a
 * part of each head turns; biases, of the output too; GELU.
 */
#include "model/lm.h"

static const ig_weight_row own[] = {
    {"output.bias", IG_LM(output_bias), {IG_BY_VOCABULARY}, IG_ONCE},
    {"output_norm.bias", IG_LM(norm_bias), {IG_BY_MODEL}, IG_ONCE},
    {"attn_norm.bias", IG_LAYER(attn_norm_bias), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_up.weight", IG_LAYER(up), {IG_BY_FF, IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_down.weight", IG_LAYER(down), {IG_BY_MODEL, IG_BY_FF}, IG_EACH_LAYER},
    {0},
};

static const ig_weight_row *const weights[] = {ig_weights_ends, ig_weights_attention,
                                               ig_weights_biases, own, NULL};

static ig_status read(const ig_keys *keys, ig_hyper *h) {
    (void)keys;
    h->layer_norm = h->parallel = true;
    return IG_OK;
}

const ig_arch ig_arch_phi2 = {
    .name = "phi2",
    .description = "Phi 1 to 2: both parts of a layer see the same state, LayerNorm, GELU",
    .has_cache = true,
    .weights = weights,
    .read = read,
    .hidden = ig_lm_decode_gelu,
    .head = ig_lm_head,
};
