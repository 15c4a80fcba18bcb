/* Methods of strings. */
#include <string.h>

#include "base/utf8.h"
#include "text/jinja/jinja_strings.h"
#include "text/tokenizer/unicode.h"

/* ---- Strip and case ---- */

static ig_status strip(jinja_run *run, const jinja_call *call, jinja_side side, jinja_value *out) {
    const jinja_string *chars;
    IG_TRY(jinja_arg_string(run, call, 0, &chars));
    return jinja_strip(run, call->self.string, chars, side, out);
}

static ig_status string_strip(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return strip(run, call, JINJA_BOTH, out);
}

static ig_status string_lstrip(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return strip(run, call, JINJA_LEFT, out);
}

static ig_status string_rstrip(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return strip(run, call, JINJA_RIGHT, out);
}

static ig_status string_upper(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return jinja_change_case(run, call->self.string, JINJA_UPPER, false, out);
}

static ig_status string_lower(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return jinja_change_case(run, call->self.string, JINJA_LOWER, false, out);
}

static ig_status string_title(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return jinja_change_case(run, call->self.string, JINJA_TITLE, false, out);
}

static ig_status string_capitalize(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return jinja_change_case(run, call->self.string, JINJA_CAPITALIZE, false, out);
}

/* ---- Split and join ---- */

static ig_status need_string(jinja_run *run, const jinja_call *call, const jinja_string **out) {
    IG_TRY(jinja_arg_string(run, call, 0, out));
    return *out ? IG_OK : JINJA_FAIL(run, "%s: needs a string", call->what);
}

static ig_status append_part(jinja_run *run, jinja_list *list, const jinja_string *s, size_t begin,
                             size_t end) {
    jinja_value part;
    IG_TRY(jinja_part(run, s, begin, end, &part));
    return jinja_append(run, list, part);
}

static bool space_at(const jinja_string *s, size_t at) {
    const uint32_t point = jinja_point(s, at);
    return ig_unicode_is_space(point) || (point >= 0x1C && point <= 0x1F);
}

/* Words with white space between them; the last of `most` + 1 is all of the rest. */
static ig_status split_words(jinja_run *run, const jinja_string *s, int64_t most, jinja_list *out) {
    IG_TRY(jinja_work(run, s->n_bytes));
    for (size_t at = 0;; most--) {
        while (at < s->n_bytes && space_at(s, at)) at += jinja_char_bytes(s, at);
        if (at == s->n_bytes) return IG_OK;
        if (most == 0) return append_part(run, out, s, at, s->n_bytes);
        const size_t begin = at;
        while (at < s->n_bytes && !space_at(s, at)) at += jinja_char_bytes(s, at);
        IG_TRY(append_part(run, out, s, begin, at));
    }
}

/* The same from the end, the last word first. */
static ig_status split_words_back(jinja_run *run, const jinja_string *s, int64_t most,
                                  jinja_list *out) {
    IG_TRY(jinja_work(run, s->n_bytes));
    for (size_t end = s->n_bytes;; most--) {
        while (end > 0 && space_at(s, jinja_before(s, end))) end = jinja_before(s, end);
        if (end == 0) return IG_OK;
        if (most == 0) return append_part(run, out, s, 0, end);
        size_t begin = end;
        while (begin > 0 && !space_at(s, jinja_before(s, begin))) begin = jinja_before(s, begin);
        IG_TRY(append_part(run, out, s, begin, end));
        end = begin;
    }
}

static ig_status split_at(jinja_run *run, const jinja_string *s, const jinja_string *between,
                          int64_t most, jinja_list *out) {
    size_t begin = 0;
    IG_TRY(jinja_work(run, s->n_bytes));
    for (; most != 0; most--) {
        const size_t at = jinja_find_text(s, between, begin);
        if (at == SIZE_MAX) break;
        IG_TRY(append_part(run, out, s, begin, at));
        begin = at + between->n_bytes;
    }
    return append_part(run, out, s, begin, s->n_bytes);
}

