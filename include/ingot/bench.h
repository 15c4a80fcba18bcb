/*
 * bench.h - what this machine can do at most: the yardstick for kernels and plans.
 *
 * Each rate is measured by a loop that does nothing else, on as many threads as
 * asked for, all starting together.  Machines with neighbours vary from moment to
 * moment: take several, and those nearest in time to what is compared with them.
 */
#ifndef INGOT_BENCH_H
#define INGOT_BENCH_H

#include "ingot/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ig_ceiling {
    IG_CEILING_READ,    /* bytes a second, from memory beyond the caches, eight streams a thread */
    IG_CEILING_FMA,     /* F32 operations a second: a multiply-add is two */
    IG_CEILING_DOT,     /* int8 operations a second, summed in 32 bits: a multiply-add is two */
    IG_CEILING_BARRIER, /* barriers a second: all threads wait for each other */
    IG_CEILING_TEAM,    /* times a second that all threads start and finish, with nothing to do */
    IG_CEILING_COUNT
} ig_ceiling;

typedef struct ig_ceiling_options {
    int threads;         /* as many as the process may use */
    double seconds;      /* about how long it runs; 0.1 */
    uint64_t read_bytes; /* of all threads together, for READ; 256 MiB */
    ig_allocator allocator;
} ig_ceiling_options;

/* Measures once, with the instruction set that kernels use.  NULL options: defaults. */
IG_API IG_MUST_CHECK ig_status ig_ceiling_measure(ig_ceiling what,
                                                  const ig_ceiling_options *options,
                                                  double *out_per_second);

#ifdef __cplusplus
}
#endif
#endif
