/* Curves as SVG: whatever the numbers, the picture is whole and stays in its frame. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/view/plot.h"
#include "xml.h"

enum { MANY = 20000 };

static char *print(const ig_plot *plot) {
    char *text;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    assert_non_null(to);
    ig_plot_print(to, plot);
    assert_int_equal(fclose(to), 0);
    return text;
}

/* Well-formed, and no number in it is one that a viewer could not place. */
static void check_whole(const char *svg) {
    assert_true(xml_is_well_formed(svg));
    assert_null(strstr(svg, "nan"));
    assert_null(strstr(svg, "inf"));
}

/* Whether every point of every path lies within 800 x 450. */
static void check_inside(const char *svg) {
    for (const char *path = svg; (path = strstr(path, " d=\"")) != NULL;) {
        path += 4;
        while (*path == 'M' || *path == 'L') {
            char *end;
            const double x = strtod(path + 1, &end), y = strtod(end, &end);
            assert_true(x >= 0 && x <= 800 && y >= 0 && y <= 450);
            path = end;
        }
        assert_int_equal(*path, '"');
    }
}

static size_t count(const char *text, const char *what) {
    size_t n = 0;
    for (; (text = strstr(text, what)) != NULL; text++) n++;
    return n;
}

static void a_falling_loss_is_drawn_with_axes_and_legend(void **state) {
    (void)state;
    double x[300], y[300];
    for (int i = 0; i < 300; i++) x[i] = i + 1, y[i] = 0.4 + 3 * exp(-i / 60.0);
    const ig_series series = {.name = "each batch", .x = x, .y = y, .count = 300};
    const ig_plot plot = {
        .title = "loss", .x_label = "step", .y_label = "nats", .series = &series, .n_series = 1};
    char *svg = print(&plot);
    check_whole(svg);
    check_inside(svg);
    assert_non_null(strstr(svg, ">loss</text>"));
    assert_non_null(strstr(svg, ">step</text>"));
    assert_non_null(strstr(svg, ">nats</text>"));
    assert_non_null(strstr(svg, ">each batch</text>"));
    assert_non_null(strstr(svg, ">300</text>"));
    assert_int_equal(count(svg, "<path"), 1);
    free(svg);
}

static void texts_are_escaped(void **state) {
    (void)state;
    const ig_series series = {.name = "a<b>&\"c\"", .count = 0};
    const ig_plot plot = {.title = "</svg><x y='&'>\033", .series = &series, .n_series = 1};
    char *svg = print(&plot);
    check_whole(svg);
    assert_non_null(strstr(svg, "a&lt;b&gt;&amp;&quot;c&quot;"));
    assert_null(strchr(svg, '\033'));
    free(svg);
}

static void odd_numbers_leave_gaps_and_never_break_the_picture(void **state) {
    (void)state;
    const double x[] = {0, 1, 2, 3, 4, 5, 6},
                 none[] = {NAN, INFINITY, -INFINITY, NAN, NAN, NAN, NAN};
    const double gaps[] = {1, 2, NAN, 3, NAN, 4, 5}, flat[] = {2, 2, 2, 2, 2, 2, 2};
    const double zeros[7] = {0}, huge[] = {-1e300, 1e300, DBL_MAX, 1, -DBL_MAX, 5e-324, 1e-300};
    const double mixed[] = {-1, 0, 1, 10, 100, 0, 5};
    const double *const all[] = {none, gaps, flat, zeros, huge, mixed};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        for (int log = 0; log < 2; log++)
            for (size_t n = 0; n <= 7; n++) {
                const ig_series series = {.name = "s", .x = x, .y = all[i], .count = n};
                const ig_plot plot = {.series = &series, .n_series = 1, .log_y = log};
                char *svg = print(&plot);
                check_whole(svg);
                check_inside(svg);
                free(svg);
            }
}

static void a_gap_starts_a_new_line_and_lone_points_are_dots(void **state) {
    (void)state;
    const double x[] = {0, 1, 2, 3, 4, 5}, y[] = {1, 2, NAN, 3, NAN, 4};
    const ig_series series = {.x = x, .y = y, .count = 6};
    char *svg = print(&(ig_plot){.series = &series, .n_series = 1});
    assert_int_equal(count(svg, "<circle"), 2);
    const char *path = strstr(svg, "<path");
    assert_non_null(path);
    assert_int_equal(count(strstr(path, " d="), "M"), 3);
    free(svg);
}

