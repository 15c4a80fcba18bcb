/*
 * op.h - the operations, apart from how they are computed.
 *
 * Planner, backends and stored programs share this vocabulary.  It needs no
 * library: a plugin has the op table as it was when the plugin was compiled.
 */
#ifndef INGOT_OP_H
#define INGOT_OP_H

#include <assert.h>

#include "ingot/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ig_op {
#define IG_OP(ID, ...) IG_OP_##ID,
#include "ingot/op.def"
    IG_OP_COUNT
} ig_op;

/*
 * Constants of an op: plain data without pointers and without padding, so they
 * are hashed, compared and stored as bytes.  A struct grows at its end only,
 * and zero in a new field means what the op did before the field was there.
 * Axes count from the first dimension: builders have resolved negative ones.
 */
typedef struct ig_attrs_scale {
    double scale, shift; /* scale x + shift */
} ig_attrs_scale;

typedef enum ig_gelu_form {
    IG_GELU_ERF,
    IG_GELU_TANH
} ig_gelu_form; /* exact, or GPT-2's approximation */

typedef struct ig_attrs_gelu {
    uint32_t form; /* ig_gelu_form */
} ig_attrs_gelu;

typedef struct ig_attrs_dtype {
    uint32_t dtype; /* ig_dtype */
} ig_attrs_dtype;

typedef struct ig_attrs_fill {
    double value;
    uint32_t dtype, unused;
} ig_attrs_fill;

/* Random ops draw number i of block (seed, step, ordinal): base/random.h has the generator. */
typedef struct ig_attrs_dropout {
    float p;
    uint32_t seed[2];
    uint32_t ordinal;   /* the how-manieth random op of the step this is */
    uint32_t step_slot; /* its i is the step */
} ig_attrs_dropout;

typedef struct ig_attrs_shape {
    int32_t rank, unused;
    int64_t dim[IG_MAX_RANK];
} ig_attrs_shape;

/* Dimension d of the result is dimension axis[d] of the input. */
typedef struct ig_attrs_axes {
    int32_t axis[IG_MAX_RANK];
} ig_attrs_axes;

typedef struct ig_attrs_slice {
    int64_t begin, end; /* [begin, end) of the axis */
    int32_t axis, unused;
} ig_attrs_slice;

typedef struct ig_attrs_pad {
    int64_t before, after; /* zeros added along the axis */
    int32_t axis, unused;
} ig_attrs_pad;

typedef struct ig_attrs_axis {
    int32_t axis;
} ig_attrs_axis;

typedef struct ig_attrs_rows {
    int64_t rows;
} ig_attrs_rows;

typedef struct ig_attrs_reduce {
    uint32_t axes; /* bit 1 << d: dimension d is reduced */
    uint32_t keep; /* 1: reduced dimensions stay, with extent 1 */
} ig_attrs_reduce;

typedef struct ig_attrs_norm {
    float eps;
} ig_attrs_norm;

/* What a product may be put through before it is stored: the op of that name. */
typedef enum ig_activation {
    IG_ACTIVATION_NONE,
    IG_ACTIVATION_RELU,
    IG_ACTIVATION_TANH,
    IG_ACTIVATION_SIGMOID,
    IG_ACTIVATION_SILU,
    IG_ACTIVATION_GELU_ERF,
    IG_ACTIVATION_GELU_TANH,
} ig_activation;

typedef struct ig_attrs_matmul {
    uint32_t transpose_a; /* 1: a is [..., k, m] */
    uint32_t transpose_b; /* 1: b is [..., n, k] */
    uint32_t activation;  /* ig_activation; the planner sets it */
    uint32_t residual;    /* 1: the last input, of the result's shape, is added at the very end;
                             the planner sets it */
} ig_attrs_matmul;

/* Which two elements of a head turn together: (2i, 2i + 1), or (i, i + dims / 2). */
typedef enum ig_rope_form { IG_ROPE_PAIRS, IG_ROPE_HALVES } ig_rope_form;

/* Pair i turns by position * scale * base^(-2i / dims) / factors[i]. */
typedef struct ig_attrs_rope {
    float base, scale; /* of scale, 0 means 1 */
    uint32_t dims;     /* the first so many elements of a head turn, an even number; 0: all */
    uint32_t form;     /* ig_rope_form */
    uint32_t inverse;  /* 1: turns back, which is the gradient */
    float magnitude;   /* what turns is multiplied by, in either direction; 0 means 1 */
} ig_attrs_rope;

/* softmax(scale q k^T) v; head j of q reads head j / (h / g) of k and v. */
typedef struct ig_attrs_attention {
    float scale;     /* 0: 1 / sqrt(d) */
    uint32_t causal; /* 1: row i of t sees the keys up to i + s - t */
} ig_attrs_attention;

/* As attention, causal always.  A score s is softcap tanh(s / softcap), unless softcap is 0. */
typedef struct ig_attrs_paged {
    float scale; /* 0: 1 / sqrt(d) */
    uint32_t causal;
    uint32_t window; /* a row sees so many positions, its own the last; 0: all */
    float softcap;
} ig_attrs_paged;

typedef struct ig_attrs_route {
    uint32_t count;       /* k */
    uint32_t renormalise; /* 1: the k weights sum up to 1 */
} ig_attrs_route;

typedef struct ig_attrs_grouped {
    uint32_t transpose_w; /* 1: w is [e, n, k], which stored weights must be */
} ig_attrs_grouped;

typedef struct ig_attrs_adamw {
    float beta1, beta2, eps, decay;
    uint32_t rate_slot, step_slot; /* f of one is the learning rate, i of the other counts from 1 */
} ig_attrs_adamw;

