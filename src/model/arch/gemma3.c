/*
 * gemma3: five of six layers have a sliding window and a RoPE base of their own; every sixth has
 * full attention. Norms before and after attention and feed-forward, QK norm; the embedding is
 * scaled; GELU gates.
 */
#include <math.h>

#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {ig_weights_ends,       ig_weights_attention,
                                               ig_weights_head_norms, ig_weights_gated,
                                               ig_weights_post_norms, NULL};

/* Most files have neither the period of full-attention layers nor the local RoPE base. */
static ig_status read(const ig_keys *keys, ig_hparams *h) {
    enum { PERIOD = 6, LAYERS_OF_27B = 62 };
    h->embedding_scale = sqrtf((float)h->size.d_model);
    h->full_attn_period = PERIOD;
    h->rope_swa.freq_scale = 1;
    h->rope_swa.freq_base = 10000;
    IG_TRY(
        ig_key_int(keys, "attention.sliding_window", IG_REQUIRED, 1, 1 << 24, &h->sliding_window));
    IG_TRY(ig_hparams_read_windows(keys, h));
    if (h->size.n_layers == LAYERS_OF_27B) /* its head_dim is less than d / n */
        h->attention_scale = 1 / sqrtf((float)h->size.d_model / (float)h->size.n_heads);
    return IG_OK;
}

const ig_arch ig_arch_gemma3 = {
    .name = "gemma3",
    .description = "Gemma 3: sliding-window layers, norms before and after each part, GEGLU",
    .has_cache = true,
    .weights = weights,
    .read = read,
    .hidden = ig_lm_forward_geglu,
    .head = ig_lm_head,
};
