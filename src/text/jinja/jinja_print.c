/* Values as text: as Python prints them, and as JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/jinja/jinja_run.h"

static ig_status too_deep(const jinja_run *run) {
    return JINJA_FAIL(run, "values more than %d deep", IG_JINJA_DEPTH_MAX);
}

/* The fewest digits that are read back as the same number; with an exponent from 1e16 on and below
 * 1e-4. */
size_t jinja_real_text(double x, char out[40]) {
    if (isnan(x)) return (size_t)snprintf(out, 40, "nan");
    if (isinf(x)) return (size_t)snprintf(out, 40, x < 0 ? "-inf" : "inf");
    char digits[40];
    int precision = 0;
    do snprintf(digits, sizeof digits, "%.*e", precision, x);
    while (strtod(digits, NULL) != x && ++precision < 17);
    const int exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent < -4 || exponent >= 16) { /* "1e-05": C and Python agree */
        return (size_t)snprintf(out, 40, "%s", digits);
    }
    const int places = precision - exponent;
    return (size_t)snprintf(out, 40, "%.*f", places > 1 ? places : 1, x);
}

static ig_status add_number(jinja_run *run, jinja_builder *b, jinja_value v) {
    char text[40];
    const size_t n = v.kind == JINJA_V_REAL
                         ? jinja_real_text(v.real, text)
                         : (size_t)snprintf(text, sizeof text, "%lld", (long long)v.integer);
    return jinja_add(run, b, text, n, v.given);
}

static bool is_given(const jinja_string *s, size_t at) {
    return s->marks ? s->marks[at] : s->given;
}

/* ---- repr() ---- */

/* Characters that Python shows as a number. */
static bool is_hidden(uint32_t point) {
    return point < 0x20 || (point >= 0x7F && point <= 0xA0) || point == 0xAD ||
           (point >= 0x2000 && point <= 0x200F) || (point >= 0x2028 && point <= 0x202F) ||
           (point >= 0x205F && point <= 0x206F) || point == 0x3000 || point == 0xFEFF ||
           (point >= 0xE000 && point <= 0xF8FF) || point >= 0xE0000;
}

static size_t escape_repr(uint32_t point, char quote, char out[16]) {
    const char *named = point && point < 0x80 ? strchr("\nn\rr\tt\\\\", (int)point) : NULL;
    if (point == (unsigned char)quote) return (size_t)snprintf(out, 16, "\\%c", quote);
    if (point == '\\') return (size_t)snprintf(out, 16, "\\\\");
    if (named && point < 0x20) return (size_t)snprintf(out, 16, "\\%c", named[1]);
    if (!is_hidden(point)) return 0;
    return (size_t)snprintf(out, 16,
                            point < 0x100     ? "\\x%02x"
                            : point < 0x10000 ? "\\u%04x"
                                              : "\\U%08x",
                            point);
}

static ig_status add_string_repr(jinja_run *run, jinja_builder *b, const jinja_string *s) {
    const bool doubles = memchr(s->bytes, '\'', s->n_bytes) && !memchr(s->bytes, '"', s->n_bytes);
    const char quote = doubles ? '"' : '\'';
    const bool given = s->given && !s->marks;
    IG_TRY(jinja_add(run, b, &quote, 1, given));
    for (size_t at = 0, n, done = 0; done <= s->n_bytes; at += n) {
        char escaped[16];
        uint32_t point = 0;
        size_t escape = 0;
        n = 1;
        if (at < s->n_bytes &&
            ig_utf8_next(s->bytes + at, s->n_bytes - at, &point, &n) == IG_UTF8_WHOLE)
            escape = escape_repr(point, quote, escaped);
        if (escape == 0 && at < s->n_bytes) continue;
        IG_TRY(jinja_add_part(run, b, s, done, at));
        if (at == s->n_bytes) break;
        IG_TRY(jinja_add(run, b, escaped, escape, is_given(s, at)));
        done = at + n;
    }
    return jinja_add(run, b, &quote, 1, given);
}

