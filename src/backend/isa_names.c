/* The instruction sets that the CPU backend has kernels for and this machine supports. */
#include "backend/cpu/cpu.h"
#include "ingot/device.h"

const char *ig_isa_name(size_t i) {
    for (ig_isa isa = IG_ISA_SCALAR; isa < IG_ISA_COUNT; isa++)
        if (ig_isa_available(isa) && i-- == 0) return ig_cpu_isa_name(isa);
    return NULL;
}
