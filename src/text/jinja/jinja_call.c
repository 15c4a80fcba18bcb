/* Arguments to their parameters: of the engine's functions and of a template's macros. */
#include <string.h>

#include "text/jinja/jinja_run.h"

const jinja_function *jinja_find(const jinja_function *rows, jinja_name name) {
    for (; rows->name; rows++)
        if (jinja_name_is(name, rows->name)) return rows;
    return NULL;
}

const jinja_function *jinja_find_filter(jinja_name name) {
    const jinja_function *found = jinja_find(jinja_filters, name);
    return found ? found : jinja_find(jinja_list_filters, name);
}

const jinja_function *jinja_find_method(jinja_value of, jinja_name name) {
    switch (of.kind) {
    case JINJA_V_STRING: return jinja_find(jinja_string_methods, name);
    case JINJA_V_LIST: return jinja_find(jinja_list_methods, name);
    case JINJA_V_TUPLE: return jinja_find(jinja_tuple_methods, name);
    case JINJA_V_DICT: return jinja_find(jinja_dict_methods, name);
    case JINJA_V_LOOP: return jinja_find(jinja_loop_methods, name);
    default: return NULL;
    }
}

/* ---- Functions ---- */

/* The number of a parameter; below 0: there is none of that name. */
static int find_parameter(const char *parameters, jinja_name name) {
    for (int i = 0; *parameters; i++) {
        const size_t n = strcspn(parameters, " ");
        if (n == name.n_bytes && memcmp(parameters, name.bytes, n) == 0) return i;
        parameters += n + (parameters[n] == ' ');
    }
    return -1;
}

static size_t count_parameters(const char *parameters) {
    size_t count = *parameters != 0;
    for (; *parameters; parameters++) count += *parameters == ' ';
    return count;
}

static ig_status bind(const jinja_run *run, const jinja_function *function, jinja_call *call) {
    const size_t count = count_parameters(function->parameters);
    if (call->count > count)
        return JINJA_FAIL(run, "%s: %zu arguments, it takes %zu at most", function->name,
                          call->count, count);
    for (size_t i = 0; i < call->count; i++) call->bound[i] = call->at[i];
    for (size_t i = 0; i < call->n_named; i++) {
        const int to = find_parameter(function->parameters, call->named[i].name);
        if (to < 0 || (size_t)to < call->count)
            return JINJA_FAIL(run, "%s: argument '%.*s' is not known", function->name,
                              JINJA_SHOW(call->named[i].name));
        call->bound[to] = call->named[i].value;
    }
    return IG_OK;
}

ig_status jinja_call_function(jinja_run *run, const jinja_function *function, jinja_call *call,
                              jinja_value *out) {
    call->what = function->name;
    if (function->parameters) IG_TRY(bind(run, function, call));
    return function->call(run, call, out);
}

ig_status jinja_arg_string(jinja_run *run, const jinja_call *call, size_t i,
                           const jinja_string **out) {
    const jinja_value v = call->bound[i];
    *out = v.kind == JINJA_V_STRING ? v.string : NULL;
    if (*out || v.kind == JINJA_V_MISSING || v.kind == JINJA_V_NONE) return IG_OK;
    return JINJA_FAIL(run, "%s: needs a string, not %s", call->what, jinja_type_name(v));
}

ig_status jinja_arg_integer(jinja_run *run, const jinja_call *call, size_t i, int64_t initial,
                            int64_t *out) {
    const jinja_value v = call->bound[i];
    *out = jinja_is_whole(v) ? v.integer : initial;
    if (jinja_is_whole(v) || v.kind == JINJA_V_MISSING || v.kind == JINJA_V_NONE) return IG_OK;
    return JINJA_FAIL(run, "%s: needs an integer, not %s", call->what, jinja_type_name(v));
}

bool jinja_arg_truth(const jinja_call *call, size_t i, bool initial) {
    return call->bound[i].kind == JINJA_V_MISSING ? initial : jinja_truth(call->bound[i]);
}

/* ---- Macros ---- */

static const jinja_named *find_named(const jinja_call *call, jinja_name name) {
    for (size_t i = 0; i < call->n_named; i++)
        if (jinja_name_same(call->named[i].name, name)) return &call->named[i];
    return NULL;
}

/* Arguments that no parameter has the name of; `caller` is always known. */
static ig_status check_names(const jinja_run *run, const jinja_node *macro,
                             const jinja_call *call) {
    for (size_t i = 0; i < call->n_named; i++) {
        const jinja_name name = call->named[i].name;
        bool known = jinja_name_is(name, "caller");
        for (size_t k = 0; k < macro->n_named && !known; k++)
            known = jinja_name_same(macro->named[k].name, name);
        if (!known)
            return JINJA_FAIL(run, "macro '%.*s': argument '%.*s' is not known",
                              JINJA_SHOW(macro->name), JINJA_SHOW(name));
    }
    return IG_OK;
}

static ig_status set_parameters(jinja_run *run, const jinja_node *macro, const jinja_call *call) {
    if (call->count > macro->n_named)
        return JINJA_FAIL(run, "macro '%.*s': %zu arguments, it takes %zu at most",
                          JINJA_SHOW(macro->name), call->count, macro->n_named);
    IG_TRY(check_names(run, macro, call));
    const jinja_named *caller = find_named(call, (jinja_name){"caller", 6});
    if (caller) IG_TRY(jinja_scope_set(run, caller->name, caller->value));
    for (size_t i = 0; i < macro->n_named; i++) {
        const jinja_named_node *parameter = &macro->named[i];
        const jinja_named *named = find_named(call, parameter->name);
        jinja_value value = jinja_undefined(&parameter->name);
        if (i < call->count)
            value = call->at[i];
        else if (named)
            value = named->value;
        else if (parameter->value)
            IG_TRY(jinja_eval(run, parameter->value, &value));
        IG_TRY(jinja_scope_set(run, parameter->name, value));
    }
    return IG_OK;
}

ig_status jinja_call_macro(jinja_run *run, const jinja_macro *macro, const jinja_call *call,
                           jinja_value *out) {
    jinja_scope *const before = run->scope;
    if (run->calls >= IG_JINJA_DEPTH_MAX)
        return JINJA_FAIL(run, "macro '%.*s': calls more than %d deep",
                          JINJA_SHOW(macro->node->name), IG_JINJA_DEPTH_MAX);
    run->calls++;
    ig_status status = jinja_scope_enter(run, macro->scope);
    if (status == IG_OK) status = set_parameters(run, macro->node, call);
    if (status == IG_OK) status = jinja_capture(run, macro->node->third, out);
    run->scope = before;
    run->calls--;
    return status;
}
