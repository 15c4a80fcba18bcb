/*
 * The engine: replies with the bits of an idle machine, whatever runs beside them; requests that
 * wait, are preempted, cancelled or refused; and what is counted.
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "unit/engine_runs.h"

static void assert_as_generated(const ig_request *q) {
    fixture idle = {0}, f = open_engine(NULL);
    open_model(&idle, 1);
    const reply want = generate(&idle, q);
    const result got = ask(&f, q);
    assert_int_equal(got.status, IG_OK);
    assert_int_equal(got.choice[0].n_text, want.n_text);
    assert_memory_equal(got.choice[0].text, want.text, want.n_text);
    assert_int_equal(got.choice[0].finish, want.finish);
    close_engine(&f);
    close_engine(&idle);
}

static void a_reply_is_what_generate_makes(void **state) {
    int32_t prompt[100];
    static const char *const stops[] = {"e", "nothing like this", "ab"};
    (void)state;
    make_prompt(prompt, 100, 0, 1);
    ig_request q = {.tokens = prompt, .n_tokens = 100, .max_tokens = 40};
    assert_as_generated(&q);
    q.sampling = (ig_sampling){.temperature = -1};
    assert_as_generated(&q);
    q.sampling = (ig_sampling){.seed = 3, .repeat_penalty = 1.2};
    q.ignore_eos = true;
    assert_as_generated(&q);
    q.sampling = (ig_sampling){.seed = 4, .mirostat = 2};
    q.stop = stops;
    q.n_stop = 3;
    assert_as_generated(&q);
    q.sampling = (ig_sampling){.temperature = -1};
    q.max_tokens = 0; /* until the context is full */
    q.n_stop = 0;
    q.draft_ngram = 2;
    assert_as_generated(&q);
}

/* ---- a busy engine ---- */

enum { CLIENTS = 16, EACH = 6, SALTS = 2 };

typedef struct client {
    const fixture *f;
    pthread_t thread;
    int number;
    result results[EACH];
    reply want[EACH];
} client;

static size_t length_of(int number, int i) {
    return 20 + (size_t)(number * 37 + i * 61) % (CONTEXT / 2);
}

/* Prompts of three kinds share beginnings; sampling, drafts and lengths vary. */
static ig_request request_of(int number, int i, int32_t *prompt) {
    static const char salts[SALTS][4] = {"one", "two"};
    const size_t n = length_of(number, i);
    make_prompt(prompt, n, 150, (unsigned)(number * 7 + i) % 5);
    return (ig_request){
        .tokens = prompt,
        .n_tokens = n,
        .max_tokens = 10 + (number * 13 + i * 29) % 150,
        .sampling = {.temperature = i % 2 ? -1 : 0.9, .seed = (uint64_t)(number * 100 + i)},
        .ignore_eos = true,
        .draft_ngram = i % 3 == 1 ? 1 : 0,
        .salt = salts[number % SALTS],
        .salt_bytes = 4,
        .party = (uint64_t)number % 3,
        .priority = i % 4,
    };
}

static void *run_client(void *arg) {
    client *c = arg;
    for (int i = 0; i < EACH; i++) {
        int32_t prompt[CONTEXT];
        const ig_request q = request_of(c->number, i, prompt);
        ig_job *job = NULL;
        if (i % 3 == 2) { /* another that is given up at some point */
            ig_job *given_up = submit(c->f, &q);
            ig_job_wait(given_up, c->number % 2 ? -1 : 2);
            ig_job_release(given_up);
        }
        while (ig_engine_submit(c->f->engine, &q, &job) == IG_ERR_BUSY) usleep(1000);
        c->results[i] = collect(job);
    }
    return NULL;
}

