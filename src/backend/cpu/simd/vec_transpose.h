/*
 * vec_transpose.h - transposes of rows in memory, beside the operations of vec.h.
 *
 * VF_LANES rows become columns: a vector then holds one number of each row, so that what is
 * computed for many rows needs no sums across lanes.
 */
#ifndef IG_BACKEND_CPU_SIMD_VEC_TRANSPOSE_H
#define IG_BACKEND_CPU_SIMD_VEC_TRANSPOSE_H

#include "backend/cpu/simd/vec_dot_u8s8.h"

enum {
    COLUMN_BYTES = 32, /* of each row that are transposed at once, */
    COLUMN_WORDS = COLUMN_BYTES / 4,
    COLUMN_U16 = COLUMN_BYTES / 2,
    COLUMN_STEPS = 7,
};

#if defined(__AVX2__)

/* Interleaves elements of `bits` bits of two vectors, out of the low or high 8 of each 16 bytes. */
#    if defined(__AVX512BW__)
#        define INTERLEAVE(half, bits, a, b) _mm512_unpack##half##_epi##bits(a, b)
#    else
#        define INTERLEAVE(half, bits, a, b) _mm256_unpack##half##_epi##bits(a, b)
#    endif

/* Of each 16 bytes, four rows of four words -> four columns of four. */
IG_INLINE void transpose_words(vi *x) {
    const vi a = INTERLEAVE(lo, 32, x[0], x[1]), b = INTERLEAVE(hi, 32, x[0], x[1]);
    const vi c = INTERLEAVE(lo, 32, x[2], x[3]), d = INTERLEAVE(hi, 32, x[2], x[3]);
    x[0] = INTERLEAVE(lo, 64, a, c);
    x[1] = INTERLEAVE(hi, 64, a, c);
    x[2] = INTERLEAVE(lo, 64, b, d);
    x[3] = INTERLEAVE(hi, 64, b, d);
}

/* Interleaves 16-bit elements of rows r and r + 4: three times, and eight rows of eight are eight
 * columns (see vb16_transpose()). */
IG_INLINE void interleave(const vi *x, vi *y) {
    IG_UNROLL for (int r = 0; r < 4; r++) {
        y[2 * r] = INTERLEAVE(lo, 16, x[r], x[r + 4]);
        y[2 * r + 1] = INTERLEAVE(hi, 16, x[r], x[r + 4]);
    }
}
#endif

#if defined(__AVX512BW__)

