/*
 * olmo2: norms stand behind each part, and over all heads of queries and of keys; SwiGLU.  OLMo 3
 * has the same name, and windows in three of four layers.
 */
#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {ig_weights_ends, ig_weights_bare,
                                               ig_weights_row_norms, ig_weights_post_norms, NULL};

/* Windowed layers are not stretched as the others are. */
static ig_status read(const ig_keys *keys, ig_hyper *h) {
    if (h->window == 0) return IG_OK;
    h->window_period = 4;
    h->windows_unstretched = true;
    h->rope_window.scale = 1;
    return ig_hyper_read_windows(keys, h);
}

const ig_arch ig_arch_olmo2 = {
    .name = "olmo2",
    .description = "OLMo 2 and 3: norms behind each part and over all heads, SwiGLU",
    .has_cache = true,
    .weights = weights,
    .read = read,
    .hidden = ig_lm_decode_swiglu,
    .head = ig_lm_head,
};
