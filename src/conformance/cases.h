/*
 * cases.h - what a conformance case is, and the tables of them.
 *
 * A case is an op, its attributes and its inputs: shapes, how they lie in
 * memory, and which values they hold.  Shapes of results come from the shape
 * rules.  A case whose inputs are `real` runs once for F32 and once for F64.
 */
#ifndef IG_CONFORMANCE_CASES_H
#define IG_CONFORMANCE_CASES_H

#include <math.h>

#include "ingot/backend.h"

enum { CASE_MAX_IN = 7 };

/* How an input lies in memory, for the extents [a, b, c] say. */
typedef enum case_layout {
    PACKED,
    TRANSPOSED,   /* the last two dimensions lie as [a, c, b] */
    HEADS_FIRST,  /* dimensions 1 and 2 of four lie as [a, c, b, d] */
    COLUMN_MAJOR, /* all of them the other way round: [c, b, a] */
    SLICED,       /* a part from the middle of [a + 2, b + 2, c + 2] */
    STRIDED,      /* every other element of [a, b, 2c] */
} case_layout;

typedef enum case_values {
    UNIFORM, /* numbers from low to high, both 0: -2 to 2; whole ones for integers */
    WHOLE,   /* whole numbers from low to high */
    BITS,    /* bit patterns: all of them for 16 bits, random ones for more */
} case_values;

/* The program has all of them, so they are kept short. */
typedef struct case_operand {
    double low, high;
    const double *list; /* instead of `values`: these, over and over */
    uint32_t list_count;
    int32_t dim[IG_MAX_RANK]; /* as the op sees it */
    uint8_t rank;
    uint8_t type; /* 0: real; else 1 + the ig_dtype that it has always */
    case_layout layout : 8;
    case_values values : 8;
    uint8_t repeat; /* bit 1 << d: dimension d is one element, repeated */
    bool weight;    /* given as a weight, whose bytes compile() may look at */
} case_operand;

typedef struct ig_case {
    uint32_t op;
    const char *what;
    const case_operand *in;
    uint32_t n_in;
    const void *attrs;
    uint32_t n_out; /* 0: as many as the op has at most */
    /* Inputs from `derived` on are what this op makes of the first three; 0, which is add: none. */
    uint32_t derived_by, derived;
    const ig_slot *slots;
    uint32_t n_slots;
} ig_case;

typedef struct case_table {
    const ig_case *cases;
    size_t count;
} case_table;

extern const case_table cases_elementwise, cases_cast, cases_move, cases_reduce, cases_softmax,
    cases_norm, cases_matmul, cases_quant, cases_rope, cases_attention, cases_update, cases_moe;

/*
 * A backend may round activations to bytes, 32 at a time with a scale, when it
 * multiplies them with blocks.  Those of numbers like these, of which any 32 in a row
 * have one of the largest magnitude, are exact: what is tested is all the rest, and
 * test_quant.c has what rounding costs.
 */
extern const double case_bytes[32];

/* All tables, one after the other; the last has no cases. */
extern const case_table *const case_tables[];

/*
 * How far a result may be from the oracle, in units of its dtype's epsilon
 * times 1 + |want|; 0: it is the oracle's number, rounded.
 */
typedef struct case_tolerance {
    double epsilons;
    const char *reason;
} case_tolerance;
case_tolerance case_tolerance_of(uint32_t op);

/* Words for the tables: CASE(IG_OP_ADD, "an odd tail", IN(REAL(3, 37), LAID(SLICED, 3, 37))) */
#define CASE(number, words, ...) \
    { .op = number, .what = words, __VA_ARGS__ }
#define INPUTS(...) ((const case_operand[]){__VA_ARGS__})
#define IN(...)     .in = INPUTS(__VA_ARGS__), .n_in = COUNT(INPUTS(__VA_ARGS__))
#define ATTRS(type, ...) \
    .attrs = &(const type) { __VA_ARGS__ }
#define NO_ATTRS     .attrs = NULL
#define SLOTS(array) .slots = array, .n_slots = COUNT(array)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define CASE_TABLE(array) \
    { array, COUNT(array) }

#define OPERAND(...) \
    { __VA_ARGS__ }
#define SCALAR \
    { .rank = 0 }
#define RANK_OF(...)              sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)
#define SHAPE(...)                .rank = RANK_OF(__VA_ARGS__), .dim = {__VA_ARGS__}
#define DTYPE(dtype)              .type = 1 + (dtype)
#define REAL(...)                 OPERAND(SHAPE(__VA_ARGS__))
#define TYPED(dtype, ...)         OPERAND(DTYPE(dtype), SHAPE(__VA_ARGS__))
#define WEIGHT(...)               OPERAND(.weight = true, SHAPE(__VA_ARGS__))
#define LAID(form, ...)           OPERAND(.layout = form, SHAPE(__VA_ARGS__))
#define REPEATED(dimensions, ...) OPERAND(.repeat = dimensions, SHAPE(__VA_ARGS__))
#define BETWEEN(least, most)      .low = least, .high = most
#define RANGE(least, most, ...)   OPERAND(BETWEEN(least, most), SHAPE(__VA_ARGS__))
#define WHOLES(least, most, ...)  OPERAND(.values = WHOLE, BETWEEN(least, most), SHAPE(__VA_ARGS__))
#define INDEX(least, most, ...)   OPERAND(DTYPE(IG_I32), BETWEEN(least, most), SHAPE(__VA_ARGS__))
#define NUMBERS(array)            .list = array, .list_count = COUNT(array)
#define LISTED(array, ...)        OPERAND(NUMBERS(array), SHAPE(__VA_ARGS__))

#endif
