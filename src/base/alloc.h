/*
 * alloc.h - the only way to the heap.
 *
 * Every object records its allocator, usually the context's, so a test can count allocations and
 * make any of them fail.
 */
#ifndef IG_BASE_ALLOC_H
#define IG_BASE_ALLOC_H

#include "ingot/context.h"

enum { IG_ALIGNMENT = 64 }; /* a cache line and the widest vector */
enum { IG_LARGE_PAGE = 1 << 21 };

extern const ig_allocator ig_heap; /* the C library's */

/* Zeroed memory for `count` elements; NULL: out of memory, or the size overflows. In these three
 * functions a NULL allocator is ig_heap. */
void *ig_alloc(const ig_allocator *a, size_t count, size_t bytes_each);
void ig_free(const ig_allocator *a, void *p);

char *ig_copy_text(const ig_allocator *a, const char *text); /* NULL: out of memory */

/* Asks the system for huge pages. Only complete OS pages that were never written get one. NULL is
 * fine. A huge page replaces 512 TLB entries. */
void ig_ask_large_pages(void *p, size_t bytes);

/* Makes room for `wanted` elements in *items, keeping the existing ones; false: out of memory, and
 * nothing has changed. New elements are zero. */
bool ig_grow(const ig_allocator *a, void **items, size_t *capacity, size_t wanted,
             size_t bytes_each);
#define IG_GROW(a, items, capacity, wanted) \
    ig_grow(a, (void **)&(items), capacity, wanted, sizeof *(items))

#endif
