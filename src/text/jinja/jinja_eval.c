/* Expressions of a template's tree, computed. */
#include <string.h>

#include "text/jinja/jinja_run.h"

static ig_status eval_items(jinja_run *run, const jinja_node *node, jinja_value *out) {
    IG_TRY(jinja_new_list(run, node->kind == JINJA_N_TUPLE ? JINJA_V_TUPLE : JINJA_V_LIST, out));
    for (size_t i = 0; i < node->n_items; i++) {
        jinja_value item;
        IG_TRY(jinja_eval(run, node->items[i], &item));
        IG_TRY(jinja_append(run, out->list, item));
    }
    return IG_OK;
}

static ig_status eval_dict(jinja_run *run, const jinja_node *node, jinja_value *out) {
    IG_TRY(jinja_new_dict(run, JINJA_V_DICT, out));
    for (size_t i = 0; i < node->n_items; i += 2) {
        jinja_value key, value;
        IG_TRY(jinja_eval(run, node->items[i], &key));
        IG_TRY(jinja_eval(run, node->items[i + 1], &value));
        IG_TRY(jinja_set(run, out->dict, key, value));
    }
    return IG_OK;
}

static ig_status eval_negate(jinja_run *run, const jinja_node *node, jinja_value *out) {
    jinja_value v;
    IG_TRY(jinja_eval(run, node->left, &v));
    if (v.kind == JINJA_V_REAL) {
        *out = jinja_real(node->sign == '-' ? -v.real : v.real);
        return IG_OK;
    }
    if (!jinja_is_whole(v) && v.kind != JINJA_V_UNDEFINED)
        return JINJA_FAIL(run, "%s has no sign", jinja_type_name(v));
    return jinja_binary(run, node->sign, jinja_integer(0), v, out);
}

static ig_status eval_binary(jinja_run *run, const jinja_node *node, jinja_value *out) {
    jinja_value left, right;
    IG_TRY(jinja_eval(run, node->left, &left));
    IG_TRY(jinja_eval(run, node->right, &right));
    run->line = node->line;
    return jinja_binary(run, node->sign, left, right, out);
}

/* a < b < c: each with the next, as long as they hold */
static ig_status eval_compare(jinja_run *run, const jinja_node *node, jinja_value *out) {
    jinja_value left, right;
    bool holds = true;
    IG_TRY(jinja_eval(run, node->left, &left));
    for (size_t i = 0; i < node->n_items && holds; i++) {
        IG_TRY(jinja_eval(run, node->items[i]->left, &right));
        run->line = node->line;
        IG_TRY(jinja_compare(run, node->items[i]->sign, left, right, &holds));
        left = right;
    }
    *out = jinja_bool(holds);
    return IG_OK;
}

static ig_status eval_concat(jinja_run *run, const jinja_node *node, jinja_value *out) {
    jinja_value *parts = jinja_take(&run->arena, node->n_items, sizeof *parts);
    if (!parts) return jinja_no_memory(&run->arena, run->line);
    for (size_t i = 0; i < node->n_items; i++) IG_TRY(jinja_eval(run, node->items[i], &parts[i]));
    bool is_markup = false;
    for (size_t i = 0; i < node->n_items && run->escapes && !is_markup; i++)
        is_markup = jinja_is_markup(parts[i]);
    for (size_t i = 0; i < node->n_items && is_markup; i++)
        IG_TRY(jinja_escape(run, parts[i], &parts[i]));
    IG_TRY(jinja_join(run, parts, node->n_items, out));
    return is_markup ? jinja_mark_up(run, out) : IG_OK;
}

static ig_status eval_either(jinja_run *run, const jinja_node *node, jinja_value *out) {
    IG_TRY(jinja_eval(run, node->left, out));
    if (jinja_truth(*out) == (node->kind == JINJA_N_OR)) return IG_OK;
    return jinja_eval(run, node->right, out);
}

static ig_status eval_choice(jinja_run *run, const jinja_node *node, jinja_value *out) {
    jinja_value condition;
    IG_TRY(jinja_eval(run, node->right, &condition));
    if (jinja_truth(condition)) return jinja_eval(run, node->left, out);
    *out = jinja_undefined(NULL);
    return node->third ? jinja_eval(run, node->third, out) : IG_OK;
}

