/*
 * exaone: as llama, with NeoX RoPE and frequency factors in some files.
 * exaone4: norms after each part, and QK norm.  The large model has sliding windows in three of
 * four layers, and the fourth is NoPE.
 */
#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {ig_weights_ends, ig_weights_attention,
                                               ig_weights_gated, ig_weights_rope, NULL};

const ig_arch ig_arch_exaone = {
    .name = "exaone",
    .description = "EXAONE 3: like llama",
    .has_cache = true,
    .weights = weights,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};

static const ig_weight_row *const weights4[] = {ig_weights_ends,       ig_weights_bare,
                                                ig_weights_head_norms, ig_weights_post_norms,
                                                ig_weights_rope,       NULL};

/* Files of the small model may name a sliding window that it does not use; the number of layers
 * tells the models apart, as in llama.cpp. */
static ig_status read4(const ig_keys *keys, ig_hparams *h) {
    enum { LARGE_LAYERS = 64, USUAL_WINDOW = 4096, PERIOD = 4 };
    if (h->size.n_layers != LARGE_LAYERS) {
        h->sliding_window = 0;
        return IG_OK;
    }
    if (h->sliding_window == 0) h->sliding_window = USUAL_WINDOW;
    h->full_attn_period = PERIOD;
    IG_TRY(ig_hparams_read_windows(keys, h));
    h->nope_period = h->full_attn_period;
    return IG_OK;
}

const ig_arch ig_arch_exaone4 = {
    .name = "exaone4",
    .description = "EXAONE 4: post-norms, QK norm",
    .has_cache = true,
    .weights = weights4,
    .read = read4,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};
