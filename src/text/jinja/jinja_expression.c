/*
 * Expressions of templates, by what binds how closely, as in Jinja:
 *
 *     a if b else c     or     and     not     == < in     + -     ~     * / // %     **     - +
 *
 * and closest of all .name, [index] and (call), then | filter and `is` test.
 */
#include <string.h>

#include "text/jinja/jinja_parse.h"

/* Nodes that have parts are higher than these; some would be too high to be computed. */
static ig_status raise(jinja_parser *p, jinja_node *node, const jinja_node *part) {
    if (part && part->height >= node->height) node->height = part->height + 1;
    if (node->height <= JINJA_HEIGHT_MAX) return IG_OK;
    return JINJA_FAIL_AT(IG_ERR_FORMAT, p->at->line, "an expression of more than %d parts in a row",
                         JINJA_HEIGHT_MAX);
}

static ig_status new_node(jinja_parser *p, jinja_kind kind, jinja_node *left, jinja_node *right,
                          jinja_node **out) {
    jinja_node *node;
    IG_TRY(jinja_new(p, kind, &node));
    node->left = left;
    node->right = right;
    IG_TRY(raise(p, node, left));
    IG_TRY(raise(p, node, right));
    *out = node;
    return IG_OK;
}

static ig_status push_part(jinja_parser *p, jinja_node *node, jinja_node_list *list,
                           jinja_node *part) {
    IG_TRY(jinja_push(p, list, part));
    node->items = list->at;
    node->n_items = list->count;
    return raise(p, node, part);
}

/* ---- Literals ---- */

static ig_status parse_string(jinja_parser *p, jinja_node **out) {
    size_t n_bytes = 0;
    const jinja_token *end = p->at;
    while (end->kind == JINJA_STRING) n_bytes += end++->n_bytes; /* side by side they are one */
    jinja_string *string = jinja_take(p->arena, 1, sizeof *string);
    char *bytes = string ? jinja_take(p->arena, n_bytes, 1) : NULL;
    if (!bytes) return jinja_no_memory(p->arena, p->at->line);
    string->bytes = bytes;
    string->n_bytes = n_bytes;
    IG_TRY(new_node(p, JINJA_N_CONST, NULL, NULL, out));
    for (; p->at < end; bytes += p->at++->n_bytes) memcpy(bytes, p->at->bytes, p->at->n_bytes);
    (*out)->value = (jinja_value){.kind = JINJA_V_STRING, .string = string};
    return IG_OK;
}

static ig_status parse_name(jinja_parser *p, jinja_node **out) {
    static const struct {
        const char *name;
        jinja_value value;
    } constants[] = {
        {"true", {.kind = JINJA_V_BOOL, .integer = 1}},
        {"True", {.kind = JINJA_V_BOOL, .integer = 1}},
        {"false", {.kind = JINJA_V_BOOL}},
        {"False", {.kind = JINJA_V_BOOL}},
        {"none", {.kind = JINJA_V_NONE}},
        {"None", {.kind = JINJA_V_NONE}},
    };
    IG_TRY(new_node(p, JINJA_N_NAME, NULL, NULL, out));
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (jinja_skip_name(p, constants[i].name)) {
            (*out)->kind = JINJA_N_CONST;
            (*out)->value = constants[i].value;
            return IG_OK;
        }
    if (jinja_at_name(p, "caller")) p->takes |= JINJA_TAKES_CALLER;
    if (jinja_at_name(p, "varargs")) p->takes |= JINJA_TAKES_VARARGS;
    if (jinja_at_name(p, "kwargs")) p->takes |= JINJA_TAKES_KWARGS;
    return jinja_expect_name(p, &(*out)->name);
}