/* The last place before `end`; SIZE_MAX: none. */
static ig_status find_last(jinja_run *run, const jinja_string *s, const jinja_string *part,
                           size_t end, size_t *out) {
    *out = SIZE_MAX;
    for (size_t at = end - part->n_bytes; part->n_bytes <= end; at--) {
        if (at % 16 == 0) IG_TRY(jinja_work(run, 16 * part->n_bytes));
        if (memcmp(s->bytes + at, part->bytes, part->n_bytes) == 0) *out = at;
        if (at == 0 || *out != SIZE_MAX) break;
    }
    return IG_OK;
}

static ig_status string_split(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_string *between;
    int64_t most;
    IG_TRY(jinja_arg_string(run, call, 0, &between));
    IG_TRY(jinja_arg_integer(run, call, 1, -1, &most));
    if (between && between->n_bytes == 0) return JINJA_FAIL(run, "split: at nothing");
    IG_TRY(jinja_new_list(run, JINJA_V_LIST, out));
    return between ? split_at(run, call->self.string, between, most, out->list)
                   : split_words(run, call->self.string, most, out->list);
}

static ig_status string_rsplit(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_string *between, *s = call->self.string;
    const jinja_value back[3] = {{0}, {0}, jinja_integer(-1)};
    int64_t most;
    IG_TRY(jinja_arg_integer(run, call, 1, -1, &most));
    IG_TRY(jinja_arg_string(run, call, 0, &between));
    if (most < 0) return string_split(run, call, out);
    if (between && between->n_bytes == 0) return JINJA_FAIL(run, "rsplit: at nothing");
    size_t end = s->n_bytes;
    IG_TRY(jinja_new_list(run, JINJA_V_LIST, out));
    if (!between) {
        IG_TRY(split_words_back(run, s, most, out->list));
        return jinja_slice(run, *out, back, out);
    }
    for (; most > 0; most--) {
        size_t at;
        IG_TRY(find_last(run, s, between, end, &at));
        if (at == SIZE_MAX) break;
        IG_TRY(append_part(run, out->list, s, at + between->n_bytes, end));
        end = at;
    }
    IG_TRY(append_part(run, out->list, s, 0, end));
    return jinja_slice(run, *out, back, out);
}

static ig_status string_splitlines(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return jinja_split_lines(run, call->self.string, jinja_arg_truth(call, 0, false), out);
}

/* before, what it is split at, behind; or all and two empty ones */
static ig_status string_partition(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_string *s = call->self.string, *between;
    const bool from_end = call->what[0] == 'r';
    IG_TRY(need_string(run, call, &between));
    if (between->n_bytes == 0) return JINJA_FAIL(run, "%s: at nothing", call->what);
    IG_TRY(jinja_work(run, s->n_bytes));
    size_t at = jinja_find_text(s, between, 0);
    if (from_end) IG_TRY(find_last(run, s, between, s->n_bytes, &at));
    const size_t none = from_end ? 0 : s->n_bytes;
    const size_t begin = at == SIZE_MAX ? none : at,
                 end = at == SIZE_MAX ? none : at + between->n_bytes;
    IG_TRY(jinja_new_list(run, JINJA_V_TUPLE, out));
    IG_TRY(append_part(run, out->list, s, 0, begin));
    IG_TRY(append_part(run, out->list, s, begin, end));
    return append_part(run, out->list, s, end, s->n_bytes);
}

static ig_status string_join(jinja_run *run, const jinja_call *call, jinja_value *out) {
    jinja_list *items;
    jinja_builder b = {0};
    IG_TRY(jinja_iterate(run, call->bound[0], &items));
    for (size_t i = 0; i < items->count; i++) {
        if (items->at[i].kind != JINJA_V_STRING)
            return JINJA_FAIL(run, "join: needs strings, not %s", jinja_type_name(items->at[i]));
        if (i > 0) IG_TRY(jinja_add_string(run, &b, call->self.string));
        if (call->self.string->markup) IG_TRY(jinja_escape(run, items->at[i], &items->at[i]));
        IG_TRY(jinja_add_string(run, &b, items->at[i].string));
    }
    return jinja_finish(run, &b, out);
}

