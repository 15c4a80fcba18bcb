/* has_isa SET: 0 if the CPU backend can use the instruction set here, 77 (skipped) if it cannot. */
#include <stdio.h>
#include <string.h>

#include "backend/cpu/cpu.h"

enum { SKIPPED = 77 };

int main(int argc, char **argv) {
    for (ig_isa isa = 0; argc == 2 && isa < IG_ISA_COUNT; isa++)
        if (strcmp(argv[1], ig_cpu_isa_name(isa)) == 0 && ig_isa_available(isa)) return 0;
    printf("this machine does not have %s\n", argc == 2 ? argv[1] : "a set without a name");
    return SKIPPED;
}
