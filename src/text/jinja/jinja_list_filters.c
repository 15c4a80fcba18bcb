/* Filters of lists, and of what becomes one: dicts, and strings as their characters. */
#include <string.h>

#include "text/jinja/jinja_strings.h"

/* ---- Attributes by a text: "function.name", "items.0" ---- */

/* `initial` stands for what is undefined on the way, if it is not MISSING. */
static ig_status get_attribute(jinja_run *run, jinja_value of, const jinja_string *path,
                               jinja_value initial, jinja_value *out) {
    *out = of;
    for (size_t begin = 0; begin <= path->n_bytes;) {
        const char *dot = memchr(path->bytes + begin, '.', path->n_bytes - begin);
        const size_t end = dot ? (size_t)(dot - path->bytes) : path->n_bytes;
        jinja_value key;
        int64_t number = 0;
        size_t digits = 0;
        IG_TRY(jinja_work(run, 32 + end - begin));
        while (begin + digits < end && digits < 9 && path->bytes[begin + digits] - '0' >= 0 &&
               path->bytes[begin + digits] <= '9')
            number = 10 * number + path->bytes[begin + digits++] - '0';
        if (digits > 0 && begin + digits == end)
            key = jinja_integer(number);
        else
            IG_TRY(jinja_part(run, path, begin, end, &key));
        IG_TRY(jinja_index(run, *out, key, out));
        if (out->kind == JINJA_V_UNDEFINED && initial.kind != JINJA_V_MISSING) *out = initial;
        begin = end + 1;
    }
    return IG_OK;
}

/* The attribute that an argument names, of each item; the items, if it names none. */
static ig_status keys_of(jinja_run *run, const jinja_list *items, jinja_value attribute,
                         bool ignores_case, jinja_value **out) {
    jinja_value *keys = jinja_take(&run->arena, items->count, sizeof *keys);
    if (!keys) return jinja_no_memory(&run->arena, run->line);
    const jinja_string *path;
    if (attribute.kind != JINJA_V_MISSING && attribute.kind != JINJA_V_NONE)
        IG_TRY(jinja_to_string(run, attribute, &path));
    else
        path = NULL;
    for (size_t i = 0; i < items->count; i++) {
        keys[i] = items->at[i];
        if (path) IG_TRY(get_attribute(run, keys[i], path, (jinja_value){0}, &keys[i]));
        if (ignores_case && keys[i].kind == JINJA_V_STRING)
            IG_TRY(jinja_change_case(run, keys[i].string, JINJA_LOWER, false, &keys[i]));
    }
    *out = keys;
    return IG_OK;
}

/* ---- Ends, order, sums ---- */

static ig_status filter_list(jinja_run *run, const jinja_call *call, jinja_value *out) {
    out->kind = JINJA_V_LIST;
    return jinja_iterate(run, call->self, &out->list);
}

/* What a filter gives that jinja2 has as a generator. */
static ig_status as_generator(jinja_run *run, jinja_value *list) {
    return jinja_new_series(run, JINJA_GENERATOR, list->list, list);
}

static ig_status filter_first(jinja_run *run, const jinja_call *call, jinja_value *out) {
    jinja_list *items;
    const size_t used = jinja_is_once(call->self) ? call->self.series->used : 0;
    IG_TRY(jinja_iterate(run, call->self, &items));
    *out = items->count > 0 ? items->at[0] : jinja_undefined(NULL);
    if (jinja_is_once(call->self) && items->count > 0) call->self.series->used = used + 1;
    return IG_OK;
}

static ig_status filter_last(jinja_run *run, const jinja_call *call, jinja_value *out) {
    jinja_list *items;
    if (jinja_is_once(call->self))
        return JINJA_FAIL(run, "last: %s has no end to begin at", jinja_type_name(call->self));
    IG_TRY(jinja_iterate(run, call->self, &items));
    *out = items->count > 0 ? items->at[items->count - 1] : jinja_undefined(NULL);
    return jinja_is_markup(call->self) && items->count > 0 ? jinja_mark_up(run, out) : IG_OK;
}

static ig_status filter_reverse(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_value back[3] = {{0}, {0}, jinja_integer(-1)};
    if (call->self.kind == JINJA_V_STRING) return jinja_slice(run, call->self, back, out);
    jinja_value list = {.kind = JINJA_V_LIST};
    IG_TRY(jinja_iterate(run, call->self, &list.list));
    IG_TRY(jinja_slice(run, list, back, out));
    if (jinja_is_once(call->self)) return IG_OK; /* jinja2 reverses a list of what is in it */
    return jinja_new_series(run, JINJA_REVERSED, out->list, out);
}

