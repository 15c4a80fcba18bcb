/* profile.h - kernel calls and their times. */
#ifndef IG_RUNTIME_REPORT_PROFILE_H
#define IG_RUNTIME_REPORT_PROFILE_H

#include "plan/plan.h"

typedef struct ig_profile_event {
    uint64_t run;
    uint32_t step; /* index in the plan */
    uint64_t begin_ns, end_ns;
} ig_profile_event;

/* Steps of one kind have the same op and a weight of the same dtype and shape. */
enum { IG_PROFILE_KINDS = 64, IG_PROFILE_NAME_BYTES = 64 };
typedef struct ig_profile_kind {
    char name[IG_PROFILE_NAME_BYTES];
    uint64_t steps, bytes, flop; /* totals so far */
} ig_profile_kind;

/* Written by one thread of the team. */
typedef struct ig_profile_ring {
    ig_profile_event *events; /* event i is at i % room */
    _Alignas(64) uint64_t count;
    uint64_t kind_ns[IG_PROFILE_KINDS];
} ig_profile_ring;

typedef struct ig_profile {
    uint64_t first_submit_ns; /* on the monotonic clock; 0: none yet */
    bool on;
    uint32_t first_step; /* of the running program: set by each run, on or off */
    const ig_allocator *allocator;
    ig_profile_ring *rings; /* one per thread */
    uint32_t n_rings, room;
    uint64_t run;
    const ig_plan *plan; /* ran last; reset before a plan is destroyed */
    uint8_t *kind_of;    /* kind of each of its steps; NULL: unknown */
    uint32_t n_kind_of;
    ig_profile_kind *kinds; /* IG_PROFILE_KINDS entries; the last collects all others */
    uint32_t n_kinds;
} ig_profile;

ig_profile *ig_ctx_profile(const ig_ctx *ctx);

/* Call before a plan runs; NULL: the plan of a single op. */
void ig_profile_run(ig_profile *profile, const ig_plan *plan);
void ig_profile_deinit(ig_profile *profile);

#endif
