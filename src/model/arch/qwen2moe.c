/*
 * qwen2moe: qwen2 with MoE, without renormalized router weights. A shared expert sees all tokens,
 * with a sigmoid gate per token.
 */
#include "model/gguf/decoder.h"

static const ig_weight_row own[] = {
    {"ffn_gate_inp_shexp.weight", IG_LAYER(shared_router), {IG_BY_MODEL}, IG_EACH_LAYER},
    {0},
};

static const ig_weight_row *const weights[] = {ig_weights_ends,
                                               ig_weights_attention,
                                               ig_weights_biases,
                                               ig_weights_gated,
                                               ig_weights_experts,
                                               own,
                                               NULL};

static ig_status read(const ig_keys *keys, ig_hparams *h) {
    int64_t need;
    h->no_norm_topk = true;
    IG_TRY(ig_key_int(keys, "expert_count", IG_REQUIRED, 1, 65536, &need));
    if (h->d_ff_expert == 0) h->d_ff_expert = h->size.d_ff / h->n_experts_used;
    if (h->d_ff_shared_expert == 0) h->d_ff_shared_expert = h->size.d_ff;
    return IG_OK;
}

const ig_arch ig_arch_qwen2moe = {
    .name = "qwen2moe",
    .description = "Qwen 1.5 and 2: MoE with a shared expert",
    .has_cache = true,
    .weights = weights,
    .read = read,
    .hidden = ig_lm_forward_swiglu,
    .head = ig_lm_head,
};
