#include "backend/isa_names.h"

#include "backend/cpu/cpu.h"

const char *ig_instruction_set(int i) {
    for (ig_isa isa = IG_ISA_SCALAR; isa < IG_ISA_COUNT; isa++)
        if (ig_isa_available(isa) && i-- == 0) return ig_isa_name(isa);
    return NULL;
}
