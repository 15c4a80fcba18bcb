/*
 * graph.h - capturing work once and replaying it.
 *
 * Compiled mode does this for every training step.  Explicit capture is the same
 * mechanism for code that knows what it repeats.
 */
#ifndef INGOT_GRAPH_H
#define INGOT_GRAPH_H

#include "ingot/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ig_captured ig_captured;

/*
 * Calls `fn` once, between two steps, and records its ops; then plans them and runs the
 * plan.  The caller owns the result.  A replay reads the current values of the tensors
 * that fn read and advances the same state: parameters, an optimizer's step count,
 * random numbers.  Results that fn retained hold the values of the latest run.  If fn
 * reads a result, the ops before the read run at once, one by one; control flow that
 * depends on the value is fixed at capture.
 */
IG_API IG_MUST_CHECK ig_status ig_capture(ig_ctx *ctx, ig_status (*fn)(void *arg), void *arg,
                                          ig_captured **out);
IG_API IG_MUST_CHECK ig_status ig_captured_replay(ig_captured *captured); /* does not allocate */
IG_API void ig_captured_destroy(ig_captured *captured);

#ifdef __cplusplus
}
#endif
#endif
