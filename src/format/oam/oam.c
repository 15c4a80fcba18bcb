/*
 * Reading .oam: header, section table, sections and index are each verified by checksum before they
 * are parsed, and checked against the file size before they are used. A checksum detects accidents,
 * not attacks, so every number is checked as well. The layout has one encoding (oam_layout.h), so
 * most checks compare with the only valid value, and nothing can overlap.
 */
#include "format/oam/oam.h"

#include <inttypes.h>
#include <string.h>

#define XXH_STATIC_LINKING_ONLY /* for the size of XXH3_state_t */
#include <xxhash.h>

#include "format/oam/oam_layout.h"

typedef struct section {
    uint64_t offset, size, sum;
    bool present;
} section;

struct ig_oam {
    const ig_allocator *allocator;
    const char *name;
    const uint8_t *bytes;
    uint64_t size;
    section sections[OAM_KIND_END]; /* by kind */
    const uint8_t **entries;        /* in the index, in the order of the file */
    oam_name *names;                /* sorted */
    size_t count;
};

static const char *const kind_names[OAM_KIND_END] = {
    "",
    [OAM_CONFIG] = "CONFIG",
    [OAM_PROGRESS] = "PROGRESS",
    [OAM_OPTIMIZER] = "OPTIMIZER",
    [OAM_STATE] = "STATE",
    [OAM_INDEX] = "INDEX",
    [OAM_DATA] = "DATA",
};

static bool all_zero(const uint8_t *p, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; i++)
        if (p[i] != 0) return false;
    return true;
}

static bool sum_fits(const uint8_t *p, uint64_t bytes, uint64_t sum) {
    return XXH3_64bits(p, (size_t)bytes) == sum;
}

/* ---- Header and table ---- */

/* Models are tried as GGUF first, so a wrong magic here means neither, unless the caller asked for
 * .oam. */
static ig_status check_magic(const ig_oam *oam) {
    const size_t n = oam->size < OAM_AT_VERSION ? (size_t)oam->size : OAM_AT_VERSION;
    if (n == 0 || memcmp(oam->bytes, OAM_MAGIC, n) == 0) return IG_OK;
    if (n >= 4 && memcmp(oam->bytes, "GGUF", 4) == 0)
        return IG_FAIL(IG_ERR_FORMAT, "%s: is a .gguf file, and not an .oam file", oam->name);
    return IG_FAIL(IG_ERR_FORMAT, "%s: is neither an .oam nor a .gguf file", oam->name);
}

static ig_status check_header(const ig_oam *oam) {
    const uint8_t *p = oam->bytes;
    IG_TRY(check_magic(oam));
    if (oam->size < OAM_HEADER_BYTES)
        return IG_FAIL(IG_ERR_FORMAT, "%s: has %" PRIu64 " bytes, fewer than an .oam header (%d)",
                       oam->name, oam->size, OAM_HEADER_BYTES);

    /* Before the checksum: a later version may store it elsewhere. */
    const uint32_t version = oam_get32(p + OAM_AT_VERSION);
    if (version > OAM_VERSION)
        return IG_FAIL(IG_ERR_FORMAT, "%s: is of .oam version %u, this program reads up to %d",
                       oam->name, version, OAM_VERSION);
    if (!sum_fits(p, OAM_AT_HEADER_SUM, oam_get64(p + OAM_AT_HEADER_SUM)))
        return IG_FAIL(IG_ERR_FORMAT, "%s: the header is damaged (checksum)", oam->name);

    const uint64_t file_bytes = oam_get64(p + OAM_AT_FILE_BYTES);
    if (file_bytes != oam->size)
        return IG_FAIL(IG_ERR_FORMAT, "%s: is %s: %" PRIu64 " bytes, the header says %" PRIu64,
                       oam->name, oam->size < file_bytes ? "cut off" : "too long", oam->size,
                       file_bytes);
    if (version == 0 || oam_get32(p + OAM_AT_HEADER_BYTES) != OAM_HEADER_BYTES ||
        oam_get64(p + OAM_AT_TABLE) != OAM_HEADER_BYTES ||
        !all_zero(p + OAM_AT_RESERVED, OAM_AT_HEADER_SUM - OAM_AT_RESERVED))
        return IG_FAIL(IG_ERR_FORMAT, "%s: the header of version %u has values that it never has",
                       oam->name, version);
    return IG_OK;
}

