#version 460
/* Element by element: out[i] = f(a[i], b[i]). */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "functions.glsl"

layout(constant_id = 1) const uint FUNCTION = 0;
layout(constant_id = 2) const bool PACKED = false; /* all operands, so that i is their place */
layout(constant_id = 3) const uint INPUTS = 2;

PARAMS(vk_elementwise_params)

/* dx = dy s (1 + x (1 - s)) */
float silu_grad(float x, float dy) {
    const float s = sigmoid_of(x);
    return dy * s * (1 + x * (1 - s));
}

/* y = x below(x), and the slope of below() is the density */
float gelu_erf_grad(float x, float dy) {
    const float b = bell(x);
    return dy * (normal_below(x, b) + x * (b * 0.398942280));
}

float gelu_tanh_grad(float x, float dy) {
    const float t = gelu_inner(x), du = 0.797884583 * (1 + 0.134145 * x * x);
    return dy * 0.5 * (1 + t + x * (1 - t * t) * du);
}

float compute(float a, float b) {
    switch (FUNCTION) {
    case VK_ADD: return a + b;
    case VK_SUB: return a - b;
    case VK_MUL: return a * b;
    case VK_DIV: return quotient(a, b);
    case VK_EQUAL: return a == b ? 1 : 0;
    case VK_SCALE: return params.scale * a + params.shift;
    case VK_NEG: return uintBitsToFloat(floatBitsToUint(a) ^ 0x80000000u);
    case VK_EXP: return exp_of(a);
    case VK_LOG: return log_of(a);
    case VK_SQRT: return sqrt(a);
    case VK_TANH: return tanh_of(a);
    case VK_SIGMOID: return sigmoid_of(a);
    case VK_RELU: return relu_of(a);
    case VK_GELU_ERF: return gelu_erf_of(a);
    case VK_GELU_TANH: return gelu_tanh_of(a);
    case VK_SILU: return silu_of(a);
    case VK_SOFTPLUS: return softplus_of(a);
    case VK_POSITIVE: return a > 0 ? 1 : 0;
    case VK_GELU_ERF_GRAD: return gelu_erf_grad(a, b);
    case VK_GELU_TANH_GRAD: return gelu_tanh_grad(a, b);
    default: return silu_grad(a, b);
    }
}

void main() {
    FOR_EACH(i, params.loop.n) {
        uint at[VK_OPERANDS];
        if (PACKED)
            at[0] = at[1] = at[2] = i;
        else
            places_of(params.loop, i, at);
        if (FUNCTION == VK_EQUAL_INT) {
            INTS(2)[at[2]] = INTS(0)[at[0]] == INTS(1)[at[1]] ? 1 : 0;
            continue;
        }
        const float a = FLOATS(0)[at[0]];
        FLOATS(2)[at[2]] = compute(a, INPUTS == 2 ? FLOATS(1)[at[1]] : 0);
    }
}
