#include "text/jinja/jinja.h"

#include <string.h>

#include "text/jinja/jinja_run.h"

void ig_jinja_text_deinit(ig_jinja_text *text) {
    if (text->allocator) {
        ig_free(text->allocator, text->spans);
        ig_free(text->allocator, text->bytes);
    }
    *text = (ig_jinja_text){.allocator = text->allocator};
}

static ig_status set_token(jinja_run *run, const char *name, ig_string_view token) {
    jinja_value value;
    if (!token.bytes) return IG_OK;
    IG_TRY(jinja_new_string(run, token.bytes, token.n_bytes, false, &value));
    return jinja_scope_set(run, (jinja_name){name, strlen(name)}, value);
}

static ig_status enter_top(jinja_run *run) {
    IG_TRY(jinja_scope_enter(run, run->scope));
    run->top = run->scope;
    return IG_OK;
}

static ig_status set_variables(jinja_run *run, const ig_jinja_variables *variables) {
    jinja_value given;
    IG_TRY(jinja_scope_enter(run, NULL));
    IG_TRY(set_token(run, "bos_token", variables->bos));
    IG_TRY(set_token(run, "eos_token", variables->eos));
    if (!json_is_object(variables->given)) return enter_top(run);
    IG_TRY(jinja_from_json(run, variables->given, 0, &given));
    for (size_t i = 0; i < given.dict->count; i++) {
        const jinja_string *name = given.dict->at[i].key.string;
        IG_TRY(jinja_scope_set(run, (jinja_name){name->bytes, name->n_bytes},
                               given.dict->at[i].value));
    }
    return enter_top(run);
}

/* Runs of bytes of one writer, as spans; `spans` may be NULL, to count. */
static size_t find_spans(const jinja_builder *b, const char *bytes, ig_text_span *spans) {
    size_t count = 0;
    for (size_t at = 0, end; at < b->n_bytes; at = end) {
        const char mark = b->marks[at];
        const char *other = memchr(b->marks + at, !mark, b->n_bytes - at);
        end = other ? (size_t)(other - b->marks) : b->n_bytes;
        if (spans) spans[count] = (ig_text_span){bytes + at, end - at, !mark};
        count++;
    }
    return count;
}

static ig_status hand_over(const jinja_run *run, const jinja_builder *b, ig_jinja_text *out) {
    const size_t n_spans = find_spans(b, NULL, NULL);
    out->bytes = ig_alloc(out->allocator, b->n_bytes + 1, 1);
    out->spans = ig_alloc(out->allocator, n_spans, sizeof *out->spans);
    if (!out->bytes || !out->spans) {
        ig_jinja_text_deinit(out);
        return JINJA_FAIL_AT(IG_ERR_MEMORY, run->line, "no memory for the text");
    }
    if (b->n_bytes > 0) memcpy(out->bytes, b->bytes, b->n_bytes);
    out->n_bytes = b->n_bytes;
    out->n_spans = find_spans(b, out->bytes, out->spans);
    return IG_OK;
}

ig_status ig_jinja_render(const ig_jinja *jinja, const ig_jinja_variables *variables,
                          ig_jinja_text *out) {
    jinja_builder text = {0};
    jinja_run run = {
        .arena = {.allocator = out->allocator}, .variables = variables, .line = 1, .out = &text};
    ig_status status = set_variables(&run, variables);
    if (status == IG_OK) status = jinja_exec(&run, jinja->body);
    if (status == IG_OK) status = hand_over(&run, &text, out);
    jinja_arena_deinit(&run.arena);
    return status;
}
