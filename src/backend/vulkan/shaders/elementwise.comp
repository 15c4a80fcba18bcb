#version 460
/* Element by element: out[i] = f(a[i], b[i]). */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "functions.glsl"
#include "compute.glsl"

layout(constant_id = 1) const uint FUNCTION = 0;
layout(constant_id = 2) const bool PACKED = false; /* all operands, so that i is their place */
layout(constant_id = 3) const uint INPUTS = 2;

PARAMS(vk_elementwise_params)

float compute(float a, float b) {
    switch (FUNCTION) {
    case VK_ADD: return a + b;
    case VK_SUB: return a - b;
    case VK_MUL: return product(a, b);
    case VK_DIV: return ratio(a, b);
    case VK_EQUAL: return equal_of(a, b);
    case VK_SCALE: return params.scale * a + params.shift;
    case VK_NEG: return negative_of(a);
    case VK_EXP: return exp_of(a);
    case VK_LOG: return log_of(a);
    case VK_SQRT: return root(a);
    case VK_TANH: return tanh_of(a);
    case VK_SIGMOID: return sigmoid_of(a);
    case VK_RELU: return relu_of(a);
    case VK_GELU_ERF: return gelu_erf_of(a);
    case VK_GELU_TANH: return gelu_tanh_of(a);
    case VK_SILU: return silu_of(a);
    case VK_SOFTPLUS: return softplus_of(a);
    case VK_POSITIVE: return positive_of(a);
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
            SET_INT(2, at[2], INT(0, at[0]) == INT(1, at[1]) ? 1 : 0);
            continue;
        }
        const float a = FLOAT(0, at[0]);
        SET_FLOAT(2, at[2], compute(a, INPUTS == 2 ? FLOAT(1, at[1]) : 0));
    }
}
