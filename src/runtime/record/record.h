/*
 * record.h - the recorder: stores the events of a step, so that it can be replayed.
 *
 * A recording is the list of events between two step ends: ops, updates, backwards and reads. While
 * it is recorded, everything runs as in Dynamic mode and stays in the graph. From the next step on,
 * a cursor compares each call with the recording and returns the recording's handles; nothing runs
 * until a read (a graph break) or the end of the step, which runs that region of the plan.
 *
 * How an event refers to its tensors:
 *   cell   a result of this step: by its index
 *   state  a parameter, gradient, optimizer moment or view of the caller: by identity
 *   leaf   any other tensor: by the order of first use, with the same layout
 */
#ifndef IG_RUNTIME_RECORD_RECORD_H
#define IG_RUNTIME_RECORD_RECORD_H

#include "graph/graph.h"
#include "ingot/grad.h"
#include "plan/plan.h"
#include "runtime/tensor.h"

typedef enum ig_event_kind {
    IG_EVENT_OP,
    IG_EVENT_UPDATE,
    IG_EVENT_BACKWARD,
    IG_EVENT_READ,
    IG_EVENT_STEP, /* a step ended, but the tape is still needed: the recording continues */
} ig_event_kind;

typedef enum ig_ref_kind { IG_REF_CELL, IG_REF_STATE, IG_REF_LEAF } ig_ref_kind;

typedef struct ig_ref {
    uint32_t kind, index;
} ig_ref;

typedef struct ig_event {
    uint8_t kind;
    bool no_grad;
    uint16_t op;
    uint32_t refs, n_refs;   /* its range in the references */
    uint32_t cells, n_cells; /* its range in the cells: its results */
    uint32_t attrs;          /* offset in the attribute pool */
    uint32_t grads, n_grads; /* of a backward: range of the gradients it wrote */
    uint32_t node_end;       /* number of graph nodes up to and including this event, */
    uint32_t value_end;      /* and of values */
    uint32_t n_random; /* random ops of the step so far, including those of custom gradients */
} ig_event;

/* A result returned to the caller. */
typedef struct ig_cell {
    ig_value value;
    bool kept;         /* read after the step */
    ig_tensor *handle; /* created on first use; the recording holds one reference */
} ig_cell;

typedef struct ig_state {
    uint64_t id;
    ig_tensor *tensor; /* valid in a step that has used it */
} ig_state;

/* A leaf of the graph whose memory comes from this tensor. */
typedef struct ig_bind {
    ig_value value;
    ig_ref ref;
} ig_bind;

/* Whether a tensor had a gradient before the backward: if so it was added to, else written. */
typedef struct ig_grad_flag {
    uint32_t state;
    bool had;
} ig_grad_flag;

typedef struct ig_recording {
    const ig_allocator *allocator;
    uint64_t number; /* unique in the context, never reused */
    uint64_t also;   /* number of a later recording that was equal */
    ig_graph graph;
    ig_event *events;
    ig_ref *refs;
    ig_cell *cells;
    char *attrs;
    ig_grad_flag *grads;
    ig_state *states;
    ig_layout *leaves;
    ig_bind *binds;
    uint32_t *spent_at; /* per node: 1 + the event whose backward consumed it */
    size_t n_events, n_refs, n_cells, n_attrs, n_grads, n_states, n_leaves, n_binds;
    size_t events_room, refs_room, cells_room, attrs_room, grads_room, states_room, leaves_room,
        binds_room, spent_room;

    bool shares; /* two of its tensors overlap in memory */
    bool open;   /* nodes remain at its end that a backward could still use */

    ig_plan *plan; /* made by the first replay */
    bool stale;    /* the plan misses a kept result; the next replay makes a new plan */
    ig_mirror **mirrors;
    ig_backend_buffer **buffers;
    uint64_t used; /* step of the last replay */
} ig_recording;

