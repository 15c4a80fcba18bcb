#include "text/jinja/jinja_parse.h"

#include <string.h>

#include "text/jinja/jinja.h"

/* ---- Tokens ---- */

bool jinja_at_sign(const jinja_parser *p, int sign) {
    return p->at->kind == JINJA_SIGN && p->at->sign == sign;
}

bool jinja_at_name(const jinja_parser *p, const char *name) {
    return p->at->kind == JINJA_NAME && p->at->n_bytes == strlen(name) &&
           memcmp(p->at->bytes, name, p->at->n_bytes) == 0;
}

bool jinja_skip_sign(jinja_parser *p, int sign) {
    const bool is = jinja_at_sign(p, sign);
    p->at += is;
    return is;
}

bool jinja_skip_name(jinja_parser *p, const char *name) {
    const bool is = jinja_at_name(p, name);
    p->at += is;
    return is;
}

ig_status jinja_unexpected(const jinja_parser *p) {
    static const char *const names[] = {[JINJA_END] = "the end of the template",
                                        [JINJA_TEXT] = "text",
                                        [JINJA_BLOCK] = "{%",
                                        [JINJA_BLOCK_END] = "%}",
                                        [JINJA_PRINT] = "{{",
                                        [JINJA_PRINT_END] = "}}",
                                        [JINJA_STRING] = "a string",
                                        [JINJA_INTEGER] = "a number",
                                        [JINJA_REAL] = "a number"};
    const jinja_token *t = p->at;
    if (t->kind == JINJA_NAME)
        return JINJA_FAIL_AT(IG_ERR_FORMAT, t->line, "'%.*s' stands where it cannot",
                             (int)(t->n_bytes < 64 ? t->n_bytes : 64), t->bytes);
    if (t->kind == JINJA_SIGN)
        return JINJA_FAIL_AT(IG_ERR_FORMAT, t->line, "'%c%.1s' stands where it cannot",
                             t->sign & 255, (const char[]){(char)(t->sign >> 8), 0});
    return JINJA_FAIL_AT(IG_ERR_FORMAT, t->line, "%s stands where it cannot", names[t->kind]);
}

ig_status jinja_expect_sign(jinja_parser *p, int sign) {
    return jinja_skip_sign(p, sign) ? IG_OK : jinja_unexpected(p);
}

ig_status jinja_expect_name(jinja_parser *p, jinja_name *out) {
    if (p->at->kind != JINJA_NAME) return jinja_unexpected(p);
    *out = (jinja_name){p->at->bytes, p->at->n_bytes};
    p->at++;
    return IG_OK;
}

ig_status jinja_enter(jinja_parser *p) {
    if (++p->depth <= IG_JINJA_DEPTH_MAX) return IG_OK;
    return JINJA_FAIL_AT(IG_ERR_FORMAT, p->at->line, "blocks and brackets more than %d deep",
                         IG_JINJA_DEPTH_MAX);
}

/* ---- Nodes ---- */

ig_status jinja_new(jinja_parser *p, jinja_kind kind, jinja_node **out) {
    jinja_node *node = jinja_take(p->arena, 1, sizeof *node);
    if (!node) return jinja_no_memory(p->arena, p->at->line);
    node->kind = kind;
    node->line = p->at->line;
    *out = node;
    return IG_OK;
}

ig_status jinja_push(jinja_parser *p, jinja_node_list *list, jinja_node *node) {
    if (list->count == list->room) {
        const size_t room = list->room ? 2 * list->room : 4;
        jinja_node **grown = jinja_take(p->arena, room, sizeof *grown);
        if (!grown) return jinja_no_memory(p->arena, p->at->line);
        if (list->count) memcpy(grown, list->at, list->count * sizeof *grown);
        list->at = grown;
        list->room = room;
    }
    list->at[list->count++] = node;
    return IG_OK;
}

/* ---- Statements ---- */

static ig_status expect_block_end(jinja_parser *p) {
    if (p->at->kind != JINJA_BLOCK_END) return jinja_unexpected(p);
    p->at++;
    return IG_OK;
}