/* ---- Parts ---- */

static bool has_at(const jinja_string *s, const jinja_string *part, bool at_end) {
    if (part->n_bytes > s->n_bytes) return false;
    const size_t at = at_end ? s->n_bytes - part->n_bytes : 0;
    return memcmp(s->bytes + at, part->bytes, part->n_bytes) == 0;
}

/* The part of the string that the arguments `first` and `first` + 1 bound, in characters; where it
 * begins.  NULL through `out`: it begins after the end, where nothing is found. */
static ig_status bounded(jinja_run *run, const jinja_call *call, size_t first,
                         const jinja_string **out, int64_t *begin) {
    int64_t length, end;
    jinja_value part;
    IG_TRY(jinja_length(run, call->self, &length));
    IG_TRY(jinja_arg_integer(run, call, first, 0, begin));
    IG_TRY(jinja_arg_integer(run, call, first + 1, length, &end));
    const jinja_value bounds[3] = {jinja_integer(*begin), jinja_integer(end), {0}};
    *begin = *begin < 0 ? *begin + length : *begin;
    *begin = *begin < 0 ? 0 : *begin;
    end = end < 0 ? end + length : end;
    *out = NULL;
    if (*begin > length || *begin > end) return IG_OK;
    IG_TRY(jinja_slice(run, call->self, bounds, &part));
    *out = part.string;
    return IG_OK;
}

/* Whether it begins or ends with a string, or with one of a tuple. */
static ig_status has_any(jinja_run *run, const jinja_call *call, bool at_end, jinja_value *out) {
    const jinja_value v = call->bound[0];
    const jinja_string *s;
    int64_t begin;
    bool has = false;
    if (v.kind != JINJA_V_STRING && v.kind != JINJA_V_TUPLE)
        return JINJA_FAIL(run, "%s: needs a string, not %s", call->what, jinja_type_name(v));
    IG_TRY(bounded(run, call, 1, &s, &begin));
    for (size_t i = 0; v.kind == JINJA_V_TUPLE && i < v.list->count && !has; i++) {
        const jinja_value one = v.list->at[i];
        IG_TRY(jinja_work(run, 32 + call->self.string->n_bytes));
        if (one.kind != JINJA_V_STRING)
            return JINJA_FAIL(run, "%s: needs strings, not %s", call->what, jinja_type_name(one));
        has = s && has_at(s, one.string, at_end);
    }
    if (v.kind == JINJA_V_STRING) has = s && has_at(s, v.string, at_end);
    *out = jinja_bool(has);
    return IG_OK;
}

static ig_status string_startswith(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return has_any(run, call, false, out);
}

static ig_status string_endswith(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return has_any(run, call, true, out);
}

static ig_status string_removeprefix(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_string *s = call->self.string, *part;
    IG_TRY(need_string(run, call, &part));
    IG_TRY(jinja_work(run, part->n_bytes));
    return jinja_part(run, s, has_at(s, part, false) ? part->n_bytes : 0, s->n_bytes, out);
}

static ig_status string_removesuffix(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_string *s = call->self.string, *part;
    IG_TRY(need_string(run, call, &part));
    IG_TRY(jinja_work(run, part->n_bytes));
    return jinja_part(run, s, 0, s->n_bytes - (has_at(s, part, true) ? part->n_bytes : 0), out);
}

/* find and rfind, in characters; index and rindex, which must find it */
static ig_status string_find(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_string *s, *part;
    const bool from_end = call->what[0] == 'r', must = call->what[from_end] == 'i';
    int64_t begin, length;
    size_t at = SIZE_MAX;
    IG_TRY(need_string(run, call, &part));
    IG_TRY(bounded(run, call, 1, &s, &begin));
    IG_TRY(jinja_work(run, call->self.string->n_bytes));
    if (s && from_end)
        IG_TRY(find_last(run, s, part, s->n_bytes, &at));
    else if (s)
        at = jinja_find_text(s, part, 0);
    *out = jinja_integer(-1);
    if (at == SIZE_MAX && must) return JINJA_FAIL(run, "%s: it is not in the string", call->what);
    if (at == SIZE_MAX) return IG_OK;
    const jinja_string before = {.bytes = s->bytes, .n_bytes = at};
    IG_TRY(jinja_length(run, (jinja_value){.kind = JINJA_V_STRING, .string = &before}, &length));
    *out = jinja_integer(begin + length);
    return IG_OK;
}

