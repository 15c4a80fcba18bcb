/* Operators on values with Python's rules, and 64-bit integers. */
#include <math.h>
#include <string.h>

#include "text/jinja/jinja_run.h"

enum {
    EQUAL = JINJA_SIGN_OF('=', '='),
    UNEQUAL = JINJA_SIGN_OF('!', '='),
    AT_MOST = JINJA_SIGN_OF('<', '='),
    AT_LEAST = JINJA_SIGN_OF('>', '='),
    FLOOR = JINJA_SIGN_OF('/', '/'),
    POWER = JINJA_SIGN_OF('*', '*'),
};

static ig_status too_deep(const jinja_run *run) {
    return JINJA_FAIL(run, "values more than %d deep", IG_JINJA_DEPTH_MAX);
}

/* ---- Comparisons ---- */

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static ig_status equal_lists(jinja_run *run, const jinja_list *a, const jinja_list *b, int depth,
                             bool *out) {
    *out = a->count == b->count;
    for (size_t i = 0; i < a->count && *out; i++)
        IG_TRY(jinja_equal(run, a->at[i], b->at[i], depth + 1, out));
    return IG_OK;
}

static ig_status equal_dicts(jinja_run *run, const jinja_dict *a, const jinja_dict *b, int depth,
                             bool *out) {
    *out = a->count == b->count;
    for (size_t i = 0; i < a->count && *out; i++) {
        jinja_value *other;
        IG_TRY(jinja_get(run, b, a->at[i].key, &other));
        *out = other != NULL;
        if (other) IG_TRY(jinja_equal(run, a->at[i].value, *other, depth + 1, out));
    }
    return IG_OK;
}

ig_status jinja_equal(jinja_run *run, jinja_value a, jinja_value b, int depth, bool *out) {
    if (depth > IG_JINJA_DEPTH_MAX) return too_deep(run);
    *out = false;
    if (jinja_is_whole(a) && jinja_is_whole(b)) {
        *out = a.integer == b.integer;
    } else if (jinja_is_number(a) && jinja_is_number(b)) {
        *out = jinja_as_real(a) == jinja_as_real(b);
    } else if (a.kind == b.kind) {
        switch (a.kind) {
        case JINJA_V_STRING:
            if (a.string->n_bytes != b.string->n_bytes) return IG_OK;
            IG_TRY(jinja_work(run, a.string->n_bytes));
            *out = memcmp(a.string->bytes, b.string->bytes, a.string->n_bytes) == 0;
            return IG_OK;
        case JINJA_V_LIST:
        case JINJA_V_TUPLE:
            IG_TRY(jinja_work(run, 32));
            return equal_lists(run, a.list, b.list, depth, out);
        case JINJA_V_DICT:
            IG_TRY(jinja_work(run, 32));
            return equal_dicts(run, a.dict, b.dict, depth, out);
        case JINJA_V_MISSING:
        case JINJA_V_UNDEFINED:
        case JINJA_V_NONE: *out = true; break;
        case JINJA_V_SERIES:
            if (a.series->kind != b.series->kind || jinja_is_once(a)) break;
            return equal_lists(run, a.series->items, b.series->items, depth, out);
        default: *out = a.dict == b.dict; break;
        }
    }
    return IG_OK;
}

static ig_status order_lists(jinja_run *run, const jinja_list *a, const jinja_list *b, int depth,
                             int *out) {
    for (size_t i = 0; i < least(a->count, b->count); i++) {
        bool same;
        IG_TRY(jinja_equal(run, a->at[i], b->at[i], depth + 1, &same));
        if (!same) return jinja_order(run, a->at[i], b->at[i], depth + 1, out);
    }
    *out = (a->count > b->count) - (a->count < b->count);
    return IG_OK;
}