/* One row. `*kind` and `*end` are those of the previous section, then of this one. */
static ig_status read_section(ig_oam *oam, const uint8_t *row, uint32_t *kind, uint64_t *end) {
    const uint32_t this_kind = oam_get32(row + OAM_SECTION_KIND);
    if (this_kind <= *kind || this_kind >= OAM_KIND_END)
        return IG_FAIL(IG_ERR_FORMAT, "%s: a section of kind %u after one of kind %u", oam->name,
                       this_kind, *kind);
    if (oam_get32(row + OAM_SECTION_RESERVED) != 0)
        return IG_FAIL(IG_ERR_FORMAT, "%s: the table's row of %s has values that it never has",
                       oam->name, kind_names[this_kind]);

    section *s = &oam->sections[this_kind];
    *s = (section){oam_get64(row + OAM_SECTION_OFFSET), oam_get64(row + OAM_SECTION_SIZE),
                   oam_get64(row + OAM_SECTION_SUM), true};
    uint64_t begin;
    if (!oam_align_up(*end, oam_section_align(this_kind), &begin) || s->offset != begin ||
        begin > oam->size || s->size > oam->size - begin)
        return IG_FAIL(IG_ERR_FORMAT,
                       "%s: %s has %" PRIu64 " bytes at %" PRIu64 ", after a section that ends at "
                       "%" PRIu64 " of %" PRIu64,
                       oam->name, kind_names[this_kind], s->size, s->offset, *end, oam->size);
    if (!all_zero(oam->bytes + *end, begin - *end))
        return IG_FAIL(IG_ERR_FORMAT, "%s: the bytes before %s are not zeros", oam->name,
                       kind_names[this_kind]);
    *kind = this_kind;
    *end = begin + s->size;
    return IG_OK;
}

static ig_status read_table(ig_oam *oam) {
    const uint32_t count = oam_get32(oam->bytes + OAM_AT_N_SECTIONS);
    const uint64_t table_bytes = (uint64_t)count * OAM_SECTION_BYTES;
    if (count >= OAM_KIND_END || table_bytes > oam->size - OAM_HEADER_BYTES)
        return IG_FAIL(IG_ERR_FORMAT, "%s: has %u sections, at most %d fit", oam->name, count,
                       OAM_KIND_END - 1);
    const uint8_t *table = oam->bytes + OAM_HEADER_BYTES;
    if (!sum_fits(table, table_bytes, oam_get64(oam->bytes + OAM_AT_TABLE_SUM)))
        return IG_FAIL(IG_ERR_FORMAT, "%s: the section table is damaged (checksum)", oam->name);

    uint32_t kind = 0;
    uint64_t end = OAM_HEADER_BYTES + table_bytes;
    for (uint32_t i = 0; i < count; i++)
        IG_TRY(read_section(oam, table + (uint64_t)i * OAM_SECTION_BYTES, &kind, &end));
    if (end != oam->size)
        return IG_FAIL(IG_ERR_FORMAT, "%s: the sections end at %" PRIu64 " of %" PRIu64 " bytes",
                       oam->name, end, oam->size);
    for (uint32_t k = OAM_STATE; k < OAM_KIND_END; k++)
        if (!oam->sections[k].present)
            return IG_FAIL(IG_ERR_FORMAT, "%s: has no section %s", oam->name, kind_names[k]);
    return IG_OK;
}

/* ---- Sections ---- */

static ig_status check_sums(const ig_oam *oam) {
    for (uint32_t kind = 1; kind < OAM_DATA; kind++) {
        const section *s = &oam->sections[kind];
        if (s->present && !sum_fits(oam->bytes + s->offset, s->size, s->sum))
            return IG_FAIL(IG_ERR_FORMAT, "%s: section %s is damaged (checksum)", oam->name,
                           kind_names[kind]);
    }
    return IG_OK;
}

static const char *text_of(const ig_oam *oam, oam_kind kind) {
    const section *s = &oam->sections[kind];
    return s->present ? (const char *)oam->bytes + s->offset : NULL;
}

