/*
 * One thread or the team: what is chosen when runs take so and so long.  No clock has a part in it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/cpu/exec/team_choice.h"

enum { MICRO = 1000, MILLI = 1000000, ENOUGH = 100 /* runs, until it is settled */ };

/* A program, and what a run of it takes at the moment. */
typedef struct program {
    ig_cpu_team_choice choice;
    uint32_t n_barriers;
    uint64_t alone_ns, team_ns;
} program;

/* Runs of the next n that the team did. */
static int runs_by_team(program *p, int n) {
    int count = 0;
    for (int i = 0; i < n; i++) {
        const bool team = ig_cpu_team_choose(&p->choice, p->n_barriers);
        ig_cpu_team_took(&p->choice, team ? p->team_ns : p->alone_ns);
        count += team;
    }
    return count;
}

static void small_steps_go_to_the_faster_of_thread_and_team(void **state) {
    (void)state;
    program p = {.n_barriers = 10, .alone_ns = 30 * MICRO, .team_ns = 60 * MICRO};
    runs_by_team(&p, ENOUGH);
    assert_int_equal(runs_by_team(&p, ENOUGH), 0);
    program q = {.n_barriers = 10, .alone_ns = 60 * MICRO, .team_ns = 30 * MICRO};
    runs_by_team(&q, ENOUGH);
    assert_int_equal(runs_by_team(&q, ENOUGH), ENOUGH);
}

static void of_tokens_one_is_enough_to_try(void **state) {
    (void)state;
    program p = {.n_barriers = 140, .alone_ns = 54 * MILLI, .team_ns = 27 * MILLI};
    assert_int_equal(runs_by_team(&p, 1000), 999);
    program many_threads = {.n_barriers = 140, .alone_ns = 60 * MILLI, .team_ns = 5 * MILLI};
    assert_int_equal(runs_by_team(&many_threads, 1000), 999);
}

static void runs_that_no_wait_could_matter_to_are_not_tried(void **state) {
    (void)state;
    program p = {.n_barriers = 140, .alone_ns = 84 * MILLI, .team_ns = 42 * MILLI};
    runs_by_team(&p, 6); /* while it is not known how long they take */
    assert_int_equal(runs_by_team(&p, 20000), 20000);
}

static void a_team_that_has_to_wait_is_left(void **state) {
    (void)state;
    program p = {.n_barriers = 140, .alone_ns = 20 * MILLI, .team_ns = 10 * MILLI};
    assert_int_equal(runs_by_team(&p, ENOUGH), ENOUGH - 1);
    p.team_ns = 90 * MILLI; /* others compute there now */
    runs_by_team(&p, ENOUGH);
    assert_true(runs_by_team(&p, ENOUGH) <= 2);
    p.team_ns = 10 * MILLI; /* and have gone again: it finds that out by itself */
    runs_by_team(&p, 2 * ENOUGH);
    assert_int_equal(runs_by_team(&p, ENOUGH), ENOUGH);
}

static void a_machine_that_is_busy_from_the_start_is_found_out(void **state) {
    (void)state;
    program p = {.n_barriers = 140, .alone_ns = 10 * MILLI, .team_ns = 25 * MILLI};
    runs_by_team(&p, ENOUGH);
    const int tries = runs_by_team(&p, 1000); /* a 32nd of the time: 2.5 times as long as a run */
    assert_in_range(tries, 1, 1000 * 10 / 25 / 32 + 1);
}

static void a_short_run_is_not_tried_that_often(void **state) {
    (void)state;
    program p = {.n_barriers = 10, .alone_ns = 30 * MICRO, .team_ns = 60 * MICRO};
    runs_by_team(&p, ENOUGH);
    assert_int_equal(runs_by_team(&p, 5 * ENOUGH), 0);
}

static void a_team_that_was_slow_at_first_is_tried_again_soon(void **state) {
    (void)state;
    program p = {.n_barriers = 140, .alone_ns = 10 * MILLI, .team_ns = 30 * MILLI};
    runs_by_team(&p, 7); /* others compute while it is tried first */
    p.team_ns = 5 * MILLI;
    runs_by_team(&p, 16);
    assert_int_equal(runs_by_team(&p, 1000), 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_steps_go_to_the_faster_of_thread_and_team),
        cmocka_unit_test(of_tokens_one_is_enough_to_try),
        cmocka_unit_test(runs_that_no_wait_could_matter_to_are_not_tried),
        cmocka_unit_test(a_team_that_has_to_wait_is_left),
        cmocka_unit_test(a_machine_that_is_busy_from_the_start_is_found_out),
        cmocka_unit_test(a_short_run_is_not_tried_that_often),
        cmocka_unit_test(a_team_that_was_slow_at_first_is_tried_again_soon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
