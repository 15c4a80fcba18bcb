/*
 * ctx.h - the insides of a context: tensors, their storage, the tape.
 *
 * An op that is called goes through ctx->graph: the builder infers the shape and
 * writes the node down, the graph's run hook (run.c) computes it at once, and
 * the result is handed out as a tensor.  Nodes that a backward may need stay in
 * the graph, which is the tape; others are cut off again.
 */
#ifndef IG_RUNTIME_CTX_H
#define IG_RUNTIME_CTX_H

#include "base/team.h"
#include "graph/build.h"
#include "ingot/ingot.h"
#include "plan/plan_cache.h"
#include "runtime/record/record.h"

/* Memory of the host, counted, which a device may mirror.  Views and values share it. */
typedef struct ig_storage {
    uint32_t refs;
    uint32_t version;          /* grows when it is overwritten */
    ig_backend_buffer *buffer; /* NULL: what lies there has not been computed */
    uint64_t bytes;
    ig_mirror mirror;
    void (*release)(void *owner); /* of wrapped memory, which is not ours */
    void *owner;
    bool wrapped;
    bool zeroed;             /* new, and the host's: it need not be cleared */
    bool frozen;             /* its bytes do not change any more */
    bool of_caller;          /* made for a tensor of the caller's, not for the result of an op */
    struct ig_storage *next; /* in the pool */
} ig_storage;

enum { IG_POOL_CLASSES = 160 };

/* What a replay looks at comes first: one cache line. */
struct ig_tensor {
    uint32_t alive;      /* IG_TENSOR_ALIVE; a handle that went keeps its place for a while */
    uint32_t refs;       /* callers, and one for the scope */
    uint64_t run;        /* of a result in a recorded step: the step, */
    uint32_t cell;       /* and 1 + the how-manieth result it is; 0: none */
    bool made_by_op;     /* not by a caller: cannot be written to */
    bool in_scope;       /* one of the references is a scope's */
    bool replayed;       /* a recording's handle: one reference is the recording's */
    bool state;          /* known again by identity: a parameter, a gradient, a moment */
    uint64_t id;         /* no other tensor of the context ever has it */
    ig_ctx *ctx;         /* NULL: the tensor of nowhere, which ops on NULL return */
    ig_storage *storage; /* NULL: poisoned */
    ig_tensor *next;     /* in its scope, or among the free ones */
    ig_value value;      /* in the tape; IG_NO_VALUE: not there */
    bool wants_grad;
    bool has_grad; /* since it was last zeroed */
    bool new_grad; /* from the backward at work */
    bool lost;     /* without storage because a replayed step did not keep it */

    uint64_t tape; /* that `value` is of */
    ig_layout layout;
    ig_tensor *grad;    /* made with the first backward, then kept */
    char *name;         /* NULL: none */
    uint64_t recording; /* of a result in a recorded step: whose cell it is */
};
static_assert(offsetof(ig_tensor, tape) == 64, "the cursor touches one line of a tensor");

typedef struct ig_tensor_slab {
    struct ig_tensor_slab *next;
    ig_tensor tensors[63];
} ig_tensor_slab;

enum { IG_TENSOR_ALIVE = 0x54454e53, IG_SLOT_STEP = 0, IG_CUSTOM_MOST_IN = 32 };

/* The host table, and behind it what its functions work with. */
typedef struct ig_ctx_host {
    ig_host table;
    ig_ctx *ctx;
} ig_ctx_host;

/* Kernel calls as they were watched: profile.c. */
typedef struct ig_profile_event {
    uint64_t run;
    uint32_t step; /* of the plan */
    uint64_t begin_ns, end_ns;
} ig_profile_event;

/* Steps that are alike: the same op, with a weight of the same type and shape. */
enum { IG_PROFILE_KINDS = 64, IG_PROFILE_NAME_BYTES = 64 };
typedef struct ig_profile_kind {
    char name[IG_PROFILE_NAME_BYTES];
    uint64_t steps, bytes, flop; /* that ran so far */
} ig_profile_kind;

typedef struct ig_profile_ring {
    ig_profile_event *events; /* number i lies at i % room */
    _Alignas(64) uint64_t count;
    uint64_t kind_ns[IG_PROFILE_KINDS];
} ig_profile_ring;

