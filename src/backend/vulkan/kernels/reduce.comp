#version 460
/*
 * Many to one.  A group makes WIDE results with GROUP / WIDE threads each; every
 * thread takes every so-manieth element, then the threads' numbers are joined in
 * pairs.  A result of very many elements is made in parts, by two dispatches.
 */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 1) const uint OPERATION = 0;
layout(constant_id = 2) const uint VALUE = 0;
layout(constant_id = 3) const uint FINISH = 0;
layout(constant_id = 4) const uint WIDE = 1;
const uint TALL = GROUP / WIDE;

PARAMS(vk_reduce_params)

shared float numbers[GROUP];
shared uint places[GROUP];

/* A NaN counts as larger than every number. */
bool larger(float a, float b) { return a > b || (is_nan(a) && !is_nan(b)); }

float value_of(uint base, uint r) {
    const float x = FLOAT(0, base + place_of(params.reduced, r));
    if (VALUE == VK_OF_X) return x;
    if (VALUE == VK_OF_SQUARE) return x * x;
    const float difference = x - FLOAT(2, place_of(params.other, r));
    return difference * difference;
}

/* Joins what thread b has to what thread a has; of equals, argmax takes the first. */
void join(uint a, uint b) {
    if (OPERATION == VK_REDUCE_SUM) {
        numbers[a] += numbers[b];
        return;
    }
    const bool equal = !larger(numbers[a], numbers[b]) && !larger(numbers[b], numbers[a]);
    if (larger(numbers[b], numbers[a]) || (equal && places[b] < places[a])) {
        numbers[a] = numbers[b];
        places[a] = places[b];
    }
}

float finish(float x) {
    if (FINISH == VK_FINISH_MEAN) return x / params.divisor;
    return FINISH == VK_FINISH_ROOT ? sqrt(x) : x;
}

void main() {
    const uint t = thread(), column = t % WIDE, row = t / WIDE;
    const uint per_part = (params.outputs + WIDE - 1) / WIDE;
    FOR_EACH_GROUP(group, per_part * params.parts) {
        const uint part = group / per_part, output_ = group % per_part * WIDE + column;
        const uint begin = part * params.part;
        const uint end = min(begin + params.part, params.count);
        float best = OPERATION == VK_REDUCE_SUM ? 0 : -INFINITE;
        uint at = begin + row < end ? begin + row : 0xffffffffu;
        if (output_ < params.outputs) {
            const uint base = place_of(params.kept, output_);
            for (uint r = begin + row; r < end; r += TALL) {
                const float x = value_of(base, r);
                if (OPERATION == VK_REDUCE_SUM) {
                    best += x;
                } else if (larger(x, best)) {
                    best = x;
                    at = r;
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
                SET_INT(1, to, int(places[t]));
            else
                SET_FLOAT(1, to, finish(numbers[t]));
        }
        barrier();
    }
}
