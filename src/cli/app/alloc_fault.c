#include "cli/app/alloc_fault.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

static void *refuse(ig_fault *fault, size_t bytes) {
    unsigned long long most = atomic_load(&fault->refused);
    while (most < bytes && !atomic_compare_exchange_weak(&fault->refused, &most, bytes)) continue;
    return NULL;
}

static void *fault_alloc(void *user, size_t bytes, size_t alignment) {
    ig_fault *fault = user;
    if (fault->failing && atomic_fetch_add(&fault->count, 1) + 1 == fault->failing) {
        fprintf(stderr, "ingot: allocation %llu (%zu bytes) fails on purpose\n", fault->failing,
                bytes);
        return refuse(fault, bytes);
    }
    void *p = ig_heap.alloc(ig_heap.user, bytes, alignment);
    return p ? p : refuse(fault, bytes);
}

ig_allocator ig_fault_init(ig_fault *fault) {
    const char *text = getenv("INGOT_TEST_FAIL_ALLOC");
    atomic_init(&fault->count, 0);
    atomic_init(&fault->refused, 0);
    fault->failing = text ? strtoull(text, NULL, 10) : 0;
    return (ig_allocator){fault_alloc, ig_heap.free, fault};
}
