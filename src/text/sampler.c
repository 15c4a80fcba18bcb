#include "text/sampler.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/f16.h"
#include "base/random.h"

enum { STREAM = 0x5A3 }; /* the ordinal of the sampler's random numbers; ops use other ones */

typedef struct candidate {
    float logit; /* finite */
    int32_t id;
} candidate;

struct ig_sampler {
    const ig_allocator *allocator;
    ig_sampling sampling; /* resolved: zeros replaced by their defaults */
    int32_t vocabulary;
    int32_t n_candidates;
    candidate *candidates; /* [n_candidates]: what top-k keeps, or the vocabulary */
    candidate *scratch;    /* [n_candidates], for sorting; NULL: never sorted */
    candidate *order;      /* [n_candidates], for typical; NULL: off */
    int32_t *recent;       /* [repeat_last_n], ring buffer of recent tokens; NULL: no penalties */
    int32_t *repeats;      /* [vocabulary], count of each token in the ring; NULL likewise */
    float *biases;         /* [vocabulary]; NULL: none */
    int32_t *biased;       /* [n_biased]: tokens with a bias, some more than once */
    size_t n_biased;
    float *changed; /* [vocabulary], logits with biases and penalties; NULL: there are none */
    double mu;      /* mirostat: maximum surprise, in bits */
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
        .repeat_last_n = s->repeat_last_n ? s->repeat_last_n : 64,
        .seed = s->seed,
        .stream = s->stream,
        .typical_p = or_default(s->typical_p, 1),
        .frequency_penalty = s->frequency_penalty,
        .presence_penalty = s->presence_penalty,
        .mirostat = s->mirostat,
        .mirostat_tau = or_default(s->mirostat_tau, 5),
        .mirostat_eta = or_default(s->mirostat_eta, 0.1),
        .biases = s->biases,
        .n_biases = s->n_biases,
    };
}

static ig_status check(const ig_sampling *s, int64_t vocabulary) {
    const struct {
        const char *name;
        double value;
    } rows[] = {{"temperature", s->temperature},
                {"top-p", s->top_p},
                {"min-p", s->min_p},
                {"repeat penalty", s->repeat_penalty},
                {"typical-p", s->typical_p},
                {"frequency penalty", s->frequency_penalty},
                {"presence penalty", s->presence_penalty},
                {"mirostat's tau", s->mirostat_tau},
                {"mirostat's eta", s->mirostat_eta}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!isfinite(rows[i].value))
            return IG_FAIL(IG_ERR_ARGUMENT, "sampling: %s is %g", rows[i].name, rows[i].value);
    if (s->repeat_penalty < 0)
        return IG_FAIL(IG_ERR_ARGUMENT, "sampling: repeat penalty is %g, below 0",
                       s->repeat_penalty);
    if (s->mirostat != 0 && s->mirostat != 2)
        return IG_FAIL(IG_ERR_ARGUMENT, "sampling: mirostat is %d, not 0 or 2", s->mirostat);
    if (vocabulary < 1 || vocabulary > INT32_MAX)
        return IG_FAIL(IG_ERR_ARGUMENT, "sampling: a vocabulary of %lld", (long long)vocabulary);
    return IG_OK;
}

static ig_status check_biases(const ig_sampling *s, int64_t vocabulary) {
    for (size_t i = 0; i < s->n_biases; i++) {
        const ig_logit_bias b = s->biases[i];
        if (b.token < 0 || b.token >= vocabulary)
            return IG_FAIL(IG_ERR_ARGUMENT, "sampling: a bias for token %d, not below %lld",
                           b.token, (long long)vocabulary);
        if (isnan(b.bias))
            return IG_FAIL(IG_ERR_ARGUMENT, "sampling: the bias of token %d is NaN", b.token);
    }
    return IG_OK;
}

/* Tokens that penalties look back at; 0: they change nothing. */
static size_t ring_length(const ig_sampling *s) {
    const bool any =
        s->repeat_penalty != 1 || s->frequency_penalty != 0 || s->presence_penalty != 0;
    return any && s->repeat_last_n > 0 ? (size_t)s->repeat_last_n : 0;
}

