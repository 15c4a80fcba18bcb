#version 460
/*
 * The last step of a product that was made in parts along k, each [m, n]: their sum,
 * and what becomes of it.
 */
#extension GL_GOOGLE_include_directive : require
#define HEAD vk_matmul_head
#include "common.glsl"
#include "functions.glsl"
#include "epilogue.glsl"

layout(constant_id = VK_PARTS_ID) const uint PARTS = 2;

void main() {
    FOR_EACH(i, head.m * head.n) {
        float e = 0;
        [[unroll]] for (uint part = 0; part < PARTS; part++)
            e += FLOAT(0, part * head.m * head.n + i);
        finish(i, i % head.n, e);
    }
}
