/*
 * command-r and cohere2: parallel residual with one LayerNorm without bias; interleaved RoPE,
 * SwiGLU, scaled logits. In cohere2 most layers have a sliding window; the full-attention layers
 * are NoPE.
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

static ig_status read(const ig_keys *keys, ig_hparams *h) {
    h->full_attn_period = 4;
    IG_TRY(
        ig_key_int(keys, "attention.sliding_window", IG_REQUIRED, 1, 1 << 24, &h->sliding_window));
    IG_TRY(ig_hparams_read_windows(keys, h));
    h->nope_period = h->full_attn_period;
    return IG_OK;
}

const ig_arch ig_arch_command_r = {
    .name = "command-r",
    .description = "Command R: parallel attention and FFN, LayerNorm, SwiGLU",
    .has_cache = true,
    .rope_interleaved = true,
    .layer_norm = true,
    .parallel_residual = true,
    .weights = weights,
    .own_keys = own_keys,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};

const ig_arch ig_arch_cohere2 = {
    .name = "cohere2",
    .description = "Command R7B and A: like command-r, with sliding-window layers",
    .has_cache = true,
    .rope_interleaved = true,
    .layer_norm = true,
    .parallel_residual = true,
    .weights = weights,
    .own_keys = own_keys,
    .read = read,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};
