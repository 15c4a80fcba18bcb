/*
 * Writing .oam: all sizes are known in advance, so the header is laid out at once with blank
 * checksums. Each tensor then fills its checksum in the index. The checksums of the index, the
 * other sections, the table and the header follow in this order, each covering the previous ones.
 */
#include "format/oam/oam.h"

#include <inttypes.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY /* for the size of XXH3_state_t */
#include <xxhash.h>

#include "format/oam/oam_layout.h"

struct ig_oam_writer {
    const ig_allocator *allocator;
    XXH3_state_t data_sum; /* of DATA so far */
    uint8_t *head;         /* everything before DATA */
    uint64_t head_bytes, file_bytes;
    uint64_t data_at;    /* the end of the last tensor added */
    uint8_t *next_entry; /* the index entry of the next tensor */
    uint32_t n_sections;
};

/* The text of a kind, or NULL. */
static const char *text_of(const ig_oam_content *content, uint32_t kind) {
    const char *const texts[] = {NULL, content->config, content->progress, content->optimizer};
    return texts[kind];
}

static uint64_t entry_bytes(const ig_oam_entry *entry) {
    uint64_t bytes = 0;
    oam_align_up(OAM_ENTRY_NAME + strlen(entry->name) + 1, OAM_ALIGN, &bytes);
    return bytes;
}

/* ---- Checks ---- */

static ig_status check_entries(const ig_allocator *a, const char *name,
                               const ig_oam_content *content) {
    for (size_t i = 0; i < content->count; i++) {
        const ig_oam_entry *entry = &content->entries[i];
        char shape[IG_SHAPE_TEXT_BYTES];
        uint64_t bytes;
        if (!oam_name_valid(entry->name))
            return IG_FAIL(IG_ERR_ARGUMENT,
                           "%s: the name of tensor %zu is not 1 to %d bytes of UTF-8 without "
                           "control characters",
                           name, i, OAM_MAX_NAME_BYTES);
        if (!ig_desc_bytes(entry->desc, &bytes))
            return IG_FAIL(IG_ERR_ARGUMENT, "%s: %s: %s %s cannot be stored", name, entry->name,
                           ig_dtype_name(entry->desc.dtype),
                           ig_shape_valid(entry->desc.shape)
                               ? ig_shape_text(entry->desc.shape, shape)
                               : "of no valid shape");
    }

    oam_name *names = ig_alloc(a, content->count, sizeof *names);
    if (!names) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %zu names", name, content->count);
    for (size_t i = 0; i < content->count; i++) names[i].name = content->entries[i].name;
    const char *twice = oam_sort_names(names, content->count);
    ig_free(a, names);
    return twice ? IG_FAIL(IG_ERR_ARGUMENT, "%s: two tensors are called %s", name, twice) : IG_OK;
}

static ig_status check_content(const ig_allocator *a, const char *name,
                               const ig_oam_content *content) {
    static const char *const what[] = {NULL, "config", "progress", "optimizer"};
    for (uint32_t kind = 1; kind <= OAM_N_TEXTS; kind++) {
        const char *text = text_of(content, kind);
        if (text) IG_TRY(oam_check_json(IG_ERR_ARGUMENT, name, what[kind], text));
    }
    return check_entries(a, name, content);
}

/* ---- Layout ---- */

typedef struct section {
    uint64_t offset, size;
} section;

/* The end of the last tensor; false: the file would be too large. */
static bool data_end(const ig_oam_content *content, uint64_t at, uint64_t *out) {
    for (size_t i = 0; i < content->count; i++) {
        uint64_t bytes;
        if (!ig_desc_bytes(content->entries[i].desc, &bytes)) return false;
        if (!oam_align_up(at, OAM_ALIGN_TENSOR, &at)) return false;
        if (__builtin_add_overflow(at, bytes, &at)) return false;
    }
    *out = at;
    return at <= INT64_MAX;
}

