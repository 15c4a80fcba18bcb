/* How the learning rate rises and falls, and options that know whether they were given. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/train/cmd_train.h"

static const double tolerance = 1e-12; /* a few roundings of numbers near 1 */

static void near(double got, double want) {
    if (!(fabs(got - want) <= tolerance)) fail_msg("%.17g is not %.17g", got, want);
}

static void the_rate_rises_in_equal_steps(void **state) {
    (void)state;
    const train_settings s = {.rate = 1, .min_rate = 0.1, .warmup = 4, .schedule = TRAIN_COSINE};
    for (int i = 0; i < 4; i++) near(train_rate(&s, i, 100, 0), (i + 1) / 4.0);
    near(train_rate(&s, 4, 100, 0), 1);
}

static void it_falls_as_the_schedule_says(void **state) {
    (void)state;
    train_settings s = {.rate = 1, .min_rate = 0.2, .schedule = TRAIN_CONSTANT};
    near(train_rate(&s, 0, 10, 0), 1);
    near(train_rate(&s, 9, 10, 0), 1);
    s.schedule = TRAIN_LINEAR;
    near(train_rate(&s, 5, 10, 0), 0.6);
    near(train_rate(&s, 10, 10, 0), 0.2);
    near(train_rate(&s, 99, 10, 0), 0.2);
    s.schedule = TRAIN_COSINE;
    near(train_rate(&s, 0, 10, 0), 1);
    near(train_rate(&s, 5, 10, 0), 0.6);
    near(train_rate(&s, 10, 10, 0), 0.2);
}

static void by_time_the_clock_decides(void **state) {
    (void)state;
    const train_settings s = {
        .rate = 1, .min_rate = 0, .seconds = 60, .warmup = 2, .schedule = TRAIN_LINEAR};
    near(train_rate(&s, 0, 1, 0.9), 0.5);
    near(train_rate(&s, 50, 51, 0.25), 0.75);
    near(train_rate(&s, 50, 51, 7), 0);
}

/* To the library 0 is its default, which is not what falling to nothing means. */
static void a_rate_is_never_nothing(void **state) {
    (void)state;
    const train_settings s = {.rate = 1, .min_rate = 0, .schedule = TRAIN_LINEAR};
    assert_true(train_rate(&s, 10, 10, 0) > 0);
    const train_settings all_warm = {.rate = 1, .min_rate = 0.5, .warmup = 10};
    near(train_rate(&all_warm, 10, 10, 0), 1);
}

typedef struct some_options {
    int64_t count;
    double share;
    int choice;
} some_options;

static void an_option_knows_whether_it_was_given(void **state) {
    (void)state;
    static const char *const choices[] = {"one", "two", NULL};
    static const ig_opt opts[] = {
        {OPT_INT, 0, "count", offsetof(some_options, count), .flags = OPT_NO_DEFAULT},
        {OPT_REAL, 0, "share", offsetof(some_options, share), .flags = OPT_NO_DEFAULT},
        {OPT_CHOICE, 0, "choice", offsetof(some_options, choice), .choices = choices,
         .flags = OPT_NO_DEFAULT},
        {0},
    };
    some_options o = {0};
    const ig_opt_set set = {opts, &o};
    assert_int_equal(ig_opts_parse(&set, 1, 0, NULL, NULL), IG_OK);
    assert_true(o.count == IG_NOT_GIVEN && isnan(o.share) && o.choice == -1);
    char *argv[] = {"--count=0", "--share=0", "--choice=one"};
    assert_int_equal(ig_opts_parse(&set, 1, 3, argv, NULL), IG_OK);
    assert_true(o.count == 0 && o.share == 0 && o.choice == 0);
}

static void the_meter_leaves_out_what_an_earlier_run_did(void **state) {
    (void)state;
    ig_meter meter = ig_meter_begin(&(ig_term){.width = 80}, true, "train", "steps", 300);
    meter.before = 100;
    char line[IG_METER_LINE_BYTES];
    assert_string_equal(ig_meter_text(&meter, 200, 1, "", line),
                        "train: 67%  200/300 steps  100 steps/s  0:01 left");
    assert_string_equal(ig_meter_text(&meter, 100, 1, "", line), "train: 33%  100/300 steps");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rate_rises_in_equal_steps),
        cmocka_unit_test(it_falls_as_the_schedule_says),
        cmocka_unit_test(by_time_the_clock_decides),
        cmocka_unit_test(a_rate_is_never_nothing),
        cmocka_unit_test(an_option_knows_whether_it_was_given),
        cmocka_unit_test(the_meter_leaves_out_what_an_earlier_run_did),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
