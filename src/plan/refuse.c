/*
 * Refusals: the devices that were asked for a step or a segment and could not do it,
 * with the reason, for the timeline.
 *
 * Equal steps are refused alike, so a refusal is kept once per module, device and reason.
 */
#include <stdio.h>
#include <string.h>

#include "plan/lower.h"

static bool is_same(const ig_refusal *a, const ig_refusal *b) {
    bool same = strcmp(a->module, b->module) == 0 && strcmp(a->device, b->device) == 0;
    for (int i = 0; i < IG_ATTEMPTS; i++)
        same &= strcmp(a->attempts[i].reason, b->attempts[i].reason) == 0;
    return same;
}

ig_status ig_refusal_add(ig_lowering *l, const ig_refusal *refusal) {
    const ig_allocator *a = l->planner->allocator;
    for (size_t i = 0; i < l->n_refusals; i++)
        if (is_same(&l->refusals[i], refusal)) return IG_OK;
    if (!IG_GROW(a, l->refusals, &l->refusals_room, l->n_refusals + 1))
        return IG_FAIL(IG_ERR_MEMORY, "plan: %zu refusals", l->n_refusals);
    l->refusals[l->n_refusals++] = *refusal;
    return IG_OK;
}

ig_status ig_refusal_add_step(ig_lowering *l, const ig_device *device, const ig_step *step,
                              const char *reason) {
    const bool compiles = device->info.flags & IG_CAN_COMPILE;
    const bool eager = !(device->info.flags & IG_NO_EAGER);
    const bool override = step->tag < IG_TAG_COUNT && device->overrides[step->tag];
    ig_refusal r = {
        .attempts = {{.level = "compile"}, {.level = "kernel_override"}, {.level = "eager"}}};
    snprintf(r.module, sizeof r.module, "%s", ig_plan_step_name(l->planner, step));
    snprintf(r.device, sizeof r.device, "%s", device->name);
    const char *const reasons[IG_ATTEMPTS] = {compiles ? reason : "not offered",
                                              override ? reason : "no override registered",
                                              eager ? reason : "not offered"};
    for (int i = 0; i < IG_ATTEMPTS; i++)
        snprintf(r.attempts[i].reason, sizeof r.attempts[i].reason, "%s", reasons[i]);
    return ig_refusal_add(l, &r);
}

/* "f32 x f16": the dtypes of the inputs, or of the result where there are none. */
static void name_dtypes(const ig_step *step, char *out, size_t out_bytes) {
    const uint32_t count = step->n_in > 0 ? step->n_in : step->n_out;
    bool mixed = false;
    for (uint32_t i = 1; i < count; i++)
        mixed |= ig_step_operand(step, i)->desc.dtype != ig_step_operand(step, 0)->desc.dtype;
    size_t used = 0;
    for (uint32_t i = 0; i < (mixed ? count : count > 0) && used < out_bytes; i++)
        used += (size_t)snprintf(out + used, out_bytes - used, "%s%s", i > 0 ? " x " : "",
                                 ig_dtype_name(ig_step_operand(step, i)->desc.dtype));
}

void ig_refusal_explain(const ig_device *device, const ig_step *step, const char *words,
                        char out[IG_REASON_BYTES]) {
    char dtypes[64] = "";
    name_dtypes(step, dtypes, sizeof dtypes);
    snprintf(out, IG_REASON_BYTES, "%s has no kernel for %s of %s%s%s", device->name,
             ig_op_name(step->op), dtypes, *words ? ": " : "", words);
}
