/* What lies inside of values: elements, attributes, slices.  Strings are of characters, not bytes.
 */
#include <string.h>

#include "base/utf8.h"
#include "text/jinja/jinja_run.h"

size_t jinja_char_bytes(const jinja_string *s, size_t at) {
    uint32_t point;
    size_t n = 1;
    if (ig_utf8_next(s->bytes + at, s->n_bytes - at, &point, &n) != IG_UTF8_WHOLE) n = 1;
    return n;
}

static int64_t count_chars(const jinja_string *s) {
    int64_t count = 0;
    for (size_t at = 0; at < s->n_bytes; at += jinja_char_bytes(s, at)) count++;
    return count;
}

ig_status jinja_length(jinja_run *run, jinja_value v, int64_t *out) {
    switch (v.kind) {
    case JINJA_V_UNDEFINED: *out = 0; return IG_OK;
    case JINJA_V_STRING: *out = count_chars(v.string); return jinja_work(run, v.string->n_bytes);
    case JINJA_V_LIST:
    case JINJA_V_TUPLE: *out = (int64_t)v.list->count; return IG_OK;
    case JINJA_V_DICT: *out = (int64_t)v.dict->count; return IG_OK;
    case JINJA_V_SERIES:
        if (jinja_is_once(v)) return JINJA_FAIL(run, "%s has no length", jinja_type_name(v));
        *out = (int64_t)v.series->items->count;
        return IG_OK;
    default: return JINJA_FAIL(run, "%s has no length", jinja_type_name(v));
    }
}

static ig_status iterate_string(jinja_run *run, const jinja_string *s, jinja_list *out) {
    jinja_string plain = *s; /* characters are no markup */
    plain.markup = false;
    for (size_t at = 0, n; at < s->n_bytes; at += n) {
        jinja_value item;
        n = jinja_char_bytes(s, at);
        IG_TRY(jinja_part(run, &plain, at, at + n, &item));
        IG_TRY(jinja_append(run, out, item));
    }
    return IG_OK;
}

static ig_status copy_items(jinja_run *run, const jinja_value *at, size_t count, jinja_list *out) {
    IG_TRY(jinja_reserve(run, out, count));
    out->count = count;
    if (count > 0) memcpy(out->at, at, count * sizeof *at);
    return IG_OK;
}

/* Those that are left: of a generator there are none afterwards. */
static ig_status iterate_series(jinja_run *run, jinja_value v, jinja_list *out) {
    jinja_series *series = v.series;
    const size_t begin = series->used;
    if (jinja_is_once(v)) series->used = series->items->count;
    if (begin == series->items->count) return IG_OK;
    return copy_items(run, series->items->at + begin, series->items->count - begin, out);
}

ig_status jinja_iterate(jinja_run *run, jinja_value v, jinja_list **out) {
    jinja_value list;
    IG_TRY(jinja_new_list(run, JINJA_V_LIST, &list));
    *out = list.list;
    switch (v.kind) {
    case JINJA_V_UNDEFINED: return IG_OK;
    case JINJA_V_STRING: return iterate_string(run, v.string, *out);
    case JINJA_V_LIST:
    case JINJA_V_TUPLE: return copy_items(run, v.list->at, v.list->count, *out);
    case JINJA_V_SERIES: return iterate_series(run, v, *out);
    case JINJA_V_DICT:
        for (size_t i = 0; i < v.dict->count; i++)
            IG_TRY(jinja_append(run, *out, v.dict->at[i].key));
        return IG_OK;
    default: return JINJA_FAIL(run, "%s has no elements", jinja_type_name(v));
    }
}

ig_status jinja_new_range(jinja_run *run, const jinja_list *items, const int64_t bounds[3],
                          jinja_value *out) {
    IG_TRY(jinja_new_series(run, JINJA_RANGE, items, out));
    out->series->begin = bounds[0];
    out->series->end = bounds[1];
    out->series->step = bounds[2];
    return IG_OK;
}

/* ---- One of them ---- */

