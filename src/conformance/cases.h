/*
 * cases.h - conformance cases and their tables.
 *
 * A case is an op, its attributes and its inputs: shapes, memory layouts and values. Shapes of
 * results come from the shape rules. A case with `real` inputs runs once in F32 and once in F64.
 */
#ifndef IG_CONFORMANCE_CASES_H
#define IG_CONFORMANCE_CASES_H

#include <math.h>

#include "conformance/case_tables.h" /* one per cases_<family>.c */
#include "conformance/grad_cases.h"
#include "ingot/backend.h"

enum { CASE_MAX_IN = 7 };

/* Memory layout of an input with extents [a, b, c]. */
typedef enum case_layout {
    PACKED,
    TRANSPOSED,   /* the last two dimensions swapped: [a, c, b] */
    HEADS_FIRST,  /* of four dimensions, 1 and 2 swapped: [a, c, b, d] */
    COLUMN_MAJOR, /* all dimensions reversed: [c, b, a] */
    SLICED,       /* a slice from the middle of [a + 2, b + 2, c + 2] */
    STRIDED,      /* every other element of [a, b, 2c] */
} case_layout;

typedef enum case_values {
    UNIFORM, /* from low to high, both 0: -2 to 2; integers for integer dtypes */
    INTEGER, /* integers from low to high */
    BITS,    /* bit patterns: all of them for 16-bit dtypes, random ones for wider dtypes */
} case_values;

/* Packed small, because the program contains all cases. */
typedef struct case_operand {
    double low, high;
    const double *list; /* values to repeat, instead of `values` */
    uint32_t list_count;
    int32_t dim[IG_MAX_RANK]; /* as the op sees it */
    uint8_t rank;
    uint8_t type; /* 0: real; else 1 + a fixed ig_dtype */
    case_layout layout : 8;
    case_values values : 8;
    uint8_t repeat; /* bit 1 << d: dimension d is broadcast (stride 0) */
    bool weight;    /* an IG_KIND_WEIGHT operand, whose bytes compile() may read */
} case_operand;

typedef struct ig_case {
    uint32_t op;
    const char *what;
    const case_operand *in;
    uint32_t n_in;
    const void *attrs;
    uint32_t n_out; /* 0: the op's maximum */
    /* Inputs from index `derived` on are the results of op `derived_by` on the first three; 0
     * (add): none. */
    uint32_t derived_by, derived;
    const ig_slot *slots;
    uint32_t n_slots;
} ig_case;

/*
 * The allowed error against the oracle, in units of the dtype's epsilon times 1 + |want|; 0:
 * exactly the oracle's value, rounded. Inputs are of magnitude 1, so one unit is about one
 * rounding.
 */
typedef struct case_tolerance {
    uint32_t op;
    double epsilons;
    const char *reason;
} case_tolerance;

/* A family of ops: cases, tolerances, and gradient cases. */
typedef struct case_table {
    const ig_case *cases;
    size_t count;
    const case_tolerance *tolerances; /* one per op, in any table */
    size_t n_tolerances;
    const grad_case *grads;
    size_t n_grads;
} case_table;

#define DECLARE(table) extern const case_table table;
CASE_TABLES(DECLARE)
#undef DECLARE

/*
 * A backend may quantize activations to int8, 32 at a time with a scale, to multiply them by
 * quantized weights. For these values this is exact, because any 32 in a row contain one of the
 * largest magnitude. So the cases test everything else; test_quant.c tests the quantization error.
 */
extern const double case_bytes[32];

/* All tables; the last has no cases. */
extern const case_table *const case_tables[];

/* The tolerance of an op; reason NULL: none given. */
case_tolerance case_tolerance_of(uint32_t op);

/* Macros for the tables: CASE(IG_OP_ADD, "an odd tail", IN(REAL(3, 37), LAID(SLICED, 3, 37))) */
#define CASE(number, words, ...) \
    { .op = number, .what = words, __VA_ARGS__ }
#define INPUTS(...) ((const case_operand[]){__VA_ARGS__})
#define IN(...)     .in = INPUTS(__VA_ARGS__), .n_in = COUNT(INPUTS(__VA_ARGS__))
#define ATTRS(type, ...) \
    .attrs = &(const type) { __VA_ARGS__ }
#define NO_ATTRS          .attrs = NULL
#define SLOTS(array)      .slots = array, .n_slots = COUNT(array)
#define COUNT(array)      (sizeof(array) / sizeof((array)[0]))
#define CASES(array)      .cases = array, .count = COUNT(array)
#define TOLERANCES(array) .tolerances = array, .n_tolerances = COUNT(array)
#define GRADS(array)      .grads = array, .n_grads = COUNT(array)

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
#define WHOLES(least, most, ...) \
    OPERAND(.values = INTEGER, BETWEEN(least, most), SHAPE(__VA_ARGS__))
#define INDEX(least, most, ...) OPERAND(DTYPE(IG_I32), BETWEEN(least, most), SHAPE(__VA_ARGS__))
#define NUMBERS(array)          .list = array, .list_count = COUNT(array)
#define LISTED(array, ...)      OPERAND(NUMBERS(array), SHAPE(__VA_ARGS__))

#endif
