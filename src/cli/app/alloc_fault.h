/*
 * alloc_fault.h - allocation failures, real and injected.
 *
 * With INGOT_TEST_FAIL_ALLOC=N, exactly the N-th allocation of the program's
 * contexts, or of jansson, fails; all others come from the heap.  A loop over N covers every
 * place that allocates.  The report shows the largest request that failed.
 */
#ifndef IG_CLI_APP_ALLOC_FAULT_H
#define IG_CLI_APP_ALLOC_FAULT_H

#include <stdatomic.h>

#include "ingot/context.h"

typedef struct ig_alloc_fault {
    atomic_ullong count;        /* allocations requested so far */
    unsigned long long failing; /* the one that fails; 0: none */
    atomic_ullong refused;      /* bytes of the largest one that failed; 0: none */
} ig_alloc_fault;

/* Reads the variable.  `fault` must outlive the allocator. */
ig_allocator ig_alloc_fault_init(ig_alloc_fault *fault);

#endif
