/* run_node.h - running nodes and plans with the memory of a context, and counting what ran. */
#ifndef IG_RUNTIME_RUN_NODE_H
#define IG_RUNTIME_RUN_NODE_H

#include "ingot/report.h"
#include "plan/plan_cache.h"

extern const ig_graph_hooks ig_run_hooks;
/* Runs all nodes of the tape that a capture appended without running. */
IG_MUST_CHECK ig_status ig_tape_run(ig_ctx *ctx);

/* Arguments to run a plan; mirrors matter to devices with their own memory. */
ig_run_args ig_ctx_run_args(ig_ctx *ctx, ig_backend_buffer *const *buffers,
                            ig_mirror *const *mirrors, size_t count);
ig_plan_cache *ig_ctx_plan_cache(const ig_ctx *ctx);
ig_compile_cache *ig_ctx_compile_cache(const ig_ctx *ctx);
ig_counters *ig_ctx_counters(const ig_ctx *ctx);
/* Counts a run of a plan and the ops in it. */
void ig_ctx_count_run(ig_ctx *ctx, const ig_plan *plan, uint64_t n_ops);

#endif