ig_status jinja_order(jinja_run *run, jinja_value a, jinja_value b, int depth, int *out) {
    if (depth > IG_JINJA_DEPTH_MAX) return too_deep(run);
    IG_TRY(jinja_work(run, 32));
    if (a.kind == JINJA_V_UNDEFINED) return jinja_is_undefined(run, a);
    if (b.kind == JINJA_V_UNDEFINED) return jinja_is_undefined(run, b);
    if (jinja_is_whole(a) && jinja_is_whole(b)) {
        *out = (a.integer > b.integer) - (a.integer < b.integer);
        return IG_OK;
    }
    if (jinja_is_number(a) && jinja_is_number(b)) {
        const double x = jinja_as_real(a), y = jinja_as_real(b);
        *out = (x > y) - (x < y);
        return IG_OK;
    }
    if (a.kind == JINJA_V_STRING && b.kind == JINJA_V_STRING) { /* UTF-8 sorts as its characters */
        const jinja_string *x = a.string, *y = b.string;
        IG_TRY(jinja_work(run, least(x->n_bytes, y->n_bytes)));
        const int bytes = memcmp(x->bytes, y->bytes, least(x->n_bytes, y->n_bytes));
        *out = bytes ? bytes : (x->n_bytes > y->n_bytes) - (x->n_bytes < y->n_bytes);
        return IG_OK;
    }
    if (a.kind == b.kind && jinja_is_list(a)) return order_lists(run, a.list, b.list, depth, out);
    return JINJA_FAIL(run, "%s and %s have no order", jinja_type_name(a), jinja_type_name(b));
}

ig_status jinja_compare(jinja_run *run, int sign, jinja_value a, jinja_value b, bool *out) {
    int order;
    if (sign == 'i' || sign == 'n') {
        IG_TRY(jinja_contains(run, a, b, out));
        *out = *out == (sign == 'i');
        return IG_OK;
    }
    if (sign == EQUAL || sign == UNEQUAL) {
        IG_TRY(jinja_equal(run, a, b, 0, out));
        *out = *out == (sign == EQUAL);
        return IG_OK;
    }
    IG_TRY(jinja_order(run, a, b, 0, &order));
    *out = sign == '<'       ? order < 0
           : sign == '>'     ? order > 0
           : sign == AT_MOST ? order <= 0
                             : order >= 0;
    const bool is_nan =
        (a.kind == JINJA_V_REAL && isnan(a.real)) || (b.kind == JINJA_V_REAL && isnan(b.real));
    if (is_nan) *out = false;
    return IG_OK;
}

/* A generator is used up to where the item was found. */
static ig_status series_contains(jinja_run *run, jinja_value item, jinja_series *in, bool *out) {
    const bool once = in->kind <= JINJA_REVERSED;
    for (size_t i = in->used; i < in->items->count && !*out; i++) {
        IG_TRY(jinja_work(run, 32));
        IG_TRY(jinja_equal(run, in->items->at[i], item, 0, out));
        if (once) in->used = i + 1;
    }
    return IG_OK;
}

ig_status jinja_contains(jinja_run *run, jinja_value item, jinja_value in, bool *out) {
    *out = false;
    if (in.kind == JINJA_V_STRING) {
        if (item.kind != JINJA_V_STRING)
            return JINJA_FAIL(run, "%s cannot be in a string", jinja_type_name(item));
        IG_TRY(jinja_work(run, in.string->n_bytes));
        *out = item.string->n_bytes == 0 || memmem(in.string->bytes, in.string->n_bytes,
                                                   item.string->bytes, item.string->n_bytes);
        return IG_OK;
    }
    if (in.kind == JINJA_V_DICT) {
        jinja_value *held;
        IG_TRY(jinja_get(run, in.dict, item, &held));
        *out = held != NULL;
        return IG_OK;
    }
    if (in.kind == JINJA_V_UNDEFINED) return IG_OK;
    if (in.kind == JINJA_V_SERIES) return series_contains(run, item, in.series, out);
    if (!jinja_is_list(in)) return JINJA_FAIL(run, "nothing is in %s", jinja_type_name(in));
    IG_TRY(jinja_work(run, 8 * in.list->count));
    for (size_t i = 0; i < in.list->count && !*out; i++)
        IG_TRY(jinja_equal(run, in.list->at[i], item, 0, out));
    return IG_OK;
}

/* ---- Arithmetic ---- */

static ig_status overflows(const jinja_run *run) {
    return JINJA_FAIL(run, "integer overflow: more than 64 bits");
}

static ig_status by_zero(const jinja_run *run) { return JINJA_FAIL(run, "division by zero"); }

static ig_status whole_power(const jinja_run *run, int64_t base, int64_t exponent, int64_t *out) {
    *out = 1;
    for (; exponent > 0; exponent--) { /* more than 63 times only 0, 1 and -1 stay small */
        if (base == 0 || base == 1 || base == -1) {
            *out = base == -1 && exponent % 2 == 0 ? 1 : base;
            return IG_OK;
        }
        if (__builtin_mul_overflow(*out, base, out)) return overflows(run);
    }
    return IG_OK;
}

