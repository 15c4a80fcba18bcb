/*
 * team.h - threads that run one function together.
 *
 * The caller is thread 0; the others are made with the first run and then wait
 * for the next one: a moment spinning, then asleep.  No locks.
 */
#ifndef IG_BASE_TEAM_H
#define IG_BASE_TEAM_H

#include "base/alloc.h"

typedef void ig_team_task(void *task, uint32_t thread, uint32_t threads);
typedef struct ig_team ig_team;

/* As many threads as the process may use: its affinity and its cgroup's share of the machine. */
uint32_t ig_team_default_threads(void);

/* A team of `threads`, at least 1.  No thread is started yet. */
IG_MUST_CHECK ig_status ig_team_create(const ig_allocator *allocator, uint32_t threads,
                                       ig_team **out);
void ig_team_destroy(ig_team *team);
uint32_t ig_team_threads(const ig_team *team);

/* Calls fn once on every thread and returns when all are done.  Where threads cannot be had, the
 * team stays smaller and says so to fn. */
void ig_team_run(ig_team *team, ig_team_task *fn, void *task);

/* Inside fn: lets no thread pass before all have come. */
void ig_team_barrier(ig_team *team);

#endif
