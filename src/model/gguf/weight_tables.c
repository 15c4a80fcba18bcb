/* Weight tables shared by several architectures. */
#include "model/gguf/decoder.h"

const ig_weight_row ig_weights_ends[] = {
    {"token_embd.weight", IG_LM(embed), {IG_BY_VOCABULARY, IG_BY_MODEL}, IG_ONCE},
    {"output_norm.weight", IG_LM(norm), {IG_BY_MODEL}, IG_ONCE},
    {"output.weight", IG_LM(output), {IG_BY_VOCABULARY, IG_BY_MODEL}, IG_OPTIONAL_WEIGHT},
    {0},
};

#define HEADS                                                                                      \
    {"attn_q.weight", IG_LAYER(q), {IG_BY_HEADS, IG_BY_MODEL}, IG_EACH_LAYER | IG_SPLIT_QKV},      \
        {"attn_k.weight", IG_LAYER(k), {IG_BY_KEYS, IG_BY_MODEL}, IG_EACH_LAYER | IG_SPLIT_QKV},   \
        {"attn_v.weight", IG_LAYER(v), {IG_BY_VALUES, IG_BY_MODEL}, IG_EACH_LAYER | IG_SPLIT_QKV}, \
        {"attn_qkv.weight",                                                                        \
         IG_LAYER(qkv),                                                                            \
         {IG_BY_QKV, IG_BY_MODEL},                                                                 \
         IG_EACH_LAYER | IG_FUSED_QKV},                                                            \
        {"attn_output.weight", IG_LAYER(o), {IG_BY_MODEL, IG_BY_HEAD_VALUES}, IG_EACH_LAYER},

const ig_weight_row ig_weights_attention[] = {
    {"attn_norm.weight", IG_LAYER(attn_norm), {IG_BY_MODEL}, IG_EACH_LAYER}, HEADS{0}};

const ig_weight_row ig_weights_head_norms[] = {
    {"attn_q_norm.weight", IG_LAYER(q_norm), {IG_BY_HEAD}, IG_EACH_LAYER},
    {"attn_k_norm.weight", IG_LAYER(k_norm), {IG_BY_HEAD}, IG_EACH_LAYER},
    {0},
};

const ig_weight_row ig_weights_row_norms[] = {
    {"attn_q_norm.weight", IG_LAYER(q_norm), {IG_BY_HEADS}, IG_EACH_LAYER},
    {"attn_k_norm.weight", IG_LAYER(k_norm), {IG_BY_KEYS}, IG_EACH_LAYER},
    {0},
};

const ig_weight_row ig_weights_post_norms[] = {
    {"post_attention_norm.weight", IG_LAYER(attn_post_norm), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"post_ffw_norm.weight", IG_LAYER(ffn_post_norm), {IG_BY_MODEL}, IG_EACH_LAYER},
    {0},
};

#define GATED                                                                               \
    {"ffn_gate.weight", IG_LAYER(gate), {IG_BY_FF, IG_BY_MODEL}, IG_EACH_LAYER | IG_DENSE}, \
        {"ffn_up.weight", IG_LAYER(up), {IG_BY_FF, IG_BY_MODEL}, IG_EACH_LAYER | IG_DENSE}, \
        {"ffn_down.weight", IG_LAYER(down), {IG_BY_MODEL, IG_BY_FF}, IG_EACH_LAYER | IG_DENSE},

const ig_weight_row ig_weights_gated[] = {
    {"ffn_norm.weight", IG_LAYER(ffn_norm), {IG_BY_MODEL}, IG_EACH_LAYER}, GATED{0}};

const ig_weight_row ig_weights_gated_late[] = {
    {"post_attention_norm.weight", IG_LAYER(ffn_norm), {IG_BY_MODEL}, IG_EACH_LAYER}, GATED{0}};

const ig_weight_row ig_weights_bare[] = {HEADS GATED{0}};

