/*
 * Packs weights for the multipliers.
 *
 *     tile of 16 columns   f32   k times: 16 high, 16 middle, 16 low parts, 8 bits each
 *                          f16   k times: 16 high, 16 low parts, 8 and 3 bits
 *                          bf16  k times: 16 numbers
 *                          int8  16 scales (f32), then k times 16 integers
 *
 * The last tile is padded with zero columns.
 */
#include "backend/simnpu/npu.h"

#include <math.h>

uint16_t npu_round(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40); /* NaN stays */
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

float npu_widen(uint16_t x) {
    const uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

float npu_half(float x) {
    int exponent;
    if (x == 0 || isnan(x)) return x;
    if (fabsf(x) >= 65520) return copysignf(INFINITY, x);
    (void)frexpf(x, &exponent);
    const float step = ldexpf(1, (exponent < -13 ? -13 : exponent) - 11); /* least normal: 2^-14 */
    return rintf(x / step) * step;
}

/* ---- what weights come as ---- */

bool npu_reads(ig_dtype dtype) { return dtype == IG_F32 || dtype == IG_BF16 || dtype == IG_Q8_0; }

/* F16: 1 bit sign, 5 exponent, 10 mantissa. */
static float widen_half(uint16_t h) {
    const int exponent = h >> 10 & 31, mantissa = h & 1023;
    const float sign = h & 0x8000 ? -1.0f : 1.0f;
    if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
    if (exponent == 0) return sign * ldexpf((float)mantissa, -24);
    return sign * ldexpf((float)(mantissa + 1024), exponent - 25);
}

/* A block of Q8_0 is an F16 scale and 32 integers. */
static void decode_q8_0(const unsigned char *block, float *out, int64_t n) {
    for (; n > 0; n -= 32, block += 34, out += 32) {
        const float scale = widen_half((uint16_t)(block[0] | block[1] << 8));
        for (int i = 0; i < 32; i++) out[i] = scale * (float)(int8_t)block[2 + i];
    }
}

void npu_decode(ig_dtype dtype, const void *bytes, float *out, int64_t n) {
    if (dtype == IG_Q8_0) decode_q8_0(bytes, out, n);
    if (dtype == IG_F32 && n > 0) memcpy(out, bytes, (size_t)n * sizeof *out);
    for (int64_t i = 0; i < n && dtype == IG_BF16; i++) {
        uint16_t x;
        memcpy(&x, (const char *)bytes + i * 2, sizeof x);
        out[i] = npu_widen(x);
    }
}

/* ---- what becomes of them ---- */

uint64_t npu_packed_bytes(npu_precision precision, int64_t k, int64_t n) {
    const uint64_t tiles = (uint64_t)(n + NPU_LANES - 1) / NPU_LANES, rows = (uint64_t)k;
    const uint64_t each = precision == NPU_F32    ? 6
                          : precision == NPU_F16  ? 4
                          : precision == NPU_BF16 ? 2
                                                  : 1;
    const uint64_t scales = precision == NPU_INT8 ? sizeof(float) : 0;
    return tiles * NPU_LANES * (rows * each + scales);
}

/* One column of a tile: `at` is the address of its first row. */
typedef struct column {
    const float *w;
    int64_t k, stride;
} column;

static void pack_planes(column c, uint16_t *at, int planes, bool half) {
    for (int64_t i = 0; i < c.k; i++, at += planes * NPU_LANES) {
        float rest = half ? npu_half(c.w[i * c.stride]) : c.w[i * c.stride];
        for (int p = 0; p < planes; p++) {
            at[p * NPU_LANES] = npu_round(rest);
            rest -= npu_widen(at[p * NPU_LANES]);
        }
    }
}

/* The scale with the least squared error of 1, 4 or 16 candidates, starting with max |w| / 127. */
static float best_scale(column c, int level) {
    const int steps = level == 1 ? 1 : level == 2 ? 4 : 16;
    float most = 0, best = 0;
    double least = HUGE_VAL;
    for (int64_t i = 0; i < c.k; i++) most = fmaxf(most, fabsf(c.w[i * c.stride]));
    for (int step = 0; step < steps && most > 0; step++) {
        const float scale = most / (127.0f + 2.0f * (float)step);
        double error = 0;
        for (int64_t i = 0; i < c.k; i++) {
            const float x = c.w[i * c.stride] / scale;
            const float q = fminf(fmaxf(rintf(x), -127), 127);
            error += (double)((x - q) * (x - q) * scale * scale);
        }
        if (error < least) least = error, best = scale;
    }
    return best;
}

static void pack_integers(column c, int level, float *scale, int8_t *at) {
    *scale = best_scale(c, level);
    for (int64_t i = 0; i<c.k && * scale> 0; i++)
        at[i * NPU_LANES] = (int8_t)fminf(fmaxf(rintf(c.w[i * c.stride] / *scale), -127), 127);
}

void npu_pack(npu_precision precision, const npu_matrix *m, int level, void *out) {
    const int planes = precision == NPU_F32 ? 3 : precision == NPU_F16 ? 2 : 1;
    memset(out, 0, npu_packed_bytes(precision, m->k, m->n));
    for (int64_t j = 0; j < m->n; j++) {
        const int64_t tile = j / NPU_LANES, lane = j % NPU_LANES;
        char *at = (char *)out + (uint64_t)tile * npu_packed_bytes(precision, m->k, NPU_LANES);
        const column c = {m->w + j * m->stride_n, m->k, m->stride_k};
        if (precision == NPU_INT8)
            pack_integers(c, level, (float *)at + lane,
                          (int8_t *)at + NPU_LANES * sizeof(float) + lane);
        else
            pack_planes(c, (uint16_t *)at + lane, planes, precision == NPU_F16);
    }
}

/* FNV-1a over words in eight lanes: detects a corrupt artifact before it runs. */
uint64_t npu_hash(const void *bytes, uint64_t count) {
    enum { LANES = 8 };
    uint64_t hash[LANES], all = 0xcbf29ce484222325u, word[LANES];
    const char *at = bytes;
    for (int l = 0; l < LANES; l++) hash[l] = all + (uint64_t)l;
    for (uint64_t i = 0; i + sizeof word <= count; i += sizeof word) {
        memcpy(word, at + i, sizeof word);
        for (int l = 0; l < LANES; l++) {
            hash[l] = (hash[l] ^ word[l]) * 0x100000001b3u;
            hash[l] ^= hash[l] >> 29;
        }
    }
    for (int l = 0; l < LANES; l++) all = (all ^ hash[l]) * 0x100000001b3u;
    for (uint64_t i = count / sizeof word * sizeof word; i < count; i++)
        all = (all ^ (unsigned char)at[i]) * 0x100000001b3u;
    return all;
}
