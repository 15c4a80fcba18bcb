/*
 * real.h - how kernels read and write elements.
 *
 * This is the only difference between a kernel's two builds: IG_REAL, float or double, is the type
 * that elements are stored in. All arithmetic between get() and put() is in double.
 */
#ifndef IG_BACKEND_REF_REAL_H
#define IG_BACKEND_REF_REAL_H

#include "backend/ref/ref_kernel.h"

#define IG_REF_DTYPE (sizeof(IG_REAL) == sizeof(double) ? IG_F64 : IG_F32) /* of IG_REAL */

static inline double get(const ig_ref_view *v, int64_t i) {
    return (double)((const IG_REAL *)v->at)[ig_ref_place(v, i)];
}

static inline void put(const ig_ref_view *v, int64_t i, double x) {
    ((IG_REAL *)v->at)[ig_ref_place(v, i)] = (IG_REAL)x;
}

static inline int64_t get_index(const ig_ref_view *v, int64_t i) {
    return ((const int32_t *)v->at)[ig_ref_place(v, i)];
}

/* The extent of the last dimension, which many ops reduce over, and the number of such rows. */
static inline int64_t columns_of(const ig_ref_view *v) {
    return v->shape.rank > 0 ? v->shape.dim[v->shape.rank - 1] : 1;
}

static inline int64_t rows_of(const ig_ref_view *v) {
    int64_t rows = 1;
    for (int d = 0; d < v->shape.rank - 1; d++) rows *= v->shape.dim[d];
    return rows;
}

#endif
