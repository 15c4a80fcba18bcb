/*
 * plan.h - a subgraph, lowered once and run many times.
 *
 * Planning settles everything: operands and strides, the device of each step, inserted copies,
 * levels, arena offsets, and the backends' programs. Running binds buffers and submits.
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

/* Shared by running plans and custom op functions. */
typedef struct ig_custom_guard {
    bool running; /* a custom op's function */
    bool called;  /* it called a function that is not allowed during a run */
} ig_custom_guard;

/* Input of planning. Devices are in order of preference; at most one has its own memory. */
typedef struct ig_planner {
    const ig_allocator *allocator;
    ig_device *devices[IG_MAX_DEVICES];
    uint32_t n_devices;
    bool strict; /* the first device, or fail */
    const ig_custom_op *(*custom)(void *user, uint32_t id);
    void *user;
    ig_custom_guard *guard;          /* outlives the plans; NULL: no guard */
    ig_compile_cache *compile_cache; /* NULL: no compile cache */
    ig_progress *progress;           /* for the host's progress(); NULL: no progress */
} ig_planner;

/* One rung of the ladder compile -> kernel_override -> eager. */
typedef struct ig_attempt {
    const char *level;
    bool ok, selected;
    char reason[IG_REASON_BYTES];
} ig_attempt;

/* A device that could not run some steps on any level. */
typedef struct ig_refusal {
    char module[IG_MODULE_BYTES], device[48];
    ig_attempt attempts[IG_ATTEMPTS];
} ig_refusal;

typedef struct ig_failover ig_failover;

/* Bytes that a run overwrites, saved before it. */
typedef struct ig_rollback_region {
    uint32_t buffer;
    uint64_t offset, bytes;
} ig_rollback_region;

typedef struct ig_rollback {
    ig_rollback_region *regions;
    size_t count, room;
    char *saved; /* all regions, concatenated */
} ig_rollback;

/* Consecutive steps on one device, and their programs. */
typedef struct ig_segment {
    uint32_t first, count; /* steps */
    uint32_t region;
    ig_device *device;             /* NULL: the host itself, for custom ops */
    ig_backend_program **programs; /* one, or one per step */
    uint32_t n_programs;
    ig_attempt attempts[IG_ATTEMPTS];
    char fallback[IG_REASON_BYTES]; /* why it does not run on the first device; "": it does */
    bool ran;                       /* has run once, so its timeline is final */
    ig_failover *failover;          /* runs it after its device has failed; NULL: the device does */
    ig_refusal *left;               /* how it failed */
    ig_rollback rollback;           /* data saved before every run but the first */

    /* Transfers for a device with its own memory: before the segment runs, and after it. */
    uint32_t transfers, n_transfers, n_after;
    uint32_t touches, n_touches;
    uint64_t n_runs, transferred_bytes, lost_ns; /* lost: time spent in fallbacks */
} ig_segment;

/* Whether it runs in device memory. */
static inline bool ig_segment_is_remote(const ig_segment *s) {
    return s->device && !s->device->host_memory;
}

/* An arena range that is copied between the two memories. */
typedef struct ig_transfer {
    bool to_device;
    uint64_t offset, bytes;
} ig_transfer;

/* A bound memory that a segment reads or writes. */
typedef struct ig_touch {
    uint32_t buffer;
    bool written;
} ig_touch;

/* The arena offset of a local value, and the last level that may read it. */
typedef struct ig_placement {
    uint64_t offset; /* IG_NOT_THERE: not in the arena */
    uint32_t last;   /* UINT32_MAX: kept */
} ig_placement;

typedef struct ig_plan {
    const ig_allocator *allocator;
    const ig_planner *planner; /* outlives the plan */
    ig_step *steps;            /* sorted by level */
    ig_operand *operands;
    char *attrs; /* IG_ATTRS_MAX bytes for each step */
    uint32_t n_steps, n_operands, n_levels;
    uint32_t n_copies; /* inserted copies among the steps */
    ig_segment *segments;
    uint32_t n_segments, n_submits, n_regions;
    uint64_t arena_bytes;
    uint64_t live_bytes;      /* the peak of live local values and scratch over all levels */
    ig_placement *placements; /* by base value of the graph; NULL: made without `kept` */
    uint32_t *region_levels;  /* the first level of each region */
    ig_refusal *refusals;     /* refusals, for the timeline */
    uint32_t n_refusals;

    ig_device *remote; /* the device with its own memory; NULL: none */
    ig_transfer *transfers;
    ig_touch *touches;
    uint32_t n_transfers, n_touches;
    ig_backend_buffer **remote_buffers; /* of this run */
} ig_plan;

/*
 * Nodes [first, first + count) of the graph. `bound` are the base values in memory of the caller:
 * the k-th is buffer 1 + k. All others are in the arena, buffer 0, those in `kept` until the end of
 * the plan. A NULL `kept`: no placements are recorded. Each of the `graph_breaks`, ascending node
 * ids, begins a region; regions run one by one.
 */
typedef struct ig_plan_args {
    const ig_graph *graph;
    uint32_t first, count;
    const ig_value *bound;
    uint32_t n_bound;
    const ig_value *kept;
    uint32_t n_kept;
    const uint32_t *graph_breaks;
    uint32_t n_graph_breaks;
    const void *const *weights; /* of each bound value: its bytes if they never change, else NULL.
                                   NULL: all may change */
    bool alone; /* a single op, which devices that only run compiled programs skip */
} ig_plan_args;

IG_MUST_CHECK ig_status ig_plan_create(const ig_planner *planner, ig_plan_args args, ig_plan **out);
void ig_plan_destroy(ig_plan *plan);

/* Input of a run: buffers[0] has arena_bytes. */
typedef struct ig_run_args {
    ig_backend_buffer *const *buffers;
    uint32_t n_buffers;
    const ig_slot *slots;
    uint32_t n_slots;
    uint32_t *first_step; /* set to the first step of each program before it runs; NULL: unused */
    ig_mirror *const *mirrors; /* of the buffers; NULL where all devices work in host memory */
} ig_run_args;

IG_MUST_CHECK ig_status ig_plan_run_region(const ig_plan *plan, uint32_t region, ig_run_args args);
IG_MUST_CHECK ig_status ig_plan_run(const ig_plan *plan, ig_run_args args); /* all regions */

/* The device that runs a segment now: its own, or the failover's. */
const char *ig_segment_device(const ig_segment *s);

/* The IG_ATTEMPTS attempts of the device that runs it now. */
const ig_attempt *ig_segment_attempts(const ig_segment *s);

/* The name of a segment in reports: its op, or its steps and their common tag. */
void ig_segment_name(const ig_plan *plan, const ig_segment *s, char out[IG_MODULE_BYTES]);
const char *ig_tag_name(uint32_t tag); /* "": none */

/* The name of a step in reports: its op, or a custom op's own name. */
const char *ig_plan_step_name(const ig_planner *planner, const ig_step *step);

#endif
