/* Reductions over any set of axes. */
#include "backend/vulkan/kernels/setup.h"

/* The reduced dimensions of x, or the kept ones, and their element count. */
static vk_places places_with(const ig_operand *x, uint32_t axes, bool reduced, int64_t *count) {
    ig_shape shape = {0};
    int64_t stride[IG_MAX_RANK] = {0};
    *count = 1;
    for (int d = 0; d < x->desc.shape.rank; d++) {
        if ((axes >> d & 1) != reduced) continue;
        shape.dim[shape.rank] = x->desc.shape.dim[d];
        stride[shape.rank++] = x->stride[d];
        *count *= x->desc.shape.dim[d];
    }
    return vk_places_of(shape, stride);
}

typedef struct reduction {
    uint32_t operation, value, finish;
} reduction;

/* A result of more than twice PART elements is reduced in two stages, if there are few results. */
enum { PART = 4096, MOST_PARTS = 256, FEW_OUTPUTS = 256, MANY_ELEMENTS = 32, MOST_TALL = 32 };

/* Threads per column, for 32 columns: more if each would have many elements and the device
 * supports such workgroups. */
static uint32_t tall_of(const vk_builder *b, uint32_t part) {
    const uint32_t most = b->device->properties.limits.maxComputeWorkGroupInvocations;
    return part >= 8 * MANY_ELEMENTS && most >= 32 * MOST_TALL ? MOST_TALL : 8;
}

static void emit(vk_builder *b, const reduction *r, const vk_reduce_params *p, vk_ref x, vk_ref to,
                 vk_ref other) {
    /* Adjacent threads read adjacent memory: along the results, or along the elements of one. */
    const bool columns = p->outputs >= 32 && p->kept.stride[p->kept.rank - 1] == 1;
    const uint32_t wide = p->part < 8 ? 256 : p->part < 64 || columns ? 32 : 1;
    const uint32_t tall = wide == 256  ? 1
                          : wide == 32 ? tall_of(b, p->part)
                                       : vk_row_group(p->part);
    const vk_dispatch d = {
        .shader = VK_SHADER_reduce,
        .constant = {wide * tall, r->operation, r->value, r->finish, wide},
        .groups = {vk_groups((int64_t)((p->outputs + wide - 1) / wide) * p->parts, 1)},
        .n_refs = 3,
        .ref = {x, to, other},
        .params = p,
        .params_bytes = sizeof *p};
    vk_emit(b, &d);
}

/* The second stage: reduces rows of [outputs, parts] in scratch. */
static void emit_join(vk_builder *b, const reduction *r, float divisor, uint32_t outputs,
                      uint32_t parts, vk_ref from, vk_ref to) {
    const int64_t one = 1, row = parts;
    const reduction joined = {r->operation, VK_OF_X, r->finish};
    const vk_reduce_params p = {.outputs = outputs,
                                .count = parts,
                                .parts = 1,
                                .part = parts,
                                .divisor = divisor,
                                .kept = vk_places_of((ig_shape){1, {outputs}}, &row),
                                .reduced = vk_places_of((ig_shape){1, {parts}}, &one)};
    emit(b, &joined, &p, from, to, from);
}

/* The partial result of a stage: for a sum of squares its square root, which stays in the range of
 * F32 where the sum does not. */
static reduction part_of(reduction r) {
    r.finish = r.operation == VK_REDUCE_SQUARES ? VK_FINISH_ROOT : VK_FINISH_NOT;
    return r;
}

