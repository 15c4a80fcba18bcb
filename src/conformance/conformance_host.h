/*
 * host.h - what a backend sees of Ingot, made small for tests.
 *
 * The team is plain threads, started for every call.  What the backend takes
 * from alloc() is counted, so that a test can see that all of it came back.
 */
#ifndef IG_CONFORMANCE_HOST_H
#define IG_CONFORMANCE_HOST_H

#include <pthread.h>
#include <stdatomic.h>

#include "ingot/backend.h"

enum { HOST_MAX_THREADS = 8 };

typedef struct test_host {
    ig_host base; /* first: the backend's functions get its address */
    uint32_t threads;
    pthread_barrier_t barrier;
    _Atomic int64_t live;     /* allocations that have not come back */
    _Atomic int64_t warnings; /* in the log */
} test_host;

void host_init(test_host *host, uint32_t threads); /* at most HOST_MAX_THREADS */
void host_deinit(test_host *host);

#endif
