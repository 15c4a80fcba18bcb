/*
 * paged_tile.h - the two GEMMs of paged attention for one to four queries that read the same rows:
 * scores of a KV block, and values by their weights.
 *
 * Sums stay in registers, so a row is loaded and converted once for all queries.  Keys lie in
 * lanes: a few are transposed at a time, and a score adds up products element after element; values
 * are added key after key.  Neither depends on how many queries there are.
 */
#ifndef IG_BACKEND_CPU_ATTENTION_PAGED_TILE_H
#define IG_BACKEND_CPU_ATTENTION_PAGED_TILE_H

#include "backend/cpu/attention/paged_kv_q8.h"
#include "backend/cpu/simd/vec_bytes.h"
#include "base/f16.h"
#include "ingot/blocks.h"
#include "ingot/op.h"

enum {
    KV_SPAN = 4 * IG_PAGE_TOKENS, /* positions whose scores are kept */
    TILE = 4,                     /* queries at most */
    MAX_TRANSPOSED = 256,         /* elements of a row whose transpose is kept */
    LINE = 64,                    /* bytes */
};

static_assert(MAX_TRANSPOSED <= MOST_BLOCKS * IG_BLOCK, "a query has as many blocks");

/* Queries that read the same rows. */
typedef struct tile {
    const float *const *q;
    const query_fixed24 *fixed; /* [queries, MOST_BLOCKS]: the queries in fixed point */
    void *columns;              /* the rows transposed for scores, or dequantized for values */
    float *const *values;       /* the sums */
    float *score;     /* [queries, KV_SPAN]: of each row; weights by then, when values are added, */
                      /* and 0 for rows that are not seen */
    const char *rows; /* `step` bytes apart */
    int64_t step, width;
    int64_t low,
        high; /* the rows of a KV block that are visible, to any query when they are scored */
    /* The next rows of the walk, prefetched in small portions, because too many requests at once
     * are dropped; and to L2, because L1 tracks only a few.  NULL: another tile prefetches them. */
    const char *next;
    int64_t next_step, next_bytes;
} tile;
typedef void tile_fn(const tile *t);

/* The address of element i of a row; of Q8_0, of its block. */
IG_INLINE const char *stored_at(const char *row, int64_t i, const ig_dtype dtype) {
    if (dtype == IG_Q8_0) return (const char *)((const ig_block_q8_0 *)row + i / IG_BLOCK);
    return row + i * (int64_t)(dtype == IG_F32 ? sizeof(float) : sizeof(uint16_t));
}

/* The address of the element itself. */
IG_INLINE const char *number_at(const char *row, int64_t i, const ig_dtype dtype) {
    const char *p = stored_at(row, i, dtype);
    return dtype == IG_Q8_0 ? p + offsetof(ig_block_q8_0, q) + i % IG_BLOCK : p;
}

/* One element, as base/quant_blocks.c dequantizes it; not of blocks. */
IG_INLINE float stored_number(const char *p, const ig_dtype dtype) {
    if (dtype == IG_F32) return *(const float *)p;
    const uint16_t h = *(const uint16_t *)p;
    return dtype == IG_F16 ? ig_f16_to_f32(h) : ig_bf16_to_f32(h);
}

/* ---- keys to lanes ---- */

/* Vectors of keys at a time: two, so that there are enough sums that do not wait for each other,
 * and enough rows on their way from memory. */
enum {
    KEY_VECTORS = 2,
    ROW_VECTORS = 2,
    MOST_KEYS = VF_LANES == 16 ? 4 : KEY_VECTORS, /* of columns, where registers hold the sums */
    KEY_LANES = KEY_VECTORS * VF_LANES,
};
static_assert(KV_BLOCK % KEY_LANES == 0, "a KV block is a multiple of a tile");

/* Prefetches rows [row, row + rows) of the next; line by line, where they are contiguous. */
IG_INLINE void prefetch_rows(const tile *t, int64_t row, int64_t rows) {
    const bool contiguous = t->next_step == t->next_bytes;
    const int64_t step = contiguous ? rows * t->next_step : t->next_step;
    const int64_t bytes = contiguous ? step : t->next_bytes;
    if (!t->next) return;
    const char *end = t->next + (row + rows) * t->next_step;
    for (const char *p = t->next + row * t->next_step; p < end; p += step)
        for (int64_t i = 0; i < bytes; i += LINE) __builtin_prefetch(p + i, 0, 2);
}