/* Whether {% and one of these names are next, up to a NULL. */
static bool at_tag(const jinja_parser *p, const char *const *names) {
    const jinja_parser next = {.at = p->at + 1};
    if (p->at->kind != JINJA_BLOCK) return false;
    for (; *names; names++)
        if (jinja_at_name(&next, *names)) return true;
    return false;
}

static ig_status parse_statement(jinja_parser *p, jinja_node **out);

/* Statements up to one of the tags, whose {% is taken; an empty list: up to the end. */
static ig_status parse_block(jinja_parser *p, const char *const *ends, jinja_node **out) {
    const jinja_token *begin = p->at;
    jinja_node_list items = {0};
    jinja_node *block = NULL, *statement = NULL;
    IG_TRY(jinja_enter(p));
    IG_TRY(jinja_new(p, JINJA_N_BLOCK, &block));
    while (p->at->kind != JINJA_END && !at_tag(p, ends)) {
        IG_TRY(parse_statement(p, &statement));
        IG_TRY(jinja_push(p, &items, statement));
    }
    if (p->at->kind == JINJA_END && *ends)
        return JINJA_FAIL_AT(IG_ERR_FORMAT, begin->line, "what begins here has no %s", *ends);
    if (*ends) p->at++;
    block->items = items.at;
    block->n_items = items.count;
    p->depth--;
    *out = block;
    return IG_OK;
}

/* The same from behind a tag's words to behind the tag that ends it. */
static ig_status parse_body(jinja_parser *p, const char *end, jinja_node **out) {
    const char *const ends[] = {end, NULL};
    IG_TRY(expect_block_end(p));
    IG_TRY(parse_block(p, ends, out));
    p->at++;
    return expect_block_end(p);
}

/* A name, or where `is_set` says so one of a namespace. */
static ig_status parse_target_item(jinja_parser *p, bool is_set, jinja_node **out) {
    jinja_node *of;
    IG_TRY(jinja_new(p, JINJA_N_NAME, out));
    IG_TRY(jinja_expect_name(p, &(*out)->name));
    if (!is_set || !jinja_skip_sign(p, '.')) return IG_OK;
    of = *out;
    IG_TRY(jinja_new(p, JINJA_N_ATTRIBUTE, out));
    (*out)->left = of;
    return jinja_expect_name(p, &(*out)->name);
}

static ig_status parse_target(jinja_parser *p, bool is_set, jinja_node **out);

/* One name, or several in brackets. */
static ig_status parse_target_part(jinja_parser *p, bool is_set, jinja_node **out) {
    if (!jinja_skip_sign(p, '(')) return parse_target_item(p, is_set, out);
    IG_TRY(jinja_enter(p));
    IG_TRY(parse_target(p, is_set, out));
    p->depth--;
    return jinja_expect_sign(p, ')');
}

static ig_status parse_target(jinja_parser *p, bool is_set, jinja_node **out) {
    jinja_node_list items = {0};
    jinja_node *item = NULL, *tuple = NULL;
    IG_TRY(parse_target_part(p, is_set, &item));
    *out = item;
    if (!jinja_at_sign(p, ',')) return IG_OK;
    IG_TRY(jinja_new(p, JINJA_N_TUPLE, &tuple));
    IG_TRY(jinja_push(p, &items, item));
    while (jinja_skip_sign(p, ',') && !jinja_at_name(p, "in") && !jinja_at_sign(p, ')')) {
        IG_TRY(parse_target_part(p, is_set, &item));
        IG_TRY(jinja_push(p, &items, item));
    }
    tuple->items = items.at;
    tuple->n_items = items.count;
    *out = tuple;
    return IG_OK;
}

static ig_status parse_if(jinja_parser *p, jinja_node *node) {
    static const char *const ends[] = {"endif", "elif", "else", NULL};
    static const char *const last[] = {"endif", NULL};
    jinja_node_list items = {0};
    jinja_node *part;
    do {
        IG_TRY(jinja_parse_tuple(p, JINJA_WITHOUT_CHOICE, &part));
        IG_TRY(jinja_push(p, &items, part));
        IG_TRY(expect_block_end(p));
        IG_TRY(parse_block(p, ends, &part));
        IG_TRY(jinja_push(p, &items, part));
    } while (jinja_skip_name(p, "elif"));
    if (jinja_skip_name(p, "else")) {
        IG_TRY(expect_block_end(p));
        IG_TRY(parse_block(p, last, &part));
        IG_TRY(jinja_push(p, &items, part));
    }
    node->items = items.at;
    node->n_items = items.count;
    p->at++;
    return expect_block_end(p);
}

