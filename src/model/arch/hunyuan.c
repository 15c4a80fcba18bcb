/* hunyuan-dense and hunyuan-moe: heads are normed when they have been turned. */
#include "model/gguf/decoder.h"

static const ig_weight_row *const dense_weights[] = {ig_weights_ends,
                                                     ig_weights_attention,
                                                     ig_weights_biases,
                                                     ig_weights_head_norms,
                                                     ig_weights_gated,
                                                     ig_weights_rope,
                                                     NULL};

static ig_status read_dense(const ig_keys *keys, ig_hyper *h) {
    (void)keys;
    h->norms_turned = true;
    return IG_OK;
}

const ig_arch ig_arch_hunyuan_dense = {
    .name = "hunyuan-dense",
    .description = "Hunyuan: norms of heads behind their rotation",
    .has_cache = true,
    .weights = dense_weights,
    .read = read_dense,
    .hidden = ig_lm_decode_swiglu,
    .head = ig_lm_head,
};

static const ig_weight_row *const weights[] = {
    ig_weights_ends,  ig_weights_attention, ig_weights_biases, ig_weights_head_norms,
    ig_weights_gated, ig_weights_experts,   ig_weights_rope,   NULL};

/* Experts are as wide as the model says a feed-forward part is. */
static ig_status read(const ig_keys *keys, ig_hyper *h) {
    int64_t need;
    h->norms_turned = true;
    h->d_ff_expert = h->size.d_ff;
    if (h->d_ff_shared == 0) h->d_ff_shared = h->size.d_ff;
    return ig_key_int(keys, "expert_count", IG_REQUIRED, 1, 65536, &need);
}

const ig_arch ig_arch_hunyuan_moe = {
    .name = "hunyuan-moe",
    .description = "Hunyuan with a mixture of experts, and one for all",
    .has_cache = true,
    .weights = weights,
    .read = read,
    .hidden = ig_lm_decode_swiglu,
    .head = ig_lm_head,
};
