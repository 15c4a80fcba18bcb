/*
 * ref_convert.h - converts elements between any dtypes through double.
 *
 * A double holds every value of every dtype, so a conversion reads exactly and rounds once. Storing
 * rounds to nearest, ties to even; integers are truncated toward zero, saturate, and are 0 for NaN.
 */
#ifndef IG_BACKEND_REF_REF_CONVERT_H
#define IG_BACKEND_REF_REF_CONVERT_H

#include <math.h>
#include <string.h>

#include "backend/ref/ref_kernel.h"

/*
 * A 16-bit float:   sign | exponent | mantissa
 *     F16             1  |    5     |    10       least normal number 2^-14
 *     BF16            1  |    8     |     7                           2^-126
 */
typedef struct ig_ref_small {
    int mantissa_bits, least_exponent;
} ig_ref_small;

static const ig_ref_small ig_ref_f16 = {10, -14}, ig_ref_bf16 = {7, -126};

/* 2^power, for normal results; with libm, F16 conversion would take half of the reference's time.
 */
static inline double ig_ref_two_to(int power) {
    const uint64_t bits = (uint64_t)(power + 1023) << 52;
    double two;
    memcpy(&two, &bits, sizeof two);
    return two;
}

static inline double ig_ref_from_small(ig_ref_small f, uint16_t bits) {
    const int ones = (1 << (15 - f.mantissa_bits)) - 1; /* the exponent of infinity and NaN */
    const int exponent = bits >> f.mantissa_bits & ones;
    const int mantissa = bits & ((1 << f.mantissa_bits) - 1);
    const double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == ones) return mantissa ? (double)NAN : sign * (double)INFINITY;

    const int leading = exponent ? 1 << f.mantissa_bits : 0; /* the implicit leading 1 */
    const int power = f.least_exponent + (exponent ? exponent - 1 : 0) - f.mantissa_bits;
    return sign * (leading + mantissa) * ig_ref_two_to(power);
}

/* Rounds |x| to units in the last place. Rounding up to the next power of two carries into the
 * exponent, and from the largest exponent into infinity, as it should. */
static inline uint16_t ig_ref_to_small(ig_ref_small f, double x) {
    const int sign = signbit(x) ? 0x8000 : 0;
    const int infinity = 0x7fff >> f.mantissa_bits << f.mantissa_bits;
    if (isnan(x)) return (uint16_t)(sign | infinity | 1 << (f.mantissa_bits - 1));
    if (fabs(x) >= ldexp(1, 2 - f.least_exponent)) return (uint16_t)(sign | infinity);

    int exponent = x == 0 ? f.least_exponent : ilogb(x);
    if (exponent < f.least_exponent) exponent = f.least_exponent;
    const int units = (int)nearbyint(ldexp(fabs(x), f.mantissa_bits - exponent));
    return (uint16_t)(sign | (((exponent - f.least_exponent) << f.mantissa_bits) + units));
}

static inline int32_t ig_ref_to_i32(double x) {
    if (isnan(x)) return 0;
    if (x <= INT32_MIN) return INT32_MIN;
    return x >= INT32_MAX ? INT32_MAX : (int32_t)x;
}

static inline double ig_ref_get_any(const ig_ref_view *v, int64_t i) {
    const int64_t place = ig_ref_place(v, i);
    switch (v->dtype) {
    case IG_F32: return (double)((const float *)v->at)[place];
    case IG_F16: return ig_ref_from_small(ig_ref_f16, ((const uint16_t *)v->at)[place]);
    case IG_BF16: return ig_ref_from_small(ig_ref_bf16, ((const uint16_t *)v->at)[place]);
    case IG_F64: return ((const double *)v->at)[place];
    default: return ((const int32_t *)v->at)[place];
    }
}

static inline void ig_ref_put_any(const ig_ref_view *v, int64_t i, double x) {
    const int64_t place = ig_ref_place(v, i);
    switch (v->dtype) {
    case IG_F32: ((float *)v->at)[place] = (float)x; break;
    case IG_F16: ((uint16_t *)v->at)[place] = ig_ref_to_small(ig_ref_f16, x); break;
    case IG_BF16: ((uint16_t *)v->at)[place] = ig_ref_to_small(ig_ref_bf16, x); break;
    case IG_F64: ((double *)v->at)[place] = x; break;
    default: ((int32_t *)v->at)[place] = ig_ref_to_i32(x); break;
    }
}

/* Copies element j of src to element i of dst, bit for bit; both have the same dtype. */
static inline void ig_ref_copy(const ig_ref_view *dst, int64_t i, const ig_ref_view *src,
                               int64_t j) {
    static const size_t bytes[IG_DTYPE_COUNT] = {
#define IG_DTYPE(ID, name, block, bytes) bytes,
#include "ingot/dtype.def"
    };
    const int64_t each = (int64_t)bytes[dst->dtype];
    memcpy(dst->at + ig_ref_place(dst, i) * each, src->at + ig_ref_place(src, j) * each,
           (size_t)each);
}

#endif
