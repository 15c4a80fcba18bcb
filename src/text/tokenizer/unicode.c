#include "text/tokenizer/unicode.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

bool ig_unicode_is_space(uint32_t point) {
    if (point < 0x80) return point == ' ' || (point >= '\t' && point <= '\r');
    return point == 0x85 || point == 0xA0 || point == 0x1680 ||
           (point >= 0x2000 && point <= 0x200A) || point == 0x2028 || point == 0x2029 ||
           point == 0x202F || point == 0x205F || point == 0x3000;
}

uint32_t ig_unicode_small(uint32_t point) {
    for (const ig_unicode_case *row = ig_unicode_cases; row->step && row->first <= point; row++)
        if (point <= row->last)
            return (point - row->first) % row->step == 0
                       ? (uint32_t)((int32_t)point + row->distance)
                       : point;
    return point;
}

uint32_t ig_unicode_large(uint32_t point) {
    if (point < 0x80) return point - 'a' < 26 ? point - 32 : point;
    for (const ig_unicode_case *row = ig_unicode_cases; row->step; row++) {
        const int64_t from = (int64_t)point - row->distance;
        if (from >= row->first && from <= row->last && (from - row->first) % row->step == 0)
            return (uint32_t)from;
    }
    return point;
}

/* ---- Decompositions ---- */

/* The next character of a valid UTF-8 text. */
static uint32_t next_point(const char **text) {
    uint32_t point = IG_UTF8_UNKNOWN;
    size_t bytes;
    (void)ig_utf8_next(*text, strlen(*text), &point, &bytes);
    *text += bytes;
    return point;
}

static ig_status add(const ig_allocator *a, ig_unicode_decompositions *d, uint32_t point,
                     const char *base) {
    if (!IG_GROW(a, d->rows, &d->room, d->count + 1))
        return IG_FAIL(IG_ERR_MEMORY, "unicode: no memory for %zu characters", d->count + 1);
    ig_unicode_decomposition *row = &d->rows[d->count++];
    row->point = point;
    for (size_t i = 0; *base && i < 3; i++) row->base[i] = next_point(&base);
    return IG_OK;
}

static ig_status add_all(const ig_allocator *a, ig_unicode_decompositions *d) {
    for (const ig_unicode_bases *row = ig_unicode_with_marks; row->base; row++)
        for (const char *at = row->from; *at;) IG_TRY(add(a, d, next_point(&at), row->base));
    for (const ig_unicode_row *row = ig_unicode_compatible; row->to; row++) {
        uint32_t point = row->first;
        for (const char *at = row->to; *at; point++) {
            char same[IG_UTF8_BYTES + 1] = {0};
            ig_utf8_put(next_point(&at), same);
            IG_TRY(add(a, d, point, same));
        }
    }
    return IG_OK;
}

static int by_point(const void *left, const void *right) {
    const ig_unicode_decomposition *a = left, *b = right;
    return a->point < b->point ? -1 : a->point > b->point;
}

ig_status ig_unicode_decompositions_init(const ig_allocator *a, ig_unicode_decompositions *out) {
    ig_unicode_decompositions d = {0};
    const ig_status status = add_all(a, &d);
    if (status != IG_OK) {
        ig_free(a, d.rows);
        return status;
    }
    qsort(d.rows, d.count, sizeof *d.rows, by_point);
    *out = d;
    return IG_OK;
}

/* Hangul syllables decompose by arithmetic: Unicode 3.12. */
static size_t bare_hangul(uint32_t index, uint32_t out[3]) {
    enum {
        VOWELS = 21,
        TAILS = 28,
        FIRST_LEAD = 0x1100,
        FIRST_VOWEL = 0x1161,
        BEFORE_TAILS = 0x11A7
    };
    const uint32_t tail = index % TAILS;
    out[0] = FIRST_LEAD + index / TAILS / VOWELS;
    out[1] = FIRST_VOWEL + index / TAILS % VOWELS;
    out[2] = BEFORE_TAILS + tail;
    return tail ? 3 : 2;
}

size_t ig_unicode_bare(const ig_unicode_decompositions *d, uint32_t point, uint32_t out[3]) {
    enum { HANGUL = 0xAC00, SYLLABLES = 11172 };
    if (point - HANGUL < SYLLABLES) return bare_hangul(point - HANGUL, out);
    const ig_unicode_decomposition key = {.point = point};
    const ig_unicode_decomposition *row =
        bsearch(&key, d->rows, d->count, sizeof *d->rows, by_point);
    if (!row) {
        out[0] = point;
        return 1;
    }
    size_t n = 0;
    while (n < 3 && row->base[n]) out[n] = row->base[n], n++;
    return n;
}
