/* nan_check.h - the first op whose result was NaN or Inf. */
#ifndef IG_RUNTIME_REPORT_NAN_CHECK_H
#define IG_RUNTIME_REPORT_NAN_CHECK_H

#include "graph/graph.h"
#include "runtime/storage.h"

enum { IG_NAN_CHECK_BYTES = 320 };
typedef struct ig_nan_check {
    bool watching;
    char first[IG_NAN_CHECK_BYTES]; /* the op and its shape; "": all finite so far */
} ig_nan_check;

ig_nan_check *ig_ctx_nan_check(const ig_ctx *ctx);

/* Call after a node has run, while the check is on. Cost: one pass over its results on the host. */
void ig_nan_check_look(ig_nan_check *check, ig_memory *memory, const ig_graph *g,
                       const ig_node *node);

#endif