/* How many candidates, best first, the next token is sampled from. */
static int32_t count_candidates(const ig_sampling *s, int64_t vocabulary) {
    if (s->temperature < 0) return 1;
    const bool all = s->mirostat || s->top_k < 0 || s->top_k > vocabulary;
    return all ? (int32_t)vocabulary : s->top_k;
}

static bool sorts_all(const ig_sampler *s) { return s->n_candidates == s->vocabulary; }

/* Allocates what the options need; false: out of memory. */
static bool reserve(ig_sampler *s) {
    const ig_allocator *a = s->allocator;
    const size_t n = (size_t)s->vocabulary, kept = (size_t)s->n_candidates;
    const size_t ring = ring_length(&s->sampling);
    const bool typical = s->sampling.typical_p < 1;
    if (!(s->candidates = ig_alloc(a, kept, sizeof *s->candidates))) return false;
    if ((sorts_all(s) || typical) && !(s->scratch = ig_alloc(a, kept, sizeof *s->scratch)))
        return false;
    if (typical && !(s->order = ig_alloc(a, kept, sizeof *s->order))) return false;
    if (ring > 0 && (!(s->recent = ig_alloc(a, ring, sizeof *s->recent)) ||
                     !(s->repeats = ig_alloc(a, n, sizeof *s->repeats))))
        return false;
    s->n_biased = s->sampling.n_biases;
    if (s->n_biased > 0 && (!(s->biases = ig_alloc(a, n, sizeof *s->biases)) ||
                            !(s->biased = ig_alloc(a, s->n_biased, sizeof *s->biased))))
        return false;
    return (ring == 0 && s->n_biased == 0) ||
           (s->changed = ig_alloc(a, n, sizeof *s->changed)) != NULL;
}

ig_status ig_sampling_check(const ig_sampling *sampling, int64_t vocabulary) {
    const ig_sampling resolved = resolve(sampling);
    IG_TRY(check(&resolved, vocabulary));
    return check_biases(&resolved, vocabulary);
}

ig_status ig_sampler_create(const ig_allocator *a, const ig_sampling *sampling, int64_t vocabulary,
                            ig_sampler **out) {
    const ig_sampling resolved = resolve(sampling);
    IG_TRY(ig_sampling_check(sampling, vocabulary));
    ig_sampler *s = ig_alloc(a, 1, sizeof *s);
    if (!s) return IG_FAIL(IG_ERR_MEMORY, "sampling: no memory");
    *s = (ig_sampler){.allocator = a,
                      .sampling = resolved,
                      .vocabulary = (int32_t)vocabulary,
                      .n_candidates = count_candidates(&resolved, vocabulary),
                      .mu = 2 * resolved.mirostat_tau};
    if (!reserve(s)) {
        ig_sampler_destroy(s);
        return IG_FAIL(IG_ERR_MEMORY, "sampling: no memory for %lld tokens, %zu looked back at",
                       (long long)vocabulary, ring_length(&resolved));
    }
    for (size_t i = 0; i < resolved.n_biases; i++) {
        s->biased[i] = resolved.biases[i].token;
        s->biases[s->biased[i]] += resolved.biases[i].bias;
    }
    s->sampling.biases = NULL;
    *out = s;
    return IG_OK;
}

