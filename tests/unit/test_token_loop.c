/* The token loop: many sequences as each alone, and what its callbacks may do. */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "hub.h"
#include "ingot/session.h"
#include "unit/meter.h"

enum { N = 3, MOST = 20, V = HUB_VOCABULARY };

static const int32_t one[] = {1, 2, 3}, two[] = {7, 5, 9, 11, 2, 30, 8}, three[] = {4};
static const int32_t *const prompts[N] = {one, two, three};
static const int64_t lengths[N] = {3, 7, 1};

typedef struct made {
    int32_t tokens[N][MOST];
    int64_t n[N];
    ig_finish finish[N];
} made;

typedef struct bench {
    hub_model *hub;
    ig_model *model;
    ig_ctx *ctx;
    ig_adapter *adapter;
} bench;

static int open_bench(void **state) {
    bench *b = calloc(1, sizeof *b);
    b->hub = hub_model_create("llama", IG_F32);
    must(ig_model_create(&b->hub->source, NULL, &b->model));
    must(ig_ctx_create(&(ig_ctx_options){.device = "cpu", .threads = 2}, &b->ctx));
    must(ig_adapter_from_model(b->ctx, b->model, &b->adapter));
    *state = b;
    return 0;
}

static int close_bench(void **state) {
    bench *b = *state;
    ig_adapter_destroy(b->adapter);
    ig_ctx_destroy(b->ctx);
    ig_model_release(b->model);
    hub_model_destroy(b->hub);
    free(b);
    return 0;
}

static ig_session_generate_options defaults(void) {
    return (ig_session_generate_options){.n_sequences = N,
                                         .prompts = prompts,
                                         .prompt_lengths = lengths,
                                         .max_tokens = MOST,
                                         .sampling = {.temperature = -1}};
}

static made generate(const bench *b, const ig_session_generate_options *o, int64_t ctx_len) {
    ig_session *session = NULL;
    made m = {0};
    must(ig_session_create(b->adapter, &(ig_session_options){.n_sequences = N, .ctx_len = ctx_len},
                           &session));
    must(ig_session_generate(session, o, m.tokens[0], m.n, m.finish));
    for (int i = 0; i < o->n_sequences; i++) {
        if (m.finish[i] == IG_FINISH_LENGTH)
            assert_int_equal(ig_session_length(session, i), o->prompt_lengths[i] + m.n[i] - 1);
    }
    ig_session_destroy(session);
    return m;
}

/* The reference: ig_adapter_generate() of one sequence. */
static void keep(void *user, int32_t id, const float *logits) {
    made *m = user;
    (void)logits;
    m->tokens[0][m->n[0]++] = id;
}

static made alone(const bench *b, int i, const ig_sampling *sampling) {
    made m = {0};
    const ig_generate_options o = {.prompt_tokens = prompts[i],
                                   .n_prompt_tokens = (size_t)lengths[i],
                                   .max_tokens = MOST,
                                   .ignore_eos = true,
                                   .sampling = *sampling,
                                   .token = keep,
                                   .user = &m};
    must(ig_adapter_generate(b->adapter, &o, NULL));
    return m;
}

static bool do_nothing(void *user, ig_generate_step *step) {
    int *calls = user;
    assert_int_equal(step->n_sequences, N);
    assert_int_equal(step->vocabulary, V);
    (*calls)++;
    return true;
}

static void each_sequence_is_as_if_it_were_alone(void **state) {
    const ig_sampling all[] = {{.temperature = -1}, {.temperature = 1, .seed = 7, .top_k = 20}};
    for (size_t s = 0; s < 2; s++) {
        int calls = 0;
        ig_session_generate_options o = defaults();
        o.sampling = all[s];
        const made plain = generate(*state, &o, 0);
        o.edit = o.chosen = do_nothing;
        o.user = &calls;
        const made called = generate(*state, &o, 0);
        assert_memory_equal(&plain, &called, sizeof plain);
        assert_int_equal(calls, 2 * MOST);
        for (int i = 0; i < N; i++) {
            ig_sampling sampling = all[s];
            sampling.stream = (uint64_t)i;
            const made m = alone(*state, i, &sampling);
            assert_int_equal(plain.n[i], MOST);
            assert_int_equal(plain.finish[i], IG_FINISH_LENGTH);
            assert_memory_equal(plain.tokens[i], m.tokens[0], sizeof m.tokens[0]);
        }
    }
}

