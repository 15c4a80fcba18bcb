/*
 * strided.h - walking over operands with any strides.
 *
 * Strides come from the planner: 0 where a dimension is broadcast, large where the operand is a
 * slice, in any order where it was transposed.  Three tools reduce them to few loops, so that
 * kernels only see runs of elements an even stride apart:
 *
 *   strided_loop    several operands of one shape, walked together, a strided_run at a time
 *   strided_index   one operand: the offset of element i, counted row by row
 *   copy_strided    n elements of any size
 *
 * Dimensions that are contiguous with each other are merged, and those of extent 1 are dropped: a
 * packed operand becomes a single run.
 */
#ifndef IG_BACKEND_CPU_STRIDED_H
#define IG_BACKEND_CPU_STRIDED_H

#include "backend/cpu/cpu_kernel.h"
#include "backend/cpu/simd/vec.h"

enum { STRIDED_OPERANDS = 7 }; /* adamw: four inputs, three outputs */

typedef struct strided_loop {
    int32_t rank; /* at least 1 */
    int64_t dim[IG_MAX_RANK];
    int64_t stride[STRIDED_OPERANDS][IG_MAX_RANK];
} strided_loop;

/* a b, saturating: for costs. */
static inline int64_t sat_mul(int64_t a, int64_t b) {
    int64_t result;
    return __builtin_mul_overflow(a, b, &result) ? INT64_MAX : result;
}

/* The loops over `shape`, of operands with these strides. */
static inline strided_loop strided_loop_make(ig_shape shape, const int64_t *const *stride,
                                             int operands) {
    strided_loop g = {.rank = 0};
    bool empty = false;
    for (int d = 0; d < shape.rank; d++) empty |= shape.dim[d] == 0;
    for (int d = 0; d < shape.rank && !empty; d++) {
        const int64_t extent = shape.dim[d];
        if (extent == 1) continue;
        bool joins = g.rank > 0;
        for (int k = 0; k < operands && joins; k++)
            joins = g.stride[k][g.rank - 1] == stride[k][d] * extent;
        if (!joins) g.dim[g.rank++] = 1;
        g.dim[g.rank - 1] *= extent;
        for (int k = 0; k < operands; k++) g.stride[k][g.rank - 1] = stride[k][d];
    }
    if (g.rank == 0) {
        g.rank = 1;
        g.dim[0] = !empty;
        for (int k = 0; k < operands; k++) g.stride[k][0] = 1;
    }
    return g;
}

/* Inputs and outputs of the step, all of one shape; false: they are not. */
static inline bool strided_loop_over_step(const ig_step *step, strided_loop *out) {
    const int64_t *stride[STRIDED_OPERANDS];
    const uint32_t operands = step->n_in + step->n_out;
    const ig_shape shape = step->out[0].desc.shape;
    if (operands > STRIDED_OPERANDS) return false;
    for (uint32_t i = 0; i < operands; i++) {
        const ig_operand *o = ig_step_operand(step, i);
        if (!ig_shape_equal(o->desc.shape, shape)) return false;
        stride[i] = o->stride;
    }
    *out = strided_loop_make(shape, stride, (int)operands);
    return true;
}

/* A run: n elements of each operand k, from offset at[k] on, stride[k][rank - 1] apart. */
typedef struct strided_run {
    int64_t at[STRIDED_OPERANDS]; /* in elements */
    int64_t n;                    /* 0: there is no more */
    int64_t left;                 /* in all, this run included */
    int64_t index[IG_MAX_RANK];
} strided_run;

/* The first run of elements [begin, end), counted row by row.  Written where it is used: handed
 * over by value it would be copied, in pieces larger than those just stored, which takes long. */
IG_INLINE void strided_run_first(const strided_loop *g, int operands, int64_t begin, int64_t end,
                                 strided_run *r) {
    r->left = end - begin;
    r->n = 0;
    if (r->left <= 0) return;
    for (int k = 0; k < operands; k++) r->at[k] = 0;
    for (int d = g->rank - 1; d >= 0; d--) {
        r->index[d] = begin % g->dim[d];
        begin /= g->dim[d];
        for (int k = 0; k < operands; k++) r->at[k] += r->index[d] * g->stride[k][d];
    }
    r->n = min_i64(g->dim[g->rank - 1] - r->index[g->rank - 1], r->left);
}

