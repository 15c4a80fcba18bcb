#version 460
/*
 * Rotary positions.  The angle is counted in full turns, as a fraction of 64 bits:
 * position times the part of a turn that a position adds wraps around by itself,
 * so nothing is lost however far out a position lies.
 */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const bool HAS_FACTORS = false;

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Rope {
    vk_rope_params p;
    uint turn[];
};

/* The fraction divided by a float: m 2^e with m a whole number of 24 bits. */
uint64_t divided(uint64_t turn, float factor) {
    const uint bits = floatBitsToUint(factor);
    uint m = (bits & 0x7fffffu) | 0x800000u;
    int e = int(bits >> 23 & 255u) - 150;
    const int zeros = findLSB(m);
    m >>= zeros;
    e += zeros;
    uint64_t q = turn / m;
    q = e < 0 ? q << min(-e, 63) | ((turn % m) << min(-e, 40)) / m : q >> min(e, 63);
    return (bits >> 31) != 0 ? 0ul - q : q;
}

/* sin and cos of r + quarter pi/2, |r| <= pi/4 */
vec2 sin_cos(float r, uint quarter) {
    const float z = r * r;
    const float s = r + r * z * (-1.666665524e-1 + z * (8.332190104e-3 + z * -1.951840532e-4));
    const float c = 1 + (z * -0.5 +
                         z * z * (4.166664556e-2 + z * (-1.388730132e-3 + z * 2.443069025e-5)));
    vec2 y = (quarter & 1u) != 0 ? vec2(c, s) : vec2(s, c);
    if ((quarter & 2u) != 0) y.x = -y.x;
    if (((quarter + 1) & 2u) != 0) y.y = -y.y;
    return y;
}

vec2 turn_of(Rope rope, uint token, uint pair) {
    uint64_t each = uint64_t(rope.turn[2 * pair]) | uint64_t(rope.turn[2 * pair + 1]) << 32;
    if (HAS_FACTORS) each = divided(each, FLOATS(2)[pair * rope.p.factor_stride]);
    const int position = INTS(1)[place_of(rope.p.positions, token)];
    uint64_t angle = uint64_t(int64_t(position)) * each;
    if (rope.p.inverse != 0) angle = 0ul - angle;
    /* To the nearest quarter; what is left is a signed fraction of one. */
    const uint64_t shifted = angle + (1ul << 61);
    const int64_t left = int64_t(shifted << 2 ^ 1ul << 63);
    return sin_cos(float(left) * 8.515303599e-20, uint(shifted >> 62)); /* pi/2 / 2^64 */
}

void main() {
    Rope rope = Rope(push.params_at);
    const uint width = rope.p.width, pairs = rope.p.pairs, rest = width - 2 * pairs;
    const uint each = pairs + rest; /* pairs, then elements that only pass through */
    FOR_EACH(i, rope.p.rows * each) {
        const uint row = i / each, pair = i % each;
        const uint x = place_of(rope.p.x, row), y = row * width, stride = rope.p.column_stride;
        if (pair >= pairs) {
            const uint c = pair + pairs;
            FLOATS(3)[y + c] = FLOATS(0)[x + c * stride];
            continue;
        }
        const bool neighbours = rope.p.neighbours != 0;
        const uint a = neighbours ? 2 * pair : pair, b = neighbours ? a + 1 : a + pairs;
        const vec2 turn = turn_of(rope, row / rope.p.heads, pair);
        const float p = FLOATS(0)[x + a * stride], q = FLOATS(0)[x + b * stride];
        FLOATS(3)[y + a] = rope.p.magnitude * (p * turn.y - q * turn.x);
        FLOATS(3)[y + b] = rope.p.magnitude * (p * turn.x + q * turn.y);
    }
}
