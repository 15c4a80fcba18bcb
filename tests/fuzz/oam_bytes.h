/*
 * oam_bytes.h - .oam files in memory, for the fuzz harness and the unit tests.
 *
 * oam_encode() writes one.  oam_repair() sets all checksums right after bytes
 * have been changed, so that what lies behind the sums is reached.
 */
#ifndef OAM_BYTES_H
#define OAM_BYTES_H

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "format/oam/oam.h"
#include "format/oam/oam_layout.h"

typedef struct oam_bytes {
    uint8_t *bytes; /* malloc'd to the size, so that a sanitizer sees every read beyond */
    size_t size;
} oam_bytes;

/* bytes[i] are those of tensor i.  An empty result: the content was refused. */
static inline oam_bytes oam_encode(const ig_oam_content *content, const void *const *bytes) {
    ig_oam_writer *writer = NULL;
    if (ig_oam_writer_create(&ig_heap, "sample", content, &writer) != IG_OK)
        return (oam_bytes){NULL, 0};
    oam_bytes file = {NULL, (size_t)ig_oam_writer_file_bytes(writer)};
    file.bytes = calloc(1, file.size);
    for (size_t i = 0; i < content->count; i++) {
        uint64_t n_bytes = 0;
        const uint64_t at = ig_oam_writer_add(writer, bytes[i]);
        ig_desc_bytes(content->entries[i].desc, &n_bytes);
        if (n_bytes > 0 && bytes[i]) memcpy(file.bytes + at, bytes[i], (size_t)n_bytes);
    }
    uint64_t head_bytes;
    const void *head = ig_oam_writer_head(writer, &head_bytes);
    memcpy(file.bytes, head, (size_t)head_bytes);
    ig_oam_writer_destroy(writer);
    return file;
}

static inline bool oam_inside(size_t size, uint64_t at, uint64_t n_bytes) {
    return at <= size && n_bytes <= size - at;
}

/* The sums of the tensors, as far as the entries can be followed. */
static inline void oam_repair_index(uint8_t *file, size_t size, uint64_t at, uint64_t n_bytes) {
    const uint64_t end = at + n_bytes;
    at += OAM_INDEX_BYTES;
    while (oam_inside((size_t)end, at, OAM_ENTRY_NAME)) {
        uint8_t *entry = file + at;
        const uint64_t offset = oam_get64(entry + OAM_ENTRY_OFFSET);
        const uint64_t bytes = oam_get64(entry + OAM_ENTRY_SIZE);
        if (oam_inside(size, offset, bytes))
            oam_put64(entry + OAM_ENTRY_SUM, XXH3_64bits(file + offset, (size_t)bytes));
        uint64_t step = OAM_ALIGN;
        oam_align_up(OAM_ENTRY_NAME + (uint64_t)oam_get32(entry + OAM_ENTRY_NAME_BYTES), OAM_ALIGN,
                     &step);
        at += step;
    }
}

/* Inner sums first: each is covered by the next. */
static inline void oam_repair(uint8_t *file, size_t size) {
    if (size < OAM_HEADER_BYTES) return;
    const uint64_t table_bytes = (uint64_t)oam_get32(file + OAM_AT_N_SECTIONS) * OAM_SECTION_BYTES;
    if (oam_inside(size, OAM_HEADER_BYTES, table_bytes)) {
        uint8_t *const table = file + OAM_HEADER_BYTES;
        for (uint8_t *row = table; row < table + table_bytes; row += OAM_SECTION_BYTES) {
            const uint64_t at = oam_get64(row + OAM_SECTION_OFFSET);
            const uint64_t bytes = oam_get64(row + OAM_SECTION_SIZE);
            if (!oam_inside(size, at, bytes)) continue;
            if (oam_get32(row + OAM_SECTION_KIND) == OAM_INDEX)
                oam_repair_index(file, size, at, bytes);
            oam_put64(row + OAM_SECTION_SUM, XXH3_64bits(file + at, (size_t)bytes));
        }
        oam_put64(file + OAM_AT_TABLE_SUM, XXH3_64bits(table, (size_t)table_bytes));
    }
    oam_put64(file + OAM_AT_HEADER_SUM, XXH3_64bits(file, OAM_AT_HEADER_SUM));
}

#endif
