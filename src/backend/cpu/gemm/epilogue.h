/*
 * epilogue.h - what is applied to finished sums of a GEMM: an activation, then a residual.
 *
 * Sums are complete and still in cache.  The bits are those of separate steps.
 */
#ifndef IG_BACKEND_CPU_GEMM_EPILOGUE_H
#define IG_BACKEND_CPU_GEMM_EPILOGUE_H

#include "backend/cpu/simd/vec_activation.h"
#include "ingot/op.h"

typedef vf map_fn(vf x);

IG_INLINE void map_row(float *y, int64_t n, map_fn *f) {
    for (int64_t i = 0; i < n; i += VF_LANES) {
        const int64_t lanes = min_i64(n - i, VF_LANES);
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
        const int64_t lanes = min_i64(n - i, VF_LANES);
        vf_store_first(y + i, vf_add(vf_load_first(y + i, lanes), vf_load_first(x + i, lanes)),
                       lanes);
    }
}

/* The epilogue of results from some element on. */
typedef struct epilogue {
    uint32_t activation;
    const float *residual; /* of the same layout as the results, or NULL */
} epilogue;

/* The same `by` elements further. */
IG_INLINE epilogue epilogue_at(epilogue e, int64_t by) {
    return (epilogue){e.activation, e.residual ? e.residual + by : NULL};
}

/* Rows of results, `stride` apart. */
static inline void apply_epilogue(epilogue e, float *y, int64_t stride, int64_t rows,
                                  int64_t columns) {
    for (int64_t i = 0; i < rows && activations[e.activation]; i++)
        activations[e.activation](y + i * stride, columns);
    for (int64_t i = 0; i < rows && e.residual; i++)
        add_row(y + i * stride, e.residual + i * stride, columns);
}

/* Prefetches as many results, and their residual, while a tile is computed. */
static inline void prefetch_output(epilogue e, const float *y, int64_t stride, int64_t rows,
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
