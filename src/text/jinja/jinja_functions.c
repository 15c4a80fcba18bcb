/* Functions that every template has, and methods of lists, dicts and loops. */
#include <string.h>
#include <time.h>

#include "text/jinja/jinja_run.h"

/* ---- Functions ---- */

/* namespace(a=1), dict(a=1), both also of another dict */
static ig_status make_dict(jinja_run *run, const jinja_call *call, jinja_value_kind kind,
                           jinja_value *out) {
    IG_TRY(jinja_new_dict(run, kind, out));
    for (size_t i = 0; i < call->count; i++) {
        if (call->at[i].kind != JINJA_V_DICT)
            return JINJA_FAIL(run, "%s: cannot be made of %s", call->what,
                              jinja_type_name(call->at[i]));
        const jinja_dict *from = call->at[i].dict;
        for (size_t k = 0; k < from->count; k++)
            IG_TRY(jinja_set(run, out->dict, from->at[k].key, from->at[k].value));
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
    enum { RESERVED = 1 << 20 }; /* more are taken as they come, to the limit */
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
    IG_TRY(jinja_new_list(run, JINJA_V_LIST, out));
    const double count = ((double)bounds[1] - (double)bounds[0]) / (double)bounds[2];
    if (count > 0 && count < RESERVED) IG_TRY(jinja_reserve(run, out->list, (size_t)count + 1));
    for (int64_t i = bounds[0]; bounds[2] > 0 ? i < bounds[1] : i > bounds[1];) {
        IG_TRY(jinja_append(run, out->list, jinja_integer(i)));
        if (__builtin_add_overflow(i, bounds[2], &i)) break;
    }
    return IG_OK;
}

static ig_status call_raise(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_string *words;
    (void)out;
    IG_TRY(jinja_to_string(run, call->bound[0], &words));
    return JINJA_FAIL(run, "%.*s", (int)(words->n_bytes < 400 ? words->n_bytes : 400),
                      words->bytes);
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
    {"raise_exception", "message", call_raise},
    {"strftime_now", "format", call_strftime_now},
    {0},
};

/* ---- Lists ---- */

static ig_status list_append(jinja_run *run, const jinja_call *call, jinja_value *out) {
    *out = jinja_none();
    return jinja_append(run, call->self.list, call->bound[0]);
}

static ig_status list_extend(jinja_run *run, const jinja_call *call, jinja_value *out) {
    jinja_list *items;
    *out = jinja_none();
    IG_TRY(jinja_iterate(run, call->bound[0], &items));
    for (size_t i = 0; i < items->count; i++)
        IG_TRY(jinja_append(run, call->self.list, items->at[i]));
    return IG_OK;
}

static ig_status list_insert(jinja_run *run, const jinja_call *call, jinja_value *out) {
    jinja_list *list = call->self.list;
    int64_t at;
    *out = jinja_none();
    IG_TRY(jinja_arg_integer(run, call, 0, 0, &at));
    const int64_t count = (int64_t)list->count;
    at = at < 0 ? at + count : at;
    at = at < 0 ? 0 : at > count ? count : at;
    IG_TRY(jinja_append(run, list, call->bound[1]));
    IG_TRY(jinja_work(run, list->count));
    memmove(list->at + at + 1, list->at + at, (size_t)(count - at) * sizeof *list->at);
    list->at[at] = call->bound[1];
    return IG_OK;
}

static ig_status list_pop(jinja_run *run, const jinja_call *call, jinja_value *out) {
    jinja_list *list = call->self.list;
    int64_t at;
    IG_TRY(jinja_arg_integer(run, call, 0, -1, &at));
    const int64_t count = (int64_t)list->count;
    if (at < 0) at += count;
    if (at < 0 || at >= count) return JINJA_FAIL(run, "pop: the list has %zu items", list->count);
    *out = list->at[at];
    IG_TRY(jinja_work(run, list->count));
    memmove(list->at + at, list->at + at + 1, (size_t)(count - at - 1) * sizeof *list->at);
    list->count--;
    return IG_OK;
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
    {"append", "object", list_append},
    {"extend", "iterable", list_extend},
    {"insert", "index object", list_insert},
    {"pop", "index", list_pop},
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
    out->kind = JINJA_V_LIST;
    return jinja_iterate(run, call->self, &out->list);
}

static ig_status dict_values(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_dict *dict = call->self.dict;
    IG_TRY(jinja_new_list(run, JINJA_V_LIST, out));
    for (size_t i = 0; i < dict->count; i++)
        IG_TRY(jinja_append(run, out->list, dict->at[i].value));
    return IG_OK;
}

static ig_status dict_items(jinja_run *run, const jinja_call *call, jinja_value *out) {
    jinja_call filter = {.self = call->self};
    return jinja_call_function(run, jinja_find_filter((jinja_name){"items", 5}), &filter, out);
}

static ig_status dict_pop(jinja_run *run, const jinja_call *call, jinja_value *out) {
    jinja_dict *dict = call->self.dict;
    jinja_value *held;
    IG_TRY(jinja_get(run, dict, call->bound[0], &held));
    *out = held ? *held : call->bound[1];
    if (out->kind == JINJA_V_MISSING) return JINJA_FAIL(run, "pop: there is no such key");
    if (!held) return IG_OK;
    jinja_pair *pair = (jinja_pair *)((char *)held - offsetof(jinja_pair, value));
    const size_t behind = dict->count - (size_t)(pair - dict->at) - 1;
    memmove(pair, pair + 1, behind * sizeof *pair);
    dict->count--;
    return IG_OK;
}

static ig_status dict_setdefault(jinja_run *run, const jinja_call *call, jinja_value *out) {
    IG_TRY(dict_get(run, call, out));
    jinja_value *held;
    IG_TRY(jinja_get(run, call->self.dict, call->bound[0], &held));
    return held ? IG_OK : jinja_set(run, call->self.dict, call->bound[0], *out);
}

static ig_status dict_copy(jinja_run *run, const jinja_call *call, jinja_value *out) {
    jinja_value self = call->self;
    const jinja_call from = {.what = "copy", .at = &self, .count = 1};
    return make_dict(run, &from, JINJA_V_DICT, out);
}

/* update(other), update(a=1) */
static ig_status dict_update(jinja_run *run, const jinja_call *call, jinja_value *out) {
    jinja_value more;
    IG_TRY(make_dict(run, call, JINJA_V_DICT, &more));
    for (size_t i = 0; i < more.dict->count; i++)
        IG_TRY(jinja_set(run, call->self.dict, more.dict->at[i].key, more.dict->at[i].value));
    *out = jinja_none();
    return IG_OK;
}

static ig_status dict_clear(jinja_run *run, const jinja_call *call, jinja_value *out) {
    (void)run;
    call->self.dict->count = 0;
    *out = jinja_none();
    return IG_OK;
}

const jinja_function jinja_dict_methods[] = {
    {"get", "key default", dict_get}, {"keys", "", dict_keys},
    {"values", "", dict_values},      {"items", "", dict_items},
    {"pop", "key default", dict_pop}, {"setdefault", "key default", dict_setdefault},
    {"copy", "", dict_copy},          {"update", NULL, dict_update},
    {"clear", "", dict_clear},        {0},
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