/* a, b, c up to a sign, which is taken; a comma may stand before it. */
static ig_status parse_items(jinja_parser *p, int end, jinja_node *node) {
    jinja_node_list items = {0};
    while (!jinja_skip_sign(p, end)) {
        jinja_node *item;
        if (items.count > 0) IG_TRY(jinja_expect_sign(p, ','));
        if (items.count > 0 && jinja_skip_sign(p, end)) break;
        IG_TRY(jinja_parse_expression(p, JINJA_WITH_CHOICE, &item));
        IG_TRY(push_part(p, node, &items, item));
        if (node->kind != JINJA_N_DICT) continue;
        IG_TRY(jinja_expect_sign(p, ':'));
        IG_TRY(jinja_parse_expression(p, JINJA_WITH_CHOICE, &item));
        IG_TRY(push_part(p, node, &items, item));
    }
    return IG_OK;
}

/* (), (a), (a,) and (a, b) */
static ig_status parse_brackets(jinja_parser *p, jinja_node **out) {
    if (jinja_skip_sign(p, ')')) return new_node(p, JINJA_N_TUPLE, NULL, NULL, out);
    IG_TRY(jinja_parse_tuple(p, JINJA_WITH_CHOICE, out));
    return jinja_expect_sign(p, ')');
}

static ig_status parse_primary(jinja_parser *p, jinja_node **out) {
    const jinja_token *token = p->at;
    switch (token->kind) {
    case JINJA_NAME: return parse_name(p, out);
    case JINJA_STRING: return parse_string(p, out);
    case JINJA_INTEGER:
    case JINJA_REAL:
        IG_TRY(new_node(p, JINJA_N_CONST, NULL, NULL, out));
        p->at++;
        (*out)->value =
            token->kind == JINJA_INTEGER ? jinja_integer(token->integer) : jinja_real(token->real);
        return IG_OK;
    default: break;
    }
    IG_TRY(jinja_enter(p));
    ig_status status;
    if (jinja_skip_sign(p, '(')) {
        status = parse_brackets(p, out);
    } else if (jinja_at_sign(p, '[') || jinja_at_sign(p, '{')) {
        const bool is_list = jinja_at_sign(p, '[');
        p->at++;
        status = new_node(p, is_list ? JINJA_N_LIST : JINJA_N_DICT, NULL, NULL, out);
        if (status == IG_OK) status = parse_items(p, is_list ? ']' : '}', *out);
    } else {
        status = jinja_unexpected(p);
    }
    p->depth--;
    return status;
}

/* ---- What stands behind a value ---- */

ig_status jinja_push_named(jinja_parser *p, jinja_node *node, size_t *room,
                           jinja_named_node named) {
    if (node->n_named == *room) {
        const size_t more = *room ? 2 * *room : 4;
        jinja_named_node *grown = jinja_take(p->arena, more, sizeof *grown);
        if (!grown) return jinja_no_memory(p->arena, p->at->line);
        if (*room) memcpy(grown, node->named, *room * sizeof *grown);
        node->named = grown;
        *room = more;
    }
    node->named[node->n_named++] = named;
    return raise(p, node, named.value);
}

ig_status jinja_parse_arguments(jinja_parser *p, jinja_node *node) {
    jinja_node_list items = {0};
    size_t room = 0;
    for (bool first = true; !jinja_skip_sign(p, ')'); first = false) {
        jinja_named_node named = {0};
        if (!first) IG_TRY(jinja_expect_sign(p, ','));
        if (!first && jinja_skip_sign(p, ')')) break;
        const bool is_named =
            p->at->kind == JINJA_NAME && p->at[1].kind == JINJA_SIGN && p->at[1].sign == '=';
        if (is_named) IG_TRY(jinja_expect_name(p, &named.name));
        if (is_named) p->at++;
        if (!is_named && node->n_named > 0) return jinja_unexpected(p);
        IG_TRY(jinja_parse_expression(p, JINJA_WITH_CHOICE, &named.value));
        IG_TRY(is_named ? jinja_push_named(p, node, &room, named)
                        : push_part(p, node, &items, named.value));
    }
    return IG_OK;
}

