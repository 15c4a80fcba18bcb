/*
 * command-r: both parts of a layer see the same state through one LayerNorm, which has no
 * bias; rotary positions in neighbouring pairs, SwiGLU, scaled logits.
 */
#include "model/lm.h"

static const ig_weight_row own[] = {
    {"ffn_gate.weight", IG_LAYER(gate), {IG_BY_FF, IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_up.weight", IG_LAYER(up), {IG_BY_FF, IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_down.weight", IG_LAYER(down), {IG_BY_MODEL, IG_BY_FF}, IG_EACH_LAYER},
    {0},
};

static const ig_weight_row *const weights[] = {ig_weights_ends, ig_weights_attention,
                                               ig_weights_biases, own, NULL};

static const char *const own_keys[] = {"logit_scale", NULL};

static ig_status read(const ig_keys *keys, ig_hyper *h) {
    (void)keys;
    h->layer_norm = h->parallel = true;
    h->rope.form = h->rope_window.form = IG_ROPE_PAIRS;
    return IG_OK;
}

const ig_arch ig_arch_command_r = {
    .name = "command-r",
    .description = "Command R: both parts of a layer see the same state, LayerNorm, SwiGLU",
    .has_cache = true,
    .weights = weights,
    .own_keys = own_keys,
    .read = read,
    .hidden = ig_lm_decode_swiglu,
    .head = ig_lm_head,
};