static ig_status string_count(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_string *s, *part;
    int64_t count = 0;
    IG_TRY(need_string(run, call, &part));
    IG_TRY(bounded(run, call, 1, &s, &count));
    count = 0;
    if (s && part->n_bytes == 0) { /* between the characters, and at both ends */
        IG_TRY(jinja_length(run, (jinja_value){.kind = JINJA_V_STRING, .string = s}, &count));
        count++;
    } else if (s) {
        IG_TRY(jinja_work(run, s->n_bytes));
        for (size_t at = 0; (at = jinja_find_text(s, part, at)) != SIZE_MAX; at += part->n_bytes)
            count++;
    }
    *out = jinja_integer(count);
    return IG_OK;
}

/* ---- Width ---- */

/* ljust, rjust and center */
static ig_status string_justify(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_string *s = call->self.string, *fill;
    int64_t width, length, n_fill = 1;
    jinja_builder b = {0};
    IG_TRY(jinja_arg_integer(run, call, 0, 0, &width));
    IG_TRY(jinja_arg_string(run, call, 1, &fill));
    IG_TRY(jinja_length(run, call->self, &length));
    const jinja_string space = {.bytes = " ", .n_bytes = 1};
    if (!fill) fill = &space;
    IG_TRY(jinja_length(run, (jinja_value){.kind = JINJA_V_STRING, .string = fill}, &n_fill));
    if (n_fill != 1) return JINJA_FAIL(run, "%s: fills with one character", call->what);
    const int64_t missing = width > length ? width - length : 0;
    const int64_t before = call->what[0] == 'l'   ? 0
                           : call->what[0] == 'r' ? missing
                                                  : missing / 2 + (missing & width & 1);
    for (int64_t i = 0; i < before; i++) IG_TRY(jinja_add_string(run, &b, fill));
    IG_TRY(jinja_add_string(run, &b, s));
    for (int64_t i = before; i < missing; i++) IG_TRY(jinja_add_string(run, &b, fill));
    return jinja_finish(run, &b, out);
}

static ig_status string_zfill(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_string *s = call->self.string;
    int64_t width, length;
    jinja_builder b = {0};
    IG_TRY(jinja_arg_integer(run, call, 0, 0, &width));
    IG_TRY(jinja_length(run, call->self, &length));
    const size_t sign = s->n_bytes > 0 && (s->bytes[0] == '-' || s->bytes[0] == '+');
    IG_TRY(jinja_add_part(run, &b, s, 0, sign));
    IG_TRY(jinja_add_fill(run, &b, '0', width > length ? width - length : 0, false));
    IG_TRY(jinja_add_part(run, &b, s, sign, s->n_bytes));
    return jinja_finish(run, &b, out);
}

static ig_status string_expandtabs(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_string *s = call->self.string;
    int64_t size, column = 0;
    jinja_builder b = {0};
    IG_TRY(jinja_arg_integer(run, call, 0, 8, &size));
    for (size_t at = 0, n; at < s->n_bytes; at += n) {
        const char c = s->bytes[at];
        n = jinja_char_bytes(s, at);
        if (c == '\t') {
            const int64_t fill = size > 0 ? size - column % size : 0;
            IG_TRY(jinja_add_fill(run, &b, ' ', fill, s->marks ? s->marks[at] : s->given));
            column += fill;
            continue;
        }
        column = c == '\n' || c == '\r' ? 0 : column + 1;
        IG_TRY(jinja_add_part(run, &b, s, at, at + n));
    }
    return jinja_finish(run, &b, out);
}

