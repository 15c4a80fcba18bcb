/* Slots: created and set by callers, read by ops when they run. */
#include "runtime/slots.h"

#include "runtime/record/record.h"

ig_status ig_slot_create(ig_ctx *ctx, uint32_t *out) {
    if (!ctx || !out) return IG_FAIL(IG_ERR_ARGUMENT, "slot_create: NULL");
    const ig_allocator *a = ig_ctx_allocator(ctx);
    ig_slots *s = ig_ctx_slots(ctx);
    if (!IG_GROW(a, s->at, &s->room, s->count + 1) ||
        !IG_GROW(a, s->is_count, &s->is_count_room, s->count + 1))
        return IG_FAIL(IG_ERR_MEMORY, "slot_create: %zu slots", s->count);
    s->at[s->count] = (ig_slot){0};
    *out = (uint32_t)s->count++;
    return IG_OK;
}

void ig_slot_set_real(ig_ctx *ctx, uint32_t slot, double value) {
    ig_slots *s = ctx ? ig_ctx_slots(ctx) : NULL;
    if (!s || slot >= s->count || slot == IG_SLOT_STEP) return;
    if (s->at[slot].f != value) ig_replay_slot(ctx, slot);
    s->at[slot].f = value;
}

void ig_slot_set_count(ig_ctx *ctx, uint32_t slot, int64_t value) {
    ig_slots *s = ctx ? ig_ctx_slots(ctx) : NULL;
    if (!s || slot >= s->count || slot == IG_SLOT_STEP) return;
    if (s->at[slot].i != value) ig_replay_slot(ctx, slot);
    s->at[slot].i = value;
    s->is_count[slot] = true;
}

int64_t ig_slot_count(const ig_ctx *ctx, uint32_t slot) {
    return ctx && slot < ig_ctx_slots(ctx)->count ? ig_ctx_slots(ctx)->at[slot].i : 0;
}

void ig_slots_deinit(ig_slots *slots, const ig_allocator *allocator) {
    ig_free(allocator, slots->is_count);
    ig_free(allocator, slots->at);
}