static ig_status index_string(jinja_run *run, const jinja_string *s, int64_t at, jinja_value *out) {
    IG_TRY(jinja_work(run, s->n_bytes));
    if (at < 0) at += count_chars(s);
    size_t byte = 0;
    for (; at > 0 && byte < s->n_bytes; at--) byte += jinja_char_bytes(s, byte);
    *out = jinja_undefined(NULL);
    if (at != 0 || byte >= s->n_bytes) return IG_OK;
    return jinja_part(run, s, byte, byte + jinja_char_bytes(s, byte), out);
}

static ig_status bind(jinja_run *run, jinja_value of, const jinja_function *function,
                      jinja_value *out) {
    jinja_bound *bound = jinja_take(&run->arena, 1, sizeof *bound);
    if (!bound) return jinja_no_memory(&run->arena, run->line);
    *bound = (jinja_bound){function, of};
    *out = (jinja_value){.kind = JINJA_V_FUNCTION, .bound = bound};
    return IG_OK;
}

ig_status jinja_method(jinja_run *run, jinja_value of, const jinja_name *name, jinja_value *out) {
    const jinja_function *function = jinja_find_method(of, *name);
    if (function) return bind(run, of, function, out);
    *out = jinja_undefined(name);
    return IG_OK;
}

typedef struct attribute_row {
    const char *name;
    jinja_value value;
} attribute_row;

/* The value of a row; a method, if there is no such row. */
static ig_status pick(jinja_run *run, jinja_value of, const jinja_name *name,
                      const attribute_row *rows, size_t count, jinja_value *out) {
    for (size_t i = 0; i < count; i++)
        if (jinja_name_is(*name, rows[i].name)) {
            *out = rows[i].value;
            return IG_OK;
        }
    return jinja_method(run, of, name, out);
}

static ig_status macro_attribute(jinja_run *run, jinja_value of, const jinja_name *name,
                                 jinja_value *out) {
    const jinja_node *node = of.macro->node;
    jinja_value macro_name, arguments, item;
    IG_TRY(jinja_new_string(run, node->name.bytes, node->name.n_bytes, false, &macro_name));
    IG_TRY(jinja_new_list(run, JINJA_V_TUPLE, &arguments));
    for (size_t i = 0; i < node->n_named; i++) {
        const jinja_name parameter = node->named[i].name;
        IG_TRY(jinja_new_string(run, parameter.bytes, parameter.n_bytes, false, &item));
        IG_TRY(jinja_append(run, arguments.list, item));
    }
    const attribute_row rows[] = {
        {"name", macro_name},
        {"arguments", arguments},
        {"catch_kwargs", jinja_bool(node->sign & JINJA_TAKES_KWARGS)},
        {"catch_varargs", jinja_bool(node->sign & JINJA_TAKES_VARARGS)},
        {"caller", jinja_bool(node->sign & JINJA_TAKES_CALLER)},
    };
    return pick(run, of, name, rows, sizeof rows / sizeof *rows, out);
}

static ig_status group_attribute(jinja_run *run, jinja_value of, const jinja_name *name,
                                 jinja_value *out) {
    const attribute_row rows[] = {{"grouper", of.list->at[0]}, {"list", of.list->at[1]}};
    return pick(run, of, name, rows, 2, out);
}

static ig_status series_attribute(jinja_run *run, jinja_value of, const jinja_name *name,
                                  jinja_value *out) {
    const attribute_row rows[] = {{"start", jinja_integer(of.series->begin)},
                                  {"stop", jinja_integer(of.series->end)},
                                  {"step", jinja_integer(of.series->step)}};
    return pick(run, of, name, rows, of.series->kind == JINJA_RANGE ? 3 : 0, out);
}

static ig_status loop_attribute(jinja_run *run, jinja_value of, const jinja_name *name,
                                jinja_value *out) {
    const jinja_loop *loop = of.loop;
    const int64_t at = (int64_t)loop->at, count = (int64_t)loop->items->count;
    const attribute_row rows[] = {
        {"index", jinja_integer(at + 1)},
        {"index0", jinja_integer(at)},
        {"revindex", jinja_integer(count - at)},
        {"revindex0", jinja_integer(count - at - 1)},
        {"first", jinja_bool(at == 0)},
        {"last", jinja_bool(at == count - 1)},
        {"length", jinja_integer(count)},
        {"depth", jinja_integer(loop->depth + 1)},
        {"depth0", jinja_integer(loop->depth)},
        {"previtem", at > 0 ? loop->items->at[at - 1] : jinja_undefined(name)},
        {"nextitem", at + 1 < count ? loop->items->at[at + 1] : jinja_undefined(name)},
    };
    return pick(run, of, name, rows, sizeof rows / sizeof *rows, out);
}

