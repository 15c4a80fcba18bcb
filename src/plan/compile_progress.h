/*
 * progress.h - how far the programs of a plan are.
 *
 * A backend says how much of one program is done; whoever watches sees the whole
 * plan, by its steps, and never a number that goes back.
 */
#ifndef IG_PLAN_PROGRESS_H
#define IG_PLAN_PROGRESS_H

#include "ingot/backend.h"

/* What a backend's compile() is handed.  Functions may be NULL, and so may a pointer to it. */
struct ig_progress {
    void (*tell)(void *user, const char *what, uint64_t done, uint64_t total);
    bool (*cancel)(void *user);
    void *user;
    const char *what;             /* "compile", or "pack" where there is no compiler */
    uint64_t steps, first, count; /* of the plan; those of the program at hand */
    uint64_t told;                /* of IG_PROGRESS_WHOLE */
};

enum { IG_PROGRESS_WHOLE = 1000 };

/* A plan of so many steps; then each of its programs. */
void ig_progress_begin(ig_progress *progress, uint64_t steps);
void ig_progress_part(ig_progress *progress, const char *what, uint64_t first, uint64_t count);
/* false: stop.  A total of 0 only asks. */
bool ig_progress_tell(ig_progress *progress, uint64_t done, uint64_t total);
/* All are there, so many of them from the cache; and so many are kept there now. */
void ig_progress_end(ig_progress *progress, uint64_t from_cache, uint64_t to_cache);

#endif
