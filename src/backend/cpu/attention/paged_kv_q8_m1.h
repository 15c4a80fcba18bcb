/*
 * paged_kv_q8_m1.h - scores of one token over Q8_0 keys: transposes interleaved with dot products.
 *
 * Transposing keys takes shuffles, loads and stores; dot products take the one pipe that
 * multiplies. One after the other they leave each other's pipes idle, and the out-of-order window
 * is too short to mend that.  So the steps that transpose a unit stand between the products of the
 * unit before:
 *
 *     products    |    0 0 0 0 0 0  1 1 1 1 1 1  2 2 ...      a unit is a block of KEY_LANES keys
 *     transposes  | 0  1 1 1 1 1 1  2 2 2 2 2 2  3 3
 *
 * Digits are multiplied one place after the other, which leaves registers for both.  Units follow
 * each other through all KV heads and KV blocks of a span.  Results equal those of paged_tile.h,
 * bit for bit.
 */
#ifndef IG_BACKEND_CPU_ATTENTION_PAGED_KV_Q8_M1_H
#define IG_BACKEND_CPU_ATTENTION_PAGED_KV_Q8_M1_H

#include "backend/cpu/attention/paged_tile.h"

/* A block of keys that lie in lanes. */
typedef struct key_unit {
    _Alignas(LINE) int32_t four[COLUMN_WORDS][KEY_VECTORS][VF_LANES];
    uint16_t scale[KEY_LANES];
} key_unit;

/* State from one KV block to the next. */
typedef struct key_pipeline {
    key_unit unit[2]; /* the current one, and the next */
    int at;           /* index of the current one */
    bool begun;       /* the current one has been transposed */
} key_pipeline;

/* ---- transposes, between products ---- */

/* Where rows are not contiguous: the share of the next KV block that goes with unit i. */
IG_INLINE void prefetch_unit_rows(const tile *t, int64_t i, int64_t units) {
    const int64_t row = KV_BLOCK * i / units;
    if (t->next_step != t->next_bytes) prefetch_rows(t, row, KV_BLOCK * (i + 1) / units - row);
}

/* The unit that is being transposed. */
typedef struct transpose_job {
    const char *block; /* of its first key */
    int64_t step;
    key_unit *out;
    portions lines; /* prefetched meanwhile */
} transpose_job;

enum { TRANSPOSE_STEPS = COLUMN_WORDS };
static_assert(KEY_VECTORS == 2 && TRANSPOSE_STEPS == COLUMN_STEPS + 1,
              "transpose_step() goes by that");

/* Step s of those between the products of digits in a place: two places transpose a vector each,
 * the last one reads scales. */
IG_INLINE void transpose_step(transpose_job *w, vi *columns, const int place, const int s) {
    enum { EACH = (KEY_LANES + TRANSPOSE_STEPS - 1) / TRANSPOSE_STEPS };
    if (place == 0) {
        IG_UNROLL for (int i = s * EACH; i < (s + 1) * EACH; i++) if (i < KEY_LANES)
            memcpy(&w->out->scale[i], w->block + i * w->step, sizeof w->out->scale[i]);
        prefetch_portion(&w->lines);
        return;
    }
    const int v = 2 - place;
    const char *rows = w->block + v * VF_LANES * w->step + offsetof(ig_block_q8_0, q);
    if (s < COLUMN_STEPS) vi_columns_step(rows, w->step, columns, s);
    IG_UNROLL for (int i = (s - 6) * 4; i < (s - 5) * 4; i++) {
        if (s < 6) continue;
        const vi four = vi_xor(columns[i], vi_set((int32_t)0x80808080));
        memcpy(w->out->four[i][v], &four, sizeof four);
    }
}

/* All of them, for the first unit. */
static void transpose_unit(transpose_job *w) {
    vi columns[COLUMN_WORDS];
    IG_UNROLL for (int place = 0; place < DIGITS; place++)
        IG_UNROLL for (int s = 0; s < TRANSPOSE_STEPS; s++) transpose_step(w, columns, place, s);
}

/* ---- products ---- */

