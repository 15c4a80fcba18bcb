/*
 * olmo2: post-norm, and QK norm over all heads at once; SwiGLU. OLMo 3 has the same name, and
 * sliding windows in three of four layers.
 */
#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {ig_weights_ends, ig_weights_bare,
                                               ig_weights_row_norms, ig_weights_post_norms, NULL};

/* RoPE scaling skips the sliding-window layers. */
static ig_status read(const ig_keys *keys, ig_hparams *h) {
    if (h->sliding_window == 0) return IG_OK;
    h->full_attn_period = 4;
    h->swa_rope_unscaled = true;
    h->rope_swa.freq_scale = 1;
    return ig_hparams_read_windows(keys, h);
}

const ig_arch ig_arch_olmo2 = {
    .name = "olmo2",
    .description = "OLMo 2 and 3: post-norms, QK norm over all heads, SwiGLU",
    .has_cache = true,
    .weights = weights,
    .read = read,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};
