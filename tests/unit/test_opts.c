/* Option tables: what is accepted, what is refused, and in which words. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/app/opts.h"

typedef struct options {
    bool quiet, verbose;
    int64_t steps, any;
    uint64_t room;
    double rate;
    const char *out, *file, *tone, *sizes;
    ig_texts prompts, rest;
    int color;
    ig_opt_source steps_source, out_source;
} options;

static const char *const colors[] = {"auto", "always", "never", NULL};

static const ig_opt table[] = {
    {OPT_FLAG, 'q', "quiet", offsetof(options, quiet), .help = "q"},
    {OPT_FLAG, 'v', "verbose", offsetof(options, verbose), .help = "v"},
    {OPT_INT, 'n', "steps", offsetof(options, steps), .help = "s", .value = "N",
     .alias = "ns iterations", .initial = "300", .env = "TEST_OPTS_STEPS",
     .source = offsetof(options, steps_source), .low = 1, .high = 1000},
    {OPT_INT, 0, "any", offsetof(options, any), .help = "any", .value = "N"},
    {OPT_BYTES, 0, "room", offsetof(options, room), .help = "r", .value = "SIZE"},
    {OPT_REAL, 0, "rate", offsetof(options, rate), .help = "rate", .value = "X", .low = 0,
     .high = INFINITY},
    {OPT_TEXT, 'o', "out", offsetof(options, out), .help = "o", .value = "DIR",
     .source = offsetof(options, out_source)},
    {OPT_TEXT, 'p', "prompt", offsetof(options, prompts), .help = "p", .value = "TEXT",
     .flags = OPT_REPEAT},
    {OPT_CHOICE, 0, "color", offsetof(options, color), .help = "c", .value = "WHEN",
     .choices = colors},
    {OPT_IGNORED, 0, "paint", .help = "it is painted", .alias = "pa", .choices = colors},
    {OPT_IGNORED, 0, "quick", .help = "it is quick", .alias = "nq"},
    {OPT_REFUSED, 0, "fetch", .help = "bring it yourself", .alias = "qf"},
    {OPT_TEXT, 0, "tone", offsetof(options, tone), .help = "t", .value = "T", .choices = colors,
     .flags = OPT_ONE_OF},
    {OPT_TEXT, 0, "sizes", offsetof(options, sizes), .help = "s", .value = "LIST",
     .flags = OPT_NUMBERS},
    {OPT_TEXT, 0, "FILE", offsetof(options, file), .help = "a file",
     .flags = OPT_POSITIONAL | OPT_REQUIRED},
    {OPT_TEXT, 0, "REST", offsetof(options, rest), .help = "more files",
     .flags = OPT_POSITIONAL | OPT_REPEAT},
    {0},
};

enum { ARGS_MAX = 48 };

/* Parses a NULL-terminated list. */
static ig_status parse(options *o, const char *const *args) {
    char *argv[ARGS_MAX];
    int argc = 0;
    for (; args[argc]; argc++) argv[argc] = (char *)args[argc];
    memset(o, 0, sizeof *o);
    return ig_opts_parse(&(ig_opt_set){table, o}, 1, argc, argv, NULL);
}

#define PARSE(o, ...) parse(o, (const char *const[]){__VA_ARGS__, NULL})

static void refused(ig_status status, const char *words) {
    assert_int_equal(status, IG_ERR_ARGUMENT);
    if (!strstr(ig_error_text(), words)) fail_msg("'%s' lacks '%s'", ig_error_text(), words);
}

static void all_spellings_of_a_value_mean_the_same(void **state) {
    (void)state;
    static const char *const spellings[][3] = {{"--steps", "9"}, {"--steps=9"}, {"-n", "9"},
                                               {"-n9"},          {"-n=9"},      {"--iterations=9"},
                                               {"-ns", "9"},     {"--ns=9"},    {"-ns=9"}};
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        options o;
        assert_int_equal(parse(&o, spellings[i]), IG_OK);
        assert_int_equal(o.steps, 9);
    }
}

static void flags_may_stand_together_and_before_a_value(void **state) {
    (void)state;
    options o;
    assert_int_equal(PARSE(&o, "-qvn7", "f"), IG_OK);
    assert_true(o.quiet && o.verbose);
    assert_int_equal(o.steps, 7);
    assert_string_equal(o.file, "f");
}