static ig_status add_list_repr(jinja_run *run, jinja_builder *b, jinja_value v, int depth) {
    const bool is_list = v.kind == JINJA_V_LIST;
    IG_TRY(jinja_add(run, b, is_list ? "[" : "(", 1, v.given));
    for (size_t i = 0; i < v.list->count; i++) {
        if (i > 0) IG_TRY(jinja_add(run, b, ", ", 2, v.given));
        IG_TRY(jinja_add_repr(run, b, v.list->at[i], depth + 1));
    }
    if (!is_list && v.list->count == 1) IG_TRY(jinja_add(run, b, ",", 1, v.given));
    return jinja_add(run, b, is_list ? "]" : ")", 1, v.given);
}

static ig_status add_dict_repr(jinja_run *run, jinja_builder *b, jinja_value v, int depth) {
    const bool is_dict = v.kind == JINJA_V_DICT;
    if (!is_dict) IG_TRY(jinja_add_text(run, b, "<Namespace "));
    IG_TRY(jinja_add(run, b, "{", 1, v.given));
    for (size_t i = 0; i < v.dict->count; i++) {
        if (i > 0) IG_TRY(jinja_add(run, b, ", ", 2, v.given));
        IG_TRY(jinja_add_repr(run, b, v.dict->at[i].key, depth + 1));
        IG_TRY(jinja_add(run, b, ": ", 2, v.given));
        IG_TRY(jinja_add_repr(run, b, v.dict->at[i].value, depth + 1));
    }
    return jinja_add(run, b, "}>", is_dict ? 1 : 2, v.given);
}

static ig_status add_range_repr(jinja_run *run, jinja_builder *b, const jinja_series *range) {
    char text[80];
    const int n = snprintf(text, sizeof text,
                           range->step == 1 ? "range(%lld, %lld)" : "range(%lld, %lld, %lld)",
                           (long long)range->begin, (long long)range->end, (long long)range->step);
    return jinja_add(run, b, text, (size_t)n, false);
}

static ig_status add_series_repr(jinja_run *run, jinja_builder *b, jinja_value v, int depth) {
    static const char *const names[] = {[JINJA_KEYS] = "dict_keys(",
                                        [JINJA_VALUES] = "dict_values(",
                                        [JINJA_ITEMS] = "dict_items("};
    const jinja_series *series = v.series;
    if (series->kind == JINJA_RANGE) return add_range_repr(run, b, series);
    if (jinja_is_once(v))
        return jinja_add_text(
            run, b, series->kind == JINJA_GENERATOR ? "<generator object>" : "<reversed object>");
    jinja_list copy = *series->items;
    const jinja_value list = {.kind = JINJA_V_LIST, .given = v.given, .list = &copy};
    IG_TRY(jinja_add_text(run, b, names[series->kind]));
    IG_TRY(add_list_repr(run, b, list, depth));
    return jinja_add_text(run, b, ")");
}

static ig_status add_macro_repr(jinja_run *run, jinja_builder *b, const jinja_macro *macro) {
    const jinja_name name = macro->node->name;
    if (name.n_bytes == 0) return jinja_add_text(run, b, "<Macro anonymous>");
    IG_TRY(jinja_add_text(run, b, "<Macro '"));
    IG_TRY(jinja_add(run, b, name.bytes, name.n_bytes, false));
    return jinja_add_text(run, b, "'>");
}

static ig_status add_loop_repr(jinja_run *run, jinja_builder *b, const jinja_loop *loop) {
    char text[64];
    const int n =
        snprintf(text, sizeof text, "<LoopContext %zu/%zu>", loop->at + 1, loop->items->count);
    return jinja_add(run, b, text, (size_t)n, false);
}

