/*
 * alloc.h - the only way to the heap.
 *
 * Every object knows the allocator it came from, a context's most often, so a
 * test can count its allocations and let any of them fail.
 */
#ifndef IG_BASE_ALLOC_H
#define IG_BASE_ALLOC_H

#include "ingot/context.h"

enum { IG_ALIGNMENT = 64 }; /* of everything: a cache line, the widest vector */

extern const ig_allocator ig_heap; /* the C library's */

/* Zeroed room for `count` things; NULL if there is none or the product overflows. */
void *ig_alloc(const ig_allocator *a, size_t count, size_t bytes_each);
void ig_free(const ig_allocator *a, void *p);

/* For memory that is read from end to end by many streams: large pages, where the system has any.
 * They are taken when memory is first touched. */
void ig_want_large_pages(void *p, size_t bytes);

char *ig_copy_text(const ig_allocator *a, const char *text); /* NULL: no memory */

/* Makes room for `wanted` items behind *items, keeping what is there; false: no memory, and
 * nothing has changed.  New items are zero. */
bool ig_grow(const ig_allocator *a, void **items, size_t *capacity, size_t wanted,
             size_t bytes_each);
#define IG_GROW(a, items, capacity, wanted) \
    ig_grow(a, (void **)&(items), capacity, wanted, sizeof *(items))

#endif
