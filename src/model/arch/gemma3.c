/*
 * gemma3: most layers look back over a window only, with rotary positions of a pace
 * of their own; each sixth sees all.  Norms stand before and behind each part, and on
 * the heads of queries and keys; the embedding is scaled; GELU gates.
 */
#include <math.h>

#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {ig_weights_ends,       ig_weights_attention,
                                               ig_weights_head_norms, ig_weights_gated,
                                               ig_weights_post_norms, NULL};

/* Most files name neither the period of the layers that see all nor the pace of the others. */
static ig_status read(const ig_keys *keys, ig_hyper *h) {
    enum { PERIOD = 6, LAYERS_OF_27B = 62 };
    h->embedding_scale = sqrtf((float)h->size.d_model);
    h->window_period = PERIOD;
    h->rope_window.scale = 1;
    h->rope_window.base = 10000;
    IG_TRY(ig_key_int(keys, "attention.sliding_window", IG_REQUIRED, 1, 1 << 24, &h->window));
    IG_TRY(ig_hyper_read_windows(keys, h));
    if (h->size.n_layers == LAYERS_OF_27B) /* the one whose heads are narrower than d / n */
        h->attention_scale = 1 / sqrtf((float)h->size.d_model / (float)h->size.n_heads);
    return IG_OK;
}

const ig_arch ig_arch_gemma3 = {
    .name = "gemma3",
    .description = "Gemma 3: windowed layers, norms before and behind each part, GELU gates",
    .has_cache = true,
    .weights = weights,
    .read = read,
    .hidden = ig_lm_decode_geglu,
    .head = ig_lm_head,
};
