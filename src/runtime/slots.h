/* slots.h - scalars that ops read when they run, so that replays may use other values. */
#ifndef IG_RUNTIME_SLOTS_H
#define IG_RUNTIME_SLOTS_H

#include "base/alloc.h"
#include "ingot/backend.h"
#include "ingot/context.h"

enum { IG_SLOT_STEP = 0 }; /* the step count, set by the context */

typedef struct ig_slots {
    ig_slot *at;
    bool *is_count; /* per slot: last set as an integer */
    size_t count, room, is_count_room;
} ig_slots;

ig_slots *ig_ctx_slots(const ig_ctx *ctx);
void ig_slots_deinit(ig_slots *slots, const ig_allocator *allocator);

#endif
