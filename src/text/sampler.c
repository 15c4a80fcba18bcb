#include "text/sampler.h"

#include <assert.h>
#include <float.h>
#include <math.h>

#include "base/random.h"

enum { STREAM = 0x5A3 }; /* the ordinal of its random numbers: no op of a step has this one */

typedef struct candidate {
    float logit; /* never NaN nor infinite */
    int32_t id;
} candidate;

struct ig_sampler {
    const ig_allocator *allocator;
    ig_sampling sampling; /* resolved: no zeros that mean something else */
    int32_t vocabulary;
    candidate *candidates; /* [vocabulary] */
    int32_t *recent;       /* [repeat_last], a ring of the tokens looked back at */
    int32_t *repeats;      /* [vocabulary], how often each stands in the ring */
    uint64_t n_accepted, n_drawn;
};

/* ---- Options ---- */

static double or_default(double value, double standard) { return value == 0 ? standard : value; }

static ig_sampling resolve(const ig_sampling *s) {
    const ig_sampling none = {0};
    if (!s) s = &none;
    return (ig_sampling){
        .temperature = or_default(s->temperature, 0.8),
        .top_k = s->top_k ? s->top_k : 40,
        .top_p = or_default(s->top_p, 0.95),
        .min_p = or_default(s->min_p, 0.05),
        .repeat_penalty = or_default(s->repeat_penalty, 1),
        .repeat_last = s->repeat_last ? s->repeat_last : 64,
        .seed = s->seed,
    };
}

static ig_status check(const ig_sampling *s, int64_t vocabulary) {
    const struct {
        const char *name;
        double value;
    } rows[] = {{"temperature", s->temperature},
                {"top-p", s->top_p},
                {"min-p", s->min_p},
                {"repeat penalty", s->repeat_penalty}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!isfinite(rows[i].value))
            return IG_FAIL(IG_ERR_ARGUMENT, "sampling: %s is %g", rows[i].name, rows[i].value);
    if (s->repeat_penalty < 0)
        return IG_FAIL(IG_ERR_ARGUMENT, "sampling: repeat penalty is %g, below 0",
                       s->repeat_penalty);
    if (vocabulary < 1 || vocabulary > INT32_MAX)
        return IG_FAIL(IG_ERR_ARGUMENT, "sampling: a vocabulary of %lld", (long long)vocabulary);
    return IG_OK;
}

static size_t ring_length(const ig_sampling *s) {
    return s->repeat_last > 0 ? (size_t)s->repeat_last : 0;
}

ig_status ig_sampler_create(const ig_allocator *a, const ig_sampling *sampling, int64_t vocabulary,
                            ig_sampler **out) {
    const ig_sampling resolved = resolve(sampling);
    IG_TRY(check(&resolved, vocabulary));
    ig_sampler *s = ig_alloc(a, 1, sizeof *s);
    if (!s) return IG_FAIL(IG_ERR_MEMORY, "sampling: no memory");
    *s = (ig_sampler){.allocator = a, .sampling = resolved, .vocabulary = (int32_t)vocabulary};

    const size_t n = (size_t)vocabulary, ring = ring_length(&resolved);
    s->candidates = ig_alloc(a, n, sizeof *s->candidates);
    s->recent = ig_alloc(a, ring, sizeof *s->recent);
    s->repeats = ig_alloc(a, n, sizeof *s->repeats);
    if (!s->candidates || !s->recent || !s->repeats) {
        ig_sampler_destroy(s);
        return IG_FAIL(IG_ERR_MEMORY, "sampling: no memory for %zu tokens, %zu looked back at", n,
                       ring);
    }
    *out = s;
    return IG_OK;
}

void ig_sampler_destroy(ig_sampler *s) {
    if (!s) return;
    ig_free(s->allocator, s->repeats);
    ig_free(s->allocator, s->recent);
    ig_free(s->allocator, s->candidates);
    ig_free(s->allocator, s);
}

void ig_sampler_accept(ig_sampler *s, int32_t token) {
    const size_t ring = ring_length(&s->sampling);
    if (ring == 0 || token < 0 || token >= s->vocabulary) return;
    int32_t *place = &s->recent[s->n_accepted % ring];
    if (s->n_accepted >= ring) s->repeats[*place]--;
    *place = token;
    s->repeats[token]++;
    s->n_accepted++;
}

/* ---- The best ones ---- */

