/*
 * The team of threads: every thread runs once a round, and none passes a barrier too early.
 *
 * The sums here are exact only if each barrier orders all that was written before it; memory that
 * threads hand each other is plain, so a thread sanitizer sees a barrier that does not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/team.h"

enum { MOST = 8, ROUNDS = 2000, PHASES = 700 };

static const uint32_t sizes[] = {1, 2, 3, MOST};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static ig_team *team_of(uint32_t threads) {
    ig_team *team = NULL;
    assert_int_equal(ig_team_create(&ig_heap, threads, &team), IG_OK);
    assert_int_equal(ig_team_threads(team), threads);
    return team;
}

/* ---- rounds ---- */

typedef struct count {
    uint32_t threads;
    uint64_t calls[MOST]; /* plain: each thread has its own */
    uint64_t round;       /* written between rounds, read inside */
    uint64_t rounds_seen[MOST];
} count;

static void count_call(void *task, uint32_t thread, uint32_t threads) {
    count *c = task;
    if (thread == 0) c->threads = threads;
    c->calls[thread]++;
    c->rounds_seen[thread] += c->round;
}

static void every_thread_runs_once_in_every_round(void **state) {
    (void)state;
    for (int s = 0; s < SIZES; s++) {
        ig_team *team = team_of(sizes[s]);
        count c = {0};
        for (c.round = 1; c.round <= ROUNDS; c.round++) {
            ig_team_run(team, count_call, &c);
            for (uint32_t t = 0; t < sizes[s]; t++) assert_int_equal(c.calls[t], c.round);
        }
        assert_int_equal(c.threads, sizes[s]);
        for (uint32_t t = 0; t < sizes[s]; t++)
            assert_int_equal(c.rounds_seen[t], (uint64_t)ROUNDS * (ROUNDS + 1) / 2);
        for (uint32_t t = sizes[s]; t < MOST; t++) assert_int_equal(c.calls[t], 0);
        ig_team_destroy(team);
    }
}

/* ---- barriers ---- */

/* In each phase a thread adds up what all threads wrote in the phase before. */
typedef struct relay {
    ig_team *team;
    uint64_t at[2][MOST];
} relay;

static void pass_on(void *task, uint32_t thread, uint32_t threads) {
    relay *r = task;
    r->at[0][thread] = thread + 1;
    ig_team_barrier(r->team);
    for (int phase = 0; phase < PHASES; phase++) {
        uint64_t sum = 0;
        for (uint32_t t = 0; t < threads; t++) sum += r->at[phase % 2][t];
        r->at[(phase + 1) % 2][thread] = sum % 1000003 + thread;
        ig_team_barrier(r->team);
    }
}

/* The same, by one thread. */
static void pass_on_alone(uint64_t at[MOST], uint32_t threads) {
    for (uint32_t t = 0; t < threads; t++) at[t] = t + 1;
    for (int phase = 0; phase < PHASES; phase++) {
        uint64_t sum = 0;
        for (uint32_t t = 0; t < threads; t++) sum += at[t];
        for (uint32_t t = 0; t < threads; t++) at[t] = sum % 1000003 + t;
    }
}

static void no_thread_passes_a_barrier_before_all_have_arrived(void **state) {
    (void)state;
    for (int s = 0; s < SIZES; s++) {
        relay r = {.team = team_of(sizes[s])};
        uint64_t want[MOST];
        pass_on_alone(want, sizes[s]);
        for (int round = 0; round < 2; round++) {
            ig_team_run(r.team, pass_on, &r);
            assert_memory_equal(r.at[PHASES % 2], want, sizes[s] * sizeof want[0]);
        }
        ig_team_destroy(r.team);
    }
}

/* ---- work that is claimed ---- */

enum { CHUNKS = 64, CLAIM_ROUNDS = 500 };

typedef struct claims {
    ig_team *team;
    _Atomic uint32_t next;
    uint32_t done[CHUNKS]; /* plain: a chunk belongs to who claimed it */
    uint32_t total;        /* written by one thread, behind the barrier */
} claims;

static void claim(void *task, uint32_t thread, uint32_t threads) {
    claims *c = task;
    (void)threads;
    for (uint32_t i; (i = atomic_fetch_add_explicit(&c->next, 1, memory_order_relaxed)) < CHUNKS;)
        c->done[i]++;
    ig_team_barrier(c->team);
    for (uint32_t i = 0; thread == threads - 1 && i < CHUNKS; i++) c->total += c->done[i];
}

static void chunks_that_threads_claim_are_done_once(void **state) {
    (void)state;
    for (int s = 0; s < SIZES; s++) {
        claims c = {.team = team_of(sizes[s])};
        for (uint32_t round = 1; round <= CLAIM_ROUNDS; round++) {
            atomic_store(&c.next, 0);
            c.total = 0;
            ig_team_run(c.team, claim, &c);
            assert_int_equal(c.total, round * CHUNKS);
        }
        ig_team_destroy(c.team);
    }
}

/* ---- making and unmaking ---- */

static void a_team_may_go_without_having_run(void **state) {
    (void)state;
    for (int s = 0; s < SIZES; s++) ig_team_destroy(team_of(sizes[s]));
    ig_team_destroy(NULL);
}

static void teams_come_and_go_hundreds_of_times(void **state) {
    (void)state;
    for (int i = 0; i < 200; i++) {
        ig_team *team = team_of(3);
        count c = {.round = 1};
        ig_team_run(team, count_call, &c);
        assert_int_equal(c.calls[0] + c.calls[1] + c.calls[2], 3);
        ig_team_destroy(team);
    }
}

static void a_team_has_between_one_and_256_threads(void **state) {
    (void)state;
    ig_team *team = NULL;
    assert_int_equal(ig_team_create(&ig_heap, 0, &team), IG_ERR_ARGUMENT);
    assert_non_null(strstr(ig_error_text(), "0 threads: from 1 to 256"));
    assert_int_equal(ig_team_create(&ig_heap, 257, &team), IG_ERR_ARGUMENT);
    assert_null(team);
    assert_in_range(ig_team_default_threads(), 1, 256);
}

static void *no_memory(void *user, size_t bytes, size_t alignment) {
    (void)bytes, (void)alignment;
    int *left = user;
    return (*left)-- > 0 ? ig_heap.alloc(NULL, bytes, alignment) : NULL;
}

static void give_back(void *user, void *p) {
    (void)user;
    ig_heap.free(NULL, p);
}

static void without_memory_there_is_no_team(void **state) {
    (void)state;
    for (int allowed = 0; allowed < 2; allowed++) {
        int left = allowed;
        const ig_allocator a = {no_memory, give_back, &left};
        ig_team *team = NULL;
        assert_int_equal(ig_team_create(&a, 2, &team), IG_ERR_MEMORY);
        assert_null(team);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_thread_runs_once_in_every_round),
        cmocka_unit_test(no_thread_passes_a_barrier_before_all_have_arrived),
        cmocka_unit_test(chunks_that_threads_claim_are_done_once),
        cmocka_unit_test(a_team_may_go_without_having_run),
        cmocka_unit_test(teams_come_and_go_hundreds_of_times),
        cmocka_unit_test(a_team_has_between_one_and_256_threads),
        cmocka_unit_test(without_memory_there_is_no_team),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
