/*
 * record.h - the recorder: what a step did, so that it can be done again.
 *
 * A recording is the list of events between two step ends: ops, updates,
 * backwards and reads.  While it is made, everything runs as in Dynamic mode and
 * stays in the graph.  From the next step on a cursor compares what is called
 * with the recording and hands back the recording's handles; nothing runs until
 * a read (a cut) or the end of the step, and then the plan of that part does.
 *
 * How an event knows its tensors again:
 *   cell   a result of this step: by the how-manieth it is
 *   state  a parameter, a gradient, a moment, a view of the caller's: by identity
 *   leaf   any other tensor: by the order of first use, with the same layout
 */
#ifndef IG_RUNTIME_RECORD_H
#define IG_RUNTIME_RECORD_H

#include "graph/graph.h"
#include "ingot/grad.h"
#include "plan/plan.h"

typedef enum ig_event_kind {
    IG_EVENT_OP,
    IG_EVENT_UPDATE,
    IG_EVENT_BACKWARD,
    IG_EVENT_READ,
    IG_EVENT_STEP, /* a step ended, but what it recorded is needed still: the recording goes on */
} ig_event_kind;

typedef enum ig_ref_kind { IG_REF_CELL, IG_REF_STATE, IG_REF_LEAF } ig_ref_kind;

typedef struct ig_ref {
    uint32_t kind, index;
} ig_ref;

typedef struct ig_event {
    uint8_t kind;
    bool no_grad;
    uint16_t op;
    uint32_t refs, n_refs;   /* its tensors */
    uint32_t cells, n_cells; /* its results */
    uint32_t attrs;          /* in the pool of attributes */
    uint32_t grads, n_grads; /* of a backward: whose gradients it wrote */
    uint32_t node_end;       /* nodes of the graph up to here and with it, */
    uint32_t value_end;      /* and values */
    uint32_t n_random;       /* random ops of the step so far, those of custom gradients too */
} ig_event;

/* A result as it was handed out. */
typedef struct ig_cell {
    ig_value value;
    bool kept;         /* somebody reads it after the step */
    ig_tensor *handle; /* made when it is first handed out; one reference is the recording's */
} ig_cell;

typedef struct ig_state {
    uint64_t id;
    ig_tensor *tensor; /* valid in a step that has met it */
} ig_state;

/* The memory of a leaf of the graph comes from this tensor. */
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
    uint64_t number; /* no other of the context ever has it */
    uint64_t also;   /* the number of one that turned out to be the same */
    ig_graph graph;
    ig_event *events;
    ig_ref *refs;
    ig_cell *cells;
    char *attrs;
    ig_grad_flag *grads;
    ig_state *states;
    ig_layout *leaves;
    ig_bind *binds;
    uint32_t *spent_at; /* of each node: 1 + the event whose backward went through it */
    size_t n_events, n_refs, n_cells, n_attrs, n_grads, n_states, n_leaves, n_binds;
    size_t events_room, refs_room, cells_room, attrs_room, grads_room, states_room, leaves_room,
        binds_room, spent_room;

    bool shares; /* two of its tensors lie in one memory */
    bool open;   /* at its end there is something that could be gone back through */

    ig_plan *plan; /* made with the first replay */
    bool stale;    /* the plan does not keep all that is kept; the next replay makes another */
    ig_mirror **mirrors;
    ig_backend_buffer **buffers;
    uint64_t used; /* step of the last replay */
} ig_recording;

typedef enum ig_recorder_state {
    IG_BETWEEN, /* no event of this step yet */
    IG_PLAIN,   /* Dynamic, and nobody writes it down */
    IG_RECORDING,
    IG_REPLAYING,
} ig_recorder_state;

enum { IG_MOST_RECORDINGS = 16, IG_REFUSE_AFTER = 8, IG_REFUSE_WITHIN = 32, IG_AUTO_STEPS = 3 };

typedef struct ig_recorder {
    ig_mode mode;
    ig_recorder_state state;
    bool capturing;      /* by hand: the ends of steps do not end it */
    bool deferring;      /* and what is captured has not run, */
    bool failed;         /* and will not, for it could not be written down */
    uint32_t mode_steps; /* since the mode was set */
    ig_recording *all[IG_MOST_RECORDINGS];
    uint32_t count;
    ig_recording *now; /* recorded or replayed in this step; after its end, in the last */
    uint32_t cursor;   /* events verified */
    uint32_t part;     /* parts of the plan that have run */
    uint64_t run;      /* number of the step: handles of this one carry it */
    ig_tensor **bound; /* of the step's leaves, in order of first use */
    size_t n_bound, bound_room;
    size_t n_held; /* of them, those that the step holds a reference to */

    uint64_t n_numbers;             /* recordings begun */
    uint64_t n_born;                /* recordings kept, and */
    uint64_t born[IG_REFUSE_AFTER]; /* steps in which the last recordings were made */
    bool refused;
    char reason[IG_REASON_BYTES]; /* the event that changed last */
} ig_recorder;