static void what_follows_two_dashes_is_no_option(void **state) {
    (void)state;
    options o;
    assert_int_equal(PARSE(&o, "-q", "--", "-v", "--steps"), IG_OK);
    assert_true(o.quiet && !o.verbose);
    assert_string_equal(o.file, "-v");
    assert_int_equal(o.rest.count, 1);
    assert_string_equal(o.rest.at[0], "--steps");
}

static void a_single_dash_is_a_name_like_any_other(void **state) {
    (void)state;
    options o;
    assert_int_equal(PARSE(&o, "-o", "-", "-"), IG_OK);
    assert_string_equal(o.out, "-");
    assert_string_equal(o.file, "-");
}

static void negative_numbers_are_values_not_options(void **state) {
    (void)state;
    options o;
    assert_int_equal(PARSE(&o, "--any", "-5"), IG_OK);
    assert_int_equal(o.any, -5);
    assert_int_equal(PARSE(&o, "--any=-9223372036854775808"), IG_OK);
    assert_true(o.any == INT64_MIN);
}

static void later_values_win_and_repeated_ones_add_up(void **state) {
    (void)state;
    options o;
    assert_int_equal(PARSE(&o, "-n1", "-p", "a", "-n2", "--prompt=b", "-pc"), IG_OK);
    assert_int_equal(o.steps, 2);
    assert_int_equal(o.prompts.count, 3);
    assert_string_equal(o.prompts.at[0], "a");
    assert_string_equal(o.prompts.at[2], "c");
}

static void the_environment_beats_the_default_and_loses_to_the_option(void **state) {
    (void)state;
    options o;
    assert_int_equal(PARSE(&o, "f"), IG_OK);
    assert_int_equal(o.steps, 300);
    setenv("TEST_OPTS_STEPS", "44", 1);
    assert_int_equal(PARSE(&o, "f"), IG_OK);
    assert_int_equal(o.steps, 44);
    assert_int_equal(PARSE(&o, "f", "-n5"), IG_OK);
    assert_int_equal(o.steps, 5);
    setenv("TEST_OPTS_STEPS", "many", 1);
    refused(PARSE(&o, "f"), "TEST_OPTS_STEPS 'many': not an integer");
    unsetenv("TEST_OPTS_STEPS");
}

static void a_value_knows_where_it_came_from(void **state) {
    (void)state;
    options o;
    assert_int_equal(PARSE(&o, "f"), IG_OK);
    assert_int_equal(o.steps_source, OPT_FROM_INITIAL);
    assert_int_equal(o.out_source, OPT_FROM_NOWHERE);
    setenv("TEST_OPTS_STEPS", "44", 1);
    assert_int_equal(PARSE(&o, "f", "--out=here"), IG_OK);
    assert_int_equal(o.steps_source, OPT_FROM_ENV);
    assert_int_equal(o.out_source, OPT_FROM_ARGV);
    assert_int_equal(PARSE(&o, "f", "-n44"), IG_OK); /* also where both say the same */
    assert_int_equal(o.steps_source, OPT_FROM_ARGV);
    refused(PARSE(&o, "f", "-n0"), "-n 0");
    assert_int_equal(o.steps_source, OPT_FROM_ENV);
    unsetenv("TEST_OPTS_STEPS");
}

static void sizes_have_units(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {{"0", 0},           {"4096", 4096},  {"64K", 65536},    {"64k", 65536},
                 {"64KiB", 65536},   {"64KB", 64000}, {"1.5M", 1572864}, {"2GiB", 2147483648},
                 {"1T", 1ULL << 40}, {"7B", 7}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        options o;
        assert_int_equal(PARSE(&o, "--room", cases[i].text), IG_OK);
        assert_int_equal(o.room, cases[i].bytes);
    }
    static const char *const bad[] = {"", "K", "-1", "5X", "5KiBs", "nan", "inf", " 5", "1e30"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        options o;
        char text[32];
        snprintf(text, sizeof text, "--room=%s", bad[i]);
        assert_int_equal(PARSE(&o, text), IG_ERR_ARGUMENT);
    }
}

