#include "backend/cpu/cpu_roofline.h"

#define ROOFLINES(isa) IG_CPU_LIST_OF(roofline, isa)

extern const ig_cpu_roofline ROOFLINES(scalar);
#if defined(__x86_64__) && !defined(IG_SCALAR_ONLY)
extern const ig_cpu_roofline ROOFLINES(avx2), ROOFLINES(avx512), ROOFLINES(avx512vnni),
    ROOFLINES(amx);
#endif

static const ig_cpu_roofline *const all[IG_ISA_COUNT] = {
    [IG_ISA_SCALAR] = &ROOFLINES(scalar),
#if defined(__x86_64__) && !defined(IG_SCALAR_ONLY)
    [IG_ISA_AVX2] = &ROOFLINES(avx2),
    [IG_ISA_AVX512] = &ROOFLINES(avx512),
    [IG_ISA_AVX512VNNI] = &ROOFLINES(avx512vnni),
    [IG_ISA_AMX] = &ROOFLINES(amx),
#endif
};

const ig_cpu_roofline *ig_cpu_roofline_of(ig_isa isa) { return all[isa]; }
