/* Functions that every template has, and methods of lists, dicts and loops. */
#include <string.h>
#include <time.h>

#include "text/jinja/jinja_run.h"

/* ---- Functions ---- */

static ig_status add_all(jinja_run *run, const jinja_dict *from, jinja_dict *out) {
    for (size_t k = 0; k < from->count; k++)
        IG_TRY(jinja_set(run, out, from->at[k].key, from->at[k].value));
    return IG_OK;
}

/* [(key, value), ...] */
static ig_status add_pairs(jinja_run *run, const jinja_call *call, jinja_value from,
                           jinja_dict *out) {
    jinja_list *pairs, *pair;
    IG_TRY(jinja_iterate(run, from, &pairs));
    for (size_t i = 0; i < pairs->count; i++) {
        IG_TRY(jinja_iterate(run, pairs->at[i], &pair));
        if (pair->count != 2)
            return JINJA_FAIL(run, "%s: item %zu is no pair of key and value", call->what, i);
        IG_TRY(jinja_set(run, out, pair->at[0], pair->at[1]));
    }
    return IG_OK;
}

/* namespace(a=1), dict(a=1), both also of another dict or of pairs */
static ig_status make_dict(jinja_run *run, const jinja_call *call, jinja_value_kind kind,
                           jinja_value *out) {
    IG_TRY(jinja_new_dict(run, kind, out));
    for (size_t i = 0; i < call->count; i++) {
        IG_TRY(call->at[i].kind == JINJA_V_DICT ? add_all(run, call->at[i].dict, out->dict)
                                                : add_pairs(run, call, call->at[i], out->dict));
    }
    for (size_t i = 0; i < call->n_named; i++) {
        const jinja_name name = call->named[i].name;
        jinja_value key;
        IG_TRY(jinja_new_string(run, name.bytes, name.n_bytes, false, &key));
        IG_TRY(jinja_set(run, out->dict, key, call->named[i].value));
    }
    return IG_OK;
}

static ig_status call_namespace(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return make_dict(run, call, JINJA_V_NAMESPACE, out);
}

static ig_status call_dict(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return make_dict(run, call, JINJA_V_DICT, out);
}

static ig_status call_range(jinja_run *run, const jinja_call *call, jinja_value *out) {
    enum { ITEMS_MAX = 100000 }; /* as in the sandbox of jinja2 */
    int64_t bounds[3] = {0, 0, 1};
    for (size_t i = 0; i < call->count && i < 3; i++)
        if (!jinja_is_whole(call->at[i]))
            return call->at[i].kind == JINJA_V_UNDEFINED
                       ? jinja_is_undefined(run, call->at[i])
                       : JINJA_FAIL(run, "range: needs integers, not %s",
                                    jinja_type_name(call->at[i]));
    if (call->count == 0 || call->count > 3 || call->n_named > 0)
        return JINJA_FAIL(run, "range: takes one to three numbers");
    for (size_t i = 0; i < call->count; i++) bounds[call->count == 1 ? 1 : i] = call->at[i].integer;
    if (bounds[2] == 0) return JINJA_FAIL(run, "range: goes on by 0");
    jinja_value list;
    IG_TRY(jinja_new_list(run, JINJA_V_LIST, &list));
    const double count = ((double)bounds[1] - (double)bounds[0]) / (double)bounds[2];
    if (count > ITEMS_MAX) return JINJA_FAIL(run, "range: more than %d numbers", ITEMS_MAX);
    if (count > 0) IG_TRY(jinja_reserve(run, list.list, (size_t)count + 1));
    for (int64_t i = bounds[0]; bounds[2] > 0 ? i < bounds[1] : i > bounds[1];) {
        IG_TRY(jinja_append(run, list.list, jinja_integer(i)));
        if (__builtin_add_overflow(i, bounds[2], &i)) break;
    }
    return jinja_new_range(run, list.list, bounds, out);
}

static ig_status call_cycler(jinja_run *run, const jinja_call *call, jinja_value *out) {
    jinja_value items;
    if (call->count == 0 || call->n_named > 0)
        return JINJA_FAIL(run, "cycler: needs something to choose from");
    IG_TRY(jinja_new_list(run, JINJA_V_LIST, &items));
    for (size_t i = 0; i < call->count; i++) IG_TRY(jinja_append(run, items.list, call->at[i]));
    IG_TRY(jinja_new_series(run, JINJA_GENERATOR, items.list, out));
    out->kind = JINJA_V_CYCLER;
    return IG_OK;
}

