/* Choosing the next token: who may be drawn, how often, and that nothing odd breaks it. */
#include "check.h"

#include <float.h>
#include <math.h>

#include "text/sampler.h"

enum { DRAWS = 20000 };

/* Of DRAWS draws with probability p the share strays by sqrt(p (1 - p) / DRAWS), 0.0036 at most;
 * this is more than five times that. */
static const double share_tolerance = 0.02;

/* All cut-offs off, the model's own probabilities. */
static const ig_sampling plain = {
    .temperature = 1, .top_k = -1, .top_p = -1, .min_p = -1, .repeat_penalty = 1};

static ig_sampler *make(ig_sampling sampling, int64_t vocabulary) {
    ig_sampler *s = NULL;
    must(ig_sampler_create(&ig_heap, &sampling, vocabulary, &s));
    return s;
}

/* Draws many times and gives the share of each of `n` tokens. */
static void shares(ig_sampling sampling, const float *logits, int64_t n, double *out) {
    ig_sampler *s = make(sampling, n);
    for (int64_t i = 0; i < n; i++) out[i] = 0;
    for (int i = 0; i < DRAWS; i++) {
        const int32_t id = ig_sampler_next(s, logits);
        assert_in_range(id, 0, n - 1);
        out[id] += 1.0 / DRAWS;
    }
    ig_sampler_destroy(s);
}

static void near(double got, double want) {
    if (fabs(got - want) > share_tolerance) fail_msg("%g is far from %g", got, want);
    if (want == 0) assert_true(got == 0);
}

static int32_t draw_once(ig_sampling sampling, const float *logits, int64_t n) {
    ig_sampler *s = make(sampling, n);
    const int32_t id = ig_sampler_next(s, logits);
    ig_sampler_destroy(s);
    return id;
}

/* ---- Shares ---- */

/* Probabilities 0.5, 0.3, 0.15, 0.05, not in order. */
static void four_logits(float out[4]) {
    const double p[4] = {0.15, 0.5, 0.05, 0.3};
    for (int i = 0; i < 4; i++) out[i] = (float)log(p[i]) + 3;
}

static void tokens_are_drawn_as_often_as_they_are_likely(void **state) {
    (void)state;
    float logits[4];
    double got[4];
    four_logits(logits);
    shares(plain, logits, 4, got);
    near(got[0], 0.15), near(got[1], 0.5), near(got[2], 0.05), near(got[3], 0.3);
}

static void temperature_flattens_and_sharpens(void **state) {
    (void)state;
    const float logits[2] = {0, 1};
    double got[2];
    ig_sampling s = plain;
    s.temperature = 2;
    shares(s, logits, 2, got);
    near(got[1], 1 / (1 + exp(-0.5)));
    s.temperature = 0.25;
    shares(s, logits, 2, got);
    near(got[1], 1 / (1 + exp(-4)));
    s.temperature = 1e-300;
    shares(s, logits, 2, got);
    near(got[0], 0), near(got[1], 1);
}

static void top_k_leaves_the_k_most_likely(void **state) {
    (void)state;
    float logits[4];
    double got[4];
    four_logits(logits);
    ig_sampling s = plain;
    s.top_k = 2;
    shares(s, logits, 4, got);
    near(got[0], 0), near(got[1], 0.5 / 0.8), near(got[2], 0), near(got[3], 0.3 / 0.8);
    s.top_k = 100; /* more than there are */
    shares(s, logits, 4, got);
    near(got[2], 0.05);
}

static void top_p_leaves_the_fewest_that_reach_it(void **state) {
    (void)state;
    float logits[4];
    double got[4];
    four_logits(logits);
    ig_sampling s = plain;
    s.top_p = 0.6; /* 0.5 is not enough, 0.5 + 0.3 is */
    shares(s, logits, 4, got);
    near(got[0], 0), near(got[1], 0.5 / 0.8), near(got[2], 0), near(got[3], 0.3 / 0.8);
    s.top_p = 1e-9; /* one always stays */
    shares(s, logits, 4, got);
    near(got[1], 1), near(got[3], 0);
    s.top_p = 1;
    shares(s, logits, 4, got);
    near(got[2], 0.05);
}