static bool is_better(candidate a, candidate b) {
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/* Moves heap[at] down to its place; no parent is better than its children, so the worst is at 0. */
static void sift_down(candidate *heap, int32_t count, int32_t at) {
    const candidate moved = heap[at];
    for (;;) {
        int64_t child = 2 * (int64_t)at + 1;
        if (child >= count) break;
        if (child + 1 < count && is_better(heap[child], heap[child + 1])) child++;
        if (!is_better(moved, heap[child])) break;
        heap[at] = heap[child];
        at = (int32_t)child;
    }
    heap[at] = moved;
}

/* Brings the best `keep` of `count` to the front, the best first. */
static void take_best(candidate *c, int32_t count, int32_t keep) {
    for (int32_t i = keep / 2; i-- > 0;) sift_down(c, keep, i);
    for (int32_t i = keep; i < count; i++) {
        if (!is_better(c[i], c[0])) continue;
        c[0] = c[i];
        sift_down(c, keep, 0);
    }
    for (int32_t last = keep - 1; last > 0; last--) { /* the worst of those left goes behind them */
        const candidate worst = c[0];
        c[0] = c[last];
        c[last] = worst;
        sift_down(c, last, 0);
    }
}

/* ---- Cut-offs: each gives how many of the first `count`, best first, stay ---- */

static double weight(candidate best, candidate c, double temperature) {
    return exp(((double)c.logit - (double)best.logit) / temperature);
}

static double sum_weights(const candidate *c, int32_t count, double temperature) {
    double sum = 0;
    for (int32_t i = 0; i < count; i++) sum += weight(c[0], c[i], temperature);
    return sum;
}

/* The fewest whose probabilities sum to `p`. */
static int32_t cut_top_p(const candidate *c, int32_t count, double p) {
    if (p < 0 || p >= 1) return count;
    const double wanted = p * sum_weights(c, count, 1);
    double sum = 0;
    for (int32_t i = 0; i < count; i++) {
        sum += weight(c[0], c[i], 1);
        if (sum >= wanted) return i + 1;
    }
    return count;
}

/* Those at least `p` times as likely as the best. */
static int32_t cut_min_p(const candidate *c, int32_t count, double p) {
    if (p < 0) return count;
    int32_t kept = 1;
    while (kept < count && weight(c[0], c[kept], 1) >= p) kept++;
    return kept;
}

/* ---- The next token ---- */

/* Impossible and certain stay so, as the least and greatest numbers that can be subtracted. */
static float bounded(double logit) {
    if (isnan(logit) || logit < -FLT_MAX) return -FLT_MAX;
    return logit > FLT_MAX ? FLT_MAX : (float)logit;
}

static void gather(ig_sampler *s, const float *logits) {
    const double penalty = s->sampling.repeat_penalty;
    for (int32_t id = 0; id < s->vocabulary; id++) {
        float logit = bounded((double)logits[id]);
        if (s->repeats[id] > 0)
            logit = bounded(logit > 0 ? (double)logit / penalty : (double)logit * penalty);
        s->candidates[id] = (candidate){logit, id};
    }
}

/* In [0, 1): 53 bits of the next block of the stream. */
static double draw(ig_sampler *s) {
    const uint32_t seed[2] = {(uint32_t)s->sampling.seed, (uint32_t)(s->sampling.seed >> 32)};
    const ig_philox block = ig_random_block(seed, s->n_drawn++, STREAM, 0);
    const uint64_t bits = (uint64_t)block.word[0] << 32 | block.word[1];
    return (double)(bits >> 11) * 0x1p-53;
}

static int32_t pick(ig_sampler *s, int32_t count) {
    const candidate *c = s->candidates;
    const double temperature = s->sampling.temperature;
    const double target = draw(s) * sum_weights(c, count, temperature);
    double sum = 0;
    for (int32_t i = 0; i < count; i++) {
        sum += weight(c[0], c[i], temperature);
        if (sum > target) return c[i].id;
    }
    return c[0].id;
}

int32_t ig_sampler_next(ig_sampler *s, const float *logits) {
    assert(logits);
    gather(s, logits);
    candidate *c = s->candidates;
    if (s->sampling.temperature < 0) {
        candidate best = c[0];
        for (int32_t id = 1; id < s->vocabulary; id++)
            if (is_better(c[id], best)) best = c[id];
        return best.id;
    }
    const int32_t k = s->sampling.top_k;
    int32_t count = k < 0 || k > s->vocabulary ? s->vocabulary : k;
    take_best(c, s->vocabulary, count);
    count = cut_top_p(c, count, s->sampling.top_p);
    count = cut_min_p(c, count, s->sampling.min_p);
    return pick(s, count);
}
