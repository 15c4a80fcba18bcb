/*
 * name_table.h - hash table from names to indices, for keys and tensors.
 *
 * Sized for a count known in advance. Names are lent and need no terminator.
 */
#ifndef IG_FORMAT_NAME_TABLE_H
#define IG_FORMAT_NAME_TABLE_H

#include "base/alloc.h"

typedef struct ig_name {
    const char *bytes; /* NULL: a free slot */
    size_t n_bytes, index;
} ig_name;

typedef struct ig_names {
    ig_name *places;
    size_t n_places; /* a power of two, or 0 */
} ig_names;

/* Room for `count` names; false: out of memory. */
bool ig_names_init(ig_names *names, const ig_allocator *a, size_t count);
void ig_names_deinit(ig_names *names, const ig_allocator *a); /* a zeroed one is fine */

/* False: a duplicate. */
bool ig_names_add(ig_names *names, const char *bytes, size_t n_bytes, size_t index);
bool ig_names_find(const ig_names *names, const char *bytes, size_t n_bytes, size_t *out);

#endif