static void wrong_values_are_refused_with_what_would_be_right(void **state) {
    (void)state;
    options o;
    refused(PARSE(&o, "--steps", "many"), "--steps 'many': not an integer");
    refused(PARSE(&o, "--steps="), "--steps '': not an integer");
    refused(PARSE(&o, "-n", "3.5"), "-n '3.5': not an integer");
    refused(PARSE(&o, "-n", " 3"), "not an integer");
    refused(PARSE(&o, "-n0"), "-n 0: must be from 1 to 1000");
    refused(PARSE(&o, "-n1001"), "must be from 1 to 1000");
    refused(PARSE(&o, "--any", "9223372036854775808"), "does not fit 64 bits");
    refused(PARSE(&o, "--rate", "-1"), "--rate -1: must be 0 or more");
    refused(PARSE(&o, "--rate", "nan"), "not a number");
    refused(PARSE(&o, "--rate", "1e999"), "not a number");
    refused(PARSE(&o, "--color", "blue"), "--color 'blue': must be one of auto, always, never");
}

static void unknown_options_name_the_nearest(void **state) {
    (void)state;
    options o;
    refused(PARSE(&o, "--step"), "--step: no such option; did you mean --steps?");
    refused(PARSE(&o, "--stpes=3"), "--stpes: no such option; did you mean --steps?");
    refused(PARSE(&o, "--qiet"), "did you mean --quiet?");
    refused(PARSE(&o, "-steps", "3"), "-steps: no such option; did you mean --steps?");
    refused(PARSE(&o, "--itertions", "3"),
            "--itertions: no such option; did you mean --iterations?");
    refused(PARSE(&o, "--zzzzzz"), "--zzzzzz: no such option");
    assert_null(strstr(ig_error_text(), "mean"));
    refused(PARSE(&o, "-qx"), "-x in -qx: no such option");
    refused(PARSE(&o, "---"), "no such option");
}

static void missing_and_superfluous_values_are_refused(void **state) {
    (void)state;
    options o;
    refused(PARSE(&o, "--steps"), "--steps: needs a value (N)");
    refused(PARSE(&o, "-o"), "-o: needs a value (DIR)");
    refused(PARSE(&o, "--out", "--quiet"), "--out: needs a value (DIR), but --quiet follows");
    refused(PARSE(&o, "--quiet=yes"), "--quiet: takes no value, but has 'yes'");
}

