/* Compiled for the plainest machine: asks what this one can do and lists the kernels for it. */
#include <stdio.h>
#include <stdlib.h>
#if defined(__x86_64__) && !defined(IG_SCALAR_ONLY)
#    include <cpuid.h>
#    include <sys/syscall.h>
#    include <unistd.h>
#endif

#include "backend/cpu/cpu.h"

/* `dots`: of those that multiply bytes. */
#define FAMILIES(X, isa, dots) \
    X(elementwise, isa)        \
    X(cast, isa)               \
    X(move, isa)               \
    X(reduce, isa)             \
    X(softmax, isa)            \
    X(norm, isa)               \
    X(matmul, isa)             \
    X(quant, dots)             \
    X(rope, isa)               \
    X(attention, isa) X(paged, dots) X(store, isa) X(moe, isa) X(update, isa) X(random, isa)
#define DECLARE(family, isa) extern const ig_cpu_entry IG_CPU_LIST_OF(family, isa)[];
#define NAME(family, isa)    IG_CPU_LIST_OF(family, isa),

static bool always(void) { return true; }

FAMILIES(DECLARE, scalar, scalar)
static const ig_cpu_entry *const lists_scalar[] = {FAMILIES(NAME, scalar, scalar) NULL};

#if defined(__x86_64__) && !defined(IG_SCALAR_ONLY)
FAMILIES(DECLARE, avx2, avx2)
FAMILIES(DECLARE, avx512, avx512)
DECLARE(quant, avx512vnni)
DECLARE(paged, avx512vnni)
DECLARE(quant, amx)
DECLARE(paged, amx)
static const ig_cpu_entry *const lists_avx2[] = {FAMILIES(NAME, avx2, avx2) NULL};
static const ig_cpu_entry *const lists_avx512[] = {FAMILIES(NAME, avx512, avx512) NULL};
static const ig_cpu_entry *const lists_avx512vnni[] = {FAMILIES(NAME, avx512, avx512vnni) NULL};
static const ig_cpu_entry *const lists_amx[] = {FAMILIES(NAME, avx512, amx) NULL};

/* They ask for all that CMakeLists.txt compiles with; whatever has AVX2 has F16C. */
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

/* Tiles of bytes and of BF16.  Linux gives a process the room that their registers take only when
 * it asks: from then on all its threads may use them, those to come as well. */
static bool has_amx(void) {
    enum { BF16 = 1 << 22, TILES = 1 << 24, BYTES = 1 << 25, ALL = BF16 | TILES | BYTES };
    enum { ASK = 0x1023 /* ARCH_REQ_XCOMP_PERM */, TILE_DATA = 18 };
    unsigned a, b, c, d;
    if (!has_avx512vnni() || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & ALL) != ALL)
        return false;
    return syscall(SYS_arch_prctl, ASK, TILE_DATA) == 0;
}
#    endif
#endif

static const struct {
    const char *name;
    bool (*available)(void); /* NULL: not compiled in */
    const ig_cpu_entry *const *lists;
    bool is_emulated; /* slow: for who asks for it */
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

const char *ig_isa_name(ig_isa isa) { return sets[isa].name; }

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
