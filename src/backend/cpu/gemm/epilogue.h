/*
 * finish.h - what comes behind a product: an activation, then a residual that is added.
 *
 * Both work on sums that are complete, while they are near, and as the steps of their
 * own would: the bits are the same.
 */
#ifndef IG_BACKEND_CPU_FINISH_H
#define IG_BACKEND_CPU_FINISH_H

#include "backend/cpu/simd/vec_activation.h"
#include "backend/cpu/strided.h"

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

/* What comes behind the results from some place on. */
typedef struct ending {
    uint32_t activation;
    const float *residual; /* lies as the results do; or NULL */
} ending;

/* The same `by` elements further. */
IG_INLINE ending ending_at(ending e, int64_t by) {
    return (ending){e.activation, e.residual ? e.residual + by : NULL};
}

/* Rows of results, `stride` apart. */
static inline void finish(ending e, float *y, int64_t stride, int64_t rows, int64_t columns) {
    for (int64_t i = 0; i < rows && activations[e.activation]; i++)
        activations[e.activation](y + i * stride, columns);
    for (int64_t i = 0; i < rows && e.residual; i++)
        add_row(y + i * stride, e.residual + i * stride, columns);
}

/* Fetches the places of as many results, and what finish() will need for them: computing a tile
 * takes longer than that. */
static inline void finish_soon(ending e, const float *y, int64_t stride, int64_t rows,
                               int64_t columns) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j += VF_LANES) {
            __builtin_prefetch(y + i * stride + j, 1);
            if (e.residual) __builtin_prefetch(e.residual + i * stride + j);
        }
}

static inline bool has_activation(uint32_t activation) {
    return activation < sizeof activations / sizeof activations[0];
}

#endif
