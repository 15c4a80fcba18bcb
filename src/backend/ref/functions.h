/*
 * functions.h - scalar activations.
 *
 * They are ops, and epilogues of matmul.
 */
#ifndef IG_BACKEND_REF_FUNCTIONS_H
#define IG_BACKEND_REF_FUNCTIONS_H

#include <math.h>

#include "ingot/op.h"

typedef double unary_fn(double x);

static inline double tanh_of(double x) { return tanh(x); }
static inline double sigmoid_of(double x) { return 1 / (1 + exp(-x)); }
static inline double relu_of(double x) { return x <= 0 ? 0 : x; } /* NaN stays NaN */
static inline double silu_of(double x) { return x * sigmoid_of(x); }

/* The standard normal CDF at x; erfc keeps the left tail accurate. */
static inline double below(double x) { return erfc(-x * M_SQRT1_2) / 2; }
static inline double gelu_erf_of(double x) { return x * below(x); }

/* tanh(u), u = sqrt(2 / pi) (x + 0.044715 x^3): Hendrycks and Gimpel's approximation. */
static const double gelu_cubic = 0.044715;

static inline double gelu_inner(double x) {
    return tanh(sqrt(2 / M_PI) * (x + gelu_cubic * x * x * x));
}
static inline double gelu_tanh_of(double x) { return x / 2 * (1 + gelu_inner(x)); }

/* Indexed by ig_activation. */
static inline double same(double x) { return x; }

static unary_fn *const activations[] = {
    [IG_ACTIVATION_NONE] = same,
    [IG_ACTIVATION_RELU] = relu_of,
    [IG_ACTIVATION_TANH] = tanh_of,
    [IG_ACTIVATION_SIGMOID] = sigmoid_of,
    [IG_ACTIVATION_SILU] = silu_of,
    [IG_ACTIVATION_GELU_ERF] = gelu_erf_of,
    [IG_ACTIVATION_GELU_TANH] = gelu_tanh_of,
};

#endif
