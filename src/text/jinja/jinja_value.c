#include "text/jinja/jinja_value.h"

#include <string.h>

#include "text/jinja/jinja_run.h"

bool jinja_name_is(jinja_name name, const char *text) {
    return name.n_bytes == strlen(text) && memcmp(name.bytes, text, name.n_bytes) == 0;
}

bool jinja_name_same(jinja_name a, jinja_name b) {
    return a.n_bytes == b.n_bytes && memcmp(a.bytes, b.bytes, a.n_bytes) == 0;
}

const char *jinja_type_name(jinja_value v) {
    static const char *const names[] = {
        [JINJA_V_MISSING] = "nothing",  [JINJA_V_UNDEFINED] = "something undefined",
        [JINJA_V_NONE] = "None",        [JINJA_V_BOOL] = "a boolean",
        [JINJA_V_INTEGER] = "a number", [JINJA_V_REAL] = "a number",
        [JINJA_V_STRING] = "a string",  [JINJA_V_LIST] = "a list",
        [JINJA_V_TUPLE] = "a tuple",    [JINJA_V_SERIES] = "a series",
        [JINJA_V_DICT] = "a dict",      [JINJA_V_NAMESPACE] = "a namespace",
        [JINJA_V_MACRO] = "a macro",    [JINJA_V_FUNCTION] = "a function",
        [JINJA_V_LOOP] = "a loop",      [JINJA_V_CYCLER] = "a cycler",
        [JINJA_V_JOINER] = "a joiner"};
    static const char *const series[] = {
        [JINJA_GENERATOR] = "a generator",     [JINJA_REVERSED] = "a reversed iterator",
        [JINJA_KEYS] = "the keys of a dict",   [JINJA_VALUES] = "the values of a dict",
        [JINJA_ITEMS] = "the items of a dict", [JINJA_RANGE] = "a range"};
    return v.kind == JINJA_V_SERIES ? series[v.series->kind] : names[v.kind];
}

bool jinja_truth(jinja_value v) {
    switch (v.kind) {
    case JINJA_V_MISSING:
    case JINJA_V_UNDEFINED:
    case JINJA_V_NONE: return false;
    case JINJA_V_BOOL:
    case JINJA_V_INTEGER: return v.integer != 0;
    case JINJA_V_REAL: return v.real != 0;
    case JINJA_V_STRING: return v.string->n_bytes > 0;
    case JINJA_V_LIST:
    case JINJA_V_TUPLE: return v.list->count > 0;
    case JINJA_V_SERIES: return jinja_is_once(v) || v.series->items->count > 0;
    case JINJA_V_DICT: return v.dict->count > 0;
    default: return true;
    }
}

/* ---- Limits ---- */

ig_status jinja_work(jinja_run *run, size_t work) {
    run->work += work;
    if (run->work <= (size_t)IG_JINJA_STEPS_MAX * JINJA_STEP) return IG_OK;
    return JINJA_FAIL(run, "takes more than %d steps", IG_JINJA_STEPS_MAX);
}

ig_status jinja_is_undefined(const jinja_run *run, jinja_value v) {
    if (v.kind == JINJA_V_UNDEFINED && v.name)
        return JINJA_FAIL(run, "'%.*s' is undefined", JINJA_SHOW(*v.name));
    return JINJA_FAIL(run, "what is used here is undefined");
}

/* ---- Strings ---- */

ig_status jinja_new_string(jinja_run *run, const char *bytes, size_t n_bytes, bool given,
                           jinja_value *out) {
    jinja_string *s = jinja_take(&run->arena, 1, sizeof *s);
    if (!s) return jinja_no_memory(&run->arena, run->line);
    *s = (jinja_string){.bytes = bytes, .n_bytes = n_bytes, .given = given};
    *out = (jinja_value){.kind = JINJA_V_STRING, .string = s};
    return IG_OK;
}

ig_status jinja_part(jinja_run *run, const jinja_string *s, size_t begin, size_t end,
                     jinja_value *out) {
    jinja_string *part = jinja_take(&run->arena, 1, sizeof *part);
    if (!part) return jinja_no_memory(&run->arena, run->line);
    *part = (jinja_string){.bytes = s->bytes + begin,
                           .marks = s->marks ? s->marks + begin : NULL,
                           .n_bytes = end - begin,
                           .given = s->given,
                           .markup = s->markup};
    *out = (jinja_value){.kind = JINJA_V_STRING, .string = part};
    return IG_OK;
}

