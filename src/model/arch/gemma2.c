/*
 * gemma2: every other layer has a sliding window; norms before and after attention and
 * feed-forward; softcaps on scores and logits; GELU gates.
 */
#include <math.h>

#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {ig_weights_ends, ig_weights_attention,
                                               ig_weights_gated, ig_weights_post_norms, NULL};

static const char *const own_keys[] = {"attn_logit_softcapping", "final_logit_softcapping", NULL};

/* The defaults for files without these keys: the released models' window and softcaps. */
static ig_status read(const ig_keys *keys, ig_hparams *h) {
    enum { WINDOW = 4096, PERIOD = 2, LAYERS_OF_27B = 46 };
    h->embedding_scale = sqrtf((float)h->size.d_model);
    if (h->sliding_window == 0) h->sliding_window = WINDOW;
    if (h->attn_softcap == 0) h->attn_softcap = 50;
    if (h->final_softcap == 0) h->final_softcap = 30;
    h->full_attn_period = PERIOD;
    IG_TRY(ig_hparams_read_windows(keys, h));
    if (h->size.n_layers == LAYERS_OF_27B) /* its head_dim is less than d / n */
        h->attention_scale = 1 / sqrtf((float)h->size.d_model / (float)h->size.n_heads);
    return IG_OK;
}

const ig_arch ig_arch_gemma2 = {
    .name = "gemma2",
    .description =
        "Gemma 2: sliding-window layers, norms before and after each part, logit softcapping",
    .has_cache = true,
    .weights = weights,
    .own_keys = own_keys,
    .read = read,
    .hidden = ig_lm_forward_geglu,
    .head = ig_lm_head,
};
