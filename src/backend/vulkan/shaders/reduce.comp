#version 460
/*
 * Many to one.  A group makes WIDE results with GROUP / WIDE threads each; every
 * thread takes every so-manieth element, then the threads' numbers are joined in
 * pairs.  A result of very many elements is made in parts, by two dispatches.
 *
 * A sum of squares is a number times 4^exponent, the exponent being that of the largest
 * element so far: squares that are too large or too small for a float still count.
 */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "functions.glsl"

layout(constant_id = 1) const uint OPERATION = 0;
layout(constant_id = 2) const uint VALUE = 0;
layout(constant_id = 3) const uint FINISH = 0;
layout(constant_id = 4) const uint WIDE = 1;
const uint TALL = GROUP / WIDE;

PARAMS(vk_reduce_params)

shared float numbers[GROUP];
shared int places[GROUP]; /* of a largest one; or exponents */

/* A NaN counts as larger than every number. */
bool larger(float a, float b) { return a > b || (is_nan(a) && !is_nan(b)); }

float value_of(uint base, uint r) {
    const float x = FLOAT(0, base + place_of(params.reduced, r));
    return VALUE == VK_OF_X ? x : x - FLOAT(2, place_of(params.other, r));
}

const int LEAST_EXPONENT = -126, MOST_EXPONENT = 126; /* whose powers of two are normal numbers */

float power_of_two(int n) { return uintBitsToFloat(uint(n + 127) << 23); }

/* A sum with an exponent that is larger by so much. */
float lowered(float sum, int by) { return by > 60 ? 0 : sum * power_of_two(-2 * by); }

void add_square(float x, inout float sum, inout int exponent) {
    const int own = int(floatBitsToUint(x) >> 23 & 255u) - 127;
    const int most = clamp(own, exponent, MOST_EXPONENT);
    const float y = x * power_of_two(-most);
    sum = lowered(sum, most - exponent) + y * y;
    exponent = most;
}

/* Joins what thread b has to what thread a has; of equals, argmax takes the first. */
void join(uint a, uint b) {
    if (OPERATION == VK_REDUCE_SUM) {
        numbers[a] += numbers[b];
        return;
    }
    if (OPERATION == VK_REDUCE_SQUARES) {
        const int most = max(places[a], places[b]);
        numbers[a] = lowered(numbers[a], most - places[a]) + lowered(numbers[b], most - places[b]);
        places[a] = most;
        return;
    }
    const bool equal = !larger(numbers[a], numbers[b]) && !larger(numbers[b], numbers[a]);
    if (larger(numbers[b], numbers[a]) || (equal && places[b] < places[a])) {
        numbers[a] = numbers[b];
        places[a] = places[b];
    }
}

float finish(float x, int exponent) {
    const int power = OPERATION == VK_REDUCE_SQUARES ? exponent : 0;
    if (FINISH == VK_FINISH_MEAN) return times_power(x / params.divisor, 2 * power);
    return FINISH == VK_FINISH_ROOT ? sqrt_of(x) * power_of_two(power) : x;
}

void main() {
    const uint t = thread(), column = t % WIDE, row = t / WIDE;
    const uint per_part = (params.outputs + WIDE - 1) / WIDE;
    FOR_EACH_GROUP(group, per_part * params.parts) {
        const uint part = group / per_part, output_ = group % per_part * WIDE + column;
        const uint begin = part * params.part;
        const uint end = min(begin + params.part, params.count);
        const bool adds = OPERATION == VK_REDUCE_SUM || OPERATION == VK_REDUCE_SQUARES;
        float best = adds ? 0 : -INFINITE;
        int at = adds ? LEAST_EXPONENT : begin + row < end ? int(begin + row) : 0x7fffffff;
        if (output_ < params.outputs) {
            const uint base = place_of(params.kept, output_);
            for (uint r = begin + row; r < end; r += TALL) {
                const float x = value_of(base, r);
                if (OPERATION == VK_REDUCE_SUM) {
                    best += x;
                } else if (OPERATION == VK_REDUCE_SQUARES) {
                    add_square(x, best, at);
                } else if (larger(x, best)) {
                    best = x;
                    at = int(r);
                }
            }
        }
        numbers[t] = best;
        places[t] = at;
        barrier();
        for (uint half_ = TALL / 2; half_ > 0; half_ /= 2) {
            if (row < half_) join(t, t + half_ * WIDE);
            barrier();
        }
        if (row == 0 && output_ < params.outputs) {
            const uint to = output_ * params.parts + part;
            if (OPERATION == VK_REDUCE_ARGMAX)
                SET_INT(1, to, places[t]);
            else
                SET_FLOAT(1, to, finish(numbers[t], places[t]));
        }
        barrier();
    }
}
