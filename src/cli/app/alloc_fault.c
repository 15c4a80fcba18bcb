#include "cli/app/alloc_fault.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

static void *refuse(ig_alloc_fault *fault, size_t bytes) {
    unsigned long long most = atomic_load(&fault->refused);
    while (most < bytes && !atomic_compare_exchange_weak(&fault->refused, &most, bytes)) continue;
    return NULL;
}

/* Whether this allocation is the one that fails. */
static bool is_the_one(ig_alloc_fault *fault, size_t bytes) {
    if (!fault->failing || atomic_fetch_add(&fault->count, 1) + 1 != fault->failing) return false;
    fprintf(stderr, "ingot: allocation %llu (%zu bytes) fails on purpose\n", fault->failing, bytes);
    return true;
}

static void *fault_alloc(void *user, size_t bytes, size_t alignment) {
    ig_alloc_fault *fault = user;
    if (is_the_one(fault, bytes)) return refuse(fault, bytes);
    void *p = ig_heap.alloc(ig_heap.user, bytes, alignment);
    return p ? p : refuse(fault, bytes);
}

/* jansson's allocation functions take no user pointer. */
static ig_alloc_fault *of_json;

static void *json_alloc(size_t bytes) {
    return is_the_one(of_json, bytes) ? refuse(of_json, bytes) : malloc(bytes);
}

ig_allocator ig_alloc_fault_init(ig_alloc_fault *fault) {
    const char *text = getenv("INGOT_TEST_FAIL_ALLOC");
    atomic_init(&fault->count, 0);
    atomic_init(&fault->refused, 0);
    fault->failing = text ? strtoull(text, NULL, 10) : 0;
    if (fault->failing) {
        of_json = fault;
        json_set_alloc_funcs(json_alloc, free);
    }
    return (ig_allocator){fault_alloc, ig_heap.free, fault};
}