typedef struct ig_profile {
    ig_profile_ring *rings; /* one for each thread */
    uint32_t n_rings, room;
    uint64_t run;
    uint32_t first_step; /* of the program that runs */
    const ig_plan *plan; /* that ran last, */
    uint8_t *kind_of;    /* and of its steps what kind each is; NULL: not known */
    uint32_t n_kind_of;
    ig_profile_kind *kinds; /* room for IG_PROFILE_KINDS; the last takes what goes beyond */
    uint32_t n_kinds;
} ig_profile;

/* A result of a capture that its caller retained. */
typedef struct ig_held {
    ig_tensor *tensor; /* not owned: it may have gone, and `id` tells */
    uint64_t id;
    ig_value value;
} ig_held;

/* What ig_capture() keeps. */
struct ig_captured {
    ig_ctx *ctx;
    ig_captured *next; /* the one before it */
    ig_recording *recording;
    ig_storage *arena; /* of this recording alone: results lie in it between replays */
    ig_tensor **bound; /* the tensors of its binds; a reference each */
    int64_t *advance;  /* of each slot: by how much fn moved its count */
    size_t n_slots;
    uint64_t steps;  /* that fn ended */
    bool has_run;    /* and not been written down only */
    ig_status moved; /* what came of moving results */
    ig_held *held;
    size_t n_held, held_room;
    ig_plan *new_plan; /* while a device is switched */
    ig_storage *new_arena;
};

/* The first op that made numbers which are none: finite.c. */
enum { IG_FINITE_BYTES = 320 };
typedef struct ig_finite {
    bool watching;
    char first[IG_FINITE_BYTES];
} ig_finite;

struct ig_ctx {
    ig_allocator allocator;
    ig_ctx_options options; /* texts are not kept */
    ig_ctx_host host;
    ig_progress progress;
    char optimization_level[12], precision[16], batch_sizes[96]; /* "": not said */
    ig_custom_guard guard;
    ig_team *team;
    ig_registry registry;
    char *plugin_paths; /* the registry's; NULL: none */
    ig_planner planner;
    ig_plan_cache cache;
    ig_artifacts artifacts;

    ig_graph graph; /* the tape */
    uint64_t tape;  /* its number: grows when it starts anew */
    uint32_t no_grad, in_backward;
    ig_tag tag;          /* of the outermost ig_tag_begin(), */
    uint32_t tags_begun; /* of so many */

    ig_tensor_slab *slabs;
    ig_tensor *free_first, *free_last; /* oldest first: handles stay recognisable for long */
    ig_tensor **scopes;                /* the tensors of each open scope; [0] is outside of all */
    size_t scopes_room;
    uint32_t depth, failed_scopes;
    ig_tensor poison;

    ig_storage *pool[IG_POOL_CLASSES];
    ig_storage arena; /* buffer 0 of every run; results of replays lie in it */

    ig_recorder recorder;
    ig_captured *captured; /* by hand, the newest first */
    uint32_t n_batches;    /* alive, */
    uint64_t switches;     /* whose plans are for the device before so many of these */
    ig_device **retired;   /* devices that such a plan may need still */
    size_t n_retired, retired_room;
    ig_packing **packings; /* attached, as often as they were */
    size_t n_packings, packings_room;
    bool reads_unpacked; /* it was said that the limit leaves no room for packed weights */
    ig_packing *packing; /* locked while one of its weights is packed; NULL: none is */
    ig_profile profile;
    ig_finite finite;
    uint64_t n_ids;

    ig_slot *slots;
    bool *slot_is_count; /* of each slot: it was set as one */
    size_t n_slots, slots_room, slot_is_count_room;
    ig_custom_op *customs;
    size_t n_customs, customs_room;

    uint64_t first_submit_ns;  /* when it was, on the monotonic clock; 0: not yet */
    uint64_t plan_ns, pack_ns; /* spent on plans of recordings; of that, on packing weights */
    uint64_t pack_began_ns;
    uint64_t steps;
    uint64_t next_steps; /* what the count was set to in the midst of a step, */
    bool steps_were_set; /* if it was: it holds from the next one on */
    uint64_t n_filled;   /* calls of ig_tensor_fill_* */
    uint32_t no_draw;    /* which draw nothing now */
    uint32_t n_random;   /* random ops since the tape began */
    bool step_has_ops, step_ended;
    ig_counters counters;
};

