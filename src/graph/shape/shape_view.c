/* Shape rules of views: other shapes and strides of the same memory. */
#include "graph/shape/shape_call.h"

#include <string.h>

static ig_shape wanted_shape(const ig_shape_call *c) {
    const ig_attrs_shape *attrs = c->attrs;
    ig_shape shape = {.rank = attrs->rank};
    memcpy(shape.dim, attrs->dim, sizeof shape.dim);
    return shape;
}

static ig_status cannot_become(const ig_shape_call *c, ig_shape shape) {
    char a[IG_SHAPE_TEXT_BYTES], b[IG_SHAPE_TEXT_BYTES];
    if (shape.rank < 0 || shape.rank > IG_MAX_RANK)
        return IG_FAIL(IG_ERR_SHAPE, "%s: rank %d; at most %d", c->op, shape.rank, IG_MAX_RANK);
    return IG_FAIL(IG_ERR_SHAPE, "%s: %s cannot become %s", c->op, ig_shape_text(c->in[0].shape, a),
                   ig_shape_text(shape, b));
}

ig_status ig_infer_reshape(const ig_shape_call *c) {
    const ig_shape shape = wanted_shape(c);
    if (!ig_shape_valid(shape) || ig_shape_count(shape) != ig_shape_count(c->in[0].shape))
        return cannot_become(c, shape);
    c->out[0] = (ig_desc){c->in[0].dtype, shape};
    return IG_OK;
}

ig_status ig_infer_broadcast_to(const ig_shape_call *c) {
    const ig_shape shape = wanted_shape(c);
    ig_shape joint;
    if (!ig_shape_valid(shape) || !broadcast(c->in[0].shape, shape, &joint) ||
        !ig_shape_equal(joint, shape))
        return cannot_become(c, shape);
    c->out[0] = (ig_desc){c->in[0].dtype, shape};
    return IG_OK;
}

ig_status ig_infer_transpose(const ig_shape_call *c) {
    const ig_attrs_axes *attrs = c->attrs;
    uint32_t seen = 0;
    c->out[0] = c->in[0];
    for (int d = 0; d < c->in[0].shape.rank; d++) {
        IG_TRY(want_axis(c, attrs->axis[d]));
        if (seen & 1u << attrs->axis[d])
            return IG_FAIL(IG_ERR_SHAPE, "%s: axis %d is named twice", c->op, attrs->axis[d]);
        seen |= 1u << attrs->axis[d];
        if (is_block(c->in[0].dtype) && (d == c->in[0].shape.rank - 1) != (attrs->axis[d] == d))
            return misshapen(c, 0, "blocks lie along the last dimension, which must stay the last");
        c->out[0].shape.dim[d] = c->in[0].shape.dim[attrs->axis[d]];
    }
    return IG_OK;
}

ig_status ig_infer_slice(const ig_shape_call *c) {
    const ig_attrs_slice *s = c->attrs;
    char text[IG_SHAPE_TEXT_BYTES];
    IG_TRY(want_axis(c, s->axis));
    if (s->begin < 0 || s->end < s->begin || s->end > c->in[0].shape.dim[s->axis])
        return IG_FAIL(IG_ERR_SHAPE, "%s: [%lld, %lld) of axis %d of %s", c->op,
                       (long long)s->begin, (long long)s->end, s->axis,
                       ig_shape_text(c->in[0].shape, text));
    if (s->axis == c->in[0].shape.rank - 1 && s->begin % ig_dtype_block(c->in[0].dtype) != 0)
        return IG_FAIL(IG_ERR_SHAPE, "%s: %lld is within a block of %s", c->op, (long long)s->begin,
                       ig_dtype_name(c->in[0].dtype));
    c->out[0] = c->in[0];
    c->out[0].shape.dim[s->axis] = s->end - s->begin;
    return IG_OK;
}
