/*
 * engine_stats.h - counters that any thread may read without a lock.
 *
 * The scheduler thread counts in plain memory and publishes a copy after each step: a sequence lock
 * over atomic words.  A reader that meets a publication reads again.
 */
#ifndef IG_ENGINE_ENGINE_STATS_H
#define IG_ENGINE_ENGINE_STATS_H

#include <stdatomic.h>

#include "base/alloc.h"
#include "ingot/engine.h"

typedef struct ig_engine_counts {
    ig_engine_stats stats; /* of the scheduler thread */
    ig_engine_slot *slots; /* [n_slots], likewise */
    int64_t n_slots;
    double tick_ms;       /* when it last published */
    atomic_uint sequence; /* odd: being published */
    size_t n_words;
    atomic_ullong *words;                  /* tick_ms, stats, slots */
    atomic_ullong n_submitted, n_rejected; /* counted by the threads that submit */
} ig_engine_counts;

IG_MUST_CHECK ig_status ig_counts_init(ig_engine_counts *c, const ig_allocator *a, int64_t n_slots);
void ig_counts_deinit(ig_engine_counts *c, const ig_allocator *a);
/* Makes the scheduler thread's numbers visible to readers. */
void ig_counts_publish(ig_engine_counts *c);
void ig_counts_read(const ig_engine_counts *c, ig_engine_stats *out);
ig_engine_slot ig_counts_read_slot(const ig_engine_counts *c, int64_t i);

void ig_histogram_add_seconds(ig_histogram *h, double ms);
void ig_histogram_add_tokens(ig_histogram *h, int64_t tokens);

#endif
