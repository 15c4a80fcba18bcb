/* The arena: where local values and scratch lie. */
#include "plan/lower.h"

static ig_status take(ig_plan *p, uint64_t bytes, uint64_t *out) {
    const uint64_t mask = IG_ALIGNMENT - 1;
    uint64_t end;
    if (__builtin_add_overflow(p->arena_bytes, bytes, &end) || end > UINT64_MAX - mask)
        return IG_FAIL(IG_ERR_MEMORY, "plan: an arena of more than 2^64 bytes");
    *out = p->arena_bytes;
    p->arena_bytes = (end + mask) & ~mask;
    return IG_OK;
}

static uint32_t memory_of(const ig_graph *g, const ig_operand *o) {
    return o->value < g->n_values ? ig_value_at(g, o->value)->base : o->value;
}

/* Every operand that shows the memory of `made` moves with it. */
static void move(ig_lowering *l, const ig_operand *made, uint64_t offset) {
    const ig_graph *g = l->args->graph;
    const uint32_t memory = memory_of(g, made);
    for (uint32_t i = 0; i < l->plan->n_operands; i++) {
        ig_operand *o = &l->plan->operands[i];
        if (o->buffer == IG_ARENA && memory_of(g, o) == memory) o->offset += offset;
    }
}

ig_status ig_lower_memory(ig_lowering *l) {
    ig_plan *p = l->plan;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        ig_step *step = &p->steps[i];
        for (uint32_t j = 0; j < step->n_out; j++) {
            const ig_operand made = step->out[j];
            uint64_t bytes, offset;
            if (made.buffer != IG_ARENA || made.alias >= 0) continue;
            if (!ig_desc_bytes(made.desc, &bytes))
                return IG_FAIL(IG_ERR_MEMORY, "plan: %s: too large", ig_op_name(step->op));
            IG_TRY(take(p, bytes, &offset));
            move(l, &made, offset);
        }
        if (l->device_of[i] == IG_ON_HOST) continue;
        step->scratch_bytes = ig_device_scratch(l->planner->devices[l->device_of[i]], step);
        if (step->scratch_bytes) IG_TRY(take(p, step->scratch_bytes, &step->scratch_offset));
    }
    return IG_OK;
}
