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
#define IG_FN1(ID, name, cost, low, high, epsilons) case __LINE__: return name##_of(a);
#define IG_FN1_OF(ID, form, name, cost, low, high, epsilons) case __LINE__: return name##_of(a);
#define IG_FN2(ID, name, cost, epsilons) case __LINE__: return name##_of(a, b);
#define IG_SLOPE(ID, name, cost, epsilons) case __LINE__: return name##_of(a, b);
#define IG_SLOPE_OF(ID, form, name, cost, epsilons) case __LINE__: return name##_of(a, b);
#include "ingot/function.def"
    default: return params.scale * a + params.shift; /* VK_SCALE */
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
