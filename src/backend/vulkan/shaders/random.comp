#version 460
/* Ops that draw numbers: Philox4x32-10, as base/random.h has it.  Number i belongs to element i. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

PARAMS(vk_random_params)

uvec4 philox(uvec2 key, uvec4 c) {
    for (int round = 0; round < 10; round++, key += uvec2(0x9E3779B9u, 0xBB67AE85u)) {
        uint high0, low0, high1, low1;
        umulExtended(0xD2511F53u, c.x, high0, low0);
        umulExtended(0xCD9E8D57u, c.z, high1, low1);
        c = uvec4(high1 ^ c.y ^ key.x, low1, high0 ^ c.w ^ key.y, low0);
    }
    return c;
}

void main() {
    const uint step_low = NUMBER(0), step_high = NUMBER(1);
    FOR_EACH(i, params.loop.n) {
        uint at[VK_OPERANDS];
        places_of(params.loop, i, at);
        const uvec4 block = philox(uvec2(params.seed[0], params.seed[1]),
                                   uvec4(i / 4, step_high << 16, step_low, params.ordinal));
        const bool keep = params.keep > 0 && block[i % 4] >= params.threshold;
        SET_FLOAT(1, at[1], keep ? FLOAT(0, at[0]) * params.keep : 0);
    }
}
