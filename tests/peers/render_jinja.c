/*
 * render_jinja - renders templates for tests/peers/check_jinja.py.
 *
 * Each line of stdin is {"template", "variables"}, each of stdout what became of it:
 * {"text"} or {"error"}.  bos_token and eos_token are the template's, and unless "now"
 * says otherwise it is 2026-07-04 12:30 in the time zone that the environment names.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja/jinja.h"

static ig_string_view text_of(const json_t *variables, const char *name) {
    const json_t *text = json_object_get(variables, name);
    return (ig_string_view){json_string_value(text), json_string_length(text)};
}

static json_t *render(const json_t *job) {
    const json_t *template = json_object_get(job, "template");
    const json_t *given = json_object_get(job, "variables");
    const json_t *now = json_object_get(job, "now");
    const ig_jinja_variables variables = {.given = given,
                                          .bos = text_of(given, "bos_token"),
                                          .eos = text_of(given, "eos_token"),
                                          .now = now ? json_integer_value(now) : 1783168200};
    ig_jinja_text text = {.allocator = &ig_heap};
    ig_jinja *jinja = NULL;
    ig_status status =
        ig_jinja_parse(&ig_heap, json_string_value(template), json_string_length(template), &jinja);
    if (status == IG_OK) status = ig_jinja_render(jinja, &variables, &text);
    json_t *result = status == IG_OK ? json_pack("{s:s%}", "text", text.bytes, text.n_bytes)
                                     : json_pack("{s:s}", "error", ig_error_text());
    ig_jinja_text_deinit(&text);
    ig_jinja_destroy(jinja);
    return result ? result : json_pack("{s:s}", "error", "the text is no UTF-8");
}

int main(void) {
    char *line = NULL;
    size_t room = 0;
    for (ssize_t n; (n = getline(&line, &room, stdin)) > 0;) {
        json_t *job = json_loadb(line, (size_t)n, JSON_ALLOW_NUL, NULL), *result = render(job);
        json_dumpf(result, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(result);
        json_decref(job);
    }
    free(line);
    return 0;
}
