/*
 * gptneox: GPT-NeoX and Pythia. LayerNorm, partial RoPE, biases, GELU; parallel residual with a
 * norm each, unless the file says otherwise.
 */
#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {ig_weights_ends,
                                               ig_weights_attention,
                                               ig_weights_plain,
                                               ig_weights_norm_biases,
                                               ig_weights_biases,
                                               ig_weights_plain_biases,
                                               NULL};

static const char *const own_keys[] = {"use_parallel_residual", NULL};

static ig_status read(const ig_keys *keys, ig_hparams *h) {
    return ig_key_bool(keys, "use_parallel_residual", &h->parallel_residual);
}

const ig_arch ig_arch_gptneox = {
    .name = "gptneox",
    .description = "GPT-NeoX, Pythia: LayerNorm, RoPE, biases, GELU",
    .has_cache = true,
    .layer_norm = true,
    .parallel_residual = true,
    .weights = weights,
    .own_keys = own_keys,
    .read = read,
    .hidden = ig_lm_forward_gelu,
    .head = ig_lm_head,
};
