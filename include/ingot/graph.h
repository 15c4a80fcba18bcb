/*
 * graph.h - a stretch of work, captured once and replayed.
 *
 * Compiled mode does this by itself, step by step.  Capturing is the same by
 * hand: for code that knows what it repeats.
 */
#ifndef INGOT_GRAPH_H
#define INGOT_GRAPH_H

#include "ingot/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_captured ig_captured;

/*
 * Calls `fn` once, between two steps, to write down what it does; then all of it
 * is planned, and the plan runs.  The caller owns the result.  A replay reads the
 * same tensors that fn read, as they are then, and advances what fn advanced:
 * parameters, an optimiser's step count, random numbers.  Results that fn
 * retained hold the newest run's values.  A function that looks at a result has
 * it computed there, op by op; what it decides by it is decided for good.
 */
IG_API IG_MUST_CHECK ig_status ig_capture(ig_ctx *ctx, ig_status (*fn)(void *arg), void *arg,
                                          ig_captured **out);
IG_API IG_MUST_CHECK ig_status ig_captured_replay(ig_captured *captured); /* allocates nothing */
IG_API void ig_captured_destroy(ig_captured *captured);

#ifdef __cplusplus
}
#endif
#endif