/* Row r, then another one. */
IG_INLINE vi load_rows(const char *rows, int64_t step, int r, int other) {
    const __m256i low = _mm256_loadu_si256((const void *)(rows + r * step));
    const __m256i high = _mm256_loadu_si256((const void *)(rows + other * step));
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

/* out[s], lane r: word s of row r, which lies `step` bytes behind the one before.  In COLUMN_STEPS
 * steps, for those who have something else to do between them. */
IG_INLINE void vi_columns_step(const char *rows, int64_t step, vi *out, const int s) {
    if (s < 4) {
        out[s] = load_rows(rows, step, s, s + 4);
        out[s + 4] = load_rows(rows, step, s + 8, s + 12);
    } else if (s < 6) {
        transpose_words(out + (s - 4) * 4);
    } else {
        IG_UNROLL for (int i = 0; i < 4; i++) {
            const vi first = out[i], last = out[i + 4];
            out[i] = _mm512_shuffle_i32x4(first, last, 0x88);
            out[i + 4] = _mm512_shuffle_i32x4(first, last, 0xdd);
        }
    }
}

/* The same of 16 bits: number s of the rows in half of out[s % 8], and as floats. */
IG_INLINE void vi_columns_16(const char *rows, int64_t step, vi *out) {
    vi x[8];
    IG_UNROLL for (int r = 0; r < 8; r++) x[r] = load_rows(rows, step, r, r + 8);
    interleave(x, out);
    interleave(out, x);
    interleave(x, out);
    /* Number s of rows 0-7 | s + 8 | s of rows 8-15 | s + 8 */
    IG_UNROLL for (int s = 0; s < 8; s++) out[s] = _mm512_shuffle_i32x4(out[s], out[s], 0xd8);
}
IG_INLINE vf vf_column_f16(const vi *columns, int s) {
    return _mm512_cvtph_ps(s < 8 ? _mm512_castsi512_si256(columns[s])
                                 : _mm512_extracti64x4_epi64(columns[s - 8], 1));
}

/* Bytes of four rows: lane i of out[v] holds number v VF_LANES + i of each. */
IG_INLINE void vi_fours(const char *rows, int64_t step, vi *out) {
    const vi x[2] = {load_rows(rows, step, 0, 2), load_rows(rows, step, 1, 3)};
    /* Pairs of rows 0 and 1 in one half, of rows 2 and 3 in the other. */
    const vi low = INTERLEAVE(lo, 8, x[0], x[1]), high = INTERLEAVE(hi, 8, x[0], x[1]);
    const vi first = _mm512_set_epi16(55, 39, 54, 38, 53, 37, 52, 36, 51, 35, 50, 34, 49, 33, 48,
                                      32, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const vi second = _mm512_add_epi16(first, _mm512_set1_epi16(8));
    out[0] = _mm512_permutex2var_epi16(low, first, high);
    out[1] = _mm512_permutex2var_epi16(low, second, high);
}

/* Lanes of rows j and on: byte p of each goes to out[row / 4][p][row % 4]. */
IG_INLINE void vi_store_bytes(uint8_t (*out)[4][4], int64_t j, vi x) {
    const __m128i order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_storeu_si512(out[j / 4], _mm512_shuffle_epi8(x, _mm512_broadcast_i32x4(order)));
}

#elif defined(__AVX2__)

IG_INLINE void vi_columns_step(const char *rows, int64_t step, vi *out, const int s) {
    if (s < 4) {
        IG_UNROLL for (int r = s; r < 8; r += 4) out[r] =
            _mm256_loadu_si256((const void *)(rows + r * step));
    } else if (s < 6) {
        transpose_words(out + (s - 4) * 4);
    } else {
        IG_UNROLL for (int i = 0; i < 4; i++) {
            const vi first = out[i], last = out[i + 4];
            out[i] = _mm256_permute2x128_si256(first, last, 0x20);
            out[i + 4] = _mm256_permute2x128_si256(first, last, 0x31);
        }
    }
}

IG_INLINE void vi_columns_16(const char *rows, int64_t step, vi *out) {
    vi x[8];
    IG_UNROLL for (int r = 0; r < 8; r++) x[r] =
        _mm256_loadu_si256((const void *)(rows + r * step));
    interleave(x, out);
    interleave(out, x);
    interleave(x, out);
}
IG_INLINE vf vf_column_f16(const vi *columns, int s) {
    return _mm256_cvtph_ps(s < 8 ? _mm256_castsi256_si128(columns[s])
                                 : _mm256_extracti128_si256(columns[s - 8], 1));
}

IG_INLINE void vi_fours(const char *rows, int64_t step, vi *out) {
    __m128i x[4];
    for (int r = 0; r < 4; r++) x[r] = _mm_loadu_si128((const void *)(rows + r * step));
    const __m128i a = _mm_unpacklo_epi8(x[0], x[1]), b = _mm_unpackhi_epi8(x[0], x[1]);
    const __m128i c = _mm_unpacklo_epi8(x[2], x[3]), d = _mm_unpackhi_epi8(x[2], x[3]);
    out[0] = _mm256_set_m128i(_mm_unpackhi_epi16(a, c), _mm_unpacklo_epi16(a, c));
    out[1] = _mm256_set_m128i(_mm_unpackhi_epi16(b, d), _mm_unpacklo_epi16(b, d));
}

IG_INLINE void vi_store_bytes(uint8_t (*out)[4][4], int64_t j, vi x) {
    const __m128i order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const vi y = _mm256_shuffle_epi8(x, _mm256_broadcastsi128_si256(order));
    _mm256_storeu_si256((__m256i *)out[j / 4], y);
}

#else

IG_INLINE void vi_columns_step(const char *rows, int64_t step, vi *out, const int s) {
    (void)step;
    if (s == 0) memcpy(out, rows, COLUMN_WORDS * sizeof *out);
}
IG_INLINE void vi_columns_16(const char *rows, int64_t step, vi *out) {
    vi_columns_step(rows, step, out, 0);
}
IG_INLINE vf vf_column_f16(const vi *columns, int s) {
    uint16_t half;
    memcpy(&half, (const char *)columns + s * (int)sizeof half, sizeof half);
    return vf_load_f16(&half);
}

IG_INLINE void vi_fours(const char *rows, int64_t step, vi *out) {
    for (int v = 0; v < 2; v++) {
        char four[4];
        for (int r = 0; r < 4; r++) four[r] = rows[r * step + v];
        memcpy(&out[v], four, sizeof out[v]);
    }
}
IG_INLINE void vi_store_bytes(uint8_t (*out)[4][4], int64_t j, vi x) {
    for (int p = 0; p < 4; p++) out[j / 4][p][j % 4] = (uint8_t)((uint32_t)x >> 8 * p);
}

#endif

IG_INLINE void vi_columns(const char *rows, int64_t step, vi *out) {
    IG_UNROLL for (int s = 0; s < COLUMN_STEPS; s++) vi_columns_step(rows, step, out, s);
}

#endif
