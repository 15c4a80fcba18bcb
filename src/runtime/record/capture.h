/* capture.h - captures: explicit recordings of the caller, with their own memory. */
#ifndef IG_RUNTIME_RECORD_CAPTURE_H
#define IG_RUNTIME_RECORD_CAPTURE_H

#include "ingot/graph.h"
#include "runtime/record/record.h"
#include "runtime/tensor.h"

/* A result of a capture that its caller retained. */
typedef struct ig_captured_result {
    ig_tensor *tensor; /* not owned: if it was released, `id` differs */
    uint64_t id;
    ig_value value;
} ig_captured_result;

struct ig_captured {
    ig_ctx *ctx;
    ig_captured *next; /* the previous capture */
    ig_recording *recording;
    ig_storage *arena; /* used by this recording alone: results stay in it between replays */
    ig_tensor **bound; /* the tensors of its binds; one reference each */
    int64_t *advance;  /* per slot: the increment of its count by fn */
    size_t n_slots;
    uint64_t steps;        /* number of steps ended by fn */
    bool has_run;          /* false: recorded only */
    ig_status move_status; /* status of moving results into the arena */
    ig_captured_result *held;
    size_t n_held, held_room;
    ig_plan *new_plan; /* used during a device switch */
    ig_storage *new_arena;
};

typedef struct ig_captures {
    ig_captured *newest; /* owned by the caller; each links to the previous one */
} ig_captures;

ig_captures *ig_ctx_captures(const ig_ctx *ctx);
/* The plan of capture `index`, newest first; NULL after the last. */
const ig_plan *ig_captured_plan(const ig_ctx *ctx, uint32_t index);

/* For a device switch: makes a plan with the context's current planner and keeps it beside the old
 * one; then one of the two is dropped. */
IG_MUST_CHECK ig_status ig_captured_replan(ig_captured *captured);
void ig_captured_take_new(ig_captured *captured);
void ig_captured_keep_old(ig_captured *captured);

#endif
