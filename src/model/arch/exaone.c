/* exaone: as llama; rotary pairs are of two halves, with a factor for each in some files. */
#include "model/lm.h"

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
