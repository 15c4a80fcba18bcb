/*
 * Views. They never touch elements: each is arithmetic on extents, strides and offset.
 */
#include "graph/view.h"

typedef bool view_rule(const void *attrs, const ig_layout *in, ig_layout *out);

/* The stride of the innermost of dimensions [first, end), if they are contiguous within each
 * other. */
static bool run_stride(const ig_layout *in, int first, int end, int64_t *out) {
    int64_t expected = -1; /* of the next outer dimension */
    *out = 1;
    for (int d = end - 1; d >= first; d--) {
        if (in->desc.shape.dim[d] == 1) continue;
        if (expected < 0)
            *out = in->stride[d];
        else if (in->stride[d] != expected)
            return false;
        expected = in->stride[d] * in->desc.shape.dim[d];
    }
    return true;
}

/*
 * Matches groups of contiguous dimensions of the old shape with groups of the new shape that have
 * the same number of elements:
 *
 *     old [4, 6, 5]  strides [60, 5, 1]     [4] and [6, 5] are contiguous groups
 *     new [4, 3, 10] strides [60, 10, 1]    [3, 10] regroups the second
 */
static bool view_reshape(const void *attrs, const ig_layout *in, ig_layout *out) {
    (void)attrs;
    const ig_shape *from = &in->desc.shape, *to = &out->desc.shape;
    if (ig_shape_count(*from) == 0) {
        const ig_layout packed = ig_layout_packed(out->desc);
        for (int d = 0; d < to->rank; d++) out->stride[d] = packed.stride[d];
        return true;
    }
    int i = 0, j = 0;
    while (i < from->rank || j < to->rank) {
        const int first = i, first_new = j;
        int64_t n_from = i < from->rank ? from->dim[i++] : 1;
        int64_t n_to = j < to->rank ? to->dim[j++] : 1;
        while (n_from != n_to) {
            if (n_from < n_to)
                n_from *= from->dim[i++];
            else
                n_to *= to->dim[j++];
        }
        int64_t stride;
        if (!run_stride(in, first, i, &stride)) return false;
        for (int d = j - 1; d >= first_new; d--) {
            out->stride[d] = stride;
            stride *= to->dim[d];
        }
    }
    return true;
}

static bool view_transpose(const void *attrs, const ig_layout *in, ig_layout *out) {
    const ig_attrs_axes *axes = attrs;
    for (int d = 0; d < in->desc.shape.rank; d++) out->stride[d] = in->stride[axes->axis[d]];
    return true;
}

static bool view_slice(const void *attrs, const ig_layout *in, ig_layout *out) {
    const ig_attrs_slice *s = attrs;
    for (int d = 0; d < in->desc.shape.rank; d++) out->stride[d] = in->stride[d];
    /* An empty slice keeps its input's offset: its own could be out of bounds. */
    if (ig_shape_count(out->desc.shape) > 0) out->offset += s->begin * in->stride[s->axis];
    return true;
}

static bool view_broadcast(const void *attrs, const ig_layout *in, ig_layout *out) {
    (void)attrs;
    const ig_layout seen = ig_view_broadcast(in, out->desc.shape);
    for (int d = 0; d < IG_MAX_RANK; d++) out->stride[d] = seen.stride[d];
    return true;
}

ig_layout ig_view_broadcast(const ig_layout *in, ig_shape shape) {
    ig_layout out = {.desc = {in->desc.dtype, shape}, .offset = in->offset};
    const int added = shape.rank - in->desc.shape.rank;
    for (int d = 0; d < in->desc.shape.rank; d++)
        out.stride[added + d] = in->desc.shape.dim[d] == 1 ? 0 : in->stride[d];
    return out;
}

bool ig_view(ig_op op, const void *attrs, const ig_layout *in, ig_desc desc, ig_layout *out) {
    static view_rule *const rules[IG_OP_COUNT] = {
        [IG_OP_RESHAPE] = view_reshape,
        [IG_OP_TRANSPOSE] = view_transpose,
        [IG_OP_SLICE] = view_slice,
        [IG_OP_BROADCAST] = view_broadcast,
    };
    assert(rules[op]);
    *out = (ig_layout){.desc = desc, .offset = in->offset};
    return rules[op](attrs, in, out);
}
