/*
 * bench.h - the roofline of this machine.
 *
 * Each roof is measured by a loop that does nothing else, on the given number of
 * threads, all starting together.  Shared machines vary from moment to moment: take
 * several measurements, and compare with those nearest in time.
 */
#ifndef INGOT_BENCH_H
#define INGOT_BENCH_H

#include "ingot/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ig_roofline {
    IG_ROOF_READ,      /* bytes per second from DRAM, eight streams per thread */
    IG_ROOF_FMA_F32,   /* F32 FLOP per second; an FMA counts as two */
    IG_ROOF_DOT_INT8,  /* int8 operations per second with int32 accumulators; a multiply-add counts
                          as two */
    IG_ROOF_BARRIER,   /* barriers of all threads per second */
    IG_ROOF_FORK_JOIN, /* empty fork-joins of all threads per second */
    IG_ROOF_COUNT
} ig_roofline;

typedef struct ig_roofline_options {
    int threads;         /* 0: as many as the process may use */
    double seconds;      /* approximate duration; 0: 0.1 */
    uint64_t read_bytes; /* of all threads together, for READ; 0: ig_roofline_read_bytes() */
    ig_allocator allocator;
    /* A buffer of read_bytes bytes, zeroed before the first measurement, to share among several
     * measurements: allocating it each time disturbs the next one.  NULL: allocated each time. */
    void *memory;
} ig_roofline_options;

/* 256 MiB, at least 8 times the last-level cache, at most a quarter of the memory. */
IG_API uint64_t ig_roofline_read_bytes(void);

/* Measures once, with the instruction set that kernels use.  NULL options: defaults. */
IG_API IG_MUST_CHECK ig_status ig_roofline_measure(ig_roofline what,
                                                   const ig_roofline_options *options,
                                                   double *out_per_second);

#ifdef __cplusplus
}
#endif
#endif