/* Whether a recording knows the tensor again by identity, not by its place: all that an update may
 * overwrite, by this name or another. */
static inline bool ig_tensor_has_identity(const ig_tensor *t) {
    return t->state || (t->made_by_op && (t->storage->of_caller || t->storage->wrapped));
}

/* ---- storage.c ---- */
IG_MUST_CHECK ig_status ig_storage_create(ig_ctx *ctx, uint64_t bytes, ig_storage **out);
/* One for what has not been computed: without memory until that is fulfilled. */
IG_MUST_CHECK ig_status ig_storage_promise(ig_ctx *ctx, uint64_t bytes, ig_storage **out);
IG_MUST_CHECK ig_status ig_storage_fulfil(ig_ctx *ctx, ig_storage *storage);
ig_storage *ig_storage_retain(ig_storage *storage);
/* Puts memory of someone else's, as it is wrapped, in the place of the storage's own. */
void ig_storage_adopt(ig_ctx *ctx, ig_storage *storage, const ig_storage *outside);
void ig_storage_release(ig_ctx *ctx, ig_storage *storage);
/* Before the host looks at the bytes: they are brought from the device if that has newer ones. */
IG_MUST_CHECK ig_status ig_storage_to_host(ig_ctx *ctx, ig_storage *storage);
IG_MUST_CHECK ig_status ig_storage_part_to_host(ig_ctx *ctx, ig_storage *storage, uint64_t offset,
                                                uint64_t bytes);
/* The device with memory of its own; NULL: none. */
static inline ig_device *ig_ctx_far(const ig_ctx *ctx) {
    ig_device *first = ctx->planner.devices[0];
    return first->host_memory ? NULL : first;
}
/* The first device that works in host memory counts what is taken of it. */
static inline ig_device *ig_ctx_near(const ig_ctx *ctx) {
    uint32_t i = 0;
    while (i + 1 < ctx->planner.n_devices && !ctx->planner.devices[i]->host_memory) i++;
    return ctx->planner.devices[i];
}
void ig_pool_drain(ig_ctx *ctx);
/* Whether bytes of one are bytes of the other. */
bool ig_storage_overlaps(const ig_storage *a, const ig_storage *b);
/* Buffer 0 of every run; grows to the largest that a plan needs. */
IG_MUST_CHECK ig_status ig_arena_reserve(ig_ctx *ctx, uint64_t bytes);
void ig_arena_free(ig_ctx *ctx);

/* ---- tensor.c ---- */
/* A new handle that takes over the reference to `storage`; NULL: no memory. */
ig_tensor *ig_tensor_new(ig_ctx *ctx, ig_layout layout, ig_storage *storage);
/* Gives the handle's one reference to the innermost scope. */
ig_tensor *ig_tensor_to_scope(ig_tensor *tensor);
void ig_scope_release(ig_ctx *ctx, uint32_t depth);
/* A recording gives its reference to one of its handles back; NULL is fine. */
void ig_tensor_give_up(ig_tensor *tensor);
/* Whether it may be used with the context; if not, says why in the thread's error. */
IG_MUST_CHECK ig_status ig_tensor_check(const ig_tensor *tensor, const ig_ctx *ctx,
                                        const char *what);
/* Not if it is frozen. */
IG_MUST_CHECK ig_status ig_tensor_check_writable(const ig_tensor *tensor, const char *what);
/* Says why a tensor without storage has none. */
IG_MUST_CHECK ig_status ig_tensor_missing(const ig_tensor *tensor, const char *what);
/* What ops on NULL return: there is no context that could own a poisoned tensor. */
ig_tensor *ig_nowhere(void);
/* Whether something may be computed or ended now: not from the run() of a custom op.  If not, says
 * so in the thread's error, and the custom op fails. */
IG_MUST_CHECK ig_status ig_ctx_check_idle(ig_ctx *ctx, const char *what);

/* ---- capture.c: while a device is switched ---- */
/* Makes a plan with the context's planner as it is now, and keeps it beside the old one; then
 * either takes its place. */
IG_MUST_CHECK ig_status ig_captured_replan(ig_captured *captured);
void ig_captured_take_new(ig_captured *captured);
void ig_captured_keep_old(ig_captured *captured);