static ig_status parse_for(jinja_parser *p, jinja_node *node) {
    static const char *const ends[] = {"endfor", "else", NULL};
    jinja_node_list items = {0};
    jinja_node *part;
    IG_TRY(parse_target(p, false, &part));
    IG_TRY(jinja_push(p, &items, part));
    if (!jinja_skip_name(p, "in")) return jinja_unexpected(p);
    IG_TRY(jinja_parse_tuple(p, JINJA_WITHOUT_CHOICE, &node->left));
    if (jinja_skip_name(p, "if"))
        IG_TRY(jinja_parse_expression(p, JINJA_WITH_CHOICE, &node->right));
    node->sign = jinja_skip_name(p, "recursive");
    IG_TRY(expect_block_end(p));
    p->loops++;
    IG_TRY(parse_block(p, ends, &part));
    p->loops--;
    IG_TRY(jinja_push(p, &items, part));
    node->items = items.at;
    node->n_items = items.count;
    if (jinja_skip_name(p, "else")) return parse_body(p, "endfor", &node->third);
    p->at++;
    return expect_block_end(p);
}

static ig_status parse_set(jinja_parser *p, jinja_node *node) {
    IG_TRY(parse_target(p, true, &node->left));
    if (jinja_skip_sign(p, '=')) {
        IG_TRY(jinja_parse_tuple(p, JINJA_WITH_CHOICE, &node->right));
        return expect_block_end(p);
    }
    node->kind = JINJA_N_SET_BLOCK;
    if (jinja_skip_sign(p, '|')) IG_TRY(jinja_parse_filters(p, NULL, &node->right));
    return parse_body(p, "endset", &node->third);
}

/* (a, b=1) of a macro */
static ig_status parse_parameters(jinja_parser *p, jinja_node *node) {
    size_t room = 0;
    while (!jinja_skip_sign(p, ')')) {
        jinja_named_node named = {0};
        if (node->n_named > 0) IG_TRY(jinja_expect_sign(p, ','));
        IG_TRY(jinja_expect_name(p, &named.name));
        if (jinja_skip_sign(p, '='))
            IG_TRY(jinja_parse_expression(p, JINJA_WITH_CHOICE, &named.value));
        else if (node->n_named > 0 && node->named[node->n_named - 1].value)
            return JINJA_FAIL_AT(IG_ERR_FORMAT, p->at->line,
                                 "parameter '%.*s' needs a default, as the one before it",
                                 JINJA_SHOW(named.name));
        IG_TRY(jinja_push_named(p, node, &room, named));
    }
    return IG_OK;
}

/* The body stands outside of any loop. */
static ig_status parse_macro_body(jinja_parser *p, const char *end, jinja_node *node) {
    const int loops = p->loops, takes = p->takes;
    p->loops = p->takes = 0;
    IG_TRY(parse_body(p, end, &node->third));
    node->sign = p->takes;
    p->loops = loops;
    p->takes |= takes;
    return IG_OK;
}

static ig_status parse_macro(jinja_parser *p, jinja_node *node) {
    IG_TRY(jinja_expect_name(p, &node->name));
    IG_TRY(jinja_expect_sign(p, '('));
    IG_TRY(parse_parameters(p, node));
    return parse_macro_body(p, "endmacro", node);
}

static ig_status parse_call_block(jinja_parser *p, jinja_node *node) {
    if (jinja_skip_sign(p, '(')) IG_TRY(parse_parameters(p, node));
    IG_TRY(jinja_parse_expression(p, JINJA_WITH_CHOICE, &node->left));
    if (node->left->kind != JINJA_N_CALL) return jinja_unexpected(p);
    return parse_macro_body(p, "endcall", node);
}