static ig_status filter_join(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_string *between;
    jinja_list *items;
    jinja_value *parts;
    jinja_builder b = {0};
    IG_TRY(jinja_to_string(run, call->bound[0], &between));
    IG_TRY(jinja_iterate(run, call->self, &items));
    IG_TRY(keys_of(run, items, call->bound[1], false, &parts));
    for (size_t i = 0; i < items->count; i++) {
        if (i > 0) IG_TRY(jinja_add_string(run, &b, between));
        IG_TRY(jinja_add_value(run, &b, parts[i]));
    }
    return jinja_finish(run, &b, out);
}

static ig_status lower_case(jinja_run *run, jinja_value *v) {
    return v->kind == JINJA_V_STRING ? jinja_change_case(run, v->string, JINJA_LOWER, false, v)
                                     : IG_OK;
}

/* "a,b": the keys are lists of attributes. */
static ig_status keys_of_several(jinja_run *run, const jinja_list *items, const jinja_string *paths,
                                 bool ignores_case, jinja_value **out) {
    jinja_value *keys = jinja_take(&run->arena, items->count, sizeof *keys);
    if (!keys) return jinja_no_memory(&run->arena, run->line);
    for (size_t i = 0; i < items->count; i++) {
        IG_TRY(jinja_new_list(run, JINJA_V_LIST, &keys[i]));
        for (size_t begin = 0; begin <= paths->n_bytes;) {
            const char *comma = memchr(paths->bytes + begin, ',', paths->n_bytes - begin);
            const size_t end = comma ? (size_t)(comma - paths->bytes) : paths->n_bytes;
            jinja_value path, key;
            IG_TRY(jinja_part(run, paths, begin, end, &path));
            IG_TRY(get_attribute(run, items->at[i], path.string, (jinja_value){0}, &key));
            if (ignores_case) IG_TRY(lower_case(run, &key));
            IG_TRY(jinja_append(run, keys[i].list, key));
            begin = end + 1;
        }
    }
    *out = keys;
    return IG_OK;
}

static ig_status filter_sort(jinja_run *run, const jinja_call *call, jinja_value *out) {
    jinja_value *keys;
    out->kind = JINJA_V_LIST;
    IG_TRY(jinja_iterate(run, call->self, &out->list));
    const jinja_value by = call->bound[2];
    const bool ignores_case = !jinja_arg_truth(call, 1, false);
    IG_TRY(by.kind == JINJA_V_STRING && memchr(by.string->bytes, ',', by.string->n_bytes)
               ? keys_of_several(run, out->list, by.string, ignores_case, &keys)
               : keys_of(run, out->list, by, ignores_case, &keys));
    return jinja_sort(run, keys, out->list->at, out->list->count, jinja_arg_truth(call, 0, false));
}

static ig_status filter_dictsort(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_string *by;
    jinja_value *keys, pair;
    if (call->self.kind != JINJA_V_DICT)
        return JINJA_FAIL(run, "dictsort: needs a dict, not %s", jinja_type_name(call->self));
    const jinja_dict *dict = call->self.dict;
    IG_TRY(jinja_arg_string(run, call, 1, &by));
    if (by && !(by->n_bytes == 3 && memcmp(by->bytes, "key", 3) == 0) &&
        !(by->n_bytes == 5 && memcmp(by->bytes, "value", 5) == 0))
        return JINJA_FAIL(run, "dictsort: by is key or value");
    const bool by_value = by && by->n_bytes == 5 && memcmp(by->bytes, "value", 5) == 0;
    IG_TRY(jinja_new_list(run, JINJA_V_LIST, out));
    for (size_t i = 0; i < dict->count; i++) {
        IG_TRY(jinja_new_pair(run, dict->at[i].key, dict->at[i].value, &pair));
        IG_TRY(jinja_append(run, out->list, pair));
    }
    IG_TRY(jinja_new_string(run, by_value ? "1" : "0", 1, false, &pair));
    IG_TRY(keys_of(run, out->list, pair, !jinja_arg_truth(call, 0, false), &keys));
    return jinja_sort(run, keys, out->list->at, out->list->count, jinja_arg_truth(call, 2, false));
}

