/*
 * paged_ahead.h - scores of one row's queries over keys in blocks: while some are multiplied, the
 * next are turned around.
 *
 * Turning keys takes shuffles, loads and stores; products take the one pipe that multiplies.  One
 * after the other they leave each other's pipes idle, and a processor does not look far enough
 * ahead to mend that.  So the steps that turn a unit are written between the products of the one
 * before:
 *
 *     products    |    0 0 0 0 0 0  1 1 1 1 1 1  2 2 ...      a unit is a block of KEY_LANES keys
 *     turns       | 0  1 1 1 1 1 1  2 2 2 2 2 2  3 3
 *
 * Digits are multiplied one place after the other, so that there are registers for both.  Units
 * follow each other through all heads of keys and batches of a span.  What is found is what the
 * tiles of paged_tile.h find, to the bit.
 */
#ifndef IG_BACKEND_CPU_PAGED_AHEAD_H
#define IG_BACKEND_CPU_PAGED_AHEAD_H

#include "backend/cpu/attention/paged_tile.h"

/* A block of keys that lie in lanes. */
typedef struct key_unit {
    _Alignas(LINE) int32_t four[COLUMN_WORDS][KEY_VECTORS][VF_LANES];
    uint16_t scale[KEY_LANES];
} key_unit;

/* What is kept from one batch to the next. */
typedef struct ahead {
    key_unit unit[2]; /* that at hand, and the next one; */
    int at;           /* which is which, */
    bool begun;       /* and whether that at hand has been turned */
} ahead;

/* ---- what is done between products ---- */

/* Of others, the part that comes with unit i. */
IG_INLINE void fetch_rows(const tile *t, int64_t i, int64_t units) {
    const int64_t row = BATCH * i / units;
    if (t->next_step != t->next_bytes) fetch(t, row, BATCH * (i + 1) / units - row);
}

/* The unit that is turned. */
typedef struct turn {
    const char *block; /* of its first key */
    int64_t step;
    key_unit *out;
    portions lines; /* that are fetched meanwhile */
} turn;

enum { TURN_STEPS = COLUMN_WORDS };
static_assert(KEY_VECTORS == 2 && TURN_STEPS == COLUMN_STEPS + 1, "turn_step() goes by that");

/* Step s of those between products with the digits in a place: in the first two a vector is turned,
 * in the last one scales are taken. */
IG_INLINE void turn_step(turn *w, vi *columns, const int place, const int s) {
    enum { EACH = (KEY_LANES + TURN_STEPS - 1) / TURN_STEPS };
    if (place == 0) {
        IG_UNROLL for (int i = s * EACH; i < (s + 1) * EACH; i++) if (i < KEY_LANES)
            memcpy(&w->out->scale[i], w->block + i * w->step, sizeof w->out->scale[i]);
        fetch_part(&w->lines);
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
static void turn_unit(turn *w) {
    vi columns[COLUMN_WORDS];
    IG_UNROLL for (int place = 0; place < DIGITS; place++)
        IG_UNROLL for (int s = 0; s < TURN_STEPS; s++) turn_step(w, columns, place, s);
}

/* ---- products ---- */

/* sum[h][v] += products with the digits of queries in a place. */
IG_INLINE void add_place(const key_unit *k, const asked *a, vi *sum, turn *w, const int place,
                         const int queries) {
    vi columns[COLUMN_WORDS];
    IG_UNROLL for (int s = 0; s < TURN_STEPS; s++) {
        const vi key[KEY_VECTORS] = {vi_load(k->four[s][0]), vi_load(k->four[s][1])};
        IG_UNROLL for (int h = 0; h < queries; h++) {
            const uint8_t *four = a[h * MOST_BLOCKS].digit[s][place];
            IG_UNROLL for (int v = 0; v < KEY_VECTORS; v++)
                vi_add_dot_repeated(&sum[h * KEY_VECTORS + v], key[v], four);
        }
        turn_step(w, columns, place, s);
        /* The compiler moves no loads and stores past this: a step stays where it is. */
        __asm__ volatile("" ::: "memory");
    }
}

/* score[h] (+)= products of a block of keys with that of each query. */
IG_INLINE void score_unit(const key_unit *k, const asked *a, bool first, float *score, turn *work,
                          const int queries) {
    turn own = *work; /* in registers */
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
        float *to = score + i / KEY_VECTORS * SPAN + v * VF_LANES;
        const vf scale = vf_mul(vf_load_f16(k->scale + v * VF_LANES),
                                vf_set(a[i / KEY_VECTORS * MOST_BLOCKS].scale));
        const vf x = vf_fma(vi_to_float(high[i]), vf_set(256), vi_to_float(low[i]));
        vf_store(to, vf_fma(x, scale, first ? vf_set(0) : vf_load(to)));
    }
}

/* For each number of queries a function of its own: the compiler has registers for nothing else. */
typedef void unit_fn(const key_unit *k, const asked *a, bool first, float *score, turn *w);
#define IG_UNIT(n)                                                                            \
    __attribute__((noinline)) static void score_unit_##n(const key_unit *k, const asked *a,   \
                                                         bool first, float *score, turn *w) { \
        score_unit(k, a, first, score, w, n);                                                 \
    }
IG_UNIT(1)
IG_UNIT(2)
IG_UNIT(3)
IG_UNIT(4)

static const char *block_at(const tile *t, int64_t row, int64_t block) {
    return stored_at(t->rows + row * t->step, block * IG_BLOCK, IG_Q8_0);
}

/* Scores of one row's queries and a batch of keys; `then` is the one that comes next, NULL at the
 * end of a span. */
static void score_ahead(ahead *a, const tile *t, const tile *then, int64_t queries) {
    static unit_fn *const score_units[TILE] = IG_FOUR(score_unit);
    const int64_t blocks = t->width / IG_BLOCK;
    const int64_t units = (keys_end(t) - keys_begin(t)) / KEY_LANES * blocks;
    int64_t row = keys_begin(t), block = 0;
    turn w = {.block = block_at(t, row, 0), .step = t->step, .out = &a->unit[a->at]};
    if (!a->begun) turn_unit(&w);
    a->begun = true;
    w.lines = portions_of(t, units * TURN_STEPS);
    for (int64_t i = 0; i < units; i++) {
        const asked *q = t->asked + block;
        float *score = t->score + row;
        const bool first = block == 0;
        fetch_rows(t, i, units);
        if (++block == blocks) block = 0, row += KEY_LANES;
        if (i + 1 < units)
            w.block = block_at(t, row, block);
        else if (then) /* else the last is turned once more, which nobody looks at */
            w.block = block_at(then, keys_begin(then), 0);
        w.out = &a->unit[!a->at];
        score_units[queries - 1](&a->unit[a->at], q, first, score, &w);
        a->at = !a->at;
    }
}

#endif
