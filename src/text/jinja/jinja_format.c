/* Text with values in it: "%s: %d" % (a, b) and "{}: {n}".format(a, n=b). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "text/jinja/jinja_run.h"

/* How a value is written: [[fill]align][sign][#][0][width][grouping][.precision][type]. */
typedef struct spec {
    char fill[IG_UTF8_BYTES], align, sign, grouping, type;
    size_t n_fill;
    bool alternate;           /* # */
    int64_t width, precision; /* precision below 0: none */
} spec;

/* A number as text: what stands before its digits, and what fills its width may go between. */
typedef struct number_text {
    char text[640]; /* 1e308 in full, with grouping signs, and its places */
    size_t n_bytes, n_before;
} number_text;

enum { WIDTH_MAX = 1000, PRECISION_MAX = 100 };

/* Digits at `*at`; 0, if there are none. */
static int64_t take_number(const jinja_string *s, size_t *at) {
    int64_t x = 0;
    for (; *at < s->n_bytes && s->bytes[*at] >= '0' && s->bytes[*at] <= '9'; ++*at)
        if (x <= WIDTH_MAX) x = 10 * x + s->bytes[*at] - '0';
    return x;
}

static void fill_with(spec *how, char fill) {
    how->fill[0] = fill;
    how->n_fill = 1;
}

/* ---- Numbers ---- */

static void put_sign(const spec *how, bool negative, number_text *out) {
    const char sign = negative ? '-' : how->sign == '+' || how->sign == ' ' ? how->sign : 0;
    if (sign) out->text[out->n_bytes++] = sign;
}

static ig_status put_whole(jinja_run *run, const spec *how, jinja_value v, number_text *out) {
    const char type =
        how->type == 'u' || how->type == 'i' || how->type == 'n' || !how->type ? 'd' : how->type;
    const unsigned base = type == 'b' ? 2 : type == 'o' ? 8 : type == 'd' ? 10 : 16;
    const char *digits = type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    const double x = jinja_as_real(v);
    if (v.kind == JINJA_V_REAL && !(x > -9.2e18 && x < 9.2e18))
        return JINJA_FAIL(run, "integer overflow: more than 64 bits");
    const int64_t whole = v.kind == JINJA_V_REAL ? (int64_t)x : v.integer;
    uint64_t rest = whole < 0 ? -(uint64_t)whole : (uint64_t)whole;
    char text[160];
    size_t at = sizeof text, n = 0;
    const size_t group = base == 10 ? 3 : 4;
    do {
        if (how->grouping && n > 0 && n % group == 0) text[--at] = how->grouping;
        text[--at] = digits[rest % base];
        n++;
    } while ((rest /= base) > 0 || (int64_t)n < how->precision);
    put_sign(how, whole < 0, out);
    if (how->alternate && base != 10) {
        out->text[out->n_bytes++] = '0';
        out->text[out->n_bytes++] = type;
    }
    out->n_before = out->n_bytes;
    memcpy(out->text + out->n_bytes, text + at, sizeof text - at);
    out->n_bytes += sizeof text - at;
    return IG_OK;
}

/* Puts the grouping sign between the digits before the point. */
static void put_grouped(const spec *how, const char *digits, number_text *out) {
    const size_t n = strspn(digits, "0123456789");
    for (size_t i = 0; i < n; i++) {
        if (how->grouping && i > 0 && (n - i) % 3 == 0) out->text[out->n_bytes++] = how->grouping;
        out->text[out->n_bytes++] = digits[i];
    }
    const size_t rest = strlen(digits + n);
    memcpy(out->text + out->n_bytes, digits + n, rest);
    out->n_bytes += rest;
}

/* Without a type Python shows the digits that are needed and, unlike %g, a fraction. */
static void shortest(const spec *how, double x, char out[400]) {
    if (how->precision < 0) {
        (void)jinja_real_text(x, out);
        return;
    }
    snprintf(out, 400, "%.*g", how->precision > 0 ? (int)how->precision : 1, x);
    const size_t n = strlen(out);
    if (!strpbrk(out, ".en")) snprintf(out + n, 400 - n, ".0");
}

