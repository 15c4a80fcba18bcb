/*
 * gguf_layout.h - the encoding of GGUF files, for reader, writer and their tests.
 *
 *     "GGUF" version u32, tensors i64, values i64
 *     values    key string, type u32, and by type a number, a string, or an array:
 *               element type u32, count u64, elements
 *     tensors   name string, n_dims u32, extents i64 (innermost first), type u32, offset u64
 *     padding to the alignment, then each tensor's bytes at its offset from here, padded as well
 *
 * A string is a length u64 and bytes. All numbers are little-endian.
 */
#ifndef IG_FORMAT_GGUF_GGUF_LAYOUT_H
#define IG_FORMAT_GGUF_GGUF_LAYOUT_H

#include <assert.h>
#include <string.h>

#include "format/gguf/gguf.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensor bytes are mapped as they are");

#define GGUF_MAGIC         "GGUF"
#define GGUF_KEY_ALIGNMENT "general.alignment"

enum {
    GGUF_VERSION = 3,        /* version written */
    GGUF_VERSION_OLDEST = 2, /* oldest version read; identical on little-endian machines */
    GGUF_HEADER_BYTES = 24,

    GGUF_MIN_VALUE_BYTES = 14,  /* a key of one letter and a one-byte number */
    GGUF_MIN_TENSOR_BYTES = 25, /* a name of one letter, 0 dimensions */
    GGUF_MAX_DIMS = 4,
    GGUF_MAX_NAME_BYTES = 63,    /* of a tensor name */
    GGUF_MAX_LENGTH = 1 << 30,   /* of a string in bytes, of an array in elements */
    GGUF_DEFAULT_ALIGNMENT = 32, /* unless general.alignment is given */
    GGUF_MIN_ALIGNMENT = 8,      /* keeps numbers naturally aligned */

    GGUF_N_TYPES = IG_GGUF_F64 + 1,
    GGUF_N_TENSOR_TYPES = 43, /* tensor type numbers assigned so far */
};

/* Bytes of a number of this type; 0: a string or an array. */
size_t gguf_type_bytes(uint32_t type);

/* Converts a tensor type number. False: unknown, or not supported by the runtime; `*name` is then
 * its name, or NULL if unknown. */
bool gguf_dtype(uint32_t number, ig_dtype *out, const char **name);
uint32_t gguf_dtype_number(ig_dtype dtype);

/* The next multiple of `alignment`, a power of two; false: overflow. */
static inline bool gguf_align_up(uint64_t at, uint64_t alignment, uint64_t *out) {
    if (__builtin_add_overflow(at, alignment - 1, &at)) return false;
    *out = at & ~(alignment - 1);
    return true;
}

/* Reads an unaligned number. */
static inline uint32_t gguf_get32(const uint8_t *p) {
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

static inline uint64_t gguf_get64(const uint8_t *p) {
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

#endif
