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

/* Of gelu: exact, or GPT-2's approximation. */
typedef enum ig_gelu_form { IG_GELU_ERF, IG_GELU_TANH } ig_gelu_form;

/* The activation that a matmul may fuse: the op of that name. */
typedef enum ig_activation {
    IG_ACTIVATION_NONE,
    IG_ACTIVATION_RELU,
    IG_ACTIVATION_TANH,
    IG_ACTIVATION_SIGMOID,
    IG_ACTIVATION_SILU,
    IG_ACTIVATION_GELU_ERF,
    IG_ACTIVATION_GELU_TANH,
} ig_activation;

/* Which two elements of a head rotate together: (2i, 2i + 1), or (i, i + dims / 2). */
typedef enum ig_rope_type { IG_ROPE_INTERLEAVED, IG_ROPE_NEOX } ig_rope_type;

enum { IG_ATTRS_NONE = 0, IG_ATTRS_MAX = 64 }; /* bytes; no struct is longer */

/* The constants of ops: struct ig_attrs_matmul, and IG_ATTRS_MATMUL for its bytes. */
#define IG_ATTRS(name, ID, bytes, ...)                \
    typedef struct ig_attrs_##name {                  \
        __VA_ARGS__                                   \
    } ig_attrs_##name;                                \
    enum { IG_ATTRS_##ID = sizeof(ig_attrs_##name) }; \
    static_assert(IG_ATTRS_##ID == (bytes) && (bytes) <= IG_ATTRS_MAX, "no padding");
#include "ingot/op.def"

typedef enum ig_op_traits {
    IG_ELEMENTWISE = 1 << 0, /* out[i] depends on in[*][i] alone: may be fused */
    IG_COMMUTES = 1 << 1,    /* f(a, b) == f(b, a): operands may be swapped */
    IG_REDUCES = 1 << 2,     /* reads many elements to write one */
    IG_CONTRACTS = 1 << 3,   /* sums over a shared dimension: worth a tuned kernel */
    IG_UPDATES = 1 << 4,     /* overwrites inputs: keeps its place, is never dropped or shared */
    IG_VIEWS = 1 << 5,       /* the result lies in the bytes of its input: never a step */
    IG_BROADCASTS = 1 << 6,  /* inputs are broadcast to the shape of the result */
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

enum { IG_PAGE_TOKENS = 64 }; /* positions in a page of a paged cache */

enum { IG_VARIADIC = 0xffff, IG_MAX_OUT = 8 }; /* as in_max: no limit; no op has more outputs */

typedef struct ig_op_info {
    const char *name;
    uint16_t in_min, in_max, out_min, out_max;
    uint32_t attrs_bytes, traits;
} ig_op_info;

/* The row of an op; NULL for one that this header does not know. */
static inline const ig_op_info *ig_op_find(uint32_t op) {
    static const ig_op_info table[IG_OP_COUNT] = {
#define IG_OP(ID, name, in_min, in_max, out_min, out_max, attrs, shape, grad, build, traits) \
    {#name, in_min, in_max, out_min, out_max, IG_ATTRS_##attrs, traits},
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
