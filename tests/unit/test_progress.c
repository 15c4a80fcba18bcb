/* The progress line, and the small texts that results are made of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "cli/app/output.h"
#include "cli/app/progress.h"

static ig_meter meter_of(int width, bool live, bool color, bool utf8) {
    const ig_term term = {.err_color = color, .live = live, .utf8 = utf8, .width = width};
    return ig_meter_begin(&term, false, "train", "steps", 300);
}

static void a_plain_line_says_share_rate_and_time_left(void **state) {
    (void)state;
    const ig_meter meter = meter_of(80, false, false, true);
    char line[IG_METER_LINE_BYTES];
    assert_string_equal(ig_meter_text(&meter, 150, 1.5, "loss 1.284", line),
                        "train: 50%  150/300 steps  100 steps/s  0:02 left  loss 1.284");
    assert_string_equal(ig_meter_text(&meter, 300, 3725, "", line),
                        "train: 100%  300/300 steps  0.1 steps/s  1:02:05 in all");
    assert_string_equal(ig_meter_text(&meter, 0, 0, "", line), "train: 0%  0/300 steps");
}

static void a_live_line_has_a_bar_and_fits_the_terminal(void **state) {
    (void)state;
    char line[IG_METER_LINE_BYTES];
    for (int width = 20; width <= 200; width++) {
        const ig_meter meter = meter_of(width, true, false, false);
        for (uint64_t done = 0; done <= 300; done += 100)
            assert_true(strlen(ig_meter_text(&meter, done, 2, "loss 1.284", line)) < (size_t)width);
    }
    const ig_meter wide = meter_of(120, true, false, false);
    assert_non_null(
        strstr(ig_meter_text(&wide, 150, 2, "", line), "###############..............."));
    assert_null(strchr(line, '\033'));
}

static void color_is_always_switched_off_again(void **state) {
    (void)state;
    char line[IG_METER_LINE_BYTES];
    const ig_meter meter = meter_of(120, true, true, true);
    for (uint64_t done = 0; done <= 300; done++) {
        const char *text = ig_meter_text(&meter, done, 2, "loss 1.284", line);
        const char *last = strrchr(text, '\033');
        assert_non_null(last);
        assert_memory_equal(last, "\033[0m", 4);
    }
}

static void more_than_all_counts_as_all(void **state) {
    (void)state;
    const ig_meter meter = meter_of(80, false, false, false);
    char line[IG_METER_LINE_BYTES];
    assert_non_null(strstr(ig_meter_text(&meter, 999, 1, "", line), "100%  300/300"));
}

static void bytes_and_counts_are_readable(void **state) {
    (void)state;
    char text[IG_UNIT_TEXT_BYTES];
    assert_string_equal(ig_bytes_text(0, text), "0 B");
    assert_string_equal(ig_bytes_text(1023, text), "1023 B");
    assert_string_equal(ig_bytes_text(1024, text), "1.0 KiB");
    assert_string_equal(ig_bytes_text(41772, text), "40.8 KiB");
    assert_string_equal(ig_bytes_text(1048575, text), "1.0 MiB");
    assert_string_equal(ig_bytes_text(UINT64_MAX, text), "16.0 EiB");
    assert_string_equal(ig_count_text(0, text), "0");
    assert_string_equal(ig_count_text(999, text), "999");
    assert_string_equal(ig_count_text(10443, text), "10,443");
    assert_string_equal(ig_count_text(UINT64_MAX, text), "18,446,744,073,709,551,615");
}

static void text_from_outside_cannot_steer_the_terminal(void **state) {
    (void)state;
    char out[64];
    assert_string_equal(ig_text_safe("a\033[31mb\n\x7f", out, sizeof out), "a?[31mb??");
    assert_string_equal(ig_text_safe("gr\xC3\xBC\xC3\x9F", out, sizeof out), "gr\xC3\xBC\xC3\x9F");
    assert_string_equal(ig_text_safe("\xC2\x9Bx", out, sizeof out),
                        "??x"); /* CSI in one character */
    assert_string_equal(ig_text_safe("\xFF\xC0\x80\xED\xA0\x80\xC3", out, sizeof out), "???????");
    assert_string_equal(ig_text_safe("abcdef", out, 4), "abc");
    assert_string_equal(ig_text_safe("ab\xC3\xBC", out, 4), "ab"); /* no half of a character */
}

static void json_has_no_word_for_nan(void **state) {
    (void)state;
    json_t *value = ig_json_real(0.0 / 0.0);
    assert_true(json_is_null(value));
    json_decref(value);
    value = ig_json_hex(UINT64_C(0xdeadbeef));
    assert_string_equal(json_string_value(value), "00000000deadbeef");
    json_decref(value);
    value = ig_json_text("\xFFname");
    assert_string_equal(json_string_value(value), "?name");
    json_decref(value);
}

static void print_word(FILE *to, const void *word) { fputs(word, to); }

static void a_file_is_replaced_whole(void **state) {
    (void)state;
    char dir[] = "/tmp/ingot-test-XXXXXX", path[64], text[16] = "";
    assert_non_null(mkdtemp(dir));
    assert_int_equal(ig_dir_make(dir), IG_OK); /* it is there already */
    snprintf(path, sizeof path, "%s/word", dir);
    assert_int_equal(ig_file_replace(&ig_heap, path, print_word, "one"), IG_OK);
    assert_int_equal(ig_file_replace(&ig_heap, path, print_word, "two"), IG_OK);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(text, 1, sizeof text - 1, file), 3);
    fclose(file);
    assert_string_equal(text, "two");

    assert_int_equal(ig_dir_make(path), IG_ERR_IO);
    assert_non_null(strstr(ig_error_text(), "is not a folder"));
    char under[80];
    snprintf(under, sizeof under, "%s/under", path);
    assert_int_equal(ig_file_replace(&ig_heap, under, print_word, "no"), IG_ERR_IO);
    unlink(path);
    rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_line_says_share_rate_and_time_left),
        cmocka_unit_test(a_live_line_has_a_bar_and_fits_the_terminal),
        cmocka_unit_test(color_is_always_switched_off_again),
        cmocka_unit_test(more_than_all_counts_as_all),
        cmocka_unit_test(bytes_and_counts_are_readable),
        cmocka_unit_test(text_from_outside_cannot_steer_the_terminal),
        cmocka_unit_test(json_has_no_word_for_nan),
        cmocka_unit_test(a_file_is_replaced_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