/* A text ends with its only 0, so it can be lent in place. */
static ig_status check_text(const ig_oam *oam, oam_kind kind) {
    const section *s = &oam->sections[kind];
    const char *text = text_of(oam, kind);
    if (!text) return IG_OK;
    if (s->size == 0 || memchr(text, '\0', (size_t)s->size) != text + s->size - 1)
        return IG_FAIL(IG_ERR_FORMAT, "%s: %s is not a text that ends with a 0", oam->name,
                       kind_names[kind]);
    return oam_check_json(IG_ERR_FORMAT, oam->name, kind_names[kind], text);
}

/* ---- Index ---- */

/* Without the address of its bytes: the offset may be unchecked; the rank is checked. */
static ig_checkpoint_tensor decode(const uint8_t *entry) {
    ig_checkpoint_tensor t = {
        .name = (const char *)entry + OAM_ENTRY_NAME,
        .role = (ig_checkpoint_role)oam_get32(entry + OAM_ENTRY_ROLE),
        .desc.dtype = (ig_dtype)oam_get32(entry + OAM_ENTRY_DTYPE),
        .desc.shape.rank = (int32_t)oam_get32(entry + OAM_ENTRY_RANK),
        .n_bytes = oam_get64(entry + OAM_ENTRY_SIZE),
        .offset = oam_get64(entry + OAM_ENTRY_OFFSET),
        .checksum = oam_get64(entry + OAM_ENTRY_SUM),
    };
    for (int d = 0; d < t.desc.shape.rank; d++)
        t.desc.shape.dim[d] = (int64_t)oam_get64(entry + OAM_ENTRY_DIMS + 8 * (size_t)d);
    return t;
}

/* The size of an entry with its name; 0: more than `room` bytes, or an invalid name. */
static uint64_t entry_size(const uint8_t *entry, uint64_t room) {
    if (room < OAM_ENTRY_NAME) return 0;
    const uint32_t name_bytes = oam_get32(entry + OAM_ENTRY_NAME_BYTES);
    uint64_t bytes;
    if (name_bytes < 2 || name_bytes > OAM_MAX_NAME_BYTES + 1) return 0;
    if (!oam_align_up(OAM_ENTRY_NAME + name_bytes, OAM_ALIGN, &bytes) || bytes > room) return 0;

    const char *name = (const char *)entry + OAM_ENTRY_NAME;
    if (memchr(name, '\0', name_bytes) != name + name_bytes - 1 || !oam_name_valid(name)) return 0;
    const uint64_t name_end = OAM_ENTRY_NAME + (uint64_t)name_bytes;
    return all_zero(entry + name_end, bytes - name_end) ? bytes : 0;
}

/* `*end` is that of the previous tensor, then of this one. */
static ig_status check_entry(const ig_oam *oam, const uint8_t *entry, uint64_t *end) {
    const char *name = (const char *)entry + OAM_ENTRY_NAME;
    const uint32_t role = oam_get32(entry + OAM_ENTRY_ROLE);
    const uint32_t dtype = oam_get32(entry + OAM_ENTRY_DTYPE);
    const uint32_t rank = oam_get32(entry + OAM_ENTRY_RANK);
    if (role > IG_ROLE_OPTIMIZER || dtype >= IG_DTYPE_COUNT || rank > IG_MAX_RANK)
        return IG_FAIL(IG_ERR_FORMAT, "%s: %s: role %u, dtype %u, rank %u are not known", oam->name,
                       name, role, dtype, rank);
    if (!all_zero(entry + OAM_ENTRY_DIMS + 8 * (size_t)rank, 8 * (IG_MAX_RANK - (uint64_t)rank)))
        return IG_FAIL(IG_ERR_FORMAT, "%s: %s: has extents beyond its rank %u", oam->name, name,
                       rank);

    const ig_checkpoint_tensor t = decode(entry);
    uint64_t bytes, begin;
    char shape[IG_SHAPE_TEXT_BYTES];
    if (!ig_desc_bytes(t.desc, &bytes) || bytes != t.n_bytes)
        return IG_FAIL(IG_ERR_FORMAT, "%s: %s: %" PRIu64 " bytes are not %s of %s", oam->name, name,
                       t.n_bytes, ig_shape_text(t.desc.shape, shape), ig_dtype_name(t.desc.dtype));
    if (!oam_align_up(*end, OAM_ALIGN_TENSOR, &begin) || t.offset != begin || begin > oam->size ||
        t.n_bytes > oam->size - begin)
        return IG_FAIL(IG_ERR_FORMAT,
                       "%s: %s: %" PRIu64 " bytes at %" PRIu64 ", after a tensor that ends at "
                       "%" PRIu64 " of %" PRIu64,
                       oam->name, name, t.n_bytes, t.offset, *end, oam->size);
    *end = begin + bytes;
    return IG_OK;
}