/* The value of a key that the template names; a method of that name, if there is no such key. */
static ig_status get_named(jinja_run *run, jinja_value of, const jinja_name *name,
                           jinja_value *out) {
    const jinja_string text = {.bytes = name->bytes, .n_bytes = name->n_bytes};
    jinja_value *held;
    IG_TRY(jinja_get(run, of.dict, (jinja_value){.kind = JINJA_V_STRING, .string = &text}, &held));
    if (!held) return jinja_method(run, of, name, out);
    *out = *held;
    return IG_OK;
}

ig_status jinja_attribute(jinja_run *run, jinja_value of, const jinja_name *name,
                          jinja_value *out) {
    if (of.kind == JINJA_V_UNDEFINED) return jinja_is_undefined(run, of);
    if (of.kind == JINJA_V_LOOP) return loop_attribute(run, of, name, out);
    if (of.kind == JINJA_V_MACRO) return macro_attribute(run, of, name, out);
    if (of.kind == JINJA_V_SERIES) return series_attribute(run, of, name, out);
    if (of.kind == JINJA_V_CYCLER && jinja_name_is(*name, "current")) {
        *out = of.series->items->at[of.series->used];
        return IG_OK;
    }
    if (of.kind == JINJA_V_TUPLE && of.list->is_group) return group_attribute(run, of, name, out);
    IG_TRY(jinja_method(run, of, name, out)); /* as attributes of Python: they come first */
    const bool has_keys = of.kind == JINJA_V_DICT || of.kind == JINJA_V_NAMESPACE;
    return out->kind == JINJA_V_UNDEFINED && has_keys ? get_named(run, of, name, out) : IG_OK;
}

ig_status jinja_index(jinja_run *run, jinja_value of, jinja_value which, jinja_value *out) {
    if (of.kind == JINJA_V_UNDEFINED) return jinja_is_undefined(run, of);
    const bool is_range = of.kind == JINJA_V_SERIES && of.series->kind == JINJA_RANGE;
    if (of.kind == JINJA_V_DICT && jinja_can_be_key(which)) {
        jinja_value *held;
        IG_TRY(jinja_get(run, of.dict, which, &held));
        *out = held ? *held : jinja_undefined(NULL);
        if (held) return IG_OK;
    } else if ((jinja_is_list(of) || is_range) && jinja_is_whole(which)) {
        const jinja_list *list = is_range ? of.series->items : of.list;
        const int64_t count = (int64_t)list->count;
        const int64_t at = which.integer < 0 ? which.integer + count : which.integer;
        *out = at >= 0 && at < count ? list->at[at] : jinja_undefined(NULL);
        return IG_OK;
    } else if (of.kind == JINJA_V_STRING && jinja_is_whole(which)) {
        return index_string(run, of.string, which.integer, out);
    }
    *out = jinja_undefined(NULL);
    if (which.kind != JINJA_V_STRING) return IG_OK;
    jinja_name *name = jinja_take(&run->arena, 1, sizeof *name); /* as undefined has it in words */
    if (!name) return jinja_no_memory(&run->arena, run->line);
    *name = (jinja_name){which.string->bytes, which.string->n_bytes};
    if (of.kind == JINJA_V_NAMESPACE || of.kind == JINJA_V_LOOP)
        return jinja_attribute(run, of, name, out);
    return jinja_method(run, of, name, out);
}

/* ---- Several ---- */