static void min_p_leaves_those_near_the_best(void **state) {
    (void)state;
    float logits[4];
    double got[4];
    four_logits(logits);
    ig_sampling s = plain;
    s.min_p = 0.2; /* of 0.5: at least 0.1 */
    shares(s, logits, 4, got);
    near(got[0], 0.15 / 0.95), near(got[1], 0.5 / 0.95), near(got[2], 0), near(got[3], 0.3 / 0.95);
    s.min_p = 7;
    shares(s, logits, 4, got);
    near(got[1], 1), near(got[3], 0);
}

static void cut_offs_come_before_the_temperature(void **state) {
    (void)state;
    float logits[4];
    double got[4];
    four_logits(logits);
    ig_sampling s = plain;
    s.top_p = 0.6; /* with a temperature of 100 first, three would be needed */
    s.temperature = 100;
    shares(s, logits, 4, got);
    near(got[0], 0), near(got[1], 0.5), near(got[2], 0), near(got[3], 0.5);
}

static void zeros_are_the_defaults_of_llama_cpp(void **state) {
    (void)state;
    float logits[100];
    for (int i = 0; i < 100; i++) logits[i] = -0.001f * (float)i;
    ig_sampler *s = make((ig_sampling){0}, 100);
    int32_t largest = 0;
    for (int i = 0; i < DRAWS; i++) {
        const int32_t id = ig_sampler_next(s, logits);
        if (id > largest) largest = id;
    }
    assert_int_equal(largest, 37); /* 40 by top-k, and of these nearly equal ones 38 by top-p */
    ig_sampler_destroy(s);
}

/* ---- Greedy ---- */

static void greedy_takes_the_most_likely_token_and_of_equals_the_lowest_id(void **state) {
    (void)state;
    const ig_sampling greedy = {.temperature = -1};
    assert_int_equal(draw_once(greedy, (const float[]){1, 5, 2, 5, 5}, 5), 1);
    assert_int_equal(draw_once(greedy, (const float[]){0, 0, 0}, 3), 0);
    assert_int_equal(draw_once(greedy, (const float[]){-3, -2, -2}, 3), 1);
    assert_int_equal(draw_once(greedy, (const float[]){7}, 1), 0);
}

/* ---- Repetition ---- */

static void the_penalty_makes_what_was_said_less_likely(void **state) {
    (void)state;
    const ig_sampling greedy = {.temperature = -1, .repeat_penalty = 2};
    const float positive[3] = {1, 4, 3}, negative[3] = {-9, -2, -3};
    ig_sampler *s = make(greedy, 3);
    assert_int_equal(ig_sampler_next(s, positive), 1);
    ig_sampler_accept(s, 1);
    assert_int_equal(ig_sampler_next(s, positive), 2); /* 4 / 2 is less than 3 */
    assert_int_equal(ig_sampler_next(s, negative), 2); /* and -2 x 2 less than -3 */
    ig_sampler_accept(s, 1);                           /* twice is not twice the penalty: */
    ig_sampler_accept(s, 2);                           /* 1, 2, 1.5 */
    assert_int_equal(ig_sampler_next(s, positive), 1);
    ig_sampler_destroy(s);
}

static void tokens_out_of_the_window_are_forgotten(void **state) {
    (void)state;
    const ig_sampling greedy = {.temperature = -1, .repeat_penalty = 2, .repeat_last_n = 2};
    const float logits[4] = {4, 3, 0, 0};
    ig_sampler *s = make(greedy, 4);
    ig_sampler_accept(s, 0);
    assert_int_equal(ig_sampler_next(s, logits), 1);
    ig_sampler_accept(s, 2);
    assert_int_equal(ig_sampler_next(s, logits), 1);
    ig_sampler_accept(s, 3);
    assert_int_equal(ig_sampler_next(s, logits), 0);
    ig_sampler_accept(s, -1); /* no tokens at all: not looked at */
    ig_sampler_accept(s, 4);
    assert_int_equal(ig_sampler_next(s, logits), 0);
    ig_sampler_destroy(s);
}