/* [which] or [begin:end:step], from behind the bracket */
static ig_status parse_subscript(jinja_parser *p, jinja_node *left, jinja_node **out) {
    jinja_node *parts[3] = {NULL};
    size_t n = 0;
    for (; !jinja_at_sign(p, ']'); n++) {
        if (n == 3) return jinja_unexpected(p);
        if (!jinja_at_sign(p, ':')) IG_TRY(jinja_parse_expression(p, JINJA_WITH_CHOICE, &parts[n]));
        if (!jinja_at_sign(p, ':')) break;
        p->at++;
    }
    if (n == 0 && jinja_at_sign(p, ',')) { /* [a, b]: a tuple */
        jinja_node_list several = {0};
        jinja_node *tuple;
        IG_TRY(new_node(p, JINJA_N_TUPLE, NULL, NULL, &tuple));
        IG_TRY(push_part(p, tuple, &several, parts[0]));
        while (jinja_skip_sign(p, ',')) {
            IG_TRY(jinja_parse_expression(p, JINJA_WITH_CHOICE, &parts[0]));
            IG_TRY(push_part(p, tuple, &several, parts[0]));
        }
        parts[0] = tuple;
    }
    const bool is_slice = p->at[-1].kind == JINJA_SIGN && p->at[-1].sign == ':';
    IG_TRY(jinja_expect_sign(p, ']'));
    if (n == 0 && !is_slice) {
        if (!parts[0]) return p->at--, jinja_unexpected(p);
        return new_node(p, JINJA_N_INDEX, left, parts[0], out);
    }
    jinja_node_list items = {0};
    IG_TRY(new_node(p, JINJA_N_SLICE, left, NULL, out));
    for (size_t i = 0; i < 3; i++) IG_TRY(push_part(p, *out, &items, parts[i]));
    return IG_OK;
}

static ig_status parse_call(jinja_parser *p, jinja_node *left, jinja_node **out) {
    IG_TRY(new_node(p, JINJA_N_CALL, left, NULL, out));
    return jinja_parse_arguments(p, *out);
}

/* .name .0 [index] (call), as many as follow */
static ig_status parse_postfix(jinja_parser *p, jinja_node **node) {
    for (;;) {
        if (jinja_skip_sign(p, '.')) {
            jinja_node *index = NULL;
            if (p->at->kind == JINJA_INTEGER) {
                IG_TRY(parse_primary(p, &index));
                IG_TRY(new_node(p, JINJA_N_INDEX, *node, index, node));
                continue;
            }
            IG_TRY(new_node(p, JINJA_N_ATTRIBUTE, *node, NULL, node));
            IG_TRY(jinja_expect_name(p, &(*node)->name));
        } else if (jinja_at_sign(p, '[') || jinja_at_sign(p, '(')) {
            IG_TRY(jinja_enter(p));
            IG_TRY(p->at++->sign == '[' ? parse_subscript(p, *node, node)
                                        : parse_call(p, *node, node));
            p->depth--;
        } else {
            return IG_OK;
        }
    }
}

ig_status jinja_parse_filters(jinja_parser *p, jinja_node *left, jinja_node **out) {
    do {
        IG_TRY(new_node(p, JINJA_N_FILTER, left, NULL, &left));
        IG_TRY(jinja_expect_name(p, &left->name));
        if (!jinja_skip_sign(p, '(')) continue;
        IG_TRY(jinja_enter(p));
        IG_TRY(jinja_parse_arguments(p, left));
        p->depth--;
    } while (jinja_skip_sign(p, '|'));
    *out = left;
    return IG_OK;
}

/* Whether a value stands here, which a test takes without brackets: x is divisibleby 3 */
static bool at_value(const jinja_parser *p) {
    if (p->at->kind == JINJA_NAME)
        return !jinja_at_name(p, "else") && !jinja_at_name(p, "or") && !jinja_at_name(p, "and");
    return p->at->kind == JINJA_STRING || p->at->kind == JINJA_INTEGER ||
           p->at->kind == JINJA_REAL || jinja_at_sign(p, '[') || jinja_at_sign(p, '{');
}

