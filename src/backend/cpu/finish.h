/*
 * finish.h - what comes behind a product: an activation, then a residual that is added.
 *
 * Both work on sums that are complete, while they are near, and as the steps of their
 * own would: the bits are the same.
 */
#ifndef IG_BACKEND_CPU_FINISH_H
#define IG_BACKEND_CPU_FINISH_H

#include "backend/cpu/activation.h"
#include "backend/cpu/loops.h"

typedef vf map_fn(vf x);

IG_INLINE void map_row(float *y, int64_t n, map_fn *f) {
    for (int64_t i = 0; i < n; i += VF_LANES) {
        const int64_t lanes = smaller(n - i, VF_LANES);
        vf_store_first(y + i, f(vf_load_first(y + i, lanes)), lanes);
    }
}

static void relu_row(float *y, int64_t n) { map_row(y, n, relu_of); }
static void tanh_row(float *y, int64_t n) { map_row(y, n, vf_tanh); }
static void sigmoid_row(float *y, int64_t n) { map_row(y, n, vf_sigmoid); }
static void silu_row(float *y, int64_t n) { map_row(y, n, silu_of); }
static void gelu_erf_row(float *y, int64_t n) { map_row(y, n, gelu_erf_of); }
static void gelu_tanh_row(float *y, int64_t n) { map_row(y, n, gelu_tanh_of); }

static void (*const activations[])(float *y, int64_t n) = {
    [IG_ACTIVATION_NONE] = NULL,
    [IG_ACTIVATION_RELU] = relu_row,
    [IG_ACTIVATION_TANH] = tanh_row,
    [IG_ACTIVATION_SIGMOID] = sigmoid_row,
    [IG_ACTIVATION_SILU] = silu_row,
    [IG_ACTIVATION_GELU_ERF] = gelu_erf_row,
    [IG_ACTIVATION_GELU_TANH] = gelu_tanh_row,
};

static inline void add_row(float *y, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i += VF_LANES) {
        const int64_t lanes = smaller(n - i, VF_LANES);
        vf_store_first(y + i, vf_add(vf_load_first(y + i, lanes), vf_load_first(x + i, lanes)),
                       lanes);
    }
}

/* Rows of results, `stride` apart.  The residual lies as they do, or is NULL. */
static inline void finish(uint32_t activation, float *y, const float *residual, int64_t stride,
                          int64_t rows, int64_t columns) {
    for (int64_t i = 0; i < rows && activations[activation]; i++)
        activations[activation](y + i * stride, columns);
    for (int64_t i = 0; i < rows && residual; i++)
        add_row(y + i * stride, residual + i * stride, columns);
}

static inline bool has_activation(uint32_t activation) {
    return activation < sizeof activations / sizeof activations[0];
}

#endif
