/*
 * Dynamic, Compiled and Auto are one: the same losses and parameters to the last
 * bit, on every instruction set, with any number of threads.  The counters say
 * that the steps were really replayed.
 */
#include <stdio.h>
#include <stdlib.h>

#include "backend/cpu/cpu.h"
#include "unit/nets.h"

enum { MOST_THREADS = 3 };

static const struct {
    const char *name;
    program *train;
} nets[] = {
    {"char-mlp", train_char_mlp},
    {"every op", train_every_op},
    {"sgd", train_by_sgd},
    {"custom op", train_custom_op},
};

static void counters_must_fit(ig_counters c, ig_mode mode, const char *what) {
    static const uint64_t records[] = {0, 1, 1}, replays[] = {0, NET_STEPS - 1, NET_STEPS - 3};
    if (c.records != records[mode] || c.replays != replays[mode] || c.steps != NET_STEPS)
        fail_msg("%s: %d steps, %d recorded, %d replayed", what, (int)c.steps, (int)c.records,
                 (int)c.replays);
}

/* All nets in all modes and with up to `most_threads` threads, on one device. */
static void try_device(const char *device, const char *isa, int most_threads) {
    static const char *const modes[] = {"dynamic", "compiled", "auto"};
    for (size_t n = 0; n < sizeof nets / sizeof nets[0]; n++) {
        trail want = {0};
        for (ig_mode mode = IG_MODE_DYNAMIC; mode <= IG_MODE_AUTO; mode++)
            for (int threads = 1; threads <= most_threads; threads++) {
                trail got = {0};
                char what[96];
                snprintf(what, sizeof what, "%s, %s %s, %s, %d threads", nets[n].name, device, isa,
                         modes[mode], threads);
                const ig_counters c = play((setting){mode, device, threads}, nets[n].train, &got);
                counters_must_fit(c, mode, what);
                if (want.count == 0) {
                    want = got;
                    continue;
                }
                trail_must_equal(&got, &want, what);
                trail_free(&got);
            }
        trail_free(&want);
    }
}

static void try_isa(ig_isa isa) {
    if (!ig_isa_available(isa)) skip();
#ifdef __SANITIZE_THREAD__ /* threads meet in the same places on every set, and this takes long */
    if (isa != ig_isa_best()) skip();
#endif
    setenv("INGOT_ISA", ig_cpu_isa_name(isa), 1);
    try_device("cpu", ig_cpu_isa_name(isa), MOST_THREADS);
    unsetenv("INGOT_ISA");
}

static void modes_and_threads_give_equal_bits_in_scalar_code(void **state) {
    (void)state;
    try_isa(IG_ISA_SCALAR);
}

static void modes_and_threads_give_equal_bits_with_avx2(void **state) {
    (void)state;
    try_isa(IG_ISA_AVX2);
}

static void modes_and_threads_give_equal_bits_with_avx512(void **state) {
    (void)state;
    try_isa(IG_ISA_AVX512);
}

static void modes_and_threads_give_equal_bits_with_avx512vnni(void **state) {
    (void)state;
    try_isa(IG_ISA_AVX512VNNI);
}

static void modes_and_threads_give_equal_bits_with_amx(void **state) {
    (void)state;
    try_isa(IG_ISA_AMX);
}

static void modes_give_equal_bits_on_ref(void **state) {
    (void)state;
    try_device("ref", "", 1); /* it uses no more */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modes_and_threads_give_equal_bits_in_scalar_code),
        cmocka_unit_test(modes_and_threads_give_equal_bits_with_avx2),
        cmocka_unit_test(modes_and_threads_give_equal_bits_with_avx512),
        cmocka_unit_test(modes_and_threads_give_equal_bits_with_avx512vnni),
        cmocka_unit_test(modes_and_threads_give_equal_bits_with_amx),
        cmocka_unit_test(modes_give_equal_bits_on_ref),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
