/*
 * standalone_host.h - hosts without a context, for devices outside of plans.
 *
 * ig_standalone_host serves devices that are only inspected: one thread, no log and no overrides.
 * ig_test_host serves the conformance cases: a team of plain threads, started for every call, a log
 * on stderr, and a count of allocations, so that a test can check that all of them were freed.
 */
#ifndef IG_BACKEND_STANDALONE_HOST_H
#define IG_BACKEND_STANDALONE_HOST_H

#include <pthread.h>
#include <stdatomic.h>

#include "ingot/backend.h"

extern const ig_host ig_standalone_host; /* may be copied and extended */

enum { IG_TEST_HOST_THREADS = 8 };

typedef struct ig_test_host {
    ig_host base; /* must be first: backends get its address as an ig_host */
    uint32_t threads;
    pthread_barrier_t barrier;
    _Atomic int64_t live;     /* allocations not yet freed */
    _Atomic int64_t warnings; /* logged warnings */
} ig_test_host;

void ig_test_host_init(ig_test_host *host, uint32_t threads); /* 1 to IG_TEST_HOST_THREADS */
void ig_test_host_deinit(ig_test_host *host);

#endif
