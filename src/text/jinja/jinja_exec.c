/* Statements of a template's tree, run one after the other; what they write goes to run->out. */
#include <string.h>

#include "text/jinja/jinja_run.h"

ig_status jinja_capture(jinja_run *run, const jinja_node *block, jinja_value *out) {
    jinja_builder *const before = run->out, b = {0};
    jinja_builder text = b;
    run->out = &text;
    const ig_status status = jinja_exec(run, block);
    run->out = before;
    if (status == IG_OK) IG_TRY(jinja_finish(run, &text, out));
    return status == IG_OK && run->escapes ? jinja_mark_up(run, out) : status;
}

static ig_status assign(jinja_run *run, const jinja_node *target, jinja_value value);

static ig_status assign_all(jinja_run *run, const jinja_node *tuple, jinja_value value) {
    jinja_list *items;
    IG_TRY(jinja_iterate(run, value, &items));
    if (items->count != tuple->n_items)
        return JINJA_FAIL(run, "%zu values for %zu names", items->count, tuple->n_items);
    for (size_t i = 0; i < tuple->n_items; i++) IG_TRY(assign(run, tuple->items[i], items->at[i]));
    return IG_OK;
}

static ig_status assign(jinja_run *run, const jinja_node *target, jinja_value value) {
    if (target->kind == JINJA_N_TUPLE) return assign_all(run, target, value);
    if (target->kind == JINJA_N_NAME) return jinja_scope_set(run, target->name, value);
    jinja_value of, key;
    IG_TRY(jinja_eval(run, target->left, &of));
    if (of.kind != JINJA_V_NAMESPACE)
        return JINJA_FAIL(run, "'%.*s' is set in %s: only a namespace can be written to",
                          JINJA_SHOW(target->name), jinja_type_name(of));
    IG_TRY(jinja_new_string(run, target->name.bytes, target->name.n_bytes, false, &key));
    return jinja_set(run, of.dict, key, value);
}

/* ---- Statements ---- */

static ig_status exec_block(jinja_run *run, const jinja_node *node) {
    for (size_t i = 0; i < node->n_items && run->flow == JINJA_GOES_ON; i++)
        IG_TRY(jinja_exec(run, node->items[i]));
    return IG_OK;
}

static ig_status exec_write(jinja_run *run, const jinja_node *node) {
    return jinja_add(run, run->out, node->name.bytes, node->name.n_bytes, false);
}

static ig_status exec_print(jinja_run *run, const jinja_node *node) {
    jinja_value value;
    IG_TRY(jinja_eval(run, node->left, &value));
    if (run->escapes) IG_TRY(jinja_escape(run, value, &value));
    return jinja_add_value(run, run->out, value);
}

static ig_status exec_if(jinja_run *run, const jinja_node *node) {
    for (size_t i = 0; i + 1 < node->n_items; i += 2) {
        jinja_value condition;
        IG_TRY(jinja_eval(run, node->items[i], &condition));
        if (jinja_truth(condition)) return jinja_exec(run, node->items[i + 1]);
    }
    return node->n_items % 2 ? jinja_exec(run, node->items[node->n_items - 1]) : IG_OK;
}

static ig_status exec_set(jinja_run *run, const jinja_node *node) {
    jinja_value value;
    IG_TRY(jinja_eval(run, node->right, &value));
    return assign(run, node->left, value);
}

static ig_status exec_set_block(jinja_run *run, const jinja_node *node) {
    jinja_value value;
    IG_TRY(jinja_capture(run, node->third, &value));
    if (node->right) IG_TRY(jinja_apply_filters(run, node->right, value, &value));
    return assign(run, node->left, value);
}

static ig_status exec_filter_block(jinja_run *run, const jinja_node *node) {
    jinja_value value;
    IG_TRY(jinja_capture(run, node->third, &value));
    IG_TRY(jinja_apply_filters(run, node->right, value, &value));
    return jinja_add_value(run, run->out, value);
}

static ig_status new_macro(jinja_run *run, const jinja_node *node, jinja_value *out) {
    jinja_macro *macro = jinja_take(&run->arena, 1, sizeof *macro);
    if (!macro) return jinja_no_memory(&run->arena, run->line);
    *macro = (jinja_macro){node, run->scope};
    run->macros++;
    *out = (jinja_value){.kind = JINJA_V_MACRO, .macro = macro};
    return IG_OK;
}

static ig_status exec_macro(jinja_run *run, const jinja_node *node) {
    jinja_value macro;
    IG_TRY(new_macro(run, node, &macro));
    return jinja_scope_set(run, node->name, macro);
}

static ig_status exec_call_block(jinja_run *run, const jinja_node *node) {
    jinja_value caller, value;
    IG_TRY(new_macro(run, node, &caller));
    IG_TRY(jinja_eval_call(run, node->left, caller, &value));
    return jinja_add_value(run, run->out, value);
}

static ig_status exec_jump(jinja_run *run, const jinja_node *node) {
    run->flow = node->kind == JINJA_N_BREAK ? JINJA_BREAKS : JINJA_CONTINUES;
    return IG_OK;
}

/* ---- Loops ---- */

/* Those of the items for which the loop's `if` holds. */
static ig_status choose(jinja_run *run, const jinja_node *node, jinja_list *items) {
    jinja_scope *const outer = run->scope, *inner = NULL;
    size_t kept = 0;
    for (size_t i = 0; i < items->count; i++) {
        jinja_value condition;
        IG_TRY(jinja_scope_next(run, outer, &inner));
        IG_TRY(assign(run, node->items[0], items->at[i]));
        IG_TRY(jinja_eval(run, node->right, &condition));
        if (jinja_truth(condition)) items->at[kept++] = items->at[i];
    }
    items->count = kept;
    run->scope = outer;
    return IG_OK;
}

