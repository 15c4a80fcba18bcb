/*
 * cpu_kernel.h - what a CPU kernel is.
 *
 * A kernel computes units [begin, end) of a step.  It cannot fail, does not
 * allocate, keeps no state and may run on many threads at once: all that could
 * go wrong was found by its setup(), which looks at the step when a program is
 * compiled and leaves behind the numbers that the kernel needs.
 *
 * What a unit is, the entry says:
 *   BY_ELEMENT  one element of out[0], counted row by row
 *   BY_ROW      one row of out[0]: its complete last dimension
 *   BY_UNIT     whatever the kernel counts; setup() says how many there are
 * Each unit is computed by one call, in an order fixed by the shape, so
 * results do not depend on how a step was cut.
 */
#ifndef IG_BACKEND_CPU_CPU_KERNEL_H
#define IG_BACKEND_CPU_CPU_KERNEL_H

#include "ingot/backend.h"

typedef struct ig_cpu_launch ig_cpu_launch;
typedef void ig_cpu_kernel(const ig_cpu_launch *l, int64_t begin, int64_t end);

/* A step with all that its kernel looks at. */
struct ig_cpu_launch {
    ig_cpu_kernel *run;
    char *const *at;           /* first element of each operand in this run: inputs, then outputs */
    const void *params;        /* what setup() made of the step */
    const ig_operand *operand; /* as `at`: for ops with more inputs than params could describe */
    char *scratch;             /* of this run, as many bytes as setup() asked for */
    const ig_slot *slots;      /* of this run */
};
static_assert(sizeof(ig_cpu_launch) <= 64, "a launch is one cache line");

typedef enum ig_cpu_split { BY_ELEMENT, BY_ROW, BY_UNIT } ig_cpu_split;

enum { IG_CPU_PARAMS_BYTES = 1024 };

/* Packs column groups [begin, end) of a weight.  A pure function: what it writes depends on the
 * weight's bytes, dtype and shape alone, whatever the instruction set. */
typedef void ig_cpu_pack_fn(const void *params, const char *weight, char *packed, int64_t begin,
                            int64_t end);

/* A weight in a layout of the kernel, and the kernel that reads it.  Results are
 * bit-exact. */
typedef struct ig_cpu_pack {
    ig_cpu_kernel *run; /* NULL: there is no other layout */
    ig_cpu_pack_fn *pack;
    uint32_t input;
    int64_t groups; /* of columns: what is packed independently */
    uint64_t group_bytes;
    bool prologue_packed_only; /* the prologue is for this layout alone */
} ig_cpu_pack;

typedef struct ig_cpu_setup {
    int64_t units;        /* for BY_UNIT */
    int64_t cost;         /* of one unit, in multiply-adds, about; 0 counts as 1 */
    int64_t grain;        /* units that one thread takes at a time; 0 counts as 1 */
    int64_t grain_single; /* the same where one thread does all; 0: as `grain` */
    uint64_t scratch_bytes;
    ig_cpu_pack pack;
    ig_cpu_kernel *prologue; /* all its units are done before the first of the step; NULL: none */
    int64_t prologue_units, prologue_cost;
    uint32_t prologue_kind; /* equal prologue, kind and in[0] give equal scratch; 0: not shared */
    bool prologue_by_row;   /* unit r of the prologue needs row r of in[0] and nothing else */
    uint32_t params_bytes;  /* of `params` that are kept */
    _Alignas(64) char params[IG_CPU_PARAMS_BYTES];
} ig_cpu_setup;

/* False: this kernel cannot run the step (dtype, shape, strides, attributes). */
typedef bool ig_cpu_setup_fn(const ig_step *step, ig_cpu_setup *out);

/* Of the entries for one op, the first whose setup() says yes is taken: fast ones come first. */
typedef struct ig_cpu_entry {
    uint32_t op;
    ig_dtype dtype; /* of in[0], or of out[0] where there is none: what capabilities list */
    ig_cpu_split split;
    ig_cpu_setup_fn *setup;
    ig_cpu_kernel *run;
} ig_cpu_entry;

/*
 * Every file in kernels/ is compiled once per instruction set that makes a difference
 * (CMakeLists.txt, IG_ISAS) and exports just one symbol: the list of kernels in it, named after the
 * set, e.g. ig_cpu_norm_avx2.  All else in such a file is static.  The list ends with an entry
 * without `run`.
 */
#define IG_CPU_LIST_OF(family, isa)     ig_cpu_##family##_##isa
#define IG_CPU_LIST_EXPAND(family, isa) IG_CPU_LIST_OF(family, isa)
#define IG_CPU_LIST(family)             IG_CPU_LIST_EXPAND(family, IG_ISA)

#endif
