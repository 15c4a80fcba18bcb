/* lower.h - the passes of planning, in order. */
#ifndef IG_PLAN_LOWER_H
#define IG_PLAN_LOWER_H

#include "plan/plan.h"

#define IG_ON_HOST UINT32_MAX /* does not fit an enum */

/* The device and region of a step. */
typedef struct ig_place {
    uint32_t device; /* index among the planner's; IG_ON_HOST for custom ops */
    uint32_t region;
    uint32_t node;             /* of the plan's, counted from its first */
    char why[IG_REASON_BYTES]; /* why it is not the first device; "": it is */
} ig_place;

/* A node that devices have refused. */
typedef struct ig_bar {
    uint32_t first; /* the first device that may still be asked */
    char why[IG_REASON_BYTES];
} ig_bar;

/* A plan in progress. Steps are in graph order until ig_lower_levels(). */
typedef struct ig_lowering {
    const ig_planner *planner;
    const ig_plan_args *args;
    ig_plan *plan;
    ig_place *places;    /* of each step */
    uint32_t n_inserted; /* copies; their values follow those of the graph */

    /* Kept from one attempt to the next. */
    ig_bar *bars; /* by node; NULL: none yet */
    ig_refusal *refusals;
    size_t n_refusals, refusals_room;
    bool again; /* a device was excluded: lower the plan again */
} ig_lowering;

/* The memory of an operand as an index: a base value of the graph, or an inserted copy. */
static inline uint32_t ig_memory_of(const ig_lowering *l, const ig_operand *o) {
    const ig_graph *g = l->args->graph;
    return o->value < g->n_values ? ig_value_at(g, o->value)->base : o->value;
}

/* The number of these indices. */
static inline size_t ig_memory_count(const ig_lowering *l) {
    return l->args->graph->n_values + l->n_inserted;
}

/* Converts nodes to steps, each on the first device that can run it, and inserts copies of inputs
 * where a kernel needs them. */
IG_MUST_CHECK ig_status ig_lower_place(ig_lowering *l);

/* Records a refusal for the timeline, once. */
IG_MUST_CHECK ig_status ig_refusal_add(ig_lowering *l, const ig_refusal *refusal);
/* The same for a step that the device's can_run() refuses. */
IG_MUST_CHECK ig_status ig_refusal_add_step(ig_lowering *l, const ig_device *device,
                                            const ig_step *step, const char *reason);
/* The reason: the op, the dtypes of its inputs, and the backend's own words, if any. */
void ig_refusal_explain(const ig_device *device, const ig_step *step, const char *words,
                        char out[IG_REASON_BYTES]);

/* Removes common subexpressions, unused values and copies to a final location; fuses activations
 * and residuals into the preceding matmuls. */
IG_MUST_CHECK ig_status ig_lower_simplify(ig_lowering *l);

/* Chains and depth levels: 1 + the deepest thing a step reads, or overwrites while others read it;
 * those of a region lie above all of the regions before it.  Sorts the steps by level, keeping the
 * order within one. */
IG_MUST_CHECK ig_status ig_lower_levels(ig_lowering *l);

/* Offsets in the arena for local values and scratch; those with disjoint lifetimes share bytes. */
IG_MUST_CHECK ig_status ig_lower_memory(ig_lowering *l);

/* Forms segments and makes the three attempts for each: compile, kernel_override, eager. */
IG_MUST_CHECK ig_status ig_lower_wrap(ig_lowering *l);

/* Transfers between device memory and host memory before and after each segment. */
IG_MUST_CHECK ig_status ig_lower_transfers(ig_lowering *l);

/* The first run of the segment has failed with `status` and the thread's error: switches to the
 * next level or another device. If there is none, returns the failure. */
IG_MUST_CHECK ig_status ig_segment_descend(const ig_plan *plan, ig_segment *s, ig_status status);

/* The attempts of a device that runs a program without an override: lent, IG_ATTEMPTS of them. */
const ig_attempt *ig_device_attempts(const ig_device *device);

/* Records the reason for a failed later run at its level. */
void ig_segment_fail(ig_segment *s, const char *reason);

/* A later run has failed without losing data: another device takes over. */
IG_MUST_CHECK ig_status ig_segment_recover(const ig_plan *plan, ig_segment *s, ig_status status,
                                           const char *reason);

/* Rollback data of a segment: everything it writes, or only inputs that it overwrites, without
 * which it could not be repeated. Then saving and restoring them; for bound memory on a device,
 * restoring makes the host side the newer one. */
IG_MUST_CHECK ig_status ig_rollback_all(const ig_plan *plan, const ig_segment *s, ig_rollback *out);
IG_MUST_CHECK ig_status ig_rollback_needed(const ig_plan *plan, const ig_segment *s,
                                           ig_rollback *out);
IG_MUST_CHECK ig_status ig_rollback_save(const ig_plan *plan, const ig_segment *s, ig_run_args args,
                                         ig_rollback *rollback);
IG_MUST_CHECK ig_status ig_rollback_restore(const ig_plan *plan, const ig_segment *s,
                                            ig_run_args args, const ig_rollback *rollback);
void ig_rollback_deinit(const ig_plan *plan, ig_rollback *rollback); /* a zeroed one is fine */

/* Hands the segment over to another device permanently. Not for strict plans. */
IG_MUST_CHECK ig_status ig_failover_create(const ig_plan *plan, ig_segment *s, const char *reason);
IG_MUST_CHECK ig_status ig_failover_run(const ig_plan *plan, const ig_segment *s, ig_run_args args);
void ig_failover_destroy(const ig_allocator *a, ig_failover *failover); /* NULL is fine */

/* A program that calls a custom op's function. */
IG_MUST_CHECK ig_status ig_custom_program_create(const ig_planner *planner, const ig_custom_op *op,
                                                 const ig_step *step, ig_backend_program **out);

#endif
