/*
 * golden.h - reads the record files that make_torch.py writes.
 *
 * A file is a list of records: a line "name dtype extents...", then the packed
 * elements, four little-endian bytes each.
 */
#ifndef IG_TESTS_GOLDEN_H
#define IG_TESTS_GOLDEN_H

#include "ingot/tensor.h"

enum { GOLDEN_MAX = 128, GOLDEN_NAME_BYTES = 64 };

typedef struct golden_record {
    char name[GOLDEN_NAME_BYTES];
    ig_desc desc;
    int64_t count;
    void *elements; /* float or int32_t */
} golden_record;

typedef struct golden {
    golden_record records[GOLDEN_MAX];
    int count;
} golden;

/* Reads a whole file; false: no such file, or not of this kind.  golden_free() in either case. */
bool golden_read(const char *path, golden *g);
void golden_free(golden *g);
const golden_record *golden_find(const golden *g, const char *name); /* lent; NULL: none */

#endif
