/* cpu.h - the CPU backend, and the instruction sets its kernels are compiled for. */
#ifndef IG_BACKEND_CPU_CPU_H
#define IG_BACKEND_CPU_CPU_H

#include "backend/cpu/cpu_kernel.h"

extern const ig_backend ig_cpu_backend;

/* From the plainest to the best; a machine that has one need not have all before it. */
typedef enum ig_isa {
    IG_ISA_SCALAR,
    IG_ISA_AVX2,
    IG_ISA_AVX512,
    IG_ISA_AVX512VNNI,
    IG_ISA_AMX,
    IG_ISA_COUNT
} ig_isa;

const char *ig_cpu_isa_name(ig_isa isa); /* "avx2", as INGOT_ISA has it */
bool ig_isa_available(ig_isa isa);       /* compiled in, and this machine has it */
ig_isa ig_isa_best(void);                /* of those that are available */

/* The set that INGOT_ISA names, or the best; one that is not available is an error. */
IG_MUST_CHECK ig_status ig_isa_choose(const ig_host *host, ig_isa *out);

/* The kernel lists of a set that is available, one per file; NULL ends them. */
const ig_cpu_entry *const *ig_isa_lists(ig_isa isa);

#endif