/* Empty sections are left out, except DATA. */
static bool lay_out(const ig_oam_content *content, section sections[OAM_KIND_END],
                    uint32_t *n_sections) {
    sections[OAM_STATE].size = OAM_STATE_BYTES;
    sections[OAM_INDEX].size = OAM_INDEX_BYTES;
    for (size_t i = 0; i < content->count; i++)
        sections[OAM_INDEX].size += entry_bytes(&content->entries[i]);
    *n_sections = 3;
    for (uint32_t kind = 1; kind <= OAM_N_TEXTS; kind++) {
        const char *text = text_of(content, kind);
        sections[kind].size = text ? strlen(text) + 1 : 0;
        *n_sections += text != NULL;
    }

    uint64_t at = OAM_HEADER_BYTES + (uint64_t)*n_sections * OAM_SECTION_BYTES;
    for (uint32_t kind = 1; kind < OAM_KIND_END; kind++) {
        if (sections[kind].size == 0 && kind != OAM_DATA) continue;
        if (!oam_align_up(at, oam_section_align(kind), &at)) return false;
        sections[kind].offset = at;
        at += sections[kind].size;
    }
    uint64_t end;
    if (!data_end(content, at, &end)) return false;
    sections[OAM_DATA].size = end - at;
    return true;
}

static void put_header(ig_oam_writer *w) {
    memcpy(w->head, OAM_MAGIC, OAM_AT_VERSION);
    oam_put32(w->head + OAM_AT_VERSION, OAM_VERSION);
    oam_put32(w->head + OAM_AT_HEADER_BYTES, OAM_HEADER_BYTES);
    oam_put32(w->head + OAM_AT_N_SECTIONS, w->n_sections);
    oam_put64(w->head + OAM_AT_TABLE, OAM_HEADER_BYTES);
    oam_put64(w->head + OAM_AT_FILE_BYTES, w->file_bytes);
}

static void put_table(ig_oam_writer *w, const section sections[OAM_KIND_END]) {
    uint8_t *row = w->head + OAM_HEADER_BYTES;
    for (uint32_t kind = 1; kind < OAM_KIND_END; kind++) {
        if (sections[kind].size == 0 && kind != OAM_DATA) continue;
        oam_put32(row + OAM_SECTION_KIND, kind);
        oam_put64(row + OAM_SECTION_OFFSET, sections[kind].offset);
        oam_put64(row + OAM_SECTION_SIZE, sections[kind].size);
        row += OAM_SECTION_BYTES;
    }
}

/* Returns the end of the tensor. */
static uint64_t put_entry(uint8_t *p, const ig_oam_entry *entry, uint64_t at) {
    uint64_t bytes = 0;
    ig_desc_bytes(entry->desc, &bytes);
    oam_align_up(at, OAM_ALIGN_TENSOR, &at);
    const size_t name_bytes = strlen(entry->name) + 1;
    oam_put64(p + OAM_ENTRY_OFFSET, at);
    oam_put64(p + OAM_ENTRY_SIZE, bytes);
    oam_put32(p + OAM_ENTRY_ROLE, entry->role);
    oam_put32(p + OAM_ENTRY_DTYPE, entry->desc.dtype);
    oam_put32(p + OAM_ENTRY_RANK, (uint32_t)entry->desc.shape.rank);
    oam_put32(p + OAM_ENTRY_NAME_BYTES, (uint32_t)name_bytes);
    for (int d = 0; d < entry->desc.shape.rank; d++)
        oam_put64(p + OAM_ENTRY_DIMS + 8 * (size_t)d, (uint64_t)entry->desc.shape.dim[d]);
    memcpy(p + OAM_ENTRY_NAME, entry->name, name_bytes);
    return at + bytes;
}

static void put_sections(ig_oam_writer *w, const ig_oam_content *content,
                         const section sections[OAM_KIND_END]) {
    for (uint32_t kind = 1; kind <= OAM_N_TEXTS; kind++)
        if (sections[kind].size > 0)
            memcpy(w->head + sections[kind].offset, text_of(content, kind),
                   (size_t)sections[kind].size);

    oam_put64(w->head + sections[OAM_STATE].offset + OAM_STATE_SEED, content->seed);
    oam_put64(w->head + sections[OAM_STATE].offset + OAM_STATE_STEP, content->step);

    uint8_t *index = w->head + sections[OAM_INDEX].offset;
    oam_put64(index + OAM_INDEX_COUNT, content->count);
    w->next_entry = index + OAM_INDEX_BYTES;
    uint8_t *p = w->next_entry;
    uint64_t at = w->head_bytes;
    for (size_t i = 0; i < content->count; i++) {
        at = put_entry(p, &content->entries[i], at);
        p += entry_bytes(&content->entries[i]);
    }
}

