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
 * The run report as JSON, as snprintf writes: returns the bytes it takes, without the final 0.
 * All fields are always there: those that only the program around the library knows (run_id, task,
 * model, error, ...) are null for it to fill in, and a NULL context has nothing but such.
 *   "execution_mode": what ran: "compiled" where plans of whole steps did, recorded or captured,
 *       else "dynamic"; "recordings": {"count": those of both kinds that are kept, "refused",
 *       "reason": why steps are not recorded any more, "events": the newest of what the recorder
 *       did, [{"event": "record", "replay", "diverge" or "refuse", "step": the first, "count": how
 *       often in a row, "why"}]}
 *   "backend_timeline": [{"module","device","attempts":[{"level","ok","reason","selected"}]}],
 *       three attempts each: compile, kernel_override, eager
 *   "fallbacks": [{"op","from","to","reason","runs","bytes_moved","ms_lost"}]
 *   "memory": {"allocated_bytes","peak_bytes": of tensors and plans, "packed_bytes": of weights in
 *       a layout of the device's own, "available_bytes": null where not known}; what is allocated,
 *       packed and available is the limit, where there is one and the machine has as much
 *   "device_placement": {"cpu:0": steps of all plans that run there, ...}
 *   "cache_hits": {"compile","prefix","op"}; "latent_stats": null, or {"mean","std","p50","p95"}
 *   "timings": {"compile_ms", "plan_ms": for plans of recordings and captures, with all that was
 *       compiled or packed for them, "pack_ms": the part of it that packed}; what a program adds of
 *       its own contains these, since plans are made where they are first needed.  Of `ingot`:
 *       load_ms has read_ms in it, first_token_ms has prefill_ms, decode_ms has detokenize_ms, and
 *       prefill_ms and decode_ms have the parts of plan_ms that they needed
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