static ig_status filter_unique(jinja_run *run, const jinja_call *call, jinja_value *out) {
    jinja_list *items;
    jinja_value *keys, seen;
    IG_TRY(jinja_iterate(run, call->self, &items));
    IG_TRY(keys_of(run, items, call->bound[1], !jinja_arg_truth(call, 0, false), &keys));
    IG_TRY(jinja_new_list(run, JINJA_V_LIST, out));
    IG_TRY(jinja_new_list(run, JINJA_V_LIST, &seen));
    for (size_t i = 0; i < items->count; i++) {
        bool known;
        if (keys[i].kind == JINJA_V_LIST || keys[i].kind == JINJA_V_DICT)
            return JINJA_FAIL(run, "unique: cannot tell %s from others", jinja_type_name(keys[i]));
        IG_TRY(jinja_contains(run, keys[i], seen, &known));
        if (known) continue;
        IG_TRY(jinja_append(run, seen.list, keys[i]));
        IG_TRY(jinja_append(run, out->list, items->at[i]));
    }
    return as_generator(run, out);
}

/* ---- Parts of a list ---- */

/* Those items whose attribute is the same, as (attribute, items), in the order of attributes. */
static ig_status filter_groupby(jinja_run *run, const jinja_call *call, jinja_value *out) {
    const jinja_string *path;
    const bool ignores_case = !jinja_arg_truth(call, 2, false);
    jinja_list *items;
    jinja_value group = {0};
    IG_TRY(jinja_to_string(run, call->bound[0], &path));
    const jinja_value initial =
        call->bound[1].kind == JINJA_V_NONE ? (jinja_value){0} : call->bound[1];
    IG_TRY(jinja_iterate(run, call->self, &items));
    jinja_value *keys = jinja_take(&run->arena, items->count, sizeof *keys);
    if (!keys) return jinja_no_memory(&run->arena, run->line);
    for (size_t i = 0; i < items->count; i++) {
        IG_TRY(get_attribute(run, items->at[i], path, initial, &keys[i]));
        if (ignores_case) IG_TRY(lower_case(run, &keys[i]));
    }
    IG_TRY(jinja_sort(run, keys, items->at, items->count, false));
    IG_TRY(jinja_new_list(run, JINJA_V_LIST, out));
    for (size_t i = 0; i < items->count; i++) {
        jinja_value name, members;
        bool same = i > 0;
        if (i > 0) IG_TRY(jinja_equal(run, keys[i - 1], keys[i], 0, &same));
        if (!same) {
            IG_TRY(get_attribute(run, items->at[i], path, initial, &name));
            IG_TRY(jinja_new_list(run, JINJA_V_LIST, &members));
            IG_TRY(jinja_new_pair(run, name, members, &group));
            group.list->is_group = true;
            IG_TRY(jinja_append(run, out->list, group));
        }
        IG_TRY(jinja_append(run, group.list->at[1].list, items->at[i]));
    }
    return IG_OK;
}

/* Lists of `linecount` items; the last is filled up if `fill_with` is given. */
static ig_status filter_batch(jinja_run *run, const jinja_call *call, jinja_value *out) {
    jinja_list *items;
    int64_t size;
    jinja_value part = {0};
    IG_TRY(jinja_arg_integer(run, call, 0, 0, &size));
    if (size < 1) return JINJA_FAIL(run, "batch: needs a number of items above 0");
    IG_TRY(jinja_iterate(run, call->self, &items));
    IG_TRY(jinja_new_list(run, JINJA_V_LIST, out));
    for (size_t i = 0; i < items->count; i++) {
        if (i % (size_t)size == 0) {
            IG_TRY(jinja_new_list(run, JINJA_V_LIST, &part));
            IG_TRY(jinja_append(run, out->list, part));
        }
        IG_TRY(jinja_append(run, part.list, items->at[i]));
    }
    const bool fills =
        call->bound[1].kind != JINJA_V_MISSING && call->bound[1].kind != JINJA_V_NONE;
    while (fills && part.list && part.list->count < (size_t)size)
        IG_TRY(jinja_append(run, part.list, call->bound[1]));
    return as_generator(run, out);
}