static ig_status parse_filter_block(jinja_parser *p, jinja_node *node) {
    IG_TRY(jinja_parse_filters(p, NULL, &node->right));
    return parse_body(p, "endfilter", &node->third);
}

/* What is the model's own, for those who train it: here a block as any. */
static ig_status parse_generation(jinja_parser *p, jinja_node *node) {
    jinja_node *body;
    IG_TRY(parse_body(p, "endgeneration", &body));
    *node = *body;
    return IG_OK;
}

/* with a = 1, b = 2 */
static ig_status parse_with(jinja_parser *p, jinja_node *node) {
    jinja_node_list items = {0};
    jinja_node *part;
    while (p->at->kind != JINJA_BLOCK_END) {
        if (items.count > 0) IG_TRY(jinja_expect_sign(p, ','));
        IG_TRY(parse_target(p, false, &part));
        IG_TRY(jinja_push(p, &items, part));
        IG_TRY(jinja_expect_sign(p, '='));
        IG_TRY(jinja_parse_expression(p, JINJA_WITH_CHOICE, &part));
        IG_TRY(jinja_push(p, &items, part));
    }
    node->items = items.at;
    node->n_items = items.count;
    return parse_body(p, "endwith", &node->third);
}

/* A block that other templates could replace: here there are none. */
static ig_status parse_named_block(jinja_parser *p, jinja_node *node) {
    static const char *const ends[] = {"endblock", NULL};
    const int loops = p->loops;
    IG_TRY(jinja_expect_name(p, &node->name));
    node->sign = jinja_skip_name(p, "scoped");
    IG_TRY(expect_block_end(p));
    p->loops = 0;
    IG_TRY(parse_block(p, ends, &node->third));
    p->loops = loops;
    p->at++;
    if (p->at->kind == JINJA_NAME) {
        const jinja_name again = {p->at->bytes, p->at->n_bytes};
        if (!jinja_name_same(again, node->name)) return jinja_unexpected(p);
        p->at++;
    }
    return expect_block_end(p);
}

static ig_status parse_autoescape(jinja_parser *p, jinja_node *node) {
    IG_TRY(jinja_parse_expression(p, JINJA_WITH_CHOICE, &node->left));
    return parse_body(p, "endautoescape", &node->third);
}

/* print a, b: as {{ a }}{{ b }} */
static ig_status parse_print_tag(jinja_parser *p, jinja_node *node) {
    jinja_node_list items = {0};
    while (p->at->kind != JINJA_BLOCK_END) {
        jinja_node *print;
        if (items.count > 0) IG_TRY(jinja_expect_sign(p, ','));
        IG_TRY(jinja_new(p, JINJA_N_PRINT, &print));
        IG_TRY(jinja_parse_expression(p, JINJA_WITH_CHOICE, &print->left));
        IG_TRY(jinja_push(p, &items, print));
    }
    node->items = items.at;
    node->n_items = items.count;
    return expect_block_end(p);
}

static ig_status parse_jump(jinja_parser *p, jinja_node *node) {
    if (p->loops == 0)
        return JINJA_FAIL_AT(IG_ERR_FORMAT, node->line,
                             "break and continue need a loop around them");
    return expect_block_end(p);
}

static const struct {
    const char *name;
    jinja_kind kind;
    ig_status (*parse)(jinja_parser *p, jinja_node *node);
} tags[] = {
    {"if", JINJA_N_IF, parse_if},
    {"for", JINJA_N_FOR, parse_for},
    {"with", JINJA_N_WITH, parse_with},
    {"block", JINJA_N_SCOPE, parse_named_block},
    {"autoescape", JINJA_N_AUTOESCAPE, parse_autoescape},
    {"print", JINJA_N_BLOCK, parse_print_tag},
    {"set", JINJA_N_SET, parse_set},
    {"macro", JINJA_N_MACRO, parse_macro},
    {"call", JINJA_N_CALL_BLOCK, parse_call_block},
    {"filter", JINJA_N_FILTER_BLOCK, parse_filter_block},
    {"generation", JINJA_N_BLOCK, parse_generation},
    {"break", JINJA_N_BREAK, parse_jump},
    {"continue", JINJA_N_CONTINUE, parse_jump},
};

