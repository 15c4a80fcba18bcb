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
    uint64_t records, replays; /* recordings made, steps replayed */
    uint64_t programs;         /* compiled and kept */
    uint64_t program_hits, program_misses;
    uint64_t tensors; /* alive now */
} ig_counters;

IG_API ig_counters ig_report_counters(const ig_ctx *ctx);
IG_API ig_memory_stats ig_report_memory(const ig_ctx *ctx);
IG_API void ig_report_reset_memory(ig_ctx *ctx); /* the peak starts anew */

/* The run report as JSON, as snprintf writes: returns the bytes it takes, without the final 0. */
IG_API size_t ig_report_json(const ig_ctx *ctx, char *out, size_t out_bytes);

/* "0.1.0" */
IG_API const char *ig_version(void);

#ifdef __cplusplus
}
#endif
#endif
