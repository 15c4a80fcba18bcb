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
enum { IG_LARGE_PAGE = 1 << 21 };

extern const ig_allocator ig_heap; /* the C library's */

/* Zeroed room for `count` things; NULL if there is none or the product overflows. */
void *ig_alloc(const ig_allocator *a, size_t count, size_t bytes_each);
void ig_free(const ig_allocator *a, void *p);

char *ig_copy_text(const ig_allocator *a, const char *text); /* NULL: no memory */

/* Memory that will be read at length: large pages, if there are any, for whole ones of it that
 * nobody has written to yet; NULL is fine.  Each stands for 512 others where addresses are
 * translated. */
void ig_ask_large_pages(void *p, size_t bytes);

/* Makes room for `wanted` items behind *items, keeping what is there; false: no memory, and
 * nothing has changed.  New items are zero. */
bool ig_grow(const ig_allocator *a, void **items, size_t *capacity, size_t wanted,
             size_t bytes_each);
#define IG_GROW(a, items, capacity, wanted) \
    ig_grow(a, (void **)&(items), capacity, wanted, sizeof *(items))

#endif