ig_status ig_oam_writer_create(const ig_allocator *a, const char *name,
                               const ig_oam_content *content, ig_oam_writer **out) {
    IG_TRY(check_content(a, name, content));
    section sections[OAM_KIND_END] = {0};
    uint32_t n_sections;
    if (!lay_out(content, sections, &n_sections))
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: its %zu tensors are too large for a file", name,
                       content->count);

    const uint64_t head_bytes = sections[OAM_DATA].offset;
    ig_oam_writer *w = ig_alloc(a, 1, sizeof *w);
    uint8_t *head = ig_alloc(a, 1, (size_t)head_bytes);
    if (!w || !head) {
        ig_free(a, head);
        ig_free(a, w);
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for a head of %" PRIu64 " bytes", name,
                       head_bytes);
    }
    w->allocator = a;
    w->head = head;
    w->head_bytes = w->data_at = head_bytes;
    w->file_bytes = head_bytes + sections[OAM_DATA].size;
    w->n_sections = n_sections;
    XXH3_64bits_reset(&w->data_sum);
    put_header(w);
    put_table(w, sections);
    put_sections(w, content, sections);
    *out = w;
    return IG_OK;
}

void ig_oam_writer_destroy(ig_oam_writer *w) {
    if (!w) return;
    ig_free(w->allocator, w->head);
    ig_free(w->allocator, w);
}

uint64_t ig_oam_writer_file_bytes(const ig_oam_writer *w) { return w->file_bytes; }

/* ---- Sums ---- */

uint64_t ig_oam_writer_add(ig_oam_writer *w, const void *bytes) {
    static const uint8_t zeros[OAM_ALIGN_TENSOR];
    uint8_t *entry = w->next_entry;
    const uint64_t at = oam_get64(entry + OAM_ENTRY_OFFSET),
                   size = oam_get64(entry + OAM_ENTRY_SIZE);
    XXH3_64bits_update(&w->data_sum, zeros, (size_t)(at - w->data_at));
    XXH3_64bits_update(&w->data_sum, bytes, (size_t)size);
    oam_put64(entry + OAM_ENTRY_SUM, XXH3_64bits(bytes, (size_t)size));

    uint64_t step = 0;
    oam_align_up(OAM_ENTRY_NAME + oam_get32(entry + OAM_ENTRY_NAME_BYTES), OAM_ALIGN, &step);
    w->next_entry += step;
    w->data_at = at + size;
    return at;
}

const void *ig_oam_writer_head(ig_oam_writer *w, uint64_t *out_bytes) {
    assert(w->data_at == w->file_bytes); /* all tensors were added */
    uint8_t *table = w->head + OAM_HEADER_BYTES, *row = table;
    for (uint32_t i = 0; i < w->n_sections; i++, row += OAM_SECTION_BYTES) {
        const uint64_t at = oam_get64(row + OAM_SECTION_OFFSET);
        const uint64_t sum =
            oam_get32(row + OAM_SECTION_KIND) == OAM_DATA
                ? XXH3_64bits_digest(&w->data_sum)
                : XXH3_64bits(w->head + at, (size_t)oam_get64(row + OAM_SECTION_SIZE));
        oam_put64(row + OAM_SECTION_SUM, sum);
    }
    oam_put64(w->head + OAM_AT_TABLE_SUM, XXH3_64bits(table, (size_t)(row - table)));
    oam_put64(w->head + OAM_AT_HEADER_SUM, XXH3_64bits(w->head, OAM_AT_HEADER_SUM));
    *out_bytes = w->head_bytes;
    return w->head;
}
