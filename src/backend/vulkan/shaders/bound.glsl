/*
 * Memory by bindings, in words of 32 bits: what any device of Vulkan 1.1 can do.  An operand is
 * bound from the multiple of VK_BINDING_BYTES at or before its first byte.  One that is larger
 * than a device shows in a binding (WINDOW_BITS words) is shown through several windows:
 *
 *     operand k    | window push.operand[k] >> 8 | the next | the next |
 *
 * A half or a byte is written by two atomic operations, since the rest of its word is another
 * thread's.
 */
layout(constant_id = VK_CONSTANT_SPLIT) const bool SPLIT = false; /* some operand has several */
layout(constant_id = VK_CONSTANT_WINDOW) const uint WINDOW_BITS = 25;

layout(push_constant, std430) uniform Push {
    uint operand[8]; /* bytes before its first, below VK_BINDING_BYTES, and its first window << 8 */
    uint numbers_at; /* in words */
#ifdef HEAD
    HEAD first;
#endif
} push;

layout(set = 0, binding = 1) readonly buffer Numbers { uint at[]; } slot_words;
layout(set = 0, binding = 2) buffer Memory { uint at[]; } memory[VK_WINDOWS];

/* ---- words ---- */

/* Which window shows word i of what is bound for operand k, and where in it. */
uvec2 shown(uint k, uint i) {
    return uvec2((push.operand[k] >> 8) + (i >> WINDOW_BITS), i & ((1u << WINDOW_BITS) - 1u));
}

/* Does it to the word: threads may look through different windows, but name one at a time. */
#define WITH_WORD(k, i, DO)                                     \
    if (!SPLIT) {                                               \
        DO(memory[k].at[i]);                                    \
    } else {                                                    \
        const uvec2 at = shown(k, i);                           \
        [[dont_unroll]] for (uint w = 0u; w < VK_WINDOWS; w++) \
            if (w == at.x) {                                    \
                DO(memory[w].at[at.y]);                         \
            }                                                   \
    }

uint bound_word(uint k, uint i) {
    uint x = 0u;
#define READ(word) x = word
    WITH_WORD(k, i, READ)
    return x;
}

void set_bound_word(uint k, uint i, uint x) {
#define WRITE(word) word = x
    WITH_WORD(k, i, WRITE)
}

/* Those bits of the word that `mask` has. */
void set_bound_bits(uint k, uint i, uint mask, uint x) {
#define CHANGE(word)        \
    atomicAnd(word, ~mask); \
    atomicOr(word, x)
    WITH_WORD(k, i, CHANGE)
}

/* ---- addresses: an operand, and bytes from where it is bound ---- */

#define Address uvec2
Address address_of(uint k) { return uvec2(k, push.operand[k] & 255u); }
#define ADDRESS_OF(k) address_of(k)

/* The offset `count` elements of `size` bytes further. */
Address further(Address at, uint count, uint bytes) { return uvec2(at.x, at.y + count * bytes); }

uint word_at(Address at, uint i) { return bound_word(at.x, at.y / 4u + i); }
float float_at(Address at, uint i) { return uintBitsToFloat(word_at(at, i)); }

uint byte_at(Address at, uint i) {
    const uint byte = at.y + i;
    return bound_word(at.x, byte / 4u) >> 8u * (byte % 4u) & 255u;
}
void set_byte(Address at, uint i, uint x) {
    const uint byte = at.y + i, shift = 8u * (byte % 4u);
    set_bound_bits(at.x, byte / 4u, 255u << shift, x << shift);
}

uint pair_at(Address at, uint i) { /* two bytes, of what lies at a multiple of 2 */
    const uint byte = at.y + 2u * i;
    return bound_word(at.x, byte / 4u) >> 8u * (byte % 4u) & 0xffffu;
}
void set_pair(Address at, uint i, uint x) {
    const uint byte = at.y + 2u * i, shift = 8u * (byte % 4u);
    set_bound_bits(at.x, byte / 4u, 0xffffu << shift, x << shift);
}

uvec4 wide_at(Address at, uint i) {
    return uvec4(word_at(at, 4u * i), word_at(at, 4u * i + 1u), word_at(at, 4u * i + 2u),
                 word_at(at, 4u * i + 3u));
}
vec4 vector_at(Address at, uint i) { return uintBitsToFloat(wide_at(at, i)); }
void set_vector(Address at, uint i, vec4 x) {
    [[unroll]] for (uint e = 0u; e < 4u; e++)
        set_bound_word(at.x, at.y / 4u + 4u * i + e, floatBitsToUint(x[e]));
}

/* ---- elements of operands ---- */

uint word_of(uint k, uint i) { return bound_word(k, (push.operand[k] & 255u) / 4u + i); }
void set_word_of(uint k, uint i, uint x) {
    set_bound_word(k, (push.operand[k] & 255u) / 4u + i, x);
}

#define FLOAT(k, i) uintBitsToFloat(word_of(k, i))
#define INT(k, i)   int(word_of(k, i))
#define WORD(k, i)  word_of(k, i)
#define LOAD_U16(k, i)  pair_at(address_of(k), i)

#define SET_FLOAT(k, i, x) set_word_of(k, i, floatBitsToUint(x))
#define SET_INT(k, i, x)   set_word_of(k, i, uint(x))
#define SET_WORD(k, i, x)  set_word_of(k, i, x)
#define STORE_U16(k, i, x)  set_pair(address_of(k), i, x)

/* ---- what comes with the dispatch ---- */

/* A word that was worked out from this run's slots. */
#define NUMBER(i) slot_words.at[push.numbers_at + (i)]

/* Declares the params to be this struct, and words after it. */
#define PARAMS_NAMED(name, type)                            \
    layout(set = 0, binding = 0) readonly buffer name##Block { \
        type p;                                             \
        uint tail[];                                        \
    } name;
#define PARAMS_OF(name)   name.p
#define PARAMS_TAIL(name) name.tail