/* `slices` lists, whose lengths differ by one at most; the shorter ones are filled up. */
static ig_status filter_slice(jinja_run *run, const jinja_call *call, jinja_value *out) {
    jinja_list *items;
    int64_t count;
    IG_TRY(jinja_arg_integer(run, call, 0, 0, &count));
    if (count < 1) return JINJA_FAIL(run, "slice: needs a number of lists above 0");
    IG_TRY(jinja_iterate(run, call->self, &items));
    IG_TRY(jinja_new_list(run, JINJA_V_LIST, out));
    const bool fills =
        call->bound[1].kind != JINJA_V_MISSING && call->bound[1].kind != JINJA_V_NONE;
    const size_t each = items->count / (size_t)count, longer = items->count % (size_t)count;
    size_t at = 0;
    for (size_t i = 0; i < (size_t)count; i++) {
        jinja_value part;
        IG_TRY(jinja_new_list(run, JINJA_V_LIST, &part));
        for (size_t end = at + each + (i < longer); at < end; at++)
            IG_TRY(jinja_append(run, part.list, items->at[at]));
        if (fills && i >= longer) IG_TRY(jinja_append(run, part.list, call->bound[1]));
        IG_TRY(jinja_append(run, out->list, part));
    }
    return as_generator(run, out);
}

/* ---- Sums and extremes ---- */

static ig_status filter_sum(jinja_run *run, const jinja_call *call, jinja_value *out) {
    jinja_list *items;
    jinja_value *keys;
    IG_TRY(jinja_iterate(run, call->self, &items));
    IG_TRY(keys_of(run, items, call->bound[0], false, &keys));
    *out = call->bound[1].kind == JINJA_V_MISSING ? jinja_integer(0) : call->bound[1];
    if (out->kind == JINJA_V_STRING)
        return JINJA_FAIL(run, "sum: strings are put together with join");
    for (size_t i = 0; i < items->count; i++) IG_TRY(jinja_binary(run, '+', *out, keys[i], out));
    return IG_OK;
}

/* The first (order below 0) or last of all in their order. */
static ig_status extreme(jinja_run *run, const jinja_call *call, int sign, jinja_value *out) {
    jinja_list *items;
    jinja_value *keys;
    size_t best = 0;
    IG_TRY(jinja_iterate(run, call->self, &items));
    IG_TRY(keys_of(run, items, call->bound[1], !jinja_arg_truth(call, 0, false), &keys));
    for (size_t i = 1; i < items->count; i++) {
        int order;
        IG_TRY(jinja_order(run, keys[i], keys[best], 0, &order));
        if (sign < 0 ? order < 0 : order > 0) best = i;
    }
    *out = items->count > 0 ? items->at[best] : jinja_undefined(NULL);
    return IG_OK;
}

static ig_status filter_min(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return extreme(run, call, -1, out);
}

static ig_status filter_max(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return extreme(run, call, 1, out);
}

static ig_status filter_items(jinja_run *run, const jinja_call *call, jinja_value *out) {
    jinja_value pair;
    IG_TRY(jinja_new_list(run, JINJA_V_LIST, out));
    if (call->self.kind == JINJA_V_UNDEFINED) return as_generator(run, out);
    if (call->self.kind != JINJA_V_DICT)
        return JINJA_FAIL(run, "items: needs a dict, not %s", jinja_type_name(call->self));
    for (size_t i = 0; i < call->self.dict->count; i++) {
        const jinja_pair *from = &call->self.dict->at[i];
        IG_TRY(jinja_new_pair(run, from->key, from->value, &pair));
        IG_TRY(jinja_append(run, out->list, pair));
    }
    return as_generator(run, out);
}

/* ---- Each of them: map, select, reject ---- */

static ig_status name_of(jinja_run *run, const jinja_call *call, size_t i, jinja_name *out) {
    if (i >= call->count || call->at[i].kind != JINJA_V_STRING)
        return JINJA_FAIL(run, "%s: needs a name", call->what);
    *out = (jinja_name){call->at[i].string->bytes, call->at[i].string->n_bytes};
    return IG_OK;
}

/* Calls a filter or test with the arguments behind the first `skip`. */
static ig_status call_on(jinja_run *run, const jinja_function *function, jinja_value item,
                         const jinja_call *call, size_t skip, jinja_value *out) {
    jinja_call inner = {.self = item,
                        .at = call->at + skip,
                        .count = call->count - skip,
                        .named = call->named,
                        .n_named = call->n_named};
    jinja_value value = {0};
    if (run->calls >= IG_JINJA_DEPTH_MAX)
        return JINJA_FAIL(run, "calls more than %d deep", IG_JINJA_DEPTH_MAX);
    run->calls++;
    IG_TRY(jinja_work(run, 32));
    const ig_status status = jinja_call_function(run, function, &inner, &value);
    run->calls--;
    if (status == IG_OK) *out = value;
    return status;
}