static ig_status make_room(jinja_run *run, jinja_builder *b, size_t n_bytes) {
    if (n_bytes > IG_JINJA_TEXT_MAX - b->n_bytes)
        return JINJA_FAIL(run, "a text becomes longer than %d MB", IG_JINJA_TEXT_MAX >> 20);
    IG_TRY(jinja_work(run, 16 + n_bytes));
    if (b->room - b->n_bytes >= n_bytes) return IG_OK;
    size_t room = b->room ? 2 * b->room : 64;
    while (room < b->n_bytes + n_bytes) room *= 2;
    char *grown = jinja_take(&run->arena, room, 2);
    if (!grown) return jinja_no_memory(&run->arena, run->line);
    if (b->n_bytes > 0) {
        memcpy(grown, b->bytes, b->n_bytes);
        memcpy(grown + room, b->marks, b->n_bytes);
    }
    b->bytes = grown;
    b->marks = grown + room;
    b->room = room;
    return IG_OK;
}

ig_status jinja_add(jinja_run *run, jinja_builder *b, const char *bytes, size_t n_bytes,
                    bool given) {
    if (n_bytes == 0) return IG_OK;
    IG_TRY(make_room(run, b, n_bytes));
    memcpy(b->bytes + b->n_bytes, bytes, n_bytes);
    memset(b->marks + b->n_bytes, given, n_bytes);
    b->n_bytes += n_bytes;
    *(given ? &b->has_given : &b->has_own) = true;
    return IG_OK;
}

ig_status jinja_add_fill(jinja_run *run, jinja_builder *b, char fill, int64_t count, bool given) {
    char bytes[64];
    memset(bytes, fill, sizeof bytes);
    for (int64_t n; count > 0; count -= n) {
        n = count < (int64_t)sizeof bytes ? count : (int64_t)sizeof bytes;
        IG_TRY(jinja_add(run, b, bytes, (size_t)n, given));
    }
    return IG_OK;
}

ig_status jinja_add_text(jinja_run *run, jinja_builder *b, const char *text) {
    return jinja_add(run, b, text, strlen(text), false);
}

ig_status jinja_add_part(jinja_run *run, jinja_builder *b, const jinja_string *s, size_t begin,
                         size_t end) {
    if (!s->marks) return jinja_add(run, b, s->bytes + begin, end - begin, s->given);
    if (begin == end) return IG_OK;
    IG_TRY(make_room(run, b, end - begin));
    memcpy(b->bytes + b->n_bytes, s->bytes + begin, end - begin);
    memcpy(b->marks + b->n_bytes, s->marks + begin, end - begin);
    b->n_bytes += end - begin;
    b->has_given = b->has_own = true; /* for all we know */
    return IG_OK;
}

ig_status jinja_add_string(jinja_run *run, jinja_builder *b, const jinja_string *s) {
    return jinja_add_part(run, b, s, 0, s->n_bytes);
}

static jinja_string string_of(const jinja_builder *b) {
    return (jinja_string){.bytes = b->bytes ? b->bytes : "",
                          .marks = b->has_given && b->has_own ? b->marks : NULL,
                          .n_bytes = b->n_bytes,
                          .given = b->has_given};
}

ig_status jinja_finish(jinja_run *run, const jinja_builder *b, jinja_value *out) {
    jinja_string *s = jinja_take(&run->arena, 1, sizeof *s);
    if (!s) return jinja_no_memory(&run->arena, run->line);
    *s = string_of(b);
    *out = (jinja_value){.kind = JINJA_V_STRING, .string = s};
    return IG_OK;
}

/*
 * What is written behind the first: in its own builder, if nothing was since.  So a
 * text that grows in a loop, text = text + more, does not leave a copy with each turn.
 */
static ig_status builder_of(jinja_run *run, jinja_value first, jinja_builder **out) {
    jinja_builder *b = first.kind == JINJA_V_STRING ? first.string->builder : NULL;
    if (!b || b->bytes != first.string->bytes || b->n_bytes != first.string->n_bytes) {
        b = jinja_take(&run->arena, 1, sizeof *b);
        if (!b) return jinja_no_memory(&run->arena, run->line);
        IG_TRY(jinja_add_value(run, b, first));
    }
    *out = b;
    return IG_OK;
}

