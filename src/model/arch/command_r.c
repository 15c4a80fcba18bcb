/*
 * command-r and cohere2: both parts of a layer see the same state through one LayerNorm, which has
 * no bias; rotary positions in neighbouring pairs, SwiGLU, scaled logits.  In cohere2 most layers
 * look back over a window only; the others see all, and know no positions.
 */
#include "model/gguf/decoder.h"

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
    h->window_period = 4;
    IG_TRY(ig_key_int(keys, "attention.sliding_window", IG_REQUIRED, 1, 1 << 24, &h->window));
    IG_TRY(ig_hyper_read_windows(keys, h));
    h->unturned_period = h->window_period;
    return IG_OK;
}

const ig_arch ig_arch_command_r = {
    .name = "command-r",
    .description = "Command R: both parts of a layer see the same state, LayerNorm, SwiGLU",
    .has_cache = true,
    .pairs = true,
    .layer_norm = true,
    .parallel = true,
    .weights = weights,
    .own_keys = own_keys,
    .hidden = ig_lm_decode_swiglu,
    .head = ig_lm_head,
};

const ig_arch ig_arch_cohere2 = {
    .name = "cohere2",
    .description = "Command R7B and A: as command-r, with windowed layers",
    .has_cache = true,
    .pairs = true,
    .layer_norm = true,
    .parallel = true,
    .weights = weights,
    .own_keys = own_keys,
    .read = read,
    .hidden = ig_lm_decode_swiglu,
    .head = ig_lm_head,
};