/* The quotient rounded down, and what is left with the divisor's sign. */
static ig_status whole_divide(const jinja_run *run, int sign, int64_t x, int64_t y, int64_t *out) {
    if (y == 0) return by_zero(run);
    if (y == -1) { /* the one quotient that may not fit */
        *out = 0;
        return sign == '%' || !__builtin_sub_overflow(0, x, out) ? IG_OK : overflows(run);
    }
    const int64_t rest = x % y, away = rest != 0 && (rest < 0) != (y < 0);
    *out = sign == '%' ? rest + (away ? y : 0) : x / y - away;
    return IG_OK;
}

static ig_status whole_binary(const jinja_run *run, int sign, int64_t x, int64_t y,
                              jinja_value *out) {
    int64_t z = 0;
    bool over = false;
    switch (sign) {
    case '+': over = __builtin_add_overflow(x, y, &z); break;
    case '-': over = __builtin_sub_overflow(x, y, &z); break;
    case '*': over = __builtin_mul_overflow(x, y, &z); break;
    case '/':
        if (y == 0) return by_zero(run);
        *out = jinja_real((double)x / (double)y);
        return IG_OK;
    case POWER:
        if (y < 0 && x == 0) return by_zero(run);
        if (y < 0) {
            *out = jinja_real(pow((double)x, (double)y));
            return IG_OK;
        }
        IG_TRY(whole_power(run, x, y, &z));
        break;
    default: IG_TRY(whole_divide(run, sign, x, y, &z)); break;
    }
    if (over) return overflows(run);
    *out = jinja_integer(z);
    return IG_OK;
}

static ig_status real_binary(const jinja_run *run, int sign, double x, double y, jinja_value *out) {
    double z = 0;
    if ((sign == '/' || sign == FLOOR || sign == '%') && y == 0) return by_zero(run);
    switch (sign) {
    case '+': z = x + y; break;
    case '-': z = x - y; break;
    case '*': z = x * y; break;
    case '/': z = x / y; break;
    case POWER:
        z = pow(x, y);
        if (isnan(z) && !isnan(x) && !isnan(y))
            return JINJA_FAIL(run, "a power of a negative number is not real");
        break;
    default: {
        double rest = fmod(x, y);
        if (rest != 0 && (rest < 0) != (y < 0)) rest += y;
        z = sign == '%' ? rest : round((x - rest) / y);
        break;
    }
    }
    *out = jinja_real(z);
    return IG_OK;
}

static ig_status join(jinja_run *run, jinja_value a, jinja_value b, jinja_value *out) {
    if (a.kind == JINJA_V_STRING && (jinja_is_markup(a) || jinja_is_markup(b))) {
        IG_TRY(jinja_escape(run, a, &a));
        IG_TRY(jinja_escape(run, b, &b));
        IG_TRY(jinja_join(run, (jinja_value[]){a, b}, 2, out));
        return jinja_mark_up(run, out);
    }
    if (a.kind == JINJA_V_STRING) return jinja_join(run, (jinja_value[]){a, b}, 2, out);
    IG_TRY(jinja_new_list(run, a.kind, out));
    for (size_t i = 0; i < a.list->count; i++) IG_TRY(jinja_append(run, out->list, a.list->at[i]));
    for (size_t i = 0, n = b.list->count; i < n; i++)
        IG_TRY(jinja_append(run, out->list, b.list->at[i]));
    return IG_OK;
}

static ig_status repeat(jinja_run *run, jinja_value a, int64_t times, jinja_value *out) {
    if (a.kind == JINJA_V_STRING) {
        jinja_builder text = {0};
        for (; times > 0 && a.string->n_bytes > 0; times--)
            IG_TRY(jinja_add_string(run, &text, a.string));
        IG_TRY(jinja_finish(run, &text, out));
        return jinja_is_markup(a) ? jinja_mark_up(run, out) : IG_OK;
    }
    IG_TRY(jinja_new_list(run, a.kind, out));
    for (; times > 0 && a.list->count > 0; times--)
        for (size_t i = 0; i < a.list->count; i++)
            IG_TRY(jinja_append(run, out->list, a.list->at[i]));
    return IG_OK;
}

