/*
 * loops.h - walking over operands that lie in memory as they like.
 *
 * Strides come as the planner has them: 0 where a dimension repeats, large
 * where the operand is a slice, in any order where it was transposed.  Three
 * small tools make few loops of them, so that kernels only see runs of elements
 * an even stride apart:
 *
 *   loop     several operands of one shape, walked together
 *   places   one operand: where element i lies, counted row by row
 *   copy     a run of elements of any size
 *
 * Dimensions that follow each other evenly in memory are joined, and those of
 * extent 1 are dropped: what is packed becomes a single run.
 */
#ifndef IG_BACKEND_CPU_LOOPS_H
#define IG_BACKEND_CPU_LOOPS_H

#include "backend/cpu/cpu_kernel.h"
#include "backend/cpu/simd/vec.h"

enum { LOOP_OPERANDS = 7 }; /* adamw: four inputs, three outputs */

typedef struct loop {
    int32_t rank; /* at least 1 */
    int64_t dim[IG_MAX_RANK];
    int64_t stride[LOOP_OPERANDS][IG_MAX_RANK];
} loop;

static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* a b, or as much as there is: for costs. */
static inline int64_t product(int64_t a, int64_t b) {
    int64_t result;
    return __builtin_mul_overflow(a, b, &result) ? INT64_MAX : result;
}

/* The loops over `shape`, of operands with these strides. */
static inline loop loop_make(ig_shape shape, const int64_t *const *stride, int operands) {
    loop g = {.rank = 0};
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
static inline bool loop_over_step(const ig_step *step, loop *out) {
    const int64_t *stride[LOOP_OPERANDS];
    const uint32_t operands = step->n_in + step->n_out;
    const ig_shape shape = step->out[0].desc.shape;
    if (operands > LOOP_OPERANDS) return false;
    for (uint32_t i = 0; i < operands; i++) {
        const ig_operand *o = ig_step_operand(step, i);
        if (!ig_shape_equal(o->desc.shape, shape)) return false;
        stride[i] = o->stride;
    }
    *out = loop_make(shape, stride, (int)operands);
    return true;
}

/* A run: n elements of each operand k, from offset at[k] on, stride[k][rank - 1] apart. */
typedef struct run {
    int64_t at[LOOP_OPERANDS]; /* in elements */
    int64_t n;                 /* 0: there is no more */
    int64_t left;              /* in all, this run included */
    int64_t index[IG_MAX_RANK];
} run;

/* The first run of elements [begin, end), counted row by row.  Written where it is used: handed
 * over by value it would be copied, in pieces larger than those just stored, which takes long. */
IG_INLINE void loop_first(const loop *g, int operands, int64_t begin, int64_t end, run *r) {
    r->left = end - begin;
    r->n = 0;
    if (r->left <= 0) return;
    for (int k = 0; k < operands; k++) r->at[k] = 0;
    for (int d = g->rank - 1; d >= 0; d--) {
        r->index[d] = begin % g->dim[d];
        begin /= g->dim[d];
        for (int k = 0; k < operands; k++) r->at[k] += r->index[d] * g->stride[k][d];
    }
    r->n = smaller(g->dim[g->rank - 1] - r->index[g->rank - 1], r->left);
}

IG_INLINE void loop_next(const loop *g, int operands, run *r) {
    r->left -= r->n;
    int d = g->rank - 1;
    int64_t steps = r->n;
    r->n = smaller(g->dim[d], r->left);
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

typedef struct places {
    int32_t rank; /* at least 1 */
    int64_t dim[IG_MAX_RANK], stride[IG_MAX_RANK];
} places;

/* The operand without its last `drop` dimensions. */
static inline places places_make(const ig_operand *o, int drop) {
    ig_shape shape = o->desc.shape;
    shape.rank -= drop;
    const int64_t *stride = o->stride;
    const loop g = loop_make(shape, &stride, 1);
    places p = {.rank = g.rank};
    memcpy(p.dim, g.dim, sizeof p.dim);
    memcpy(p.stride, g.stride[0], sizeof p.stride);
    return p;
}

/* Where element i lies, in elements from the first. */
static inline int64_t place_of(const places *p, int64_t i) {
    int64_t at = 0;
    for (int d = p->rank - 1; d > 0; d--) {
        at += i % p->dim[d] * p->stride[d];
        i /= p->dim[d];
    }
    return at + i * p->stride[0];
}

/* Elements [first, first + n), one after the other: where they lie so already, or in `room`. */
static inline const float *places_gather(const places *p, const float *x, int64_t first, int64_t n,
                                         float *room) {
    const int last = p->rank - 1;
    if (last == 0 && p->stride[0] == 1) return x + first;
    for (int64_t i = 0; i < n;) {
        const int64_t along = (first + i) % p->dim[last];
        const int64_t count = smaller(p->dim[last] - along, n - i);
        const float *from = x + place_of(p, first + i);
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

/* n elements of `bytes` each, so many elements apart. */
IG_INLINE void copy_each(char *dst, int64_t dst_stride, const char *src, int64_t src_stride,
                         int64_t n, const int64_t bytes) {
    for (int64_t i = 0; i < n; i++)
        memcpy(dst + i * dst_stride * bytes, src + i * src_stride * bytes, (size_t)bytes);
}

static inline void copy_run(char *dst, int64_t dst_stride, const char *src, int64_t src_stride,
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