static ig_status turn(jinja_run *run, const jinja_node *node, jinja_value loop) {
    IG_TRY(jinja_scope_set(run, (jinja_name){"loop", 4}, loop));
    IG_TRY(assign(run, node->items[0], loop.loop->items->at[loop.loop->at]));
    return jinja_exec(run, node->items[1]);
}

/* Runs a loop in the scope around it, for some items. */
static ig_status run_loop(jinja_run *run, const jinja_node *node, jinja_value of, int depth) {
    jinja_scope *const outer = run->scope, *inner = NULL;
    jinja_list *items;
    IG_TRY(jinja_iterate(run, of, &items));
    if (node->right) IG_TRY(choose(run, node, items));
    if (items->count == 0 && node->third) {
        IG_TRY(jinja_scope_enter(run, outer));
        IG_TRY(jinja_exec(run, node->third));
    }
    jinja_loop *loop = jinja_take(&run->arena, 1, sizeof *loop);
    if (!loop) return jinja_no_memory(&run->arena, run->line);
    *loop = (jinja_loop){.node = node, .scope = outer, .items = items, .depth = depth};
    if (node->sign) run->macros++; /* the loop keeps the scope, to be called */
    for (; loop->at < items->count && run->flow != JINJA_BREAKS; loop->at++) {
        IG_TRY(jinja_scope_next(run, outer, &inner));
        IG_TRY(turn(run, node, (jinja_value){.kind = JINJA_V_LOOP, .loop = loop}));
        if (run->flow == JINJA_CONTINUES) run->flow = JINJA_GOES_ON;
    }
    if (items->count > 0) run->flow = JINJA_GOES_ON;
    run->scope = outer;
    return IG_OK;
}

static ig_status exec_for(jinja_run *run, const jinja_node *node) {
    jinja_value of;
    IG_TRY(jinja_eval(run, node->left, &of));
    return run_loop(run, node, of, 0);
}

ig_status jinja_call_loop(jinja_run *run, const jinja_loop *loop, const jinja_call *call,
                          jinja_value *out) {
    jinja_scope *const before = run->scope;
    jinja_builder *const out_before = run->out;
    jinja_builder text = {0};
    if (!loop->node->sign) return JINJA_FAIL(run, "a loop can be called only if it is 'recursive'");
    if (call->count != 1 || call->n_named > 0)
        return JINJA_FAIL(run, "loop: takes what to go through");
    if (run->calls >= IG_JINJA_DEPTH_MAX)
        return JINJA_FAIL(run, "loop: calls more than %d deep", IG_JINJA_DEPTH_MAX);
    run->calls++;
    run->scope = loop->scope;
    run->out = &text;
    const ig_status status = run_loop(run, loop->node, call->at[0], loop->depth + 1);
    run->out = out_before;
    run->scope = before;
    run->calls--;
    return status == IG_OK ? jinja_finish(run, &text, out) : status;
}

/* ---- Scopes ---- */

static ig_status exec_with(jinja_run *run, const jinja_node *node) {
    jinja_scope *const outer = run->scope;
    const size_t count = node->n_items / 2;
    jinja_value *values = jinja_take(&run->arena, count, sizeof *values);
    if (!values) return jinja_no_memory(&run->arena, run->line);
    for (size_t i = 0; i < count; i++) /* all of them see what is outside */
        IG_TRY(jinja_eval(run, node->items[2 * i + 1], &values[i]));
    IG_TRY(jinja_scope_enter(run, outer));
    for (size_t i = 0; i < count; i++) IG_TRY(assign(run, node->items[2 * i], values[i]));
    IG_TRY(jinja_exec(run, node->third));
    run->scope = outer;
    return IG_OK;
}

/* {% block %} sees what the template itself has set and, if it is scoped, what is around it. */
static ig_status exec_scope(jinja_run *run, const jinja_node *node) {
    jinja_scope *const outer = run->scope;
    IG_TRY(jinja_scope_enter(run, node->sign ? outer : run->top));
    IG_TRY(jinja_exec(run, node->third));
    run->scope = outer;
    return IG_OK;
}

static ig_status exec_autoescape(jinja_run *run, const jinja_node *node) {
    const bool before = run->escapes;
    jinja_value whether;
    IG_TRY(jinja_eval(run, node->left, &whether));
    run->escapes = jinja_truth(whether);
    IG_TRY(jinja_exec(run, node->third));
    run->escapes = before;
    return IG_OK;
}

/* ---- All kinds ---- */

typedef ig_status execution(jinja_run *run, const jinja_node *node);

static execution *const executions[] = {
    [JINJA_N_BLOCK] = exec_block,
    [JINJA_N_WRITE] = exec_write,
    [JINJA_N_PRINT] = exec_print,
    [JINJA_N_IF] = exec_if,
    [JINJA_N_FOR] = exec_for,
    [JINJA_N_WITH] = exec_with,
    [JINJA_N_SCOPE] = exec_scope,
    [JINJA_N_AUTOESCAPE] = exec_autoescape,
    [JINJA_N_SET] = exec_set,
    [JINJA_N_SET_BLOCK] = exec_set_block,
    [JINJA_N_FILTER_BLOCK] = exec_filter_block,
    [JINJA_N_MACRO] = exec_macro,
    [JINJA_N_CALL_BLOCK] = exec_call_block,
    [JINJA_N_BREAK] = exec_jump,
    [JINJA_N_CONTINUE] = exec_jump,
};

ig_status jinja_exec(jinja_run *run, const jinja_node *node) {
    IG_TRY(jinja_begin(run, node));
    const ig_status status = executions[node->kind](run, node);
    run->nesting--;
    return status;
}
