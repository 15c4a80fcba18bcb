/*
 * names.h - names to numbers: which of many keys or tensors has this name.
 *
 * A hash table with room for a count that is known beforehand.  Names are lent
 * and need no 0 at the end.
 */
#ifndef IG_FORMAT_NAMES_H
#define IG_FORMAT_NAMES_H

#include "base/alloc.h"

typedef struct ig_name {
    const char *bytes; /* NULL: a free place */
    size_t n_bytes, index;
} ig_name;

typedef struct ig_names {
    ig_name *places;
    size_t n_places; /* a power of two, or 0 */
} ig_names;

/* Room for `count` names; false: no memory. */
bool ig_names_init(ig_names *names, const ig_allocator *a, size_t count);
void ig_names_deinit(ig_names *names, const ig_allocator *a); /* a zeroed one is fine */

/* False: the name is there already. */
bool ig_names_add(ig_names *names, const char *bytes, size_t n_bytes, size_t index);
bool ig_names_find(const ig_names *names, const char *bytes, size_t n_bytes, size_t *out);

#endif
