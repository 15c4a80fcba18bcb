#version 460
/*
 * Attention over pages for many rows, as of a prompt.  A group takes QUERIES queries
 * that share a head of keys: all heads of a row that do, row after row.  It goes
 * through the positions that any of them sees, STEP at a time, so that a key that is
 * read serves all of them.
 *
 *     scores = queries keys^T   DOWN x ACROSS threads, each 4 queries x EACH positions
 *     result += weights values  likewise, each 4 queries x 4 columns
 *
 * Shared memory holds queries, keys and weights with neighbors across the product's depth, so
 * that a thread reads whole vectors.
 */
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "dequantize.glsl"
#include "functions.glsl"
#include "dequantize_vec4.glsl"
#include "dequantize_by8.glsl"

layout(constant_id = 1) const uint QUERIES = 64;
layout(constant_id = 2) const uint WIDTH = 64;  /* of q and k */
layout(constant_id = 3) const uint VALUES = 64; /* width of v */
layout(constant_id = 4) const uint DTYPE_K = 0;
layout(constant_id = 5) const uint DTYPE_V = 0;
const uint PAGE = 64, STEP = 32;
const uint DOWN = QUERIES / 4, ACROSS = GROUP / DOWN, EACH = STEP / ACROSS;
const uint WIDEST = WIDTH > VALUES ? WIDTH : VALUES;

PARAMS(vk_paged_params)
#define PAGED params
#include "sinks.glsl"

shared vec4 queries[WIDTH * QUERIES / 4]; /* [WIDTH, QUERIES] */
shared vec4 cached[WIDEST * STEP / 4];    /* keys [WIDTH, STEP], then values [STEP, VALUES] */
shared vec4 weights[STEP * QUERIES / 4];  /* scores or weights [STEP, QUERIES] */

/* Query number i of a head of keys. */
uint row_of(uint i) { return i / (params.h / params.g); }
uint head_of(uint i, uint group) {
    const uint each = params.h / params.g;
    return group * each + i % each;
}

Address row_at(uint dtype, Address base, uint element) {
    return further(base, element / block_elements(dtype), block_bytes(dtype));
}

/* The first position that a row sees. */
uint begin_of(int last) {
    const int window = int(params.window);
    return window > 0 && last >= window ? uint(last - window + 1) : 0;
}

void load_queries(uint first, uint count, uint group) {
    for (uint i = thread(); i < WIDTH * QUERIES; i += GROUP) {
        const uint c = i % WIDTH, q = min(first + i / WIDTH, count - 1);
        const uint at = row_of(q) * params.q[0] + head_of(q, group) * params.q[1];
        queries[(c * QUERIES + i / WIDTH) / 4][i / WIDTH % 4] = FLOAT(0, at + c * params.q[2]);
    }
}

void load_keys(uint at, uint row_stride) {
    for (uint n = thread(); n < STEP * WIDTH / 8; n += GROUP) {
        const uint j = n % STEP, i = n / STEP;
        const eight e = eight_at(DTYPE_K, row_at(DTYPE_K, ADDRESS_OF(1), at + j * row_stride), i);
        [[unroll]] for (uint c = 0; c < 8; c++)
            cached[((i * 8 + c) * STEP + j) / 4][j % 4] = c < 4 ? e.low[c] : e.high[c - 4];
    }
}

/* What lies behind `count` was never stored, and a weight of 0 does not make up for it. */
void load_values(uint at, uint row_stride, uint count) {
    for (uint n = thread(); n < STEP * VALUES / 8; n += GROUP) {
        const uint i = n % (VALUES / 8), j = n / (VALUES / 8);
        eight e = eight(vec4(0), vec4(0));
        if (j < count) e = eight_at(DTYPE_V, row_at(DTYPE_V, ADDRESS_OF(2), at + j * row_stride), i);
        cached[j * (VALUES / 4) + 2 * i] = e.low;
        cached[j * (VALUES / 4) + 2 * i + 1] = e.high;
    }
}

/* What a thread keeps of its four queries. */
uvec4 begin, end; /* the positions that they see */
vec4 largest, sum, result[4];

vec4 score[EACH];

bool sees(uint i, uint position) { return position >= begin[i] && position < end[i]; }

/* Scores of EACH positions, for the four queries. */
void make_scores(uint x, uint y, uint at) {
    [[unroll]] for (uint j = 0; j < EACH; j++) score[j] = vec4(0);
    for (uint c0 = 0; c0 < WIDTH; c0 += 8)
        [[unroll]] for (uint c = 0; c < 8; c++) {
            const vec4 q = queries[(c0 + c) * DOWN + y];
            [[unroll]] for (uint j = 0; j < EACH; j++) {
                const uint place = x * EACH + j;
                score[j] += q * cached[((c0 + c) * STEP + place) / 4][place % 4];
            }
        }
    [[unroll]] for (uint j = 0; j < EACH; j++) {
        const uint position = at + x * EACH + j;
        score[j] *= params.scale;
        [[unroll]] for (uint i = 0; i < 4; i++) {
            if (params.softcap != 0)
                score[j][i] = params.softcap * tanh_of(score[j][i] / params.softcap);
            if (!sees(i, position)) score[j][i] = -INFINITE;
        }
        weights[(x * EACH + j) * DOWN + y] = score[j];
    }
}