static void put_real(const spec *how, double x, number_text *out) {
    const int precision = how->precision < 0 ? 6 : (int)how->precision;
    const char type = how->type == '%' ? 'f' : how->type == 'n' ? 'g' : how->type;
    const char format[] = {'%', how->alternate ? '#' : '0', '.', '*', type, 0};
    char text[460];
    x = how->type == '%' ? 100 * x : x;
    put_sign(how, signbit(x) && !isnan(x), out);
    out->n_before = out->n_bytes;
    if (!type)
        shortest(how, fabs(x), text);
    else
        snprintf(text, sizeof text - 1, format, precision, fabs(x));
    put_grouped(how, text, out);
    if (how->type == '%') out->text[out->n_bytes++] = '%';
}

static ig_status put_char(jinja_run *run, jinja_value v, number_text *out) {
    if (!jinja_is_whole(v) || v.integer < 0 || v.integer >= IG_UTF8_POINTS ||
        (v.integer >= 0xD800 && v.integer < 0xE000))
        return JINJA_FAIL(run, "%%c: needs the number of a character");
    out->n_bytes = ig_utf8_put((uint32_t)v.integer, out->text);
    return IG_OK;
}

static ig_status write_number(jinja_run *run, const spec *how, jinja_value v, number_text *out) {
    const bool is_real = how->type && strchr("fFeEgG%", how->type);
    if (!jinja_is_number(v))
        return JINJA_FAIL(run, "%%%c: needs a number, not %s", how->type, jinja_type_name(v));
    if (how->type == 'c') return put_char(run, v, out);
    if (!is_real && (jinja_is_whole(v) || (how->type && strchr("diu", how->type))))
        return put_whole(run, how, v, out);
    if (!is_real && how->type && how->type != 'n')
        return JINJA_FAIL(run, "%%%c: needs an integer", how->type);
    put_real(how, jinja_as_real(v), out);
    return IG_OK;
}

/* ---- Any value ---- */

/* What stands for characters that are not ASCII in ascii(). */
static ig_status to_ascii(jinja_run *run, const jinja_string *s, jinja_value *out) {
    jinja_builder b = {0};
    for (size_t at = 0, n; at < s->n_bytes; at += n) {
        char text[16];
        uint32_t point = 0;
        const bool whole =
            ig_utf8_next(s->bytes + at, s->n_bytes - at, &point, &n) == IG_UTF8_WHOLE;
        if (!whole) n = 1;
        const int used = snprintf(text, sizeof text,
                                  point < 0x100     ? "\\x%02x"
                                  : point < 0x10000 ? "\\u%04x"
                                                    : "\\U%08x",
                                  point);
        IG_TRY(whole && point >= 0x80
                   ? jinja_add(run, &b, text, (size_t)used, s->marks ? s->marks[at] : s->given)
                   : jinja_add_part(run, &b, s, at, at + n));
    }
    return jinja_finish(run, &b, out);
}

/* The value, without what fills its width; `n_before` are bytes that stay in front of that. */
static ig_status write_value(jinja_run *run, const spec *how, jinja_value v, jinja_value *out,
                             size_t *n_before) {
    jinja_builder b = {0};
    const bool is_text = how->type == 'r' || how->type == 'a' || how->type == 's' ||
                         (!how->type && !jinja_is_number(v));
    if (!is_text && !(how->type == 'c' && v.kind == JINJA_V_STRING)) {
        number_text number = {0};
        IG_TRY(write_number(run, how, v, &number));
        IG_TRY(jinja_add(run, &b, number.text, number.n_bytes, v.given));
        *n_before = number.n_before;
        return jinja_finish(run, &b, out);
    }
    const bool is_repr = how->type == 'r' || how->type == 'a';
    IG_TRY(is_repr ? jinja_add_repr(run, &b, v, 1) : jinja_add_value(run, &b, v));
    IG_TRY(jinja_finish(run, &b, out));
    if (how->type == 'a') IG_TRY(to_ascii(run, out->string, out));
    if (how->precision < 0) return IG_OK;
    const jinja_value bounds[3] = {{0}, jinja_integer(how->precision), {0}};
    return jinja_slice(run, *out, bounds, out);
}

static ig_status add_filling(jinja_run *run, jinja_builder *b, const spec *how, int64_t count) {
    if (how->n_fill == 1) return jinja_add_fill(run, b, how->fill[0], count, false);
    for (; count > 0; count--) IG_TRY(jinja_add(run, b, how->fill, how->n_fill, false));
    return IG_OK;
}

