/*
 * blocks.h - how elements of the block types lie in memory.
 *
 * A quantization block is a fixed number of adjacent elements of a row with the
 * scales they share; dtype.def has the counts.  The layouts are those of GGUF files,
 * so kernels compute on a mapped file directly.  Blocks and their fields are packed:
 * they have no alignment.
 *
 * In the comments, q is the stored integer of an element, d and m are scales; 16-bit
 * fields are F16.  "Split nibbles": byte i holds element i in its low nibble and
 * element i + n / 2 in its high nibble.
 */
#ifndef INGOT_BLOCKS_H
#define INGOT_BLOCKS_H

#include <assert.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { IG_BLOCK = 32, IG_BLOCK_K = 256 }; /* elements of a block and of a K-quant super-block */

#define IG_PACKED __attribute__((packed))

/* d (q - 8), q in split nibbles */
typedef struct IG_PACKED ig_block_q4_0 {
    uint16_t d;
    uint8_t q[16];
} ig_block_q4_0;

/* d q + m, q in split nibbles */
typedef struct IG_PACKED ig_block_q4_1 {
    uint16_t d, m;
    uint8_t q[16];
} ig_block_q4_1;

/* d (q - 16); low four bits of q in split nibbles, bit i of `high` is the fifth bit of element i */
typedef struct IG_PACKED ig_block_q5_0 {
    uint16_t d;
    uint32_t high;
    uint8_t q[16];
} ig_block_q5_0;

/* d q + m, q as in q5_0 */
typedef struct IG_PACKED ig_block_q5_1 {
    uint16_t d, m;
    uint32_t high;
    uint8_t q[16];
} ig_block_q5_1;

/* d q */
typedef struct IG_PACKED ig_block_q8_0 {
    uint16_t d;
    int8_t q[32];
} ig_block_q8_0;

/*
 * K-quant super-blocks: 16 scale groups of 16 elements or 8 of 32, each with its own
 * scale of a few bits.  Two bits of q lie in bytes [128 elements][bits][32 bytes]:
 * of element 128 h + 32 j + i, bits 2j and 2j + 1 of byte 32 h + i.
 */

/* d scale q - m min, groups of 16: scale in the low and min in the high nibble */
typedef struct IG_PACKED ig_block_q2_k {
    uint8_t scales[16];
    uint8_t q[64];
    uint16_t d, m;
} ig_block_q2_k;

/* d (scale - 32) (q - 4), groups of 16; q is two bits and, from `high`, a third: of element
 * 32 j + i it is bit j of byte i.  Scales: four bits in split nibbles, then two bits of four scales
 * per byte. */
typedef struct IG_PACKED ig_block_q3_k {
    uint8_t high[32];
    uint8_t q[64];
    uint8_t scales[12];
    uint16_t d;
} ig_block_q3_k;

/* d scale q - m min, groups of 32; of each 64 elements the first 32 in the low nibbles.
 * ig_block_k_scale() reads the six-bit scales. */
typedef struct IG_PACKED ig_block_q4_k {
    uint16_t d, m;
    uint8_t scales[12];
    uint8_t q[128];
} ig_block_q4_k;

/* As q4_k; bit j of high[i] is the fifth bit of element 32 j + i. */
typedef struct IG_PACKED ig_block_q5_k {
    uint16_t d, m;
    uint8_t scales[12];
    uint8_t high[32];
    uint8_t q[128];
} ig_block_q5_k;

/* d scale (q - 32), groups of 16.  Of each 128 elements, `low` has four bits in split nibbles
 * of 64 bytes and `high` two bits. */
typedef struct IG_PACKED ig_block_q6_k {
    uint8_t low[128];
    uint8_t high[64];
    int8_t scales[16];
    uint16_t d;
} ig_block_q6_k;

/* d value[q], q in split nibbles */
typedef struct IG_PACKED ig_block_iq4_nl {
    uint16_t d;
    uint8_t q[16];
} ig_block_iq4_nl;

/* d (scale - 32) value[q], groups of 32, each in split nibbles.  The low four bits of scale j are a
 * nibble of `low`, the two high ones bits 2j and 2j + 1 of `high`. */
typedef struct IG_PACKED ig_block_iq4_xs {
    uint16_t d;
    uint16_t high;
    uint8_t low[4];
    uint8_t q[128];
} ig_block_iq4_xs;

/* 2^(exponent - 127) value[q], q in split nibbles: the OCP microscaling FP4 */
typedef struct IG_PACKED ig_block_mxfp4 {
    uint8_t exponent;
    uint8_t q[16];
} ig_block_mxfp4;

static_assert(sizeof(ig_block_q4_0) == 18 && sizeof(ig_block_q4_1) == 20, "layout");
static_assert(sizeof(ig_block_q5_0) == 22 && sizeof(ig_block_q5_1) == 24, "layout");
static_assert(sizeof(ig_block_q8_0) == 34 && sizeof(ig_block_q2_k) == 84, "layout");
static_assert(sizeof(ig_block_q3_k) == 110 && sizeof(ig_block_q4_k) == 144, "layout");
static_assert(sizeof(ig_block_q5_k) == 176 && sizeof(ig_block_q6_k) == 210, "layout");
static_assert(sizeof(ig_block_iq4_nl) == 18 && sizeof(ig_block_iq4_xs) == 136, "layout");
static_assert(sizeof(ig_block_mxfp4) == 17, "layout");

/*
 * Scale and min of group j of a q4_k or q5_k block, six bits each:
 *
 *     byte   0..3            4..7            8..11
 *            scale 0..3      min 0..3        scale 4..7 | min 4..7, low nibbles
 *            + 2 bits of     + 2 bits of
 *              scale 4..7      min 4..7
 */
static inline void ig_block_k_scale(const uint8_t *scales, int j, int *scale, int *min) {
    if (j < 4) {
        *scale = scales[j] & 63;
        *min = scales[j + 4] & 63;
    } else {
        *scale = (scales[j + 4] & 15) | (scales[j - 4] >> 6) << 4;
        *min = (scales[j + 4] >> 4) | (scales[j] >> 6) << 4;
    }
}

/* Scale j of a q3_k block, before 32 is subtracted. */
static inline int ig_block_q3_scale(const uint8_t *scales, int j) {
    const int low = scales[j % 8] >> (j < 8 ? 0 : 4) & 15;
    return low | (scales[8 + j % 4] >> 2 * (j / 4) & 3) << 4;
}

/* Scale j of an iq4_xs block, before 32 is subtracted. */
static inline int ig_block_iq4_scale(const ig_block_iq4_xs *b, int j) {
    return (b->low[j / 2] >> 4 * (j % 2) & 15) | (b->high >> 2 * j & 3) << 4;
}

#ifdef __cplusplus
}
#endif
#endif
