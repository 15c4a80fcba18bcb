/* Text with values in it: "%s: %d" % (a, b) and "{}: {n}".format(a, n=b). */
#include <stdio.h>
#include <string.h>

#include "text/jinja/jinja_run.h"

/* How a value is written: [[fill]align][sign][0][width][.precision][type]. */
typedef struct spec {
    char fill, align, sign, type;
    int64_t width, precision; /* precision below 0: none */
} spec;

enum { WIDTH_MAX = 1000, PRECISION_MAX = 100 };

/* Digits at `*at`; 0, if there are none. */
static int64_t take_number(const jinja_string *s, size_t *at) {
    int64_t x = 0;
    for (; *at < s->n_bytes && s->bytes[*at] >= '0' && s->bytes[*at] <= '9'; ++*at)
        if (x <= WIDTH_MAX) x = 10 * x + s->bytes[*at] - '0';
    return x;
}

/* A number as C writes it: the formats are the same. */
static ig_status write_number(jinja_run *run, const spec *how, jinja_value v, char *out,
                              size_t room) {
    const char sign[2] = {how->sign == '+' || how->sign == ' ' ? how->sign : 0, 0};
    const int precision = (int)how->precision;
    char format[16];
    if (strchr("di", how->type)) {
        if (!jinja_is_number(v))
            return JINJA_FAIL(run, "%%%c: needs a number, not %s", how->type, jinja_type_name(v));
        const double x = jinja_as_real(v);
        if (v.kind == JINJA_V_REAL && !(x > -9.2e18 && x < 9.2e18))
            return JINJA_FAIL(run, "integer overflow: more than 64 bits");
        snprintf(format, sizeof format, "%%%slld", sign);
        snprintf(out, room, format, v.kind == JINJA_V_REAL ? (long long)x : (long long)v.integer);
    } else if (strchr("xXo", how->type)) {
        if (!jinja_is_whole(v) || v.integer < 0)
            return JINJA_FAIL(run, "%%%c: needs an integer of at least 0", how->type);
        snprintf(format, sizeof format, "%%ll%c", how->type);
        snprintf(out, room, format, (long long)v.integer);
    } else {
        if (!jinja_is_number(v))
            return JINJA_FAIL(run, "%%%c: needs a number, not %s", how->type, jinja_type_name(v));
        snprintf(format, sizeof format, "%%%s.*%c", sign, how->type);
        snprintf(out, room, format, precision < 0 ? 6 : precision, jinja_as_real(v));
    }
    return IG_OK;
}

/* The value, without what fills its width. */
static ig_status write_value(jinja_run *run, const spec *how, jinja_value v, jinja_value *out) {
    jinja_builder b = {0};
    char number[512]; /* 1e308 in full, and its places */
    if (strchr("dixXofFeEgG", how->type) && how->type) {
        IG_TRY(write_number(run, how, v, number, sizeof number));
        IG_TRY(jinja_add(run, &b, number, strlen(number), v.given));
        return jinja_finish(run, &b, out);
    }
    IG_TRY(how->type == 'r' ? jinja_add_repr(run, &b, v, 0) : jinja_add_value(run, &b, v));
    IG_TRY(jinja_finish(run, &b, out));
    if (how->precision < 0) return IG_OK;
    const jinja_value bounds[3] = {{0}, jinja_integer(how->precision), {0}};
    return jinja_slice(run, *out, bounds, out);
}

static ig_status add_formatted(jinja_run *run, jinja_builder *b, const spec *how, jinja_value v) {
    jinja_value text;
    int64_t length;
    IG_TRY(write_value(run, how, v, &text));
    IG_TRY(jinja_length(run, text, &length));
    const int64_t fill = how->width > length ? how->width - length : 0;
    const bool has_sign =
        text.string->n_bytes > 0 && strchr("+-", text.string->bytes[0]) && how->align == '=';
    int64_t before = how->align == '>' || how->align == '=' ? fill : 0;
    if (how->align == '^') before = fill / 2;
    if (has_sign) IG_TRY(jinja_add_part(run, b, text.string, 0, 1));
    IG_TRY(jinja_add_fill(run, b, how->fill, before, false));
    IG_TRY(jinja_add_part(run, b, text.string, has_sign ? 1 : 0, text.string->n_bytes));
    return jinja_add_fill(run, b, how->fill, fill - before, false);
}

