/* lower.h - the passes of planning, in their order. */
#ifndef IG_PLAN_LOWER_H
#define IG_PLAN_LOWER_H

#include "plan/plan.h"

/* A plan in the making.  Steps are in graph order until ig_lower_levels(). */
typedef struct ig_lowering {
    const ig_planner *planner;
    const ig_plan_args *args;
    ig_plan *plan;
    uint32_t *device_of;          /* of each step; IG_ON_HOST for custom ops */
    char (*why)[IG_REASON_BYTES]; /* of each step: why not the first device */
    uint32_t *part_of;            /* of each step */
} ig_lowering;

#define IG_ON_HOST UINT32_MAX /* more than an enum may hold */

/* Nodes to steps with settled operands, each on the first device that can run it, with copies of
 * inputs before it where that makes the difference. */
IG_MUST_CHECK ig_status ig_lower_place(ig_lowering *l);

/* Depth levels: 1 + the deepest thing a step reads, or overwrites while others read it; those of
 * a part lie above all of the parts before it.  Sorts the steps by level, keeping the order within
 * one. */
IG_MUST_CHECK ig_status ig_lower_levels(ig_lowering *l);

/* Offsets in the arena for local values and scratch, which share bytes where their lives do not
 * touch. */
IG_MUST_CHECK ig_status ig_lower_memory(ig_lowering *l);

/* Segments, and for each the three attempts: compile, kernel_override, eager. */
IG_MUST_CHECK ig_status ig_lower_wrap(ig_lowering *l);

/* A program that calls a custom op's function. */
IG_MUST_CHECK ig_status ig_custom_program_create(const ig_allocator *allocator,
                                                 const ig_custom_op *op, const ig_step *step,
                                                 ig_backend_program **out);

#endif
