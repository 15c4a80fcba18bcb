/*
 * grad_cases.h - functions whose gradients are checked, and what they are given.
 *
 * A case builds a tensor of any shape from its parameters, by the public API.
 * The check multiplies it by fixed numbers, sums it up, and compares backward
 * with central differences.
 */
#ifndef IG_CONFORMANCE_GRAD_CASES_H
#define IG_CONFORMANCE_GRAD_CASES_H

#include "ingot/ingot.h"

enum { GRAD_MAX_PARAMS = 4, GRAD_MAX_INDICES = 12 };

typedef struct grad_inputs {
    ig_ctx *ctx;
    ig_tensor *p[GRAD_MAX_PARAMS]; /* real, the ones to differentiate by */
    ig_tensor *index;              /* i32, or NULL */
    ig_tensor *fixed;              /* real, not differentiated: [4], from 0.5 to 1.5 */
    uint32_t custom;               /* an op of the test's own: x^3 */
} grad_inputs;

typedef ig_tensor *grad_fn(const grad_inputs *in);

typedef struct grad_param {
    bool used;
    ig_shape shape;
    double low, high; /* both 0: -2 to 2, but for 0.1 around 0 */
} grad_param;

typedef struct grad_case {
    ig_op op; /* the one that is checked */
    const char *what;
    grad_fn *build;
    grad_param params[GRAD_MAX_PARAMS];
    ig_shape index_shape;
    int32_t index[GRAD_MAX_INDICES];
    bool indexed;
    double step; /* of the differences; 0: 1e-6 */
} grad_case;

extern const grad_case grad_cases[];
extern const size_t grad_case_count;

#endif
