/*
 * qtypes.h - operands of int8 GEMM: quantization types, unpacked weights, quantized activations.
 *
 * The int8 dot instructions take at each step four weights of every column:
 *
 *     step 0    c0 k0..3 | c1 k0..3 | ... | c15 k0..3       a block of 32 elements
 *     step 1    c0 k4..7 | c1 k4..7 | ... | c15 k4..7       is eight steps
 *
 * A block of products is summed exactly, in int32 (acc), and goes into the F32 result by
 *
 *     sum = sum + (weight scale * activation scale) * acc        one scale
 *     sum = sum + activation scale * (weight scale * acc)        the same where acc uses MAGIC_BITS
 *     sum = sum + activation scale * (scale 0 * acc 0 + ...)     two, unless SPLIT_SCALE_ACC
 *     sum = sum + min * (activation scale * sum of bytes)        with a min
 *
 * block after block, in a lane of its own for each column.  That accumulation order defines a
 * result, so its bits do not depend on M, on how the work is cut, or on the path:
 *
 *     file block > packed group > registers     M = 1, M <= 32    qgemm_m32_stream.h
 *                                               M <= 8, AMX       qgemm_m8_registers.h
 *                               > panel         any M             qgemm_mn_vnni.h, qgemm_mn_amx.h
 *     file block                > panel         unpacked weights  qgemm_mn_vnni.h, qgemm_mn_amx.h
 */
#ifndef IG_BACKEND_CPU_QGEMM_QTYPES_H
#define IG_BACKEND_CPU_QGEMM_QTYPES_H

#include "backend/cpu/simd/vec_amx.h"
#include "backend/cpu/simd/vec_dot_u8s8.h"
#include "ingot/blocks.h"

enum {
    QNR = 16,                       /* columns of a group */
    PANEL_VECTORS = QNR / VF_LANES, /* of a step */
    STEPS = IG_BLOCK / 4,           /* of a block: four elements of k each */
    STEP_BYTES = 4 * QNR,
    LINE = 64,                            /* bytes of a cache line */
    BLOCKS_PER_K = IG_BLOCK_K / IG_BLOCK, /* blocks of 32 in a super-block */
    PANEL_BLOCKS = HAS_TILES ? 16 : 64,   /* at most: processors with AMX have a larger L1 */
    SPLIT_SCALE_ACC = HAS_TILES,          /* see n_magic_acc() */
};

/* Unpacked weights of a column group: unsigned bytes q, each scale * (q - zero_point) + min.
 * Scales are [block][scale group][column]. */
typedef struct panel {
    _Alignas(64) uint8_t w[PANEL_BLOCKS][STEPS][STEP_BYTES];
    _Alignas(64) float scale[PANEL_BLOCKS][2][QNR];
    _Alignas(64) float min[PANEL_BLOCKS][2][QNR];
    _Alignas(64) float magic_bias[PANEL_BLOCKS][1 + SPLIT_SCALE_ACC][QNR];
} panel;

/* The scales of a block of 32. */
typedef enum quant_kind {
    ONE_SCALE,  /* for all 32 */
    WITH_MIN,   /* and a min */
    K_MIN,      /* the same in a K-quant super-block, as the next two */
    TWO_SCALES, /* one for each 16 */
    TWO_MINS,   /* and a min for each */
} quant_kind;

/* Scales of a block: one for each scale group of 32 or 16 elements. */
IG_INLINE int scales_per_block(const quant_kind kind) { return kind >= TWO_SCALES ? 2 : 1; }
IG_INLINE bool kind_has_min(const quant_kind kind) {
    return kind == WITH_MIN || kind == K_MIN || kind == TWO_MINS;
}

/*
 * Conversion of int32 to F32 by a magic number.  Accumulators of K_MIN and later kinds start from
 * MAGIC_BITS, so their bits are those of the float 1.5 * 2^23 + acc, and scale * acc takes one fma:
 * scale * float + magic_bias, with magic_bias = -scale * 1.5 * 2^23.  Scales have few enough bits
 * for the product to be exact, so the result is rounded once.  It saves nothing where an
 * accumulator does not start in a register (DOT_IN_PAIRS), and plain C rounds twice.  Other kinds
 * multiply both scales first and round activations as llama.cpp does.
 */
