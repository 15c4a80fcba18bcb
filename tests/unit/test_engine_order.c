/*
 * Who goes first, and how much of a prompt fits a step: decisions of the engine that depend on
 * times, which these tests set.
 */
#include "base/clock.h"
#include "engine/scheduler.h"
#include "unit/engine_runs.h"

/* ---- the queue ---- */

enum { WAITING = 8 };

typedef struct queue {
    ig_engine engine;
    ig_job jobs[WAITING];
    ig_reply replies[WAITING];
    int count;
} queue;

/* A reply that has waited for so long. */
static ig_reply *add(queue *q, uint64_t party, int32_t priority, double waited_ms) {
    ig_job *job = &q->jobs[q->count];
    ig_reply *r = &q->replies[q->count];
    job->request = (ig_request){.party = party, .priority = priority};
    job->submitted_ms = ig_clock_ms() - waited_ms;
    r->job = job;
    r->arrival = (uint64_t)++q->count;
    ig_waiting_add(&q->engine, r);
    return r;
}

/* Takes all in order: numbers of arrival. */
static void assert_order(queue *q, const char *want) {
    char got[WAITING + 1] = {0};
    ig_reply *r;
    for (int i = 0; (r = ig_waiting_next(&q->engine, false)); i++) {
        got[i] = (char)('0' + r->arrival);
        ig_waiting_remove(&q->engine, r);
        ig_waiting_note_served(&q->engine, r);
    }
    assert_string_equal(got, want);
    memset(q, 0, sizeof *q);
}

static void parties_take_turns_and_each_in_order(void **state) {
    static queue q;
    (void)state;
    for (int i = 0; i < 4; i++) add(&q, 1, 0, 0);
    add(&q, 2, 0, 0);
    add(&q, 2, 0, 0);
    add(&q, 3, 0, 0);
    assert_order(&q, "1572634");
}

/* More parties than there is room for: the one served the longest time ago is forgotten. */
static void a_new_party_is_before_those_that_were_served(void **state) {
    static queue q;
    (void)state;
    for (uint64_t party = 1; party <= IG_ENGINE_PARTIES + 1; party++) {
        ig_reply *r = add(&q, party, 0, 0);
        ig_waiting_remove(&q.engine, r);
        ig_waiting_note_served(&q.engine, r);
        q.count = 0;
    }
    add(&q, IG_ENGINE_PARTIES, 0, 0);
    add(&q, 3, 0, 0);
    add(&q, 1, 0, 0); /* forgotten */
    assert_order(&q, "321");
}

static void priority_goes_before_parties_and_waiting_raises_it(void **state) {
    static queue q;
    (void)state;
    add(&q, 1, 0, 0);
    add(&q, 1, 2, 0);
    add(&q, 2, 1, 0);
    add(&q, 2, -5, 0);
    assert_order(&q, "2314");
    add(&q, 1, 2, 0);
    add(&q, 2, 0, 35e3); /* half a minute: three more */
    add(&q, 3, -3, 35e3);
    assert_order(&q, "213");
}

static void further_choices_wait_for_the_prompt(void **state) {
    static queue q;
    (void)state;
    add(&q, 1, 9, 0)->choice = 1;
    add(&q, 1, 0, 0);
    ig_reply *first = &q.replies[0];
    assert_ptr_equal(ig_waiting_next(&q.engine, false), &q.replies[1]);
    first->job->is_prefilled = true;
    assert_ptr_equal(ig_waiting_next(&q.engine, false), first);
    assert_null(ig_waiting_next(&q.engine, true));
}

static void a_waiting_job_knows_its_position(void **state) {
    int32_t prompt[50];
    int64_t seen[3][4] = {{0}};
    int n_seen[3] = {0};
    fixture f = open_engine(&(ig_engine_options){.n_sequences = 1, .no_prefix_cache = true});
    ig_job *first, *jobs[3];
    ig_job_event event;
    (void)state;
    make_prompt(prompt, 50, 0, 1);
    ig_request q = {.tokens = prompt, .n_tokens = 50, .ignore_eos = true};
    first = submit(&f, &q);
    do assert_true(ig_job_wait(first, -1));
    while (ig_job_poll(first, &event) && event.type != IG_JOB_EVENT_TOKEN);
    q.max_tokens = 2;
    for (int i = 0; i < 3; i++) {
        q.priority = i == 2; /* before the second */
        jobs[i] = submit(&f, &q);
        assert_true(ig_job_wait(jobs[i], -1));
        for (; ig_job_poll(jobs[i], &event); n_seen[i]++) {
            assert_int_equal(event.type, IG_JOB_EVENT_PROGRESS);
            assert_int_equal(event.total, 50);
            seen[i][n_seen[i]] = event.position;
        }
    }
    assert_int_equal(seen[0][0], 0);
    assert_int_equal(seen[1][0], 1);
    assert_int_equal(seen[2][0], 0);
    (void)stats_of(&f);
    assert_true(ig_job_poll(jobs[1], &event)); /* it was overtaken */
    assert_int_equal(event.position, 2);
    ig_job_cancel(jobs[0]);
    for (int i = 0; i < 3; i++) assert_int_equal(collect(jobs[i]).status, IG_OK);
    ig_job_release(first);
    close_engine(&f);
}

