/*
 * jinja_tree.h - a template as a tree, of its own arena.
 *
 * One sort of node for all; what its parts are:
 *
 *     kind        name      left      right     third     items                named
 *     CONST       (value)
 *     NAME        itself
 *     LIST TUPLE                                          elements
 *     DICT                                                key, value, ...
 *     NEGATE NOT            operand
 *     BINARY                operand   operand             (sign)
 *     AND OR                operand   operand
 *     COMPARE               first                         OPERANDs
 *     OPERAND               operand                       (sign; 'i' in, 'n' not in)
 *     CONCAT                                              operands
 *     CHOICE                if so     condition otherwise
 *     ATTRIBUTE   its       of
 *     INDEX                 of        which
 *     SLICE                 of                            begin, end, step; NULL: none
 *     CALL                  function                      arguments            arguments
 *     FILTER TEST its       of                            arguments            arguments
 *     BLOCK                                               statements
 *     WRITE                 (text)
 *     PRINT                 value
 *     IF                                                  condition, BLOCK, ...; a last BLOCK
 *     FOR                   in        if        else      target, BLOCK     (sign: recursive)
 *     WITH                                      BLOCK     target, value, ...
 *     SCOPE                                     BLOCK                        {% block %}
 *     AUTOESCAPE            whether             BLOCK
 *     SET                   target    value
 *     SET_BLOCK             target    filters   BLOCK
 *     FILTER_BLOCK                    filters   BLOCK
 *     MACRO       its                           BLOCK     (sign: TAKES)        parameters
 *     CALL_BLOCK            CALL                BLOCK     (sign: TAKES)        parameters
 *
 * Filters of a block are a chain whose innermost has no `left`.
 */
#ifndef IG_TEXT_JINJA_JINJA_TREE_H
#define IG_TEXT_JINJA_JINJA_TREE_H

#include "text/jinja/jinja_lex.h"
#include "text/jinja/jinja_value.h"

typedef enum jinja_kind {
    JINJA_N_CONST,
    JINJA_N_NAME,
    JINJA_N_LIST,
    JINJA_N_TUPLE,
    JINJA_N_DICT,
    JINJA_N_NEGATE,
    JINJA_N_NOT,
    JINJA_N_BINARY,
    JINJA_N_AND,
    JINJA_N_OR,
    JINJA_N_COMPARE,
    JINJA_N_OPERAND,
    JINJA_N_CONCAT,
    JINJA_N_CHOICE,
    JINJA_N_ATTRIBUTE,
    JINJA_N_INDEX,
    JINJA_N_SLICE,
    JINJA_N_CALL,
    JINJA_N_FILTER,
    JINJA_N_TEST,
    JINJA_N_BLOCK,
    JINJA_N_WRITE,
    JINJA_N_PRINT,
    JINJA_N_IF,
    JINJA_N_FOR,
    JINJA_N_WITH,
    JINJA_N_SCOPE,
    JINJA_N_AUTOESCAPE,
    JINJA_N_SET,
    JINJA_N_SET_BLOCK,
    JINJA_N_FILTER_BLOCK,
    JINJA_N_MACRO,
    JINJA_N_CALL_BLOCK,
    JINJA_N_BREAK,
    JINJA_N_CONTINUE,
} jinja_kind;

/* What a macro takes beside its parameters: that whose name is in its body. */
enum { JINJA_TAKES_CALLER = 1, JINJA_TAKES_VARARGS = 2, JINJA_TAKES_KWARGS = 4 };

typedef struct jinja_node jinja_node;

typedef struct jinja_named_node {
    jinja_name name;
    jinja_node *value; /* of a parameter its default, or NULL */
} jinja_named_node;

struct jinja_node {
    jinja_kind kind;
    int line;
    int sign;
    int height; /* of the expressions below it */
    jinja_name name;
    jinja_value value;
    jinja_node *left, *right, *third;
    jinja_node **items;
    size_t n_items;
    jinja_named_node *named;
    size_t n_named;
};

struct ig_jinja {
    jinja_arena arena;
    jinja_node *body;
};

#endif
