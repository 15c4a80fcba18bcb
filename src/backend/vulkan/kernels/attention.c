/* Attention and its gradients. */
#include <math.h>

#include "backend/vulkan/kernels/setup.h"

enum { THREADS = 64, MOST_WIDTH = 1024 };

static void strides_of(const ig_operand *o, uint32_t *out, int rank) {
    for (int d = 0; d < rank; d++) out[d] = (uint32_t)o->stride[d];
}

static bool params_of(const ig_step *step, vk_attention_params *p) {
    const ig_operand *q = &step->in[0], *k = &step->in[1], *v = &step->in[2];
    ig_attrs_attention a;
    ig_step_attrs(step, &a, sizeof a);
    if (!vk_operands_are(step, 0, IG_F32) || !vk_outputs_are_packed(step)) return false;
    const int64_t *qd = q->desc.shape.dim, *vd = v->desc.shape.dim;
    if (qd[3] > MOST_WIDTH || vd[3] > MOST_WIDTH) return false;
    *p = (vk_attention_params){.b = (uint32_t)qd[0],
                               .t = (uint32_t)qd[1],
                               .s = (uint32_t)vd[1],
                               .h = (uint32_t)qd[2],
                               .g = (uint32_t)vd[2],
                               .d = (uint32_t)qd[3],
                               .e = (uint32_t)vd[3],
                               .causal = a.causal,
                               .scale = a.scale == 0 ? (float)(1 / sqrt((double)qd[3])) : a.scale};
    strides_of(q, p->q, 4);
    strides_of(k, p->k, 4);
    strides_of(v, p->v, 4);
    return true;
}

static uint32_t columns_for(uint32_t width) { return (width + THREADS - 1) / THREADS; }

static bool attention(const ig_step *step, vk_builder *b) {
    const ig_operand *out = &step->out[0], *lse = &step->out[step->n_out - 1];
    vk_attention_params p;
    if (!params_of(step, &p)) return false;
    if (vk_count(out) == 0 && vk_count(lse) == 0) return true;
    const uint32_t columns = p.e > 0 ? columns_for(p.e) : 1;
    const vk_dispatch d = {.shader = VK_SHADER_attention,
                           .constant = {THREADS, p.d > 0 ? p.d : 1, columns, step->n_out > 1,
                                        vk_has_pieces(&step->in[1], p.d)},
                           .groups = {vk_groups((int64_t)p.b * p.t * p.h, 1)},
                           .n_refs = 5,
                           .ref = {vk_reads(&step->in[0]), vk_reads(&step->in[1]),
                                   vk_reads(&step->in[2]), vk_writes(out), vk_writes(lse)},
                           .params = &p,
                           .params_bytes = sizeof p};
    vk_emit(b, &d);
    return true;
}

/* Whether q, k and v can be read four elements at a time. */
static bool has_vectors(const ig_step *step, const vk_attention_params *p) {
    return vk_has_pieces(&step->in[0], p->d) && vk_has_pieces(&step->in[1], p->d) &&
           vk_has_pieces(&step->in[2], p->e) && vk_has_pieces(&step->in[3], p->e) &&
           vk_has_pieces(&step->in[5], p->e);
}

static void emit_grad(const ig_step *step, vk_builder *b, const vk_attention_params *p,
                      uint32_t form, const ig_operand *first, const ig_operand *second) {
    const uint32_t width = p->d > p->e ? p->d : p->e;
    const int64_t rows = form == VK_GRAD_OF_Q ? (int64_t)p->t * p->h : (int64_t)p->s * p->g;
    vk_dispatch d = {
        .shader = VK_SHADER_attention_grad,
        .constant = {THREADS, width > 0 ? columns_for(width) : 1, form, has_vectors(step, p)},
        .groups = {vk_groups(p->b * rows, 1)},
        .n_refs = 8,
        .params = p,
        .params_bytes = sizeof *p};
    for (int i = 0; i < 6; i++) d.ref[i] = vk_reads(&step->in[i]);
    d.ref[6] = vk_writes(first);
    d.ref[7] = vk_writes(second);
    if (p->b * rows > 0) vk_emit(b, &d);
}

static bool attention_grad(const ig_step *step, vk_builder *b) {
    vk_attention_params p;
    if (!params_of(step, &p)) return false;
    strides_of(&step->in[3], p.out_, 4);
    strides_of(&step->in[4], p.lse, 3);
    strides_of(&step->in[5], p.dout, 4);
    emit_grad(step, b, &p, VK_GRAD_OF_Q, &step->out[0], &step->out[0]);
    emit_grad(step, b, &p, VK_GRAD_OF_KV, &step->out[1], &step->out[2]);
    return true;
}

/* q, k and v in F16 or BF16; results and gradients in F32. */
static bool attention_f16(const ig_step *step, vk_builder *b) {
    return vk_setup_widened(step, b, 3, attention);
}
static bool attention_grad_of_halves(const ig_step *step, vk_builder *b) {
    return vk_setup_widened(step, b, 3, attention_grad);
}

const vk_entry vk_attention[] = {
    {IG_OP_ATTENTION, IG_F32, attention},
    {IG_OP_ATTENTION, IG_F16, attention_f16},
    {IG_OP_ATTENTION, IG_BF16, attention_f16},
    {IG_OP_ATTENTION_GRAD, IG_F32, attention_grad},
    {IG_OP_ATTENTION_GRAD, IG_F16, attention_grad_of_halves},
    {IG_OP_ATTENTION_GRAD, IG_BF16, attention_grad_of_halves},
    {0},
};
