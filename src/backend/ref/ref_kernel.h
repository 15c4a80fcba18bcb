/*
 * kernel.h - what a reference kernel is.
 *
 * A reference kernel says what an op means in the plainest loops there are: it
 * counts elements row by row, finds each one by its strides, computes in double
 * and rounds once, when it stores.  It computes its whole step on one thread.
 * Whoever doubts what an op does reads it here; whoever writes a fast kernel is
 * measured against this one.
 */
#ifndef IG_BACKEND_REF_KERNEL_H
#define IG_BACKEND_REF_KERNEL_H

#include "ingot/backend.h"

/* An operand of a step, with its place in this run. */
typedef struct ig_ref_view {
    char *at; /* its first element */
    ig_dtype dtype;
    ig_shape shape;
    int64_t stride[IG_MAX_RANK]; /* in elements; 0 where a dimension repeats */
    uint32_t buffer;             /* where the plan says it lies, */
    uint64_t offset;             /* from which byte on */
    bool packed;                 /* element i is the i-th in memory */
} ig_ref_view;

typedef union ig_ref_attrs {
    ig_attrs_scale scale;
    ig_attrs_gelu gelu;
    ig_attrs_fill fill;
    ig_attrs_dropout dropout;
    ig_attrs_pad pad;
    ig_attrs_axis axis;
    ig_attrs_reduce reduce;
    ig_attrs_norm norm;
    ig_attrs_matmul matmul;
    ig_attrs_rope rope;
    ig_attrs_attention attention;
    ig_attrs_paged paged;
    ig_attrs_route route;
    ig_attrs_grouped grouped;
    ig_attrs_adamw adamw;
    ig_attrs_sgd sgd;
    ig_attrs_clip clip;
    char bytes[IG_ATTRS_MAX];
} ig_ref_attrs;

typedef struct ig_ref_launch ig_ref_launch;
typedef void ig_ref_kernel(const ig_ref_launch *l);

struct ig_ref_launch {
    ig_ref_kernel *run;
    ig_ref_view *in, *out;
    uint32_t n_in, n_out;
    const ig_slot *slots; /* of this run */
    ig_ref_attrs attrs;
};

/*
 * Which operands a kernel takes, one letter each; the last serves for all that follow:
 *   r  the real type that the file was compiled for
 *   i  I32
 *   s  any plain dtype, the same for every `s`
 *   a  any plain dtype
 *   h  the real type, F16 or BF16
 *   w  what weights are stored in: F16, BF16 and blocks
 */
typedef struct ig_ref_entry {
    uint32_t op;
    ig_dtype real; /* what r stands for */
    const char *in, *out;
    ig_ref_kernel *run;
} ig_ref_entry;

/*
 * Every file in kernels/ is compiled twice, with IG_REAL=float and =double, and
 * exports just one symbol: the list of kernels in it, ig_ref_norm_double say.
 * The list ends with an entry without `run`.
 */
#define IG_REF_LIST_OF(family, real)     ig_ref_##family##_##real
#define IG_REF_LIST_EXPAND(family, real) IG_REF_LIST_OF(family, real)
#define IG_REF_LIST(family)              IG_REF_LIST_EXPAND(family, IG_REAL)

/* Where element i lies, counted row by row: in elements from the first. */
static inline int64_t ig_ref_place(const ig_ref_view *v, int64_t i) {
    int64_t place = 0;
    if (v->packed) return i;
    for (int d = v->shape.rank - 1; d >= 0; d--) {
        place += i % v->shape.dim[d] * v->stride[d];
        i /= v->shape.dim[d];
    }
    return place;
}

#endif