static ig_status check_spec(jinja_run *run, const spec *how) {
    if (how->width <= WIDTH_MAX && how->precision <= PRECISION_MAX) return IG_OK;
    return JINJA_FAIL(run, "a format of more than %d characters or %d places", WIDTH_MAX,
                      PRECISION_MAX);
}

/* ---- "%s" ---- */

typedef struct arguments {
    jinja_value given; /* a tuple, a dict, or one value */
    size_t used;
} arguments;

static ig_status next_argument(jinja_run *run, arguments *a, jinja_value *out) {
    const bool is_tuple = a->given.kind == JINJA_V_TUPLE;
    if (a->used >= (is_tuple ? a->given.list->count : 1))
        return JINJA_FAIL(run, "a format has too few values");
    *out = is_tuple ? a->given.list->at[a->used] : a->given;
    a->used++;
    return IG_OK;
}

/* (name) behind a %, if it stands there. */
static ig_status named_argument(jinja_run *run, const jinja_string *s, size_t *at, arguments *a,
                                jinja_value *out) {
    if (*at >= s->n_bytes || s->bytes[*at] != '(') return IG_OK;
    const char *end = memchr(s->bytes + *at, ')', s->n_bytes - *at);
    jinja_value key, *held;
    if (!end || a->given.kind != JINJA_V_DICT)
        return JINJA_FAIL(run, "a format with names needs a dict");
    const size_t last = (size_t)(end - s->bytes);
    IG_TRY(jinja_part(run, s, *at + 1, last, &key));
    IG_TRY(jinja_get(run, a->given.dict, key, &held));
    if (!held) return JINJA_FAIL(run, "a format names what the dict does not have");
    *out = *held;
    a->used = 1;
    *at = last + 1;
    return IG_OK;
}

/* One of them, from behind the %. */
static ig_status percent(jinja_run *run, const jinja_string *s, size_t *at, arguments *a,
                         jinja_builder *b) {
    spec how = {.fill = ' ', .align = '>', .precision = -1};
    jinja_value v = {0};
    IG_TRY(named_argument(run, s, at, a, &v));
    for (; *at < s->n_bytes && s->bytes[*at] && strchr("-+ 0", s->bytes[*at]); ++*at) {
        const char c = s->bytes[*at];
        if (c == '-') how.align = '<';
        if (c == '0' && how.align != '<') how.fill = '0', how.align = '=';
        if (c == '+' || c == ' ') how.sign = c;
    }
    how.width = take_number(s, at);
    if (*at < s->n_bytes && s->bytes[*at] == '.') {
        ++*at;
        how.precision = take_number(s, at);
    }
    IG_TRY(check_spec(run, &how));
    how.type = *at < s->n_bytes ? s->bytes[(*at)++] : 0;
    if (how.type == '%') return jinja_add_part(run, b, s, *at - 1, *at);
    if (!how.type || !strchr("sridxXofFeEgG", how.type))
        return JINJA_FAIL(run, "format %%%c is not known", how.type ? how.type : ' ');
    if (strchr("sr", how.type) && how.align == '=') how.align = '>', how.fill = ' ';
    if (v.kind == JINJA_V_MISSING) IG_TRY(next_argument(run, a, &v));
    return add_formatted(run, b, &how, v);
}

ig_status jinja_format_percent(jinja_run *run, const jinja_string *s, jinja_value given,
                               jinja_value *out) {
    jinja_builder b = {0};
    arguments a = {.given = given};
    for (size_t at = 0; at < s->n_bytes;) {
        const char *next = memchr(s->bytes + at, '%', s->n_bytes - at);
        const size_t end = next ? (size_t)(next - s->bytes) : s->n_bytes;
        IG_TRY(jinja_add_part(run, &b, s, at, end));
        at = end + 1;
        if (next) IG_TRY(percent(run, s, &at, &a, &b));
    }
    const bool may_rest =
        given.kind == JINJA_V_DICT || given.kind == JINJA_V_LIST || given.kind == JINJA_V_UNDEFINED;
    const size_t count = given.kind == JINJA_V_TUPLE ? given.list->count : may_rest ? 0 : 1;
    if (a.used < count) return JINJA_FAIL(run, "a format has more values than places");
    return jinja_finish(run, &b, out);
}

/* ---- "{}" ---- */