/* A prefetch in portions, one for each step with time for it: several at once would stall each
 * other and later loads. */
typedef struct portions {
    const char *p; /* all before is in flight */
    int64_t part;  /* bytes, times 256 */
    int64_t due;
} portions;

/* Of contiguous rows; else empty. */
IG_INLINE portions portions_of(const tile *t, int64_t parts) {
    const bool contiguous = t->next && t->next_step == t->next_bytes;
    return (portions){.p = t->next,
                      .part = contiguous ? (KV_BLOCK * t->next_step << 8) / parts + 1 : 0};
}

IG_INLINE void prefetch_portion(portions *p) {
    for (p->due += p->part; p->due > 0; p->due -= LINE << 8, p->p += LINE)
        __builtin_prefetch(p->p, 0, 2);
}

/* Elements in COLUMN_BYTES. */
IG_INLINE int64_t chunk_numbers(const ig_dtype dtype) {
    return dtype == IG_Q8_0 ? COLUMN_BYTES : dtype == IG_F32 ? COLUMN_WORDS : COLUMN_U16;
}

/* As many elements of VF_LANES rows, converted one at a time when they are needed: registers are
 * few. */
typedef struct chunk {
    vi word[COLUMN_WORDS];
    vf scale; /* of blocks */
} chunk;

IG_INLINE void load_chunk(const char *rows, int64_t step, chunk *c, const ig_dtype dtype) {
    if (dtype == IG_Q8_0) c->scale = block_scales(rows, step);
    if (dtype == IG_F16)
        vi_columns_16(rows, step, c->word);
    else
        vi_columns(number_at(rows, 0, dtype), step, c->word);
}

/* The first n of them, which are the last of their rows: reads nothing past the end. */
IG_INLINE void load_end(const char *rows, int64_t step, int64_t n, chunk *c, const ig_dtype dtype) {
    char end[VF_LANES][COLUMN_BYTES] = {0};
    const size_t bytes = (size_t)(stored_at(rows, n, dtype) - rows);
    for (int r = 0; r < VF_LANES; r++) memcpy(end[r], rows + r * step, bytes);
    load_chunk(end[0], COLUMN_BYTES, c, dtype);
}

/* Element i of each row. */
IG_INLINE vf column(const chunk *c, const int i, const ig_dtype dtype) {
    const vi high = vi_set((int32_t)0xffff0000);
    switch (dtype) {
    case IG_F32: return vf_of_bits(c->word[i]);
    case IG_F16: return vf_column_f16(c->word, i);
    case IG_BF16:
        return vf_of_bits(i % 2 ? vi_and(c->word[i / 2], high) : vi_left(c->word[i / 2], 16));
    default: break;
    }
    const vi byte = vi_right(vi_left(c->word[i / 4], (unsigned)(24 - i % 4 * 8)), 24);
    return vf_mul(c->scale, vi_to_float(byte));
}

/* The first element after the last complete chunk. */
IG_INLINE int64_t end_of(const tile *t, const ig_dtype dtype) {
    return dtype == IG_Q8_0 ? t->width : t->width - t->width % chunk_numbers(dtype);
}

/* Rows that are scored: the visible ones, rounded out to tiles. */
IG_INLINE int64_t keys_begin(const tile *t) { return t->low / KEY_LANES * KEY_LANES; }
IG_INLINE int64_t keys_end(const tile *t) {
    return (t->high + KEY_LANES - 1) / KEY_LANES * KEY_LANES;
}

/* columns[i][j] = element i of row j */
IG_INLINE void transpose_keys(const tile *t, const ig_dtype dtype) {
    const int64_t all = chunk_numbers(dtype), end = end_of(t, dtype), keys = keys_end(t);
    for (int64_t at = keys_begin(t); at < keys; at += VF_LANES) {
        const char *rows = t->rows + at * t->step;
        float *out = (float *)t->columns + at;
        chunk c;
        prefetch_rows(t, at, VF_LANES);
        for (int64_t i = 0; i < end; i += all) {
            load_chunk(stored_at(rows, i, dtype), t->step, &c, dtype);
            IG_UNROLL for (int n = 0; n < all; n++)
                vf_store(out + (i + n) * KV_BLOCK, column(&c, n, dtype));
        }
        if (dtype == IG_Q8_0 || end == t->width) continue;
        load_end(stored_at(rows, end, dtype), t->step, t->width - end, &c, dtype);
        IG_UNROLL for (int n = 0; n < all; n++) if (end + n < t->width)
            vf_store(out + (end + n) * KV_BLOCK, column(&c, n, dtype));
    }
}

