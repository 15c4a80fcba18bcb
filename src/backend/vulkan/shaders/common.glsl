/*
 * What all shaders share: how they are handed their memory, and how elements are
 * found in it.  Each is compiled twice: memory is addressed directly, or bound for
 * devices that have no addresses, and with -DBOUND nothing else is asked for either:
 * no small types in storage, no 64-bit integers, no arithmetic of subgroups.
 */
#extension GL_EXT_control_flow_attributes : require

#define VK_GLSL
#include "params.h"

/* Threads of a group: the first constant of every shader. */
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint GROUP = 64;

#ifdef BOUND
#    include "bound.glsl"
#else
#    include "addressed.glsl"
#endif

/* What the shader's params begin with, where it is read sooner. */
#ifdef HEAD
#    define head push.first
#endif

/* Declares `params` to be this struct. */
#define PARAMS(type) PARAMS_NAMED(Params, type)
#define params       PARAMS_OF(Params)

#define INFINITE     uintBitsToFloat(0x7f800000u)
#define NOT_A_NUMBER uintBitsToFloat(0x7fc00000u)

uint thread() { return gl_LocalInvocationID.x; }

/* All threads of all groups count through the elements together. */
#define FOR_EACH(i, n) \
    for (uint i = gl_GlobalInvocationID.x; i < (n); i += gl_NumWorkGroups.x * GROUP)

/* All groups count through what a group does together. */
#define FOR_EACH_GROUP(i, n) for (uint i = gl_WorkGroupID.x; i < (n); i += gl_NumWorkGroups.x)

bool is_nan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }

/* Where element i lies. */
uint place_of(vk_places p, uint i) {
    uint at = 0;
    [[unroll]] for (uint d = VK_RANK - 1; d > 0; d--)
        if (d < p.rank) {
            const uint next = i / p.dim[d];
            at += (i - next * p.dim[d]) * p.stride[d];
            i = next;
        }
    return at + i * p.stride[0];
}

/* Where element i of each operand lies. */
void places_of(vk_loop g, uint i, out uint at[VK_OPERANDS]) {
    [[unroll]] for (uint k = 0; k < VK_OPERANDS; k++) at[k] = 0;
    [[unroll]] for (uint d = VK_RANK - 1; d > 0; d--)
        if (d < g.rank) {
            const uint next = i / g.dim[d], index = i - next * g.dim[d];
            [[unroll]] for (uint k = 0; k < VK_OPERANDS; k++) at[k] += index * g.stride[k][d];
            i = next;
        }
    [[unroll]] for (uint k = 0; k < VK_OPERANDS; k++) at[k] += i * g.stride[k][0];
}
