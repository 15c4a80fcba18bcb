#version 460
/* Elements moved bit for bit, or set to one value. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const uint FORM = 0;
layout(constant_id = 2) const uint BYTES = 4; /* of an element */

PARAMS(vk_move_params)

void main() {
    FOR_EACH(i, params.loop.n) {
        uint at[VK_OPERANDS];
        places_of(params.loop, i, at);
        if (FORM == VK_FILL) {
            if (BYTES == 2)
                HALVES(1)[at[1]] = uint16_t(params.value[0]);
            else
                WORDS(1)[at[1]] = params.value[0];
        } else if (BYTES == 2) {
            HALVES(1)[at[1]] = HALVES(0)[at[0]];
        } else {
            WORDS(1)[at[1]] = WORDS(0)[at[0]];
        }
    }
}