IG_INLINE void strided_run_next(const strided_loop *g, int operands, strided_run *r) {
    r->left -= r->n;
    int d = g->rank - 1;
    int64_t steps = r->n;
    r->n = min_i64(g->dim[d], r->left);
    if (r->left <= 0) return;
    for (;;) {
        r->index[d] += steps;
        for (int k = 0; k < operands; k++) r->at[k] += steps * g->stride[k][d];
        if (r->index[d] < g->dim[d] || d == 0) return;
        for (int k = 0; k < operands; k++) r->at[k] -= g->dim[d] * g->stride[k][d];
        r->index[d--] = 0;
        steps = 1;
    }
}

typedef struct strided_index {
    int32_t rank; /* at least 1 */
    int64_t dim[IG_MAX_RANK], stride[IG_MAX_RANK];
} strided_index;

/* The operand without its last `drop` dimensions. */
static inline strided_index strided_index_make(const ig_operand *o, int drop) {
    ig_shape shape = o->desc.shape;
    shape.rank -= drop;
    const int64_t *stride = o->stride;
    const strided_loop g = strided_loop_make(shape, &stride, 1);
    strided_index p = {.rank = g.rank};
    memcpy(p.dim, g.dim, sizeof p.dim);
    memcpy(p.stride, g.stride[0], sizeof p.stride);
    return p;
}

/* The offset of element i, in elements. */
static inline int64_t strided_offset(const strided_index *p, int64_t i) {
    int64_t at = 0;
    for (int d = p->rank - 1; d > 0; d--) {
        at += i % p->dim[d] * p->stride[d];
        i /= p->dim[d];
    }
    return at + i * p->stride[0];
}

/* Elements [first, first + n), one after the other: where they lie so already, or in `room`. */
static inline const float *strided_gather(const strided_index *p, const float *x, int64_t first,
                                          int64_t n, float *room) {
    const int last = p->rank - 1;
    if (last == 0 && p->stride[0] == 1) return x + first;
    for (int64_t i = 0; i < n;) {
        const int64_t along = (first + i) % p->dim[last];
        const int64_t count = min_i64(p->dim[last] - along, n - i);
        const float *from = x + strided_offset(p, first + i);
        for (int64_t j = 0; j < count; j++) room[i + j] = from[j * p->stride[last]];
        i += count;
    }
    return room;
}

/* The elements of each row, the last dimension, lie side by side. */
static inline bool rows_are_packed(const ig_operand *o) {
    const int last = o->desc.shape.rank - 1;
    return last >= 0 && (o->desc.shape.dim[last] <= 1 || o->stride[last] == 1);
}

static inline int64_t last_dim(const ig_operand *o) {
    const ig_shape *shape = &o->desc.shape;
    return shape->rank > 0 ? shape->dim[shape->rank - 1] : 1;
}

/* Inputs from `first` on, and outputs, are all of this dtype. */
static inline bool operands_are(const ig_step *step, uint32_t first, ig_dtype dtype) {
    for (uint32_t i = first; i < step->n_in + step->n_out; i++)
        if (ig_step_operand(step, i)->desc.dtype != dtype) return false;
    return true;
}

/* What setup() leaves for the kernel. */
static inline bool keep_params(ig_cpu_setup *out, const void *params, uint32_t bytes) {
    assert(bytes <= IG_CPU_PARAMS_BYTES);
    memcpy(out->params, params, bytes);
    out->params_bytes = bytes;
    return true;
}

/* n elements of `bytes` each, with strides in elements. */
IG_INLINE void copy_each(char *dst, int64_t dst_stride, const char *src, int64_t src_stride,
                         int64_t n, const int64_t bytes) {
    for (int64_t i = 0; i < n; i++)
        memcpy(dst + i * dst_stride * bytes, src + i * src_stride * bytes, (size_t)bytes);
}

static inline void copy_strided(char *dst, int64_t dst_stride, const char *src, int64_t src_stride,
                                int64_t n, int64_t bytes) {
    if (n <= 0) return;
    if (dst_stride == 1 && src_stride == 1)
        memcpy(dst, src, (size_t)(n * bytes));
    else if (bytes == 4)
        copy_each(dst, dst_stride, src, src_stride, n, 4);
    else if (bytes == 2)
        copy_each(dst, dst_stride, src, src_stride, n, 2);
    else
        copy_each(dst, dst_stride, src, src_stride, n, 8);
}

static inline int64_t dtype_bytes(ig_dtype dtype) {
    static const int64_t bytes[IG_DTYPE_COUNT] = {
#define IG_DTYPE(ID, name, block, bytes_each) bytes_each,
#include "ingot/dtype.def"
    };
    return bytes[dtype];
}

#endif
