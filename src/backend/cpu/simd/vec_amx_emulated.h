/*
 * vec_amx_emulated.h - tile registers in plain C, for machines that have none.
 *
 * A build with INGOT_EMULATED_TILES runs the kernels of "amx" with these in place of
 * the instructions, to test results (not speed).  Shapes that the processor would
 * refuse end the program, as they would there.
 */
#ifndef IG_BACKEND_CPU_SIMD_VEC_AMX_EMULATED_H
#define IG_BACKEND_CPU_SIMD_VEC_AMX_EMULATED_H

#include <stdlib.h>

typedef struct emulated_tile {
    uint8_t at[16][64];
} emulated_tile;

/* Each thread has its own registers. */
typedef struct emulated_tiles {
    tile_shapes shapes; /* palette 0: none */
    emulated_tile tile[8];
} emulated_tiles;
static _Thread_local emulated_tiles emulated;

static inline void emulated_need(bool fits) {
    if (!fits) abort();
}

static inline void tile_configure(const tile_shapes *s) {
    emulated_need(s->palette == 1 && s->start_row == 0);
    for (int i = 0; i < 8; i++)
        emulated_need(s->rows[i] <= 16 && s->row_bytes[i] <= 64 && s->rows[i] && s->row_bytes[i]);
    emulated = (emulated_tiles){.shapes = *s};
}

static inline void tile_end(void) { emulated = (emulated_tiles){.shapes.palette = 0}; }

static inline emulated_tile *emulated_at(int i) {
    emulated_need(emulated.shapes.palette == 1);
    return &emulated.tile[i];
}

static inline void tile_zero(int c) { *emulated_at(c) = (emulated_tile){{{0}}}; }

static inline void tile_load(int to, const void *p, int64_t stride) {
    tile_zero(to);
    for (int r = 0; r < emulated.shapes.rows[to]; r++)
        memcpy(emulated_at(to)->at[r], (const char *)p + r * stride, emulated.shapes.row_bytes[to]);
}

static inline void tile_store(int from, void *p, int64_t stride) {
    const emulated_tile *t = emulated_at(from);
    for (int r = 0; r < emulated.shapes.rows[from]; r++)
        memcpy((char *)p + r * stride, t->at[r], emulated.shapes.row_bytes[from]);
}

static inline const tile_shapes *emulated_factors(int c, int a, int b) {
    const tile_shapes *s = &emulated.shapes;
    emulated_need(s->rows[c] == s->rows[a] && s->row_bytes[c] == s->row_bytes[b] &&
                  s->row_bytes[a] == 4 * s->rows[b]);
    return s;
}

/* No other thread sees these registers: ThreadSanitizer would look at every byte of them. */
__attribute__((no_sanitize("thread"))) static inline void tile_dot(int c, int a, int b) {
    const tile_shapes *s = emulated_factors(c, a, b);
    const emulated_tile *left = emulated_at(a), *right = emulated_at(b);
    emulated_tile *to = emulated_at(c);
    for (int r = 0; r < s->rows[c]; r++)
        for (int n = 0; n < s->row_bytes[c] / 4; n++) {
            int32_t sum;
            memcpy(&sum, to->at[r] + 4 * n, sizeof sum);
            for (int k = 0; k < s->row_bytes[a]; k++)
                sum += (int8_t)left->at[r][k] * (int8_t)right->at[k / 4][4 * n + k % 4];
            memcpy(to->at[r] + 4 * n, &sum, sizeof sum);
        }
}

#endif
