/*
 * Data movement. Ops that only move elements accept every dtype, bit for bit; those that also add
 * accept reals.
 *
 * Ops along an axis view a shape as [outer, axis, inner]:
 *     element (o, a, i) has index (o * axis + a) * inner + i
 */
#include <math.h>

#include "backend/ref/real.h"
#include "backend/ref/ref_convert.h"

typedef struct axes {
    int64_t outer, axis, inner;
} axes;

static axes around(const ig_ref_view *v, int axis) {
    axes a = {1, v->shape.dim[axis], 1};
    for (int d = 0; d < axis; d++) a.outer *= v->shape.dim[d];
    for (int d = axis + 1; d < v->shape.rank; d++) a.inner *= v->shape.dim[d];
    return a;
}

static void copy(const ig_ref_launch *l) {
    const int64_t n = ig_shape_count(l->out[0].shape);
    for (int64_t i = 0; i < n; i++) ig_ref_copy(&l->out[0], i, &l->in[0], i);
}

static void fill(const ig_ref_launch *l) {
    const int64_t n = ig_shape_count(l->out[0].shape);
    for (int64_t i = 0; i < n; i++) ig_ref_put_any(&l->out[0], i, l->attrs.fill.value);
}

static void pad(const ig_ref_launch *l) {
    const ig_attrs_pad p = l->attrs.pad;
    const axes x = around(&l->in[0], p.axis), y = around(&l->out[0], p.axis);
    const int64_t n = ig_shape_count(l->out[0].shape);
    for (int64_t i = 0; i < n; i++) {
        const int64_t o = i / (y.axis * y.inner), a = i / y.inner % y.axis - p.before;
        if (a < 0 || a >= x.axis)
            ig_ref_put_any(&l->out[0], i, 0);
        else
            ig_ref_copy(&l->out[0], i, &l->in[0], (o * x.axis + a) * x.inner + i % y.inner);
    }
}

static void concat(const ig_ref_launch *l) {
    const int axis = l->attrs.axis.axis;
    const axes y = around(&l->out[0], axis);
    int64_t begin = 0; /* of this input, along the result's axis */
    for (uint32_t k = 0; k < l->n_in; k++) {
        const axes x = around(&l->in[k], axis);
        const int64_t n = ig_shape_count(l->in[k].shape);
        for (int64_t i = 0; i < n; i++) {
            const int64_t o = i / (x.axis * x.inner), a = i / x.inner % x.axis + begin;
            ig_ref_copy(&l->out[0], (o * y.axis + a) * y.inner + i % x.inner, &l->in[k], i);
        }
        begin += x.axis;
    }
}

/* The element of x that element i of the index selects; -1: out of range. */
static int64_t pointed_at(axes x, const ig_ref_view *index, int axis, int64_t i) {
    const axes at = around(index, axis);
    const int64_t to = get_index(index, i);
    if (to < 0 || to >= x.axis) return -1;
    return (i / (at.axis * at.inner) * x.axis + to) * x.inner + i % at.inner;
}

static void gather(const ig_ref_launch *l) {
    const int axis = l->attrs.axis.axis;
    const axes x = around(&l->in[0], axis);
    const int64_t n = ig_shape_count(l->out[0].shape);
    for (int64_t i = 0; i < n; i++) {
        const int64_t from = pointed_at(x, &l->in[1], axis, i);
        if (from < 0)
            ig_ref_put_any(&l->out[0], i, (double)NAN); /* 0 for integers */
        else
            ig_ref_copy(&l->out[0], i, &l->in[0], from);
    }
}

static void scatter_add(const ig_ref_launch *l) {
    const int axis = l->attrs.axis.axis;
    const axes x = around(&l->in[0], axis);
    copy(l);
    const int64_t n = ig_shape_count(l->in[2].shape);
    for (int64_t i = 0; i < n; i++) {
        const int64_t to = pointed_at(x, &l->in[1], axis, i);
        if (to >= 0) put(&l->out[0], to, get(&l->out[0], to) + get(&l->in[2], i));
    }
}

/* table [v, d], ids [...] -> [..., d] */
static void embedding(const ig_ref_launch *l) {
    const int64_t v = l->in[0].shape.dim[0], d = l->in[0].shape.dim[1];
    const int64_t n = ig_shape_count(l->out[0].shape);
    for (int64_t i = 0; i < n; i++) {
        const int64_t id = get_index(&l->in[1], i / d);
        if (id < 0 || id >= v)
            ig_ref_put_any(&l->out[0], i, (double)NAN);
        else
            ig_ref_copy(&l->out[0], i, &l->in[0], id * d + i % d);
    }
}

/* ids [...], dy [..., d] -> dtable [v, d] */
static void embedding_grad(const ig_ref_launch *l) {
    const int64_t v = l->out[0].shape.dim[0], d = l->out[0].shape.dim[1];
    for (int64_t i = 0; i < v * d; i++) put(&l->out[0], i, 0);
    const int64_t n = ig_shape_count(l->in[1].shape);
    for (int64_t i = 0; i < n; i++) {
        const int64_t id = get_index(&l->in[0], i / d), to = id * d + i % d;
        if (id >= 0 && id < v) put(&l->out[0], to, get(&l->out[0], to) + get(&l->in[1], i));
    }
}

const ig_ref_entry IG_REF_LIST(move)[] = {
    {IG_OP_COPY, IG_REF_DTYPE, "s", "s", copy},
    {IG_OP_FILL, IG_REF_DTYPE, "", "a", fill},
    {IG_OP_PAD, IG_REF_DTYPE, "s", "s", pad},
    {IG_OP_CONCAT, IG_REF_DTYPE, "s", "s", concat},
    {IG_OP_GATHER, IG_REF_DTYPE, "si", "s", gather},
    {IG_OP_SCATTER_ADD, IG_REF_DTYPE, "rir", "r", scatter_add},
    {IG_OP_EMBEDDING, IG_REF_DTYPE, "si", "s", embedding},
    {IG_OP_EMBEDDING_GRAD, IG_REF_DTYPE, "ir", "r", embedding_grad},
    {0},
};
