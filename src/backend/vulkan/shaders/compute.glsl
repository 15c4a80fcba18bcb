/*
 * What elementwise.comp and chain.comp compute of an element beyond functions.glsl: with
 * chain.comp, functions are called by their names, which backend/vulkan/chain.c knows.
 */
/* dx = dy s (1 + x (1 - s)) */
float silu_grad_of(float x, float dy) {
    const float s = sigmoid_of(x);
    return dy * s * (1 + x * (1 - s));
}

/* y = x below(x), and the slope of below() is the density */
float gelu_erf_grad_of(float x, float dy) {
    const float b = bell(x);
    return dy * (normal_below(x, b) + x * (b * 0.398942280));
}

float gelu_tanh_grad_of(float x, float dy) {
    const float t = gelu_inner(x), du = 0.797884583 * (1 + 0.134145 * x * x);
    return dy * 0.5 * (1 + t + x * (1 - t * t) * du);
}

/* As bits: a device may take subnormal numbers for 0. */
bool is_same(float a, float b) {
    const uint x = floatBitsToUint(a), y = floatBitsToUint(b);
    return (x == y || (x | y) << 1 == 0u) && !is_nan(a);
}

/* A subnormal as an integer multiple of 2^-149; other values unchanged. */
float lift(float x, out int exponent) {
    const uint bits = floatBitsToUint(x), mantissa = bits & 0x7fffffffu;
    exponent = mantissa != 0u && mantissa < 0x00800000u ? -149 : 0;
    if (exponent == 0) return x;
    return (bits >> 31) != 0u ? -float(mantissa) : float(mantissa);
}

float add_of(float a, float b) { return a + b; }

float sub_of(float a, float b) { return a - b; }

float mul_of(float a, float b) {
    int m, n;
    const float x = lift(a, m), y = lift(b, n);
    return m + n == 0 ? a * b : m + n < -149 ? 0 * x * y : times_power(x * y, m + n);
}

float div_of(float a, float b) {
    int m, n;
    const float x = lift(a, m), y = lift(b, n);
    return m == n ? quotient(x, y) : times_power(quotient(x, y), m - n);
}

/* Bits decide: the sign of 0 is a sign, too. */
float neg_of(float x) { return uintBitsToFloat(floatBitsToUint(x) ^ 0x80000000u); }

float equal_of(float a, float b) { return is_same(a, b) ? 1 : 0; }

float positive_of(float x) { return is_positive(x) ? 1 : 0; }