/* ---- scores: score[h][j] = q[h] . rows[j], element after element ---- */

IG_INLINE void store_sums(const tile *t, int64_t at, const vf *sum, const int queries,
                          const int vectors) {
    IG_UNROLL for (int k = 0; k < queries * vectors; k++)
        vf_store(t->score + k / vectors * KV_SPAN + at + k % vectors * VF_LANES, sum[k]);
}

/* Of columns: `vectors` vectors of keys from `at` on. */
IG_INLINE void score_keys(const tile *t, int64_t at, const int queries, const int vectors) {
    const float *column = (const float *)t->columns + at;
    vf sum[TILE * MOST_KEYS], key[MOST_KEYS];
    IG_UNROLL for (int k = 0; k < queries * vectors; k++) sum[k] = vf_set(0);
    for (int64_t i = 0; i < t->width; i++, column += KV_BLOCK) {
        IG_UNROLL for (int j = 0; j < vectors; j++) key[j] = vf_load(column + j * VF_LANES);
        IG_UNROLL for (int k = 0; k < queries * vectors; k++) sum[k] =
            vf_fma(vf_set(t->q[k / vectors][i]), key[k % vectors], sum[k]);
    }
    store_sums(t, at, sum, queries, vectors);
}

IG_INLINE void score_columns(const tile *t, const int queries) {
    int64_t at = keys_begin(t);
    for (; at + MOST_KEYS * VF_LANES <= keys_end(t); at += MOST_KEYS * VF_LANES)
        score_keys(t, at, queries, MOST_KEYS);
    for (; at < t->high; at += KEY_LANES) score_keys(t, at, queries, KEY_VECTORS);
}

/* sum[h] += the products of elements [i, i + n). */
IG_INLINE void add_chunk(const tile *t, const chunk *c, int64_t i, int64_t n, vf *sum,
                         portions *lines, const int queries, const ig_dtype dtype) {
    IG_UNROLL for (int k = 0; k < chunk_numbers(dtype); k++) {
        if (k >= n) continue;
        if (k % 2 == 0) prefetch_portion(lines);
        vf key[ROW_VECTORS];
        IG_UNROLL for (int j = 0; j < ROW_VECTORS; j++) key[j] = column(c + j, k, dtype);
        IG_UNROLL for (int h = 0; h < queries; h++) {
            const vf q = vf_set(t->q[h][i + k]);
            IG_UNROLL for (int j = 0; j < ROW_VECTORS; j++) sum[h * ROW_VECTORS + j] =
                vf_fma(q, key[j], sum[h * ROW_VECTORS + j]);
        }
    }
}

/* Of rows not transposed in memory, for queries that do not share them: columns stay in registers.
 */
IG_INLINE void score_rows(const tile *t, const int queries, const ig_dtype dtype) {
    const int64_t all = chunk_numbers(dtype), end = end_of(t, dtype),
                  row_step = ROW_VECTORS * VF_LANES;
    const int64_t portion = end > 0 ? (row_step * all + end - 1) / end : row_step;
    const bool contiguous = t->next_step == t->next_bytes;
    portions lines = portions_of(t, KV_BLOCK / row_step * ((t->width + 1) / 2));
    for (int64_t at = t->low / row_step * row_step; at < t->high; at += row_step) {
        const char *rows = t->rows + at * t->step;
        vf sum[TILE * ROW_VECTORS];
        chunk c[ROW_VECTORS];
        IG_UNROLL for (int h = 0; h < queries * ROW_VECTORS; h++) sum[h] = vf_set(0);
        int64_t ahead = at;
        for (int64_t i = 0; i < end; i += all, ahead += portion) {
            if (!contiguous && ahead < at + row_step) prefetch_rows(t, ahead, portion);
            IG_UNROLL for (int j = 0; j < ROW_VECTORS; j++) load_chunk(
                stored_at(rows, i, dtype) + j * VF_LANES * t->step, t->step, c + j, dtype);
            add_chunk(t, c, i, all, sum, &lines, queries, dtype);
        }
        if (dtype != IG_Q8_0 && end < t->width) {
            IG_UNROLL for (int j = 0; j < ROW_VECTORS; j++)
                load_end(stored_at(rows, end, dtype) + j * VF_LANES * t->step, t->step,
                         t->width - end, c + j, dtype);
            add_chunk(t, c, end, t->width - end, sum, &lines, queries, dtype);
        }
        store_sums(t, at, sum, queries, ROW_VECTORS);
    }
}