/* The value that a field names: nothing, a number or a name. */
static ig_status field_value(jinja_run *run, const jinja_string *s, size_t begin, size_t end,
                             const jinja_call *call, size_t *next, jinja_value *out) {
    const jinja_name name = {s->bytes + begin, end - begin};
    size_t at = begin;
    const int64_t number = take_number(s, &at);
    if (begin == end || at == end) {
        const size_t i = begin == end ? (*next)++ : (size_t)number;
        if (i >= call->count) return JINJA_FAIL(run, "format: there is no value %zu", i);
        *out = call->at[i];
        return IG_OK;
    }
    for (size_t i = 0; i < call->n_named; i++)
        if (jinja_name_same(call->named[i].name, name)) {
            *out = call->named[i].value;
            return IG_OK;
        }
    return JINJA_FAIL(run, "format: there is no value '%.*s'", JINJA_SHOW(name));
}

static ig_status parse_spec(jinja_run *run, const jinja_string *s, size_t at, size_t end,
                            spec *how) {
    if (at + 1 < end && s->bytes[at + 1] && strchr("<>^=", s->bytes[at + 1])) {
        how->fill = s->bytes[at];
        how->align = s->bytes[at + 1];
        at += 2;
    } else if (at < end && s->bytes[at] && strchr("<>^=", s->bytes[at])) {
        how->align = s->bytes[at++];
    }
    if (at < end && s->bytes[at] && strchr("+- ", s->bytes[at])) how->sign = s->bytes[at++];
    if (at < end && s->bytes[at] == '0' && !how->align) how->fill = '0', how->align = '=', at++;
    how->width = take_number(s, &at);
    if (at < end && s->bytes[at] == '.') {
        at++;
        how->precision = take_number(s, &at);
    }
    if (at < end) how->type = s->bytes[at++];
    if (at != end || (how->type && !strchr("sdxXofFeEgG", how->type)))
        return JINJA_FAIL(run, "format: what stands behind : is not known");
    return check_spec(run, how);
}

/* {name!r:spec}, between its braces */
static ig_status add_field(jinja_run *run, const jinja_string *s, size_t begin, size_t end,
                           const jinja_call *call, size_t *next, jinja_builder *b) {
    spec how = {.fill = ' ', .precision = -1};
    const char *colon = memchr(s->bytes + begin, ':', end - begin);
    size_t name_end = colon ? (size_t)(colon - s->bytes) : end;
    jinja_value v;
    if (colon) IG_TRY(parse_spec(run, s, name_end + 1, end, &how));
    bool has_spec = colon && name_end + 1 < end;
    if (name_end - begin >= 2 && s->bytes[name_end - 2] == '!') {
        if (s->bytes[name_end - 1] == 'r') how.type = 'r';
        name_end -= 2;
        has_spec = false; /* what is formatted is a string */
    }
    IG_TRY(field_value(run, s, begin, name_end, call, next, &v));
    if (has_spec && v.kind == JINJA_V_BOOL) v = jinja_integer(v.integer); /* as Python has it */
    if (has_spec && v.kind != JINJA_V_STRING && !jinja_is_number(v))
        return JINJA_FAIL(run, "format: %s takes nothing behind :", jinja_type_name(v));
    if (!how.align) how.align = jinja_is_number(v) ? '>' : '<';
    return add_formatted(run, b, &how, v);
}

ig_status jinja_format_braces(jinja_run *run, const jinja_string *s, const jinja_call *call,
                              jinja_value *out) {
    jinja_builder b = {0};
    size_t next = 0;
    for (size_t at = 0; at < s->n_bytes; at++) {
        const char c = s->bytes[at];
        const bool doubled = at + 1 < s->n_bytes && s->bytes[at + 1] == c;
        if ((c != '{' && c != '}') || doubled) { /* {{ is { */
            IG_TRY(jinja_add_part(run, &b, s, at, at + 1));
            at += doubled && (c == '{' || c == '}');
            continue;
        }
        const char *end = c == '{' ? memchr(s->bytes + at, '}', s->n_bytes - at) : NULL;
        if (!end) return JINJA_FAIL(run, "format: a brace stands alone");
        IG_TRY(add_field(run, s, at + 1, (size_t)(end - s->bytes), call, &next, &b));
        at = (size_t)(end - s->bytes);
    }
    return jinja_finish(run, &b, out);
}
