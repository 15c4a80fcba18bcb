/*
 * vec_math.h - exp, log, tanh and their kin on vectors.
 *
 * The C library's functions are not called: they take one number at a time, and
 * their last bits differ between machines.  Each function here brings its
 * argument into a short range and evaluates a polynomial there; polynomials are
 * minimax fits made for these ranges, with the size of their error beside them
 * (one ulp of a float near 1 is 6e-8).
 * NaN goes in, NaN comes out; infinities give limits.
 */
#ifndef IG_BACKEND_CPU_SIMD_VEC_MATH_H
#define IG_BACKEND_CPU_SIMD_VEC_MATH_H

#include <math.h>

#include "backend/cpu/simd/vec.h"

/* ln 2 in two parts: the first has 9 bits, so that its product with an exponent is exact. */
#define LN2_HIGH 0.693359375f
#define LN2_LOW  -2.12194440e-4f

/* Adding this to a small number leaves it rounded to an integer in the last bits. */
#define ROUNDER 12582912.0f /* 1.5 * 2^23 */

/* c[0] + c[1] x + ... */
IG_INLINE vf vf_poly(vf x, const float *c, int count) {
    vf y = vf_set(c[count - 1]);
    for (int i = count - 2; i >= 0; i--) y = vf_fma(y, x, vf_set(c[i]));
    return y;
}

IG_INLINE vf vf_abs(vf x) { return vf_of_bits(vi_and(vf_bits(x), vi_set(0x7fffffff))); }
IG_INLINE vf vf_neg(vf x) { return vf_of_bits(vi_xor(vf_bits(x), vi_set(INT32_MIN))); }

/* x with its sign flipped where that of `by` is set. */
IG_INLINE vf vf_flip(vf x, vf by) {
    return vf_of_bits(vi_xor(vf_bits(x), vi_and(vf_bits(by), vi_set(INT32_MIN))));
}

IG_INLINE vf vf_clamp(vf x, float low, float high) {
    return vf_min(vf_set(high), vf_max(vf_set(low), x));
}

/* 2^n x, in two steps because 2^n alone may be out of range. */
IG_INLINE vf vf_times_power(vf x, vi n) {
    const vi half = vi_right(n, 1), rest = vi_sub(n, half), bias = vi_set(127);
    x = vf_mul(x, vf_of_bits(vi_left(vi_add(half, bias), 23)));
    return vf_mul(x, vf_of_bits(vi_left(vi_add(rest, bias), 23)));
}

/*
 * e^(x + low), where `low` is what x is too short to hold.
 * x = n ln 2 + r with |r| <= ln 2 / 2; e^x = 2^n e^r, and e^r = 1 + r + r^2 P(r).
 */
IG_INLINE vf vf_exp_parts(vf x, vf low) {
    static const float p[] = {0x1.fffffcp-2f, 0x1.555482p-3f, 0x1.555826p-5f, 0x1.124492p-7f,
                              0x1.6afe12p-10f}; /* 4e-9 */
    x = vf_clamp(x, -105, 89);                  /* beyond, all is 0 or infinity */
    const vf shifted = vf_fma(x, vf_set(0x1.715476p+0f), vf_set(ROUNDER));
    const vf n = vf_sub(shifted, vf_set(ROUNDER));
    vf r = vf_fma(n, vf_set(-LN2_HIGH), x);
    r = vf_add(vf_fma(n, vf_set(-LN2_LOW), r), low);
    const vf y = vf_add(vf_fma(vf_mul(r, r), vf_poly(r, p, 5), r), vf_set(1));
    return vf_times_power(y, vi_sub(vf_bits(shifted), vf_bits(vf_set(ROUNDER))));
}

IG_INLINE vf vf_exp(vf x) { return vf_exp_parts(x, vf_set(0)); }