static ig_status parse_tag(jinja_parser *p, jinja_node **out) {
    p->at++;
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (jinja_at_name(p, tags[i].name)) {
            IG_TRY(jinja_new(p, tags[i].kind, out));
            p->at++;
            return tags[i].parse(p, *out);
        }
    if (p->at->kind != JINJA_NAME) return jinja_unexpected(p);
    return JINJA_FAIL_AT(IG_ERR_FORMAT, p->at->line, "tag '%.*s' is not known here",
                         (int)(p->at->n_bytes < 64 ? p->at->n_bytes : 64), p->at->bytes);
}

static ig_status parse_print(jinja_parser *p, jinja_node **out) {
    IG_TRY(jinja_new(p, JINJA_N_PRINT, out));
    p->at++;
    IG_TRY(jinja_parse_tuple(p, JINJA_WITH_CHOICE, &(*out)->left));
    if (p->at->kind != JINJA_PRINT_END) return jinja_unexpected(p);
    p->at++;
    return IG_OK;
}

static ig_status parse_text(jinja_parser *p, jinja_node **out) {
    IG_TRY(jinja_new(p, JINJA_N_WRITE, out));
    (*out)->name = (jinja_name){p->at->bytes, p->at->n_bytes};
    p->at++;
    return IG_OK;
}

static ig_status parse_statement(jinja_parser *p, jinja_node **out) {
    switch (p->at->kind) {
    case JINJA_TEXT: return parse_text(p, out);
    case JINJA_PRINT: return parse_print(p, out);
    case JINJA_BLOCK: return parse_tag(p, out);
    default: return jinja_unexpected(p);
    }
}

/* ---- All of it ---- */

/* A copy with \n for every end of line, without one at the end of all. */
static ig_status copy_text(jinja_arena *arena, const char *text, size_t n_bytes, jinja_name *out) {
    char *copy = jinja_take(arena, n_bytes, 1);
    if (!copy) return jinja_no_memory(arena, 1);
    size_t used = 0;
    for (size_t i = 0; i < n_bytes; i++) {
        if (text[i] == '\r' && i + 1 < n_bytes && text[i + 1] == '\n') continue;
        copy[used++] = text[i] == '\r' ? '\n' : text[i];
    }
    if (used > 0 && copy[used - 1] == '\n') used--;
    *out = (jinja_name){copy, used};
    return IG_OK;
}

static ig_status parse(ig_jinja *jinja, const char *text, size_t n_bytes, jinja_tokens *tokens) {
    static const char *const none[] = {NULL};
    jinja_name copy = {0};
    IG_TRY(copy_text(&jinja->arena, text, n_bytes, &copy));
    IG_TRY(jinja_lex(&jinja->arena, copy.bytes, copy.n_bytes, tokens));
    jinja_parser p = {.arena = &jinja->arena, .at = tokens->at};
    return parse_block(&p, none, &jinja->body);
}

ig_status ig_jinja_parse(const ig_allocator *a, const char *text, size_t n_bytes, ig_jinja **out) {
    if (n_bytes > IG_JINJA_TEMPLATE_MAX)
        return IG_FAIL(IG_ERR_FORMAT, "chat template: has %zu bytes, more than %d", n_bytes,
                       IG_JINJA_TEMPLATE_MAX);
    ig_jinja *jinja = ig_alloc(a, 1, sizeof *jinja);
    if (!jinja) return IG_FAIL(IG_ERR_MEMORY, "chat template: no memory");
    jinja->arena.allocator = a;
    jinja_tokens tokens = {0};
    const ig_status status = parse(jinja, text, n_bytes, &tokens);
    ig_free(a, tokens.at);
    if (status == IG_OK)
        *out = jinja;
    else
        ig_jinja_destroy(jinja);
    return status;
}

void ig_jinja_destroy(ig_jinja *jinja) {
    if (!jinja) return;
    const ig_allocator *a = jinja->arena.allocator;
    jinja_arena_deinit(&jinja->arena);
    ig_free(a, jinja);
}
