/*
 * phi3: as llama, with one matrix for q, k and v and one for gate and up.  Long
 * contexts come by factors for each rotary pair (LongRoPE), others for short ones.
 */
#include "model/lm.h"

static const ig_weight_row own[] = {
    {"ffn_norm.weight", IG_LAYER(ffn_norm), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_up.weight", IG_LAYER(up), {IG_BY_TWO_FF, IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_down.weight", IG_LAYER(down), {IG_BY_MODEL, IG_BY_FF}, IG_EACH_LAYER},
    {0},
};

static const ig_weight_row *const weights[] = {ig_weights_ends, ig_weights_attention,
                                               ig_weights_long_rope, own, NULL};

/* The first half of the columns gates the second. */
static ig_tensor *feed_forward(const ig_lm *m, const ig_lm_layer *l, ig_tensor *x) {
    const int64_t ff = m->hyper->size.d_ff;
    ig_tensor *both = ig_lm_linear(x, l->up, NULL);
    ig_tensor *gate = ig_silu(ig_slice(both, -1, 0, ff));
    return ig_lm_linear(ig_mul(gate, ig_slice(both, -1, ff, 2 * ff)), l->down, NULL);
}

static ig_tensor *hidden(void *model, const ig_rows *rows) {
    return ig_lm_decode(model, rows, feed_forward);
}

const ig_arch ig_arch_phi3 = {
    .name = "phi3",
    .description = "Phi 3, 3.5 and 4: as llama, with fused matrices and LongRoPE",
    .has_cache = true,
    .weights = weights,
    .hidden = hidden,
    .head = ig_lm_head,
};