void ig_sampler_destroy(ig_sampler *s) {
    if (!s) return;
    ig_free(s->allocator, s->changed);
    ig_free(s->allocator, s->biased);
    ig_free(s->allocator, s->biases);
    ig_free(s->allocator, s->repeats);
    ig_free(s->allocator, s->recent);
    ig_free(s->allocator, s->order);
    ig_free(s->allocator, s->scratch);
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

/* Sifts heap[at] down. Parents are never better than their children, so the worst is at 0. */
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

/* Clamps to finite range, so that differences of logits stay finite. */
static float bounded(double logit) {
    if (isnan(logit) || logit < -FLT_MAX) return -FLT_MAX;
    return logit > FLT_MAX ? FLT_MAX : (float)logit;
}

/* One of BLOCK logits is above the limit: compiles to a few vector instructions. */
enum { BLOCK = 64 };
static bool has_above(const float *logits, float limit) {
    int32_t any = 0;
    for (int i = 0; i < BLOCK; i++) any |= logits[i] > limit;
    return any;
}

/* The best `keep` of `count` logits, best first.  Most blocks have none of them. */
static void take_best(const float *logits, int32_t count, candidate *c, int32_t keep) {
    for (int32_t i = 0; i < keep; i++) c[i] = (candidate){bounded((double)logits[i]), i};
    for (int32_t i = keep / 2; i-- > 0;) sift_down(c, keep, i);
    for (int64_t first = keep; first < count; first += BLOCK) {
        const int64_t end = first + BLOCK < count ? first + BLOCK : count;
        if (end - first == BLOCK && !has_above(logits + first, c[0].logit)) continue;
        for (int64_t i = first; i < end; i++) {
            const candidate found = {bounded((double)logits[i]), (int32_t)i};
            if (!is_better(found, c[0])) continue;
            c[0] = found;
            sift_down(c, keep, 0);
        }
    }
    for (int32_t last = keep - 1; last > 0; last--) { /* the worst goes last */
        const candidate worst = c[0];
        c[0] = c[last];
        c[last] = worst;
        sift_down(c, last, 0);
    }
}

/* Ascending as an integer where a logit, which is not NaN, is descending. */
static uint32_t sort_key(float logit) {
    const uint32_t bits = ig_bits_of_float(logit + 0.0f); /* -0 is 0 */
    return bits >> 31 ? bits : ~bits & 0x7fffffff;
}

/* Sorts candidates, best first: three stable passes over 11 bits each.  Before, ids ascend. */
static void sort_best(candidate *c, int32_t count, candidate *scratch) {
    enum { BITS = 11, BINS = 1 << BITS };
    candidate *from = c, *to = scratch;
    for (int shift = 0; shift < 32; shift += BITS) {
        int32_t at[BINS] = {0}, before = 0;
        for (int32_t i = 0; i < count; i++) at[sort_key(from[i].logit) >> shift & (BINS - 1)]++;
        for (int k = 0; k < BINS; k++) {
            const int32_t n = at[k];
            at[k] = before;
            before += n;
        }
        for (int32_t i = 0; i < count; i++)
            to[at[sort_key(from[i].logit) >> shift & (BINS - 1)]++] = from[i];
        candidate *swap = from;
        from = to;
        to = swap;
    }
    memcpy(c, from, (size_t)count * sizeof *c); /* an odd number of passes */
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

/* Top-p: the smallest prefix whose probabilities sum to `p`. */
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

/*
 * Locally typical sampling: keeps the tokens whose surprise (-log p) is nearest to the entropy, as
 * few as sum to more than `p`. They stay sorted by probability.
 */
static int32_t cut_typical(const ig_sampler *s, int32_t count, double p) {
    candidate *c = s->candidates, *order = s->order;
    if (p >= 1 || count <= 1) return count;
    const double sum = sum_weights(c, count, 1);
    double mean = 0; /* entropy */
    for (int32_t i = 0; i < count; i++) {
        const double q = weight(c[0], c[i], 1) / sum;
        if (q > 0) mean -= q * log(q);
    }
    for (int32_t i = 0; i < count; i++) {
        const double q = weight(c[0], c[i], 1) / sum;
        const double distance = q > 0 ? fabs(-log(q) - mean) : INFINITY;
        order[i] = (candidate){-(float)distance, i};
    }
    sort_best(order, count, s->scratch);

    double taken = 0;
    for (int32_t i = 0; i < count && taken <= p; i++) { /* marks the kept ones */
        candidate *kept = &c[order[i].id];
        taken += weight(c[0], *kept, 1) / sum;
        kept->id = ~kept->id;
    }
    int32_t n = 0;
    for (int32_t i = 0; i < count; i++)
        if (c[i].id < 0) c[n++] = (candidate){c[i].logit, ~c[i].id};
    return n;
}

/* Min-p: tokens with at least `p` times the probability of the best. */
static int32_t cut_min_p(const candidate *c, int32_t count, double p) {
    if (p < 0) return count;
    int32_t kept = 1;
    while (kept < count && weight(c[0], c[kept], 1) >= p) kept++;
    return kept;
}

/* ---- The next token ---- */

/* The logit of a token that occurs `times` times in the ring. */
static float penalized(const ig_sampling *s, float logit, int32_t times) {
    const double scaled =
        logit > 0 ? (double)logit / s->repeat_penalty : (double)logit * s->repeat_penalty;
    return bounded(scaled - times * s->frequency_penalty - s->presence_penalty);
}

/* The logit of a token with its bias and penalties. */
static float change(const ig_sampler *s, const float *logits, int32_t id) {
    float logit = bounded((double)logits[id]);
    if (s->biases) logit = bounded((double)logit + (double)s->biases[id]);
    if (s->repeats && s->repeats[id] > 0) logit = penalized(&s->sampling, logit, s->repeats[id]);
    return logit;
}

/* Few tokens have either. */
static const float *change_logits(const ig_sampler *s, const float *logits) {
    if (!s->changed) return logits;
    memcpy(s->changed, logits, (size_t)s->vocabulary * sizeof *logits);
    for (size_t i = 0; i < s->n_biased; i++)
        s->changed[s->biased[i]] = change(s, logits, s->biased[i]);
    const size_t ring = ring_length(&s->sampling);
    for (size_t i = 0; i < ring && i < s->n_accepted; i++)
        s->changed[s->recent[i]] = change(s, logits, s->recent[i]);
    return s->changed;
}

/* The candidates, best first. */
static void gather(const ig_sampler *s, const float *logits) {
    if (!sorts_all(s)) {
        take_best(logits, s->vocabulary, s->candidates, s->n_candidates);
        return;
    }
    for (int32_t id = 0; id < s->vocabulary; id++)
        s->candidates[id] = (candidate){bounded((double)logits[id]), id};
    sort_best(s->candidates, s->vocabulary, s->scratch);
}

/* Uniform in [0, 1): 53 bits of the next block of the stream. */
static double draw(ig_sampler *s) {
    const uint32_t seed[2] = {(uint32_t)s->sampling.seed, (uint32_t)(s->sampling.seed >> 32)};
    const ig_philox block = ig_random_block(seed, s->n_drawn++, STREAM, 4 * s->sampling.stream);
    const uint64_t bits = (uint64_t)block.word[0] << 32 | block.word[1];
    return (double)(bits >> 11) * 0x1p-53;
}

/* Samples among the first `count` by probability; returns the index. */
static int32_t pick(ig_sampler *s, int32_t count) {
    const candidate *c = s->candidates;
    const double temperature = s->sampling.temperature;
    const double target = draw(s) * sum_weights(c, count, temperature);
    double sum = 0;
    for (int32_t i = 0; i < count; i++) {
        sum += weight(c[0], c[i], temperature);
        if (sum > target) return i;
    }
    return 0;
}

/*
 * Mirostat 2 (Basu et al., 2021): samples among tokens with a surprise of at most mu bits, then
 * moves mu so that the mean surprise approaches tau.
 */
static int32_t pick_mirostat(ig_sampler *s) {
    const candidate *c = s->candidates;
    const double temperature = s->sampling.temperature;
    const double all = sum_weights(c, s->vocabulary, temperature);
    int32_t count = 1;
    while (count < s->vocabulary && -log2(weight(c[0], c[count], temperature) / all) <= s->mu)
        count++;
    const int32_t i = pick(s, count);
    const double p = weight(c[0], c[i], temperature) / sum_weights(c, count, temperature);
    s->mu -= s->sampling.mirostat_eta * (-log2(p) - s->sampling.mirostat_tau);
    return i;
}

static int32_t pick_cut(ig_sampler *s) {
    const candidate *c = s->candidates;
    int32_t count = cut_typical(s, s->n_candidates, s->sampling.typical_p);
    count = cut_top_p(c, count, s->sampling.top_p);
    count = cut_min_p(c, count, s->sampling.min_p);
    return pick(s, count);
}

int32_t ig_sampler_next(ig_sampler *s, const float *logits) {
    assert(logits);
    gather(s, change_logits(s, logits));
    const int32_t i = s->sampling.temperature < 0 ? 0
                      : s->sampling.mirostat      ? pick_mirostat(s)
                                                  : pick_cut(s);
    return s->candidates[i].id;
}
