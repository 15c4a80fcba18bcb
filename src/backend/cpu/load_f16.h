/*
 * load_f16.h - floats from what is stored in 32 or 16 bits: F32, F16 and BF16.
 *
 * The dtype is a constant argument where a loop is to be compiled for each of them.
 * All values of the three are floats, so nothing is rounded.
 */
#ifndef IG_BACKEND_CPU_LOAD_F16_H
#define IG_BACKEND_CPU_LOAD_F16_H

#include "backend/cpu/strided.h"

static inline bool is_float_dtype(ig_dtype dtype) {
    return dtype == IG_F32 || dtype == IG_F16 || dtype == IG_BF16;
}

/* A vector of contiguous elements. */
IG_INLINE vf vf_load_as(const char *p, const ig_dtype dtype) {
    if (dtype == IG_F32) return vf_load((const float *)p);
    const uint16_t *u16 = (const uint16_t *)p;
    return dtype == IG_F16 ? vf_load_f16(u16) : vf_of_bits(vi_left(vi_load_u16(u16), 16));
}

/* The first n of them; the other lanes are 0. */
IG_INLINE vf vf_load_first_as(const char *p, int64_t n, const ig_dtype dtype) {
    if (dtype == IG_F32) return vf_load_first((const float *)p, n);
    uint16_t lanes[VF_LANES] = {0};
    if (VF_LANES > 1 && n < VF_LANES) p = memcpy(lanes, p, (size_t)n * sizeof *lanes);
    return vf_load_as(p, dtype);
}

/* n elements, `stride` apart, to contiguous floats. */
IG_INLINE void widen(const char *src, int64_t stride, int64_t n, float *dst, const ig_dtype dtype) {
    if (dtype == IG_F32) {
        copy_strided((char *)dst, 1, src, stride, n, sizeof *dst);
        return;
    }
    uint16_t lanes[VF_LANES];
    for (int64_t i = 0; i < n; i += VF_LANES) {
        const int64_t m = min_i64(n - i, VF_LANES);
        const char *from = src + i * stride * (int64_t)sizeof *lanes;
        if (stride != 1) {
            copy_strided((char *)lanes, 1, from, stride, m, sizeof *lanes);
            from = (const char *)lanes;
        }
        vf_store_first(dst + i, vf_load_first_as(from, m, dtype), m);
    }
}

/* The same, where the dtype is no constant. */
static inline void widen_any(const char *src, int64_t stride, int64_t n, float *dst,
                             ig_dtype dtype) {
    if (dtype == IG_F32)
        widen(src, stride, n, dst, IG_F32);
    else if (dtype == IG_F16)
        widen(src, stride, n, dst, IG_F16);
    else
        widen(src, stride, n, dst, IG_BF16);
}

#endif