enum { MAGIC_BITS = 0x4b400000, MAGIC_FLOAT = 3 << 22 };
IG_INLINE bool kind_uses_magic(const quant_kind kind) {
    return kind >= K_MIN && !DOT_IN_PAIRS && VF_LANES > 1;
}

/* Accumulators of a block that start from MAGIC_BITS.  With two pipes for all arithmetic
 * (SPLIT_SCALE_ACC) the scale groups are added to the sum one after the other: no conversion, fewer
 * registers.  With one pipe that multiplies and one that converts, it is faster to convert the
 * second accumulator and to add both before they meet the scale of the activations. */
IG_INLINE int n_magic_acc(const quant_kind kind) {
    return !kind_uses_magic(kind) ? 0 : SPLIT_SCALE_ACC ? scales_per_block(kind) : 1;
}
IG_INLINE bool adds_scale_groups_first(const quant_kind kind) {
    return scales_per_block(kind) == 2 && n_magic_acc(kind) < 2;
}

/* The value that the accumulator of scale group `sg` starts from. */
IG_INLINE int32_t acc_start(const quant_kind kind, const int sg) {
    return sg < n_magic_acc(kind) ? MAGIC_BITS : 0;
}

typedef struct quant_type {
    quant_kind kind;
    int zero_point;  /* subtracted from each byte */
    bool is_wide;    /* bytes use all eight bits */
    bool is_k;       /* K-quant super-blocks, with small scales */
    bool has_powers; /* scales are powers of two */
} quant_type;

static const quant_type quant_types[IG_DTYPE_COUNT] = {
    [IG_Q4_0] = {.zero_point = 8},
    [IG_Q4_1] = {.kind = WITH_MIN},
    [IG_Q5_0] = {.zero_point = 16},
    [IG_Q5_1] = {.kind = WITH_MIN},
    [IG_Q8_0] = {.zero_point = 128, .is_wide = true},
    [IG_Q2_K] = {.kind = TWO_MINS, .is_k = true},
    [IG_Q3_K] = {.kind = TWO_SCALES, .zero_point = 4, .is_k = true},
    [IG_Q4_K] = {.kind = K_MIN, .is_k = true},
    [IG_Q5_K] = {.kind = K_MIN, .is_k = true},
    [IG_Q6_K] = {.kind = TWO_SCALES, .zero_point = 32, .is_k = true},
    [IG_IQ4_NL] = {.zero_point = 128, .is_wide = true},
    [IG_IQ4_XS] = {.zero_point = 128, .is_wide = true, .is_k = true},
    [IG_MXFP4] = {.zero_point = 128, .is_wide = true, .has_powers = true},
};

IG_INLINE int scales_per_block_of(const ig_dtype type) {
    return scales_per_block(quant_types[type].kind);
}

/* The values of the nibbles of table types, plus 128. */
static const uint8_t iq4_byte[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                     129, 141, 153, 166, 181, 197, 217, 241};
static const uint8_t mxfp4_byte[16] = {128, 129, 130, 131, 132, 134, 136, 140,
                                       128, 127, 126, 125, 124, 122, 120, 116};

/* 32 activations.  `correction`, for each scale group of the weights or the first for all: what the
 * accumulator starts from, -zero_point * sum of q as an int32_t (from MAGIC_BITS on where those are
 * used); or for types with a min, scale * sum of q as a float. */
typedef struct act_q8 {
    int8_t q[IG_BLOCK];
    float scale;
    uint32_t correction[2];
} act_q8;

/* Some rows of activations, `stride` blocks apart. */
typedef struct act_q8_rows {
    const act_q8 *x;
    int64_t stride, count;
} act_q8_rows;

#endif