static void without_a_window_there_is_no_penalty(void **state) {
    (void)state;
    ig_sampler *s =
        make((ig_sampling){.temperature = -1, .repeat_penalty = 9, .repeat_last_n = -1}, 2);
    ig_sampler_accept(s, 0);
    assert_int_equal(ig_sampler_next(s, (const float[]){2, 1}), 0);
    ig_sampler_destroy(s);
}

static void how_often_and_whether_at_all_are_penalized_apart(void **state) {
    (void)state;
    const float logits[4] = {3, 2.5f, 2, 1};
    ig_sampler *s = make((ig_sampling){.temperature = -1, .frequency_penalty = 0.4}, 4);
    ig_sampler_accept(s, 0);
    assert_int_equal(ig_sampler_next(s, logits), 0); /* 2.6 */
    ig_sampler_accept(s, 0);
    assert_int_equal(ig_sampler_next(s, logits), 1); /* 2.2 */
    ig_sampler_destroy(s);
    s = make((ig_sampling){.temperature = -1, .presence_penalty = 0.4}, 4);
    for (int i = 0; i < 9; i++) ig_sampler_accept(s, 0);
    assert_int_equal(ig_sampler_next(s, logits), 0); /* 2.6, however often */
    ig_sampler_destroy(s);
    s = make((ig_sampling){.temperature = -1,
                           .repeat_penalty = 2,
                           .frequency_penalty = -0.2,
                           .presence_penalty = -0.9},
             4);
    ig_sampler_accept(s, 0);
    assert_int_equal(ig_sampler_next(s, logits), 0); /* 3 / 2 + 0.2 + 0.9: scaled first */
    ig_sampler_accept(s, 3);
    assert_int_equal(ig_sampler_next(s, (const float[]){0, 1, 0, 0.1f}), 3); /* 0.05 + 1.1 */
    ig_sampler_destroy(s);
}

static void biases_are_added_before_all_else(void **state) {
    (void)state;
    const ig_logit_bias biases[] = {{0, -INFINITY}, {2, 1.5f}, {2, 1.5f}, {3, -1}};
    ig_sampling sampling = {.temperature = -1, .biases = biases, .n_biases = 4};
    assert_int_equal(draw_once(sampling, (const float[]){9, 3, 1, 4.5f}, 4), 2); /* 3, 4, 3.5 */
    sampling = plain;
    sampling.biases = biases, sampling.n_biases = 4, sampling.top_k = 3;
    double got[4];
    shares(sampling, (const float[]){9, 0, -3, 1}, 4, got);
    near(got[0], 0), near(got[1], 1.0 / 3), near(got[2], 1.0 / 3), near(got[3], 1.0 / 3);
}

/* ---- Typical and mirostat ---- */

static void typical_leaves_those_nearest_to_the_mean_surprise(void **state) {
    (void)state;
    float logits[4];
    double got[4];
    four_logits(logits); /* the entropy is 1.14; 0.3 has 1.20, 0.5 has 0.69, 0.15 has 1.90 */
    ig_sampling s = plain;
    s.typical_p = 0.2;
    shares(s, logits, 4, got);
    near(got[3], 1), near(got[1], 0);
    s.typical_p = 0.5;
    shares(s, logits, 4, got);
    near(got[3], 0.3 / 0.8), near(got[1], 0.5 / 0.8), near(got[0], 0), near(got[2], 0);
    s.typical_p = 0.9;
    shares(s, logits, 4, got);
    near(got[0], 0.15 / 0.95), near(got[2], 0);
    s.typical_p = 0.5, s.top_p = 0.5; /* top-p comes after it: 0.5 of 0.8 is enough */
    shares(s, logits, 4, got);
    near(got[1], 1);
}

static double surprise(const double *p, int count, int of) {
    double sum = 0;
    for (int i = 0; i < count; i++) sum += p[i];
    return -log2(p[of] / sum);
}

