/*
 * What all shaders share: how they are handed their memory, and how elements are
 * found in it.  Memory is addressed directly, so there is nothing to bind.
 */
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_control_flow_attributes : require

#define VK_GLSL
#include "params.h"

/* Threads of a group: the first constant of every shader. */
layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint GROUP = 64;

layout(push_constant, std430) uniform Push {
    uint64_t at[8];
    uint64_t params_at, numbers_at;
#ifdef HEAD /* what the shader's params begin with */
    HEAD first;
#endif
} push;
#ifdef HEAD
#    define head push.first
#endif

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Ints { int at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words { uint at[]; };
layout(buffer_reference, std430, buffer_reference_align = 2) buffer Halves { uint16_t at[]; };
layout(buffer_reference, std430, buffer_reference_align = 1) buffer Bytes { uint8_t at[]; };

#define FLOATS(k) Floats(push.at[k]).at
#define INTS(k)   Ints(push.at[k]).at
#define WORDS(k)  Words(push.at[k]).at
#define HALVES(k) Halves(push.at[k]).at

/* Declares `params` to be this struct. */
#define PARAMS(type)                                                                              \
    layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer ParamsReference { \
        type p;                                                                                   \
    };
#define params (ParamsReference(push.params_at).p)

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
