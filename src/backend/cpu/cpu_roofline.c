#include "backend/cpu/cpu_roofline.h"

#define CEILINGS(isa) IG_CPU_LIST_OF(ceilings, isa)

extern const ig_cpu_ceilings CEILINGS(scalar);
#if defined(__x86_64__) && !defined(IG_SCALAR_ONLY)
extern const ig_cpu_ceilings CEILINGS(avx2), CEILINGS(avx512), CEILINGS(avx512vnni), CEILINGS(amx);
#endif

static const ig_cpu_ceilings *const all[IG_ISA_COUNT] = {
    [IG_ISA_SCALAR] = &CEILINGS(scalar),
#if defined(__x86_64__) && !defined(IG_SCALAR_ONLY)
    [IG_ISA_AVX2] = &CEILINGS(avx2),
    [IG_ISA_AVX512] = &CEILINGS(avx512),
    [IG_ISA_AVX512VNNI] = &CEILINGS(avx512vnni),
    [IG_ISA_AMX] = &CEILINGS(amx),
#endif
};

const ig_cpu_ceilings *ig_cpu_ceilings_of(ig_isa isa) { return all[isa]; }
