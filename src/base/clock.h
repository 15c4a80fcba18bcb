/* clock.h - the monotonic clock.  Its origin is arbitrary: only differences mean something. */
#ifndef IG_BASE_CLOCK_H
#define IG_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t ig_clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
static inline double ig_clock_ms(void) { return (double)ig_clock_ns() * 1e-6; }
static inline double ig_clock_seconds(void) { return (double)ig_clock_ns() * 1e-9; }

#endif