/* The same in int8. */
static void transpose_keys_q8(const tile *t) {
    const int64_t blocks = t->width / IG_BLOCK, begin = keys_begin(t), end = keys_end(t);
    transposed_keys *columns = t->columns;
    for (int64_t b = 0; b < blocks; b++) {
        uint16_t scale[KV_BLOCK];
        take_scales(stored_at(t->rows, b * IG_BLOCK, IG_Q8_0) + begin * t->step, t->step,
                    end - begin, scale);
        for (int64_t at = begin; at < end; at += VF_LANES)
            vf_store(columns[at / VF_LANES * blocks + b].scale, vf_load_f16(scale + at - begin));
    }
    for (int64_t at = begin; at < end; at += VF_LANES) {
        prefetch_rows(t, at, VF_LANES);
        for (int64_t b = 0; b < blocks; b++)
            transpose_key_block(stored_at(t->rows + at * t->step, b * IG_BLOCK, IG_Q8_0), t->step,
                                columns + at / VF_LANES * blocks + b);
    }
}

IG_INLINE void score_q8(const tile *t, const int queries) {
    const int64_t blocks = t->width / IG_BLOCK;
    for (int64_t at = keys_begin(t); at < t->high; at += KEY_LANES) {
        const transposed_keys *keys = (const transposed_keys *)t->columns + at / VF_LANES * blocks;
        vf sum[TILE * KEY_VECTORS];
        IG_UNROLL for (int k = 0; k < queries * KEY_VECTORS; k++) sum[k] = vf_set(0);
        for (int64_t b = 0; b < blocks; b++)
            add_block(keys + b, blocks, t->fixed + b, sum, queries, KEY_VECTORS);
        store_sums(t, at, sum, queries, KEY_VECTORS);
    }
}

/* ---- values ---- */

enum { MOST_VECTORS = 8, MOST_SUMS = 16 };

/* VF_LANES elements from p on, of which n are valid; of Q8_0, the first is element `place` of its
 * block. */
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

/* Bytes from the first element of a row to that of vector c. */
IG_INLINE int64_t vector_at(int c, const ig_dtype dtype) {
    const int64_t i = (int64_t)c * VF_LANES, blocks = i / IG_BLOCK;
    if (dtype == IG_Q8_0) return i + blocks * (int64_t)offsetof(ig_block_q8_0, q);
    return i * (int64_t)(dtype == IG_F32 ? sizeof(float) : sizeof(uint16_t));
}

/* Prefetches as much of the next rows as these vectors hold. */
IG_INLINE void prefetch_columns(const char *next, const int vectors, const ig_dtype dtype) {
    for (int64_t i = 0; i < vector_at(vectors, dtype); i += LINE)
        __builtin_prefetch(next + i, 0, 2);
}

/* values += sum of weight[j] rows[j], one after the other, in columns from `at` on, which lie at
 * `row`: `vectors` vectors, the last of which has n lanes. */
IG_INLINE void add_columns(const tile *t, const char *row, int64_t at, int64_t n, const int queries,
                           const int vectors, const ig_dtype dtype, const bool prefetches) {
    const char *next = prefetches ? t->next + (row - t->rows) + t->low * t->next_step : NULL;
    const float *weight = t->score + t->low;
    vf sum[MOST_SUMS], value[MOST_VECTORS];
    IG_UNROLL for (int k = 0; k < queries * vectors; k++) sum[k] =
        vf_load_first(t->values[k / vectors] + at + k % vectors * VF_LANES,
                      k % vectors < vectors - 1 ? VF_LANES : n);
    row += t->low * t->step;
    for (int64_t j = t->low; j < t->high; j++, row += t->step, weight++) {
        if (prefetches) prefetch_columns(next + (j - t->low) * t->next_step, vectors, dtype);
        IG_UNROLL
        for (int c = 0; c < vectors; c++)
            value[c] = load_stored(row + vector_at(c, dtype), (at + c * VF_LANES) % IG_BLOCK,
                                   c < vectors - 1 ? VF_LANES : n, dtype);
        IG_UNROLL
        for (int k = 0; k < queries * vectors; k++)
            sum[k] = vf_fma(vf_set(weight[k / vectors * KV_SPAN]), value[k % vectors], sum[k]);
    }
    IG_UNROLL for (int k = 0; k < queries * vectors; k++)
        vf_store_first(t->values[k / vectors] + at + k % vectors * VF_LANES, sum[k],
                       k % vectors < vectors - 1 ? VF_LANES : n);
}

