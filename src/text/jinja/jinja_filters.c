/* Filters of single values: text, numbers, JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
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
    return jinja_change_case(run, s, to, true, out);
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
    return jinja_finish(run, &b, out);
}

static ig_status filter_format(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_string *s;
    jinja_value arguments;
    IG_TRY(self_string(run, call, &s));
    IG_TRY(jinja_new_list(run, JINJA_V_TUPLE, &arguments));
    for (size_t i = 0; i < call->count; i++) IG_TRY(jinja_append(run, arguments.list, call->at[i]));
    return jinja_format_percent(run, s, arguments, out);
}

static ig_status filter_escape(jinja_run *run, const jinja_call *call, jinja_value *out) {
    static const char from[] = "&<>'\"";
    static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    const jinja_string *s;
    jinja_builder b = {0};
    size_t done = 0;
    IG_TRY(self_string(run, call, &s));
    for (size_t at = 0; at < s->n_bytes; at++) {
        const char *found = s->bytes[at] ? strchr(from, s->bytes[at]) : NULL;
        if (!found) continue;
        const char *text = to[found - from];
        IG_TRY(jinja_add_part(run, &b, s, done, at));
        IG_TRY(jinja_add(run, &b, text, strlen(text), s->marks ? s->marks[at] : s->given));
        done = at + 1;
    }
    IG_TRY(jinja_add_part(run, &b, s, done, s->n_bytes));
    return jinja_finish(run, &b, out);
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
    int64_t indent;
    IG_TRY(jinja_arg_integer(run, call, 1, -1, &indent));
    if (indent > INDENT_MAX) return JINJA_FAIL(run, "tojson: indent is at most %d", INDENT_MAX);
    jinja_json_style style = {.item = ", ",
                              .n_item = indent >= 0 ? 1 : 2, /* a line ends without a space */
                              .key = ": ",
                              .n_key = 2,
                              .indent = (int)indent,
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

/* ---- Numbers ---- */

/* Text as a number; false: it is none. */
static bool parse_number(const jinja_string *s, char *text, size_t room, bool *is_whole) {
    static const char spaces[] = " \t\n\r\f\v", digits[] = "0123456789";
    size_t begin = 0, end = s->n_bytes;
    while (begin < end && memchr(spaces, s->bytes[begin], sizeof spaces - 1)) begin++;
    while (end > begin && memchr(spaces, s->bytes[end - 1], sizeof spaces - 1)) end--;
    if (begin == end || end - begin >= room || memchr(s->bytes + begin, 0, end - begin))
        return false;
    memcpy(text, s->bytes + begin, end - begin);
    text[end - begin] = 0;
    const char *unsigned_text = text + (*text == '-' || *text == '+');
    *is_whole = strspn(unsigned_text, digits) == strlen(unsigned_text);
    return strspn(text, "0123456789+-.eE") == strlen(text) && strpbrk(text, digits);
}

static ig_status real_to_whole(const jinja_run *run, double x, jinja_value *out) {
    if (!(fabs(x) < 9.2e18)) return JINJA_FAIL(run, "integer overflow: more than 64 bits");
    *out = jinja_integer((int64_t)x);
    return IG_OK;
}

static ig_status filter_int(jinja_run *run, const jinja_call *call, jinja_value *out) {
    char text[64], *end;
    bool is_whole;
    int64_t base;
    if (call->self.kind == JINJA_V_UNDEFINED) return jinja_is_undefined(run, call->self);
    IG_TRY(jinja_arg_integer(run, call, 1, 10, &base));
    *out = call->bound[0].kind == JINJA_V_MISSING ? jinja_integer(0) : call->bound[0];
    if (jinja_is_whole(call->self)) {
        *out = jinja_integer(call->self.integer);
    } else if (call->self.kind == JINJA_V_REAL && isfinite(call->self.real)) {
        return real_to_whole(run, call->self.real, out);
    } else if (call->self.kind == JINJA_V_STRING && base == 10 &&
               parse_number(call->self.string, text, sizeof text, &is_whole)) {
        int64_t x = 0;
        const char *digits = text + (*text == '-' || *text == '+');
        if (!is_whole) {
            const double real = strtod(text, &end);
            return *end ? IG_OK : real_to_whole(run, real, out);
        }
        for (; *digits; digits++)
            if (__builtin_mul_overflow(x, 10, &x) || __builtin_add_overflow(x, *digits - '0', &x))
                return JINJA_FAIL(run, "'%.40s' is more than 64 bits hold", text);
        *out = jinja_integer(*text == '-' ? -x : x);
    }
    return IG_OK;
}