static ig_status string_replace(jinja_run *run, const jinja_call *call, jinja_value *out) {
    int64_t most;
    if (call->bound[0].kind != JINJA_V_STRING || call->bound[1].kind != JINJA_V_STRING)
        return JINJA_FAIL(run, "replace: needs two strings");
    jinja_value to = call->bound[1];
    IG_TRY(jinja_arg_integer(run, call, 2, -1, &most));
    if (call->self.string->markup) IG_TRY(jinja_escape(run, to, &to));
    return jinja_replace(run, call->self.string, call->bound[0].string, to.string, most, out);
}

/* format(a, b=1) and format_map({'b': 1}); what goes into markup is escaped. */
static ig_status string_format(jinja_run *run, const jinja_call *call, jinja_value *out) {
    jinja_call copy = *call;
    if (!call->self.string->markup) return jinja_format_braces(run, call->self.string, call, out);
    copy.at = jinja_take(&run->arena, call->count, sizeof *copy.at);
    copy.named = jinja_take(&run->arena, call->n_named, sizeof *copy.named);
    if (!copy.at || !copy.named) return jinja_no_memory(&run->arena, run->line);
    for (size_t i = 0; i < call->count; i++)
        IG_TRY(jinja_escape_text(run, call->at[i], &copy.at[i]));
    for (size_t i = 0; i < call->n_named; i++) {
        copy.named[i].name = call->named[i].name;
        IG_TRY(jinja_escape_text(run, call->named[i].value, &copy.named[i].value));
    }
    return jinja_format_braces(run, call->self.string, &copy, out);
}

static ig_status string_format_map(jinja_run *run, const jinja_call *call, jinja_value *out) {
    jinja_call inner = {.self = call->self, .what = call->what};
    if (call->bound[0].kind != JINJA_V_DICT) return JINJA_FAIL(run, "format_map: needs a dict");
    const jinja_dict *dict = call->bound[0].dict;
    inner.named = jinja_take(&run->arena, dict->count, sizeof *inner.named);
    if (!inner.named) return jinja_no_memory(&run->arena, run->line);
    for (size_t i = 0; i < dict->count; i++) {
        if (dict->at[i].key.kind != JINJA_V_STRING) continue;
        const jinja_string *key = dict->at[i].key.string;
        inner.named[inner.n_named++] = (jinja_named){{key->bytes, key->n_bytes}, dict->at[i].value};
    }
    return string_format(run, &inner, out);
}

/* ---- What it is made of ---- */

static bool is_digit(uint32_t point) { return point - '0' < 10; }
static bool is_space(uint32_t point) { return ig_unicode_is_space(point); }
static bool is_alnum(uint32_t point) { return is_digit(point) || jinja_is_letter(point); }

static ig_status all_are(jinja_run *run, const jinja_call *call, bool (*is)(uint32_t point),
                         jinja_value *out) {
    const jinja_string *s = call->self.string;
    bool all = s->n_bytes > 0;
    IG_TRY(jinja_work(run, 4 * s->n_bytes));
    for (size_t at = 0; at < s->n_bytes && all; at += jinja_char_bytes(s, at))
        all = is(jinja_point(s, at));
    *out = jinja_bool(all);
    return IG_OK;
}

static bool is_ascii(uint32_t point) { return point < 0x80; }
static bool is_printable(uint32_t point) {
    return point == ' ' || (point >= 0x21 && !(point >= 0x7F && point <= 0xA0) && !is_space(point));
}
static bool is_identifier(uint32_t point) { return point == '_' || is_alnum(point); }

/* Those that hold of nothing too. */
static ig_status string_isascii(jinja_run *run, const jinja_call *call, jinja_value *out) {
    IG_TRY(all_are(run, call, call->what[2] == 'a' ? is_ascii : is_printable, out));
    if (call->self.string->n_bytes == 0) *out = jinja_bool(true);
    return IG_OK;
}

static ig_status string_isidentifier(jinja_run *run, const jinja_call *call, jinja_value *out) {
    IG_TRY(all_are(run, call, is_identifier, out));
    if (call->self.string->n_bytes > 0 && is_digit(jinja_point(call->self.string, 0)))
        *out = jinja_bool(false);
    return IG_OK;
}

