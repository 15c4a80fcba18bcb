/*
 * Memory by address: a dispatch is handed where its operands lie, and there is nothing to bind.
 * What bound.glsl says is said here for devices that have buffer addresses, small types in
 * storage and 64-bit integers.
 */
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require

layout(push_constant, std430) uniform Push {
    uint64_t at[8];
    uint64_t params_at, numbers_at;
#ifdef HEAD
    HEAD first;
#endif
} push;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Ints { int at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words { uint at[]; };
layout(buffer_reference, std430, buffer_reference_align = 2) buffer U16s { uint16_t at[]; };
layout(buffer_reference, std430, buffer_reference_align = 1) buffer Bytes { uint8_t at[]; };
/* What is only read need not be read again behind a write. */
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Vectors {
    vec4 at[];
};
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer WideWords {
    uvec4 at[];
};
layout(buffer_reference, std430, buffer_reference_align = 16) writeonly buffer VectorsOut {
    vec4 at[];
};

/* ---- elements of operands ---- */

#define FLOAT(k, i) Floats(push.at[k]).at[i]
#define INT(k, i)   Ints(push.at[k]).at[i]
#define WORD(k, i)  Words(push.at[k]).at[i]
#define LOAD_U16(k, i)  uint(U16s(push.at[k]).at[i])

#define SET_FLOAT(k, i, x) Floats(push.at[k]).at[i] = (x)
#define SET_INT(k, i, x)   Ints(push.at[k]).at[i] = (x)
#define SET_WORD(k, i, x)  Words(push.at[k]).at[i] = (x)
#define STORE_U16(k, i, x)  U16s(push.at[k]).at[i] = uint16_t(x)

/* ---- addresses ---- */

#define Address       uint64_t
#define ADDRESS_OF(k) push.at[k]

/* The address `count` elements of `size` bytes further. */
Address further(Address at, uint count, uint bytes) { return at + uint64_t(count) * bytes; }

float float_at(Address at, uint i) { return Floats(at).at[i]; }
uint pair_at(Address at, uint i) { return uint(U16s(at).at[i]); } /* two bytes */
uint byte_at(Address at, uint i) { return uint(Bytes(at).at[i]); }
void set_byte(Address at, uint i, uint x) { Bytes(at).at[i] = uint8_t(x); }

/* Four at once, of what lies at a multiple of 16 bytes. */
vec4 vector_at(Address at, uint i) { return Vectors(at).at[i]; }
uvec4 wide_at(Address at, uint i) { return WideWords(at).at[i]; }
void set_vector(Address at, uint i, vec4 x) { VectorsOut(at).at[i] = x; }

/* ---- what comes with the dispatch ---- */

/* A word that was worked out from this run's slots. */
#define NUMBER(i) Words(push.numbers_at).at[i]

/* Declares the params to be this struct, and words after it. */
#define PARAMS_NAMED(name, type)                                                     \
    layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer name { \
        type p;                                                                      \
        uint tail[];                                                                 \
    };
#define PARAMS_OF(name)   name(push.params_at).p
#define PARAMS_TAIL(name) name(push.params_at).tail
