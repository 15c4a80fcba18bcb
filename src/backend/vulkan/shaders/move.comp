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
                STORE_U16(1, at[1], params.value[0]);
            else
                SET_WORD(1, at[1], params.value[0]);
        } else if (BYTES == 2) {
            STORE_U16(1, at[1], LOAD_U16(0, at[0]));
        } else {
            SET_WORD(1, at[1], WORD(0, at[0]));
        }
    }
}