static void many_points_stay_small_and_spikes_stay_in(void **state) {
    (void)state;
    static double x[MANY], y[MANY];
    for (int i = 0; i < MANY; i++) x[i] = i, y[i] = i == 12345 ? 100 : sin(i * 0.01);
    const ig_series series = {.x = x, .y = y, .count = MANY};
    char *svg = print(&(ig_plot){.series = &series, .n_series = 1});
    check_whole(svg);
    check_inside(svg);
    assert_true(strlen(svg) < 60000);
    /* The spike is the largest value, so it is what the upper end of the scale is made for. */
    double highest = 450;
    for (const char *at = strstr(svg, " d=\"") + 4; *at == 'M' || *at == 'L';) {
        char *end;
        strtod(at + 1, &end);
        highest = fmin(highest, strtod(end, &end));
        at = end;
    }
    assert_true(highest < 80);
    free(svg);
}

static void ticks_are_round_inside_the_range_and_few(void **state) {
    (void)state;
    static const double ranges[][2] = {{0, 1},       {0, 300},     {-5, 5},        {0.37, 0.41},
                                       {1e-9, 2e-9}, {1e12, 3e12}, {-1e-3, 1e300}, {99.5, 100.5}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        for (int most = 2; most <= 12; most++) {
            const double low = ranges[i][0], high = ranges[i][1], slack = 1e-6 * (high - low);
            double ticks[IG_TICKS_MAX];
            const int n = ig_plot_ticks(low, high, most, ticks);
            assert_true(n >= 1 && n <= most + 1);
            for (int t = 0; t < n; t++) {
                assert_true(ticks[t] >= low - slack && ticks[t] <= high + slack);
                assert_true(t == 0 || ticks[t] > ticks[t - 1]);
            }
        }
}

static void log_ticks_are_few_whatever_the_span(void **state) {
    (void)state;
    static const double ranges[][2] = {{0.1, 10},       {0.2, 3.5}, {1, 1.5},    {1e-12, 1e12},
                                       {1e-300, 1e300}, {0.05, 60}, {1e-3, 2e-3}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        const double low = ranges[i][0], high = ranges[i][1];
        double ticks[IG_TICKS_MAX];
        const int n = ig_plot_log_ticks(low, high, 7, ticks);
        assert_true(n >= 2 && n <= 8);
        for (int t = 0; t < n; t++)
            assert_true(ticks[t] >= low * (1 - 1e-6) && ticks[t] <= high * (1 + 1e-6));
    }
}

static void plots_of_a_column_share_one_picture(void **state) {
    (void)state;
    const double x[] = {1, 4, 16, 32}, y[] = {10, 20, 30, 40};
    const ig_series series = {.name = "rate", .x = x, .y = y, .count = 4, .dots = true};
    const ig_plot plots[] = {
        {.title = "upper", .series = &series, .n_series = 1, .log_x = true, .height = 200},
        {.title = "lower",
         .series = &series,
         .n_series = 1,
         .log_x = true,
         .legend_above = true,
         .height = 300},
        {.title = "empty", .log_x = true, .height = 200},
    };
    char *text;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    assert_non_null(to);
    ig_plots_print(to, "both", plots, 3);
    assert_int_equal(fclose(to), 0);
    check_whole(text);
    check_inside(text);
    assert_non_null(strstr(text, ">both</title>"));
    assert_non_null(strstr(text, "height=\"748\""));
    assert_int_equal(count(text, "<circle"), 8);
    for (int i = 0; i < 4; i++) { /* the ticks are the points */
        char tick[32];
        snprintf(tick, sizeof tick, ">%.0f</text>", x[i]);
        assert_non_null(strstr(text, tick));
    }
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_falling_loss_is_drawn_with_axes_and_legend),
        cmocka_unit_test(texts_are_escaped),
        cmocka_unit_test(odd_numbers_leave_gaps_and_never_break_the_picture),
        cmocka_unit_test(a_gap_starts_a_new_line_and_lone_points_are_dots),
        cmocka_unit_test(many_points_stay_small_and_spikes_stay_in),
        cmocka_unit_test(ticks_are_round_inside_the_range_and_few),
        cmocka_unit_test(plots_of_a_column_share_one_picture),
        cmocka_unit_test(log_ticks_are_few_whatever_the_span),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
