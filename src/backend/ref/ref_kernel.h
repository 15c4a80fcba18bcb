/*
 * ref_kernel.h - the interface of a reference kernel.
 *
 * A reference kernel defines what an op computes, and every fast kernel is tested against it. It is
 * a plain loop: it enumerates elements in row-major order, locates each by its strides, computes in
 * double and rounds once when storing. It computes its complete step on one thread.
 */
#ifndef IG_BACKEND_REF_REF_KERNEL_H
#define IG_BACKEND_REF_REF_KERNEL_H

#include "ingot/backend.h"

/* An operand of a step, with its address in this run. */
typedef struct ig_ref_view {
    char *at; /* the first element */
    ig_dtype dtype;
    ig_shape shape;
    int64_t stride[IG_MAX_RANK]; /* in elements; 0: the dimension is broadcast */
    uint32_t buffer;             /* index in the program's buffers, */
    uint64_t offset;             /* byte offset in it */
    bool packed;                 /* row-major and contiguous */
} ig_ref_view;

typedef union ig_ref_attrs {
#define IG_ATTRS(name, ID, bytes, ...) ig_attrs_##name name;
#include "ingot/op.def"
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
 * Accepted operands, one letter each; the last letter applies to all further ones:
 *     r  the real type that the file was compiled for
 *     i  I32
 *     s  any plain dtype, the same for every `s`
 *     a  any plain dtype
 *     h  the real type, F16 or BF16
 *     w  weight dtypes: F16, BF16 and quantized blocks
 */
typedef struct ig_ref_entry {
    uint32_t op;
    ig_dtype real; /* the dtype of r */
    const char *in, *out;
    ig_ref_kernel *run;
} ig_ref_entry;

/*
 * Every file in kernels/ is compiled twice, with IG_REAL=float and =double, and exports a single
 * symbol: its list of kernels, for example ig_ref_norm_double. The list ends with an entry without
 * `run`.
 */
#define IG_REF_LIST_OF(family, real)     ig_ref_##family##_##real
#define IG_REF_LIST_EXPAND(family, real) IG_REF_LIST_OF(family, real)
#define IG_REF_LIST(family)              IG_REF_LIST_EXPAND(family, IG_REAL)

/* The offset of element i (row-major index) from the first, in elements. */
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