/* e^(score - largest), of those that see the position. */
vec4 weights_of(vec4 score, uint position) {
    vec4 w;
    [[unroll]] for (uint i = 0; i < 4; i++)
        w[i] = sees(i, position) ? exp_of(score[i] - largest[i]) : 0;
    return w;
}

/* All threads that share queries find the same maximum. */
vec4 correct(uint y) {
    const vec4 before = largest;
    [[unroll]] for (uint j = 0; j < STEP; j++) largest = max(largest, weights[j * DOWN + y]);
    vec4 factor;
    [[unroll]] for (uint i = 0; i < 4; i++)
        factor[i] = before[i] == largest[i] ? 1 : exp_of(before[i] - largest[i]);
    return factor;
}

/* Whether the four queries see all of STEP positions. */
bool all_see(uint at) {
    bool all = true;
    [[unroll]] for (uint i = 0; i < 4; i++) all = all && sees(i, at) && sees(i, at + STEP - 1);
    return all;
}

/* Adds a value to the queries' results.  Those that do not see it must not multiply it by 0, which
 * it need not be finite for; `seen` says that there are none. */
void add_value(uint position, vec4 w, vec4 value, bool seen) {
    sum += w;
    [[unroll]] for (uint i = 0; i < 4; i++)
        if (seen || sees(i, position)) result[i] += w[i] * value;
}

/* STEP positions, from `at` on but before `to`, of the page that they lie in. */
void attend(uint x, uint y, uint at, uint to, uint page, uint group) {
    const uint k = page * params.k[0] + at % PAGE * params.k[1] + group * params.k[2];
    const uint v = page * params.v[0] + at % PAGE * params.v[1] + group * params.v[2];
    load_keys(k, params.k[1]);
    barrier();
    make_scores(x, y, at);
    barrier();
    const vec4 factor = correct(y);
    load_values(v, params.v[1], to - at);
    barrier();
    [[unroll]] for (uint j = 0; j < EACH; j++)
        weights[(x * EACH + j) * DOWN + y] = weights_of(score[j], at + x * EACH + j);
    barrier();
    sum *= factor;
    [[unroll]] for (uint i = 0; i < 4; i++) result[i] *= factor[i];
    const uint column = min(x, VALUES / 4 - 1);
    const bool seen = all_see(at);
    for (uint j0 = 0; j0 < STEP; j0 += 8)
        [[unroll]] for (uint j = j0; j < j0 + 8; j++)
            add_value(at + j, weights[j * DOWN + y], cached[j * (VALUES / 4) + column], seen);
    barrier();
}

/* Rows [first, next) of one sequence: the positions that any of them sees.  What lies behind a page
 * that is nowhere is seen by none that would have seen that page. */
void attend_sequence(uint x, uint y, uint first, uint next, int sequence, uint group) {
    uint from = 0xffffffffu, to = 0;
    for (uint row = first; row < next; row++) {
        const int last = INT(5, row * params.position);
        if (last < 0) continue;
        from = min(from, begin_of(last));
        to = max(to, uint(last) + 1);
    }
    for (uint at = from / STEP * STEP; at < to; at += STEP) {
        const uint slot = at / PAGE;
        const bool there = slot < params.pages;
        const int page = there ? INT(3, sequence * params.table[0] + slot * params.table[1]) : -1;
        if (page >= 0 && page < int(params.n_pages)) {
            attend(x, y, at, to, uint(page), group);
            continue;
        }
        [[unroll]] for (uint i = 0; i < 4; i++)
            if (begin[i] / PAGE <= slot) end[i] = min(end[i], slot * PAGE);
    }
}

void attend_tile(uint first, uint group) {
    const uint count = params.rows * (params.h / params.g);
    const uint x = thread() % ACROSS, y = thread() / ACROSS;
    const uint first_row = row_of(first), last_row = row_of(min(first + QUERIES, count) - 1);
    load_queries(first, count, group);
    largest = vec4(-INFINITE);
    sum = vec4(0);
    [[unroll]] for (uint i = 0; i < 4; i++) result[i] = vec4(0);
    for (uint row = first_row, next; row <= last_row; row = next) {
        const int sequence = INT(4, row * params.sequence);
        for (next = row + 1; next <= last_row; next++)
            if (INT(4, next * params.sequence) != sequence) break;
        if (sequence < 0 || sequence >= int(params.sequences)) continue;
        [[unroll]] for (uint i = 0; i < 4; i++) {
            const uint own = row_of(min(first + y * 4 + i, count - 1));
            const int last = own >= row && own < next ? INT(5, own * params.position) : -1;
            begin[i] = begin_of(last);
            end[i] = uint(last + 1);
        }
        attend_sequence(x, y, row, next, sequence, group);
    }
    [[unroll]] for (uint i = 0; i < 4; i++) {
        const uint q = first + y * 4 + i;
        if (q >= count || x * 4 >= VALUES) continue;
        const uint to = (row_of(q) * params.h + head_of(q, group)) * VALUES + x * 4;
        const float by = sum_with_sink(head_of(q, group), largest[i], sum[i]);
        const vec4 all = by == 0 ? vec4(0) : result[i] / by;
        [[unroll]] for (uint c = 0; c < 4; c++) SET_FLOAT(6, to + c, all[c]);
    }
    barrier();
}

void main() {
    const uint tiles = (params.rows * (params.h / params.g) + QUERIES - 1) / QUERIES;
    FOR_EACH_GROUP(number, tiles * params.g) /* those that see most come first */
        attend_tile((tiles - 1 - number / params.g) * QUERIES, number % params.g);
}
