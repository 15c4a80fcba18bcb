/*
 * The loops of cpu_roofline.h for one instruction set.
 *
 * Both arithmetic loops carry twelve independent sums: more than latency times
 * throughput of any machine so far, and few enough for sixteen registers.
 */
#include "backend/cpu/cpu_roofline.h"
#include "backend/cpu/simd/vec_amx.h"
#include "backend/cpu/simd/vec_dot_u8s8.h"

enum { SUMS = 12, TILE_SUMS = 4, AHEAD = 512 /* bytes between a read and its prefetch */ };

static void read_streams(const char *p, uint64_t stride, uint64_t bytes, int32_t *sink) {
    enum { LINE_VECTORS = IG_LINE_BYTES / (4 * VF_LANES) };
    vi seen[IG_READ_STREAMS];
    for (int s = 0; s < IG_READ_STREAMS; s++) seen[s] = vi_set(0);
    for (uint64_t at = 0; at < bytes; at += IG_LINE_BYTES)
        for (uint64_t s = 0; s < IG_READ_STREAMS; s++) {
            const char *line = p + s * stride + at;
            __builtin_prefetch(line + AHEAD);
            for (int v = 0; v < LINE_VECTORS; v++)
                seen[s] = vi_xor(seen[s], vi_load((const int32_t *)line + v * VF_LANES));
        }
    for (int s = 1; s < IG_READ_STREAMS; s++) seen[0] = vi_xor(seen[0], seen[s]);
    memcpy(sink, &seen[0], sizeof seen[0]);
}

/* x = x a + b, which goes to b / (1 - a): no overflow, and nothing that could be left out. */
static void fma_rounds(uint64_t rounds, float *sink) {
    const vf a = vf_set(0.5f), b = vf_set(0.25f);
    vf x[SUMS];
    for (int i = 0; i < SUMS; i++) x[i] = vf_set((float)i);
    for (uint64_t round = 0; round < rounds; round++)
        for (int i = 0; i < SUMS; i++) x[i] = vf_fma(x[i], a, b);
    for (int i = 1; i < SUMS; i++) x[0] = vf_add(x[0], x[i]);
    memcpy(sink, &x[0], sizeof x[0]);
}

static void dot_rounds(uint64_t rounds, int32_t *sink) {
    vi u = vi_set(0x01020304), s = vi_set(0x010102ff); /* sums of 5: 32 bits last for long */
    vi x[SUMS];
    for (int i = 0; i < SUMS; i++) x[i] = vi_set(i);
    for (uint64_t round = 0; round < rounds; round++)
        for (int i = 0; i < SUMS; i++) {
            vi_hide(&s);
            x[i] = vi_dot(x[i], u, s);
        }
    for (int i = 1; i < SUMS; i++) x[0] = vi_add(x[0], x[i]);
    memcpy(sink, &x[0], sizeof x[0]);
}

/* The same with AMX tiles of full size: four sums, as many as there are registers for. */
static void tile_rounds(uint64_t rounds, int32_t *sink) {
    enum { ROWS = 16, STEPS = 16 };
    _Alignas(64) int8_t bytes[ROWS][4 * STEPS];
    memset(bytes, 1, sizeof bytes);
    tile_begin(ROWS, STEPS, sizeof *bytes);
    tile_fence();
    TILE_LOAD(TILE_A0, bytes, sizeof *bytes);
    TILE_LOAD(TILE_B0, bytes, sizeof *bytes);
    TILE_ZERO(TILE_C0);
    TILE_ZERO(TILE_C1);
    TILE_ZERO(TILE_C2);
    TILE_ZERO(TILE_C3);
    for (uint64_t round = 0; round < rounds; round++) {
        TILE_DOT(TILE_C0, TILE_A0, TILE_B0);
        TILE_DOT(TILE_C1, TILE_A0, TILE_B0);
        TILE_DOT(TILE_C2, TILE_A0, TILE_B0);
        TILE_DOT(TILE_C3, TILE_A0, TILE_B0);
    }
    TILE_STORE(TILE_C0, bytes, sizeof *bytes);
    memcpy(sink, bytes, sizeof *bytes);
    TILE_END();
}

extern const ig_cpu_roofline IG_CPU_LIST(roofline);
const ig_cpu_roofline IG_CPU_LIST(roofline) = {
    .read = read_streams,
    .fma = fma_rounds,
    .dot = HAS_FAST_TILES ? tile_rounds : dot_rounds,
    .fma_ops = 2 * SUMS * VF_LANES,
    .dot_ops = HAS_FAST_TILES ? 2 * TILE_SUMS * 16 * 16 * 64 : 2 * SUMS * VF_LANES * 4,
};
