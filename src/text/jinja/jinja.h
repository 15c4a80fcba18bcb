/*
 * jinja.h - chat templates: the part of Jinja that they are written in.
 *
 *     ig_jinja_parse(a, text, n_bytes, &template)
 *     ig_jinja_text prompt = {.allocator = a};
 *     ig_jinja_render(template, &variables, &prompt)
 *     ig_tokenize_spans(t, prompt.spans, prompt.n_spans, flags, &ids)
 *
 * As Hugging Face renders them: trim_blocks, lstrip_blocks, break and continue, and
 * {% generation %} as if it were not there.  Every byte of the result knows whether
 * the template wrote it or the caller: a token's name that came with the variables
 * is text.  A template can reach nothing but its variables, and what it may use of
 * time and memory has limits, so one of anybody's can be rendered.
 *
 *     jinja_lex.c                    bytes to tokens
 *     jinja_parse.c, _expression.c   tokens to a tree: statements, expressions
 *     jinja_exec.c, _eval.c          the tree, run; with _scope.c for names, _call.c for calls
 *     jinja_value.c                  what it computes with, and text that knows its writers
 *     jinja_ops.c, _items.c          operators, and parts of values
 *     jinja_print.c, _format.c       values as text
 *     jinja_filters.c, _tests.c, _methods.c, _functions.c, ...   tables of what has a name
 */
#ifndef IG_TEXT_JINJA_JINJA_H
#define IG_TEXT_JINJA_JINJA_H

#include <jansson.h>

#include "text/tokenizer/tokenizer.h"

enum {
    IG_JINJA_TEMPLATE_MAX = 1 << 20, /* bytes of a template, */
    IG_JINJA_TEXT_MAX = 4 << 20,     /* of what it writes, and of any text in it */
    IG_JINJA_MEMORY_MAX = 128 << 20, /* and all of them together */
    IG_JINJA_STEPS_MAX = 1000000,
    IG_JINJA_DEPTH_MAX = 64, /* blocks, brackets, calls of macros and values in one another */
};

typedef struct ig_jinja ig_jinja;

/* The text is copied.  What is wrong with one that is no template is said with its line. */
IG_MUST_CHECK ig_status ig_jinja_parse(const ig_allocator *a, const char *text, size_t n_bytes,
                                       ig_jinja **out);
void ig_jinja_destroy(ig_jinja *jinja);

typedef struct ig_jinja_variables {
    const json_t *given; /* an object: all text in it is the caller's, but for the known roles */
    ig_string_view bos, eos; /* bos_token and eos_token, the template's; NULL: there is none */
    int64_t now;             /* what strftime_now() tells, in seconds since 1970 */
} ig_jinja_variables;

typedef struct ig_jinja_text {
    const ig_allocator *allocator;
    char *bytes; /* all of it, n_bytes and a 0 */
    size_t n_bytes;
    ig_text_span *spans; /* parts of it: `special` is what the template wrote */
    size_t n_spans;
} ig_jinja_text;

void ig_jinja_text_deinit(ig_jinja_text *text); /* a zeroed one is fine */

/* Writes into a text that is empty.  Any number of threads may render a template. */
IG_MUST_CHECK ig_status ig_jinja_render(const ig_jinja *jinja, const ig_jinja_variables *variables,
                                        ig_jinja_text *out);

#endif
