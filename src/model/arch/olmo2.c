/* olmo2: norms stand behind each part, and over all heads of queries and of keys; SwiGLU. */
#include "model/lm.h"

static const ig_weight_row own[] = {
    {"attn_q.weight", IG_LAYER(q), {IG_BY_HEADS, IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_k.weight", IG_LAYER(k), {IG_BY_KEYS, IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_v.weight", IG_LAYER(v), {IG_BY_VALUES, IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_output.weight", IG_LAYER(o), {IG_BY_MODEL, IG_BY_HEAD_VALUES}, IG_EACH_LAYER},
    {"ffn_gate.weight", IG_LAYER(gate), {IG_BY_FF, IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_up.weight", IG_LAYER(up), {IG_BY_FF, IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_down.weight", IG_LAYER(down), {IG_BY_MODEL, IG_BY_FF}, IG_EACH_LAYER},
    {0},
};

static const ig_weight_row *const weights[] = {ig_weights_ends, ig_weights_row_norms,
                                               ig_weights_post_norms, own, NULL};

/* Windowed layers are not stretched as the others are, which nothing here can do apart. */
static ig_status read(const ig_keys *keys, ig_hyper *h) {
    if (h->window == 0) return IG_OK;
    return IG_FAIL(IG_ERR_FORMAT, "%s: olmo2 with a window (Olmo 3) is not known", keys->source);
}

const ig_arch ig_arch_olmo2 = {
    .name = "olmo2",
    .description = "OLMo 2: norms behind each part and over all heads, SwiGLU",
    .has_cache = true,
    .weights = weights,
    .read = read,
    .hidden = ig_lm_decode_swiglu,
    .head = ig_lm_head,
};