static void replies_of_a_busy_engine_are_those_of_an_idle_one(void **state) {
    static client clients[CLIENTS];
    fixture idle = {0};
    (void)state;
    open_model(&idle, 1);
    /* Room for three of twelve sequences: pages run out. */
    fixture f = open_engine(&(ig_engine_options){.n_sequences = 12, .kv_bytes = 3 * CONTEXT * 512});
    for (int c = 0; c < CLIENTS; c++) {
        clients[c].f = &f;
        clients[c].number = c;
        for (int i = 0; i < EACH; i++) {
            int32_t prompt[CONTEXT];
            const ig_request q = request_of(c, i, prompt);
            clients[c].want[i] = generate(&idle, &q);
        }
    }
    for (int c = 0; c < CLIENTS; c++)
        assert_int_equal(pthread_create(&clients[c].thread, NULL, run_client, &clients[c]), 0);
    for (int c = 0; c < CLIENTS; c++) pthread_join(clients[c].thread, NULL);
    for (int c = 0; c < CLIENTS; c++)
        for (int i = 0; i < EACH; i++) {
            const reply *got = &clients[c].results[i].choice[0], *want = &clients[c].want[i];
            if (clients[c].results[i].status != IG_OK) fail_msg("%s", clients[c].results[i].error);
            assert_int_equal(got->n_text, want->n_text);
            assert_memory_equal(got->text, want->text, want->n_text);
            assert_int_equal(got->finish, want->finish);
        }

    const ig_engine_stats stats = stats_of(&f); /* what this is about has happened */
    assert_true(stats.n_preempted > 0);
    assert_true(stats.n_accepted > 0);
    assert_true(stats.n_accepted < stats.n_drafted);
    assert_true(stats.n_evicted_pages > 0);
    assert_true(stats.n_cache_hits > 0);
    assert_true(stats.n_cancelled[IG_JOB_WAITING] + stats.n_cancelled[IG_JOB_PREFILL] +
                    stats.n_cancelled[IG_JOB_DECODE] >
                0);
    assert_int_equal(stats.n_failed, 0);
    assert_int_equal(stats.n_running + stats.n_waiting, 0);
    assert_int_equal(stats.n_free_pages + stats.n_cached_pages, stats.n_pages);
    close_engine(&f);
    close_engine(&idle);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { ROUNDS = 3 }; /* sanitizers are slow */
#else
enum { ROUNDS = 32 };
#endif

/* Drafts that are right, of replies that are preempted in the middle of a step. */
static void a_preempted_draft_is_forgotten(void **state) {
    int32_t prompt[2][40];
    fixture idle = {0}, f = open_engine(&(ig_engine_options){.n_sequences = 2, .kv_bytes = 1});
    int64_t n_preempted = 0, n_accepted = 0;
    (void)state;
    open_model(&idle, 1);
    for (unsigned round = 0; round < ROUNDS; round++) {
        ig_job *jobs[2];
        reply want[2];
        ig_request q[2];
        for (unsigned i = 0; i < 2; i++) {
            const size_t n = 10 + (round * 7 + i * 13) % 30;
            make_prompt(prompt[i], n, 0, 2 * round + i);
            q[i] = (ig_request){.tokens = prompt[i],
                                .n_tokens = n,
                                .max_tokens = 320,
                                .sampling = {.top_k = 2, .seed = 2 * round + i},
                                .ignore_eos = true,
                                .draft_ngram = 1};
            want[i] = generate(&idle, &q[i]);
        }
        for (int i = 0; i < 2; i++) jobs[i] = submit(&f, &q[i]);
        for (int i = 0; i < 2; i++) {
            const result got = collect(jobs[i]);
            assert_int_equal(got.choice[0].n_text, want[i].n_text);
            assert_memory_equal(got.choice[0].text, want[i].text, want[i].n_text);
            n_preempted += got.stats.n_preempted;
            n_accepted += got.stats.n_accepted;
        }
    }
    assert_true(n_preempted >= ROUNDS / 8);
    assert_true(n_accepted > 100);
    close_engine(&f);
    close_engine(&idle);
}

/* ---- the prefix cache ---- */

static void a_repeated_prompt_is_cached_but_for_its_last_token(void **state) {
    int32_t prompt[300];
    fixture f = open_engine(NULL);
    (void)state;
    make_prompt(prompt, 300, 0, 1);
    const ig_request q = {.tokens = prompt, .n_tokens = 300, .max_tokens = 5};
    const result cold = ask(&f, &q), warm = ask(&f, &q);
    assert_int_equal(cold.stats.n_cached_tokens, 0);
    assert_int_equal(warm.stats.n_cached_tokens, 299);
    assert_same(&warm.choice[0], &cold.choice[0]);

    ig_request other = q; /* a beginning that ends within a page */
    int32_t changed[300];
    memcpy(changed, prompt, sizeof prompt);
    changed[200]++;
    other.tokens = changed;
    assert_int_equal(ask(&f, &other).stats.n_cached_tokens, 200);

    ig_request salted = q;
    salted.salt = "key";
    salted.salt_bytes = 3;
    assert_int_equal(ask(&f, &salted).stats.n_cached_tokens, 0);
    assert_int_equal(ask(&f, &salted).stats.n_cached_tokens, 299);

    ig_request fresh = q;
    fresh.no_prefix_cache = true;
    assert_int_equal(ask(&f, &fresh).stats.n_cached_tokens, 0);
    close_engine(&f);
}

static void a_reply_is_part_of_the_cache(void **state) {
    int32_t prompt[CONTEXT];
    fixture f = open_engine(NULL);
    (void)state;
    make_prompt(prompt, 70, 0, 3);
    ig_request q = {.tokens = prompt, .n_tokens = 70, .max_tokens = 30, .ignore_eos = true};
    const result first = ask(&f, &q);
    assert_int_equal(first.choice[0].n_tokens, 30);
    memcpy(prompt + 70, first.choice[0].tokens, 30 * sizeof *prompt);
    make_prompt(prompt + 100, 20, 0, 4); /* the next turn */
    q.n_tokens = 120;
    assert_int_equal(ask(&f, &q).stats.n_cached_tokens, 99); /* the last token was never run */
    close_engine(&f);
}

static void prefill_only_warms_the_cache(void **state) {
    int32_t prompt[200];
    fixture f = open_engine(NULL);
    (void)state;
    make_prompt(prompt, 200, 0, 3);
    ig_request q = {.tokens = prompt, .n_tokens = 200, .prefill_only = true};
    const result warmed = ask(&f, &q);
    assert_int_equal(warmed.status, IG_OK);
    assert_int_equal(warmed.stats.n_generated, 0);
    assert_int_equal(warmed.processed, 200);
    assert_int_equal(warmed.total, 200);
    q.prefill_only = false;
    q.max_tokens = 1;
    assert_int_equal(ask(&f, &q).stats.n_cached_tokens, 199);
    close_engine(&f);
}

/* ---- choices, log-probabilities, ends ---- */

static void choices_share_the_prompt_and_differ_by_stream(void **state) {
    int32_t prompt[100];
    fixture f = open_engine(&(ig_engine_options){.n_sequences = 3});
    (void)state;
    make_prompt(prompt, 100, 0, 5);
    ig_request q = {.tokens = prompt,
                    .n_tokens = 100,
                    .max_tokens = 20,
                    .n_choices = 4,
                    .sampling = {.seed = 11},
                    .no_prefix_cache = true};
    const result all = ask(&f, &q);
    const ig_engine_stats stats = stats_of(&f);
    assert_int_equal(stats.n_prompt_tokens, 100); /* once */
    q.n_choices = 1;
    for (uint64_t i = 0; i < 4; i++) {
        q.sampling.stream = i;
        const result alone = ask(&f, &q);
        assert_same(&all.choice[i], &alone.choice[0]);
    }
    assert_memory_not_equal(all.choice[0].tokens, all.choice[1].tokens, 10 * sizeof(int32_t));
    close_engine(&f);
}

/* Four choices of 276 tokens and more, in 9 pages of 64: 4 are common, each has a copy of the
 * fifth, and the job holds that. */
static void choices_share_pages(void **state) {
    static int32_t prompt[276];
    fixture f = open_engine(&(ig_engine_options){.n_sequences = 4, .kv_bytes = 9 * 64 * 512});
    (void)state;
    make_prompt(prompt, 276, 0, 5);
    const ig_request q = {
        .tokens = prompt, .n_tokens = 276, .max_tokens = 30, .n_choices = 4, .ignore_eos = true};
    assert_int_equal(ask(&f, &q).status, IG_OK);
    const ig_engine_stats stats = stats_of(&f);
    assert_int_equal(stats.n_pages, 9);
    assert_int_equal(stats.n_preempted, 0);
    assert_int_equal(stats.n_generated, 4 * 30);
    assert_true(stats.n_steps[IG_STEP_DECODE] < 2 * 30); /* they ran together */
    close_engine(&f);
}

static void logprobs_are_those_of_the_logits(void **state) {
    int32_t prompt[90];
    fixture idle = {0}, f = open_engine(NULL);
    ig_session *session;
    float logits[VOCABULARY];
    (void)state;
    open_model(&idle, 1);
    make_prompt(prompt, 90, 0, 6);
    const ig_request q = {.tokens = prompt,
                          .n_tokens = 90,
                          .max_tokens = 4,
                          .sampling = {.temperature = -1},
                          .logprobs = true,
                          .top_logprobs = 3,
                          .prompt_logprobs = true};
    const result got = ask(&f, &q);
    OK(ig_session_create(idle.adapter, NULL, &session));
    assert_int_equal(got.n_prompt, 90);
    assert_true(isnan(got.prompt_logprobs[0]));
    for (int i = 0; i < 89; i++) {
        OK(ig_session_feed(session, 0, &prompt[i], 1, logits));
        const double want = ig_logits_logprob(logits, VOCABULARY, prompt[i + 1]);
        assert_true(got.prompt_logprobs[i + 1] == want);
    }
    OK(ig_session_feed(session, 0, &prompt[89], 1, logits));
    const double want = ig_logits_logprob(logits, VOCABULARY, got.choice[0].tokens[0]);
    assert_true(fabs(got.choice[0].logprobs[0] - want) < 1e-12);
    ig_session_destroy(session);
    close_engine(&f);
    close_engine(&idle);
}

static void min_tokens_hold_off_the_end(void **state) {
    int32_t prompt[10], all[VOCABULARY];
    fixture f = open_engine(NULL);
    (void)state;
    make_prompt(prompt, 10, 0, 7);
    ig_request q = {.tokens = prompt, .n_tokens = 10, .max_tokens = 50, .ignore_eos = true};
    const int32_t first = ask(&f, &q).choice[0].tokens[0];
    q.stop_tokens = &first;
    q.n_stop_tokens = 1;
    const result stopped = ask(&f, &q);
    assert_int_equal(stopped.choice[0].n_tokens, 0);
    assert_int_equal(stopped.choice[0].finish, IG_FINISH_STOP);
    assert_int_equal(stopped.stats.n_generated, 1);
    q.min_tokens = 5;
    assert_true(ask(&f, &q).choice[0].n_tokens >= 5);
    for (int i = 0; i < VOCABULARY; i++) all[i] = i;
    q.min_tokens = 0;
    q.stop_tokens = all;
    q.n_stop_tokens = VOCABULARY;
    assert_int_equal(ask(&f, &q).stats.n_generated, 1);
    close_engine(&f);
}

/* ---- embeddings ---- */

static void embeddings_are_the_same_beside_others(void **state) {
    int32_t prompt[200];
    fixture idle = {0}, f = open_engine(NULL);
    ig_job *jobs[8], *busy[4];
    float want[64];
    char chars[200];
    (void)state;
    open_model(&idle, 1);
    make_prompt(prompt, 200, 0, 8);
    for (int i = 0; i < 200; i++) chars[i] = (char)prompt[i];
    OK(ig_adapter_embed(idle.adapter, chars, 200, IG_POOL_MEAN, want, NULL));
    const ig_request text = {.tokens = prompt, .n_tokens = 150, .max_tokens = 100};
    const ig_request embed = {
        .tokens = prompt, .n_tokens = 200, .embed = true, .pooling = IG_POOL_MEAN};
    for (int i = 0; i < 4; i++) busy[i] = submit(&f, &text);
    for (int i = 0; i < 8; i++) jobs[i] = submit(&f, &embed);
    for (int i = 0; i < 8; i++) {
        const result got = collect(jobs[i]);
        assert_int_equal(got.status, IG_OK);
        assert_int_equal(got.n_embedding, 64);
        assert_memory_equal(got.embedding, want, sizeof want);
    }
    for (int i = 0; i < 4; i++) assert_int_equal(collect(busy[i]).status, IG_OK);
    close_engine(&f);
    close_engine(&idle);
}

/* ---- who waits, and what is refused ---- */

static void a_full_queue_is_busy(void **state) {
    int32_t prompt[200];
    fixture f = open_engine(&(ig_engine_options){.n_sequences = 1, .max_queue = 2});
    ig_job *jobs[16] = {0};
    int n = 0;
    ig_status status = IG_OK;
    (void)state;
    make_prompt(prompt, 200, 0, 9);
    const ig_request q = {.tokens = prompt, .n_tokens = 200, .max_tokens = 300, .ignore_eos = true};
    while (n < 16 && (status = ig_engine_submit(f.engine, &q, &jobs[n])) == IG_OK) n++;
    refused(status, IG_ERR_BUSY, "2 requests wait already");
    for (int i = 0; i < n; i++) assert_int_equal(collect(jobs[i]).status, IG_OK);
    ig_engine_stats stats;
    ig_engine_get_stats(f.engine, &stats);
    assert_int_equal(stats.n_rejected_queue, 1);
    close_engine(&f);
}

static void time_limits_end_a_job(void **state) {
    int32_t prompt[200];
    fixture f = open_engine(
        &(ig_engine_options){.n_sequences = 1, .queue_timeout_ms = 1, .no_prefix_cache = true});
    (void)state;
    make_prompt(prompt, 200, 0, 9);
    ig_request q = {.tokens = prompt, .n_tokens = 200, .ignore_eos = true};
    ig_job *first = submit(&f, &q);
    assert_true(ig_job_wait(first, -1)); /* it runs */
    ig_job *second = submit(&f, &q);
    const result waited = collect(second);
    assert_int_equal(waited.status, IG_ERR_BUSY);
    assert_non_null(strstr(waited.error, "has waited"));
    assert_int_equal(collect(first).status, IG_OK);
    q.timeout_ms = 1e-3;
    const result timed = ask(&f, &q);
    assert_int_equal(timed.status, IG_OK);
    assert_int_equal(timed.choice[0].finish, IG_FINISH_CANCELLED);
    close_engine(&f);
}

static void parties_are_served_alternately(void **state) {
    int32_t prompt[100];
    fixture f = open_engine(&(ig_engine_options){.n_sequences = 1, .no_prefix_cache = true});
    ig_job *jobs[5];
    double started[5];
    (void)state;
    make_prompt(prompt, 100, 0, 9);
    ig_request q = {.tokens = prompt, .n_tokens = 100, .max_tokens = 40, .ignore_eos = true};
    q.party = 1;
    for (int i = 0; i < 4; i++) jobs[i] = submit(&f, &q);
    q.party = 2;
    jobs[4] = submit(&f, &q);
    for (int i = 0; i < 5; i++) started[i] = collect(jobs[i]).stats.queue_ms;
    assert_true(started[4] < started[2]); /* the second party does not wait for all of the first */
    close_engine(&f);
}

static void what_cannot_be_is_refused_with_its_numbers(void **state) {
    int32_t prompt[CONTEXT + 1] = {0}, bad[] = {1, VOCABULARY};
    fixture f = open_engine(NULL);
    ig_job *job = NULL;
    (void)state;
    ig_request q = {.tokens = prompt, .n_tokens = CONTEXT};
    refused(ig_engine_submit(f.engine, &q, &job), IG_ERR_ARGUMENT, "512 tokens");
    q = (ig_request){.tokens = bad, .n_tokens = 2};
    refused(ig_engine_submit(f.engine, &q, &job), IG_ERR_ARGUMENT, "prompt token 1 is 256");
    q = (ig_request){.tokens = prompt};
    refused(ig_engine_submit(f.engine, &q, &job), IG_ERR_ARGUMENT, "no tokens");
    q = (ig_request){.tokens = prompt, .n_tokens = 2, .top_logprobs = 21};
    refused(ig_engine_submit(f.engine, &q, &job), IG_ERR_ARGUMENT, "top_logprobs is 21: 0 to 20");
    q = (ig_request){.tokens = prompt, .n_tokens = 2, .max_tokens = -1};
    refused(ig_engine_submit(f.engine, &q, &job), IG_ERR_ARGUMENT, "max_tokens is -1");
    q = (ig_request){.tokens = prompt, .n_tokens = 2, .sampling = {.temperature = NAN}};
    refused(ig_engine_submit(f.engine, &q, &job), IG_ERR_ARGUMENT, "temperature");
    assert_null(job);
    close_engine(&f);
}

/* ---- the end of an engine ---- */

static ig_status count_call(ig_adapter *adapter, void *user) {
    assert_string_equal(ig_adapter_architecture(adapter), "gpt");
    return ++*(int *)user == 2 ? IG_FAIL(IG_ERR_STATE, "the second") : IG_OK;
}

static void calls_run_between_steps(void **state) {
    fixture f = open_engine(NULL);
    int calls = 0;
    (void)state;
    OK(ig_engine_call(f.engine, count_call, &calls));
    refused(ig_engine_call(f.engine, count_call, &calls), IG_ERR_STATE, "the second");
    assert_int_equal(calls, 2);
    close_engine(&f);
}

static void destroying_cancels_and_jobs_stay_valid(void **state) {
    int32_t prompt[200];
    fixture f = open_engine(&(ig_engine_options){.n_sequences = 2});
    ig_job *jobs[5];
    (void)state;
    make_prompt(prompt, 200, 0, 9);
    const ig_request q = {.tokens = prompt, .n_tokens = 200, .ignore_eos = true};
    for (int i = 0; i < 5; i++) jobs[i] = submit(&f, &q);
    ig_job_wait(jobs[0], -1);
    close_engine(&f);
    for (int i = 0; i < 5; i++) {
        const result got = collect(jobs[i]);
        assert_int_equal(got.status, IG_OK);
        assert_true(got.choice[0].is_finished);
    }
}

/* When a job had news, from its first step on: counted by the scheduler thread. */
typedef struct news {
    ig_job *job;
    int *clock;
    int first, last;
} news;

static void note_news(void *user) {
    news *n = user;
    if (ig_job_get_stats(n->job).queue_ms == 0) return; /* its position */
    n->last = ++*n->clock;
    if (n->first == 0) n->first = n->last;
}

/* A long reply and three short ones, with room for two. */
static void run_four(bool static_batching, news *out) {
    int32_t prompt[60];
    int clock = 0;
    fixture f =
        open_engine(&(ig_engine_options){.n_sequences = 2, .static_batching = static_batching});
    make_prompt(prompt, 60, 0, 9);
    ig_request q = {.tokens = prompt, .n_tokens = 60, .ignore_eos = true, .notify = note_news};
    for (int i = 0; i < 4; i++) {
        out[i] = (news){.clock = &clock};
        q.max_tokens = i == 0 ? 400 : 5;
        q.user = &out[i];
        OK(ig_engine_submit(f.engine, &q, &out[i].job));
    }
    for (int i = 0; i < 4; i++) assert_int_equal(collect(out[i].job).status, IG_OK);
    close_engine(&f);
}

static void static_batches_start_when_the_one_before_has_ended(void **state) {
    news seen[4];
    (void)state;
    run_four(true, seen);
    assert_true(seen[2].first > seen[0].last);
    assert_true(seen[3].first > seen[0].last);
    run_four(false, seen);
    assert_true(seen[2].first < seen[0].last);
    assert_true(seen[3].first < seen[0].last);
}

/* ---- cancelled jobs ---- */

static ig_job *submit_until(const fixture *f, const ig_request *q, ig_job_event_type type) {
    ig_job *job = submit(f, q);
    ig_job_event event;
    do assert_true(ig_job_wait(job, -1));
    while (ig_job_poll(job, &event) && event.type != type);
    return job;
}

static void a_cancelled_job_gives_its_pages_back_from_any_state(void **state) {
    static int32_t prompt[CONTEXT];
    (void)state;
    fixture f =
        open_engine(&(ig_engine_options){.n_sequences = 1, .no_prefix_cache = true, .ubatch = 8});
    make_prompt(prompt, CONTEXT, 0, 3);
    const ig_request text = {.tokens = prompt, .n_tokens = 10, .ignore_eos = true};
    const ig_request read = {.tokens = prompt, .n_tokens = 500, .ignore_eos = true};
    ig_job *running = submit_until(&f, &text, IG_JOB_EVENT_TOKEN), *waiting = submit(&f, &text);
    ig_job_cancel(waiting);
    const result never = collect(waiting);
    assert_int_equal(never.choice[0].finish, IG_FINISH_CANCELLED);
    assert_int_equal(never.stats.n_generated, 0);
    ig_job_cancel(running);
    const result some = collect(running);
    assert_int_equal(some.choice[0].finish, IG_FINISH_CANCELLED);
    ig_job *reading = submit_until(&f, &read, IG_JOB_EVENT_PROGRESS);
    ig_job_cancel(reading);
    assert_int_equal(collect(reading).stats.n_generated, 0);
    const ig_engine_stats stats = stats_of(&f);
    for (int i = 0; i < IG_JOB_STATES; i++) assert_int_equal(stats.n_cancelled[i], 1);
    assert_int_equal(stats.n_finished[IG_FINISH_CANCELLED], 3);
    assert_int_equal(stats.n_free_pages, stats.n_pages);
    assert_int_equal(stats.n_running + stats.n_waiting, 0);
    close_engine(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_is_what_generate_makes),
        cmocka_unit_test(replies_of_a_busy_engine_are_those_of_an_idle_one),
        cmocka_unit_test(a_preempted_draft_is_forgotten),
        cmocka_unit_test(a_repeated_prompt_is_cached_but_for_its_last_token),
        cmocka_unit_test(a_reply_is_part_of_the_cache),
        cmocka_unit_test(prefill_only_warms_the_cache),
        cmocka_unit_test(choices_share_the_prompt_and_differ_by_stream),
        cmocka_unit_test(choices_share_pages),
        cmocka_unit_test(logprobs_are_those_of_the_logits),
        cmocka_unit_test(min_tokens_hold_off_the_end),
        cmocka_unit_test(embeddings_are_the_same_beside_others),
        cmocka_unit_test(a_full_queue_is_busy),
        cmocka_unit_test(time_limits_end_a_job),
        cmocka_unit_test(parties_are_served_alternately),
        cmocka_unit_test(what_cannot_be_is_refused_with_its_numbers),
        cmocka_unit_test(calls_run_between_steps),
        cmocka_unit_test(destroying_cancels_and_jobs_stay_valid),
        cmocka_unit_test(static_batches_start_when_the_one_before_has_ended),
        cmocka_unit_test(a_cancelled_job_gives_its_pages_back_from_any_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
