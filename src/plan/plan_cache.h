/*
 * plan_cache.h - plans of single ops, for Dynamic mode.
 *
 * Dynamic mode runs each op as a plan of one node. Equal ops on equal layouts share a plan: the key
 * is op, attributes and the operands' dtypes, shapes, strides and offsets.
 */
#ifndef IG_PLAN_PLAN_CACHE_H
#define IG_PLAN_PLAN_CACHE_H

#include "plan/plan.h"

enum { IG_PLAN_CACHE_MOST = 4096 }; /* plans; above it, all are dropped */

typedef struct ig_plan_entry {
    uint64_t hash;
    uint32_t key_bytes;
    char *key;
    ig_plan *plan;
} ig_plan_entry;

/* Plans that were evicted, equal ones once, so that reports still list them. */
typedef struct ig_past {
    ig_refusal was; /* module, device and attempts */
    char fallback[IG_REASON_BYTES];
    uint64_t plans, n_runs, moved_bytes, lost_ns; /* all of them together */
} ig_past;

typedef struct ig_plan_cache {
    const ig_allocator *allocator;
    ig_plan_entry *entries; /* in order of creation */
    size_t count, entries_room;
    uint32_t *table; /* by hash, open addressing: 1 + an entry; 0: empty */
    size_t room;     /* of the table, a power of two */
    char *key;       /* of the current node */
    size_t key_room;
    uint64_t hits, misses;
    ig_past *past;
    size_t n_past, past_room;
} ig_plan_cache;

void ig_plan_cache_init(ig_plan_cache *cache, const ig_allocator *allocator);
void ig_plan_cache_deinit(ig_plan_cache *cache);

/* The plan of node args.first, created on a miss; lent until the next call. */
IG_MUST_CHECK ig_status ig_plan_cache_get(ig_plan_cache *cache, const ig_planner *planner,
                                          ig_plan_args args, const ig_plan **out);

#endif