static ig_status allocate_index(ig_oam *oam, const section *index) {
    const uint64_t smallest = OAM_ENTRY_NAME + OAM_ALIGN; /* an entry with a one-letter name */
    if (index->size < OAM_INDEX_BYTES)
        return IG_FAIL(IG_ERR_FORMAT, "%s: INDEX has %" PRIu64 " bytes, fewer than a count",
                       oam->name, index->size);
    const uint64_t count = oam_get64(oam->bytes + index->offset + OAM_INDEX_COUNT);
    if (count > (index->size - OAM_INDEX_BYTES) / smallest)
        return IG_FAIL(IG_ERR_FORMAT,
                       "%s: %" PRIu64 " tensors do not fit in an INDEX of %" PRIu64 " bytes",
                       oam->name, count, index->size);
    oam->count = (size_t)count;
    oam->entries = ig_alloc(oam->allocator, oam->count, sizeof *oam->entries);
    oam->names = ig_alloc(oam->allocator, oam->count, sizeof *oam->names);
    if (!oam->entries || !oam->names)
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %zu tensors", oam->name, oam->count);
    return IG_OK;
}

static ig_status read_index(ig_oam *oam) {
    const section *index = &oam->sections[OAM_INDEX];
    IG_TRY(allocate_index(oam, index));

    const uint8_t *p = oam->bytes + index->offset + OAM_INDEX_BYTES;
    uint64_t room = index->size - OAM_INDEX_BYTES, end = oam->sections[OAM_DATA].offset;
    for (size_t i = 0; i < oam->count; i++) {
        const uint64_t bytes = entry_size(p, room);
        if (bytes == 0)
            return IG_FAIL(IG_ERR_FORMAT, "%s: INDEX: tensor %zu is cut off or has no valid name",
                           oam->name, i);
        IG_TRY(check_entry(oam, p, &end));
        oam->entries[i] = p;
        oam->names[i] = (oam_name){(const char *)p + OAM_ENTRY_NAME, i};
        p += bytes;
        room -= bytes;
    }
    if (room != 0 || end != oam->size)
        return IG_FAIL(IG_ERR_FORMAT,
                       "%s: %" PRIu64 " bytes of INDEX and %" PRIu64 " of DATA belong to no tensor",
                       oam->name, room, oam->size - end);
    const char *twice = oam_sort_names(oam->names, oam->count);
    return twice ? IG_FAIL(IG_ERR_FORMAT, "%s: has %s twice", oam->name, twice) : IG_OK;
}

/* ---- The whole ---- */

static ig_status read_all(ig_oam *oam) {
    IG_TRY(check_header(oam));
    IG_TRY(read_table(oam));
    IG_TRY(check_sums(oam));
    IG_TRY(check_text(oam, OAM_CONFIG));
    IG_TRY(check_text(oam, OAM_PROGRESS));
    IG_TRY(check_text(oam, OAM_OPTIMIZER));
    if (oam->sections[OAM_STATE].size != OAM_STATE_BYTES)
        return IG_FAIL(IG_ERR_FORMAT, "%s: STATE has %" PRIu64 " bytes, not %d", oam->name,
                       oam->sections[OAM_STATE].size, OAM_STATE_BYTES);
    return read_index(oam);
}

ig_status ig_oam_open(const ig_allocator *a, const char *name, const void *bytes, uint64_t size,
                      ig_oam **out) {
    ig_oam *oam = ig_alloc(a, 1, sizeof *oam);
    if (!oam) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory to open it", name);
    oam->allocator = a;
    oam->name = name;
    oam->bytes = bytes;
    oam->size = size;

    const ig_status status = read_all(oam);
    if (status == IG_OK)
        *out = oam;
    else
        ig_oam_close(oam);
    return status;
}