static ig_status eval_index(jinja_run *run, const jinja_node *node, jinja_value *out) {
    jinja_value of, which;
    IG_TRY(jinja_eval(run, node->left, &of));
    IG_TRY(jinja_eval(run, node->right, &which));
    run->line = node->line;
    return jinja_index(run, of, which, out);
}

static ig_status eval_slice(jinja_run *run, const jinja_node *node, jinja_value *out) {
    jinja_value of, bounds[3] = {{0}, {0}, {0}};
    IG_TRY(jinja_eval(run, node->left, &of));
    for (int i = 0; i < 3; i++)
        if (node->items[i]) IG_TRY(jinja_eval(run, node->items[i], &bounds[i]));
    run->line = node->line;
    return jinja_slice(run, of, bounds, out);
}

/* ---- Calls ---- */

static ig_status eval_arguments(jinja_run *run, const jinja_node *node, jinja_call *call) {
    call->at = jinja_take(&run->arena, node->n_items, sizeof *call->at);
    /* one more for a caller */
    call->named = jinja_take(&run->arena, node->n_named + 1, sizeof *call->named);
    if (!call->at || !call->named) return jinja_no_memory(&run->arena, run->line);
    for (; call->count < node->n_items; call->count++)
        IG_TRY(jinja_eval(run, node->items[call->count], &call->at[call->count]));
    for (; call->n_named < node->n_named; call->n_named++) {
        const jinja_named_node *from = &node->named[call->n_named];
        call->named[call->n_named].name = from->name;
        IG_TRY(jinja_eval(run, from->value, &call->named[call->n_named].value));
    }
    run->line = node->line;
    return IG_OK;
}

