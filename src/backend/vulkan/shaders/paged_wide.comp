#version 460
/*
 * Attention over pages, by wide loads: a group takes a head of a row, or one of
 * PARTS shares of the positions that it sees.  It goes through GROUP positions at a
 * time: each thread works out the score of one; then they sum up values, LANES
 * threads side by side along a position.
 *
 * Shares are left in scratch as [rows h, PARTS, largest score, sum, unscaled result], and joined
 * by a second dispatch.
 */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "dequantize.glsl"
#include "functions.glsl"
#include "workgroup_reduce.glsl"
#include "dequantize_vec4.glsl"

layout(constant_id = 1) const bool JOINS = false;
layout(constant_id = 2) const uint WIDTH = 64;  /* of q and k */
layout(constant_id = 3) const uint VALUES = 64; /* width of v */
layout(constant_id = 4) const uint DTYPE_K = 0;
layout(constant_id = 5) const uint DTYPE_V = 0;
layout(constant_id = 6) const uint PARTS = 1;
const uint PAGE = 64;
const uint MOST_VECTORS = 4; /* of a piece that pages are kept in */
const uint SHARE = VALUES + 2;

PARAMS(vk_paged_params)
#define PAGED params
#include "sinks.glsl"

shared vec4 query[WIDTH / 4];
shared float weight[GROUP];
shared uint place[GROUP]; /* of the position in the cache: page and row */
shared vec4 sums[GROUP * MOST_VECTORS];

/* The address of a row of pages, in blocks of its type. */
Address row_at(uint dtype, Address base, uint element) {
    return further(base, element / block_elements(dtype), block_bytes(dtype));
}

/* The positions that a row sees: its own and those before, as far as the window goes, up to the
 * first that lies nowhere. */
uvec2 range_of(int sequence, int last) {
    const int window = int(params.window);
    const uint begin = window > 0 && last >= window ? uint(last - window + 1) : 0;
    if (sequence < 0 || sequence >= int(params.sequences) || last < 0) return uvec2(0);
    float lost = -INFINITE; /* less the first page that is lost */
    for (uint slot = begin / PAGE + thread(); slot <= uint(last) / PAGE; slot += GROUP) {
        const bool there = slot < params.pages;
        const int page = there ? INT(3, sequence * params.table[0] + slot * params.table[1]) : -1;
        if (page < 0 || page >= int(params.n_pages)) lost = max(lost, -float(slot));
    }
    lost = group_max(lost);
    return uvec2(begin, lost > -INFINITE ? max(uint(-lost) * PAGE, begin) : uint(last) + 1);
}

float score_of(Address k) {
    float sum = 0;
    const uint vectors = piece_vectors(DTYPE_K);
    [[unroll]] for (uint i = 0; i < WIDTH / (4 * vectors); i++) {
        vec4 w[PIECE_VECTORS];
        piece_at(DTYPE_K, k, i, w);
        [[unroll]] for (uint v = 0; v < vectors; v++) sum += dot(w[v], query[i * vectors + v]);
    }
    const float score = sum * params.scale;
    return params.softcap == 0 ? score : params.softcap * tanh_of(score / params.softcap);
}

/* Adds up the threads' sums of each column, and leaves it. */
void leave(uint number, uint part, float largest, float sum, vec4 result[MOST_VECTORS]) {
    const uint vectors = piece_vectors(DTYPE_V), lanes = VALUES / (4 * vectors);
    const uint slots = GROUP / lanes, t = thread();
    [[unroll]] for (uint v = 0; v < vectors; v++) sums[t * vectors + v] = result[v];
    if (PARTS == 1) sum = sum_with_sink(number % params.h, largest, sum);
    barrier();
    for (uint c = t; c < VALUES / 4; c += GROUP) {
        vec4 all = vec4(0);
        for (uint slot = 0; slot < slots; slot++) all += sums[slot * (VALUES / 4) + c];
        const uint to = PARTS == 1 ? number * VALUES : (number * PARTS + part) * SHARE + 2;
        if (PARTS == 1) all = sum == 0 ? vec4(0) : all / sum;
        [[unroll]] for (uint e = 0; e < 4; e++) SET_FLOAT(6, to + 4 * c + e, all[e]);
    }
    if (PARTS > 1 && t == 0) {
        SET_FLOAT(6, (number * PARTS + part) * SHARE, largest);
        SET_FLOAT(6, (number * PARTS + part) * SHARE + 1, sum);
    }
    barrier();
}