ig_status jinja_mark_up(jinja_run *run, jinja_value *v) {
    jinja_string *s = jinja_take(&run->arena, 1, sizeof *s);
    if (!s) return jinja_no_memory(&run->arena, run->line);
    *s = *v->string;
    s->markup = true;
    s->builder = NULL;
    *v = (jinja_value){.kind = JINJA_V_STRING, .string = s};
    return IG_OK;
}

ig_status jinja_join(jinja_run *run, const jinja_value *parts, size_t count, jinja_value *out) {
    jinja_builder *b = NULL;
    IG_TRY(builder_of(run, parts[0], &b));
    for (size_t i = 1; i < count; i++) IG_TRY(jinja_add_value(run, b, parts[i]));
    jinja_string *s = jinja_take(&run->arena, 1, sizeof *s);
    if (!s) return jinja_no_memory(&run->arena, run->line);
    *s = string_of(b);
    s->builder = b;
    *out = (jinja_value){.kind = JINJA_V_STRING, .string = s};
    return IG_OK;
}

/* ---- Lists and dicts ---- */

/* Makes room for one more than `count` items of `bytes_each`. */
static ig_status grow(jinja_run *run, void **items, size_t count, size_t *room, size_t bytes_each) {
    if (count < *room) return IG_OK;
    const size_t more = *room ? 2 * *room : 4;
    void *grown = jinja_take(&run->arena, more, bytes_each);
    if (!grown) return jinja_no_memory(&run->arena, run->line);
    if (count > 0) memcpy(grown, *items, count * bytes_each);
    *items = grown;
    *room = more;
    return IG_OK;
}

ig_status jinja_new_list(jinja_run *run, jinja_value_kind kind, jinja_value *out) {
    jinja_list *list = jinja_take(&run->arena, 1, sizeof *list);
    if (!list) return jinja_no_memory(&run->arena, run->line);
    *out = (jinja_value){.kind = kind, .list = list};
    return IG_OK;
}

ig_status jinja_new_series(jinja_run *run, jinja_series_kind kind, const jinja_list *items,
                           jinja_value *out) {
    jinja_series *series = jinja_take(&run->arena, 1, sizeof *series);
    if (!series) return jinja_no_memory(&run->arena, run->line);
    *series = (jinja_series){.kind = kind, .items = items};
    *out = (jinja_value){.kind = JINJA_V_SERIES, .series = series};
    return IG_OK;
}

ig_status jinja_append(jinja_run *run, jinja_list *list, jinja_value v) {
    IG_TRY(jinja_work(run, JINJA_STEP / 8));
    IG_TRY(grow(run, (void **)&list->at, list->count, &list->room, sizeof *list->at));
    list->at[list->count++] = v;
    return IG_OK;
}

ig_status jinja_reserve(jinja_run *run, jinja_list *list, size_t count) {
    IG_TRY(jinja_work(run, count * JINJA_STEP / 8));
    list->at = jinja_take(&run->arena, count, sizeof *list->at);
    if (!list->at) return jinja_no_memory(&run->arena, run->line);
    list->room = count;
    return IG_OK;
}

ig_status jinja_new_pair(jinja_run *run, jinja_value a, jinja_value b, jinja_value *out) {
    IG_TRY(jinja_new_list(run, JINJA_V_TUPLE, out));
    IG_TRY(jinja_append(run, out->list, a));
    return jinja_append(run, out->list, b);
}

ig_status jinja_new_dict(jinja_run *run, jinja_value_kind kind, jinja_value *out) {
    jinja_dict *dict = jinja_take(&run->arena, 1, sizeof *dict);
    if (!dict) return jinja_no_memory(&run->arena, run->line);
    *out = (jinja_value){.kind = kind, .dict = dict};
    return IG_OK;
}

bool jinja_can_be_key(jinja_value v) {
    if (v.kind != JINJA_V_TUPLE) return v.kind != JINJA_V_LIST && v.kind != JINJA_V_DICT;
    bool can = true; /* of tuples in tuples it is not asked */
    for (size_t i = 0; i < v.list->count && can; i++)
        can = v.list->at[i].kind != JINJA_V_LIST && v.list->at[i].kind != JINJA_V_DICT;
    return can;
}

