/* Detects instruction sets and lists their kernels.  Compiled for the baseline architecture. */
#include <stdio.h>
#include <stdlib.h>
#if defined(__x86_64__) && !defined(IG_SCALAR_ONLY)
#    include <cpuid.h>
#    include <sys/syscall.h>
#    include <unistd.h>
#endif

#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_families.h" /* each of kernels/ */

#define DECLARE(family, isa) extern const ig_cpu_entry IG_CPU_LIST_OF(family, isa)[];
#define NAME(family, isa)    IG_CPU_LIST_OF(family, isa),

static bool always(void) { return true; }

IG_CPU_FAMILIES(DECLARE, scalar, scalar)
static const ig_cpu_entry *const lists_scalar[] = {IG_CPU_FAMILIES(NAME, scalar, scalar) NULL};

#if defined(__x86_64__) && !defined(IG_SCALAR_ONLY)
IG_CPU_FAMILIES(DECLARE, avx2, avx2)
IG_CPU_FAMILIES(DECLARE, avx512, avx512)
IG_CPU_FAMILIES(DECLARE, avx512, avx512vnni)
IG_CPU_FAMILIES(DECLARE, avx512, amx)
static const ig_cpu_entry *const lists_avx2[] = {IG_CPU_FAMILIES(NAME, avx2, avx2) NULL};
static const ig_cpu_entry *const lists_avx512[] = {IG_CPU_FAMILIES(NAME, avx512, avx512) NULL};
static const ig_cpu_entry *const lists_avx512vnni[] = {IG_CPU_FAMILIES(NAME, avx512, avx512vnni)
                                                           NULL};
static const ig_cpu_entry *const lists_amx[] = {IG_CPU_FAMILIES(NAME, avx512, amx) NULL};

/* They test all flags that backend.cmake compiles with; every CPU with AVX2 has F16C. */
static bool has_avx2(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
}

static bool has_avx512vnni(void) { return has_avx512() && __builtin_cpu_supports("avx512vnni"); }

#    if defined(IG_EMULATED_TILES)
enum { AMX_IS_EMULATED = 1 };
static bool has_amx(void) { return has_avx512vnni(); }
#    else
enum { AMX_IS_EMULATED = 0 };

/* AMX tiles of int8 and BF16.  A process must request their use from Linux, once for all its
 * threads. */
static bool has_amx(void) {
    enum { BF16 = 1 << 22, TILES = 1 << 24, INT8 = 1 << 25, ALL = BF16 | TILES | INT8 };
    enum { REQUEST = 0x1023 /* ARCH_REQ_XCOMP_PERM */, TILE_DATA = 18 };
    unsigned a, b, c, d;
    if (!has_avx512vnni() || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & ALL) != ALL)
        return false;
    return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}
#    endif
#endif

static const struct {
    const char *name;
    bool (*available)(void); /* NULL: not compiled in */
    const ig_cpu_entry *const *lists;
    bool is_emulated; /* slow: only by name */
} sets[IG_ISA_COUNT] = {
    [IG_ISA_SCALAR] = {"scalar", always, lists_scalar, false},
#if defined(__x86_64__) && !defined(IG_SCALAR_ONLY)
    [IG_ISA_AVX2] = {"avx2", has_avx2, lists_avx2, false},
    [IG_ISA_AVX512] = {"avx512", has_avx512, lists_avx512, false},
    [IG_ISA_AVX512VNNI] = {"avx512vnni", has_avx512vnni, lists_avx512vnni, false},
    [IG_ISA_AMX] = {AMX_IS_EMULATED ? "amx-emulated" : "amx", has_amx, lists_amx, AMX_IS_EMULATED},
#else
    [IG_ISA_AVX2] = {"avx2", NULL, NULL, false},
    [IG_ISA_AVX512] = {"avx512", NULL, NULL, false},
    [IG_ISA_AVX512VNNI] = {"avx512vnni", NULL, NULL, false},
    [IG_ISA_AMX] = {"amx", NULL, NULL, false},
#endif
};

const char *ig_cpu_isa_name(ig_isa isa) { return sets[isa].name; }

bool ig_isa_available(ig_isa isa) { return sets[isa].available && sets[isa].available(); }

ig_isa ig_isa_best(void) {
    ig_isa isa = IG_ISA_COUNT - 1;
    while (!ig_isa_available(isa) || sets[isa].is_emulated) isa--;
    return isa;
}

const ig_cpu_entry *const *ig_isa_lists(ig_isa isa) { return sets[isa].lists; }

ig_status ig_isa_choose(const ig_host *host, ig_isa *out) {
    const char *wanted = getenv("INGOT_ISA");
    if (!wanted || wanted[0] == '\0') {
        *out = ig_isa_best();
        return IG_OK;
    }
    char have[64] = "";
    for (ig_isa isa = IG_ISA_SCALAR; isa < IG_ISA_COUNT; isa++) {
        if (!ig_isa_available(isa)) continue;
        if (strcmp(wanted, sets[isa].name) == 0) {
            *out = isa;
            return IG_OK;
        }
        const size_t used = strlen(have);
        snprintf(have + used, sizeof have - used, "%s%s", used ? ", " : "", sets[isa].name);
    }
    return IG_HOST_FAIL(host, IG_ERR_DEVICE, "cpu: INGOT_ISA=%.32s: this machine has %s", wanted,
                        have);
}