void ig_recorder_deinit(ig_ctx *ctx);
void ig_recording_destroy(ig_ctx *ctx, ig_recording *recording);
IG_MUST_CHECK ig_status ig_recording_make_plan(ig_ctx *ctx, ig_recording *recording);
/* What was recorded has not run: its tensors have the gradients that they had. */
void ig_recording_undo_grads(const ig_recording *recording);
void ig_recording_drop_plan(ig_ctx *ctx, ig_recording *recording); /* the next replay makes one */

/* What is called: an op or update with its tensors. */
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
/* After the call has run; `out` are its results.  Without memory the step goes on unrecorded. */
void ig_record_call(ig_ctx *ctx, const ig_call *call, ig_tensor *const *out, uint32_t n_out);
void ig_record_leaf(ig_ctx *ctx, ig_tensor *tensor, ig_value value);
void ig_record_grad(ig_ctx *ctx, ig_tensor *tensor, bool had);
void ig_record_give_up(ig_ctx *ctx);
void ig_record_refuse(ig_ctx *ctx, const char *why); /* the same, with a reason for the report */
size_t ig_record_met(const ig_ctx *ctx);             /* tensors from outside so far */
/* While it is recorded, a step holds on to its states too: until here. */
void ig_record_let_go(ig_ctx *ctx, ig_recording *recording);
void ig_record_finish(ig_ctx *ctx);
/* Ends the recording and gives it to the caller; NULL: it cannot be repeated, or there is no
 * memory. */
ig_recording *ig_record_take(ig_ctx *ctx);
/* Whether the first events are the same, and mean the same tensors. */
bool ig_recording_prefix(const ig_recording *a, const ig_recording *b, size_t n_events);
/* How `now` knows the tensor; false: it does not. */
bool ig_record_find(const ig_ctx *ctx, const ig_tensor *tensor, ig_ref *out);

/* ---- replay.c: while one is followed ---- */
/* Takes the call if the recording has it next: then `out` are its handles and nothing runs. */
bool ig_replay_call(ig_ctx *ctx, const ig_call *call, ig_tensor **out, uint32_t n_out);
/* Before the bytes of a tensor are looked at or overwritten from outside. */
IG_MUST_CHECK ig_status ig_replay_read(ig_ctx *ctx, ig_tensor *tensor);
IG_MUST_CHECK ig_status ig_replay_write(ig_ctx *ctx, ig_tensor *tensor);
void ig_replay_slot(ig_ctx *ctx, uint32_t slot);
/* At the end of a step that the recording goes on after: whether this is one. */
bool ig_replay_goes_on(ig_ctx *ctx);
/* The end of the step: runs what is left. */
IG_MUST_CHECK ig_status ig_replay_end(ig_ctx *ctx);
/* The step has failed: its results are poisoned, but for those that the arena has, if it does. */
void ig_replay_abandon(ig_ctx *ctx, bool arena_is_whole);
/* Before something else uses the arena or overwrites tensors. */
IG_MUST_CHECK ig_status ig_replay_give_way(ig_ctx *ctx);
/* The last reference to a state is about to go. */
void ig_replay_release(ig_tensor *tensor);
/* A step holds on to its leaves, for the caller may let go of them before it runs. */
void ig_replay_let_go(ig_ctx *ctx);
/* An error in the middle of a step. */
IG_MUST_CHECK ig_status ig_replay_check_between(const ig_ctx *ctx, const char *what);
ig_tensor *ig_replay_bound(const ig_ctx *ctx, ig_ref ref); /* of a state or leaf */

/* ---- handles.c: results of replays as the caller holds them ---- */
/* The tensor for result `index` of the recording, owned by the innermost scope; NULL: no memory. */
ig_tensor *ig_handle_out(ig_ctx *ctx, uint32_t index);
/* Points a handle to where the recording's plan puts the result. */
void ig_handle_point(ig_ctx *ctx, const ig_recording *r, const ig_cell *cell, ig_tensor *handle);
/* A handle leaves the recording, with a copy of its bytes if they are `there`. */
void ig_handle_detach(ig_ctx *ctx, ig_recording *r, ig_cell *cell, bool there);
/* Before a new step: handles that are still held get memory of their own. */
void ig_replay_detach(ig_ctx *ctx);
/* Whether the arena holds the value when so many parts of the plan have run, the value's own
 * among them. */
bool ig_plan_holds(const ig_plan *plan, ig_value base, uint32_t parts);
/* Somebody keeps a result, or uses one of an earlier step: recordings keep it from now on. */
void ig_replay_retain(ig_tensor *tensor);
void ig_replay_used(ig_ctx *ctx, const ig_tensor *tensor);

/* ---- capture.c ---- */
/* Somebody looks at what a capture has written down so far, or is about to change what that reads:
 * it runs now, op by op, and so does what comes after it. */
IG_MUST_CHECK ig_status ig_capture_run_now(ig_ctx *ctx);
/* Why what is captured is not written down any more. */
IG_MUST_CHECK ig_status ig_capture_failed(const ig_ctx *ctx);

/* ---- diverge.c: when the step is another one after all ---- */
/* Runs the verified events that have not run as in Dynamic mode; the step goes on recorded. */
IG_MUST_CHECK ig_status ig_diverge(ig_ctx *ctx);

#endif