static void a_stop_token_ends_its_sequence_alone(void **state) {
    ig_session_generate_options o = defaults();
    const made all = generate(*state, &o, 0);
    const int32_t stop = all.tokens[1][4];
    o.stop_tokens = &stop;
    o.n_stop_tokens = 1;
    const made m = generate(*state, &o, 0);
    for (int i = 0; i < N; i++) {
        int64_t n = 0;
        while (n < MOST && all.tokens[i][n] != stop) n++;
        assert_int_equal(m.n[i], n < MOST ? n + 1 : MOST);
        assert_int_equal(m.finish[i], n < MOST ? IG_FINISH_STOP : IG_FINISH_LENGTH);
        assert_memory_equal(m.tokens[i], all.tokens[i], (size_t)m.n[i] * sizeof(int32_t));
    }
    o.min_tokens = 10;
    const made late = generate(*state, &o, 0);
    for (int i = 0; i < N; i++) {
        assert_true(late.n[i] >= 10);
        for (int64_t k = 0; k < 10; k++) assert_int_not_equal(late.tokens[i][k], stop);
    }
}

/* Bans every token but 5 + sequence + step, and forces a token now and then. */
static bool edit_logits(void *user, ig_generate_step *step) {
    (void)user;
    for (int64_t i = 0; i < step->n_sequences; i++) {
        float *logits = step->logits + i * V;
        if (step->ended[i]) continue;
        if (step->n_generated == 3) step->tokens[i] = 39;
        for (int64_t t = 0; t < V; t++)
            if (t != 5 + i + step->n_generated) logits[t] = -INFINITY;
        if (i == 1 && step->n_generated == 6) step->ended[i] = true;
    }
    return true;
}

static bool end_after(void *user, ig_generate_step *step) {
    (void)user;
    if (step->n_generated == 4) step->ended[2] = true;
    return step->n_generated < 8;
}

static void callbacks_edit_logits_choose_tokens_and_end_sequences(void **state) {
    static const struct {
        int64_t n;
        ig_finish finish;
    } want[N] = {{9, IG_FINISH_CANCELLED}, {6, IG_FINISH_STOP}, {5, IG_FINISH_STOP}};
    ig_session_generate_options o = defaults();
    o.edit = edit_logits;
    o.chosen = end_after;
    const made m = generate(*state, &o, 0);
    for (int i = 0; i < N; i++) {
        assert_int_equal(m.n[i], want[i].n);
        assert_int_equal(m.finish[i], want[i].finish);
        for (int k = 0; k < m.n[i]; k++) assert_int_equal(m.tokens[i][k], k == 3 ? 39 : 5 + i + k);
    }
}

static void a_full_context_ends_one_sequence_and_not_the_others(void **state) {
    ig_session_generate_options o = defaults();
    const made all = generate(*state, &o, 0);
    const made m = generate(*state, &o, 12);
    for (int i = 0; i < N; i++) {
        const int64_t room = 12 - lengths[i] + 1; /* the last token is not run */
        assert_int_equal(m.n[i], room);
        assert_int_equal(m.finish[i], IG_FINISH_LENGTH);
        assert_memory_equal(m.tokens[i], all.tokens[i], (size_t)m.n[i] * sizeof(int32_t));
    }
}

static void what_cannot_be_is_refused(void **state) {
    const bench *b = *state;
    ig_session *session = NULL;
    made m;
    const int64_t none[N] = {3, 0, 1}, large[N] = {3, 200, 1};
    const int32_t beyond = V;
    static const struct {
        int64_t n_sequences, max_tokens;
        int which;
        const char *words;
    } rows[] = {
        {4, 5, 0, "4 sequences; there are 3"},
        {3, 0, 0, "max_tokens 0"},
        {3, 5, 1, "sequence 1 has no tokens"},
        {3, 5, 2, "sequence 1 has 200 tokens, but the context is 160"},
        {3, 5, 3, "stop token 40 is not below 40"},
    };
    must(ig_session_create(b->adapter, &(ig_session_options){.n_sequences = N}, &session));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ig_session_generate_options o = defaults();
        o.n_sequences = rows[i].n_sequences;
        o.max_tokens = rows[i].max_tokens;
        if (rows[i].which == 1) o.prompt_lengths = none;
        if (rows[i].which == 2) o.prompt_lengths = large;
        if (rows[i].which == 3) o.stop_tokens = &beyond;
        o.n_stop_tokens = rows[i].which == 3;
        refused(ig_session_generate(session, &o, m.tokens[0], m.n, NULL), IG_ERR_ARGUMENT,
                rows[i].words);
    }
    refused(ig_session_generate(session, NULL, m.tokens[0], m.n, NULL), IG_ERR_ARGUMENT, "NULL");
    ig_session_destroy(session);
}

