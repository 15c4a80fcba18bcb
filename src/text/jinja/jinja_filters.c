/* Filters of single values: text and JSON. */
#include <stdio.h>
#include <string.h>

#include "base/json_parse.h"
#include "text/jinja/jinja_strings.h"

/* What is filtered, as a string: of anything else what is printed of it. */
static ig_status self_string(jinja_run *run, const jinja_call *call, const jinja_string **out) {
    return jinja_to_string(run, call->self, out);
}

/* ---- Text ---- */

static ig_status filter_string(jinja_run *run, const jinja_call *call, jinja_value *out) {
    out->kind = JINJA_V_STRING;
    return self_string(run, call, &out->string);
}

static ig_status filter_safe(jinja_run *run, const jinja_call *call, jinja_value *out) {
    IG_TRY(filter_string(run, call, out));
    return jinja_mark_up(run, out);
}

static ig_status filter_trim(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_string *s, *chars;
    IG_TRY(self_string(run, call, &s));
    IG_TRY(jinja_arg_string(run, call, 0, &chars));
    return jinja_strip(run, s, chars, JINJA_BOTH, out);
}

static ig_status change_case(jinja_run *run, const jinja_call *call, jinja_case to,
                             jinja_value *out) {
    const jinja_string *s;
    IG_TRY(self_string(run, call, &s));
    IG_TRY(jinja_change_case(run, s, to, true, out));
    return s->markup && to != JINJA_TITLE ? jinja_mark_up(run, out) : IG_OK;
}

static ig_status filter_upper(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return change_case(run, call, JINJA_UPPER, out);
}

static ig_status filter_lower(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return change_case(run, call, JINJA_LOWER, out);
}

static ig_status filter_title(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return change_case(run, call, JINJA_TITLE, out);
}

static ig_status filter_capitalize(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return change_case(run, call, JINJA_CAPITALIZE, out);
}

static ig_status filter_replace(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_string *s, *from, *to;
    int64_t most;
    IG_TRY(self_string(run, call, &s));
    IG_TRY(jinja_to_string(run, call->bound[0], &from));
    IG_TRY(jinja_to_string(run, call->bound[1], &to));
    IG_TRY(jinja_arg_integer(run, call, 2, -1, &most));
    return jinja_replace(run, s, from, to, most, out);
}

static ig_status filter_indent(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_string *s, *text = NULL;
    const bool first = jinja_arg_truth(call, 1, false), blank = jinja_arg_truth(call, 2, false);
    int64_t width = 4;
    jinja_value lines;
    jinja_builder b = {0};
    if (call->self.kind != JINJA_V_STRING)
        return JINJA_FAIL(run, "indent: needs a string, not %s", jinja_type_name(call->self));
    IG_TRY(self_string(run, call, &s));
    if (call->bound[0].kind == JINJA_V_STRING)
        text = call->bound[0].string;
    else
        IG_TRY(jinja_arg_integer(run, call, 0, 4, &width));
    IG_TRY(jinja_split_lines(run, s, false, &lines));
    const bool ends = s->n_bytes > 0 && s->bytes[s->n_bytes - 1] == '\n'; /* with an empty line */
    const size_t count = lines.list->count + (ends || s->n_bytes == 0);
    for (size_t i = 0; i < count; i++) {
        const bool is_empty = i == lines.list->count || lines.list->at[i].string->n_bytes == 0;
        if (i > 0) IG_TRY(jinja_add_text(run, &b, "\n"));
        if (i > 0 ? blank || !is_empty : first)
            IG_TRY(text ? jinja_add_string(run, &b, text)
                        : jinja_add_fill(run, &b, ' ', width, false));
        if (!is_empty) IG_TRY(jinja_add_string(run, &b, lines.list->at[i].string));
    }
    IG_TRY(jinja_finish(run, &b, out));
    return s->markup ? jinja_mark_up(run, out) : IG_OK;
}

static ig_status filter_format(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_string *s;
    jinja_value arguments;
    IG_TRY(self_string(run, call, &s));
    IG_TRY(jinja_new_list(run, JINJA_V_TUPLE, &arguments));
    for (size_t i = 0; i < call->count; i++) IG_TRY(jinja_append(run, arguments.list, call->at[i]));
    if (call->n_named > 0 && call->count > 0)
        return JINJA_FAIL(run, "format: takes values, or values with names, not both");
    if (call->n_named > 0) IG_TRY(jinja_new_dict(run, JINJA_V_DICT, &arguments));
    for (size_t i = 0; i < call->n_named; i++) {
        const jinja_name name = call->named[i].name;
        jinja_value key;
        IG_TRY(jinja_new_string(run, name.bytes, name.n_bytes, false, &key));
        IG_TRY(jinja_set(run, arguments.dict, key, call->named[i].value));
    }
    return jinja_binary(run, '%', (jinja_value){.kind = JINJA_V_STRING, .string = s}, arguments,
                        out);
}