const ig_weight_row ig_weights_gate_up[] = {
    {"ffn_norm.weight", IG_LAYER(ffn_norm), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_up.weight", IG_LAYER(up), {IG_BY_TWO_FF, IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_down.weight", IG_LAYER(down), {IG_BY_MODEL, IG_BY_FF}, IG_EACH_LAYER},
    {0},
};

const ig_weight_row ig_weights_plain[] = {
    {"ffn_norm.weight", IG_LAYER(ffn_norm), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_up.weight", IG_LAYER(up), {IG_BY_FF, IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_down.weight", IG_LAYER(down), {IG_BY_MODEL, IG_BY_FF}, IG_EACH_LAYER},
    {0},
};

const ig_weight_row ig_weights_experts[] = {
    {"ffn_gate_inp.weight", IG_LAYER(router), {IG_BY_EXPERTS, IG_BY_MODEL}, IG_OF_EXPERTS},
    {"ffn_gate_exps.weight",
     IG_LAYER(gate_experts),
     {IG_BY_EXPERTS, IG_BY_EXPERT_FF, IG_BY_MODEL},
     IG_OF_EXPERTS},
    {"ffn_up_exps.weight",
     IG_LAYER(up_experts),
     {IG_BY_EXPERTS, IG_BY_EXPERT_FF, IG_BY_MODEL},
     IG_OF_EXPERTS},
    {"ffn_down_exps.weight",
     IG_LAYER(down_experts),
     {IG_BY_EXPERTS, IG_BY_MODEL, IG_BY_EXPERT_FF},
     IG_OF_EXPERTS},
    {"ffn_gate_shexp.weight", IG_LAYER(gate_shared), {IG_BY_SHARED_FF, IG_BY_MODEL}, IG_OF_SHARED},
    {"ffn_up_shexp.weight", IG_LAYER(up_shared), {IG_BY_SHARED_FF, IG_BY_MODEL}, IG_OF_SHARED},
    {"ffn_down_shexp.weight", IG_LAYER(down_shared), {IG_BY_MODEL, IG_BY_SHARED_FF}, IG_OF_SHARED},
    {0},
};