enum { LARGE = VF_LANES == 16 ? 4 : 2 }; /* vectors of four queries that registers hold */

IG_INLINE void add_rows(const tile *t, const int queries, const ig_dtype dtype,
                        const bool prefetches) {
    int64_t i = 0;
    for (; i + LARGE * VF_LANES <= t->width; i += LARGE * VF_LANES)
        add_columns(t, number_at(t->rows, i, dtype), i, VF_LANES, queries, LARGE, dtype,
                    prefetches);
    for (; i < t->width; i += VF_LANES) {
        const int64_t left = t->width - i;
        add_columns(t, number_at(t->rows, i, dtype), i, left < VF_LANES ? left : VF_LANES, queries,
                    1, dtype, prefetches);
    }
}

IG_INLINE void add_tile(const tile *t, const int queries, const ig_dtype dtype) {
    if (t->next)
        add_rows(t, queries, dtype, true);
    else
        add_rows(t, queries, dtype, false);
}

/* Floats from a dequantized row to the next. */
IG_INLINE int64_t f32_step(const tile *t) {
    return (t->width + VF_LANES - 1) / VF_LANES * VF_LANES;
}

/* Dequantizes rows once for many queries. */
IG_INLINE void dequantize_rows(const tile *t, const ig_dtype dtype) {
    const int64_t step = f32_step(t);
    for (int64_t j = t->low; j < t->high; j++) {
        const char *row = t->rows + j * t->step;
        float *out = (float *)t->columns + j * step;
        prefetch_rows(t, j, 1);
        for (int64_t i = 0; i < t->width; i += VF_LANES) {
            const int64_t left = t->width - i;
            vf_store(out + i, load_stored(number_at(row, i, dtype), i % IG_BLOCK,
                                          left < VF_LANES ? left : VF_LANES, dtype));
        }
    }
}

/* For each query the digits of the weights of a column of blocks, and their unit. */
typedef struct weighed {
    _Alignas(LINE) fixed24_x4 digit[TILE][KV_BLOCK / 4];
    float unit[TILE];
} weighed;

/* `line`: prefetched from there on, two lines for every four rows, to keep within the requests that
 * a processor tracks.  NULL: none. */
IG_INLINE void add_block_values(const tile *t, int64_t at, const weighed *w, const char *line,
                                const int queries) {
    for (int64_t c = at; c < at + IG_BLOCK; c += 2 * VF_LANES) {
        const char *rows = number_at(t->rows, c, IG_Q8_0);
        vi sum[MOST_DOTS];
        IG_UNROLL for (int i = 0; i < queries * DIGITS * 2; i++) sum[i] = vi_set(0);
        for (int64_t j = t->low / 4; 4 * j < t->high; j++) {
            add_four(rows + 4 * j * t->step, t->step, w->digit[0][j], KV_BLOCK, sum, queries);
            if (!line) continue;
            __builtin_prefetch(line, 0, 2);
            __builtin_prefetch(line + LINE, 0, 2);
            line += 2 * LINE;
        }
        IG_UNROLL for (int k = 0; k < queries * 2; k++) {
            const vi *d = sum + k / 2 * DIGITS * 2 + k % 2;
            float *to = t->values[k / 2] + c + k % 2 * VF_LANES;
            vf_store(to,
                     vf_fma(fixed24_sum(d[0], d[2], d[4]), vf_set(w->unit[k / 2]), vf_load(to)));
        }
    }
}

/* Prefetches the share of the next rows that goes with a column of blocks, except what
 * add_block_values() prefetches from the returned line on. */
IG_INLINE const char *prefetch_beside(const tile *t, int64_t at) {
    const int64_t fours = (t->high + 3) / 4 - t->low / 4, row = KV_BLOCK * at / t->width;
    const int64_t rows = KV_BLOCK * (at + IG_BLOCK) / t->width - row;
    const bool contiguous = t->next && t->next_step == t->next_bytes;
    if (!contiguous) prefetch_rows(t, row, rows);
    if (!contiguous) return NULL;
    const char *begin = t->next + row * t->next_step, *end = begin + rows * t->next_step;
    for (const char *p = begin + 2 * fours * LINE; p < end; p += LINE) __builtin_prefetch(p, 0, 2);
    return begin;
}