typedef enum ig_recorder_state {
    IG_BETWEEN, /* no event of this step yet */
    IG_PLAIN,   /* Dynamic, without recording */
    IG_RECORDING,
    IG_REPLAYING,
} ig_recorder_state;

enum { IG_MOST_RECORDINGS = 16, IG_REFUSE_AFTER = 8, IG_REFUSE_WITHIN = 32, IG_AUTO_STEPS = 3 };

/* What the recorder did, for reports; a run of equal entries in consecutive steps is merged. */
enum { IG_RECORDER_LOG = 32, IG_RECORDER_WHY = 128 };
typedef struct ig_recorder_entry {
    const char *what; /* "record", "replay", "diverge", "refuse" */
    uint64_t step, count;
    char why[IG_RECORDER_WHY]; /* "": no reason */
} ig_recorder_entry;

typedef struct ig_recorder {
    ig_mode mode;
    ig_recorder_state state;
    bool capturing;      /* explicit capture: step ends do not end it */
    bool deferring;      /* the capture records without running, */
    bool failed;         /* and has failed to record an event */
    uint32_t mode_steps; /* since the mode was set */
    ig_recording *all[IG_MOST_RECORDINGS];
    uint32_t count;
    ig_recording *now;  /* recorded or replayed in this step; between steps, in the last one */
    uint32_t cursor;    /* events verified */
    uint32_t n_regions; /* regions of the plan that have run */
    uint64_t run;       /* step number, stored in the handles of the step */
    ig_tensor **bound;  /* the step's leaves, in order of first use */
    size_t n_bound, bound_room;
    size_t n_held; /* how many of them the step holds a reference to */

    uint64_t n_numbers;             /* recordings begun */
    uint64_t n_born;                /* recordings kept, */
    uint64_t born[IG_REFUSE_AFTER]; /* and the steps in which the last ones were made */
    bool refused, out_of_memory;    /* memory for a plan ran out, which is why it is refused */
    char reason[IG_REASON_BYTES];   /* describes the event that last differed */
    ig_recorder_entry
        log[IG_RECORDER_LOG]; /* ring of the newest entries: entry i is at i % IG_RECORDER_LOG */
    uint64_t n_log;
} ig_recorder;

ig_recorder *ig_ctx_recorder(const ig_ctx *ctx);
void ig_recorder_deinit(ig_ctx *ctx);
/* Adds an entry for this step to the log. */
void ig_recorder_note(ig_ctx *ctx, const char *what, const char *why);
void ig_recording_destroy(ig_ctx *ctx, ig_recording *recording);
IG_MUST_CHECK ig_status ig_recording_make_plan(ig_ctx *ctx, ig_recording *recording);
/* Restores the gradient flags of a recording that never ran. */
void ig_recording_undo_grads(const ig_recording *recording);
void ig_recording_drop_plan(ig_ctx *ctx, ig_recording *recording); /* remade on replay */

/* A call: an op or update with its tensors. */
typedef struct ig_call {
    ig_event_kind kind;
    ig_op op;
    const void *attrs;
    ig_tensor *const *in;
    uint32_t n_in;
    const ig_desc *desc; /* of the results of a custom op; else NULL */
} ig_call;

/* ---- record.c: while a step is recorded ---- */
void ig_record_begin(ig_ctx *ctx);
/* Call after the op has run; `out` are its results. If memory runs out, the step continues
 * unrecorded. */
void ig_record_call(ig_ctx *ctx, const ig_call *call, ig_tensor *const *out, uint32_t n_out);
void ig_record_leaf(ig_ctx *ctx, ig_tensor *tensor, ig_value value);
void ig_record_grad(ig_ctx *ctx, ig_tensor *tensor, bool had);
void ig_record_give_up(ig_ctx *ctx);
void ig_record_refuse(ig_ctx *ctx, const char *why); /* gives up with a reason for the report */
size_t ig_record_met(const ig_ctx *ctx);             /* number of states and leaves so far */
/* Releases the states that a recorded step holds. */
void ig_record_let_go(ig_ctx *ctx, ig_recording *recording);
void ig_record_finish(ig_ctx *ctx);
/* Ends the recording and returns it to the caller; NULL: it cannot be repeated, or memory ran out.
 */