ig_status jinja_add_repr(jinja_run *run, jinja_builder *b, jinja_value v, int depth) {
    if (depth > IG_JINJA_DEPTH_MAX) return too_deep(run);
    switch (v.kind) {
    case JINJA_V_MISSING: return IG_OK;
    case JINJA_V_UNDEFINED: return jinja_add_text(run, b, depth > 0 ? "Undefined" : "");
    case JINJA_V_NONE: return jinja_add(run, b, "None", 4, v.given);
    case JINJA_V_BOOL:
        return jinja_add(run, b, v.integer ? "True" : "False", v.integer ? 4 : 5, v.given);
    case JINJA_V_INTEGER:
    case JINJA_V_REAL: return add_number(run, b, v);
    case JINJA_V_STRING:
        if (!v.string->markup) return add_string_repr(run, b, v.string);
        IG_TRY(jinja_add_text(run, b, "Markup("));
        IG_TRY(add_string_repr(run, b, v.string));
        return jinja_add_text(run, b, ")");
    case JINJA_V_SERIES: return add_series_repr(run, b, v, depth);
    case JINJA_V_LIST:
    case JINJA_V_TUPLE: return add_list_repr(run, b, v, depth);
    case JINJA_V_DICT:
    case JINJA_V_NAMESPACE: return add_dict_repr(run, b, v, depth);
    case JINJA_V_MACRO: return add_macro_repr(run, b, v.macro);
    case JINJA_V_CYCLER:
    case JINJA_V_JOINER:
    case JINJA_V_FUNCTION: return jinja_add_text(run, b, "<function>");
    case JINJA_V_LOOP: return add_loop_repr(run, b, v.loop);
    }
    return IG_OK;
}

ig_status jinja_add_value(jinja_run *run, jinja_builder *b, jinja_value v) {
    if (v.kind == JINJA_V_STRING) return jinja_add_string(run, b, v.string);
    return jinja_add_repr(run, b, v, 0);
}

ig_status jinja_to_string(jinja_run *run, jinja_value v, const jinja_string **out) {
    if (v.kind != JINJA_V_STRING) {
        jinja_builder b = {0};
        IG_TRY(jinja_add_value(run, &b, v));
        IG_TRY(jinja_finish(run, &b, &v));
    }
    *out = v.string;
    return IG_OK;
}

/* ---- JSON ---- */

static size_t escape_json(uint32_t point, bool ascii, char out[16]) {
    static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
    const char *named = point && point < 0x80 ? strchr(from, (int)point) : NULL;
    if (named) return (size_t)snprintf(out, 16, "\\%c", to[named - from]);
    if (point >= 0x20 && (!ascii || point < 0x7F)) return 0;
    if (point < 0x10000) return (size_t)snprintf(out, 16, "\\u%04x", point);
    point -= 0x10000;
    return (size_t)snprintf(out, 16, "\\u%04x\\u%04x", 0xD800 + (point >> 10),
                            0xDC00 + (point & 0x3FF));
}

static ig_status add_json_string(jinja_run *run, jinja_builder *b, const jinja_string *s,
                                 bool ascii) {
    const bool given = s->given && !s->marks;
    size_t done = 0;
    IG_TRY(jinja_add(run, b, "\"", 1, given));
    for (size_t at = 0, n; at < s->n_bytes; at += n) {
        char escaped[16];
        uint32_t point = 0;
        n = 1;
        if (ig_utf8_next(s->bytes + at, s->n_bytes - at, &point, &n) != IG_UTF8_WHOLE) continue;
        const size_t escape = escape_json(point, ascii, escaped);
        if (escape == 0) continue;
        IG_TRY(jinja_add_part(run, b, s, done, at));
        IG_TRY(jinja_add(run, b, escaped, escape, is_given(s, at)));
        done = at + n;
    }
    IG_TRY(jinja_add_part(run, b, s, done, s->n_bytes));
    return jinja_add(run, b, "\"", 1, given);
}

/* The end of a line, and what its next begins with. */
static ig_status add_break(jinja_run *run, jinja_builder *b, const jinja_json_style *style,
                           int depth, bool given) {
    if (style->indent < 0 && !style->fill) return IG_OK;
    IG_TRY(jinja_add(run, b, "\n", 1, given));
    for (int i = 0; style->fill && i < depth; i++)
        IG_TRY(jinja_add(run, b, style->fill, style->n_fill, given));
    if (style->fill) return IG_OK;
    return jinja_add_fill(run, b, ' ', style->indent * depth, given);
}