static ig_status call_joiner(jinja_run *run, const jinja_call *call, jinja_value *out) {
    jinja_value items, text = call->bound[0];
    IG_TRY(jinja_new_list(run, JINJA_V_LIST, &items));
    if (text.kind == JINJA_V_MISSING) IG_TRY(jinja_new_string(run, ", ", 2, false, &text));
    IG_TRY(jinja_append(run, items.list, text));
    IG_TRY(jinja_new_series(run, JINJA_GENERATOR, items.list, out));
    out->kind = JINJA_V_JOINER;
    return IG_OK;
}

static ig_status cycler_next(jinja_run *run, const jinja_call *call, jinja_value *out) {
    (void)run;
    jinja_series *cycler = call->self.series;
    *out = cycler->items->at[cycler->used];
    cycler->used = (cycler->used + 1) % cycler->items->count;
    return IG_OK;
}

static ig_status cycler_reset(jinja_run *run, const jinja_call *call, jinja_value *out) {
    (void)run;
    call->self.series->used = 0;
    *out = jinja_none();
    return IG_OK;
}

const jinja_function jinja_cycler_methods[] = {
    {"next", "", cycler_next},
    {"reset", "", cycler_reset},
    {0},
};

static ig_status call_raise(jinja_run *run, const jinja_call *call, jinja_value *out) {
    enum { WORDS_MAX = 400 }; /* what an error has room for */
    const jinja_string *words;
    (void)out;
    if (call->bound[0].kind == JINJA_V_MISSING)
        return JINJA_FAIL(run, "raise_exception: needs a message");
    IG_TRY(jinja_to_string(run, call->bound[0], &words));
    size_t n = 0; /* whole characters */
    while (n < words->n_bytes && n + jinja_char_bytes(words, n) <= WORDS_MAX)
        n += jinja_char_bytes(words, n);
    return JINJA_FAIL(run, "%.*s", (int)n, words->bytes);
}

static ig_status call_strftime_now(jinja_run *run, const jinja_call *call, jinja_value *out) {
    enum { FORMAT_BYTES = 128, TEXT_BYTES = 512 };
    const jinja_string *format;
    char zero_ended[FORMAT_BYTES + 1] = "", text[TEXT_BYTES];
    struct tm now;
    const time_t seconds = (time_t)run->variables->now;
    jinja_builder b = {0};
    IG_TRY(jinja_arg_string(run, call, 0, &format));
    if (!format || format->n_bytes > FORMAT_BYTES || !localtime_r(&seconds, &now))
        return JINJA_FAIL(run, "strftime_now: needs a format of up to %d bytes", FORMAT_BYTES);
    memcpy(zero_ended, format->bytes, format->n_bytes);
    const size_t n = strftime(text, sizeof text, zero_ended, &now);
    IG_TRY(jinja_add(run, &b, text, n, false));
    return jinja_finish(run, &b, out);
}

const jinja_function jinja_globals[] = {
    {"namespace", NULL, call_namespace},
    {"dict", NULL, call_dict},
    {"range", NULL, call_range},
    {"cycler", NULL, call_cycler},
    {"joiner", "sep", call_joiner},
    {"raise_exception", "message", call_raise},
    {"strftime_now", "format", call_strftime_now},
    {0},
};

/* ---- Lists ---- */

static ig_status list_copy(jinja_run *run, const jinja_call *call, jinja_value *out) {
    out->kind = JINJA_V_LIST;
    return jinja_iterate(run, call->self, &out->list);
}

/* How often a value is there, or where it is first. */
static ig_status list_count(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_list *list = call->self.list;
    const bool finds = call->what[0] == 'i';
    int64_t count = 0;
    for (size_t i = 0; i < list->count; i++) {
        bool same;
        IG_TRY(jinja_work(run, 32));
        IG_TRY(jinja_equal(run, list->at[i], call->bound[0], 0, &same));
        if (same && finds) {
            *out = jinja_integer((int64_t)i);
            return IG_OK;
        }
        count += same;
    }
    if (finds) return JINJA_FAIL(run, "index: it is not in the list");
    *out = jinja_integer(count);
    return IG_OK;
}