static ig_status filter_float(jinja_run *run, const jinja_call *call, jinja_value *out) {
    char text[64], *end;
    bool is_whole;
    if (call->self.kind == JINJA_V_UNDEFINED) return jinja_is_undefined(run, call->self);
    *out = call->bound[0].kind == JINJA_V_MISSING ? jinja_real(0) : call->bound[0];
    if (jinja_is_number(call->self)) {
        *out = jinja_real(jinja_as_real(call->self));
    } else if (call->self.kind == JINJA_V_STRING &&
               parse_number(call->self.string, text, sizeof text, &is_whole)) {
        const double real = strtod(text, &end);
        if (!*end) *out = jinja_real(real);
    }
    return IG_OK;
}

static ig_status need_number(jinja_run *run, const jinja_call *call) {
    if (call->self.kind == JINJA_V_UNDEFINED) return jinja_is_undefined(run, call->self);
    if (jinja_is_number(call->self)) return IG_OK;
    return JINJA_FAIL(run, "%s: needs a number, not %s", call->what, jinja_type_name(call->self));
}

static ig_status filter_abs(jinja_run *run, const jinja_call *call, jinja_value *out) {
    IG_TRY(need_number(run, call));
    if (call->self.kind != JINJA_V_REAL && call->self.integer < 0)
        return jinja_binary(run, '-', jinja_integer(0), call->self, out);
    *out = call->self.kind == JINJA_V_REAL ? jinja_real(fabs(call->self.real))
                                           : jinja_integer(call->self.integer);
    return IG_OK;
}

static ig_status filter_round(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_string *method;
    int64_t precision;
    char text[400];
    IG_TRY(need_number(run, call));
    IG_TRY(jinja_arg_integer(run, call, 0, 0, &precision));
    IG_TRY(jinja_arg_string(run, call, 1, &method));
    const double x = jinja_as_real(call->self);
    if (precision < 0 || precision > 20)
        return JINJA_FAIL(run, "round: to 0 to 20 places, not %lld", (long long)precision);
    const jinja_name how = method ? (jinja_name){method->bytes, method->n_bytes} : (jinja_name){0};
    const bool down = jinja_name_is(how, "floor");
    if (down || jinja_name_is(how, "ceil")) {
        const double scale = pow(10, (double)precision);
        *out = jinja_real((down ? floor(x * scale) : ceil(x * scale)) / scale);
        return IG_OK;
    }
    if (jinja_is_whole(call->self)) {
        *out = jinja_integer(call->self.integer);
        return IG_OK;
    }
    snprintf(text, sizeof text, "%.*f", (int)precision, x); /* exact, ties to even */
    *out = jinja_real(strtod(text, NULL));
    return IG_OK;
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
    return call->self.kind == JINJA_V_DICT ? IG_OK : jinja_attribute(run, call->self, copy, out);
}

const jinja_function jinja_filters[] = {
    {"string", "", filter_string},
    {"safe", "", filter_string},
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
    {"int", "default base", filter_int},
    {"float", "default", filter_float},
    {"abs", "", filter_abs},
    {"round", "precision method", filter_round},
    {"default", "default_value boolean", filter_default},
    {"d", "default_value boolean", filter_default},
    {"length", "", filter_length},
    {"count", "", filter_length},
    {"attr", "name", filter_attr},
    {0},
};
