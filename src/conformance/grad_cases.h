/*
 * grad_cases.h - functions whose gradients are checked, and their arguments.
 *
 * A case builds a tensor of any shape from its parameters by the public API. The check multiplies
 * it by fixed values, sums it up, and compares backward with central differences.
 */
#ifndef IG_CONFORMANCE_GRAD_CASES_H
#define IG_CONFORMANCE_GRAD_CASES_H

#include "ingot/ingot.h"

enum { GRAD_MAX_PARAMS = 4, GRAD_MAX_INDICES = 12 };

typedef struct grad_inputs {
    ig_ctx *ctx;
    ig_tensor *p[GRAD_MAX_PARAMS]; /* real; the gradient is taken with respect to these */
    ig_tensor *index;              /* i32, or NULL */
    ig_tensor *fixed;              /* real, constant: [4], from 0.5 to 1.5 */
    uint32_t custom;               /* a custom op of the test: x^3 */
} grad_inputs;

typedef ig_tensor *grad_fn(const grad_inputs *in);

typedef struct grad_param {
    bool used;
    ig_shape shape;
    double low, high; /* range of the values; both 0: -2 to 2, except within 0.1 of 0 */
} grad_param;

typedef struct grad_case {
    ig_op op; /* the op under test */
    const char *what;
    grad_fn *build;
    grad_param params[GRAD_MAX_PARAMS];
    ig_shape index_shape;
    int32_t index[GRAD_MAX_INDICES];
    bool indexed;
    double step; /* of the central differences; 0: 1e-6 */
} grad_case;

/* Macros for the tables: GRAD(IG_OP_ADD, "a row", add, PARAM(2, 3), PARAM(3)) */
#define EXTENTS(...)                                                        \
    {                                                                       \
        sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), { __VA_ARGS__ } \
    }
#define PARAM(...) \
    { .used = true, .shape = EXTENTS(__VA_ARGS__) }
#define SCALAR_PARAM \
    { .used = true }
#define PARAM_IN(least, most, ...) \
    { .used = true, .low = least, .high = most, .shape = EXTENTS(__VA_ARGS__) }
#define GRAD(number, words, function, ...)                                        \
    {                                                                             \
        .op = number, .what = words, .build = function, .params = { __VA_ARGS__ } \
    }
#define GRAD_INDEXED(number, words, function, extents, numbers, ...)                              \
    {                                                                                             \
        .op = number, .what = words, .build = function, .params = {__VA_ARGS__}, .indexed = true, \
        .index_shape = extents, .index = numbers                                                  \
    }
#define INDICES(...) \
    { __VA_ARGS__ }

#endif