/* ---- ctx.c ---- */
/* Opens the device and those behind it; what was opened is in the planner, also after a failure. */
IG_MUST_CHECK ig_status ig_ctx_open_devices(ig_ctx *ctx, const char *name, ig_planner *planner);

/* ---- packing.c: the host's part of packed weights ---- */
void *ig_ctx_pack_begin(ig_ctx *ctx, const ig_operand *weight, const char *layout, uint64_t bytes,
                        bool *out_ready);
void ig_ctx_pack_reached(const ig_ctx *ctx, const ig_operand *weight, uint64_t source_bytes);
void ig_ctx_pack_end(ig_ctx *ctx, const ig_operand *weight, bool whole);
/* Before plans for another device are made, and after: what the old one packed and none of them has
 * asked for goes, unless others attached it. */
void ig_ctx_mark_packed(const ig_ctx *ctx);
void ig_ctx_drop_packed(const ig_ctx *ctx);
void ig_ctx_detach_all(ig_ctx *ctx);

/* ---- run.c ---- */
extern const ig_graph_hooks ig_run_hooks;
/* Runs all nodes of the tape, which were written down and have not run. */
IG_MUST_CHECK ig_status ig_tape_run(ig_ctx *ctx);

/* What a plan is run with; mirrors count where a device has memory of its own. */
static inline ig_run_args ig_ctx_run_args(ig_ctx *ctx, ig_backend_buffer *const *buffers,
                                          ig_mirror *const *mirrors, size_t count) {
    return (ig_run_args){.buffers = buffers,
                         .n_buffers = (uint32_t)count,
                         .slots = ctx->slots,
                         .n_slots = (uint32_t)ctx->n_slots,
                         .first_step = &ctx->profile.first_step,
                         .mirrors = mirrors};
}

/* ---- profile.c ---- */
void ig_profile_deinit(ig_ctx *ctx);
/* Before a plan runs. */
void ig_profile_run(ig_ctx *ctx, const ig_plan *plan);

/* ---- finite.c ---- */
/* After a node has run, while somebody watches. */
void ig_finite_look(ig_ctx *ctx, const ig_graph *g, const ig_node *node);

/* ---- steps.c ---- */
/* Before an op: starts a new tape where a step has ended. */
void ig_step_begin_op(ig_ctx *ctx);
void ig_tape_reset(ig_ctx *ctx);
/* Nothing that was recorded can be gone back through any more. */
bool ig_tape_is_spent(const ig_graph *g);

/* ---- apply.c ---- */
/* What is built now goes when the backward ends: no tensor may remember its values. */
static inline bool ig_is_passing(const ig_ctx *ctx) {
    return ctx->in_backward && ctx->recorder.state != IG_RECORDING;
}

typedef struct ig_apply_args {
    ig_op op;
    const void *attrs;
    ig_tensor *const *in;
    uint32_t n_in, n_out;
    const ig_desc *desc; /* of CUSTOM */
} ig_apply_args;

/* Calls an op and hands out its first `n_handed` results; poisoned ones if it fails. */
void ig_apply(ig_ctx *ctx, const ig_apply_args *args, ig_tensor **out, uint32_t n_handed);
ig_tensor *ig_apply_one(ig_op op, const void *attrs, ig_tensor *const *in, uint32_t n_in);
ig_tensor *ig_poisoned(ig_ctx *ctx, ig_status status); /* with the thread's error */
/* The tensor's value in the tape, a new leaf if it has none; IG_NO_VALUE: the error sticks. */
ig_value ig_value_of(ig_ctx *ctx, ig_tensor *tensor);
/* A tensor for a value of the tape, owned by the innermost scope. */
ig_tensor *ig_tensor_of(ig_ctx *ctx, ig_value v);
/* An update of tensors that callers own; status and all. */
IG_MUST_CHECK ig_status ig_apply_update(ig_op op, const void *attrs, ig_tensor *const *in,
                                        uint32_t n_in, uint32_t n_out);

/* ---- capture.c ---- */
/* Plans that were captured by hand, the newest first; NULL behind the last. */
const ig_plan *ig_captured_plan(const ig_ctx *ctx, uint32_t index);

#endif
