/*
 * paged_tile.h - the two products of attention over a cache, for one to four queries that
 * read the same rows: scores of a batch of keys, and values by their weights.
 *
 * Sums stay in registers, so that a row is loaded and made floats once for all queries.
 * A score adds up products in VF_ROW lanes along the width, number i in lane i % VF_ROW, then
 * lanes by pairs; values are added key after key.  Neither depends on how many queries there are.
 */
#ifndef IG_BACKEND_CPU_PAGED_TILE_H
#define IG_BACKEND_CPU_PAGED_TILE_H

#include "backend/cpu/vec_rows.h"
#include "base/half.h"
#include "ingot/blocks.h"
#include "ingot/op.h"

enum {
    SPAN = 4 * IG_PAGE_ROWS, /* positions whose scores are kept */
    BATCH = 16,              /* keys that are scored in one call */
    TILE = 4,                /* queries at most */
    LINE = 64,               /* bytes */
};

/* Queries that read the same rows. */
typedef struct tile {
    const float *const *q;
    float *const *values; /* that are added up */
    float *score;         /* [queries, SPAN]: of each row; weights by then, when values are added */
    const char *rows;     /* `step` bytes apart */
    int64_t step, width;
    int64_t n; /* rows; BATCH for scores */
    /* What the walk comes to next, as much for each row: memory should be on its way meanwhile,
     * asked for in small portions, because too many at once get lost, and in the order that it
     * lies in, because then more follows by itself.  It goes into the second cache: of the first,
     * requests on their way to memory are few.  NULL: another tile has asked for it. */
    const char *next;
    int64_t next_step, next_bytes;
} tile;
typedef void tile_fn(const tile *t);

/* ---- scores ---- */

/* Vectors of keys that a tile of so many queries has sums for: registers are few, and too few sums
 * would wait for each other. */
IG_INLINE int key_vectors(const int queries) {
    if (VF_LANES == 16) return queries == 1 ? 8 : 4;
    if (VF_LANES == 8) return queries == 1 ? 8 : queries == 2 ? 4 : 2;
    return 4;
}
enum { MOST_VECTORS = 8, MOST_SUMS = 16 };

/* Where number i of a row begins, before its block if there are blocks. */
IG_INLINE const char *stored_at(const char *row, int64_t i, const ig_dtype dtype) {
    if (dtype == IG_Q8_0) return (const char *)((const ig_block_q8_0 *)row + i / IG_BLOCK);
    return row + i * (int64_t)(dtype == IG_F32 ? sizeof(float) : sizeof(uint16_t));
}

/* Where it is itself. */
IG_INLINE const char *number_at(const char *row, int64_t i, const ig_dtype dtype) {
    const char *p = stored_at(row, i, dtype);
    return dtype == IG_Q8_0 ? p + offsetof(ig_block_q8_0, q) + i % IG_BLOCK : p;
}

/* One number, as base/blocks.c decodes it; blocks have no parts that would need this. */
IG_INLINE float stored_number(const char *p, const ig_dtype dtype) {
    if (dtype == IG_F32) return *(const float *)p;
    const uint16_t h = *(const uint16_t *)p;
    return dtype == IG_F16 ? ig_f16_to_f32(h) : ig_bf16_to_f32(h);
}

/* Numbers [i, i + n) of VF_ROWS rows that lie `step` bytes apart, n <= VF_ROW; the other lanes
 * are 0. */
IG_INLINE vf load_rows(const char *rows, int64_t step, int64_t i, int64_t n, vf scale,
                       const ig_dtype dtype) {
    const char *p = number_at(rows, i, dtype);
    if (dtype == IG_Q8_0) return vf_mul(scale, vf_rows_i8(p, step));
    if (n == VF_ROW)
        return dtype == IG_F32   ? vf_rows_f32(p, step)
               : dtype == IG_F16 ? vf_rows_f16(p, step)
                                 : vf_rows_bf16(p, step);
    float y[VF_LANES] = {0};
    for (int r = 0; r < VF_ROWS; r++)
        for (int64_t c = 0; c < n; c++)
            y[r * VF_ROW + c] = stored_number(stored_at(p + r * step, c, dtype), dtype);
    return vf_load(y);
}

/* Numbers [i, i + n) of a query, once for each row. */
IG_INLINE vf load_query(const float *q, int64_t i, int64_t n) {
    if (n == VF_ROW) return vf_repeat(q + i);
    float y[VF_ROW] = {0};
    memcpy(y, q + i, (size_t)n * sizeof *y);
    return vf_repeat(y);
}