static ig_status escape(jinja_run *run, const jinja_string *s, jinja_value *out) {
    static const char from[] = "&<>'\"";
    static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    jinja_builder b = {0};
    size_t done = 0;
    for (size_t at = 0; at < s->n_bytes; at++) {
        const char *found = s->bytes[at] ? strchr(from, s->bytes[at]) : NULL;
        if (!found) continue;
        const char *text = to[found - from];
        IG_TRY(jinja_add_part(run, &b, s, done, at));
        IG_TRY(jinja_add(run, &b, text, strlen(text), s->marks ? s->marks[at] : s->given));
        done = at + 1;
    }
    IG_TRY(jinja_add_part(run, &b, s, done, s->n_bytes));
    IG_TRY(jinja_finish(run, &b, out));
    return jinja_mark_up(run, out);
}

ig_status jinja_escape(jinja_run *run, jinja_value v, jinja_value *out) {
    const jinja_string *s;
    *out = v;
    if (jinja_is_markup(v)) return IG_OK;
    IG_TRY(jinja_to_string(run, v, &s));
    return escape(run, s, out);
}

static ig_status filter_escape(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return jinja_escape(run, call->self, out);
}

static ig_status filter_forceescape(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_string *s;
    IG_TRY(self_string(run, call, &s));
    return escape(run, s, out);
}

/* ---- JSON ---- */

/* separators=(",", ":") */
static ig_status set_separators(jinja_run *run, jinja_value pair, jinja_json_style *style) {
    if (pair.kind == JINJA_V_MISSING || pair.kind == JINJA_V_NONE) return IG_OK;
    if (!jinja_is_list(pair) || pair.list->count != 2 || pair.list->at[0].kind != JINJA_V_STRING ||
        pair.list->at[1].kind != JINJA_V_STRING)
        return JINJA_FAIL(run, "tojson: separators are two strings");
    const jinja_string *item = pair.list->at[0].string, *key = pair.list->at[1].string;
    style->item = item->bytes, style->n_item = item->n_bytes;
    style->key = key->bytes, style->n_key = key->n_bytes;
    return IG_OK;
}

static ig_status filter_tojson(jinja_run *run, const jinja_call *call, jinja_value *out) {
    enum { INDENT_MAX = 64 };
    int64_t indent = -1;
    const jinja_value given = call->bound[1];
    const jinja_string *fill = given.kind == JINJA_V_STRING ? given.string : NULL;
    if (!fill) IG_TRY(jinja_arg_integer(run, call, 1, -1, &indent));
    if (jinja_is_whole(given) && indent < 0) indent = 0; /* as json.dumps has it */
    if (indent > INDENT_MAX) return JINJA_FAIL(run, "tojson: indent is at most %d", INDENT_MAX);
    jinja_json_style style = {.item = ", ",
                              .n_item =
                                  indent >= 0 || fill ? 1 : 2, /* a line ends without a space */
                              .key = ": ",
                              .n_key = 2,
                              .indent = (int)indent,
                              .fill = fill ? fill->bytes : NULL,
                              .n_fill = fill ? fill->n_bytes : 0,
                              .ascii = jinja_arg_truth(call, 0, false),
                              .sorts = jinja_arg_truth(call, 3, false)};
    IG_TRY(set_separators(run, call->bound[2], &style));
    jinja_builder b = {0};
    if (call->self.kind == JINJA_V_UNDEFINED) return jinja_is_undefined(run, call->self);
    IG_TRY(jinja_add_json(run, &b, call->self, &style, 0));
    return jinja_finish(run, &b, out);
}

/* Strings that lie in a JSON tree, as ones that stay when it goes. */
static ig_status copy_strings(jinja_run *run, jinja_value *v) {
    if (v->kind == JINJA_V_STRING) {
        jinja_builder b = {0};
        IG_TRY(jinja_add_string(run, &b, v->string));
        return jinja_finish(run, &b, v);
    }
    for (size_t i = 0; v->kind == JINJA_V_LIST && i < v->list->count; i++)
        IG_TRY(copy_strings(run, &v->list->at[i]));
    for (size_t i = 0; v->kind == JINJA_V_DICT && i < v->dict->count; i++) {
        IG_TRY(copy_strings(run, &v->dict->at[i].key));
        IG_TRY(copy_strings(run, &v->dict->at[i].value));
    }
    return IG_OK;
}

