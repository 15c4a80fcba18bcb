/*
 * gptneox: GPT-NeoX and Pythia.  LayerNorm, a part of each head turns, biases, GELU; both
 * parts of a layer see the same state, each through a norm of its own, unless the file says no.
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

static ig_status read(const ig_keys *keys, ig_hyper *h) {
    return ig_key_bool(keys, "use_parallel_residual", &h->parallel);
}

const ig_arch ig_arch_gptneox = {
    .name = "gptneox",
    .description = "GPT-NeoX, Pythia: LayerNorm, rotary positions, biases, GELU",
    .has_cache = true,
    .layer_norm = true,
    .parallel = true,
    .weights = weights,
    .own_keys = own_keys,
    .read = read,
    .hidden = ig_lm_decode_gelu,
    .head = ig_lm_head,
};