static void mirostat_keeps_the_surprise_near_its_aim(void **state) {
    (void)state;
    enum { N = 500, TURNS = 2000 };
    float logits[N];
    double p[N];
    for (int i = 0; i < N; i++) {
        logits[i] = -logf((float)(i + 1));
        p[i] = pow(1.0 / (i + 1), 1 / 0.8);
    }
    const double tau = 3, eta = 0.1;
    ig_sampler *s = make((ig_sampling){.mirostat = 2, .mirostat_tau = tau, .seed = 5}, N);
    double mu = 2 * tau, sum = 0;
    for (int turn = 0; turn < TURNS; turn++) { /* the paper's algorithm beside it */
        int count = 1;
        while (count < N && surprise(p, N, count) <= mu) count++;
        const int32_t id = ig_sampler_next(s, logits);
        assert_in_range(id, 0, count - 1);
        const double seen = surprise(p, count, id);
        mu -= eta * (seen - tau);
        sum += seen;
    }
    /* The sum of errors is (mu - mu') / eta, and mu never leaves 0 to 2 log2 N. */
    assert_true(fabs(sum / TURNS - tau) < 20 / eta / TURNS);
    ig_sampler_destroy(s);
}

/* ---- Likeliness ---- */

static void logprobs_are_those_of_the_model(void **state) {
    (void)state;
    float logits[4];
    four_logits(logits);
    const double want[4] = {0.5, 0.3, 0.15, 0.05};
    const int32_t order[4] = {1, 3, 0, 2};
    ig_logprob best[4];
    assert_true(fabs(ig_logits_logprob(logits, 4, 2) - log(0.05)) < 1e-6); /* floats' rounding */
    assert_int_equal(ig_logits_top(logits, 4, best, 4), 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(best[i].token, order[i]);
        assert_true(fabs(best[i].logprob - log(want[i])) < 1e-6);
    }
    assert_int_equal(ig_logits_top(logits, 4, best, 2), 2);
    assert_int_equal(best[1].token, 3);
    assert_int_equal(ig_logits_top(logits, 4, NULL, 0), 0);
    logits[1] = NAN;
    assert_true(ig_logits_logprob(logits, 4, 1) == -(double)INFINITY);
    assert_true(fabs(ig_logits_logprob(logits, 4, 3) - log(0.6)) < 1e-6);
    assert_int_equal(ig_logits_top(logits, 4, best, 4), 4);
    assert_int_equal(best[0].token, 3);
    assert_int_equal(best[3].token, 1);
}

/* ---- Sequences ---- */

static void the_seed_alone_decides_the_sequence(void **state) {
    (void)state;
    float logits[50];
    for (int i = 0; i < 50; i++) logits[i] = (float)(i % 7) * 0.3f;
    ig_sampling one = plain, other = plain;
    one.seed = 1;
    other.seed = 1ull << 32; /* the upper half counts as well */
    ig_sampler *a = make(one, 50), *b = make(one, 50), *c = make(other, 50);
    int differ = 0;
    for (int i = 0; i < 200; i++) {
        const int32_t id = ig_sampler_next(a, logits);
        assert_int_equal(id, ig_sampler_next(b, logits));
        differ += id != ig_sampler_next(c, logits);
    }
    assert_true(differ > 100);
    ig_sampler_destroy(a), ig_sampler_destroy(b), ig_sampler_destroy(c);
}

static void the_best_of_many_are_found_whatever_their_order(void **state) {
    (void)state;
    enum { N = 5000, K = 5 };
    static float logits[N];
    for (int i = 0; i < N; i++) logits[i] = (float)((i * 2654435761u) >> 8 & 0xFFFFF) * -1e-3f;
    const int32_t best[K] = {4999, 17, 2500, 0, 333};
    for (int i = 0; i < K; i++) logits[best[i]] = 1;
    ig_sampling s = plain;
    s.top_k = K;
    static double got[N];
    shares(s, logits, N, got);
    for (int i = 0; i < K; i++) near(got[best[i]], 1.0 / K);
}

/* ---- Odd numbers ---- */

static void impossible_tokens_are_never_drawn(void **state) {
    (void)state;
    const float logits[5] = {NAN, 1, -INFINITY, 1, -NAN};
    double got[5];
    shares(plain, logits, 5, got);
    near(got[0], 0), near(got[1], 0.5), near(got[2], 0), near(got[3], 0.5), near(got[4], 0);
    assert_int_equal(draw_once((ig_sampling){.temperature = -1}, logits, 5), 1);
}

