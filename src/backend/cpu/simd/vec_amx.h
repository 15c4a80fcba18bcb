/*
 * vec_amx.h - tile registers, beside the operations of vec.h.
 *
 * Eight registers of up to sixteen rows of 64 bytes.  TILE_DOT adds to a tile of sums,
 * of 32 bits each, the products of signed bytes in two others:
 *
 *     TILE_C0 ..    c    [rows, row_bytes]
 *     TILE_A0 ..    a    [rows, 4 steps]          four bytes for each step
 *     TILE_B0 ..    b    [steps, row_bytes]       and the same for each column of c
 *
 * A result depends on its row of a and its column of b alone.  Registers are there from
 * tile_begin(), which says how large they are, to TILE_END(): between, a thread that is
 * interrupted has eight kilobytes more to save.  Their numbers have to be written as
 * such.  TILE_LOAD reads what was written before the last tile_fence() or TILE_STORE.
 */
#ifndef IG_BACKEND_CPU_SIMD_VEC_AMX_H
#define IG_BACKEND_CPU_SIMD_VEC_AMX_H

#include "backend/cpu/simd/vec.h"

/* As LDTILECFG reads it. */
typedef struct tile_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_shapes;
static_assert(sizeof(tile_shapes) == 64, "one line");

#define TILE_C0 0
#define TILE_C1 1
#define TILE_C2 2
#define TILE_C3 3
#define TILE_A0 4
#define TILE_A1 5
#define TILE_B0 6
#define TILE_B1 7

#if defined(IG_EMULATED_TILES)
#    include "backend/cpu/simd/vec_amx_emulated.h"
enum { HAS_TILES = 1, HAS_FAST_TILES = 0 };
#    define TILE_CONFIGURE(shapes)      tile_configure(shapes)
#    define TILE_END()                  tile_end()
#    define TILE_ZERO(c)                tile_zero(c)
#    define TILE_LOAD(to, p, stride)    tile_load(to, p, stride)
#    define TILE_STORE(from, p, stride) tile_store(from, p, stride)
#    define TILE_DOT(c, a, b)           tile_dot(c, a, b)
#elif defined(__AMX_INT8__)
enum { HAS_TILES = 1, HAS_FAST_TILES = 1 };
#    define TILE_CONFIGURE(shapes)      _tile_loadconfig(shapes)
#    define TILE_END()                  _tile_release()
#    define TILE_ZERO(c)                _tile_zero(c)
#    define TILE_LOAD(to, p, stride)    _tile_loadd(to, p, stride)
#    define TILE_STORE(from, p, stride) _tile_stored(from, p, stride)
#    define TILE_DOT(c, a, b)           _tile_dpbssd(c, a, b)
#else /* never called */
enum { HAS_TILES = 0, HAS_FAST_TILES = 0 };
#    define TILE_CONFIGURE(shapes)      ((void)(shapes))
#    define TILE_END()                  ((void)0)
#    define TILE_ZERO(c)                ((void)0)
#    define TILE_LOAD(to, p, stride)    ((void)(p), (void)(stride))
#    define TILE_STORE(from, p, stride) ((void)(p), (void)(stride))
#    define TILE_DOT(c, a, b)           ((void)0)
#endif

/* Takes `by` off each byte, which then has a sign. */
IG_INLINE vi vi_sub_bytes(vi x, int by) {
    typedef uint8_t bytes __attribute__((vector_size(sizeof(vi)), may_alias));
    return (vi)((bytes)x - (uint8_t)by);
}

IG_INLINE void tile_fence(void) { __asm__ volatile("" ::: "memory"); }

IG_INLINE void tile_begin(int64_t rows, int64_t steps, int64_t row_bytes) {
    tile_shapes s = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        const bool is_a = i == TILE_A0 || i == TILE_A1, is_b = i == TILE_B0 || i == TILE_B1;
        s.rows[i] = (uint8_t)(is_b ? steps : rows);
        s.row_bytes[i] = (uint16_t)(is_a ? 4 * steps : row_bytes);
    }
    __asm__ volatile("" ::"r"(&s) : "memory"); /* or a compiler sees no more read than a pointer */
    TILE_CONFIGURE(&s);
}

#endif
