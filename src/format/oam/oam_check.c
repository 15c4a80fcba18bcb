/* Validation of texts and names in .oam files, for saving and opening. */
#include "format/oam/oam_layout.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_parse.h"

ig_status oam_check_json(ig_status code, const char *file, const char *what, const char *text) {
    const size_t bytes = strlen(text) + 1;
    if (bytes > OAM_MAX_TEXT_BYTES)
        return IG_FAIL(code, "%s: %s has %zu bytes, at most %d are allowed", file, what, bytes,
                       OAM_MAX_TEXT_BYTES);

    json_t *json = NULL;
    IG_TRY(ig_json_decode(code, file, what, text, bytes - 1, JSON_REJECT_DUPLICATES, &json));
    const bool is_object = json_is_object(json);
    json_decref(json);
    return is_object ? IG_OK : IG_FAIL(code, "%s: %s is not a JSON object", file, what);
}

/*
 * The length of one UTF-8 character, or 0 if invalid. As in RFC 3629: shortest form only, no
 * surrogates, nothing above U+10FFFF.
 */
static int utf8_next(const uint8_t *p, uint32_t *out) {
    if (p[0] < 0x80) {
        *out = p[0];
        return 1;
    }
    const int bytes = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (p[0] < 0xc2 || p[0] > 0xf4) return 0;

    uint32_t c = p[0] & (0x7fu >> bytes);
    for (int i = 1; i < bytes; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0; /* stops at the final 0, too */
        c = c << 6 | (p[i] & 0x3f);
    }
    if (c < smallest[bytes] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) return 0;
    *out = c;
    return bytes;
}

bool oam_name_valid(const char *name) {
    const size_t bytes = strlen(name);
    if (bytes == 0 || bytes > OAM_MAX_NAME_BYTES) return false;
    for (size_t i = 0; i < bytes;) {
        uint32_t c;
        const int step = utf8_next((const uint8_t *)name + i, &c);
        /* Control characters could write to the terminal that lists the file. */
        if (step == 0 || c < 0x20 || (c >= 0x7f && c <= 0x9f)) return false;
        i += (size_t)step;
    }
    return true;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(((const oam_name *)a)->name, ((const oam_name *)b)->name);
}

const char *oam_sort_names(oam_name *names, size_t count) {
    if (count > 1) qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 1; i < count; i++)
        if (strcmp(names[i - 1].name, names[i].name) == 0) return names[i].name;
    return NULL;
}