/* Where a slice begins and ends, as Python cuts bounds to what is there. */
static ig_status find_bounds(jinja_run *run, const jinja_value given[3], int64_t count,
                             int64_t *begin, int64_t *end, int64_t *step) {
    for (int i = 0; i < 3; i++)
        if (given[i].kind != JINJA_V_MISSING && given[i].kind != JINJA_V_NONE &&
            !jinja_is_whole(given[i])) {
            if (given[i].kind == JINJA_V_UNDEFINED) return jinja_is_undefined(run, given[i]);
            return JINJA_FAIL(run, "a slice needs integers, not %s", jinja_type_name(given[i]));
        }
    *step = jinja_is_whole(given[2]) ? given[2].integer : 1;
    if (*step == 0) return JINJA_FAIL(run, "a slice goes on by 0");
    const int64_t low = *step < 0 ? -1 : 0, high = *step < 0 ? count - 1 : count;
    int64_t *const bounds[2] = {begin, end};
    for (int i = 0; i < 2; i++) {
        const bool takes_low = (i == 0) == (*step > 0);
        int64_t at = takes_low ? low : high;
        if (jinja_is_whole(given[i])) {
            at = given[i].integer < 0 ? given[i].integer + count : given[i].integer;
            at = at < low ? low : at > high ? high : at;
        }
        *bounds[i] = at;
    }
    return IG_OK;
}

/* Characters one behind the other: a part of the string. */
static ig_status slice_bytes(jinja_run *run, const jinja_string *s, int64_t begin, int64_t end,
                             jinja_value *out) {
    size_t first = 0;
    int64_t at = 0;
    for (; at < begin; at++) first += jinja_char_bytes(s, first);
    size_t last = first;
    for (; at < end; at++) last += jinja_char_bytes(s, last);
    return jinja_part(run, s, first, last, out);
}

/* Of a range: a range. */
static ig_status slice_range(jinja_run *run, const jinja_series *of, const jinja_value bounds[3],
                             jinja_value *out) {
    int64_t begin, end, step;
    jinja_value list;
    IG_TRY(find_bounds(run, bounds, (int64_t)of->items->count, &begin, &end, &step));
    IG_TRY(jinja_new_list(run, JINJA_V_LIST, &list));
    for (int64_t i = begin; step > 0 ? i < end : i > end;) {
        IG_TRY(jinja_append(run, list.list, of->items->at[i]));
        if (__builtin_add_overflow(i, step, &i)) break;
    }
    int64_t first, last, distance; /* what a huge step gives is not shown */
    if (__builtin_mul_overflow(of->step, begin, &first) ||
        __builtin_add_overflow(of->begin, first, &first) ||
        __builtin_mul_overflow(of->step, end, &last) ||
        __builtin_add_overflow(of->begin, last, &last) ||
        __builtin_mul_overflow(of->step, step, &distance))
        return JINJA_FAIL(run, "integer overflow: more than 64 bits");
    return jinja_new_range(run, list.list, (const int64_t[]){first, last, distance}, out);
}

ig_status jinja_slice(jinja_run *run, jinja_value of, const jinja_value bounds[3],
                      jinja_value *out) {
    if (of.kind == JINJA_V_SERIES && of.series->kind == JINJA_RANGE)
        return slice_range(run, of.series, bounds, out);
    int64_t count = 0, begin = 0, end = 0, step = 1;
    if (of.kind == JINJA_V_UNDEFINED) return jinja_is_undefined(run, of);
    if (of.kind != JINJA_V_STRING && !jinja_is_list(of))
        return JINJA_FAIL(run, "%s has no slices", jinja_type_name(of));
    IG_TRY(jinja_length(run, of, &count));
    IG_TRY(find_bounds(run, bounds, count, &begin, &end, &step));
    if (of.kind == JINJA_V_STRING && step == 1) return slice_bytes(run, of.string, begin, end, out);
    jinja_list *items = of.list;
    jinja_builder text = {0};
    if (of.kind == JINJA_V_STRING)
        IG_TRY(jinja_iterate(run, of, &items));
    else
        IG_TRY(jinja_new_list(run, of.kind, out));
    for (int64_t i = begin; step > 0 ? i < end : i > end;) {
        IG_TRY(of.kind == JINJA_V_STRING ? jinja_add_string(run, &text, items->at[i].string)
                                         : jinja_append(run, out->list, items->at[i]));
        if (__builtin_add_overflow(i, step, &i)) break;
    }
    if (of.kind != JINJA_V_STRING) return IG_OK;
    IG_TRY(jinja_finish(run, &text, out));
    return of.string->markup ? jinja_mark_up(run, out) : IG_OK;
}
