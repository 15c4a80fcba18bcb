#include "text/jinja/jinja_strings.h"

#include <string.h>

#include "base/utf8.h"
#include "text/tokenizer/unicode.h"

uint32_t jinja_point(const jinja_string *s, size_t at) {
    uint32_t point = IG_UTF8_UNKNOWN;
    size_t n;
    (void)ig_utf8_next(s->bytes + at, s->n_bytes - at, &point, &n);
    return point;
}

size_t jinja_find_text(const jinja_string *s, const jinja_string *part, size_t from) {
    if (from > s->n_bytes) return SIZE_MAX;
    if (part->n_bytes == 0) return from;
    const char *at = memmem(s->bytes + from, s->n_bytes - from, part->bytes, part->n_bytes);
    return at ? (size_t)(at - s->bytes) : SIZE_MAX;
}

/* ---- Strip ---- */

static bool is_stripped(const jinja_string *s, size_t at, size_t n, const jinja_string *chars) {
    const uint32_t point = jinja_point(s, at);
    if (!chars) return ig_unicode_is_space(point) || (point >= 0x1C && point <= 0x1F);
    for (size_t i = 0; i < chars->n_bytes; i += jinja_char_bytes(chars, i))
        if (jinja_char_bytes(chars, i) == n && memcmp(chars->bytes + i, s->bytes + at, n) == 0)
            return true;
    return false;
}

size_t jinja_before(const jinja_string *s, size_t at) {
    size_t begin = at - 1;
    while (begin > 0 && at - begin < IG_UTF8_BYTES && (s->bytes[begin] & 0xC0) == 0x80) begin--;
    return jinja_char_bytes(s, begin) == at - begin ? begin : at - 1;
}

ig_status jinja_strip(jinja_run *run, const jinja_string *s, const jinja_string *chars,
                      jinja_side side, jinja_value *out) {
    size_t begin = 0, end = s->n_bytes;
    const size_t work = 16 + (chars ? 8 * chars->n_bytes : 0);
    while (side & JINJA_LEFT && begin < end) {
        const size_t n = jinja_char_bytes(s, begin);
        IG_TRY(jinja_work(run, work));
        if (!is_stripped(s, begin, n, chars)) break;
        begin += n;
    }
    while (side & JINJA_RIGHT && begin < end) {
        const size_t last = jinja_before(s, end);
        IG_TRY(jinja_work(run, work));
        if (!is_stripped(s, last, end - last, chars)) break;
        end = last;
    }
    return jinja_part(run, s, begin, end, out);
}

/* ---- Replace ---- */

ig_status jinja_replace(jinja_run *run, const jinja_string *s, const jinja_string *from,
                        const jinja_string *to, int64_t most, jinja_value *out) {
    jinja_builder b = {0};
    size_t done = 0;
    IG_TRY(jinja_work(run, s->n_bytes));
    for (size_t at = 0; most != 0; most--) {
        at = jinja_find_text(s, from, at);
        if (at == SIZE_MAX) break;
        IG_TRY(jinja_work(run, 64));
        IG_TRY(jinja_add_part(run, &b, s, done, at));
        IG_TRY(jinja_add_string(run, &b, to));
        done = at + from->n_bytes;
        if (from->n_bytes == 0 && at == s->n_bytes) break;
        at = from->n_bytes > 0 ? done : at + jinja_char_bytes(s, at);
    }
    IG_TRY(jinja_add_part(run, &b, s, done, s->n_bytes));
    return jinja_finish(run, &b, out);
}

/* ---- Large and small letters ---- */

bool jinja_is_letter(uint32_t point) {
    if (point < 0x80) return (point | 32) - 'a' < 26;
    return point >= 0xC0 && !ig_unicode_is_space(point) && (point < 0x2000 || point > 0x206F);
}

/* Whether a word begins behind this character. */
static bool ends_word(uint32_t point, bool as_filter) {
    if (!as_filter) return !jinja_is_letter(point);
    return ig_unicode_is_space(point) || (point && point < 0x80 && strchr("-({[<", (int)point));
}

ig_status jinja_change_case(jinja_run *run, const jinja_string *s, jinja_case to, bool as_filter,
                            jinja_value *out) {
    enum { SHARP_S = 0xDF };
    jinja_builder b = {0};
    bool begins = true;
    for (size_t at = 0, n; at < s->n_bytes; at += n) {
        char bytes[IG_UTF8_BYTES];
        const uint32_t point = jinja_point(s, at);
        const bool up = to == JINJA_UPPER || (to != JINJA_LOWER && begins);
        const uint32_t changed = up ? ig_unicode_large(point) : ig_unicode_small(point);
        n = jinja_char_bytes(s, at);
        begins = to == JINJA_TITLE && ends_word(point, as_filter);
        if (up && point == SHARP_S) /* the one common letter that becomes two */
            IG_TRY(jinja_add(run, &b, to == JINJA_UPPER ? "SS" : "Ss", 2,
                             s->marks ? s->marks[at] : s->given));
        else if (changed == point)
            IG_TRY(jinja_add_part(run, &b, s, at, at + n));
        else
            IG_TRY(jinja_add(run, &b, bytes, ig_utf8_put(changed, bytes),
                             s->marks ? s->marks[at] : s->given));
    }
    return jinja_finish(run, &b, out);
}

/* ---- Lines ---- */

/* Bytes of the end of line at a byte; 0: there is none. */
static size_t line_end(const jinja_string *s, size_t at) {
    const uint32_t point = jinja_point(s, at);
    if (point == '\r') return at + 1 < s->n_bytes && s->bytes[at + 1] == '\n' ? 2 : 1;
    const bool ends = (point >= '\n' && point <= '\f') || (point >= 0x1C && point <= 0x1E) ||
                      point == 0x85 || point == 0x2028 || point == 0x2029;
    return ends ? jinja_char_bytes(s, at) : 0;
}

ig_status jinja_split_lines(jinja_run *run, const jinja_string *s, bool keep_ends,
                            jinja_value *out) {
    size_t begin = 0;
    jinja_value line;
    IG_TRY(jinja_new_list(run, JINJA_V_LIST, out));
    IG_TRY(jinja_work(run, s->n_bytes));
    for (size_t at = 0; at < s->n_bytes;) {
        const size_t n = line_end(s, at);
        if (n > 0) {
            IG_TRY(jinja_part(run, s, begin, keep_ends ? at + n : at, &line));
            IG_TRY(jinja_append(run, out->list, line));
            begin = at + n;
        }
        at += n > 0 ? n : jinja_char_bytes(s, at);
    }
    if (begin == s->n_bytes) return IG_OK;
    IG_TRY(jinja_part(run, s, begin, s->n_bytes, &line));
    return jinja_append(run, out->list, line);
}