const ig_weight_row ig_weights_mla[] = {
    {"attn_norm.weight", IG_LAYER(attn_norm), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_q.weight", IG_LAYER(q), {IG_BY_MLA_HEADS, IG_BY_MODEL}, IG_EACH_LAYER | IG_FULL_QUERY},
    {"attn_q_a.weight", IG_LAYER(q_a), {IG_BY_Q_LORA, IG_BY_MODEL}, IG_EACH_LAYER | IG_LOW_QUERY},
    {"attn_q_a_norm.weight", IG_LAYER(q_a_norm), {IG_BY_Q_LORA}, IG_EACH_LAYER | IG_LOW_QUERY},
    {"attn_q_b.weight",
     IG_LAYER(q_b),
     {IG_BY_MLA_HEADS, IG_BY_Q_LORA},
     IG_EACH_LAYER | IG_LOW_QUERY},
    {"attn_kv_a_mqa.weight", IG_LAYER(kv_a), {IG_BY_MLA_ROW, IG_BY_MODEL}, IG_EACH_LAYER},
    {"attn_kv_a_norm.weight", IG_LAYER(kv_a_norm), {IG_BY_KV_LORA}, IG_EACH_LAYER},
    {"attn_kv_b.weight",
     IG_LAYER(kv_b),
     {IG_BY_MLA_ROPE, IG_BY_KV_LORA},
     IG_EACH_LAYER | IG_MLA_EXPANDED},
    {"attn_k_b.weight",
     IG_LAYER(k_b),
     {IG_BY_EACH_HEAD, IG_BY_KV_LORA, IG_BY_QK_NOPE},
     IG_EACH_LAYER | IG_MLA_ABSORBED},
    {"attn_v_b.weight",
     IG_LAYER(v_b),
     {IG_BY_EACH_HEAD, IG_BY_MLA_VALUE, IG_BY_KV_LORA},
     IG_EACH_LAYER | IG_MLA_ABSORBED},
    {"attn_output.weight", IG_LAYER(o), {IG_BY_MODEL, IG_BY_MLA_VALUES}, IG_EACH_LAYER},
    {0},
};

const ig_weight_row ig_weights_router_bias[] = {
    {"exp_probs_b.bias",
     IG_LAYER(router_score_bias),
     {IG_BY_EXPERTS},
     IG_OF_EXPERTS | IG_OPTIONAL_WEIGHT},
    {0},
};

const ig_weight_row ig_weights_biases[] = {
    {"attn_q.bias",
     IG_LAYER(q_bias),
     {IG_BY_HEADS},
     IG_EACH_LAYER | IG_OPTIONAL_WEIGHT | IG_SPLIT_QKV},
    {"attn_k.bias",
     IG_LAYER(k_bias),
     {IG_BY_KEYS},
     IG_EACH_LAYER | IG_OPTIONAL_WEIGHT | IG_SPLIT_QKV},
    {"attn_v.bias",
     IG_LAYER(v_bias),
     {IG_BY_VALUES},
     IG_EACH_LAYER | IG_OPTIONAL_WEIGHT | IG_SPLIT_QKV},
    {"attn_qkv.bias",
     IG_LAYER(qkv_bias),
     {IG_BY_QKV},
     IG_EACH_LAYER | IG_OPTIONAL_WEIGHT | IG_FUSED_QKV},
    {"attn_output.bias", IG_LAYER(o_bias), {IG_BY_MODEL}, IG_EACH_LAYER | IG_OPTIONAL_WEIGHT},
    {0},
};

const ig_weight_row ig_weights_gated_biases[] = {
    {"ffn_gate.bias",
     IG_LAYER(gate_bias),
     {IG_BY_FF},
     IG_EACH_LAYER | IG_OPTIONAL_WEIGHT | IG_DENSE},
    {"ffn_up.bias", IG_LAYER(up_bias), {IG_BY_FF}, IG_EACH_LAYER | IG_OPTIONAL_WEIGHT | IG_DENSE},
    {"ffn_down.bias",
     IG_LAYER(down_bias),
     {IG_BY_MODEL},
     IG_EACH_LAYER | IG_OPTIONAL_WEIGHT | IG_DENSE},
    {0},
};

const ig_weight_row ig_weights_plain_biases[] = {
    {"ffn_up.bias", IG_LAYER(up_bias), {IG_BY_FF}, IG_EACH_LAYER | IG_OPTIONAL_WEIGHT},
    {"ffn_down.bias", IG_LAYER(down_bias), {IG_BY_MODEL}, IG_EACH_LAYER | IG_OPTIONAL_WEIGHT},
    {0},
};

const ig_weight_row ig_weights_norm_biases[] = {
    {"output_norm.bias", IG_LM(norm_bias), {IG_BY_MODEL}, IG_ONCE},
    {"attn_norm.bias", IG_LAYER(attn_norm_bias), {IG_BY_MODEL}, IG_EACH_LAYER},
    {"ffn_norm.bias", IG_LAYER(ffn_norm_bias), {IG_BY_MODEL}, IG_EACH_LAYER | IG_OPTIONAL_WEIGHT},
    {0},
};

const ig_weight_row ig_weights_rope[] = {
    {"rope_freqs.weight", IG_LM(rope_factors), {IG_BY_ROPE_PAIRS}, IG_OPTIONAL_WEIGHT},
    {"rope_factors_long.weight", IG_LM(rope_long), {IG_BY_ROPE_PAIRS}, IG_OPTIONAL_WEIGHT},
    {"rope_factors_short.weight", IG_LM(rope_short), {IG_BY_ROPE_PAIRS}, IG_OPTIONAL_WEIGHT},
    {0},
};
