/*
 * fault.h - running out of memory, and doing so on purpose.
 *
 * With INGOT_TEST_FAIL_ALLOC=N the N-th allocation of the program's contexts
 * fails, and only that one; all others come from the heap.  A loop over N tries
 * every place where memory can be missing.  The largest request that was turned
 * down is remembered, for the report.
 */
#ifndef IG_CLI_FAULT_H
#define IG_CLI_FAULT_H

#include <stdatomic.h>

#include "ingot/context.h"

typedef struct ig_fault {
    atomic_ullong count;        /* allocations asked for so far */
    unsigned long long failing; /* the one that fails; 0: none */
    atomic_ullong refused;      /* bytes of the largest that failed; 0: none did */
} ig_fault;

/* Reads the variable; the allocator that is returned uses `fault` as long as it lives. */
ig_allocator ig_fault_init(ig_fault *fault);

#endif
