/* vec_activation.h - the activations of an epilogue, on vectors. */
#ifndef IG_BACKEND_CPU_SIMD_VEC_ACTIVATION_H
#define IG_BACKEND_CPU_SIMD_VEC_ACTIVATION_H

#include "backend/cpu/simd/vec_math.h"

IG_INLINE vf relu_of(vf x) { return vf_max(vf_set(0), x); } /* NaN stays NaN */
IG_INLINE vf silu_of(vf x) { return vf_mul(x, vf_sigmoid(x)); }
IG_INLINE vf gelu_erf_of(vf x) { return vf_mul(x, vf_normal_below(x, vf_bell(x))); }

/* The argument of the tanh, doubled: (1 + tanh u) / 2 is sigmoid(2u), which is exact for small
 * results too.  2u = 2 sqrt(2 / pi) (x + 0.044715 x^3) = x (c1 + c3 x^2) */
#define GELU_C1 1.59576912160573f
#define GELU_C3 0.0713548162726009f

IG_INLINE vf gelu_inner(vf x) {
    return vf_mul(x, vf_fma(vf_mul(x, x), vf_set(GELU_C3), vf_set(GELU_C1)));
}

IG_INLINE vf gelu_tanh_of(vf x) { return vf_mul(x, vf_sigmoid(gelu_inner(x))); }

#endif