/* Keys are texts: 1 is "1", None "null". */
static ig_status add_json_key(jinja_run *run, jinja_builder *b, jinja_value key,
                              const jinja_json_style *style) {
    if (key.kind == JINJA_V_STRING) return add_json_string(run, b, key.string, style->ascii);
    if (!jinja_is_number(key) && key.kind != JINJA_V_NONE)
        return JINJA_FAIL(run, "tojson: %s cannot be a key", jinja_type_name(key));
    IG_TRY(jinja_add(run, b, "\"", 1, key.given));
    IG_TRY(jinja_add_json(run, b, key, style, 0));
    return jinja_add(run, b, "\"", 1, key.given);
}

static ig_status add_json_dict(jinja_run *run, jinja_builder *b, jinja_value v,
                               const jinja_json_style *style, int depth) {
    const size_t count = v.dict->count;
    jinja_value *keys = jinja_take(&run->arena, 2 * count, sizeof *keys), *order = keys + count;
    if (!keys) return jinja_no_memory(&run->arena, run->line);
    for (size_t i = 0; i < count; i++) {
        keys[i] = v.dict->at[i].key;
        order[i] = jinja_integer((int64_t)i);
    }
    if (style->sorts) IG_TRY(jinja_sort(run, keys, order, count, false));
    IG_TRY(jinja_add(run, b, "{", 1, v.given));
    for (size_t i = 0; i < count; i++) {
        if (i > 0) IG_TRY(jinja_add(run, b, style->item, style->n_item, v.given));
        IG_TRY(add_break(run, b, style, depth + 1, v.given));
        IG_TRY(add_json_key(run, b, keys[i], style));
        IG_TRY(jinja_add(run, b, style->key, style->n_key, v.given));
        IG_TRY(jinja_add_json(run, b, v.dict->at[order[i].integer].value, style, depth + 1));
    }
    if (count > 0) IG_TRY(add_break(run, b, style, depth, v.given));
    return jinja_add(run, b, "}", 1, v.given);
}

static ig_status add_json_list(jinja_run *run, jinja_builder *b, jinja_value v,
                               const jinja_json_style *style, int depth) {
    IG_TRY(jinja_add(run, b, "[", 1, v.given));
    for (size_t i = 0; i < v.list->count; i++) {
        if (i > 0) IG_TRY(jinja_add(run, b, style->item, style->n_item, v.given));
        IG_TRY(add_break(run, b, style, depth + 1, v.given));
        IG_TRY(jinja_add_json(run, b, v.list->at[i], style, depth + 1));
    }
    if (v.list->count > 0) IG_TRY(add_break(run, b, style, depth, v.given));
    return jinja_add(run, b, "]", 1, v.given);
}

static ig_status add_json_real(jinja_run *run, jinja_builder *b, jinja_value v) {
    if (isfinite(v.real)) return add_number(run, b, v);
    const char *text = isnan(v.real) ? "NaN" : v.real < 0 ? "-Infinity" : "Infinity";
    return jinja_add(run, b, text, strlen(text), v.given);
}

ig_status jinja_add_json(jinja_run *run, jinja_builder *b, jinja_value v,
                         const jinja_json_style *style, int depth) {
    if (depth > IG_JINJA_DEPTH_MAX) return too_deep(run);
    switch (v.kind) {
    case JINJA_V_NONE: return jinja_add(run, b, "null", 4, v.given);
    case JINJA_V_BOOL:
        return jinja_add(run, b, v.integer ? "true" : "false", v.integer ? 4 : 5, v.given);
    case JINJA_V_INTEGER: return add_number(run, b, v);
    case JINJA_V_REAL: return add_json_real(run, b, v);
    case JINJA_V_STRING: return add_json_string(run, b, v.string, style->ascii);
    case JINJA_V_LIST:
    case JINJA_V_TUPLE: return add_json_list(run, b, v, style, depth);
    case JINJA_V_DICT: return add_json_dict(run, b, v, style, depth);
    default: return JINJA_FAIL(run, "tojson: %s cannot be JSON", jinja_type_name(v));
    }
}