static void a_certain_token_is_always_drawn(void **state) {
    (void)state;
    double got[3];
    shares(plain, (const float[]){1, INFINITY, FLT_MAX / 4}, 3, got);
    near(got[1], 1);
}

static void logits_that_say_nothing_still_give_a_token(void **state) {
    (void)state;
    const float rows[][3] = {{NAN, NAN, NAN},
                             {-INFINITY, -INFINITY, -INFINITY},
                             {INFINITY, INFINITY, INFINITY},
                             {-FLT_MAX, FLT_MAX, NAN}};
    const double temperatures[] = {-1, 0, 1e-308, 1e308};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (size_t t = 0; t < sizeof temperatures / sizeof temperatures[0]; t++) {
            ig_sampler *s = make((ig_sampling){.temperature = temperatures[t],
                                               .repeat_penalty = 1e300,
                                               .typical_p = 0.5,
                                               .mirostat = i % 2 ? 2 : 0},
                                 3);
            for (int n = 0; n < 20; n++) {
                const int32_t id = ig_sampler_next(s, rows[i]);
                assert_in_range(id, 0, 2);
                ig_sampler_accept(s, id);
            }
            ig_sampler_destroy(s);
        }
}

static void options_that_are_nan_are_refused(void **state) {
    (void)state;
    ig_sampler *s = NULL;
    ig_sampling bad = {.temperature = NAN};
    refused(ig_sampler_create(&ig_heap, &bad, 3, &s), IG_ERR_ARGUMENT, "temperature");
    bad = (ig_sampling){.top_p = INFINITY};
    refused(ig_sampler_create(&ig_heap, &bad, 3, &s), IG_ERR_ARGUMENT, "top-p is inf");
    bad = (ig_sampling){.repeat_penalty = -1};
    refused(ig_sampler_create(&ig_heap, &bad, 3, &s), IG_ERR_ARGUMENT, "repeat penalty is -1");
    bad = (ig_sampling){.typical_p = NAN};
    refused(ig_sampler_create(&ig_heap, &bad, 3, &s), IG_ERR_ARGUMENT, "typical-p");
    bad = (ig_sampling){.mirostat = 1};
    refused(ig_sampler_create(&ig_heap, &bad, 3, &s), IG_ERR_ARGUMENT, "mirostat is 1, not 0 or 2");
    const ig_logit_bias far = {3, 1}, none = {0, NAN};
    bad = (ig_sampling){.biases = &far, .n_biases = 1};
    refused(ig_sampler_create(&ig_heap, &bad, 3, &s), IG_ERR_ARGUMENT, "token 3, not below 3");
    bad = (ig_sampling){.biases = &none, .n_biases = 1};
    refused(ig_sampler_create(&ig_heap, &bad, 3, &s), IG_ERR_ARGUMENT, "token 0 is NaN");
    refused(ig_sampler_create(&ig_heap, NULL, 0, &s), IG_ERR_ARGUMENT, "vocabulary of 0");
    assert_null(s);
    ig_sampler_destroy(NULL);
}

/* ---- Finding and sorting ---- */

/* With ties, both zeros, NaN and infinities. */
static void odd_logits(float *out, int n, unsigned seed) {
    static const float odd[] = {0.0f, -0.0f, NAN, -INFINITY, FLT_MAX, -FLT_MAX};
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        out[i] = (float)(int)(seed >> 24) / 16 - 8;
        if (seed % 13 == 0) out[i] = odd[seed / 13 % 6];
    }
}

static void greedy_is_a_search_through_all(void **state) {
    float logits[300];
    (void)state;
    for (int n = 1; n <= 300; n++) {
        int best = 0;
        odd_logits(logits, n, (unsigned)n);
        for (int i = 0; i < n; i++) {
            if (!(logits[i] >= -FLT_MAX)) logits[i] = -FLT_MAX; /* as NaN counts */
            if (logits[i] > logits[best]) best = i;
        }
        odd_logits(logits, n, (unsigned)n);
        assert_int_equal(draw_once((ig_sampling){.temperature = -1}, logits, n), best);
    }
}

/* All but the worst are found block by block, all are sorted: what min-p leaves of them is the
 * same. */