static ig_status string_istitle(jinja_run *run, const jinja_call *call, jinja_value *out) {
    jinja_value title;
    bool same, cased;
    IG_TRY(jinja_change_case(run, call->self.string, JINJA_TITLE, false, &title));
    IG_TRY(jinja_equal(run, call->self, title, 0, &same));
    IG_TRY(jinja_change_case(run, call->self.string, JINJA_LOWER, false, &title));
    IG_TRY(jinja_equal(run, call->self, title, 0, &cased)); /* letters that have two forms */
    *out = jinja_bool(same && !cased);
    return IG_OK;
}

static ig_status string_swapcase(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_string *s = call->self.string;
    jinja_builder b = {0};
    for (size_t at = 0, n; at < s->n_bytes; at += n) {
        char bytes[IG_UTF8_BYTES];
        const uint32_t point = jinja_point(s, at), small = ig_unicode_small(point);
        const uint32_t changed = small != point ? small : ig_unicode_large(point);
        n = jinja_char_bytes(s, at);
        IG_TRY(changed == point ? jinja_add_part(run, &b, s, at, at + n)
                                : jinja_add(run, &b, bytes, ig_utf8_put(changed, bytes),
                                            s->marks ? s->marks[at] : s->given));
    }
    return jinja_finish(run, &b, out);
}

static ig_status string_isdigit(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return all_are(run, call, is_digit, out);
}

static ig_status string_isspace(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return all_are(run, call, is_space, out);
}

static ig_status string_isalpha(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return all_are(run, call, jinja_is_letter, out);
}

static ig_status string_isalnum(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return all_are(run, call, is_alnum, out);
}

static ig_status string_is_case(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_function *test = jinja_find(
        jinja_tests, (jinja_name){call->what + 2, strlen(call->what) - 2}); /* "isupper" */
    jinja_call inner = {.self = call->self};
    return jinja_call_function(run, test, &inner, out);
}

const jinja_function jinja_string_methods[] = {
    {"strip", "chars", string_strip},
    {"lstrip", "chars", string_lstrip},
    {"rstrip", "chars", string_rstrip},
    {"upper", "", string_upper},
    {"lower", "", string_lower},
    {"title", "", string_title},
    {"capitalize", "", string_capitalize},
    {"split", "sep maxsplit", string_split},
    {"rsplit", "sep maxsplit", string_rsplit},
    {"splitlines", "keepends", string_splitlines},
    {"partition", "sep", string_partition},
    {"rpartition", "sep", string_partition},
    {"join", "iterable", string_join},
    {"startswith", "prefix start end", string_startswith},
    {"endswith", "suffix start end", string_endswith},
    {"removeprefix", "prefix", string_removeprefix},
    {"removesuffix", "suffix", string_removesuffix},
    {"find", "sub start end", string_find},
    {"rfind", "sub start end", string_find},
    {"index", "sub start end", string_find},
    {"rindex", "sub start end", string_find},
    {"count", "sub start end", string_count},
    {"ljust", "width fillchar", string_justify},
    {"rjust", "width fillchar", string_justify},
    {"center", "width fillchar", string_justify},
    {"zfill", "width", string_zfill},
    {"expandtabs", "tabsize", string_expandtabs},
    {"swapcase", "", string_swapcase},
    {"casefold", "", string_lower},
    {"replace", "old new count", string_replace},
    {"format", NULL, string_format},
    {"format_map", "mapping", string_format_map},
    {"isdigit", "", string_isdigit},
    {"isdecimal", "", string_isdigit},
    {"isnumeric", "", string_isdigit},
    {"isascii", "", string_isascii},
    {"isprintable", "", string_isascii},
    {"isidentifier", "", string_isidentifier},
    {"istitle", "", string_istitle},
    {"isspace", "", string_isspace},
    {"isalpha", "", string_isalpha},
    {"isalnum", "", string_isalnum},
    {"isupper", "", string_is_case},
    {"islower", "", string_is_case},
    {0},
};
