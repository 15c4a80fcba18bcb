#include "engine/engine_stats.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"

static_assert(sizeof(ig_engine_stats) % sizeof(uint64_t) == 0, "published as words");
static_assert(sizeof(ig_engine_slot) % sizeof(uint64_t) == 0, "published as words");

enum {
    STATS_WORDS = sizeof(ig_engine_stats) / sizeof(uint64_t),
    SLOT_WORDS = sizeof(ig_engine_slot) / sizeof(uint64_t),
};

ig_status ig_counts_init(ig_engine_counts *c, const ig_allocator *a, int64_t n_slots) {
    c->n_slots = n_slots;
    c->n_words = 1 + STATS_WORDS + (size_t)n_slots * SLOT_WORDS;
    c->slots = ig_alloc(a, n_slots > 0 ? (size_t)n_slots : 1, sizeof *c->slots);
    c->words = ig_alloc(a, c->n_words, sizeof *c->words);
    if (!c->slots || !c->words) return IG_FAIL(IG_ERR_MEMORY, "engine: statistics");
    ig_counts_publish(c);
    return IG_OK;
}

void ig_counts_deinit(ig_engine_counts *c, const ig_allocator *a) {
    ig_free(a, c->slots);
    ig_free(a, c->words);
}

/* ---- the sequence lock ---- */

static void store_words(ig_engine_counts *c, size_t first, const void *from, size_t n_words) {
    const char *bytes = from;
    for (size_t i = 0; i < n_words; i++) {
        uint64_t word;
        memcpy(&word, bytes + i * sizeof word, sizeof word);
        atomic_store_explicit(&c->words[first + i], word, memory_order_release);
    }
}

void ig_counts_publish(ig_engine_counts *c) {
    const unsigned sequence = atomic_load_explicit(&c->sequence, memory_order_relaxed);
    c->tick_ms = ig_clock_ms();
    atomic_store_explicit(&c->sequence, sequence + 1, memory_order_relaxed);
    store_words(c, 0, &c->tick_ms, 1);
    store_words(c, 1, &c->stats, STATS_WORDS);
    store_words(c, 1 + STATS_WORDS, c->slots, (size_t)c->n_slots * SLOT_WORDS);
    atomic_store_explicit(&c->sequence, sequence + 2, memory_order_release);
}

/* Reads words that were published together.  The words are loaded with acquire order: one that is
 * newer than the first look at `sequence` makes the second look differ. */
static void load_words(const ig_engine_counts *c, size_t first, void *to, size_t n_words) {
    char *bytes = to;
    unsigned before, after;
    do {
        before = atomic_load_explicit(&c->sequence, memory_order_acquire);
        for (size_t i = 0; i < n_words; i++) {
            const uint64_t word = atomic_load_explicit(&c->words[first + i], memory_order_acquire);
            memcpy(bytes + i * sizeof word, &word, sizeof word);
        }
        after = atomic_load_explicit(&c->sequence, memory_order_relaxed);
    } while (before != after || before % 2 != 0);
}

void ig_counts_read(const ig_engine_counts *c, ig_engine_stats *out) {
    double tick_ms;
    load_words(c, 0, &tick_ms, 1);
    load_words(c, 1, out, STATS_WORDS);
    out->tick_age_ms = ig_clock_ms() - tick_ms;
    out->n_submitted = atomic_load(&c->n_submitted);
    out->n_rejected_queue = atomic_load(&c->n_rejected);
}

ig_engine_slot ig_counts_read_slot(const ig_engine_counts *c, int64_t i) {
    ig_engine_slot slot = {0};
    if (i < 0 || i >= c->n_slots) return slot;
    load_words(c, 1 + STATS_WORDS + (size_t)i * SLOT_WORDS, &slot, SLOT_WORDS);
    return slot;
}

/* ---- histograms ---- */

double ig_histogram_seconds(int i) {
    static const double bounds[IG_HISTOGRAM_BUCKETS] = {
        0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.05, 0.075, 0.1, 0.25,
        0.5,   0.75,   1,     2.5,  5,     10,    30,   60,    300, 600};
    return i >= 0 && i < IG_HISTOGRAM_BUCKETS ? bounds[i] : 0;
}

double ig_histogram_tokens(int i) {
    return i >= 0 && i < IG_HISTOGRAM_BUCKETS ? (double)((int64_t)1 << i) : 0;
}

static void add(ig_histogram *h, double value, double (*bound)(int)) {
    int i = 0;
    while (i < IG_HISTOGRAM_BUCKETS && value > bound(i)) i++;
    h->count[i]++;
    h->sum += value;
}

void ig_histogram_add_seconds(ig_histogram *h, double ms) {
    add(h, ms * 1e-3, ig_histogram_seconds);
}

void ig_histogram_add_tokens(ig_histogram *h, int64_t tokens) {
    add(h, (double)tokens, ig_histogram_tokens);
}
