/* Shapes, dtypes and layouts as plain values. */
#include "graph/layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool ig_shape_valid(ig_shape shape) {
    if (shape.rank < 0 || shape.rank > IG_MAX_RANK) return false;
    int64_t n = 1;
    for (int d = 0; d < shape.rank; d++) {
        /* Zero extents count as 1, so that the strides of an empty shape fit, too. */
        const int64_t extent = shape.dim[d] == 0 ? 1 : shape.dim[d];
        if (extent < 0 || __builtin_mul_overflow(n, extent, &n)) return false;
    }
    return true;
}

int64_t ig_shape_count(ig_shape shape) {
    int64_t n = 1;
    for (int d = 0; d < shape.rank; d++) n *= shape.dim[d];
    return n;
}

bool ig_shape_equal(ig_shape a, ig_shape b) {
    if (a.rank != b.rank) return false;
    for (int d = 0; d < a.rank; d++)
        if (a.dim[d] != b.dim[d]) return false;
    return true;
}

const char *ig_shape_text(ig_shape shape, char *out) {
    char *p = out;
    *p++ = '[';
    for (int d = 0; d < shape.rank; d++) p += sprintf(p, "%s%" PRId64, d ? "," : "", shape.dim[d]);
    *p++ = ']';
    *p = '\0';
    return out;
}

static const struct {
    const char *name;
    int64_t block, bytes;
} dtypes[IG_DTYPE_COUNT] = {
#define IG_DTYPE(ID, name, block, bytes) {name, block, bytes},
#include "ingot/dtype.def"
};

const char *ig_dtype_name(ig_dtype dtype) {
    return (uint32_t)dtype < IG_DTYPE_COUNT ? dtypes[dtype].name : "unknown";
}

bool ig_dtype_find(const char *name, ig_dtype *out) {
    for (int i = 0; i < IG_DTYPE_COUNT; i++) {
        if (strcmp(name, dtypes[i].name) != 0) continue;
        *out = (ig_dtype)i;
        return true;
    }
    return false;
}

bool ig_desc_bytes(ig_desc desc, uint64_t *out) {
    if ((uint32_t)desc.dtype >= IG_DTYPE_COUNT || !ig_shape_valid(desc.shape)) return false;
    const int64_t block = dtypes[desc.dtype].block, count = ig_shape_count(desc.shape);
    const int32_t rank = desc.shape.rank;
    if (block > 1 && (rank == 0 || desc.shape.dim[rank - 1] % block != 0)) return false;
    return !__builtin_mul_overflow((uint64_t)(count / block), (uint64_t)dtypes[desc.dtype].bytes,
                                   out);
}

ig_layout ig_layout_packed(ig_desc desc) {
    ig_layout layout = {.desc = desc};
    int64_t stride = 1;
    for (int d = desc.shape.rank - 1; d >= 0; d--) {
        layout.stride[d] = stride;
        if (desc.shape.dim[d] > 0) stride *= desc.shape.dim[d];
    }
    return layout;
}

bool ig_layout_is_packed(const ig_layout *layout) {
    const ig_shape *shape = &layout->desc.shape;
    int64_t stride = 1;
    if (ig_shape_count(*shape) == 0) return true;
    for (int d = shape->rank - 1; d >= 0; d--) {
        if (shape->dim[d] > 1 && layout->stride[d] != stride) return false;
        stride *= shape->dim[d];
    }
    return true;
}

bool ig_layout_equal(const ig_layout *a, const ig_layout *b) {
    if (a->desc.dtype != b->desc.dtype || a->offset != b->offset ||
        !ig_shape_equal(a->desc.shape, b->desc.shape))
        return false;
    for (int d = 0; d < a->desc.shape.rank; d++)
        if (a->stride[d] != b->stride[d]) return false;
    return true;
}