/* ---- prompt rows beside streams ---- */

static void slower_rows_are_fewer(void **state) {
    ig_step_costs costs = {0};
    (void)state;
    assert_int_equal(ig_step_costs_prompt_tokens(&costs, 50, 0, 128), 128); /* no stream waits */
    assert_int_equal(ig_step_costs_prompt_tokens(&costs, 50, 4, 128), 32);  /* not known yet */
    costs = (ig_step_costs){.decode_ms = {10, 12, 20}, .prompt_token_ms = 0.5};
    assert_int_equal(ig_step_costs_prompt_tokens(&costs, 50, 1, 128), 80);
    assert_int_equal(ig_step_costs_prompt_tokens(&costs, 50, 2, 128), 76);
    assert_int_equal(ig_step_costs_prompt_tokens(&costs, 50, 4, 128), 60);
    assert_int_equal(ig_step_costs_prompt_tokens(&costs, 50, 16, 128),
                     60); /* as of the next smaller */
    assert_int_equal(ig_step_costs_prompt_tokens(&costs, 30, 4, 128), 20);
    assert_int_equal(ig_step_costs_prompt_tokens(&costs, 500, 4, 128),
                     124); /* what there is room for */
    assert_int_equal(ig_step_costs_prompt_tokens(&costs, 5, 4, 128), IG_STEP_LEAST_PROMPT);
    assert_int_equal(ig_step_costs_prompt_tokens(&costs, 1e300, 4, 128), 124);
    costs.prompt_token_ms = 1e-300;
    assert_int_equal(ig_step_costs_prompt_tokens(&costs, 50, 4, 128), 124);
    assert_int_equal(ig_step_costs_prompt_tokens(&costs, 50, 128, 128), 0);
}

static void rates_follow_what_is_measured(void **state) {
    ig_step_costs costs = {0};
    (void)state;
    ig_step_costs_learn(&costs, 4, 0, 10);
    ig_step_costs_learn(&costs, 4, 40, 50);
    assert_int_equal(ig_step_costs_prompt_tokens(&costs, 50, 4, 128), 40);
    for (int i = 0; i < 30; i++) ig_step_costs_learn(&costs, 4, 40, 90); /* slower: 2 ms a token */
    assert_int_equal(ig_step_costs_prompt_tokens(&costs, 50, 4, 128), 20);
    for (int i = 0; i < 30; i++) ig_step_costs_learn(&costs, 4, 0, 30); /* and so are streams */
    assert_int_equal(ig_step_costs_prompt_tokens(&costs, 50, 4, 128), 10);
    for (int i = 0; i < 60; i++)
        ig_step_costs_learn(&costs, 4, 40, 31); /* noise: never for nothing */
    assert_true(costs.prompt_token_ms > 0.05);
}

static ig_status be_slow(ig_adapter *adapter, void *user) {
    ig_engine *e = user;
    (void)adapter;
    for (int i = 0; i < 16; i++) e->costs.decode_ms[i] = 49;
    e->costs.prompt_token_ms = 1000;
    return IG_OK;
}

/* Rows that seem slow come in pieces of 8 beside a stream, with the bits of all at once. */
static void a_prompt_beside_a_stream_comes_in_pieces(void **state) {
    int32_t stream[20], prompt[200];
    ig_engine_stats before, after;
    ig_job_event event;
    fixture f = open_engine(&(ig_engine_options){.no_prefix_cache = true});
    (void)state;
    make_prompt(stream, 20, 0, 1);
    make_prompt(prompt, 200, 0, 2);
    const ig_request q = {.tokens = prompt, .n_tokens = 200, .max_tokens = 5, .ignore_eos = true};
    const result alone = ask(&f, &q);
    ig_job *job = submit(
        &f, &(ig_request){
                .tokens = stream, .n_tokens = 20, .max_tokens = CONTEXT - 20, .ignore_eos = true});
    do assert_true(ig_job_wait(job, -1));
    while (ig_job_poll(job, &event) && event.type != IG_JOB_EVENT_TOKEN);
    OK(ig_engine_call(f.engine, be_slow, f.engine));
    ig_engine_get_stats(f.engine, &before);
    const result beside = ask(&f, &q);
    ig_engine_get_stats(f.engine, &after);
    assert_same(&beside.choice[0], &alone.choice[0]);
    assert_true(after.n_steps[IG_STEP_MIXED] - before.n_steps[IG_STEP_MIXED] >= 15);
    ig_job_release(job);
    close_engine(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parties_take_turns_and_each_in_order),
        cmocka_unit_test(a_new_party_is_before_those_that_were_served),
        cmocka_unit_test(priority_goes_before_parties_and_waiting_raises_it),
        cmocka_unit_test(further_choices_wait_for_the_prompt),
        cmocka_unit_test(a_waiting_job_knows_its_position),
        cmocka_unit_test(slower_rows_are_fewer),
        cmocka_unit_test(rates_follow_what_is_measured),
        cmocka_unit_test(a_prompt_beside_a_stream_comes_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
