/*
 * packed_write.h - stored weights to the layout of packed_read.h.
 *
 * Runs once for a weight, on any thread, a column group at a time.  The bytes depend on the weight
 * alone, whatever the instruction set, so packed weights can be stored and shared.
 */
#ifndef IG_BACKEND_CPU_QGEMM_PACKED_WRITE_H
#define IG_BACKEND_CPU_QGEMM_PACKED_WRITE_H

#include "backend/cpu/qgemm/packed_read.h"
#include "backend/cpu/qgemm/unpack_u8.h"

static const uint8_t identity_byte[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static void unpack_xs_nibbles(const char *row, int64_t blocks, stage *s, int64_t c) {
    unpack_xs(row, blocks, s, c, identity_byte);
}

/* Exponents take the place of scales. */
static void unpack_mxfp4_nibbles(const char *row, int64_t blocks, stage *s, int64_t c) {
    const ig_block_mxfp4 *x = (const ig_block_mxfp4 *)row;
    for (int64_t b = 0; b < blocks; b++, x++) {
        vb32 q;
        unpack_4bit(x->q, &q);
        vb32_store(s->q[c] + b * IG_BLOCK, &q);
        s->d[b][c] = x->exponent;
    }
}

static_assert(sizeof(ig_block_iq4_nl) == sizeof(ig_block_q4_0), "read the same way");

/* Table types keep their nibbles; NULL: packed from the bytes of a panel. */
static unpack_fn *const unpack_nibbles_fns[IG_DTYPE_COUNT] = {
    [IG_IQ4_NL] = unpack_q4_0,
    [IG_IQ4_XS] = unpack_xs_nibbles,
    [IG_MXFP4] = unpack_mxfp4_nibbles,
};

/* Four steps of six bits, in three lines. */
static inline void pack_6bit(const uint8_t (*s)[STEP_BYTES], uint8_t *to) {
    for (int line = 0; line < 3; line++)
        for (int i = 0; i < LINE; i++)
            to[line * LINE + i] = (uint8_t)(s[line][i] | (s[3][i] >> (2 * line) & 3) << 6);
}

/* Bit `bit` of each step, a line. */
static inline void pack_top_bit(const uint8_t (*s)[STEP_BYTES], int bit, uint8_t *to) {
    for (int i = 0; i < LINE; i++) {
        unsigned all = 0;
        for (int j = 0; j < STEPS; j++) all |= (s[j][i] >> bit & 1u) << j;
        to[i] = (uint8_t)all;
    }
}

static inline void pack_4bit(const uint8_t (*s)[STEP_BYTES], uint8_t *to) {
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < LINE; i++)
            to[j * LINE + i] = (uint8_t)((s[j][i] & 15) | s[j + 4][i] << 4);
}

static inline void pack_2bit(const uint8_t (*s)[STEP_BYTES], uint8_t *to) {
    for (int line = 0; line < 2; line++, s += 4)
        for (int i = 0; i < LINE; i++)
            to[line * LINE + i] = (uint8_t)((s[0][i] & 3) | (s[1][i] & 3) << 2 |
                                            (s[2][i] & 3) << 4 | (s[3][i] & 3) << 6);
}

/* A block of steps as it is packed. */
static inline void pack_block(packed_form form, const uint8_t (*s)[STEP_BYTES], uint8_t *to) {
    switch (form) {
    case BITS_2: pack_2bit(s, to); break;
    case BITS_3:
        pack_top_bit(s, 2, to);
        pack_2bit(s, to + LINE);
        break;
    case BITS_4: pack_4bit(s, to); break;
    case BITS_5:
        pack_top_bit(s, 4, to);
        pack_4bit(s, to + LINE);
        break;
    case BITS_6:
        pack_6bit(s, to);
        pack_6bit(s + 4, to + 3 * LINE);
        break;
    case BITS_8: memcpy(to, s, (size_t)STEPS * STEP_BYTES); break;
    case NOT_PACKED: break;
    }
}

/* The small scales of a super-block: a byte for each scale group and column. */
static inline void pack_k_bytes(const uint64_t *words, uint8_t *to) {
    for (int g = 0; g < BLOCKS_PER_K; g++)
        for (int c = 0; c < QNR; c++) to[g * QNR + c] = (uint8_t)(words[c] >> (8 * g));
}

static inline void pack_k_head(quant_kind kind, const stage *s, int64_t k, uint8_t *head) {
    uint8_t *bytes = head + LINE;
    memcpy(head, s->d[k], sizeof s->d[k]);
    if (kind_has_min(kind)) memcpy(head + LINE / 2, s->m[k], sizeof s->m[k]);
    for (int word = 0; word < scales_per_block(kind); word++) {
        uint64_t both[QNR];
        for (int c = 0; c < QNR; c++)
            both[c] = s->scale[k][word][c] | (kind == TWO_MINS ? s->min[k][word][c] << 4 : 0);
        pack_k_bytes(both, bytes + word * BLOCKS_PER_K * QNR);
    }
    if (kind == K_MIN) pack_k_bytes(s->min[k][0], bytes + BLOCKS_PER_K * QNR);
}

/* Scales of block h of a unit, which is block b of the stage. */
static inline void pack_head(ig_dtype dtype, const stage *s, int64_t b, int64_t h, uint8_t *head) {
    const quant_type *t = &quant_types[dtype];
    if (t->is_k) {
        if (h == 0) pack_k_head(t->kind, s, b / BLOCKS_PER_K, head);
    } else if (t->has_powers) {
        for (int c = 0; c < QNR; c++) head[h * QNR + c] = (uint8_t)s->d[b][c];
    } else {
        memcpy(head + h * (LINE / 2), s->d[b], sizeof s->d[b]);
        if (t->kind == WITH_MIN) memcpy(head + LINE / 2, s->m[b], sizeof s->m[b]);
    }
}

/* A group of up to sixteen rows, `row_bytes` apart, of `blocks` blocks each. */
static inline void pack_group(ig_dtype dtype, const char *rows, int64_t row_bytes, int64_t columns,
                              int64_t blocks, uint8_t *to) {
    const packed_type *t = &packed_types[dtype];
    unpack_fn *const nibbles = unpack_nibbles_fns[dtype];
    unpack_fn *const unpack = nibbles ? nibbles : unpack_fns[dtype];
    stage s;
    memset(&s, 0, sizeof s); /* padding columns */
    memset(to, 0, (size_t)packed_group_bytes(dtype, blocks));
    for (int64_t first = 0; first < blocks; first += STAGE_BLOCKS) {
        const int64_t count = min_i64(blocks - first, STAGE_BLOCKS);
        const int64_t at = ig_bytes_of(dtype, first * IG_BLOCK);
        for (int64_t c = 0; c < columns; c++) unpack(rows + c * row_bytes + at, count, &s, c);
        for (int64_t b = 0; b < count; b++) {
            _Alignas(64) uint8_t steps[STEPS][STEP_BYTES];
            const int64_t h = (first + b) % t->unit;
            uint8_t *unit = to + (first + b) / t->unit * packed_unit_bytes(dtype);
            transpose_steps(&s, b, steps);
            pack_block(t->form, (const uint8_t(*)[STEP_BYTES])steps, unit + t->head + h * t->block);
            pack_head(dtype, &s, b, h, unit);
        }
    }
}

#endif
