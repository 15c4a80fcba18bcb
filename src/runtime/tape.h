/*
 * tape.h - the graph of the current step, used by backward.
 *
 * Nodes that a backward may need stay; others are cut off as soon as they have run. A tensor's
 * `value` is valid while its `tape` equals `number`, so a restart invalidates all values at once.
 */
#ifndef IG_RUNTIME_TAPE_H
#define IG_RUNTIME_TAPE_H

#include "graph/graph.h"
#include "ingot/context.h"

typedef struct ig_tape {
    ig_graph graph;
    uint64_t number;      /* incremented by every restart */
    uint32_t no_grad;     /* nesting depth of ig_no_grad_begin() and of internal ones */
    uint32_t in_backward; /* 1 while a backward builds its nodes */
    uint32_t n_random;   /* random ops since the tape began: the index of the next one in the step's
                            RNG counter */
    uint32_t tags_begun; /* nesting depth of ig_tag_begin() */
    ig_tag tag;          /* of the outermost ig_tag_begin() */
} ig_tape;

ig_tape *ig_ctx_tape(const ig_ctx *ctx);

/* Starts a new tape, with the step count that was set during the last one. */
void ig_tape_reset(ig_ctx *ctx);
/* Whether no backward can go through the graph anymore. */
bool ig_tape_is_spent(const ig_graph *g);

#endif