/* ---- without memory ---- */

/* Generates, then runs a padded batch, where allocation n of these fails. */
static ig_status run_short(const bench *b, uint64_t n, meter *memory) {
    const ig_ctx_options options = {
        .device = "cpu", .threads = 1, .allocator = meter_allocator(memory)};
    const int32_t ids[] = {1, 2, 3, 4}, positions[] = {0, 1, 5, 6};
    const ig_padded_batch batch = {.n_rows = 2, .length = 2, .ids = ids, .positions = positions};
    ig_session_generate_options o = defaults();
    ig_ctx *ctx = NULL;
    ig_adapter *adapter = NULL;
    ig_session *session = NULL;
    float out[2 * 2 * V];
    made m;
    o.max_tokens = 2;
    must(ig_ctx_create(&options, &ctx));
    must(ig_adapter_from_model(ctx, b->model, &adapter));
    must(ig_session_create(adapter, &(ig_session_options){.n_sequences = N}, &session));
    memory->fail_at = memory->asked + n;
    ig_status status = ig_session_generate(session, &o, m.tokens[0], m.n, m.finish);
    if (status == IG_OK) status = ig_session_run_padded(session, &batch, out);
    memory->fail_at = 0;
    ig_session_destroy(session);
    ig_adapter_destroy(adapter);
    ig_ctx_destroy(ctx);
    return status;
}

static void every_allocation_may_fail(void **state) {
    meter memory = {.failed = true};
    uint64_t n = 1;
    for (; memory.failed; n++) {
        memory = (meter){0};
        const ig_status status = run_short(*state, n, &memory);
        assert_true(status == IG_OK || (status == IG_ERR_MEMORY && memory.failed));
        assert_int_equal(memory.held, 0);
        assert_true(n < 5000);
    }
    assert_true(n > 20);
}

/* ---- of ig_adapter_generate() ---- */

typedef struct history {
    made made;
    bool bans;
    int64_t calls;
} history;

static void keep_in_history(void *user, int32_t id, const float *logits) {
    keep(&((history *)user)->made, id, logits);
}

/* Sees the tokens so far; may ban the latest. */
static void look_back(void *user, const int32_t *tokens, int64_t n_tokens, float *logits) {
    history *h = user;
    assert_int_equal(n_tokens, lengths[1] + h->calls);
    for (int64_t i = 0; i < n_tokens; i++)
        assert_int_equal(tokens[i], i < lengths[1] ? two[i] : h->made.tokens[0][i - lengths[1]]);
    if (h->bans) logits[tokens[n_tokens - 1]] = -INFINITY;
    h->calls++;
}

static history with_callback(const bench *b, bool bans, int64_t draft_ngram) {
    history h = {.bans = bans};
    const ig_generate_options o = {.prompt_tokens = two,
                                   .n_prompt_tokens = 7,
                                   .max_tokens = MOST,
                                   .ignore_eos = true,
                                   .sampling = {.temperature = -1},
                                   .draft_ngram = draft_ngram,
                                   .edit = look_back,
                                   .token = keep_in_history,
                                   .user = &h};
    must(ig_adapter_generate(b->adapter, &o, NULL));
    assert_int_equal(h.calls, MOST);
    return h;
}

static void an_edit_of_generate_sees_the_tokens_and_changes_the_logits(void **state) {
    const made plain = alone(*state, 1, &(ig_sampling){.temperature = -1});
    for (int64_t ngram = 0; ngram < 3; ngram++) {
        const history same = with_callback(*state, false, ngram);
        assert_memory_equal(&same.made, &plain, sizeof plain);
        const history other = with_callback(*state, true, ngram);
        for (int k = 1; k < MOST; k++)
            assert_int_not_equal(other.made.tokens[0][k], other.made.tokens[0][k - 1]);
    }
}

#define WITH_BENCH(test) cmocka_unit_test_setup_teardown(test, open_bench, close_bench)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_BENCH(each_sequence_is_as_if_it_were_alone),
        WITH_BENCH(a_stop_token_ends_its_sequence_alone),
        WITH_BENCH(callbacks_edit_logits_choose_tokens_and_end_sequences),
        WITH_BENCH(a_full_context_ends_one_sequence_and_not_the_others),
        WITH_BENCH(what_cannot_be_is_refused),
        WITH_BENCH(every_allocation_may_fail),
        WITH_BENCH(an_edit_of_generate_sees_the_tokens_and_changes_the_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