void attend(uint number, uint part) {
    const uint t = thread(), vectors = piece_vectors(DTYPE_V), lanes = VALUES / (4 * vectors);
    const uint slots = GROUP / lanes, slot = t / lanes, lane = t % lanes;
    const uint row = number / params.h, head = number % params.h;
    const uint group = head / (params.h / params.g);
    const uint q = row * params.q[0] + head * params.q[1];
    const int sequence = INT(4, row * params.sequence);
    for (uint c = t; c < WIDTH; c += GROUP) query[c / 4][c % 4] = FLOAT(0, q + c * params.q[2]);
    uvec2 range = range_of(sequence, INT(5, row * params.position));
    const uint each = (range.y - range.x + PARTS - 1) / PARTS;
    range.x = min(range.x + part * each, range.y);
    range.y = min(range.x + each, range.y);
    float largest = -INFINITE, sum = 0;
    vec4 result[MOST_VECTORS];
    [[unroll]] for (uint v = 0; v < vectors; v++) result[v] = vec4(0);
    barrier();
    for (uint first = range.x; first < range.y; first += GROUP) {
        const uint at = first + t, count = min(GROUP, range.y - first);
        float score = -INFINITE;
        if (t < count) {
            const int page = INT(3, sequence * params.table[0] + at / PAGE * params.table[1]);
            const uint k = page * params.k[0] + at % PAGE * params.k[1] + group * params.k[2];
            score = score_of(row_at(DTYPE_K, ADDRESS_OF(1), k));
            place[t] = page * params.v[0] + at % PAGE * params.v[1] + group * params.v[2];
        }
        const float before = largest;
        largest = max(largest, group_max(score));
        const float correction = before == largest ? 1 : exp_of(before - largest);
        const float e = t < count ? exp_of(score - largest) : 0;
        weight[t] = e;
        sum = sum * correction + group_sum(e);
        barrier();
        [[unroll]] for (uint v = 0; v < vectors; v++) result[v] *= correction;
        for (uint j = slot; j < count && slot < slots; j += slots) {
            vec4 w[PIECE_VECTORS];
            piece_at(DTYPE_V, row_at(DTYPE_V, ADDRESS_OF(2), place[j]), lane, w);
            [[unroll]] for (uint v = 0; v < vectors; v++) result[v] += weight[j] * w[v];
        }
        barrier();
    }
    leave(number, part, largest, sum, result);
}

void join(uint number) {
    float largest = -INFINITE, sum = 0;
    for (uint part = 0; part < PARTS; part++)
        largest = max(largest, FLOAT(0, (number * PARTS + part) * SHARE));
    for (uint part = 0; part < PARTS; part++) {
        const uint at = (number * PARTS + part) * SHARE;
        if (FLOAT(0, at + 1) != 0) sum += FLOAT(0, at + 1) * exp_of(FLOAT(0, at) - largest);
    }
    sum = sum_with_sink(number % params.h, largest, sum);
    for (uint c = thread(); c < VALUES; c += GROUP) {
        float all = 0;
        for (uint part = 0; part < PARTS; part++) {
            const uint at = (number * PARTS + part) * SHARE;
            if (FLOAT(0, at + 1) != 0) all += FLOAT(0, at + 2 + c) * exp_of(FLOAT(0, at) - largest);
        }
        SET_FLOAT(6, number * VALUES + c, sum == 0 ? 0 : all / sum);
    }
}

void main() {
    FOR_EACH_GROUP(number, params.rows * params.h)
        if (JOINS)
            join(number);
        else
            attend(number, gl_WorkGroupID.y);
}