static ig_status check_key(const jinja_run *run, jinja_value key) {
    if (jinja_can_be_key(key)) return IG_OK;
    return JINJA_FAIL(run, "%s cannot be a key", jinja_type_name(key));
}

ig_status jinja_get(jinja_run *run, const jinja_dict *dict, jinja_value key, jinja_value **out) {
    IG_TRY(check_key(run, key));
    IG_TRY(jinja_work(run, 8 * dict->count));
    *out = NULL;
    for (size_t i = 0; i < dict->count && !*out; i++) {
        bool same;
        IG_TRY(jinja_equal(run, dict->at[i].key, key, 0, &same));
        if (same) *out = &dict->at[i].value;
    }
    return IG_OK;
}

ig_status jinja_set(jinja_run *run, jinja_dict *dict, jinja_value key, jinja_value value) {
    jinja_value *held;
    IG_TRY(jinja_get(run, dict, key, &held));
    if (held) {
        *held = value;
        return IG_OK;
    }
    IG_TRY(grow(run, (void **)&dict->at, dict->count, &dict->room, sizeof *dict->at));
    dict->at[dict->count++] = (jinja_pair){key, value};
    return IG_OK;
}

/* ---- From outside ---- */

static ig_status from_array(jinja_run *run, const json_t *json, int depth, jinja_value *out) {
    IG_TRY(jinja_new_list(run, JINJA_V_LIST, out));
    for (size_t i = 0; i < json_array_size(json); i++) {
        jinja_value item;
        IG_TRY(jinja_from_json(run, json_array_get(json, i), depth + 1, &item));
        IG_TRY(jinja_append(run, out->list, item));
    }
    return IG_OK;
}

/* Templates build special tokens from roles, "<|" + role + "|>": the known roles are trusted. */
static bool is_role(const char *key, const json_t *value) {
    static const char *const roles[] = {"system", "user", "assistant", "tool", "developer"};
    if (strcmp(key, "role") != 0 || !json_is_string(value)) return false;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strcmp(roles[i], json_string_value(value)) == 0) return true;
    return false;
}

/* Keys of a JSON object differ, so nothing is looked for. */
static ig_status from_object(jinja_run *run, const json_t *json, int depth, jinja_value *out) {
    IG_TRY(jinja_new_dict(run, JINJA_V_DICT, out));
    json_t *object = (json_t *)(uintptr_t)json; /* iterators of jansson take no const */
    for (void *i = json_object_iter(object); i; i = json_object_iter_next(object, i)) {
        const char *name = json_object_iter_key(i);
        jinja_pair pair;
        IG_TRY(jinja_work(run, 32));
        IG_TRY(jinja_new_string(run, name, strlen(name), true, &pair.key));
        const json_t *value = json_object_iter_value(i);
        IG_TRY(is_role(name, value)
                   ? jinja_new_string(run, json_string_value(value), json_string_length(value),
                                      false, &pair.value)
                   : jinja_from_json(run, value, depth + 1, &pair.value));
        IG_TRY(grow(run, (void **)&out->dict->at, out->dict->count, &out->dict->room, sizeof pair));
        out->dict->at[out->dict->count++] = pair;
    }
    return IG_OK;
}

ig_status jinja_from_json(jinja_run *run, const json_t *json, int depth, jinja_value *out) {
    if (depth > IG_JINJA_DEPTH_MAX)
        return JINJA_FAIL(run, "values more than %d deep", IG_JINJA_DEPTH_MAX);
    switch (json_typeof(json)) {
    case JSON_OBJECT: IG_TRY(from_object(run, json, depth, out)); break;
    case JSON_ARRAY: IG_TRY(from_array(run, json, depth, out)); break;
    case JSON_STRING:
        IG_TRY(jinja_new_string(run, json_string_value(json), json_string_length(json), true, out));
        break;
    case JSON_INTEGER: *out = jinja_integer(json_integer_value(json)); break;
    case JSON_REAL: *out = jinja_real(json_real_value(json)); break;
    case JSON_TRUE:
    case JSON_FALSE: *out = jinja_bool(json_is_true(json)); break;
    default: *out = jinja_none(); break;
    }
    out->given = true;
    return IG_OK;
}
