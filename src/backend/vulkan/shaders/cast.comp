#version 460
/* Between dtypes.  Storing rounds to nearest, ties to even; integers are cut toward zero, stay in
 * range, and are 0 for NaN. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "dequantize.glsl"
#include "encode.glsl"

layout(constant_id = 1) const uint FROM = 0;
layout(constant_id = 2) const uint TO = 0;

PARAMS(vk_move_params)

/* What is cut off shows in the last bit, so that rounding again goes the right way. */
float int_to_float_odd(int x) {
    uint u = x < 0 ? 0u - uint(x) : uint(x);
    const int cut = max(findMSB(u) - 23, 0);
    u = u >> cut << cut | (((u & ((1u << cut) - 1u)) != 0) ? 1u << cut : 0u);
    return x < 0 ? -float(u) : float(u);
}

int float_to_int(float x) {
    if (is_nan(x)) return 0;
    if (x <= -2147483648.0) return -2147483647 - 1;
    return x >= 2147483648.0 ? 2147483647 : int(x);
}

void main() {
    FOR_EACH(i, params.loop.n) {
        uint at[VK_OPERANDS];
        places_of(params.loop, i, at);
        if (FROM == VK_I32 && TO == VK_I32) {
            SET_INT(1, at[1], INT(0, at[0]));
            continue;
        }
        float x;
        if (FROM == VK_I32)
            x = TO == VK_F32 ? float(INT(0, at[0])) : int_to_float_odd(INT(0, at[0]));
        else
            x = weight_at(FROM, ADDRESS_OF(0), at[0]);
        if (TO == VK_F32) SET_FLOAT(1, at[1], x);
        if (TO == VK_I32) SET_INT(1, at[1], float_to_int(x));
        if (TO == VK_F16) STORE_U16(1, at[1], float_to_half(x));
        if (TO == VK_BF16) STORE_U16(1, at[1], float_to_bfloat(x));
    }
}