const jinja_function jinja_list_methods[] = {
    {"copy", "", list_copy},
    {"index", "value", list_count},
    {"count", "value", list_count},
    {0},
};

const jinja_function jinja_tuple_methods[] = {
    {"index", "value", list_count},
    {"count", "value", list_count},
    {0},
};

/* ---- Dicts ---- */

static ig_status dict_get(jinja_run *run, const jinja_call *call, jinja_value *out) {
    jinja_value *held;
    IG_TRY(jinja_get(run, call->self.dict, call->bound[0], &held));
    *out = held ? *held : call->bound[1].kind == JINJA_V_MISSING ? jinja_none() : call->bound[1];
    return IG_OK;
}

static ig_status dict_keys(jinja_run *run, const jinja_call *call, jinja_value *out) {
    jinja_list *keys;
    IG_TRY(jinja_iterate(run, call->self, &keys));
    return jinja_new_series(run, JINJA_KEYS, keys, out);
}

static ig_status dict_values(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_dict *dict = call->self.dict;
    jinja_value values;
    IG_TRY(jinja_new_list(run, JINJA_V_LIST, &values));
    for (size_t i = 0; i < dict->count; i++)
        IG_TRY(jinja_append(run, values.list, dict->at[i].value));
    return jinja_new_series(run, JINJA_VALUES, values.list, out);
}

static ig_status dict_items(jinja_run *run, const jinja_call *call, jinja_value *out) {
    jinja_call filter = {.self = call->self};
    IG_TRY(jinja_call_function(run, jinja_find_filter((jinja_name){"items", 5}), &filter, out));
    out->series->kind = JINJA_ITEMS;
    return IG_OK;
}

static ig_status dict_copy(jinja_run *run, const jinja_call *call, jinja_value *out) {
    jinja_value self = call->self;
    const jinja_call from = {.what = "copy", .at = &self, .count = 1};
    return make_dict(run, &from, JINJA_V_DICT, out);
}

/* dict.fromkeys(names, value) */
static ig_status dict_fromkeys(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_value value =
        call->bound[1].kind == JINJA_V_MISSING ? jinja_none() : call->bound[1];
    jinja_list *keys;
    IG_TRY(jinja_iterate(run, call->bound[0], &keys));
    IG_TRY(jinja_new_dict(run, JINJA_V_DICT, out));
    for (size_t i = 0; i < keys->count; i++) IG_TRY(jinja_set(run, out->dict, keys->at[i], value));
    return IG_OK;
}

/* Those that change a dict are not there: in the sandbox of templates nothing given changes. */
const jinja_function jinja_dict_methods[] = {
    {"get", "key default", dict_get},
    {"keys", "", dict_keys},
    {"values", "", dict_values},
    {"items", "", dict_items},
    {"copy", "", dict_copy},
    {"fromkeys", "iterable value", dict_fromkeys},
    {0},
};

/* ---- Loops ---- */

static ig_status loop_cycle(jinja_run *run, const jinja_call *call, jinja_value *out) {
    if (call->count == 0) return JINJA_FAIL(run, "cycle: needs something to choose from");
    *out = call->at[call->self.loop->at % call->count];
    return IG_OK;
}

static ig_status loop_changed(jinja_run *run, const jinja_call *call, jinja_value *out) {
    jinja_loop *loop = call->self.loop;
    jinja_value now;
    bool same = false;
    IG_TRY(jinja_new_list(run, JINJA_V_TUPLE, &now));
    for (size_t i = 0; i < call->count; i++) IG_TRY(jinja_append(run, now.list, call->at[i]));
    if (loop->last.kind == JINJA_V_TUPLE) IG_TRY(jinja_equal(run, loop->last, now, 0, &same));
    loop->last = now;
    *out = jinja_bool(!same);
    return IG_OK;
}

const jinja_function jinja_loop_methods[] = {
    {"cycle", NULL, loop_cycle},
    {"changed", NULL, loop_changed},
    {0},
};
