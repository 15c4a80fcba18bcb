/*
 * Names and their values: a scope for the template, one for each turn of a loop and
 * one for each call of a macro, each inside of another.
 */
#include <string.h>

#include "text/jinja/jinja_run.h"

struct jinja_scope {
    jinja_scope *outer;
    size_t macros; /* that there were when it was entered */
    jinja_named *at;
    size_t count, room;
};

ig_status jinja_scope_enter(jinja_run *run, jinja_scope *outer) {
    jinja_scope *scope = jinja_take(&run->arena, 1, sizeof *scope);
    if (!scope) return jinja_no_memory(&run->arena, run->line);
    scope->outer = outer;
    scope->macros = run->macros;
    run->scope = scope;
    return IG_OK;
}

ig_status jinja_scope_next(jinja_run *run, jinja_scope *outer, jinja_scope **last) {
    if (*last && (*last)->macros == run->macros) {
        (*last)->count = 0;
        run->scope = *last;
        return IG_OK;
    }
    IG_TRY(jinja_scope_enter(run, outer));
    *last = run->scope;
    return IG_OK;
}

static jinja_named *find(const jinja_scope *scope, jinja_name name) {
    for (size_t i = 0; i < scope->count; i++)
        if (jinja_name_same(scope->at[i].name, name)) return &scope->at[i];
    return NULL;
}

ig_status jinja_scope_set(jinja_run *run, jinja_name name, jinja_value value) {
    jinja_scope *scope = run->scope;
    IG_TRY(jinja_work(run, 8 * scope->count));
    jinja_named *held = find(scope, name);
    if (!held && scope->count == scope->room) {
        const size_t room = scope->room ? 2 * scope->room : 4;
        jinja_named *grown = jinja_take(&run->arena, room, sizeof *grown);
        if (!grown) return jinja_no_memory(&run->arena, run->line);
        if (scope->count) memcpy(grown, scope->at, scope->count * sizeof *grown);
        scope->at = grown;
        scope->room = room;
    }
    if (!held) held = &scope->at[scope->count++];
    *held = (jinja_named){name, value};
    return IG_OK;
}

ig_status jinja_scope_get(jinja_run *run, const jinja_name *name, jinja_value *out) {
    for (const jinja_scope *scope = run->scope; scope; scope = scope->outer) {
        IG_TRY(jinja_work(run, 8 * scope->count));
        const jinja_named *held = find(scope, *name);
        if (held) {
            *out = held->value;
            return IG_OK;
        }
    }
    *out = jinja_undefined(name);
    const jinja_function *function = jinja_find(jinja_globals, *name);
    if (!function) return IG_OK;
    jinja_bound *bound = jinja_take(&run->arena, 1, sizeof *bound);
    if (!bound) return jinja_no_memory(&run->arena, run->line);
    bound->function = function;
    *out = (jinja_value){.kind = JINJA_V_FUNCTION, .bound = bound};
    return IG_OK;
}
