/* jinja_parse.h - what the parsers of statements and of expressions share. */
#ifndef IG_TEXT_JINJA_JINJA_PARSE_H
#define IG_TEXT_JINJA_JINJA_PARSE_H

#include "text/jinja/jinja_tree.h"

typedef struct jinja_parser {
    jinja_arena *arena;
    const jinja_token *at; /* the next token */
    int depth;             /* of blocks and brackets */
    int loops;             /* that break and continue stand in */
    int takes;             /* JINJA_TAKES_...: names that were met in the body of the macro */
} jinja_parser;

enum { JINJA_HEIGHT_MAX = 256 }; /* of an expression tree: terms of a sum */

/* ---- Tokens ---- */

bool jinja_at_sign(const jinja_parser *p, int sign);
bool jinja_at_name(const jinja_parser *p, const char *name);
bool jinja_skip_sign(jinja_parser *p, int sign); /* if it is next */
bool jinja_skip_name(jinja_parser *p, const char *name);
IG_MUST_CHECK ig_status jinja_expect_sign(jinja_parser *p, int sign);
IG_MUST_CHECK ig_status jinja_expect_name(jinja_parser *p, jinja_name *out); /* any */
IG_MUST_CHECK ig_status jinja_unexpected(const jinja_parser *p);             /* the next token */

/* One level further in; every one must be left again. */
IG_MUST_CHECK ig_status jinja_enter(jinja_parser *p);

/* ---- Nodes ---- */

IG_MUST_CHECK ig_status jinja_new(jinja_parser *p, jinja_kind kind, jinja_node **out);

/* Items while their number is not known; the room is of the arena. */
typedef struct jinja_node_list {
    jinja_node **at;
    size_t count, room;
} jinja_node_list;
IG_MUST_CHECK ig_status jinja_push(jinja_parser *p, jinja_node_list *list, jinja_node *node);

/* ---- Expressions ---- */

typedef enum jinja_choice { JINJA_WITH_CHOICE, JINJA_WITHOUT_CHOICE } jinja_choice; /* a if b */

IG_MUST_CHECK ig_status jinja_parse_expression(jinja_parser *p, jinja_choice choice,
                                               jinja_node **out);
/* One, or several with commas between them, which are a tuple. */
IG_MUST_CHECK ig_status jinja_parse_tuple(jinja_parser *p, jinja_choice choice, jinja_node **out);
/* name | other(...) from behind the first |; `left` may be NULL */
IG_MUST_CHECK ig_status jinja_parse_filters(jinja_parser *p, jinja_node *left, jinja_node **out);
/* (a, b=1) as items and named ones of a node */
IG_MUST_CHECK ig_status jinja_parse_arguments(jinja_parser *p, jinja_node *node);
IG_MUST_CHECK ig_status jinja_push_named(jinja_parser *p, jinja_node *node, size_t *room,
                                         jinja_named_node named);

#endif