/* Row r of vector j is key r * vectors + j. */
IG_INLINE void add_products(const tile *t, const char *rows, int64_t i, int64_t n, const vf *scale,
                            vf *sum, const int queries, const ig_dtype dtype) {
    const int vectors = key_vectors(queries);
    vf key[MOST_VECTORS];
    IG_UNROLL for (int j = 0; j < vectors; j++) key[j] =
        load_rows(rows + j * t->step, vectors * t->step, i, n, scale[j], dtype);
    IG_UNROLL for (int h = 0; h < queries; h++) {
        const vf q = load_query(t->q[h], i, n);
        IG_UNROLL for (int j = 0; j < vectors; j++) sum[h * vectors + j] =
            vf_fma(q, key[j], sum[h * vectors + j]);
    }
}

/* What was summed up in lanes becomes scores of keys from `at` on. */
IG_INLINE void store_scores(const tile *t, int64_t at, const vf *sum, const int queries) {
    const int vectors = key_vectors(queries), together = VF_ROW < vectors ? 1 : VF_ROW / vectors;
    IG_UNROLL for (int h = 0; h < queries; h += together) {
        float y[MOST_VECTORS * VF_LANES];
        for (int k = 0; k < vectors * together; k += VF_ROW)
            vf_store(y + k * VF_ROWS, vf_sum_rows(sum + h * vectors + k));
        for (int k = 0; k < together && h + k < queries; k++)
            for (int r = 0; r < VF_ROWS; r++)
                memcpy(t->score + (h + k) * SPAN + at + r * vectors, y + r * VF_ROW + k * vectors,
                       (size_t)vectors * sizeof *y);
    }
}

IG_INLINE void fetch(const tile *t, int64_t row, const int rows) {
    for (int64_t r = row; t->next && r < row + rows; r++)
        for (int64_t i = 0; i < t->next_bytes; i += LINE)
            __builtin_prefetch(t->next + r * t->next_step + i, 0, 2);
}

/* score[h][j] = q[h] . rows[j] */
IG_INLINE void score_tile(const tile *t, const int queries, const ig_dtype dtype) {
    const int vectors = key_vectors(queries), keys = vectors * VF_ROWS;
    const int64_t whole = t->width / VF_ROW * VF_ROW, block = dtype == IG_Q8_0 ? IG_BLOCK : whole;
    const char *rows = t->rows;
    for (int64_t at = 0; at < BATCH; at += keys, rows += keys * t->step) {
        vf sum[MOST_SUMS], scale[MOST_VECTORS];
        IG_UNROLL for (int k = 0; k < MOST_SUMS; k++) sum[k] = vf_set(0);
        fetch(t, at, keys);
        IG_UNROLL for (int j = 0; j < vectors; j++) scale[j] = vf_set(1);
        for (int64_t i = 0; i < whole; i += block) {
            IG_UNROLL for (int j = 0; dtype == IG_Q8_0 && j < vectors; j++) scale[j] =
                vf_rows_set_f16(stored_at(rows + j * t->step, i, dtype), vectors * t->step);
            for (int64_t c = i; c < i + block; c += VF_ROW)
                add_products(t, rows, c, VF_ROW, scale, sum, queries, dtype);
        }
        if (whole < t->width)
            add_products(t, rows, whole, t->width - whole, scale, sum, queries, dtype);
        store_scores(t, at, sum, queries);
    }
}

/* ---- values ---- */

/* VF_LANES numbers from p on, the first n of which are there; number `place` of a block is the
 * first, where there are blocks. */
IG_INLINE vf load_stored(const char *p, int64_t place, int64_t n, const ig_dtype dtype) {
    if (dtype == IG_F32) return vf_load_first((const float *)p, n);
    if (dtype == IG_Q8_0) {
        const char *block = p - place - offsetof(ig_block_q8_0, q);
        return vf_mul(vf_set_f16(block), vi_to_float(vi_load_i8(p)));
    }
    if (n == VF_LANES)
        return dtype == IG_F16 ? vf_load_f16((const uint16_t *)p)
                               : vf_of_bits(vi_left(vi_load_u16((const uint16_t *)p), 16));
    float y[VF_LANES] = {0};
    for (int64_t c = 0; c < n; c++) y[c] = stored_number(stored_at(p, c, dtype), dtype);
    return vf_load(y);
}