/* e^x where x <= 0: less to look after.  What would be less than 2.4e-38 is that. */
IG_INLINE vf vf_exp_down(vf x) {
    static const float p[] = {0x1.fffffcp-2f, 0x1.555482p-3f, 0x1.555826p-5f, 0x1.124492p-7f,
                              0x1.6afe12p-10f}; /* as above */
    x = vf_max(vf_set(-86.6f), x);
    const vf shifted = vf_fma(x, vf_set(0x1.715476p+0f), vf_set(ROUNDER));
    const vf n = vf_sub(shifted, vf_set(ROUNDER));
    const vf r = vf_fma(n, vf_set(-LN2_LOW), vf_fma(n, vf_set(-LN2_HIGH), x));
    const vf y = vf_add(vf_fma(vf_mul(r, r), vf_poly(r, p, 5), r), vf_set(1));
    /* n stands in the last bits, and is added to the exponent, which does not become 0. */
    return vf_of_bits(vi_add(vf_bits(y), vi_left(vf_bits(shifted), 23)));
}

IG_INLINE float float_exp(float x) { return vf_first(vf_exp(vf_set(x))); }

/*
 * ln of a number that is positive, finite and not subnormal.
 * x = 2^e (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2); with s = f / (2 + f)
 * ln(1 + f) = 2 s + s z P(z),  z = s^2,  which is  f - (f^2/2 - s (f^2/2 + z P(z))).
 */
IG_INLINE vf vf_log_normal(vf x) {
    static const float p[] = {0x1.555554p-1f, 0x1.999c28p-2f, 0x1.23d348p-2f,
                              0x1.f14f4p-3f}; /* 5e-11 */
    const vi bits = vf_bits(x);
    const vi e = vi_right(vi_sub(bits, vi_set(0x3f3504f3)), 23); /* sqrt(1/2) */
    const vf f = vf_sub(vf_of_bits(vi_sub(bits, vi_left(e, 23))), vf_set(1));
    const vf s = vf_div(f, vf_add(f, vf_set(2))), z = vf_mul(s, s), n = vi_to_float(e);
    const vf half = vf_mul(vf_set(0.5f), vf_mul(f, f));
    const vf tail = vf_fma(s, vf_fma(z, vf_poly(z, p, 4), half), vf_mul(n, vf_set(LN2_LOW)));
    return vf_fma(n, vf_set(LN2_HIGH), vf_sub(f, vf_sub(half, tail)));
}

IG_INLINE vf vf_log(vf x) {
    const vm subnormal = vf_less(x, vf_set(0x1p-126f));
    const vf up = vf_select(subnormal, vf_mul(x, vf_set(0x1p23f)), x);
    const vf back = vf_select(subnormal, vf_set(23 * 0.693147180559945f), vf_set(0));
    vf y = vf_sub(vf_log_normal(up), back);
    y = vf_select(vf_equal(x, vf_set(INFINITY)), x, y);
    const vf outside = vf_select(vf_equal(x, vf_set(0)), vf_set(-INFINITY), vf_set(NAN));
    return vf_select(vf_less(vf_set(0), x), y, outside);
}

IG_INLINE float float_log(float x) { return vf_first(vf_log(vf_set(x))); }

/* ln(1 + e^x) = max(x, 0) + ln(1 + u), u = e^-|x|.  What 1 + u loses of u comes back as a
 * correction: ln(w + c) = ln w + c / w. */
IG_INLINE vf softplus_of(vf x) {
    const vf u = vf_exp(vf_neg(vf_abs(x))), w = vf_add(vf_set(1), u);
    const vf lost = vf_sub(u, vf_sub(w, vf_set(1)));
    const vf log = vf_add(vf_log_normal(w), vf_div(lost, w));
    return vf_add(vf_max(vf_set(0), x), log);
}

/* Near 0  x + x z P(z), z = x^2;  else  1 - 2 / (e^2x + 1). */
IG_INLINE vf vf_tanh(vf x) {
    static const float p[] = {-0x1.555524p-2f, 0x1.1103fp-3f, -0x1.b7cfbep-5f, 0x1.4f5dc2p-6f,
                              -0x1.697184p-8f}; /* 1.2e-8 */
    const vf a = vf_abs(x), z = vf_mul(x, x);
    const vf near = vf_fma(vf_mul(a, z), vf_poly(z, p, 5), a);
    const vf e = vf_exp(vf_add(a, a));
    const vf far = vf_sub(vf_set(1), vf_div(vf_set(2), vf_add(e, vf_set(1))));
    return vf_flip(vf_select(vf_less(a, vf_set(0.65f)), near, far), x);
}

