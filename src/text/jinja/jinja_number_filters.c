/* Filters of numbers, and what makes them of text. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "text/jinja/jinja_strings.h"

enum { NUMBER_BYTES = 400 };

/* Text without the white space around it and the underscores between digits; false: it is too long,
 * or an underscore stands elsewhere. */
static bool bare_number(const jinja_string *s, char out[NUMBER_BYTES]) {
    static const char spaces[] = " \t\n\r\f\v";
    size_t begin = 0, end = s->n_bytes, used = 0;
    while (begin < end && memchr(spaces, s->bytes[begin], sizeof spaces - 1)) begin++;
    while (end > begin && memchr(spaces, s->bytes[end - 1], sizeof spaces - 1)) end--;
    if (begin == end || end - begin >= NUMBER_BYTES) return false;
    for (size_t at = begin; at < end; at++) {
        const char c = s->bytes[at];
        const bool between = at > begin && at + 1 < end &&
                             isxdigit((unsigned char)s->bytes[at - 1]) &&
                             isxdigit((unsigned char)s->bytes[at + 1]);
        if (!c || (c == '_' && !between)) return false;
        if (c != '_') out[used++] = c;
    }
    out[used] = 0;
    return true;
}

typedef enum parsed { NO_NUMBER, NUMBER, TOO_LARGE } parsed;

static int digit_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return (c | 32) >= 'a' && (c | 32) <= 'z' ? (c | 32) - 'a' + 10 : 99;
}

/* Python's int(text, base). */
static parsed parse_whole(const jinja_string *s, int64_t base, int64_t *out) {
    static const char prefixes[] = "xob";
    static const int bases[] = {16, 8, 2};
    char text[NUMBER_BYTES];
    if (base < 0 || base == 1 || base > 36 || !bare_number(s, text)) return NO_NUMBER;
    const bool negative = *text == '-';
    const char *at = text + (negative || *text == '+');
    const char *prefix = *at == '0' && at[1] ? strchr(prefixes, at[1] | 32) : NULL;
    if (prefix && (base == 0 || base == bases[prefix - prefixes])) {
        base = bases[prefix - prefixes];
        at += 2;
    } else if (base == 0) { /* 0 alone may begin with it */
        if (*at == '0' && strspn(at, "0") != strlen(at)) return NO_NUMBER;
        base = 10;
    }
    if (!*at) return NO_NUMBER;
    bool large = false;
    int64_t x = 0;
    for (; *at; at++) {
        const int digit = digit_value(*at);
        if (digit >= base) return NO_NUMBER;
        large |= __builtin_mul_overflow(x, base, &x) ||
                 __builtin_sub_overflow(x, (int64_t)digit, &x); /* below 0 there is one more */
    }
    large |= !negative && __builtin_sub_overflow(0, x, &x);
    *out = x;
    return large ? TOO_LARGE : NUMBER;
}

/* Python's float(text). */
static bool parse_real(const jinja_string *s, double *out) {
    static const char *const words[] = {"inf", "infinity", "nan"};
    char text[NUMBER_BYTES], *end;
    if (!bare_number(s, text)) return false;
    const char *digits = text + (*text == '-' || *text == '+');
    bool known =
        strspn(digits, "0123456789+-.eE") == strlen(digits) && strpbrk(digits, "0123456789");
    for (size_t i = 0; i < 3; i++) known |= strcasecmp(digits, words[i]) == 0;
    *out = strtod(text, &end);
    return known && !*end;
}

static ig_status real_to_whole(const jinja_run *run, double x, jinja_value *out) {
    if (!(fabs(x) < 9.2e18)) return JINJA_FAIL(run, "integer overflow: more than 64 bits");
    *out = jinja_integer((int64_t)x);
    return IG_OK;
}

/* Text that is no integer may be a number with a fraction, which goes. */
static ig_status text_to_whole(jinja_run *run, const jinja_string *s, int64_t base,
                               jinja_value *out) {
    int64_t whole;
    double real;
    const parsed got = parse_whole(s, base, &whole);
    if (got == TOO_LARGE) return JINJA_FAIL(run, "integer overflow: more than 64 bits");
    if (got == NUMBER) *out = jinja_integer(whole);
    if (got == NUMBER || !parse_real(s, &real) || !isfinite(real)) return IG_OK;
    return real_to_whole(run, real, out);
}

