#version 460
/*
 * A chain of elementwise steps in one dispatch.  The body of chain() is written when a
 * program is made, by backend/vulkan/chain.c, which knows these functions by their names; the one
 * below only calls all of them, so that glslc leaves none out.
 */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "functions.glsl"
#include "compute.glsl"

PARAMS(vk_chain_params)

/* Where element i of operand k lies. */
uint place(uint k, uint i) {
    uint at = 0;
    [[unroll]] for (uint d = VK_RANK - 1; d > 0; d--)
        if (d < params.rank) {
            const uint next = i / params.dim[d];
            at += (i - next * params.dim[d]) * params.stride[k][d];
            i = next;
        }
    return at + i * params.stride[k][0];
}

float load(uint k, uint at) { return FLOAT(k, at); }

void store(uint k, uint at, float x) { SET_FLOAT(k, at, x); }

float scaled(uint step_, float x) { return params.scale[step_] * x + params.shift[step_]; }

void chain(uint i) {
    const float a = load(0, place(0, i)), b = load(1, i);
    float x = product(a, b) + ratio(a, b) + equal_of(a, b) + scaled(0, a) + negative_of(a);
    x += exp_of(a) + log_of(a) + root(a) + tanh_of(a) + sigmoid_of(a) + relu_of(a) + silu_of(a);
    x += gelu_erf_of(a) + gelu_tanh_of(a) + softplus_of(a) + positive_of(a);
    x += gelu_erf_grad(a, b) + gelu_tanh_grad(a, b) + silu_grad(a, b);
    store(2, i, x);
}

void main() {
    FOR_EACH(i, params.n) chain(i);
}
