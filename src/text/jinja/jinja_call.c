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
    if (!found) found = jinja_find(jinja_list_filters, name);
    return found ? found : jinja_find(jinja_number_filters, name);
}

const jinja_function *jinja_find_method(jinja_value of, jinja_name name) {
    switch (of.kind) {
    case JINJA_V_STRING: return jinja_find(jinja_string_methods, name);
    case JINJA_V_LIST: return jinja_find(jinja_list_methods, name);
    case JINJA_V_TUPLE: return jinja_find(jinja_tuple_methods, name);
    case JINJA_V_DICT: return jinja_find(jinja_dict_methods, name);
    case JINJA_V_LOOP: return jinja_find(jinja_loop_methods, name);
    case JINJA_V_CYCLER: return jinja_find(jinja_cycler_methods, name);
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

static bool is_parameter(const jinja_node *macro, jinja_name name) {
    for (size_t i = 0; i < macro->n_named; i++)
        if (jinja_name_same(macro->named[i].name, name)) return true;
    return false;
}

/* Sets varargs, kwargs and caller, if the macro names them; anything else is refused. */
static ig_status set_rest(jinja_run *run, const jinja_node *macro, const jinja_call *call) {
    const jinja_name caller = {"caller", 6};
    jinja_value varargs, kwargs, key, by = jinja_undefined(NULL);
    IG_TRY(jinja_new_list(run, JINJA_V_TUPLE, &varargs));
    IG_TRY(jinja_new_dict(run, JINJA_V_DICT, &kwargs));
    for (size_t i = macro->n_named; i < call->count; i++)
        IG_TRY(jinja_append(run, varargs.list, call->at[i]));
    for (size_t i = 0; i < call->n_named; i++) {
        const jinja_named *named = &call->named[i];
        if (is_parameter(macro, named->name)) continue;
        if (jinja_name_same(named->name, caller) && macro->sign & JINJA_TAKES_CALLER) {
            by = named->value;
            continue;
        }
        if (!(macro->sign & JINJA_TAKES_KWARGS))
            return JINJA_FAIL(run, "macro '%.*s': argument '%.*s' is not known",
                              JINJA_SHOW(macro->name), JINJA_SHOW(named->name));
        IG_TRY(jinja_new_string(run, named->name.bytes, named->name.n_bytes, false, &key));
        IG_TRY(jinja_set(run, kwargs.dict, key, named->value));
    }
    if (varargs.list->count > 0 && !(macro->sign & JINJA_TAKES_VARARGS))
        return JINJA_FAIL(run, "macro '%.*s': %zu arguments, it takes %zu at most",
                          JINJA_SHOW(macro->name), call->count, macro->n_named);
    if (macro->sign & JINJA_TAKES_VARARGS)
        IG_TRY(jinja_scope_set(run, (jinja_name){"varargs", 7}, varargs));
    if (macro->sign & JINJA_TAKES_KWARGS)
        IG_TRY(jinja_scope_set(run, (jinja_name){"kwargs", 6}, kwargs));
    return macro->sign & JINJA_TAKES_CALLER ? jinja_scope_set(run, caller, by) : IG_OK;
}

static ig_status set_parameters(jinja_run *run, const jinja_node *macro, const jinja_call *call) {
    IG_TRY(set_rest(run, macro, call));
    for (size_t i = 0; i < macro->n_named; i++) {
        const jinja_named_node *parameter = &macro->named[i];
        const jinja_named *named = find_named(call, parameter->name);
        jinja_value value = jinja_undefined(&parameter->name);
        if (i < call->count && named)
            return JINJA_FAIL(run, "macro '%.*s': argument '%.*s' is given twice",
                              JINJA_SHOW(macro->name), JINJA_SHOW(parameter->name));
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
