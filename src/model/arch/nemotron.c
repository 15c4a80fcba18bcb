/*
 * nemotron and arcee: ungated feed-forward with squared ReLU. nemotron has LayerNorm with biases
 * and partial RoPE; arcee is otherwise as llama.
 */
#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {ig_weights_ends,
                                               ig_weights_attention,
                                               ig_weights_plain,
                                               ig_weights_norm_biases,
                                               ig_weights_biases,
                                               ig_weights_plain_biases,
                                               NULL};
static const ig_weight_row *const arcee_weights[] = {ig_weights_ends, ig_weights_attention,
                                                     ig_weights_plain, ig_weights_rope, NULL};

static ig_tensor *feed_forward(const ig_lm *m, const ig_lm_layer *l, ig_tensor *x) {
    (void)m;
    ig_tensor *up = ig_relu(ig_lm_linear(x, l->up, l->up_bias));
    return ig_lm_linear(ig_mul(up, up), l->down, l->down_bias);
}

static ig_tensor *hidden(void *model, const ig_ubatch *rows) {
    return ig_lm_forward(model, rows, feed_forward);
}

const ig_arch ig_arch_nemotron = {
    .name = "nemotron",
    .description = "Nemotron 3 and 4, Minitron: LayerNorm, squared ReLU",
    .has_cache = true,
    .layer_norm = true,
    .weights = weights,
    .hidden = hidden,
    .head = ig_lm_head,
};

const ig_arch ig_arch_arcee = {
    .name = "arcee",
    .description = "Arcee AFM: like llama, with squared ReLU",
    .has_cache = true,
    .rope_interleaved = true,
    .weights = arcee_weights,
    .hidden = hidden,
    .head = ig_lm_head,
};