typedef struct ig_attrs_sgd {
    float momentum, decay;
    uint32_t nesterov, rate_slot;
} ig_attrs_sgd;

typedef struct ig_attrs_clip {
    float limit;
} ig_attrs_clip;

typedef struct ig_attrs_custom {
    uint32_t id; /* as the context numbers them */
} ig_attrs_custom;

/* The `attrs` column of op.def, in bytes. */
enum {
    IG_ATTRS_NONE = 0,
    IG_ATTRS_SCALE = sizeof(ig_attrs_scale),
    IG_ATTRS_GELU = sizeof(ig_attrs_gelu),
    IG_ATTRS_DTYPE = sizeof(ig_attrs_dtype),
    IG_ATTRS_FILL = sizeof(ig_attrs_fill),
    IG_ATTRS_DROPOUT = sizeof(ig_attrs_dropout),
    IG_ATTRS_SHAPE = sizeof(ig_attrs_shape),
    IG_ATTRS_AXES = sizeof(ig_attrs_axes),
    IG_ATTRS_SLICE = sizeof(ig_attrs_slice),
    IG_ATTRS_PAD = sizeof(ig_attrs_pad),
    IG_ATTRS_AXIS = sizeof(ig_attrs_axis),
    IG_ATTRS_ROWS = sizeof(ig_attrs_rows),
    IG_ATTRS_REDUCE = sizeof(ig_attrs_reduce),
    IG_ATTRS_NORM = sizeof(ig_attrs_norm),
    IG_ATTRS_MATMUL = sizeof(ig_attrs_matmul),
    IG_ATTRS_ROPE = sizeof(ig_attrs_rope),
    IG_ATTRS_ATTENTION = sizeof(ig_attrs_attention),
    IG_ATTRS_PAGED = sizeof(ig_attrs_paged),
    IG_ATTRS_ROUTE = sizeof(ig_attrs_route),
    IG_ATTRS_GROUPED = sizeof(ig_attrs_grouped),
    IG_ATTRS_ADAMW = sizeof(ig_attrs_adamw),
    IG_ATTRS_SGD = sizeof(ig_attrs_sgd),
    IG_ATTRS_CLIP = sizeof(ig_attrs_clip),
    IG_ATTRS_CUSTOM = sizeof(ig_attrs_custom),

    IG_ATTRS_MAX = 64, /* no struct is longer */
};
static_assert(IG_ATTRS_SCALE == 16 && IG_ATTRS_FILL == 16 && IG_ATTRS_DROPOUT == 20, "padding");
static_assert(IG_ATTRS_SHAPE == 56 && IG_ATTRS_AXES == 24 && IG_ATTRS_SLICE == 24, "padding");
static_assert(IG_ATTRS_PAD == 24 && IG_ATTRS_REDUCE == 8 && IG_ATTRS_MATMUL == 16, "padding");
static_assert(IG_ATTRS_PAGED == 16 && IG_ATTRS_ROPE == 24 && IG_ATTRS_ATTENTION == 8 &&
                  IG_ATTRS_ADAMW == 24,
              "padding");
static_assert(IG_ATTRS_SGD == 16 && IG_ATTRS_CUSTOM == 4, "padding");

typedef enum ig_op_traits {
    IG_ELEMENTWISE = 1 << 0, /* out[i] depends on in[*][i] alone: may be fused */
    IG_COMMUTES = 1 << 1,    /* f(a, b) == f(b, a): operands may be swapped */
    IG_REDUCES = 1 << 2,     /* reads many elements to write one */
    IG_CONTRACTS = 1 << 3,   /* sums over a shared dimension: worth a tuned kernel */
    IG_UPDATES = 1 << 4,     /* overwrites inputs: keeps its place, is never dropped or shared */
    IG_VIEWS = 1 << 5,       /* the result lies in the bytes of its input: never a step */
    IG_BROADCASTS = 1 << 6,  /* inputs are stretched to the shape of the result */
} ig_op_traits;

/* What an op is part of: backends may have a kernel for all ops of a tag, and programs that are too
 * long are cut where it changes.  Appended, never reused. */
typedef enum ig_tag {
    IG_TAG_NONE,
    IG_TAG_MATMUL,
    IG_TAG_NORM,
    IG_TAG_ATTENTION,
    IG_TAG_FFN,
    IG_TAG_OPTIMIZER,
} ig_tag;

enum { IG_PAGE_ROWS = 64 }; /* positions in a page of a paged cache */

enum { IG_MANY = 0xffff, IG_MAX_OUT = 8 }; /* as in_max: no limit; no op has more outputs */

typedef struct ig_op_info {
    const char *name;
    uint16_t in_min, in_max, out_min, out_max;
    uint32_t attrs_bytes, traits;
} ig_op_info;

/* The row of an op; NULL for one that this header does not know. */
static inline const ig_op_info *ig_op_find(uint32_t op) {
    static const ig_op_info table[IG_OP_COUNT] = {
#define IG_OP(ID, name, in_min, in_max, out_min, out_max, attrs, infer, grad, traits) \
    {name, in_min, in_max, out_min, out_max, IG_ATTRS_##attrs, traits},
#include "ingot/op.def"
    };
    return op < IG_OP_COUNT ? &table[op] : NULL;
}

/* Output i of an update lies where this input lay: the weight first, then what follows the
 * gradient. */
static inline uint32_t ig_update_alias(uint32_t i) { return i == 0 ? 0 : i + 1; }

static inline const char *ig_op_name(uint32_t op) {
    return op < IG_OP_COUNT ? ig_op_find(op)->name : "unknown op";
}

#ifdef __cplusplus
}
#endif
#endif
