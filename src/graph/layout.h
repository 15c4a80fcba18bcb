/* layout.h - where the elements of a value are in its memory. */
#ifndef IG_GRAPH_LAYOUT_H
#define IG_GRAPH_LAYOUT_H

#include "ingot/tensor.h"

/* Element (i, j, ...) is at offset + i stride[0] + j stride[1] + ... elements from the start. */
typedef struct ig_layout {
    ig_desc desc;
    int64_t offset;
    int64_t stride[IG_MAX_RANK]; /* 0: the dimension is broadcast */
} ig_layout;

ig_layout ig_layout_packed(ig_desc desc); /* row-major; the shape must be valid */
bool ig_layout_is_packed(const ig_layout *layout);
bool ig_layout_equal(const ig_layout *a, const ig_layout *b);

#endif
