#include "cli/fault.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

static void *fault_alloc(void *user, size_t bytes, size_t alignment) {
    ig_fault *fault = user;
    if (atomic_fetch_add(&fault->count, 1) + 1 == fault->failing) {
        fprintf(stderr, "ingot: allocation %llu (%zu bytes) fails on purpose\n", fault->failing,
                bytes);
        return NULL;
    }
    return ig_heap.alloc(ig_heap.user, bytes, alignment);
}

static void fault_free(void *user, void *p) {
    (void)user;
    ig_heap.free(ig_heap.user, p);
}

ig_allocator ig_fault_init(ig_fault *fault) {
    const char *text = getenv("INGOT_TEST_FAIL_ALLOC");
    atomic_init(&fault->count, 0);
    fault->failing = text ? strtoull(text, NULL, 10) : 0;
    return fault->failing ? (ig_allocator){fault_alloc, fault_free, fault} : ig_heap;
}