/* In F32, where a scale is NaN, infinite or negative. */
IG_INLINE void add_values_q8(const tile *t, const int queries) {
    _Alignas(LINE) uint16_t half[MOST_BLOCKS][KV_BLOCK];
    _Alignas(LINE) float scale[KV_BLOCK];
    weighed w;
    for (int64_t b = 0; b < t->width / IG_BLOCK; b++)
        take_scales(stored_at(t->rows, b * IG_BLOCK, IG_Q8_0), t->step, KV_BLOCK, half[b]);
    for (int64_t i = 0; i < t->width; i += IG_BLOCK) {
        if (!find_scales(half[i / IG_BLOCK], t->low, t->high, KV_BLOCK, scale)) {
            for (int64_t c = i; c < i + IG_BLOCK; c += VF_LANES)
                add_columns(t, number_at(t->rows, c, IG_Q8_0), c, VF_LANES, queries, 1, IG_Q8_0,
                            false);
            continue;
        }
        const char *line = prefetch_beside(t, i);
        IG_UNROLL for (int h = 0; h < queries; h++) w.unit[h] =
            weigh_rows(t->score + h * KV_SPAN, scale, w.digit[h]);
        if (line) /* two loops, so that neither tests it */
            add_block_values(t, i, &w, line, queries);
        else
            add_block_values(t, i, &w, NULL, queries);
    }
}

/* ---- for each type that a cache may have, and each number of queries ---- */

#define IG_TILES(name, call)                            \
    static void name##_1(const tile *t) { call(t, 1); } \
    static void name##_2(const tile *t) { call(t, 2); } \
    static void name##_3(const tile *t) { call(t, 3); } \
    static void name##_4(const tile *t) { call(t, 4); }
#define IG_KV_DTYPE(name, dtype)                                                         \
    static void transpose_##name(const tile *t) { transpose_keys(t, dtype); }            \
    IG_INLINE void score_##name(const tile *t, const int n) { score_rows(t, n, dtype); } \
    IG_INLINE void add_##name(const tile *t, const int n) { add_tile(t, n, dtype); }     \
    static void dequantize_##name(const tile *t) { dequantize_rows(t, dtype); }          \
    IG_TILES(score_##name, score_##name)                                                 \
    IG_TILES(add_##name, add_##name)
IG_TILES(score_columns, score_columns)
IG_TILES(score_q8, score_q8)
IG_TILES(add_values_q8, add_values_q8)
IG_KV_DTYPE(f32, IG_F32)
IG_KV_DTYPE(f16, IG_F16)
IG_KV_DTYPE(bf16, IG_BF16)
IG_KV_DTYPE(q8_0, IG_Q8_0)

typedef tile_fn *const tile_fns[TILE]; /* for one query, for two, ... */

typedef struct stored {
    ig_dtype dtype;
    bool fixed24;              /* queries are converted to fixed point */
    tile_fn *transpose;        /* keys to columns, */
    tile_fns score_transposed; /* which many queries share */
    tile_fns score, add;
    tile_fn *dequantize;   /* values to F32, NULL: never; */
    tile_fns add_f32_rows; /* which are shared, too */
} stored;

#define IG_FOUR(name) \
    { name##_1, name##_2, name##_3, name##_4 }
#define IG_STORED(name, dtype)                                                         \
    {                                                                                  \
        dtype, false, transpose_##name, IG_FOUR(score_columns), IG_FOUR(score_##name), \
            IG_FOUR(add_##name), dequantize_##name, IG_FOUR(add_f32)                   \
    }

/* NULL: no kernel for a KV cache of that type. */
static const stored *stored_as(ig_dtype dtype, int64_t width) {
    static const stored all[] = {
        {IG_Q8_0,
         true,
         transpose_keys_q8,
         IG_FOUR(score_q8),
         {NULL},
         IG_FOUR(add_values_q8),
         NULL,
         {NULL}},
        IG_STORED(f32, IG_F32),
        IG_STORED(f16, IG_F16),
        IG_STORED(bf16, IG_BF16),
        IG_STORED(q8_0, IG_Q8_0),
    };
    const bool int8 = DOT_IS_FAST && width <= MAX_TRANSPOSED;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].dtype == dtype && (int8 || !all[i].fixed24)) return &all[i];
    return NULL;
}

#endif
