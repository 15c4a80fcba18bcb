/*
 * team.h - a team of threads that run one function together.
 *
 * The caller is thread 0. The other threads start with the first run and wait for the next one:
 * they spin briefly, then sleep. No locks.
 */
#ifndef IG_BASE_TEAM_H
#define IG_BASE_TEAM_H

#include "base/alloc.h"

typedef void ig_team_task(void *task, uint32_t thread, uint32_t threads);
typedef struct ig_team ig_team;

/* The number of processors the process may use: affinity and cgroup quota. */
uint32_t ig_team_default_threads(void);

/* A team of `threads` >= 1. No thread starts yet. */
IG_MUST_CHECK ig_status ig_team_create(const ig_allocator *allocator, uint32_t threads,
                                       ig_team **out);
void ig_team_destroy(ig_team *team);
uint32_t ig_team_threads(const ig_team *team);

/* Calls fn once on every thread and returns when all are done. If threads cannot be created, the
 * team is smaller and passes the actual size to fn. */
void ig_team_run(ig_team *team, ig_team_task *fn, void *task);

/* Inside fn: a barrier of all threads. */
void ig_team_barrier(ig_team *team);

#endif
