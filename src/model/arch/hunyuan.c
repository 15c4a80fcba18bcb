/* hunyuan-dense and hunyuan-moe: QK norm after RoPE. */
#include "model/gguf/decoder.h"

static const ig_weight_row *const dense_weights[] = {ig_weights_ends,
                                                     ig_weights_attention,
                                                     ig_weights_biases,
                                                     ig_weights_head_norms,
                                                     ig_weights_gated,
                                                     ig_weights_rope,
                                                     NULL};

static ig_status read_dense(const ig_keys *keys, ig_hparams *h) {
    (void)keys;
    h->qk_norm_after_rope = true;
    return IG_OK;
}

const ig_arch ig_arch_hunyuan_dense = {
    .name = "hunyuan-dense",
    .description = "Hunyuan: like llama, with QK norm after RoPE",
    .has_cache = true,
    .weights = dense_weights,
    .read = read_dense,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};

static const ig_weight_row *const weights[] = {
    ig_weights_ends,  ig_weights_attention, ig_weights_biases, ig_weights_head_norms,
    ig_weights_gated, ig_weights_experts,   ig_weights_rope,   NULL};

/* Experts have the width of the feed-forward key. */
static ig_status read(const ig_keys *keys, ig_hparams *h) {
    int64_t need;
    h->qk_norm_after_rope = true;
    h->d_ff_expert = h->size.d_ff;
    if (h->d_ff_shared_expert == 0) h->d_ff_shared_expert = h->size.d_ff;
    return ig_key_int(keys, "expert_count", IG_REQUIRED, 1, 65536, &need);
}

const ig_arch ig_arch_hunyuan_moe = {
    .name = "hunyuan-moe",
    .description = "Hunyuan: MoE with a shared expert, QK norm after RoPE",
    .has_cache = true,
    .weights = weights,
    .read = read,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};