static ig_status filter_from_json(jinja_run *run, const jinja_call *call, jinja_value *out) {
    if (call->self.kind != JINJA_V_STRING)
        return JINJA_FAIL(run, "from_json: %s is no JSON", jinja_type_name(call->self));
    const jinja_string *s = call->self.string;
    IG_TRY(jinja_work(run, s->n_bytes));
    json_t *json = NULL;
    const ig_status parsed = ig_json_decode(IG_ERR_ARGUMENT, "from_json", "the text", s->bytes,
                                            s->n_bytes, JSON_DECODE_ANY | JSON_ALLOW_NUL, &json);
    if (parsed == IG_ERR_ARGUMENT) return JINJA_FAIL(run, "%s", ig_error_text());
    if (parsed != IG_OK) return parsed;
    jinja_value lent;
    ig_status status = jinja_from_json(run, json, 0, &lent);
    if (status == IG_OK) status = copy_strings(run, &lent);
    json_decref(json);
    if (status == IG_OK) *out = lent;
    return status;
}

/* ---- Layout ---- */

static ig_status filter_center(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_string *s;
    int64_t width, length;
    jinja_builder b = {0};
    IG_TRY(self_string(run, call, &s));
    IG_TRY(jinja_arg_integer(run, call, 0, 80, &width));
    IG_TRY(jinja_length(run, (jinja_value){.kind = JINJA_V_STRING, .string = s}, &length));
    const int64_t fill = width > length ? width - length : 0;
    const int64_t before = fill / 2 + (fill & width & 1);
    IG_TRY(jinja_add_fill(run, &b, ' ', before, false));
    IG_TRY(jinja_add_string(run, &b, s));
    IG_TRY(jinja_add_fill(run, &b, ' ', fill - before, false));
    IG_TRY(jinja_finish(run, &b, out));
    return s->markup ? jinja_mark_up(run, out) : IG_OK;
}

static ig_status filter_wordcount(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_string *s;
    int64_t count = 0;
    bool within = false;
    IG_TRY(self_string(run, call, &s));
    IG_TRY(jinja_work(run, 4 * s->n_bytes));
    for (size_t at = 0; at < s->n_bytes; at += jinja_char_bytes(s, at)) {
        const uint32_t point = jinja_point(s, at);
        const bool is_word = point == '_' || point - '0' < 10 || jinja_is_letter(point);
        count += is_word && !within;
        within = is_word;
    }
    *out = jinja_integer(count);
    return IG_OK;
}

/* The text up to the last space in it. */
static ig_status before_last_space(jinja_run *run, jinja_value *v) {
    const jinja_string *s = v->string;
    const char *space = s->n_bytes > 0 ? memrchr(s->bytes, ' ', s->n_bytes) : NULL;
    return space ? jinja_part(run, s, 0, (size_t)(space - s->bytes), v) : IG_OK;
}

static ig_status filter_truncate(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_string *s, *end;
    int64_t most, leeway, length, end_length;
    jinja_value dots, kept;
    IG_TRY(self_string(run, call, &s));
    IG_TRY(jinja_arg_integer(run, call, 0, 255, &most));
    IG_TRY(jinja_arg_integer(run, call, 3, 5, &leeway));
    IG_TRY(jinja_arg_string(run, call, 2, &end));
    IG_TRY(jinja_new_string(run, "...", 3, false, &dots));
    if (end) dots.string = end;
    const jinja_value text = {.kind = JINJA_V_STRING, .string = s};
    IG_TRY(jinja_length(run, text, &length));
    IG_TRY(jinja_length(run, dots, &end_length));
    if (most < end_length || leeway < 0)
        return JINJA_FAIL(run, "truncate: the length must be at least %lld, leeway at least 0",
                          (long long)end_length);
    *out = text;
    if (length - most <= leeway) return IG_OK;
    const jinja_value bounds[3] = {{0}, jinja_integer(most - end_length), {0}};
    IG_TRY(jinja_slice(run, text, bounds, &kept));
    if (!jinja_arg_truth(call, 1, false)) IG_TRY(before_last_space(run, &kept));
    return jinja_binary(run, '+', kept, dots, out);
}

/* ---- URLs ---- */

