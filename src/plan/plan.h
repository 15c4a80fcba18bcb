/*
 * plan.h - a stretch of graph, lowered once and run many times.
 *
 * Planning settles everything: operands with their strides, which device runs
 * each step, the copies that have to be inserted, depth levels, offsets in the
 * arena, and the programs that the backends make of it.  Running binds buffers
 * and submits.
 */
#ifndef IG_PLAN_PLAN_H
#define IG_PLAN_PLAN_H

#include "backend/mirror.h"
#include "graph/graph.h"
#include "ingot/ops.h"
#include "plan/compile_cache.h"
#include "plan/compile_progress.h"

enum { IG_MAX_DEVICES = 4, IG_ATTEMPTS = 3, IG_REASON_BYTES = 256, IG_MODULE_BYTES = 64 };
#define IG_NOT_THERE UINT64_MAX

/* Between the one who runs plans and the functions of custom ops. */
typedef struct ig_custom_guard {
    bool running; /* a custom op's function */
    bool called;  /* it asked for something that cannot be done in the midst of a run */
} ig_custom_guard;

/* What a plan is made with.  Devices in the order of preference; of those, one at most has memory
 * of its own. */
typedef struct ig_planner {
    const ig_allocator *allocator;
    ig_device *devices[IG_MAX_DEVICES];
    uint32_t n_devices;
    bool strict; /* the first device or none */
    const ig_custom_op *(*custom)(void *user, uint32_t id);
    void *user;
    ig_custom_guard *guard;  /* outlives the plans; NULL: nobody asks */
    ig_artifacts *artifacts; /* programs kept on disk; NULL: none */
    ig_progress *progress;   /* for the host's progress(); NULL: nobody asks */
} ig_planner;

/* One rung of the ladder compile -> kernel_override -> eager. */
typedef struct ig_attempt {
    const char *level;
    bool ok, selected;
    char reason[IG_REASON_BYTES];
} ig_attempt;

/* A device that was asked for some steps and could not do them on any level. */
typedef struct ig_refusal {
    char module[IG_MODULE_BYTES], device[48];
    ig_attempt attempts[IG_ATTEMPTS];
} ig_refusal;

typedef struct ig_stand_in ig_stand_in;

/* Bytes that a run overwrites, as they were before. */
typedef struct ig_undo_part {
    uint32_t buffer;
    uint64_t offset, bytes;
} ig_undo_part;

typedef struct ig_undo {
    ig_undo_part *parts;
    size_t count, room;
    char *saved; /* one part after the other */
} ig_undo;

/* A run of steps on one device, and what became of it. */
typedef struct ig_segment {
    uint32_t first, count; /* steps */
    uint32_t part;
    ig_device *device;             /* NULL: the host itself, for custom ops */
    ig_backend_program **programs; /* one, or one per step */
    uint32_t n_programs;
    ig_attempt attempts[IG_ATTEMPTS];
    char fallback[IG_REASON_BYTES]; /* why another device than the first runs it; "": it does not */
    bool ran;                       /* once, so that the timeline is settled */
    ig_stand_in *stand_in; /* runs it, since the device has failed; NULL: the device does */
    ig_refusal *left;      /* how it failed */
    ig_undo undo;          /* what is kept before every run but the first */

    /* Where a device has memory of its own: what is brought to the segment's side before it runs,
     * and what is brought to the host after it. */
    uint32_t moves, n_moves, n_after;
    uint32_t touches, n_touches;
    uint64_t n_runs, moved_bytes, lost_ns; /* lost: in a fallback */
} ig_segment;

/* Runs in another memory than the host's. */
static inline bool ig_segment_is_far(const ig_segment *s) {
    return s->device && !s->device->host_memory;
}

/* A part of the arena that goes from one memory to the other. */
typedef struct ig_move {
    bool to_device;
    uint64_t offset, bytes;
} ig_move;

/* A bound memory that a segment reads, and writes. */
typedef struct ig_touch {
    uint32_t buffer;
    bool written;
} ig_touch;

/* Where a local value lies in the arena, and the last level that may read it there. */
typedef struct ig_home {
    uint64_t offset; /* IG_NOT_THERE: not in the arena */
    uint32_t last;   /* UINT32_MAX: it is kept */
} ig_home;

typedef struct ig_plan {
    const ig_allocator *allocator;
    const ig_planner *planner; /* outlives the plan */
    ig_step *steps;            /* by level */
    ig_operand *operands;
    char *attrs; /* IG_ATTRS_MAX bytes for each step */
    uint32_t n_steps, n_operands, n_levels;
    uint32_t n_copies; /* of the steps, those that were inserted */
    ig_segment *segments;
    uint32_t n_segments, n_submits, n_parts;
    uint64_t arena_bytes;
    uint64_t live_bytes;   /* the most that local values and scratch take at any one level */
    ig_home *homes;        /* by base value of the graph; NULL: made without `kept` */
    uint32_t *part_levels; /* the first level of each part */
    ig_refusal *refusals;  /* what had to go elsewhere */
    uint32_t n_refusals;

    ig_device *far; /* the one with memory of its own; NULL: none */
    ig_move *moves;
    ig_touch *touches;
    uint32_t n_moves, n_touches;
    ig_backend_buffer **far_buffers; /* of this run */
} ig_plan;

/*
 * Nodes [first, first + count) of the graph.  `bound` are the base values that
 * the caller brings memory for: the k-th is buffer 1 + k.  All others live in
 * the arena, buffer 0; those in `kept` to the end of the plan, the others as
 * long as something reads them.  A NULL `kept`: nobody will ask for homes.  At each of the `cuts`,
 * ascending node ids, one part ends and the next begins: parts are run one by one.
 */
typedef struct ig_plan_args {
    const ig_graph *graph;
    uint32_t first, count;
    const ig_value *bound;
    uint32_t n_bound;
    const ig_value *kept;
    uint32_t n_kept;
    const uint32_t *cuts;
    uint32_t n_cuts;
    const void *const *weights; /* of each bound value: its bytes if they never change, else NULL;
                                   NULL: all may change */
    bool alone; /* one op by itself, which devices that run whole programs do not take */
} ig_plan_args;

IG_MUST_CHECK ig_status ig_plan_create(const ig_planner *planner, ig_plan_args args, ig_plan **out);
void ig_plan_destroy(ig_plan *plan);

/* What a run is given: buffers[0] has arena_bytes. */
typedef struct ig_run_args {
    ig_backend_buffer *const *buffers;
    uint32_t n_buffers;
    const ig_slot *slots;
    uint32_t n_slots;
    uint32_t
        *first_step; /* set to the first step of each program before it runs; NULL: nobody asks */
    ig_mirror *const *mirrors; /* of the buffers; NULL where all devices work in host memory */
} ig_run_args;

IG_MUST_CHECK ig_status ig_plan_run_part(const ig_plan *plan, uint32_t part, ig_run_args args);
IG_MUST_CHECK ig_status ig_plan_run(const ig_plan *plan, ig_run_args args); /* all parts */

/* The device that runs a segment now: its own, or that of its stand-in. */
const char *ig_segment_device(const ig_segment *s);

/* What a segment is called in reports: its op, or its steps and the tag that they share. */
void ig_segment_name(const ig_plan *plan, const ig_segment *s, char out[IG_MODULE_BYTES]);
const char *ig_tag_name(uint32_t tag); /* "": none */

/* What a plan or a step is called in reports: the op's name, or a custom op's own. */
const char *ig_plan_step_name(const ig_planner *planner, const ig_step *step);

#endif
