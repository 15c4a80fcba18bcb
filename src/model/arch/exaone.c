/*
 * exaone: as llama; rotary pairs are of two halves, with a factor for each in some files.
 * exaone4: norms stand behind each part, and in heads.  The large one has windows in three of four
 * layers, and the fourth knows no positions.
 */
#include "model/gguf/decoder.h"

static const ig_weight_row *const weights[] = {ig_weights_ends, ig_weights_attention,
                                               ig_weights_gated, ig_weights_rope, NULL};

const ig_arch ig_arch_exaone = {
    .name = "exaone",
    .description = "EXAONE 3: as llama",
    .has_cache = true,
    .weights = weights,
    .hidden = ig_lm_decode_swiglu,
    .head = ig_lm_head,
};

static const ig_weight_row *const weights4[] = {ig_weights_ends,       ig_weights_bare,
                                                ig_weights_head_norms, ig_weights_post_norms,
                                                ig_weights_rope,       NULL};

/* Files of the small one may name a window that it has not; layers tell them apart, as they do for
 * llama.cpp. */
static ig_status read4(const ig_keys *keys, ig_hyper *h) {
    enum { LARGE_LAYERS = 64, USUAL_WINDOW = 4096, PERIOD = 4 };
    if (h->size.n_layers != LARGE_LAYERS) {
        h->window = 0;
        return IG_OK;
    }
    if (h->window == 0) h->window = USUAL_WINDOW;
    h->window_period = PERIOD;
    IG_TRY(ig_hyper_read_windows(keys, h));
    h->unturned_period = h->window_period;
    return IG_OK;
}

const ig_arch ig_arch_exaone4 = {
    .name = "exaone4",
    .description = "EXAONE 4: norms behind each part, and of heads",
    .has_cache = true,
    .weights = weights4,
    .read = read4,
    .hidden = ig_lm_decode_swiglu,
    .head = ig_lm_head,
};