void ig_oam_close(ig_oam *oam) {
    if (!oam) return;
    ig_free(oam->allocator, oam->names);
    ig_free(oam->allocator, oam->entries);
    ig_free(oam->allocator, oam);
}

static ig_status damaged_tensor(const ig_oam *oam, const ig_checkpoint_tensor *t) {
    return IG_FAIL(IG_ERR_FORMAT,
                   "%s: DATA is damaged: %s (%" PRIu64 " bytes at %" PRIu64 ", checksum)",
                   oam->name, t->name, t->n_bytes, t->offset);
}

ig_status ig_oam_verify_tensor(const ig_oam *oam, size_t i) {
    const ig_checkpoint_tensor t = ig_oam_get(oam, i);
    return sum_fits(t.bytes, t.n_bytes, t.checksum) ? IG_OK : damaged_tensor(oam, &t);
}

/* Adds the bytes to the checksum `all` and returns their own, reading them once. */
static uint64_t sum_twice(XXH3_state_t *all, const uint8_t *p, uint64_t bytes) {
    const uint64_t piece = 64 << 10; /* fits the L1 cache between the two */
    XXH3_state_t own;
    XXH3_64bits_reset(&own);
    while (bytes > 0) {
        const size_t n = (size_t)(bytes < piece ? bytes : piece);
        XXH3_64bits_update(&own, p, n);
        XXH3_64bits_update(all, p, n);
        p += n;
        bytes -= n;
    }
    return XXH3_64bits_digest(&own);
}

ig_status ig_oam_verify(const ig_oam *oam) {
    IG_TRY(check_header(oam));
    IG_TRY(check_sums(oam));

    const section *data = &oam->sections[OAM_DATA];
    uint64_t end = data->offset;
    XXH3_state_t all;
    XXH3_64bits_reset(&all);
    for (size_t i = 0; i < oam->count; i++) {
        const ig_checkpoint_tensor t = ig_oam_get(oam, i);
        if (!all_zero(oam->bytes + end, t.offset - end))
            return IG_FAIL(IG_ERR_FORMAT, "%s: DATA is damaged: no zeros before %s", oam->name,
                           t.name);
        XXH3_64bits_update(&all, oam->bytes + end, (size_t)(t.offset - end));
        if (sum_twice(&all, t.bytes, t.n_bytes) != t.checksum) return damaged_tensor(oam, &t);
        end = t.offset + t.n_bytes;
    }
    if (XXH3_64bits_digest(&all) != data->sum)
        return IG_FAIL(IG_ERR_FORMAT, "%s: section DATA is damaged (checksum)", oam->name);
    return IG_OK;
}

uint32_t ig_oam_version(const ig_oam *oam) { return oam_get32(oam->bytes + OAM_AT_VERSION); }
uint64_t ig_oam_file_bytes(const ig_oam *oam) { return oam->size; }
const char *ig_oam_config(const ig_oam *oam) { return text_of(oam, OAM_CONFIG); }
const char *ig_oam_progress(const ig_oam *oam) { return text_of(oam, OAM_PROGRESS); }
const char *ig_oam_optimizer(const ig_oam *oam) { return text_of(oam, OAM_OPTIMIZER); }

static uint64_t state_of(const ig_oam *oam, uint64_t field) {
    return oam_get64(oam->bytes + oam->sections[OAM_STATE].offset + field);
}
uint64_t ig_oam_seed(const ig_oam *oam) { return state_of(oam, OAM_STATE_SEED); }
uint64_t ig_oam_step(const ig_oam *oam) { return state_of(oam, OAM_STATE_STEP); }

size_t ig_oam_count(const ig_oam *oam) { return oam->count; }

ig_checkpoint_tensor ig_oam_get(const ig_oam *oam, size_t i) {
    ig_checkpoint_tensor t = decode(oam->entries[i]);
    t.bytes = oam->bytes + t.offset;
    return t;
}

bool ig_oam_find(const ig_oam *oam, const char *name, size_t *out) {
    size_t low = 0, high = oam->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(name, oam->names[middle].name);
        if (order == 0) {
            *out = oam->names[middle].index;
            return true;
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return false;
}