static ig_status add_quoted(jinja_run *run, jinja_builder *b, jinja_value v, bool in_query) {
    const jinja_string *s;
    IG_TRY(jinja_to_string(run, v, &s));
    for (size_t i = 0; i < s->n_bytes; i++) {
        char text[4];
        const unsigned char c = (unsigned char)s->bytes[i];
        const bool keeps =
            (c | 32U) - 97U < 26 || c - 48U < 10 || (c && strchr(in_query ? "_.-~" : "_.-~/", c));
        const int n = keeps                  ? snprintf(text, sizeof text, "%c", c)
                      : c == ' ' && in_query ? snprintf(text, sizeof text, "+")
                                             : snprintf(text, sizeof text, "%%%02X", c);
        IG_TRY(jinja_add(run, b, text, (size_t)n, s->marks ? s->marks[i] : s->given));
    }
    return IG_OK;
}

/* A string, or pairs as a query. */
static ig_status filter_urlencode(jinja_run *run, const jinja_call *call, jinja_value *out) {
    jinja_builder b = {0};
    jinja_list *pairs, *pair;
    jinja_value from = call->self;
    const bool is_text =
        from.kind != JINJA_V_DICT && from.kind != JINJA_V_SERIES && !jinja_is_list(from);
    if (is_text) {
        IG_TRY(add_quoted(run, &b, from, false));
        return jinja_finish(run, &b, out);
    }
    if (from.kind == JINJA_V_DICT) {
        jinja_call items = {.self = from};
        IG_TRY(
            jinja_call_function(run, jinja_find_filter((jinja_name){"items", 5}), &items, &from));
    }
    IG_TRY(jinja_iterate(run, from, &pairs));
    for (size_t i = 0; i < pairs->count; i++) {
        IG_TRY(jinja_iterate(run, pairs->at[i], &pair));
        if (pair->count != 2) return JINJA_FAIL(run, "urlencode: item %zu is no pair", i);
        if (i > 0) IG_TRY(jinja_add_text(run, &b, "&"));
        IG_TRY(add_quoted(run, &b, pair->at[0], true));
        IG_TRY(jinja_add_text(run, &b, "="));
        IG_TRY(add_quoted(run, &b, pair->at[1], true));
    }
    return jinja_finish(run, &b, out);
}

/* ---- Others ---- */

static ig_status filter_default(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const bool replaces = call->self.kind == JINJA_V_UNDEFINED ||
                          (jinja_arg_truth(call, 1, false) && !jinja_truth(call->self));
    *out = replaces ? call->bound[0] : call->self;
    return out->kind == JINJA_V_MISSING ? jinja_new_string(run, "", 0, false, out) : IG_OK;
}

static ig_status filter_length(jinja_run *run, const jinja_call *call, jinja_value *out) {
    out->kind = JINJA_V_INTEGER;
    return jinja_length(run, call->self, &out->integer);
}

static ig_status filter_attr(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_string *name;
    IG_TRY(jinja_arg_string(run, call, 0, &name));
    if (!name) return JINJA_FAIL(run, "attr: needs a name");
    jinja_name *copy = jinja_take(&run->arena, 1, sizeof *copy);
    if (!copy) return jinja_no_memory(&run->arena, run->line);
    *copy = (jinja_name){name->bytes, name->n_bytes};
    *out = jinja_undefined(copy); /* keys are no attributes */
    return call->self.kind == JINJA_V_DICT ? jinja_method(run, call->self, copy, out)
                                           : jinja_attribute(run, call->self, copy, out);
}

const jinja_function jinja_filters[] = {
    {"string", "", filter_string},
    {"safe", "", filter_safe},
    {"forceescape", "", filter_forceescape},
    {"trim", "chars", filter_trim},
    {"upper", "", filter_upper},
    {"lower", "", filter_lower},
    {"title", "", filter_title},
    {"capitalize", "", filter_capitalize},
    {"replace", "old new count", filter_replace},
    {"indent", "width first blank", filter_indent},
    {"format", NULL, filter_format},
    {"escape", "", filter_escape},
    {"e", "", filter_escape},
    {"tojson", "ensure_ascii indent separators sort_keys", filter_tojson},
    {"from_json", "", filter_from_json},
    {"center", "width", filter_center},
    {"wordcount", "", filter_wordcount},
    {"truncate", "length killwords end leeway", filter_truncate},
    {"urlencode", "", filter_urlencode},
    {"default", "default_value boolean", filter_default},
    {"d", "default_value boolean", filter_default},
    {"length", "", filter_length},
    {"count", "", filter_length},
    {"attr", "name", filter_attr},
    {0},
};
