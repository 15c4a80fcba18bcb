/* lower.h - the passes of planning, in their order. */
#ifndef IG_PLAN_LOWER_H
#define IG_PLAN_LOWER_H

#include "plan/plan.h"

#define IG_ON_HOST UINT32_MAX /* more than an enum may hold */

/* Where a step runs, and in which part of the plan. */
typedef struct ig_place {
    uint32_t device; /* of the planner's; IG_ON_HOST for custom ops */
    uint32_t part;
    uint32_t node;             /* of the plan's, counted from its first */
    char why[IG_REASON_BYTES]; /* not the first device; "" if it is */
} ig_place;

/* A node that devices have turned down after all. */
typedef struct ig_bar {
    uint32_t first; /* device that may still be asked */
    char why[IG_REASON_BYTES];
} ig_bar;

/* A plan in the making.  Steps are in graph order until ig_lower_levels(). */
typedef struct ig_lowering {
    const ig_planner *planner;
    const ig_plan_args *args;
    ig_plan *plan;
    ig_place *places;    /* of each step */
    uint32_t n_inserted; /* copies, which are values behind those of the graph */

    /* From one attempt to the next. */
    ig_bar *bars; /* by node; NULL: none yet */
    ig_refusal *refusals;
    size_t n_refusals, refusals_room;
    bool again; /* something was barred: all is to be lowered anew */
} ig_lowering;

/* The memory that an operand shows, as a number: a base value of the graph, or a copy. */
static inline uint32_t ig_memory_of(const ig_lowering *l, const ig_operand *o) {
    const ig_graph *g = l->args->graph;
    return o->value < g->n_values ? ig_value_at(g, o->value)->base : o->value;
}

/* How many such numbers there are. */
static inline size_t ig_memory_count(const ig_lowering *l) {
    return l->args->graph->n_values + l->n_inserted;
}

/* Nodes to steps with settled operands, each on the first device that can run it, with copies of
 * inputs before it where that makes the difference. */
IG_MUST_CHECK ig_status ig_lower_place(ig_lowering *l);

/* Leaves out what computes the same again, what nobody reads and what only moves a result to its
 * place; puts activations and residuals into the products before them. */
IG_MUST_CHECK ig_status ig_lower_simplify(ig_lowering *l);

/* Chains and depth levels: 1 + the deepest thing a step reads, or overwrites while others read it;
 * those of a part lie above all of the parts before it.  Sorts the steps by level, keeping the
 * order within one. */
IG_MUST_CHECK ig_status ig_lower_levels(ig_lowering *l);

/* Offsets in the arena for local values and scratch, which share bytes where their lives do not
 * touch. */
IG_MUST_CHECK ig_status ig_lower_memory(ig_lowering *l);

/* Segments, and for each the three attempts: compile, kernel_override, eager. */
IG_MUST_CHECK ig_status ig_lower_wrap(ig_lowering *l);

/* Between a device's memory and the host's: what each segment needs brought to it. */
IG_MUST_CHECK ig_status ig_lower_moves(ig_lowering *l);

/* The first run of the segment has failed with `status` and the thread's error: programs of the
 * next level take its place, or another device, or there is none and the failure is returned. */
IG_MUST_CHECK ig_status ig_segment_descend(const ig_plan *plan, ig_segment *s, ig_status status);

/* A later run has failed for this reason: the level that it ran on says so. */
void ig_segment_fail(ig_segment *s, const char *reason);

/* A later run of it has failed so, and nothing was lost: another device takes it over. */
IG_MUST_CHECK ig_status ig_segment_recover(const ig_plan *plan, ig_segment *s, ig_status status,
                                           const char *reason);

/* What to keep of a segment before it runs: all that it writes; or only what it reads as it was
 * before and then overwrites, without which it could not run again.  Keeping it, and putting it
 * back: of bound memories on a device the host's side is the newer one after that. */
IG_MUST_CHECK ig_status ig_undo_all(const ig_plan *plan, const ig_segment *s, ig_undo *out);
IG_MUST_CHECK ig_status ig_undo_needed(const ig_plan *plan, const ig_segment *s, ig_undo *out);
IG_MUST_CHECK ig_status ig_undo_save(const ig_plan *plan, const ig_segment *s, ig_run_args args,
                                     ig_undo *undo);
IG_MUST_CHECK ig_status ig_undo_put_back(const ig_plan *plan, const ig_segment *s, ig_run_args args,
                                         const ig_undo *undo);
void ig_undo_deinit(const ig_plan *plan, ig_undo *undo); /* a zeroed one is fine */

/* Another device takes the segment over for good.  Strict plans have no such thing. */
IG_MUST_CHECK ig_status ig_stand_in_create(const ig_plan *plan, ig_segment *s, const char *reason);
IG_MUST_CHECK ig_status ig_stand_in_run(const ig_plan *plan, const ig_segment *s, ig_run_args args);
void ig_stand_in_destroy(const ig_allocator *a, ig_stand_in *stand_in); /* NULL is fine */

/* A program that calls a custom op's function. */
IG_MUST_CHECK ig_status ig_custom_program_create(const ig_planner *planner, const ig_custom_op *op,
                                                 const ig_step *step, ig_backend_program **out);

#endif
