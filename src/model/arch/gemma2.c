/*
 * gemma2: every other layer looks back over a window only; norms before and behind
 * each part; scores and logits are kept within bounds by tanh; GELU gates.
 */
#include <math.h>

#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {ig_weights_ends, ig_weights_attention,
                                               ig_weights_gated, ig_weights_post_norms, NULL};

static const char *const own_keys[] = {"attn_logit_softcapping", "final_logit_softcapping", NULL};

/* The window and the caps are what files that say nothing were made with. */
static ig_status read(const ig_keys *keys, ig_hyper *h) {
    enum { WINDOW = 4096, PERIOD = 2, LAYERS_OF_27B = 46 };
    h->embedding_scale = sqrtf((float)h->size.d_model);
    if (h->window == 0) h->window = WINDOW;
    if (h->score_cap == 0) h->score_cap = 50;
    if (h->logit_cap == 0) h->logit_cap = 30;
    h->window_period = PERIOD;
    IG_TRY(ig_hyper_read_windows(keys, h));
    if (h->size.n_layers == LAYERS_OF_27B) /* the one whose heads are narrower than d / n */
        h->attention_scale = 1 / sqrtf((float)h->size.d_model / (float)h->size.n_heads);
    return IG_OK;
}

const ig_arch ig_arch_gemma2 = {
    .name = "gemma2",
    .description = "Gemma 2: windowed layers, norms before and behind each part, bounded scores",
    .has_cache = true,
    .weights = weights,
    .own_keys = own_keys,
    .read = read,
    .hidden = ig_lm_decode_geglu,
    .head = ig_lm_head,
};