/* map(attribute="name", default=...) */
static ig_status map_attribute(jinja_run *run, const jinja_call *call, jinja_list *items) {
    const jinja_string *path = NULL;
    jinja_value initial = {0};
    for (size_t i = 0; i < call->n_named; i++) {
        if (jinja_name_is(call->named[i].name, "attribute"))
            IG_TRY(jinja_to_string(run, call->named[i].value, &path));
        else if (jinja_name_is(call->named[i].name, "default"))
            initial = call->named[i].value;
        else
            return JINJA_FAIL(run, "map: argument '%.*s' is not known",
                              JINJA_SHOW(call->named[i].name));
    }
    if (!path && items->count > 0) return JINJA_FAIL(run, "map: needs a filter or an attribute");
    for (size_t i = 0; i < items->count; i++)
        IG_TRY(get_attribute(run, items->at[i], path, initial, &items->at[i]));
    return IG_OK;
}

/* The items of what is filtered; what is false has none, even if it is no list. */
static ig_status items_of(jinja_run *run, const jinja_call *call, jinja_value *out) {
    if (!jinja_truth(call->self)) return jinja_new_list(run, JINJA_V_LIST, out);
    out->kind = JINJA_V_LIST;
    return jinja_iterate(run, call->self, &out->list);
}

static ig_status filter_map(jinja_run *run, const jinja_call *call, jinja_value *out) {
    jinja_name name;
    IG_TRY(items_of(run, call, out));
    if (call->count == 0) {
        IG_TRY(map_attribute(run, call, out->list));
        return as_generator(run, out);
    }
    IG_TRY(name_of(run, call, 0, &name));
    const jinja_function *function = jinja_find_filter(name);
    if (!function && out->list->count == 0) return as_generator(run, out);
    if (!function) return JINJA_FAIL(run, "filter '%.*s' is not known", JINJA_SHOW(name));
    for (size_t i = 0; i < out->list->count; i++)
        IG_TRY(call_on(run, function, out->list->at[i], call, 1, &out->list->at[i]));
    return as_generator(run, out);
}

/* Keeps the items, or those with an attribute, for which a test says what is wanted. */
static ig_status choose(jinja_run *run, const jinja_call *call, bool by_attribute, bool wanted,
                        jinja_value *out) {
    const size_t skip = by_attribute ? 1 : 0;
    const jinja_function *test = NULL;
    const jinja_string *path = NULL;
    jinja_name name;
    size_t kept = 0;
    if (by_attribute) {
        IG_TRY(name_of(run, call, 0, &name));
        path = call->at[0].string;
    }
    if (call->count > skip) {
        IG_TRY(name_of(run, call, skip, &name));
        test = jinja_find(jinja_tests, name);
        if (!test) return JINJA_FAIL(run, "test '%.*s' is not known", JINJA_SHOW(name));
    }
    IG_TRY(items_of(run, call, out));
    for (size_t i = 0; i < out->list->count; i++) {
        jinja_value value = out->list->at[i];
        if (path) IG_TRY(get_attribute(run, value, path, (jinja_value){0}, &value));
        if (test) IG_TRY(call_on(run, test, value, call, skip + 1, &value));
        if (jinja_truth(value) == wanted) out->list->at[kept++] = out->list->at[i];
    }
    out->list->count = kept;
    return as_generator(run, out);
}

static ig_status filter_select(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return choose(run, call, false, true, out);
}

static ig_status filter_reject(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return choose(run, call, false, false, out);
}

static ig_status filter_selectattr(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return choose(run, call, true, true, out);
}

static ig_status filter_rejectattr(jinja_run *run, const jinja_call *call, jinja_value *out) {
    return choose(run, call, true, false, out);
}

const jinja_function jinja_list_filters[] = {
    {"list", "", filter_list},
    {"first", "", filter_first},
    {"last", "", filter_last},
    {"reverse", "", filter_reverse},
    {"join", "d attribute", filter_join},
    {"sort", "reverse case_sensitive attribute", filter_sort},
    {"dictsort", "case_sensitive by reverse", filter_dictsort},
    {"groupby", "attribute default case_sensitive", filter_groupby},
    {"batch", "linecount fill_with", filter_batch},
    {"slice", "slices fill_with", filter_slice},
    {"unique", "case_sensitive attribute", filter_unique},
    {"sum", "attribute start", filter_sum},
    {"min", "case_sensitive attribute", filter_min},
    {"max", "case_sensitive attribute", filter_max},
    {"items", "", filter_items},
    {"map", NULL, filter_map},
    {"select", NULL, filter_select},
    {"reject", NULL, filter_reject},
    {"selectattr", NULL, filter_selectattr},
    {"rejectattr", NULL, filter_rejectattr},
    {0},
};
