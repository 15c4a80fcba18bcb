/* pack.h - weights in the layouts that kernels ask for, made by the host's team. */
#ifndef IG_BACKEND_CPU_EXEC_PACK_H
#define IG_BACKEND_CPU_EXEC_PACK_H

#include "backend/cpu/cpu_kernel.h"

/* Bytes of the packed weight of the step; 0: none, or the host keeps none. */
uint64_t ig_cpu_pack_bytes(const ig_host *host, const ig_step *step, const ig_cpu_setup *setup);

/* How far the packing of a program is. */
typedef struct ig_cpu_pack_progress {
    ig_progress *progress; /* the host's */
    uint64_t done, total;  /* bytes */
} ig_cpu_pack_progress;

/* The packed weight, which lives as long as the weight; NULL through `out`: the kernel reads the
 * weight itself.  Fails only if the host cancels. */
IG_MUST_CHECK ig_status ig_cpu_pack_weight(const ig_host *host, const ig_step *step,
                                           const ig_cpu_setup *setup,
                                           ig_cpu_pack_progress *progress, const void **out);

#endif
