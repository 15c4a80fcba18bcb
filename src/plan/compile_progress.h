/*
 * compile_progress.h - compile progress of a plan.
 *
 * A backend reports the progress of one program; the callback sees that of the whole plan, weighted
 * by steps, and never decreasing.
 */
#ifndef IG_PLAN_COMPILE_PROGRESS_H
#define IG_PLAN_COMPILE_PROGRESS_H

#include "ingot/backend.h"
#include "ingot/context.h"

/* Passed to a backend's compile(). Functions and the pointer itself may be NULL. */
struct ig_progress {
    void (*tell)(void *user, ig_progress_event event, uint64_t done, uint64_t total);
    bool (*cancel)(void *user);
    void *user;
    ig_progress_event event;      /* IG_PROGRESS_COMPILE, or _PACK where there is no compiler */
    uint64_t steps, first, count; /* of the plan; of the current program */
    uint64_t reported;            /* of IG_PROGRESS_WHOLE */
};

enum { IG_PROGRESS_WHOLE = 1000 };

/* Starts a plan of `steps` steps, then each of its programs. */
void ig_progress_begin(ig_progress *progress, uint64_t steps);
void ig_progress_part(ig_progress *progress, ig_progress_event event, uint64_t first,
                      uint64_t count);
/* false: stop. total 0: only polls for cancellation. */
bool ig_progress_tell(ig_progress *progress, uint64_t done, uint64_t total);
/* All programs are ready: the number from the compile cache; and the number stored there. */
void ig_progress_end(ig_progress *progress, uint64_t from_cache, uint64_t to_cache);

#endif
