#version 460
/* Mixtures of experts: rows routed to experts, grouped by them, and combined again. */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "functions.glsl"

layout(constant_id = 1) const uint FORM = 0;

PARAMS(vk_moe_params)

bool is_chosen(uint first, uint count, uint expert) {
    for (uint j = 0; j < count; j++)
        if (INT(1, first + j) == int(expert)) return true;
    return false;
}

/* logits [t, e] -> ids [t, k], weights [t, k]: a thread takes a row.  Numbers come before NaNs, of
 * equals the lower id. */
void route() {
    const uint e = params.experts, k = params.count;
    FOR_EACH(row, params.rows) {
        for (uint j = 0; j < k; j++) {
            int best = -1;
            float most = NOT_A_NUMBER;
            for (uint i = 0; i < e; i++) {
                if (is_chosen(row * k, j, i)) continue;
                const float x = FLOAT(0, place_of(params.x, row * e + i));
                if (best < 0 || x > most || (is_nan(most) && !is_nan(x))) {
                    best = int(i);
                    most = x;
                }
            }
            SET_INT(1, row * k + j, best);
        }
        const float largest = FLOAT(0, place_of(params.x, row * e + INT(1, row * k)));
        float sum = 0;
        for (uint i = 0; i < e; i++)
            if (params.norm_topk == 0 || is_chosen(row * k, k, i))
                sum += exp_of(FLOAT(0, place_of(params.x, row * e + i)) - largest);
        for (uint j = 0; j < k; j++) {
            const float x = FLOAT(0, place_of(params.x, row * e + INT(1, row * k + j)));
            SET_FLOAT(2, row * k + j, exp_of(x - largest) / sum);
        }
    }
}

shared uint counts[GROUP];

/* In this thread and all before it. */
uint sum_up_to(uint x) {
    const uint t = thread();
    counts[t] = x;
    barrier();
    for (uint step_ = 1; step_ < GROUP; step_ *= 2) {
        const uint before = t >= step_ ? counts[t - step_] : 0;
        barrier();
        counts[t] += before;
        barrier();
    }
    return counts[t];
}

/* ids [t, k] -> rows [s], places [t, k], offsets [e + 1].  A group takes an expert: it counts what
 * comes before its rows, then gives them their places; the last one handles rows without an expert. */
void group_rows() {
    const uint n = params.rows * params.count, t = thread();
    FOR_EACH_GROUP(expert, params.experts + 1) {
        uint before = 0;
        for (uint i = t; i < n; i += GROUP) {
            const int id = INT(0, place_of(params.x, i));
            before += uint(id >= 0 && id < int(expert));
        }
        sum_up_to(before);
        uint at = counts[GROUP - 1];
        barrier();
        if (t == 0) SET_INT(3, expert, int(at));
        const bool rest = expert == params.experts;
        for (uint first = 0; first < n; first += GROUP) {
            const uint i = first + t;
            const int id = i < n ? INT(0, place_of(params.x, i)) : -1;
            const bool mine = i < n && !rest && id == int(expert);
            const uint place = at + sum_up_to(uint(mine)) - 1;
            if (mine) {
                SET_INT(2, i, int(place));
                SET_INT(1, place, int(i / params.count));
            }
            if (rest && i < n && (id < 0 || id >= int(params.experts))) SET_INT(2, i, -1);
            if (rest && i < n && i >= at) SET_INT(1, i, -1);
            if (!rest) at += counts[GROUP - 1];
            barrier();
        }
    }
}

/* y [s, n], places [t, k], weights [t, k] -> [t, n] */
void combine() {
    FOR_EACH(i, params.rows * params.width) {
        const uint row = i / params.width, column = i % params.width;
        float sum = 0;
        for (uint j = 0; j < params.count; j++) {
            const uint slot = row * params.count + j;
            const int place = INT(1, place_of(params.places, slot));
            if (place < 0 || place >= int(params.grouped)) continue;
            sum += FLOAT(2, place_of(params.weights, slot)) *
                   FLOAT(0, place_of(params.x, uint(place) * params.width + column));
        }
        SET_FLOAT(3, i, sum);
    }
}

void main() {
    if (FORM == VK_ROUTE)
        route();
    else if (FORM == VK_GROUP_ROWS)
        group_rows();
    else
        combine();
}