static void texts_of_a_form_have_it(void **state) {
    (void)state;
    options o;
    assert_int_equal(PARSE(&o, "--tone", "never", "--sizes", "1,8,64"), IG_OK);
    assert_string_equal(o.tone, "never");
    assert_string_equal(o.sizes, "1,8,64");
    assert_int_equal(PARSE(&o, "--sizes=12"), IG_OK);
    refused(PARSE(&o, "--tone", "loud"), "--tone 'loud': must be one of auto, always, never");
    static const char *const bad[] = {"",  "1,x",  "1,,2", ",1",  "1,",
                                      "0", "1,-2", "1, 2", "1.5", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refused(PARSE(&o, "--sizes", bad[i]), "must be integers >= 1, such as 1,8,64");
}

static void words_of_other_programs_are_passed_over_or_refused(void **state) {
    (void)state;
    options o;
    assert_int_equal(PARSE(&o, "-pa", "auto", "-nq", "-pa", "f", "--paint=never", "--quick"),
                     IG_OK);
    assert_string_equal(o.file, "f");
    assert_int_equal(o.prompts.count, 0); /* not -p a */
    assert_int_equal(o.steps, 300);
    refused(PARSE(&o, "--paint=blue"), "--paint 'blue': must be one of auto, always, never");
    refused(PARSE(&o, "-nq=1"), "-nq: takes no value, but has '1'");
    refused(PARSE(&o, "-qf", "a/b"), "-qf: bring it yourself");
    refused(PARSE(&o, "--fetch=a/b"), "--fetch: bring it yourself");
    assert_false(o.quiet);
}

static void required_arguments_are_missed_and_lists_have_an_end(void **state) {
    (void)state;
    options o;
    assert_int_equal(PARSE(&o, "-q"), IG_OK);
    refused(ig_opts_check(&(ig_opt_set){table, &o}, 1), "FILE is required: a file");
    assert_int_equal(PARSE(&o, "f"), IG_OK);
    assert_int_equal(ig_opts_check(&(ig_opt_set){table, &o}, 1), IG_OK);

    const char *many[ARGS_MAX] = {"first"};
    for (int i = 1; i <= IG_TEXTS_MAX + 1; i++) many[i] = "more";
    refused(parse(&o, many), "given more than 32 times");
}

static void parsing_can_stop_before_the_first_argument(void **state) {
    (void)state;
    char *argv[] = {(char *)"-q", (char *)"demo", (char *)"--unknown"};
    options o = {0};
    int used = -1;
    assert_int_equal(ig_opts_parse(&(ig_opt_set){table, &o}, 1, 3, argv, &used), IG_OK);
    assert_int_equal(used, 1);
    assert_true(o.quiet);
}

static void edit_distance_counts_swaps_as_one(void **state) {
    (void)state;
    assert_int_equal(ig_edit_distance("", ""), 0);
    assert_int_equal(ig_edit_distance("abc", "abc"), 0);
    assert_int_equal(ig_edit_distance("ispnect", "inspect"), 2);
    assert_int_equal(ig_edit_distance("dmeo", "demo"), 1);
    assert_int_equal(ig_edit_distance("", "abc"), 3);
    /* Words longer than any of ours are simply far from all. */
    assert_true(ig_edit_distance("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "a") >= 32);
}

static void nearest_gives_nothing_for_strangers(void **state) {
    (void)state;
    static const char *const words[] = {"demo", NULL, "inspect", "info"};
    assert_string_equal(ig_nearest("inspct", words, 4), "inspect");
    assert_string_equal(ig_nearest("insp", words, 4), "inspect");
    assert_null(ig_nearest("xyz", words, 4));
    assert_null(ig_nearest("", words, 4));
}

/* ---- a table within a table ---- */

typedef struct outer_options {
    bool before;
    options inner;
    bool after;
} outer_options;

static const ig_opt outer_table[] = {
    {OPT_FLAG, 'b', "before", offsetof(outer_options, before), .help = "b"},
    {OPT_TABLE, .to = offsetof(outer_options, inner), .table = table},
    {OPT_FLAG, 'a', "after", offsetof(outer_options, after), .help = "a"},
    {0},
};

static void rows_of_an_inner_table_write_to_the_inner_struct(void **state) {
    (void)state;
    outer_options o = {0};
    char *argv[] = {"-b", "--steps", "9", "-a", "--out=here", "file"};
    assert_int_equal(ig_opts_parse(&(ig_opt_set){outer_table, &o}, 1, 6, argv, NULL), IG_OK);
    assert_true(o.before && o.after);
    assert_int_equal(o.inner.steps, 9);
    assert_string_equal(o.inner.out, "here");
    assert_string_equal(o.inner.file, "file");
    assert_int_equal(o.inner.steps_source, OPT_FROM_ARGV);
}

static void a_walk_meets_every_row_once_and_in_order(void **state) {
    (void)state;
    const size_t n_inner = sizeof table / sizeof table[0] - 1;
    ig_opt_walk w = ig_opts_first(outer_table);
    assert_string_equal(w.opt->name, "before");
    for (size_t i = 0; i < n_inner; i++) {
        w = ig_opts_next(w);
        assert_ptr_equal(w.opt, &table[i]);
        assert_int_equal(w.to, offsetof(outer_options, inner) + table[i].to);
    }
    w = ig_opts_next(w);
    assert_string_equal(w.opt->name, "after");
    assert_null(ig_opts_next(w).opt);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_spellings_of_a_value_mean_the_same),
        cmocka_unit_test(flags_may_stand_together_and_before_a_value),
        cmocka_unit_test(what_follows_two_dashes_is_no_option),
        cmocka_unit_test(a_single_dash_is_a_name_like_any_other),
        cmocka_unit_test(negative_numbers_are_values_not_options),
        cmocka_unit_test(later_values_win_and_repeated_ones_add_up),
        cmocka_unit_test(the_environment_beats_the_default_and_loses_to_the_option),
        cmocka_unit_test(a_value_knows_where_it_came_from),
        cmocka_unit_test(sizes_have_units),
        cmocka_unit_test(wrong_values_are_refused_with_what_would_be_right),
        cmocka_unit_test(unknown_options_name_the_nearest),
        cmocka_unit_test(missing_and_superfluous_values_are_refused),
        cmocka_unit_test(texts_of_a_form_have_it),
        cmocka_unit_test(words_of_other_programs_are_passed_over_or_refused),
        cmocka_unit_test(required_arguments_are_missed_and_lists_have_an_end),
        cmocka_unit_test(parsing_can_stop_before_the_first_argument),
        cmocka_unit_test(edit_distance_counts_swaps_as_one),
        cmocka_unit_test(nearest_gives_nothing_for_strangers),
        cmocka_unit_test(rows_of_an_inner_table_write_to_the_inner_struct),
        cmocka_unit_test(a_walk_meets_every_row_once_and_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