ig_recording *ig_record_take(ig_ctx *ctx);
/* Whether the first events are equal and refer to the same tensors. */
bool ig_recording_prefix(const ig_recording *a, const ig_recording *b, size_t n_events);
/* The current recording's reference to the tensor; false: unknown. */
bool ig_record_find(const ig_ctx *ctx, const ig_tensor *tensor, ig_ref *out);

/* ---- replay.c: while one is followed ---- */
/* Matches the call against the recording: on success `out` are its handles and nothing runs. */
bool ig_replay_call(ig_ctx *ctx, const ig_call *call, ig_tensor **out, uint32_t n_out);
/* Call before the caller reads or overwrites the bytes of a tensor. */
IG_MUST_CHECK ig_status ig_replay_read(ig_ctx *ctx, ig_tensor *tensor);
IG_MUST_CHECK ig_status ig_replay_write(ig_ctx *ctx, ig_tensor *tensor);
void ig_replay_slot(ig_ctx *ctx, uint32_t slot);
/* Whether the recording continues past this step end. */
bool ig_replay_continues(ig_ctx *ctx);
/* Ends the step: runs the remaining regions. */
IG_MUST_CHECK ig_status ig_replay_end(ig_ctx *ctx);
/* The step has failed: poisons its results, except those that a valid arena holds. */
void ig_replay_abandon(ig_ctx *ctx, bool arena_is_valid);
/* Call before other code uses the arena or overwrites tensors. */
IG_MUST_CHECK ig_status ig_replay_give_way(ig_ctx *ctx);
/* Call before the last reference to a state is dropped. */
void ig_replay_release(ig_tensor *tensor);
/* Releases the leaves that a step holds, since the caller may release them before it runs. */
void ig_replay_let_go(ig_ctx *ctx);
/* Fails during a step. */
IG_MUST_CHECK ig_status ig_replay_check_between(const ig_ctx *ctx, const char *what);
ig_tensor *ig_replay_bound(const ig_ctx *ctx, ig_ref ref); /* the tensor of a state or leaf */

/* ---- handles.c: results of replays as the caller holds them ---- */
/* The handle of result `index` of the recording, owned by the innermost scope; NULL: out of
 * memory. */
ig_tensor *ig_handle_out(ig_ctx *ctx, uint32_t index);
/* Points a handle to the placement of its result in the recording's plan. */
void ig_handle_point(ig_ctx *ctx, const ig_recording *r, const ig_cell *cell, ig_tensor *handle);
/* Detaches a handle from the recording, with a copy of its bytes if they are `there`. */
void ig_handle_detach(ig_ctx *ctx, ig_recording *r, ig_cell *cell, bool there);
/* Call before a new step: handles that are still held get their own memory. */
void ig_replay_detach(ig_ctx *ctx);
/* Whether the arena holds the value after the first `n_regions` regions of the plan have run,
 * including the value's own. */
bool ig_plan_holds(const ig_plan *plan, ig_value base, uint32_t n_regions);
/* Makes recordings keep a result that is retained, or used after its step. */
void ig_replay_retain(ig_tensor *tensor);
void ig_replay_used(ig_ctx *ctx, const ig_tensor *tensor);

/* ---- capture.c ---- */
/* Call when a capture reads one of its results or changes a tensor that its recorded ops read: it
 * runs now, op by op, and so does what follows. */
IG_MUST_CHECK ig_status ig_capture_run_now(ig_ctx *ctx);
/* The error that stopped recording the capture. */
IG_MUST_CHECK ig_status ig_capture_failed(const ig_ctx *ctx);

/* ---- diverge.c: when the step is another one after all ---- */
/* Runs the verified events that have not run as in Dynamic mode; the step continues recorded. */
IG_MUST_CHECK ig_status ig_diverge(ig_ctx *ctx);

#endif