/* From the first number of a row's vector to that of vector c. */
IG_INLINE int64_t vector_at(int c, const ig_dtype dtype) {
    const int64_t i = (int64_t)c * VF_LANES, blocks = i / IG_BLOCK;
    if (dtype == IG_Q8_0) return i + blocks * (int64_t)offsetof(ig_block_q8_0, q);
    return i * (int64_t)(dtype == IG_F32 ? sizeof(float) : sizeof(uint16_t));
}

/* values += sum of weight[j] rows[j], one after the other, in columns from `at` on, which lie at
 * `row`: so many vectors, the last of which has n lanes. */
IG_INLINE void add_columns(const tile *t, const char *row, int64_t at, int64_t n, const int queries,
                           const int vectors, const ig_dtype dtype) {
    const char *next = t->next ? t->next + (row - t->rows) : row;
    const float *weight = t->score;
    vf sum[MOST_SUMS], value[MOST_VECTORS];
    IG_UNROLL for (int k = 0; k < queries * vectors; k++) sum[k] =
        vf_load_first(t->values[k / vectors] + at + k % vectors * VF_LANES,
                      k % vectors < vectors - 1 ? VF_LANES : n);
    for (int64_t j = 0; j < t->n; j++, row += t->step, next += t->next_step, weight++) {
        for (int64_t i = 0; i < vector_at(vectors, dtype); i += LINE)
            __builtin_prefetch(next + i, 0, 2);
        IG_UNROLL for (int c = 0; c < vectors; c++) value[c] =
            load_stored(row + vector_at(c, dtype), (at + c * VF_LANES) % IG_BLOCK,
                        c < vectors - 1 ? VF_LANES : n, dtype);
        IG_UNROLL for (int k = 0; k < queries * vectors; k++) sum[k] =
            vf_fma(vf_set(weight[k / vectors * SPAN]), value[k % vectors], sum[k]);
    }
    IG_UNROLL for (int k = 0; k < queries * vectors; k++)
        vf_store_first(t->values[k / vectors] + at + k % vectors * VF_LANES, sum[k],
                       k % vectors < vectors - 1 ? VF_LANES : n);
}

enum { LARGE = VF_LANES == 16 ? 4 : 2 }; /* vectors of four queries that registers hold */

IG_INLINE void add_tile(const tile *t, const int queries, const ig_dtype dtype) {
    int64_t i = 0;
    for (; i + LARGE * VF_LANES <= t->width; i += LARGE * VF_LANES)
        add_columns(t, number_at(t->rows, i, dtype), i, VF_LANES, queries, LARGE, dtype);
    for (; i < t->width; i += VF_LANES) {
        const int64_t left = t->width - i;
        add_columns(t, number_at(t->rows, i, dtype), i, left < VF_LANES ? left : VF_LANES, queries,
                    1, dtype);
    }
}

/* ---- both for each type that a cache may have ---- */

#define IG_TILE(name, dtype, queries)                                                      \
    static void score_##name##_##queries(const tile *t) { score_tile(t, queries, dtype); } \
    static void add_##name##_##queries(const tile *t) { add_tile(t, queries, dtype); }
#define IG_TILES(name, dtype) \
    IG_TILE(name, dtype, 1)   \
    IG_TILE(name, dtype, 2)   \
    IG_TILE(name, dtype, 3)   \
    IG_TILE(name, dtype, 4)
IG_TILES(f32, IG_F32)
IG_TILES(f16, IG_F16)
IG_TILES(bf16, IG_BF16)
IG_TILES(q8_0, IG_Q8_0)

typedef struct stored {
    ig_dtype dtype;
    tile_fn *score[TILE], *add[TILE]; /* of one query, of two, ... */
} stored;

#define IG_STORED(name, dtype)                                                             \
    {                                                                                      \
        dtype, {score_##name##_1, score_##name##_2, score_##name##_3, score_##name##_4}, { \
            add_##name##_1, add_##name##_2, add_##name##_3, add_##name##_4                 \
        }                                                                                  \
    }

/* NULL: a cache of that type is not known here. */
static const stored *stored_as(ig_dtype dtype) {
    static const stored all[] = {
        IG_STORED(f32, IG_F32),
        IG_STORED(f16, IG_F16),
        IG_STORED(bf16, IG_BF16),
        IG_STORED(q8_0, IG_Q8_0),
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].dtype == dtype) return &all[i];
    return NULL;
}

#endif