static ig_status filter_int(jinja_run *run, const jinja_call *call, jinja_value *out) {
    int64_t base;
    if (call->self.kind == JINJA_V_UNDEFINED) return jinja_is_undefined(run, call->self);
    IG_TRY(jinja_arg_integer(run, call, 1, 10, &base));
    *out = call->bound[0].kind == JINJA_V_MISSING ? jinja_integer(0) : call->bound[0];
    if (jinja_is_whole(call->self)) {
        *out = jinja_integer(call->self.integer);
        return IG_OK;
    }
    if (call->self.kind == JINJA_V_REAL && isnan(call->self.real)) return IG_OK;
    if (call->self.kind == JINJA_V_REAL) return real_to_whole(run, call->self.real, out);
    return call->self.kind == JINJA_V_STRING ? text_to_whole(run, call->self.string, base, out)
                                             : IG_OK;
}

static ig_status filter_float(jinja_run *run, const jinja_call *call, jinja_value *out) {
    double real;
    if (call->self.kind == JINJA_V_UNDEFINED) return jinja_is_undefined(run, call->self);
    *out = call->bound[0].kind == JINJA_V_MISSING ? jinja_real(0) : call->bound[0];
    if (jinja_is_number(call->self))
        *out = jinja_real(jinja_as_real(call->self));
    else if (call->self.kind == JINJA_V_STRING && parse_real(call->self.string, &real))
        *out = jinja_real(real);
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

/* ---- Rounding ---- */

enum { PLACES_MAX = 330, POWER_MAX = 18 };

/* To places before the point, -precision of them, ties to even. */
static ig_status round_whole(jinja_run *run, int64_t x, int64_t precision, jinja_value *out) {
    int64_t unit = 1, rounded;
    *out = jinja_integer(precision < -POWER_MAX ? 0 : x);
    if (precision >= 0 || precision < -POWER_MAX) return IG_OK;
    for (int64_t i = precision; i < 0; i++) unit *= 10;
    const int64_t rest = x % unit, half = unit / 2, size = rest < 0 ? -rest : rest;
    const int64_t down = x - rest, away = x < 0 ? -unit : unit;
    const bool up = size > half || (size == half && down / unit % 2 != 0);
    if (__builtin_add_overflow(down, up ? away : 0, &rounded))
        return JINJA_FAIL(run, "integer overflow: more than 64 bits");
    *out = jinja_integer(rounded);
    return IG_OK;
}

static double round_real(double x, int64_t precision) {
    char text[NUMBER_BYTES + PLACES_MAX];
    if (!isfinite(x) || precision > PLACES_MAX) return x;
    if (precision < -308) return copysign(0, x);
    if (precision < 0) return x - remainder(x, pow(10, (double)-precision));
    snprintf(text, sizeof text, "%.*f", (int)precision, x); /* exact, ties to even */
    return strtod(text, NULL);
}

static ig_status filter_round(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_string *method;
    int64_t precision;
    IG_TRY(need_number(run, call));
    IG_TRY(jinja_arg_integer(run, call, 0, 0, &precision));
    IG_TRY(jinja_arg_string(run, call, 1, &method));
    const double x = jinja_as_real(call->self), scale = pow(10, (double)precision);
    const jinja_name how =
        method ? (jinja_name){method->bytes, method->n_bytes} : (jinja_name){"common", 6};
    if (jinja_name_is(how, "floor"))
        *out = jinja_real(floor(x * scale) / scale);
    else if (jinja_name_is(how, "ceil"))
        *out = jinja_real(ceil(x * scale) / scale);
    else if (!jinja_name_is(how, "common"))
        return JINJA_FAIL(run, "round: the method is common, ceil or floor, not '%.*s'",
                          JINJA_SHOW(how));
    else if (jinja_is_whole(call->self))
        return round_whole(run, call->self.integer, precision, out);
    else
        *out = jinja_real(round_real(x, precision));
    return IG_OK;
}

const jinja_function jinja_number_filters[] = {
    {"int", "default base", filter_int},
    {"float", "default", filter_float},
    {"abs", "", filter_abs},
    {"round", "precision method", filter_round},
    {0},
};