static void finding_the_best_is_sorting_all(void **state) {
    float logits[500];
    (void)state;
    for (int n = 2; n <= 500; n += 7) {
        odd_logits(logits, n, (unsigned)n);
        const ig_sampling found = {
            .temperature = 1, .top_k = n - 1, .top_p = -1, .min_p = 0.01, .seed = (uint64_t)n};
        ig_sampling sorted = found;
        sorted.top_k = -1;
        ig_sampler *a = make(found, n), *b = make(sorted, n);
        logits[n / 2] = 9; /* the worst is never kept */
        for (int i = 0; i < 20; i++)
            assert_int_equal(ig_sampler_next(a, logits), ig_sampler_next(b, logits));
        ig_sampler_destroy(a);
        ig_sampler_destroy(b);
    }
}

/* ---- Memory ---- */

typedef struct meter {
    int left, alive; /* allocations that succeed yet; those not freed */
} meter;

static void *metered_alloc(void *user, size_t bytes, size_t alignment) {
    meter *m = user;
    if (m->left-- <= 0) return NULL;
    m->alive++;
    return ig_heap.alloc(NULL, bytes, alignment);
}

static void metered_free(void *user, void *p) {
    ((meter *)user)->alive--;
    ig_heap.free(NULL, p);
}

static void memory_is_taken_once_and_a_lack_of_it_is_an_error(void **state) {
    (void)state;
    meter m = {0};
    const ig_allocator a = {metered_alloc, metered_free, &m};
    const ig_logit_bias bias = {0, 1};
    const ig_sampling all = {
        .typical_p = 0.9, .repeat_penalty = 1.1, .biases = &bias, .n_biases = 1};
    enum { ALLOCATIONS = 9 };
    for (int room = 0; room < ALLOCATIONS; room++) {
        ig_sampler *s = NULL;
        m.left = room;
        refused(ig_sampler_create(&a, &all, 10, &s), IG_ERR_MEMORY, "no memory");
        assert_int_equal(m.alive, 0);
    }
    ig_sampler *s = NULL;
    m.left = ALLOCATIONS;
    must(ig_sampler_create(&a, &all, 10, &s));
    const float logits[10] = {0};
    for (int i = 0; i < 200; i++) ig_sampler_accept(s, ig_sampler_next(s, logits));
    ig_sampler_destroy(s);
    assert_int_equal(m.alive, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_drawn_as_often_as_they_are_likely),
        cmocka_unit_test(temperature_flattens_and_sharpens),
        cmocka_unit_test(top_k_leaves_the_k_most_likely),
        cmocka_unit_test(top_p_leaves_the_fewest_that_reach_it),
        cmocka_unit_test(min_p_leaves_those_near_the_best),
        cmocka_unit_test(cut_offs_come_before_the_temperature),
        cmocka_unit_test(zeros_are_the_defaults_of_llama_cpp),
        cmocka_unit_test(greedy_takes_the_most_likely_token_and_of_equals_the_lowest_id),
        cmocka_unit_test(the_penalty_makes_what_was_said_less_likely),
        cmocka_unit_test(tokens_out_of_the_window_are_forgotten),
        cmocka_unit_test(without_a_window_there_is_no_penalty),
        cmocka_unit_test(how_often_and_whether_at_all_are_penalized_apart),
        cmocka_unit_test(biases_are_added_before_all_else),
        cmocka_unit_test(typical_leaves_those_nearest_to_the_mean_surprise),
        cmocka_unit_test(mirostat_keeps_the_surprise_near_its_aim),
        cmocka_unit_test(logprobs_are_those_of_the_model),
        cmocka_unit_test(the_seed_alone_decides_the_sequence),
        cmocka_unit_test(the_best_of_many_are_found_whatever_their_order),
        cmocka_unit_test(greedy_is_a_search_through_all),
        cmocka_unit_test(finding_the_best_is_sorting_all),
        cmocka_unit_test(impossible_tokens_are_never_drawn),
        cmocka_unit_test(a_certain_token_is_always_drawn),
        cmocka_unit_test(logits_that_say_nothing_still_give_a_token),
        cmocka_unit_test(options_that_are_nan_are_refused),
        cmocka_unit_test(memory_is_taken_once_and_a_lack_of_it_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