/* 1 / (1 + e^-x); for x < 0 written as e^x / (1 + e^x), which keeps the small ones exact. */
IG_INLINE vf vf_sigmoid(vf x) {
    const vf e = vf_exp(vf_neg(vf_abs(x))), y = vf_div(vf_set(1), vf_add(vf_set(1), e));
    return vf_select(vf_less(x, vf_set(0)), vf_mul(e, y), y);
}

/* e^(-x^2 / 2).  The square does not fit a float: x = h + l with h in 12 bits, so that h^2 is
 * exact, and x^2 = h^2 + l (x + h). */
IG_INLINE vf vf_bell(vf x) {
    const vf a = vf_min(vf_set(20), vf_abs(x)); /* beyond, all is 0 */
    const vf h = vf_of_bits(vi_and(vf_bits(a), vi_set(~0xfff)));
    const vf low = vf_mul(vf_sub(a, h), vf_add(a, h)), minus_half = vf_set(-0.5f);
    return vf_exp_parts(vf_mul(minus_half, vf_mul(h, h)), vf_mul(minus_half, low));
}

/*
 * The share of the normal distribution below x, (1 + erf(x / sqrt 2)) / 2, given
 * bell = e^(-x^2 / 2).  Near 0 it is 1/2 + x P(x^2); beyond 1.5 the share on the far
 * side is bell t Q(t) with t = 1 / (|x| + 3.5), so that both tails are exact.
 */
IG_INLINE vf vf_normal_below(vf x, vf bell) {
    static const float p[] = {0x1.988454p-2f,  -0x1.10588cp-4f, 0x1.46dc3ap-7f, -0x1.37da58p-10f,
                              0x1.ea756cp-14f, -0x1.458c2p-17f, 0x1.28e876p-21f}; /* 3e-8 */
    static const float q[] = {0x1.987286p-2f, 0x1.66bf16p+0f, 0x1.15266ep+2f, 0x1.f2a292p+3f,
                              0x1.5aac5ap+2f, 0x1.a14p+7f,    -0x1.6fe87cp+8f}; /* 2e-8 */
    const vf a = vf_abs(x);
    const vf near = vf_fma(x, vf_poly(vf_mul(x, x), p, 7), vf_set(0.5f));
    const vf t = vf_div(vf_set(1), vf_add(a, vf_set(3.5f)));
    const vf beyond = vf_mul(bell, vf_mul(t, vf_poly(t, q, 7)));
    const vf below = vf_select(vf_less(x, vf_set(0)), beyond, vf_sub(vf_set(1), beyond));
    return vf_select(vf_less(a, vf_set(1.5f)), near, below);
}

/* sin and cos of r + quarter * pi/2 for |r| <= pi/4:  sin r = r + r z P(z), cos r = 1 - z/2 +
 * z^2 Q(z), z = r^2.  They trade places in odd quarters. */
IG_INLINE void vf_sin_cos(vf r, vi quarter, vf *sin, vf *cos) {
    static const float p[] = {-0x1.555546p-3f, 0x1.11077ap-7f, -0x1.9954a4p-13f}; /* 4e-9 */
    static const float q[] = {0x1.55554ap-5f, -0x1.6c0c1ap-10f, 0x1.99e104p-16f}; /* 1e-10 */
    const vf z = vf_mul(r, r);
    const vf s = vf_fma(vf_mul(r, z), vf_poly(z, p, 3), r);
    const vf low = vf_fma(vf_mul(z, z), vf_poly(z, q, 3), vf_mul(z, vf_set(-0.5f)));
    const vf c = vf_add(vf_set(1), low);
    const vm even = vi_equal(vi_and(quarter, vi_set(1)), vi_set(0));
    const vf sign_of_sin = vf_of_bits(vi_left(quarter, 30)); /* quarters 2 and 3 */
    const vf sign_of_cos = vf_of_bits(vi_left(vi_add(quarter, vi_set(1)), 30)); /* 1 and 2 */
    *sin = vf_flip(vf_select(even, s, c), sign_of_sin);
    *cos = vf_flip(vf_select(even, c, s), sign_of_cos);
}

#endif
