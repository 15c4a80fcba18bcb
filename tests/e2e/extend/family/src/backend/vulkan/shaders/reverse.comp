#version 460
/* Rows backwards, times a number. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "reverse_params.h"

PARAMS(vk_reverse_params)

void main() {
    FOR_EACH(i, params.count) {
        const uint j = i % params.n;
        SET_FLOAT(1, i, params.by * FLOAT(0, i - j + params.n - 1 - j));
    }
}