static ig_status parse_test(jinja_parser *p, jinja_node **node) {
    const bool is_not = jinja_skip_name(p, "not");
    jinja_node *test, *value = NULL;
    IG_TRY(new_node(p, JINJA_N_TEST, *node, NULL, &test));
    IG_TRY(jinja_expect_name(p, &test->name));
    IG_TRY(jinja_enter(p));
    if (jinja_skip_sign(p, '(')) {
        IG_TRY(jinja_parse_arguments(p, test));
    } else if (at_value(p)) {
        jinja_node_list items = {0};
        IG_TRY(parse_primary(p, &value));
        IG_TRY(parse_postfix(p, &value));
        IG_TRY(push_part(p, test, &items, value));
    }
    p->depth--;
    *node = test;
    return is_not ? new_node(p, JINJA_N_NOT, test, NULL, node) : IG_OK;
}

/* ---- Operators ---- */

static ig_status parse_unary(jinja_parser *p, bool with_filters, jinja_node **out) {
    const bool is_minus = jinja_at_sign(p, '-');
    *out = NULL;
    if (is_minus || jinja_at_sign(p, '+')) {
        IG_TRY(jinja_enter(p));
        p->at++;
        IG_TRY(parse_unary(p, false, out));
        IG_TRY(new_node(p, JINJA_N_NEGATE, *out, NULL, out));
        (*out)->sign = is_minus ? '-' : '+';
        p->depth--;
    } else {
        IG_TRY(parse_primary(p, out));
    }
    IG_TRY(parse_postfix(p, out));
    while (with_filters) {
        if (jinja_skip_sign(p, '|'))
            IG_TRY(jinja_parse_filters(p, *out, out));
        else if (jinja_skip_name(p, "is"))
            IG_TRY(parse_test(p, out));
        else if (jinja_at_sign(p, '('))
            IG_TRY(parse_postfix(p, out));
        else
            break;
    }
    return IG_OK;
}

/* Signs that stand between two values, and how closely: the highest first. */
static int level_of(const jinja_parser *p) {
    if (p->at->kind != JINJA_SIGN) return -1;
    switch (p->at->sign) {
    case JINJA_SIGN_OF('*', '*'): return 3;
    case '*':
    case '/':
    case JINJA_SIGN_OF('/', '/'):
    case '%': return 2;
    case '~': return 1;
    case '+':
    case '-': return 0;
    default: return -1;
    }
}

static ig_status parse_binary(jinja_parser *p, int level, jinja_node **out) {
    if (level > 3) return parse_unary(p, true, out);
    IG_TRY(parse_binary(p, level + 1, out));
    jinja_node_list items = {0}; /* of a ~ b ~ c, which are one */
    while (level_of(p) == level) {
        jinja_node *right;
        const int sign = p->at++->sign;
        IG_TRY(parse_binary(p, level + 1, &right));
        if (sign != '~') {
            IG_TRY(new_node(p, JINJA_N_BINARY, *out, right, out));
            (*out)->sign = sign;
            continue;
        }
        jinja_node *first = *out;
        if (items.count == 0) {
            IG_TRY(new_node(p, JINJA_N_CONCAT, NULL, NULL, out));
            IG_TRY(push_part(p, *out, &items, first));
        }
        IG_TRY(push_part(p, *out, &items, right));
    }
    return IG_OK;
}

