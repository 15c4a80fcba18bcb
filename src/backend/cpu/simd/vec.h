/*
 * vec.h - the few vector operations that kernels are written in.
 *
 * A kernel is written once against these; vec_<isa>.h supplies them for the
 * instruction set the file is being compiled for:
 *
 *   vf   VF_LANES floats           vf_part functions touch the first n lanes only,
 *   vi   as many 32-bit integers   and n is at least 1
 *   vm   as many yes-or-no
 *
 * Rows that are no multiple of VF_LANES end in a part: the same operations on
 * fewer lanes, so that a value does not depend on where in a row it stands.
 * vf_fma() rounds once on machines that have it and twice with plain C.
 */
#ifndef IG_BACKEND_CPU_SIMD_VEC_H
#define IG_BACKEND_CPU_SIMD_VEC_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* For functions that are templates: their constant arguments must fold away. */
#define IG_INLINE static inline __attribute__((always_inline))

static inline int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }

#if defined(__AVX512F__) && defined(__AVX512VL__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
#    include <immintrin.h>

#    include "backend/cpu/simd/vec_x86.h"

#    include "backend/cpu/simd/vec_avx512.h"
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#    include <immintrin.h>

#    include "backend/cpu/simd/vec_x86.h"

#    include "backend/cpu/simd/vec_avx2.h"
#else
#    include "backend/cpu/simd/vec_scalar.h"
#endif

/* Before a loop of a constant count: only when it is written out can the arrays of vectors that it
 * goes through live in registers.  Not with one lane: there are too many for
 * registers, and compilers would take minutes.  Not for ThreadSanitizer, which is no faster for it.
 */
#if defined(IG_ONE_LANE) || defined(__SANITIZE_THREAD__)
#    define IG_UNROLL
#elif defined(__clang__)
#    define IG_UNROLL _Pragma("clang loop unroll(full)")
#else
#    define IG_UNROLL _Pragma("GCC unroll 32")
#endif

/* AddressSanitizer and ThreadSanitizer do not see what assembly reads. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#    define IG_WATCHED 1
#else
#    define IG_WATCHED 0
#endif

/* a times the float at b, plus c: read by the multiplication itself where that can, since gcc loads
 * a float by itself that is used more than once. */
#if defined(__AVX512F__) && !IG_WATCHED
IG_INLINE vf vf_fma_repeated(vf a, const void *b, vf c) {
    typedef float one __attribute__((aligned(1), may_alias));
    __asm__("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(c) : "v"(a), "m"(*(const one *)b));
    return c;
}
#else
IG_INLINE vf vf_fma_repeated(vf a, const void *b, vf c) {
    float x;
    memcpy(&x, b, sizeof x);
    return vf_fma(a, vf_set(x), c);
}
#endif

/* The first n lanes from p, 1 <= n <= VF_LANES; the others are 0. */
IG_INLINE vf vf_load_first(const float *p, int64_t n) {
    return n == VF_LANES ? vf_load(p) : vf_load_part(p, n);
}

IG_INLINE void vf_store_first(float *p, vf x, int64_t n) {
    if (n == VF_LANES)
        vf_store(p, x);
    else
        vf_store_part(p, x, n);
}

/* The same from every stride-th float; what lies in the other lanes is not defined. */
IG_INLINE vf vf_take(const float *p, int64_t stride, int64_t n) {
    if (stride == 1) return vf_load_first(p, n);
    if (stride == 0) return vf_set(*p);
    float lanes[VF_LANES] = {0};
    for (int64_t i = 0; i < n; i++) lanes[i] = p[i * stride];
    return vf_load(lanes);
}

IG_INLINE void vf_give(float *p, int64_t stride, vf x, int64_t n) {
    if (stride == 1) {
        vf_store_first(p, x, n);
        return;
    }
    float lanes[VF_LANES];
    vf_store(lanes, x);
    for (int64_t i = 0; i < n; i++) p[i * stride] = lanes[i];
}

/* A NaN counts as larger than every number. */
IG_INLINE vf vf_larger(vf a, vf b) { return vf_select(vm_or(vf_less(a, b), vf_is_nan(b)), b, a); }

IG_INLINE float float_of_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

IG_INLINE uint32_t bits_of_float(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* The largest lane, a NaN if there is one. */
IG_INLINE float vf_largest(vf x) {
    return vm_any(vf_is_nan(x)) ? float_of_bits(0x7fc00000) : vf_max_lane(x);
}

#endif
