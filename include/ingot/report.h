/*
 * report.h - what happened: counts, memory, and which backend ran what.
 */
#ifndef INGOT_REPORT_H
#define INGOT_REPORT_H

#include "ingot/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Since the context was made. */
typedef struct ig_counters {
    uint64_t steps;            /* steps ended */
    uint64_t ops;              /* ops computed, forward, backward and updates; views are none */
    uint64_t views;            /* ops that were only another look at the same bytes */
    uint64_t submits;          /* programs run */
    uint64_t dispatches;       /* kernels run by them */
    uint64_t copies;           /* of these, copies that the planner had to insert */
    uint64_t waits;            /* batches flushed */
    uint64_t records, replays; /* recordings made, steps replayed */
    uint64_t replay_ns;        /* the host's in them behind the last call, waits included, where a
                                  device has memory of its own; where none has: 0 */
    uint64_t programs;         /* compiled and kept */
    uint64_t program_hits, program_misses;
    uint64_t tensors; /* alive now */
    uint64_t plan_ns; /* making plans of recordings and captures, with what was compiled or packed
                         for them */
} ig_counters;

/* What happened so far, and what the device's memory holds; all zero for a NULL context. */
IG_API ig_counters ig_report_counters(const ig_ctx *ctx);
IG_API ig_memory_stats ig_report_memory(const ig_ctx *ctx);
IG_API uint64_t ig_report_first_submit(const ig_ctx *ctx); /* ns of CLOCK_MONOTONIC; 0: not yet */
IG_API void ig_report_reset_memory(ig_ctx *ctx);           /* the peak starts anew */

/*
 * The run report as JSON, as snprintf writes: returns the bytes it takes, without the final 0.
 * All fields are always there: those that only the program around the library knows (run_id, task,
 * model, error, ...) are null for it to fill in, and a NULL context has nothing but such.
 *   "execution_mode": what ran: "compiled" where plans of whole steps did, recorded or captured,
 *       else "dynamic"; "recordings": {"count": those of both kinds that are kept, "refused",
 *       "reason": why steps are not recorded any more}
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

/*
 * The plans of recorded steps, newest first, then those that were captured by hand;
 * index counts from 0, and one that is not there gives "".  As JSON:
 *   {"levels", "barriers", "chains", "parts", "copies", "arena_bytes", "live_bytes", "sum_bytes",
 *    "segments":[{"first","count","part","device","attempts":[...]}],
 *    "steps":[{"op","tag","level","chain","part","device","flop","bytes",
 *              "scratch":{"offset","bytes"},
 *              "in":[{"value","kind","buffer","offset","dtype","shape":[..],"bytes"}],"out":[..]}]}
 * "op" has what the planner put behind a product in it, as in "matmul+silu" or "matmul+add".
 * "sum_bytes" is what all local values would take without sharing; "live_bytes" the most that is
 * alive at one level; a "buffer" of 0 is the arena.
 */
IG_API size_t ig_report_plan_json(const ig_ctx *ctx, uint32_t index, char *out, size_t out_bytes);

/*
 * Between begin and end every kernel call is timed: `ig_profile_json` then gives
 *   {"runs", "dropped", "steps":[{"index","op","device","calls","ns","bytes","flop"}],
 *    "kinds":[{"name","steps","ns","bytes","flop"}],
 *    "events":[{"run","thread","step","begin_ns","end_ns"}]}
 * where "index" and "step" count the steps of the replayed plan that ran last ("steps" is empty and
 * "step" 0 where ops ran one by one), "ns" is the sum over threads and "events" are the newest
 * `max_events`, oldest first.  "kinds" adds up steps that are alike over the runs of all plans.
 */
IG_API IG_MUST_CHECK ig_status ig_profile_begin(ig_ctx *ctx, uint32_t max_events);
IG_API void ig_profile_end(ig_ctx *ctx); /* what was gathered stays until the next begin */
IG_API size_t ig_profile_json(const ig_ctx *ctx, char *out, size_t out_bytes);

/*
 * Between begin and end, the results of ops that run one by one (Dynamic mode)
 * are looked through: `end` tells of the first that were not all finite numbers,
 * and of what made them, as "matmul with layers.0.up.weight -> [8,512]"; ""
 * if there were none.  The text is lent until the next begin.
 */
IG_API void ig_finite_begin(ig_ctx *ctx);
IG_API const char *ig_finite_end(ig_ctx *ctx);

/* "0.1.0"; a text that is always there, owned by nobody. */
IG_API const char *ig_version(void);

#ifdef __cplusplus
}
#endif
#endif
