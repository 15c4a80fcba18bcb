#version 460
/* Updates: each result lies where the input lies that it replaces.  What depends on the step and
 * the rate comes as numbers, worked out for each run. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const uint FORM = 0;
layout(constant_id = 2) const bool PACKED = false;
layout(constant_id = 3) const bool HAS_MOMENTUM = false;
layout(constant_id = 4) const bool NESTEROV = false;

PARAMS(vk_update_params)

#define RATE(i) uintBitsToFloat(NUMBER(i))

/* m = b1 m + (1 - b1) g,   v = b2 v + (1 - b2) g^2
 * w = (1 - rate decay) w - rate (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps) */
void adamw(uint at[VK_OPERANDS]) {
    const float keep_w = RATE(0), keep_m = RATE(1), new_m = RATE(2), keep_v = RATE(3);
    const float new_v = RATE(4), widen_v = RATE(5), eps = RATE(6), rate = RATE(7);
    const float g = FLOAT(1, at[1]);
    const float m = keep_m * FLOAT(2, at[2]) + new_m * g;
    const float v = keep_v * FLOAT(3, at[3]) + new_v * (g * g);
    SET_FLOAT(0, at[0], keep_w * FLOAT(0, at[0]) - rate * m / (sqrt(v * widen_v) + eps));
    SET_FLOAT(2, at[2], m);
    SET_FLOAT(3, at[3], v);
}

/* g = g + decay w,   m = momentum m + g
 * w = w - rate (g + momentum m with nesterov, else m;  without momentum, g) */
void sgd(uint at[VK_OPERANDS]) {
    const float momentum = RATE(0), decay = RATE(1), rate = RATE(2);
    const float w = FLOAT(0, at[0]), g = FLOAT(1, at[1]) + decay * w;
    float by = g;
    if (HAS_MOMENTUM) {
        const float m = momentum * FLOAT(2, at[2]) + g;
        SET_FLOAT(2, at[2], m);
        by = NESTEROV ? g + momentum * m : m;
    }
    SET_FLOAT(0, at[0], w - rate * by);
}

/* A norm that is NaN shows. */
void clip(uint at[VK_OPERANDS]) {
    const float factor = params.limit / (FLOAT(1, 0) + 1e-6);
    SET_FLOAT(0, at[0], FLOAT(0, at[0]) * (factor > 1 ? 1 : factor));
}

void main() {
    FOR_EACH(i, params.loop.n) {
        uint at[VK_OPERANDS];
        if (PACKED)
            at[0] = at[1] = at[2] = at[3] = i;
        else
            places_of(params.loop, i, at);
        switch (FORM) {
        case VK_ACCUMULATE: SET_FLOAT(0, at[0], FLOAT(0, at[0]) + FLOAT(1, at[1])); break;
        case VK_ADAMW: adamw(at); break;
        case VK_SGD: sgd(at); break;
        default: clip(at); break;
        }
    }
}
