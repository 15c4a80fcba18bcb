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
    float x = scaled(0, a);
#define IG_FN1(ID, name, cost, low, high, epsilons) x += name##_of(a);
#define IG_FN1_OF(ID, form, name, cost, low, high, epsilons) x += name##_of(a);
#define IG_FN2(ID, name, cost, epsilons) x += name##_of(a, b);
#define IG_SLOPE(ID, name, cost, epsilons) x += name##_of(a, b);
#define IG_SLOPE_OF(ID, form, name, cost, epsilons) x += name##_of(a, b);
#include "ingot/function.def"
    store(2, i, x);
}

void main() {
    FOR_EACH(i, params.n) chain(i);
}
