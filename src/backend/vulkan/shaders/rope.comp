#version 460
/*
 * Rotary positions.  The angle is counted in full turns, as a fraction of 64 bits:
 * position times the part of a turn that a position adds wraps around by itself,
 * so nothing is lost however far out a position lies.
 */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const bool HAS_FACTORS = false;

PARAMS_NAMED(Rope, vk_rope_params)
#define ROPE PARAMS_OF(Rope)
#define TURN PARAMS_TAIL(Rope)

/* ---- fractions of a turn: 64 bits, low word first ---- */

uvec2 sum_of(uvec2 a, uvec2 b) {
    uint carry;
    const uint low = uaddCarry(a.x, b.x, carry);
    return uvec2(low, a.y + b.y + carry);
}

uvec2 minus(uvec2 a) { return sum_of(~a, uvec2(1, 0)); }

/* Modulo 2^64. */
uvec2 times(uvec2 a, uint b) {
    uint high, low;
    umulExtended(a.x, b, high, low);
    return uvec2(low, high + a.y * b);
}

uvec2 shifted_left(uvec2 a, uint by) {
    if (by == 0) return a;
    if (by >= 32) return uvec2(0, a.x << by - 32);
    return uvec2(a.x << by, a.y << by | a.x >> 32 - by);
}

uvec2 shifted_right(uvec2 a, uint by) {
    if (by == 0) return a;
    if (by >= 32) return uvec2(a.y >> by - 32, 0);
    return uvec2(a.x >> by | a.y << 32 - by, a.y >> by);
}

/* By a number of 24 bits, a byte at a time. */
uvec2 quotient_of(uvec2 a, uint by, out uint left) {
    uvec2 q = uvec2(0);
    left = 0;
    for (int byte = 7; byte >= 0; byte--) {
        left = left << 8 | (a[byte / 4] >> 8 * (byte % 4) & 255u);
        q[byte / 4] |= left / by << 8 * (byte % 4);
        left %= by;
    }
    return q;
}

/* The fraction divided by a float: m 2^e with m a 24-bit integer. */
uvec2 divided(uvec2 turn, float factor) {
    const uint bits = floatBitsToUint(factor);
    uint m = (bits & 0x7fffffu) | 0x800000u, left, rest;
    int e = int(bits >> 23 & 255u) - 150;
    const int zeros = findLSB(m);
    m >>= zeros;
    e += zeros;
    uvec2 q = quotient_of(turn, m, left);
    if (e < 0)
        q = shifted_left(q, min(-e, 63)) |
            quotient_of(shifted_left(uvec2(left, 0), min(-e, 40)), m, rest);
    else
        q = shifted_right(q, min(e, 63));
    return (bits >> 31) != 0 ? minus(q) : q;
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

vec2 turn_of(uint token, uint pair) {
    uvec2 each = uvec2(TURN[2 * pair], TURN[2 * pair + 1]);
    if (HAS_FACTORS) each = divided(each, FLOAT(2, pair * ROPE.factor_stride));
    const int position = INT(1, place_of(ROPE.positions, token));
    uvec2 angle = times(each, uint(abs(position)));
    if (position < 0) angle = minus(angle);
    if (ROPE.inverse != 0) angle = minus(angle);
    /* To the nearest quarter; what is left is a signed fraction of one. */
    const uvec2 moved = sum_of(angle, uvec2(0, 1u << 29));
    const uvec2 left = shifted_left(moved, 2) ^ uvec2(0, 1u << 31);
    const bool back = (left.y >> 31) != 0;
    const uvec2 size = back ? minus(left) : left;
    /* pi/2 / 2^32, and the same / 2^64 */
    const float r = float(size.y) * 3.657295198e-10 + float(size.x) * 8.515303950e-20;
    return sin_cos(back ? -r : r, moved.y >> 30);
}

void main() {
    const uint width = ROPE.width, pairs = ROPE.pairs, rest = width - 2 * pairs;
    const uint each = pairs + rest; /* pairs, then elements that only pass through */
    FOR_EACH(i, ROPE.rows * each) {
        const uint row = i / each, pair = i % each;
        const uint x = place_of(ROPE.x, row), y = row * width, stride = ROPE.column_stride;
        if (pair >= pairs) {
            const uint c = pair + pairs;
            SET_FLOAT(3, y + c, FLOAT(0, x + c * stride));
            continue;
        }
        const bool neighbors = ROPE.neighbors != 0;
        const uint a = neighbors ? 2 * pair : pair, b = neighbors ? a + 1 : a + pairs;
        const vec2 turn = turn_of(row / ROPE.heads, pair);
        const float p = FLOAT(0, x + a * stride), q = FLOAT(0, x + b * stride);
        SET_FLOAT(3, y + a, ROPE.magnitude * (p * turn.y - q * turn.x));
        SET_FLOAT(3, y + b, ROPE.magnitude * (p * turn.x + q * turn.y));
    }
}
