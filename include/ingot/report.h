/*
 * report.h - counters, memory, timeline, plans and profile of a context.
 */
#ifndef INGOT_REPORT_H
#define INGOT_REPORT_H

#include "ingot/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Since the context was created. */
typedef struct ig_counters {
    uint64_t steps;            /* steps ended */
    uint64_t ops;              /* ops run: forward, backward and updates, without views */
    uint64_t views;            /* view ops */
    uint64_t submits;          /* programs run */
    uint64_t dispatches;       /* kernels launched */
    uint64_t copies;           /* dispatches that are copies inserted by the planner */
    uint64_t waits;            /* dispatch batches flushed */
    uint64_t records, replays; /* recordings made, steps replayed */
    uint64_t replay_ns; /* host time in replays after the last call, including waits, for devices
                           with their own memory; else 0 */
    uint64_t programs;  /* compiled and held */
    uint64_t program_hits, program_misses;
    uint64_t tensors; /* alive */
    uint64_t plan_ns; /* planning recordings and captures, including compiling and packing for
                         them */
} ig_counters;

/* Counters so far and the device's memory; all zero for a NULL context. */
IG_API ig_counters ig_report_counters(const ig_ctx *ctx);
IG_API ig_memory_stats ig_report_memory(const ig_ctx *ctx);
IG_API uint64_t ig_report_first_submit(const ig_ctx *ctx); /* CLOCK_MONOTONIC ns; 0: none yet */
IG_API void ig_report_reset_memory(ig_ctx *ctx);           /* resets the peak */

/*
 * The run report as JSON.  Like snprintf, returns the bytes that it needs without the final 0.  All
 * top-level fields are always present.  Those that only the program knows (run_id, task, model,
 * error, ...) are null; with a NULL context, all are.  docs/telemetry.md has every field.
 *   "execution_mode": "compiled" if plans of recorded or captured steps ran, else "dynamic"
 *   "recordings": {"count": stored recordings and captures, "refused", "reason": why steps are no
 *       longer recorded, "events": the last events of the recorder, [{"event": "record", "replay",
 *       "diverge" or "refuse", "step": its first step, "count": consecutive repetitions, "why"}]}
 *   "backend_timeline": [{"module","device","attempts":[{"level","ok","reason","selected"}]}],
 *       three attempts each: compile, kernel_override, eager
 *   "fallbacks": [{"op","from","to","reason","runs","bytes_moved","ms_lost"}]
 *   "memory": {"allocated_bytes","peak_bytes": tensors and plans, "packed_bytes": packed weights,
 *       "available_bytes": null if unknown}; with a memory limit, what the limit leaves
 *   "device_placement": {"cpu:0": number of plan steps, ...}
 *   "cache_hits": {"compile","prefix","op"}; "latent_stats": null, or {"mean","std","p50","p95"}
 *   "timings": {"compile_ms", "plan_ms": planning recordings and captures, with compilation and
 *       packing, "pack_ms": its part for packing}.  Plans are made at first use, so a program's
 *       own stages include these.  In `ingot`, load_ms includes read_ms, first_token_ms includes
 *       prefill_ms, decode_ms includes detokenize_ms, and prefill_ms and decode_ms include their
 *       parts of plan_ms
 */
IG_API size_t ig_report_json(const ig_ctx *ctx, char *out, size_t out_bytes);

/* Writes the "backend_timeline" of the report to the context's log, a line "backend_timeline {...}"
 * for each entry.  Like the report, it has the plans that are alive. */
IG_API void ig_report_log_timeline(const ig_ctx *ctx);

/*
 * Plan `index` as JSON: those of recorded steps, newest first, then captured ones.  "" if
 * there is no such plan:
 *   {"levels", "barriers", "chains", "regions", "copies", "arena_bytes", "live_bytes", "sum_bytes",
 *    "segments":[{"first","count","region","device","attempts":[...]}],
 *    "steps":[{"op","tag","level","chain","region","device","flop","bytes",
 *              "scratch":{"offset","bytes"},
 *              "in":[{"value","kind","buffer","offset","dtype","shape":[..],"bytes"}],"out":[..]}]}
 * "op" includes the fused epilogue, as in "matmul+silu" or "matmul+add".  "sum_bytes" is the
 * size of all local values without buffer reuse, "live_bytes" the peak over the levels, and
 * "buffer" 0 the arena.
 */
IG_API size_t ig_report_plan_json(const ig_ctx *ctx, uint32_t index, char *out, size_t out_bytes);

/*
 * Times every kernel call between begin and end.  `ig_profile_json` writes
 *   {"runs", "dropped", "steps":[{"index","op","device","calls","ns","bytes","flop"}],
 *    "kinds":[{"name","steps","ns","bytes","flop"}],
 *    "events":[{"run","thread","step","begin_ns","end_ns"}]}
 * "index" and "step" count the steps of the plan replayed last ("steps" is empty and "step" 0 if
 * ops ran one by one), "ns" is the sum over threads, and "events" are the newest `max_events`,
 * oldest first.  "kinds" sums similar steps over the runs of all plans.
 */
IG_API IG_MUST_CHECK ig_status ig_profile_begin(ig_ctx *ctx, uint32_t max_events);
IG_API void ig_profile_end(ig_ctx *ctx); /* keeps the data until the next begin */
IG_API size_t ig_profile_json(const ig_ctx *ctx, char *out, size_t out_bytes);

/*
 * Checks the results of ops that run one by one (Dynamic mode) for NaN and Inf between
 * begin and end.  `end` names the first op with such a result, as in
 * "matmul with layers.0.up.weight -> [8,512]"; "": none.  Borrowed until the next
 * begin.
 */
IG_API void ig_nan_check_begin(ig_ctx *ctx);
IG_API const char *ig_nan_check_end(ig_ctx *ctx);

/* "0.1.0"; static. */
IG_API const char *ig_version(void);

#ifdef __cplusplus
}
#endif
#endif