/* The sign of a comparison, taken; 0: none is next. */
static int take_comparison(jinja_parser *p) {
    static const int signs[] = {JINJA_SIGN_OF('=', '='),
                                JINJA_SIGN_OF('!', '='),
                                JINJA_SIGN_OF('<', '='),
                                JINJA_SIGN_OF('>', '='),
                                '<',
                                '>'};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (jinja_skip_sign(p, signs[i])) return signs[i];
    if (jinja_skip_name(p, "in")) return 'i';
    const jinja_parser next = {.at = p->at + 1};
    if (!jinja_at_name(p, "not") || !jinja_at_name(&next, "in")) return 0;
    p->at += 2;
    return 'n';
}

static ig_status parse_comparison(jinja_parser *p, jinja_node **out) {
    IG_TRY(parse_binary(p, 0, out));
    jinja_node_list items = {0};
    for (int sign; (sign = take_comparison(p)) != 0;) {
        jinja_node *operand;
        if (items.count == 0) IG_TRY(new_node(p, JINJA_N_COMPARE, *out, NULL, out));
        IG_TRY(parse_binary(p, 0, &operand));
        IG_TRY(new_node(p, JINJA_N_OPERAND, operand, NULL, &operand));
        operand->sign = sign;
        IG_TRY(push_part(p, *out, &items, operand));
    }
    return IG_OK;
}

static ig_status parse_not(jinja_parser *p, jinja_node **out) {
    if (!jinja_skip_name(p, "not")) return parse_comparison(p, out);
    IG_TRY(jinja_enter(p));
    IG_TRY(parse_not(p, out));
    p->depth--;
    return new_node(p, JINJA_N_NOT, *out, NULL, out);
}

static ig_status parse_and(jinja_parser *p, jinja_node **out) {
    IG_TRY(parse_not(p, out));
    while (jinja_skip_name(p, "and")) {
        jinja_node *right;
        IG_TRY(parse_not(p, &right));
        IG_TRY(new_node(p, JINJA_N_AND, *out, right, out));
    }
    return IG_OK;
}

static ig_status parse_or(jinja_parser *p, jinja_node **out) {
    IG_TRY(parse_and(p, out));
    while (jinja_skip_name(p, "or")) {
        jinja_node *right;
        IG_TRY(parse_and(p, &right));
        IG_TRY(new_node(p, JINJA_N_OR, *out, right, out));
    }
    return IG_OK;
}

ig_status jinja_parse_expression(jinja_parser *p, jinja_choice choice, jinja_node **out) {
    IG_TRY(parse_or(p, out));
    while (choice == JINJA_WITH_CHOICE && jinja_skip_name(p, "if")) {
        jinja_node *condition, *otherwise = NULL;
        IG_TRY(parse_or(p, &condition));
        if (jinja_skip_name(p, "else")) {
            IG_TRY(jinja_enter(p));
            IG_TRY(jinja_parse_expression(p, JINJA_WITH_CHOICE, &otherwise));
            p->depth--;
        }
        IG_TRY(new_node(p, JINJA_N_CHOICE, *out, condition, out));
        (*out)->third = otherwise;
        IG_TRY(raise(p, *out, otherwise));
    }
    return IG_OK;
}

/* Whether a tuple without brackets ends here. */
static bool at_end(const jinja_parser *p) {
    return p->at->kind == JINJA_BLOCK_END || p->at->kind == JINJA_PRINT_END ||
           jinja_at_sign(p, ')') || jinja_at_name(p, "in");
}

ig_status jinja_parse_tuple(jinja_parser *p, jinja_choice choice, jinja_node **out) {
    jinja_node *item, *tuple = NULL;
    jinja_node_list items = {0};
    IG_TRY(jinja_parse_expression(p, choice, &item));
    while (jinja_skip_sign(p, ',')) {
        if (!tuple) {
            IG_TRY(new_node(p, JINJA_N_TUPLE, NULL, NULL, &tuple));
            IG_TRY(push_part(p, tuple, &items, item));
        }
        if (at_end(p)) break;
        IG_TRY(jinja_parse_expression(p, choice, &item));
        IG_TRY(push_part(p, tuple, &items, item));
    }
    *out = tuple ? tuple : item;
    return IG_OK;
}
