/* What the machine can do: every instruction set has its loops, and they come to an end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/cpu_roofline.h"
#include "ingot/bench.h"

static const double moment = 0.002; /* seconds: what is measured is not looked at here */

static void every_roof_is_above_zero(void **state) {
    (void)state;
    for (ig_isa isa = IG_ISA_SCALAR; isa < IG_ISA_COUNT; isa++) {
        if (!ig_isa_available(isa)) continue;
        assert_int_equal(setenv("INGOT_ISA", ig_cpu_isa_name(isa), 1), 0);
        for (ig_roofline what = IG_ROOF_READ; what < IG_ROOF_COUNT; what++)
            for (int threads = 1; threads <= 3; threads++) {
                const ig_roofline_options options = {
                    .threads = threads, .seconds = moment, .read_bytes = 1 << 20};
                double rate = 0;
                assert_int_equal(ig_roofline_measure(what, &options, &rate), IG_OK);
                assert_true(rate > 0);
            }
    }
    unsetenv("INGOT_ISA");
}

/* One round by hand: the loops compute what they count. */
static void the_loops_do_what_they_are_counted_for(void **state) {
    (void)state;
    enum { ROUNDS = 3, SUMS = 12, LINES = 4 };
    _Alignas(64) static char memory[IG_READ_STREAMS][LINES * IG_LINE_BYTES + 4096];
    int32_t seen = 0; /* the streams' words, all xored */
    for (int s = 0; s < IG_READ_STREAMS; s++)
        for (int i = 0; i < LINES * IG_LINE_BYTES / 4; i++) {
            const int32_t word = s * 1000003 + i * 7919;
            memcpy(memory[s] + 4 * (size_t)i, &word, 4);
            seen ^= word;
        }
    for (ig_isa isa = IG_ISA_SCALAR; isa < IG_ISA_COUNT; isa++) {
        if (!ig_isa_available(isa)) continue;
        const ig_cpu_roofline *loops = ig_cpu_roofline_of(isa);
        const int lanes = (int)loops->fma_ops / 2 / SUMS;
        int32_t words[IG_SINK_BYTES / 4] = {0}, all = 0;
        loops->read(memory[0], sizeof memory[0], LINES * IG_LINE_BYTES, words);
        for (int i = 0; i < lanes; i++) all ^= words[i];
        assert_int_equal(all, seen);

        float x[IG_SINK_BYTES / 4], sum = 0;
        for (int i = 0; i < SUMS; i++) {
            float v = (float)i;
            for (int r = 0; r < ROUNDS; r++) v = v * 0.5f + 0.25f;
            sum += v; /* exact: few bits */
        }
        loops->fma(ROUNDS, x);
        for (int i = 0; i < lanes; i++) assert_true(x[i] == sum);

        if (strcmp(ig_cpu_isa_name(isa), "amx") == 0) { /* tiles of ones: 64 products a round */
            loops->dot(ROUNDS, words);
            for (int i = 0; i < lanes; i++) assert_int_equal(words[i], ROUNDS * 64);
            assert_int_equal(loops->dot_ops, 2 * 4 * 16 * 16 * 64);
            continue;
        }
        /* 4 x -1, 3 x 2, 2 x 1, 1 x 1: 5 a round, and the sums start at 0 to 11 */
        loops->dot(ROUNDS, words);
        for (int i = 0; i < lanes; i++) assert_int_equal(words[i], SUMS * ROUNDS * 5 + 66);
        assert_int_equal(loops->dot_ops, 4 * loops->fma_ops);
    }
}

static void options_out_of_range_are_refused(void **state) {
    (void)state;
    double rate = -7;
    assert_int_equal(ig_roofline_measure(IG_ROOF_COUNT, NULL, &rate), IG_ERR_ARGUMENT);
    const ig_roofline_options bad[] = {{.threads = -1},
                                       {.threads = 100000},
                                       {.seconds = -1},
                                       {.seconds = 1e9},
                                       {.read_bytes = UINT64_MAX}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(ig_roofline_measure(IG_ROOF_FMA_F32, &bad[i], &rate), IG_ERR_ARGUMENT);
    assert_int_equal(setenv("INGOT_ISA", "mmx", 1), 0);
    assert_int_equal(ig_roofline_measure(IG_ROOF_FMA_F32, NULL, &rate), IG_ERR_DEVICE);
    assert_non_null(strstr(ig_error_text(), "INGOT_ISA=mmx"));
    unsetenv("INGOT_ISA");
    assert_true(rate == -7); /* untouched */
}

static void *no_memory(void *user, size_t bytes, size_t alignment) {
    (void)user, (void)alignment;
    return bytes > 1 << 16 ? NULL : aligned_alloc(64, (bytes + 63) & ~(size_t)63);
}

static void give_back(void *user, void *p) {
    (void)user;
    free(p);
}

static void memory_of_the_caller_is_used_and_stays_inside(void **state) {
    (void)state;
    enum { BYTES = 3 << 20, GUARD = 64 };
    static _Alignas(64) unsigned char memory[BYTES + GUARD];
    const ig_roofline_options options = {.threads = 2,
                                         .seconds = moment,
                                         .read_bytes = BYTES,
                                         .allocator = {no_memory, give_back, NULL},
                                         .memory = memory};
    double rate = 0;
    for (int i = 0; i < 2; i++)
        assert_int_equal(ig_roofline_measure(IG_ROOF_READ, &options, &rate), IG_OK);
    assert_true(rate > 0);
    assert_int_equal(memory[0], 1); /* pages that were never written would all be one */
    assert_int_equal(memory[BYTES / 2 + 1], 1);
    for (int i = 0; i < GUARD; i++) assert_int_equal(memory[BYTES + i], 0);
    ig_roofline_options little = options;
    little.read_bytes = 1 << 19;
    assert_int_equal(ig_roofline_measure(IG_ROOF_READ, &little, &rate), IG_ERR_ARGUMENT);
}

static void missing_memory_is_an_error_and_no_thread_waits_forever(void **state) {
    (void)state;
    const ig_roofline_options options = {
        .threads = 2, .seconds = moment, .allocator = {no_memory, give_back, NULL}};
    double rate;
    assert_int_equal(ig_roofline_measure(IG_ROOF_READ, &options, &rate), IG_ERR_MEMORY);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_roof_is_above_zero),
        cmocka_unit_test(the_loops_do_what_they_are_counted_for),
        cmocka_unit_test(options_out_of_range_are_refused),
        cmocka_unit_test(memory_of_the_caller_is_used_and_stays_inside),
        cmocka_unit_test(missing_memory_is_an_error_and_no_thread_waits_forever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
