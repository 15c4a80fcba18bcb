/*
 * timers.h - calls functions at given times, on one thread.
 *
 * For comment lines of silent streams: a handful of timers, so a list is enough.
 */
#ifndef IG_SERVER_TIMERS_H
#define IG_SERVER_TIMERS_H

#include <stdbool.h>

#include "base/alloc.h"

typedef struct ig_timers ig_timers;

/* The caller's memory, zeroed before its first use. */
typedef struct ig_timer {
    struct ig_timer *next, *before; /* of the list that it is in */
    void (*notify)(void *user);     /* must not call ig_timers_*() and must not wait */
    void *user;
    double at_ms; /* ig_clock_ms() */
    bool is_listed;
} ig_timer;

/* The caller owns the timers.  The allocator is borrowed. */
IG_MUST_CHECK ig_status ig_timers_create(const ig_allocator *allocator, ig_timers **out);
/* No timer may be set any more.  NULL is a no-op. */
void ig_timers_destroy(ig_timers *timers);

/* Calls notify() once at that time, instead of an earlier set time. */
void ig_timers_set(ig_timers *timers, ig_timer *timer, double at_ms);
/* notify() is not called any more once this returns.  Not set: a no-op. */
void ig_timers_drop(ig_timers *timers, ig_timer *timer);

#endif
