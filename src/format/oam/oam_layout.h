/*
 * oam_layout.h - the encoding of .oam files, for oam.c, oam_write.c and their tests.
 *
 * docs/oam.md has a drawing and the rules. The layout is canonical: the same content has one
 * encoding, so nothing can overlap or hide, and every byte is covered by a checksum or checked to
 * be zero.
 */
#ifndef IG_FORMAT_OAM_OAM_LAYOUT_H
#define IG_FORMAT_OAM_OAM_LAYOUT_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "ingot/tensor.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensor bytes are mapped as they are");

enum {
    OAM_VERSION = 1,

    /* The header; its checksum is the last field and covers the others. */
    OAM_AT_VERSION = 4,      /* u32 */
    OAM_AT_HEADER_BYTES = 8, /* u32 */
    OAM_AT_N_SECTIONS = 12,  /* u32 */
    OAM_AT_TABLE = 16,       /* u64, offset of the section table */
    OAM_AT_FILE_BYTES = 24,  /* u64 */
    OAM_AT_TABLE_SUM = 32,   /* u64 */
    OAM_AT_RESERVED = 40,    /* 16 zeros */
    OAM_AT_HEADER_SUM = 56,  /* u64 */
    OAM_HEADER_BYTES = 64,

    /* A row of the section table. */
    OAM_SECTION_KIND = 0,     /* u32 */
    OAM_SECTION_RESERVED = 4, /* u32 zero */
    OAM_SECTION_OFFSET = 8,   /* u64 */
    OAM_SECTION_SIZE = 16,    /* u64 */
    OAM_SECTION_SUM = 24,     /* u64 */
    OAM_SECTION_BYTES = 32,

    /* STATE. */
    OAM_STATE_SEED = 0, /* u64 */
    OAM_STATE_STEP = 8, /* u64 */
    OAM_STATE_BYTES = 16,

    /* INDEX: a count, then entries. Each ends with its 0-terminated name, padded to OAM_ALIGN. */
    OAM_INDEX_COUNT = 0, /* u64 */
    OAM_INDEX_BYTES = 8,
    OAM_ENTRY_OFFSET = 0,      /* u64, from the start of the file */
    OAM_ENTRY_SIZE = 8,        /* u64 */
    OAM_ENTRY_SUM = 16,        /* u64 */
    OAM_ENTRY_ROLE = 24,       /* u32 */
    OAM_ENTRY_DTYPE = 28,      /* u32 */
    OAM_ENTRY_RANK = 32,       /* u32 */
    OAM_ENTRY_NAME_BYTES = 36, /* u32, with the 0 */
    OAM_ENTRY_DIMS = 40,       /* 6 u64, zeros beyond the rank */
    OAM_ENTRY_NAME = 88,

    OAM_ALIGN = 8,         /* of sections and entries, */
    OAM_ALIGN_DATA = 4096, /* of DATA: an OS page, */
    OAM_ALIGN_TENSOR = 64, /* of a tensor: a cache line and the widest vector */

    OAM_MAX_NAME_BYTES = 1024,    /* without the 0 */
    OAM_MAX_TEXT_BYTES = 4 << 20, /* of a JSON text, with the 0 */
};

static_assert(OAM_ENTRY_NAME == OAM_ENTRY_DIMS + 8 * IG_MAX_RANK, "another rank, another version");

#define OAM_MAGIC "OAM\x1a"

/* In this order, each at most once. The first three are JSON texts. */
typedef enum oam_kind {
    OAM_CONFIG = 1,
    OAM_PROGRESS,
    OAM_OPTIMIZER,
    OAM_STATE,
    OAM_INDEX,
    OAM_DATA,
    OAM_KIND_END
} oam_kind;

enum { OAM_N_TEXTS = OAM_OPTIMIZER };

static inline uint64_t oam_section_align(uint32_t kind) {
    return kind == OAM_DATA ? OAM_ALIGN_DATA : OAM_ALIGN;
}

/* The next multiple of `alignment`; false: overflow. */
static inline bool oam_align_up(uint64_t at, uint64_t alignment, uint64_t *out) {
    if (__builtin_add_overflow(at, alignment - 1, &at)) return false;
    *out = at & ~(alignment - 1);
    return true;
}

/* Numbers are little-endian and need not be aligned in memory. */
static inline uint32_t oam_get32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t oam_get64(const uint8_t *p) {
    return oam_get32(p) | (uint64_t)oam_get32(p + 4) << 32;
}

static inline void oam_put32(uint8_t *p, uint32_t value) {
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(value >> 8 * i);
}

static inline void oam_put64(uint8_t *p, uint64_t value) {
    for (int i = 0; i < 8; i++) p[i] = (uint8_t)(value >> 8 * i);
}

/*
 * Shared validation of texts and names. Failures have the given code and a message that starts with
 * `file`.
 */
IG_MUST_CHECK ig_status oam_check_json(ig_status code, const char *file, const char *what,
                                       const char *text);
bool oam_name_valid(const char *name);

typedef struct oam_name {
    const char *name;
    size_t index; /* of its entry */
} oam_name;

/* Sorts by name; returns a duplicate name, or NULL. */
const char *oam_sort_names(oam_name *names, size_t count);

#endif