static ig_status add_formatted(jinja_run *run, jinja_builder *b, const spec *how, jinja_value v) {
    jinja_value text;
    int64_t length;
    size_t kept = 0;
    IG_TRY(write_value(run, how, v, &text, &kept));
    IG_TRY(jinja_length(run, text, &length));
    const int64_t fill = how->width > length ? how->width - length : 0;
    int64_t before = how->align == '>' || how->align == '=' ? fill : 0;
    if (how->align == '^') before = fill / 2;
    if (how->align != '=') kept = 0;
    IG_TRY(jinja_add_part(run, b, text.string, 0, kept));
    IG_TRY(add_filling(run, b, how, before));
    IG_TRY(jinja_add_part(run, b, text.string, kept, text.string->n_bytes));
    return add_filling(run, b, how, fill - before);
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

/* Digits, or * for the next value. */
static ig_status take_size(jinja_run *run, const jinja_string *s, size_t *at, arguments *a,
                           int64_t *out) {
    jinja_value v;
    if (*at >= s->n_bytes || s->bytes[*at] != '*') {
        *out = take_number(s, at);
        return IG_OK;
    }
    ++*at;
    IG_TRY(next_argument(run, a, &v));
    if (!jinja_is_whole(v) || v.integer > WIDTH_MAX || v.integer < -WIDTH_MAX)
        return JINJA_FAIL(run, "a format: * needs an integer up to %d", WIDTH_MAX);
    *out = v.integer;
    return IG_OK;
}

static ig_status percent_spec(jinja_run *run, const jinja_string *s, size_t *at, arguments *a,
                              spec *how) {
    for (; *at < s->n_bytes && s->bytes[*at] && strchr("-+ 0#", s->bytes[*at]); ++*at) {
        const char c = s->bytes[*at];
        if (c == '-') how->align = '<', fill_with(how, ' ');
        if (c == '0' && how->align != '<') fill_with(how, '0'), how->align = '=';
        if (c == '+' || (c == ' ' && how->sign != '+')) how->sign = c;
        if (c == '#') how->alternate = true;
    }
    IG_TRY(take_size(run, s, at, a, &how->width));
    if (how->width < 0) how->align = '<', fill_with(how, ' '), how->width = -how->width;
    if (*at < s->n_bytes && s->bytes[*at] == '.') {
        ++*at;
        IG_TRY(take_size(run, s, at, a, &how->precision));
        if (how->precision < 0) how->precision = 0;
    }
    how->type = *at < s->n_bytes ? s->bytes[(*at)++] : 0;
    return check_spec(run, how);
}

/* One of them, starting after the %. */
static ig_status percent(jinja_run *run, const jinja_string *s, size_t *at, arguments *a,
                         jinja_builder *b) {
    spec how = {.fill = " ", .n_fill = 1, .align = '>', .precision = -1};
    jinja_value v = {0};
    IG_TRY(named_argument(run, s, at, a, &v));
    IG_TRY(percent_spec(run, s, at, a, &how));
    if (how.type == '%') return jinja_add_part(run, b, s, *at - 1, *at);
    if (!how.type || !strchr("sradiuxXofFeEgGc", how.type))
        return JINJA_FAIL(run, "format %%%c is not known", how.type ? how.type : ' ');
    if (strchr("srac", how.type) && how.align == '=') how.align = '>', fill_with(&how, ' ');
    if (v.kind == JINJA_V_MISSING) IG_TRY(next_argument(run, a, &v));
    if (how.type == 'c' && v.kind == JINJA_V_STRING) {
        int64_t length;
        IG_TRY(jinja_length(run, v, &length));
        if (length != 1) return JINJA_FAIL(run, "%%c: needs one character");
    }
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

typedef struct fields {
    const jinja_call *call;
    size_t next;            /* of {} */
    bool counted, numbered; /* {} and {0} were met: there can be but one of them */
} fields;

/* What a field's first name, or number, stands for. */
static ig_status first_value(jinja_run *run, fields *f, jinja_name name, jinja_value *out) {
    const jinja_string text = {.bytes = name.bytes, .n_bytes = name.n_bytes};
    size_t at = 0;
    const int64_t number = take_number(&text, &at);
    if (at == name.n_bytes) {
        const size_t i = name.n_bytes == 0 ? f->next++ : (size_t)number;
        *(name.n_bytes == 0 ? &f->counted : &f->numbered) = true;
        if (f->counted && f->numbered)
            return JINJA_FAIL(run, "format: fields with numbers and without");
        if (i >= f->call->count) return JINJA_FAIL(run, "format: there is no value %zu", i);
        *out = f->call->at[i];
        return IG_OK;
    }
    for (size_t i = 0; i < f->call->n_named; i++)
        if (jinja_name_same(f->call->named[i].name, name)) {
            *out = f->call->named[i].value;
            return IG_OK;
        }
    return JINJA_FAIL(run, "format: there is no value '%.*s'", JINJA_SHOW(name));
}

/* [index] or .name, at `*at` of a field that ends at `end` */
static ig_status field_part(jinja_run *run, const jinja_string *s, size_t *at, size_t end,
                            jinja_value *v) {
    jinja_value key;
    const bool is_index = s->bytes[*at] == '[';
    const size_t begin = ++*at;
    while (*at < end && (is_index ? s->bytes[*at] != ']' : !strchr(".[", s->bytes[*at]))) ++*at;
    if (*at == begin || (is_index && *at == end))
        return JINJA_FAIL(run, "format: an empty part of a field");
    IG_TRY(jinja_part(run, s, begin, *at, &key));
    size_t digits = 0;
    const int64_t number = take_number(key.string, &digits);
    if (is_index && digits == key.string->n_bytes) key = jinja_integer(number);
    if (is_index) ++*at;
    return jinja_index(run, *v, key, v);
}

/* name, 0, 0.name[1] */
static ig_status field_value(jinja_run *run, const jinja_string *s, size_t begin, size_t end,
                             fields *f, jinja_value *out) {
    size_t at = begin;
    while (at < end && (!s->bytes[at] || !strchr(".[", s->bytes[at]))) at++;
    IG_TRY(first_value(run, f, (jinja_name){s->bytes + begin, at - begin}, out));
    while (at < end) {
        if (s->bytes[at] != '.' && s->bytes[at] != '[')
            return JINJA_FAIL(run, "format: after ] only . and [ can stand");
        IG_TRY(field_part(run, s, &at, end, out));
    }
    return IG_OK;
}

static bool is_align(const jinja_string *s, size_t at) {
    return at < s->n_bytes && s->bytes[at] && strchr("<>^=", s->bytes[at]);
}

static bool take_sign(const jinja_string *s, size_t *at, const char *signs, char *out) {
    if (*at >= s->n_bytes || !s->bytes[*at] || !strchr(signs, s->bytes[*at])) return false;
    *out = s->bytes[(*at)++];
    return true;
}

static ig_status parse_spec(jinja_run *run, const jinja_string *s, spec *how) {
    size_t at = 0;
    char taken = 0;
    const size_t n = s->n_bytes > 0 ? jinja_char_bytes(s, 0) : 0;
    if (n > 0 && is_align(s, n)) {
        memcpy(how->fill, s->bytes, n);
        how->n_fill = n;
        at = n;
    }
    if (is_align(s, at)) how->align = s->bytes[at++];
    take_sign(s, &at, "+- ", &how->sign);
    how->alternate = take_sign(s, &at, "#", &taken);
    if (take_sign(s, &at, "0", &taken) && !how->align) fill_with(how, '0'), how->align = '=';
    how->width = take_number(s, &at);
    take_sign(s, &at, ",_", &how->grouping);
    if (take_sign(s, &at, ".", &taken)) how->precision = take_number(s, &at);
    take_sign(s, &at, "sdxXobcnfFeEgG%", &how->type);
    if (at != s->n_bytes) return JINJA_FAIL(run, "format: unknown format specifier");
    return check_spec(run, how);
}

/* Whether a value can be written so: 's' is for strings, 'd' for integers. */
static ig_status check_type(jinja_run *run, const spec *how, jinja_value v) {
    const bool is_string = v.kind == JINJA_V_STRING;
    if (!is_string && !jinja_is_number(v))
        return JINJA_FAIL(run, "format: %s takes no format specifier", jinja_type_name(v));
    const bool whole_alone = how->type && strchr("dxXobc", how->type);
    if (how->type && ((how->type == 's') != is_string || (whole_alone && v.kind == JINJA_V_REAL)))
        return JINJA_FAIL(run, "format: %s cannot be written as '%c'", jinja_type_name(v),
                          how->type);
    return IG_OK;
}

/* A value as !r, !s and !a have it. */
static ig_status convert(jinja_run *run, char how, jinja_value *v) {
    const jinja_string *s;
    jinja_builder b = {0};
    if (how == 's') {
        IG_TRY(jinja_to_string(run, *v, &s));
        *v = (jinja_value){.kind = JINJA_V_STRING, .string = s};
        return IG_OK;
    }
    if (how != 'r' && how != 'a') return JINJA_FAIL(run, "format: !%c is not known", how);
    IG_TRY(jinja_add_repr(run, &b, *v, 1));
    IG_TRY(jinja_finish(run, &b, v));
    return how == 'a' ? to_ascii(run, v->string, v) : IG_OK;
}

static ig_status fill_fields(jinja_run *run, const jinja_string *s, fields *f, int depth,
                             jinja_value *out);

/* {name!r:spec}, between its braces */
static ig_status add_field(jinja_run *run, const jinja_string *s, size_t begin, size_t end,
                           fields *f, int depth, jinja_builder *b) {
    spec how = {.fill = " ", .n_fill = 1, .precision = -1};
    size_t name_end = begin, bracket = 0;
    for (; name_end < end; name_end++) { /* [a:b] is an index */
        const char c = s->bytes[name_end];
        bracket = c == '[' ? 1 : c == ']' ? 0 : bracket;
        if (!bracket && (c == ':' || c == '!')) break;
    }
    jinja_value v, text;
    IG_TRY(field_value(run, s, begin, name_end, f, &v));
    size_t at = name_end;
    if (at + 1 < end && s->bytes[at] == '!') {
        IG_TRY(convert(run, s->bytes[at + 1], &v));
        at += 2;
    }
    if (at < end && s->bytes[at] != ':') return JINJA_FAIL(run, "format: : must follow !");
    if (at + 1 < end) {
        IG_TRY(jinja_part(run, s, at + 1, end, &text));
        IG_TRY(fill_fields(run, text.string, f, depth + 1, &text));
        IG_TRY(parse_spec(run, text.string, &how));
        if (v.kind == JINJA_V_BOOL) v = jinja_integer(v.integer); /* as Python has it */
        IG_TRY(check_type(run, &how, v));
    } else if (v.kind == JINJA_V_BOOL) {
        how.type = 's';
    }
    if (!how.align) how.align = jinja_is_number(v) ? '>' : '<';
    return add_formatted(run, b, &how, v);
}

/* The } of the { before `at`; braces in it are fields of its own. */
static size_t field_end(const jinja_string *s, size_t at) {
    for (int depth = 1; at < s->n_bytes; at++) {
        depth += s->bytes[at] == '{' ? 1 : s->bytes[at] == '}' ? -1 : 0;
        if (depth == 0) break;
    }
    return at;
}

static ig_status fill_fields(jinja_run *run, const jinja_string *s, fields *f, int depth,
                             jinja_value *out) {
    jinja_builder b = {0};
    if (depth > 2) return JINJA_FAIL(run, "format: fields in fields of fields");
    for (size_t at = 0; at < s->n_bytes; at++) {
        const char c = s->bytes[at];
        const bool doubled = depth == 0 && at + 1 < s->n_bytes && s->bytes[at + 1] == c;
        if ((c != '{' && c != '}') || doubled) { /* {{ is { */
            IG_TRY(jinja_add_part(run, &b, s, at, at + 1));
            at += doubled && (c == '{' || c == '}');
            continue;
        }
        const size_t end = c == '{' ? field_end(s, at + 1) : s->n_bytes;
        if (end == s->n_bytes) return JINJA_FAIL(run, "format: a brace stands alone");
        IG_TRY(add_field(run, s, at + 1, end, f, depth, &b));
        at = end;
    }
    return jinja_finish(run, &b, out);
}

ig_status jinja_format_braces(jinja_run *run, const jinja_string *s, const jinja_call *call,
                              jinja_value *out) {
    fields f = {.call = call};
    return fill_fields(run, s, &f, 0, out);
}