/* sum[h][v] += products with the digits of queries in a place. */
IG_INLINE void add_place(const key_unit *k, const query_fixed24 *a, vi *sum, transpose_job *w,
                         const int place, const int queries) {
    vi columns[COLUMN_WORDS];
    IG_UNROLL for (int s = 0; s < TRANSPOSE_STEPS; s++) {
        const vi key[KEY_VECTORS] = {vi_load(k->four[s][0]), vi_load(k->four[s][1])};
        IG_UNROLL for (int h = 0; h < queries; h++) {
            const uint8_t *four = a[h * MOST_BLOCKS].digit[s][place];
            IG_UNROLL for (int v = 0; v < KEY_VECTORS; v++)
                vi_add_dot_repeated(&sum[h * KEY_VECTORS + v], key[v], four);
        }
        transpose_step(w, columns, place, s);
        /* The compiler moves no loads and stores past this: a step stays where it is. */
        __asm__ volatile("" ::: "memory");
    }
}

/* score[h] (+)= products of a block of keys with that of each query. */
IG_INLINE void score_unit(const key_unit *k, const query_fixed24 *a, bool first, float *score,
                          transpose_job *work, const int queries) {
    transpose_job own = *work; /* in registers */
    vi high[TILE * KEY_VECTORS], low[TILE * KEY_VECTORS];
    IG_UNROLL for (int i = 0; i < queries * KEY_VECTORS; i++) high[i] =
        vi_set(a[i / KEY_VECTORS * MOST_BLOCKS].start[2]);
    add_place(k, a, high, &own, 2, queries);
    IG_UNROLL for (int i = 0; i < queries * KEY_VECTORS; i++) {
        high[i] = vi_add(vi_left(high[i], 8), vi_set(a[i / KEY_VECTORS * MOST_BLOCKS].start[1]));
        low[i] = vi_set(a[i / KEY_VECTORS * MOST_BLOCKS].start[0]);
    }
    add_place(k, a, high, &own, 1, queries);
    add_place(k, a, low, &own, 0, queries);
    work->lines = own.lines;
    IG_UNROLL for (int i = 0; i < queries * KEY_VECTORS; i++) {
        const int v = i % KEY_VECTORS;
        float *to = score + i / KEY_VECTORS * KV_SPAN + v * VF_LANES;
        const vf scale = vf_mul(vf_load_f16(k->scale + v * VF_LANES),
                                vf_set(a[i / KEY_VECTORS * MOST_BLOCKS].scale));
        const vf x = vf_fma(vi_to_float(high[i]), vf_set(256), vi_to_float(low[i]));
        vf_store(to, vf_fma(x, scale, first ? vf_set(0) : vf_load(to)));
    }
}

/* A function for each number of queries: inlined together they would spill registers. */
typedef void unit_fn(const key_unit *k, const query_fixed24 *a, bool first, float *score,
                     transpose_job *w);
#define IG_UNIT(n)                                                                               \
    __attribute__((noinline)) static void score_unit_##n(                                        \
        const key_unit *k, const query_fixed24 *a, bool first, float *score, transpose_job *w) { \
        score_unit(k, a, first, score, w, n);                                                    \
    }
IG_UNIT(1)
IG_UNIT(2)
IG_UNIT(3)
IG_UNIT(4)

static const char *block_at(const tile *t, int64_t row, int64_t block) {
    return stored_at(t->rows + row * t->step, block * IG_BLOCK, IG_Q8_0);
}

/* Scores of the queries of one token over a KV block; `then` is the next one, NULL at the end of a
 * span. */
static void score_pipelined(key_pipeline *a, const tile *t, const tile *then, int64_t queries) {
    static unit_fn *const score_units[TILE] = IG_FOUR(score_unit);
    const int64_t blocks = t->width / IG_BLOCK;
    const int64_t units = (keys_end(t) - keys_begin(t)) / KEY_LANES * blocks;
    int64_t row = keys_begin(t), block = 0;
    transpose_job w = {.block = block_at(t, row, 0), .step = t->step, .out = &a->unit[a->at]};
    if (!a->begun) transpose_unit(&w);
    a->begun = true;
    w.lines = portions_of(t, units * TRANSPOSE_STEPS);
    for (int64_t i = 0; i < units; i++) {
        const query_fixed24 *q = t->fixed + block;
        float *score = t->score + row;
        const bool first = block == 0;
        prefetch_unit_rows(t, i, units);
        if (++block == blocks) block = 0, row += KEY_LANES;
        if (i + 1 < units)
            w.block = block_at(t, row, block);
        else if (then) /* else the last unit is transposed again, and not used */
            w.block = block_at(then, keys_begin(then), 0);
        w.out = &a->unit[!a->at];
        score_units[queries - 1](&a->unit[a->at], q, first, score, &w);
        a->at = !a->at;
    }
}

#endif
