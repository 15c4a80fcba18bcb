/*
 * steps.h - training steps: how many have ended, and the base of random numbers.
 *
 * Random ops and fills are counter-based (seed, step, index), so equal counts give equal numbers.
 */
#ifndef IG_RUNTIME_RECORD_STEPS_H
#define IG_RUNTIME_RECORD_STEPS_H

#include "ingot/context.h"

typedef struct ig_steps {
    uint64_t count;
    uint64_t next;    /* the count set during a step, */
    bool next_is_set; /* used from the next step on */
    bool has_ops;     /* the current step has ops: steps without ops do not count, */
    bool flushed;     /* unless a dispatch batch ran, which does not begin a step by itself */
    bool ended;       /* the next op begins a new step */
    uint32_t no_init; /* nesting depth of ig_no_init_begin() */
    uint64_t n_fills; /* calls of ig_tensor_fill_* */
} ig_steps;

ig_steps *ig_ctx_steps(const ig_ctx *ctx);

/* Call before an op: begins a new step if the last one has ended. */
void ig_step_begin_op(ig_ctx *ctx);

#endif
