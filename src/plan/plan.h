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

#include "backend/device.h"
#include "graph/graph.h"
#include "ingot/ops.h"

enum { IG_MAX_DEVICES = 4, IG_ATTEMPTS = 3, IG_REASON_BYTES = 256 };
#define IG_NOT_THERE UINT64_MAX

/* Between the one who runs plans and the functions of custom ops. */
typedef struct ig_custom_guard {
    bool running; /* a custom op's function */
    bool called;  /* it asked for something that cannot be done in the midst of a run */
} ig_custom_guard;

/* What a plan is made with.  Devices in the order of preference; all share the host's memory. */
typedef struct ig_planner {
    const ig_allocator *allocator;
    ig_device *devices[IG_MAX_DEVICES];
    uint32_t n_devices;
    bool strict; /* the first device or none */
    const ig_custom_op *(*custom)(void *user, uint32_t id);
    void *user;
    ig_custom_guard *guard; /* outlives the plans; NULL: nobody asks */
    ig_progress *progress;  /* for the host's progress(); NULL: nobody asks */
} ig_planner;

/* One rung of the ladder compile -> kernel_override -> eager. */
typedef struct ig_attempt {
    const char *level;
    bool ok, selected;
    char reason[IG_REASON_BYTES];
} ig_attempt;

/* A run of steps on one device, and what became of it. */
typedef struct ig_segment {
    uint32_t first, count; /* steps */
    uint32_t part;
    ig_device *device;             /* NULL: the host itself, for custom ops */
    ig_backend_program **programs; /* one, or one per step */
    uint32_t n_programs;
    ig_attempt attempts[IG_ATTEMPTS];
    char fallback[IG_REASON_BYTES]; /* why another device than the first runs it; "": it does not */
} ig_segment;

/* Where a local value lies in the arena, and the last level that may read it there. */
typedef struct ig_home {
    uint64_t offset; /* IG_NOT_THERE: not in the arena */
    uint32_t last;   /* UINT32_MAX: it is kept */
} ig_home;

typedef struct ig_plan {
    const ig_allocator *allocator;
    ig_step *steps; /* by level */
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
} ig_run_args;

IG_MUST_CHECK ig_status ig_plan_run_part(const ig_plan *plan, uint32_t part, ig_run_args args);
IG_MUST_CHECK ig_status ig_plan_run(const ig_plan *plan, ig_run_args args); /* all parts */

/* What a plan or a step is called in reports: the op's name, or a custom op's own. */
const char *ig_plan_step_name(const ig_planner *planner, const ig_step *step);

#endif