static bool reduce(const ig_step *step, vk_builder *b, uint32_t axes, reduction r) {
    const ig_operand *x = &step->in[0], *y = &step->in[step->n_in - 1], *out = &step->out[0];
    int64_t outputs, count;
    vk_reduce_params p = {.parts = 1,
                          .kept = places_with(x, axes, false, &outputs),
                          .reduced = places_with(x, axes, true, &count),
                          .other = vk_places_make(y, 0)};
    if (!vk_outputs_are_packed(step)) return false;
    if (outputs == 0) return true;
    p.outputs = (uint32_t)outputs;
    p.count = p.part = (uint32_t)count;
    p.divisor = (float)count;
    if (count <= 2 * PART || outputs > FEW_OUTPUTS || r.operation == VK_REDUCE_ARGMAX) {
        emit(b, &r, &p, vk_reads(x), vk_writes(out), vk_reads(y));
        return true;
    }
    const int64_t wanted = (count + PART - 1) / PART;
    p.parts = (uint32_t)(wanted < MOST_PARTS ? wanted : MOST_PARTS);
    p.part = (p.count + p.parts - 1) / p.parts;
    const uint64_t bytes = (uint64_t)outputs * p.parts * sizeof(float);
    const reduction half = part_of(r);
    emit(b, &half, &p, vk_reads(x), vk_scratch(b, step, 0, bytes, 1), vk_reads(y));
    emit_join(b, &r, p.divisor, p.outputs, p.parts, vk_scratch(b, step, 0, bytes, 0),
              vk_writes(out));
    return true;
}

static bool over_axes(const ig_step *step, vk_builder *b, uint32_t operation, uint32_t finish) {
    ig_attrs_reduce a;
    ig_step_attrs(step, &a, sizeof a);
    return vk_operands_are(step, 0, IG_F32) &&
           reduce(step, b, a.axes, (reduction){operation, VK_OF_X, finish});
}

static bool sum(const ig_step *step, vk_builder *b) {
    return over_axes(step, b, VK_REDUCE_SUM, VK_FINISH_NOT);
}
static bool mean(const ig_step *step, vk_builder *b) {
    return over_axes(step, b, VK_REDUCE_SUM, VK_FINISH_MEAN);
}
static bool max(const ig_step *step, vk_builder *b) {
    return over_axes(step, b, VK_REDUCE_MAX, VK_FINISH_NOT);
}

static bool argmax(const ig_step *step, vk_builder *b) {
    ig_attrs_axis a;
    ig_step_attrs(step, &a, sizeof a);
    return step->out[0].desc.dtype == IG_I32 &&
           reduce(step, b, 1u << a.axis, (reduction){VK_REDUCE_ARGMAX, VK_OF_X, VK_FINISH_NOT});
}

enum { ALL = (1 << IG_MAX_RANK) - 1 }; /* axes */

static bool mse(const ig_step *step, vk_builder *b) {
    return vk_operands_are(step, 0, IG_F32) &&
           reduce(step, b, ALL, (reduction){VK_REDUCE_SQUARES, VK_OF_DIFFERENCE, VK_FINISH_MEAN});
}

/* Partial results of all tensors side by side in scratch, then the root of the sum of their
 * squares. */
static bool global_norm(const ig_step *step, vk_builder *b) {
    const reduction root = {VK_REDUCE_SQUARES, VK_OF_X, VK_FINISH_ROOT}, part = part_of(root);
    uint64_t parts = 0;
    if (!vk_operands_are(step, 0, IG_F32)) return false;
    for (uint32_t i = 0; i < step->n_in; i++) {
        const ig_operand *x = &step->in[i];
        int64_t outputs, count;
        vk_reduce_params p = {.outputs = 1,
                              .kept = places_with(x, ALL, false, &outputs),
                              .reduced = places_with(x, ALL, true, &count)};
        const int64_t wanted = (count + PART - 1) / PART;
        if (count == 0) continue;
        p.count = (uint32_t)count;
        p.parts = (uint32_t)(wanted < MOST_PARTS ? wanted : MOST_PARTS);
        p.part = (p.count + p.parts - 1) / p.parts;
        emit(b, &part, &p, vk_reads(x),
             vk_scratch(b, step, parts * sizeof(float), p.parts * sizeof(float), 1), vk_reads(x));
        parts += p.parts;
    }
    emit_join(b, &root, 1, 1, (uint32_t)parts, vk_scratch(b, step, 0, parts * sizeof(float), 0),
              vk_writes(&step->out[0]));
    return true;
}

const vk_entry vk_reduce[] = {
    {IG_OP_SUM, IG_F32, sum},
    {IG_OP_MEAN, IG_F32, mean},
    {IG_OP_MAX, IG_F32, max},
    {IG_OP_ARGMAX, IG_F32, argmax},
    {IG_OP_MSE, IG_F32, mse},
    {IG_OP_GLOBAL_NORM, IG_F32, global_norm},
    {0},
};