/* What goes into markup is escaped. */
static ig_status format_markup(jinja_run *run, const jinja_string *format, jinja_value given,
                               jinja_value *out) {
    jinja_value escaped = given;
    if (given.kind == JINJA_V_TUPLE) {
        jinja_list *items;
        IG_TRY(jinja_iterate(run, given, &items));
        for (size_t i = 0; i < items->count; i++)
            IG_TRY(jinja_escape_text(run, items->at[i], &items->at[i]));
        escaped.list = items;
    } else if (given.kind == JINJA_V_DICT) {
        IG_TRY(jinja_new_dict(run, JINJA_V_DICT, &escaped));
        for (size_t i = 0; i < given.dict->count; i++) {
            jinja_value value;
            IG_TRY(jinja_escape_text(run, given.dict->at[i].value, &value));
            IG_TRY(jinja_set(run, escaped.dict, given.dict->at[i].key, value));
        }
    } else {
        IG_TRY(jinja_escape_text(run, given, &escaped));
    }
    IG_TRY(jinja_format_percent(run, format, escaped, out));
    return jinja_mark_up(run, out);
}

ig_status jinja_binary(jinja_run *run, int sign, jinja_value a, jinja_value b, jinja_value *out) {
    const bool sequences = a.kind == b.kind && (a.kind == JINJA_V_STRING || jinja_is_list(a));
    if (jinja_is_whole(a) && jinja_is_whole(b))
        return whole_binary(run, sign, a.integer, b.integer, out);
    if (jinja_is_number(a) && jinja_is_number(b))
        return real_binary(run, sign, jinja_as_real(a), jinja_as_real(b), out);
    if (sign == '+' && sequences) return join(run, a, b, out);
    if (sign == '%' && jinja_is_markup(a)) return format_markup(run, a.string, b, out);
    if (sign == '%' && a.kind == JINJA_V_STRING) return jinja_format_percent(run, a.string, b, out);
    if (sign == '*' && (a.kind == JINJA_V_STRING || jinja_is_list(a)) && jinja_is_whole(b))
        return repeat(run, a, b.integer, out);
    if (sign == '*' && (b.kind == JINJA_V_STRING || jinja_is_list(b)) && jinja_is_whole(a))
        return repeat(run, b, a.integer, out);
    if (a.kind == JINJA_V_UNDEFINED) return jinja_is_undefined(run, a);
    if (b.kind == JINJA_V_UNDEFINED) return jinja_is_undefined(run, b);
    return JINJA_FAIL(run, "%s %c%.1s %s cannot be computed", jinja_type_name(a), sign & 255,
                      (const char[]){(char)(sign >> 8), 0}, jinja_type_name(b));
}

/* ---- Order ---- */

/* Merges two sorted runs; [0] of `from` and `to` are the keys, [1] the items. */
static ig_status merge(jinja_run *run, jinja_value *const from[2], jinja_value *const to[2],
                       const size_t bounds[3], bool reverse) {
    size_t a = bounds[0], b = bounds[1];
    for (size_t i = bounds[0]; i < bounds[2]; i++) {
        bool second = a == bounds[1];
        if (!second && b < bounds[2]) {
            int order = 0;
            IG_TRY(jinja_order(run, from[0][b], from[0][a], 0, &order));
            second = reverse ? order > 0 : order < 0;
        }
        const size_t taken = second ? b++ : a++;
        to[0][i] = from[0][taken];
        to[1][i] = from[1][taken];
    }
    return IG_OK;
}

ig_status jinja_sort(jinja_run *run, jinja_value *keys, jinja_value *items, size_t count,
                     bool reverse) {
    jinja_value *room = jinja_take(&run->arena, 2 * count, sizeof *room);
    if (!room) return jinja_no_memory(&run->arena, run->line);
    jinja_value *from[2] = {keys, items}, *to[2] = {room, room + count};
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t i = 0; i < count; i += 2 * width) {
            const size_t bounds[3] = {i, least(i + width, count), least(i + 2 * width, count)};
            IG_TRY(merge(run, from, to, bounds, reverse));
        }
        for (int k = 0; k < 2; k++) {
            jinja_value *other = from[k];
            from[k] = to[k];
            to[k] = other;
        }
    }
    if (from[0] != keys && count > 0) {
        memcpy(keys, from[0], count * sizeof *keys);
        memcpy(items, from[1], count * sizeof *items);
    }
    return IG_OK;
}