/* Methods that change lists and dicts: the sandbox has none of them. */
static bool is_mutation(const jinja_node *function) {
    static const char *const names[] = {"append", "clear",      "extend", "insert",
                                        "pop",    "popitem",    "remove", "reverse",
                                        "sort",   "setdefault", "update"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (function->kind == JINJA_N_ATTRIBUTE && jinja_name_is(function->name, names[i]))
            return true;
    return false;
}

static ig_status no_function(const jinja_run *run, const jinja_node *node, jinja_value v) {
    if (v.kind == JINJA_V_UNDEFINED && is_mutation(node->left))
        return JINJA_FAIL(run, "'%.*s' is not allowed: templates cannot change values",
                          JINJA_SHOW(node->left->name));
    if (v.kind == JINJA_V_UNDEFINED) return jinja_is_undefined(run, v);
    return JINJA_FAIL(run, "%s cannot be called", jinja_type_name(v));
}

/* Nothing the first time, then the text. */
static ig_status call_joiner(jinja_run *run, jinja_series *joiner, jinja_value *out) {
    const bool first = joiner->used == 0;
    joiner->used = 1;
    *out = joiner->items->at[0];
    return first ? jinja_new_string(run, "", 0, false, out) : IG_OK;
}

/* What methods of markup give is markup. */
static ig_status mark_up_all(jinja_run *run, jinja_value *v) {
    if (v->kind == JINJA_V_STRING) return jinja_mark_up(run, v);
    for (size_t i = 0; jinja_is_list(*v) && i < v->list->count; i++)
        if (v->list->at[i].kind == JINJA_V_STRING) IG_TRY(jinja_mark_up(run, &v->list->at[i]));
    return IG_OK;
}

ig_status jinja_eval_call(jinja_run *run, const jinja_node *node, jinja_value caller,
                          jinja_value *out) {
    jinja_value function;
    jinja_call call = {0};
    IG_TRY(jinja_eval(run, node->left, &function));
    IG_TRY(eval_arguments(run, node, &call));
    if (caller.kind == JINJA_V_MACRO)
        call.named[call.n_named++] = (jinja_named){{"caller", 6}, caller};
    if (function.kind == JINJA_V_MACRO) return jinja_call_macro(run, function.macro, &call, out);
    if (function.kind == JINJA_V_LOOP) return jinja_call_loop(run, function.loop, &call, out);
    if (function.kind == JINJA_V_JOINER) return call_joiner(run, function.series, out);
    if (function.kind != JINJA_V_FUNCTION) return no_function(run, node, function);
    call.self = function.bound->self;
    IG_TRY(jinja_call_function(run, function.bound->function, &call, out));
    return jinja_is_markup(call.self) ? mark_up_all(run, out) : IG_OK;
}

static ig_status eval_call(jinja_run *run, const jinja_node *node, jinja_value *out) {
    return jinja_eval_call(run, node, (jinja_value){0}, out);
}

/* Calls a filter or test on a value that is there already. */
static ig_status apply(jinja_run *run, const jinja_node *node, jinja_value of, jinja_value *out) {
    const bool is_test = node->kind == JINJA_N_TEST;
    const jinja_function *function =
        is_test ? jinja_find(jinja_tests, node->name) : jinja_find_filter(node->name);
    if (!function)
        return JINJA_FAIL_AT(IG_ERR_FORMAT, node->line, "%s '%.*s' is not known",
                             is_test ? "test" : "filter", JINJA_SHOW(node->name));
    jinja_call call = {.self = of};
    IG_TRY(eval_arguments(run, node, &call));
    return jinja_call_function(run, function, &call, out);
}

static ig_status eval_apply(jinja_run *run, const jinja_node *node, jinja_value *out) {
    jinja_value of;
    IG_TRY(jinja_eval(run, node->left, &of));
    return apply(run, node, of, out);
}

ig_status jinja_apply_filters(jinja_run *run, const jinja_node *filters, jinja_value of,
                              jinja_value *out) {
    if (filters->left) IG_TRY(jinja_apply_filters(run, filters->left, of, &of));
    return apply(run, filters, of, out);
}

/* ---- All kinds ---- */

static ig_status eval_const(jinja_run *run, const jinja_node *node, jinja_value *out) {
    (void)run;
    *out = node->value;
    return IG_OK;
}

static ig_status eval_name(jinja_run *run, const jinja_node *node, jinja_value *out) {
    return jinja_scope_get(run, &node->name, out);
}

static ig_status eval_not(jinja_run *run, const jinja_node *node, jinja_value *out) {
    jinja_value v;
    IG_TRY(jinja_eval(run, node->left, &v));
    *out = jinja_bool(!jinja_truth(v));
    return IG_OK;
}

static ig_status eval_attribute(jinja_run *run, const jinja_node *node, jinja_value *out) {
    jinja_value of;
    IG_TRY(jinja_eval(run, node->left, &of));
    run->line = node->line;
    return jinja_attribute(run, of, &node->name, out);
}

typedef ig_status evaluation(jinja_run *run, const jinja_node *node, jinja_value *out);

static evaluation *const evaluations[] = {
    [JINJA_N_CONST] = eval_const,     [JINJA_N_NAME] = eval_name,
    [JINJA_N_LIST] = eval_items,      [JINJA_N_TUPLE] = eval_items,
    [JINJA_N_DICT] = eval_dict,       [JINJA_N_NEGATE] = eval_negate,
    [JINJA_N_NOT] = eval_not,         [JINJA_N_BINARY] = eval_binary,
    [JINJA_N_AND] = eval_either,      [JINJA_N_OR] = eval_either,
    [JINJA_N_COMPARE] = eval_compare, [JINJA_N_CONCAT] = eval_concat,
    [JINJA_N_CHOICE] = eval_choice,   [JINJA_N_ATTRIBUTE] = eval_attribute,
    [JINJA_N_INDEX] = eval_index,     [JINJA_N_SLICE] = eval_slice,
    [JINJA_N_CALL] = eval_call,       [JINJA_N_FILTER] = eval_apply,
    [JINJA_N_TEST] = eval_apply,
};

ig_status jinja_begin(jinja_run *run, const jinja_node *node) {
    enum { NESTING_MAX = 2048 };
    run->line = node->line;
    IG_TRY(jinja_work(run, JINJA_STEP));
    if (run->nesting >= NESTING_MAX)
        return JINJA_FAIL(run, "blocks, expressions and calls more than %d deep", NESTING_MAX);
    run->nesting++;
    return IG_OK;
}

ig_status jinja_eval(jinja_run *run, const jinja_node *node, jinja_value *out) {
    IG_TRY(jinja_begin(run, node));
    jinja_value value = {0}; /* `out` may be part of what is computed from */
    const ig_status status = evaluations[node->kind](run, node, &value);
    run->nesting--;
    if (status == IG_OK) *out = value;
    return status;
}
