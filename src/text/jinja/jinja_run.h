/*
 * jinja_run.h - one rendering of a template: its limits, its values, and what can be
 * done with them.
 */
#ifndef IG_TEXT_JINJA_JINJA_RUN_H
#define IG_TEXT_JINJA_JINJA_RUN_H

#include "text/jinja/jinja.h"
#include "text/jinja/jinja_tree.h"

/* ---- Text that is being written ---- */

struct jinja_builder {   /* {0} is empty */
    char *bytes, *marks; /* as those of a string */
    size_t n_bytes, room;
    bool has_given, has_own;
};

typedef struct jinja_scope jinja_scope; /* names and their values */

typedef enum jinja_flow { JINJA_GOES_ON, JINJA_BREAKS, JINJA_CONTINUES } jinja_flow;

typedef struct jinja_run {
    jinja_arena arena;
    const ig_jinja_variables *variables;
    size_t work;   /* done so far */
    int line;      /* of what is being computed */
    int calls;     /* of macros in one another */
    int nesting;   /* of nodes: the stack has an end */
    bool escapes;  /* within {% autoescape %} */
    size_t macros; /* made so far: each keeps the scope that it was made in */
    jinja_scope *scope;
    jinja_scope *top; /* of the template itself */
    jinja_builder *out;
    jinja_flow flow;
} jinja_run;

/* Counts work against the limit, before it is done: a node of the tree is a step, an item of a list
 * an eighth of one, and a byte that is looked at a small part. */
enum { JINJA_STEP = 256 };
IG_MUST_CHECK ig_status jinja_work(jinja_run *run, size_t work);
#define JINJA_FAIL(run, ...) JINJA_FAIL_AT(IG_ERR_FORMAT, (run)->line, __VA_ARGS__)
IG_MUST_CHECK ig_status jinja_is_undefined(const jinja_run *run, jinja_value v); /* says which */

IG_MUST_CHECK ig_status jinja_add(jinja_run *run, jinja_builder *b, const char *bytes,
                                  size_t n_bytes, bool given);
IG_MUST_CHECK ig_status jinja_add_text(jinja_run *run, jinja_builder *b, const char *text);
IG_MUST_CHECK ig_status jinja_add_string(jinja_run *run, jinja_builder *b, const jinja_string *s);
IG_MUST_CHECK ig_status jinja_add_part(jinja_run *run, jinja_builder *b, const jinja_string *s,
                                       size_t begin, size_t end);
IG_MUST_CHECK ig_status jinja_add_fill(jinja_run *run, jinja_builder *b, char fill, int64_t count,
                                       bool given);
IG_MUST_CHECK ig_status jinja_finish(jinja_run *run, const jinja_builder *b, jinja_value *out);

/* A string as markup, and what a value becomes in it: escaped, unless it is markup. */
IG_MUST_CHECK ig_status jinja_mark_up(jinja_run *run, jinja_value *v);
IG_MUST_CHECK ig_status jinja_escape(jinja_run *run, jinja_value v, jinja_value *out);
/* The same, but of numbers, which a format takes as they are. */
IG_MUST_CHECK static inline ig_status jinja_escape_text(jinja_run *run, jinja_value v,
                                                        jinja_value *out) {
    *out = v;
    return jinja_is_number(v) ? IG_OK : jinja_escape(run, v, out);
}
static inline bool jinja_is_markup(jinja_value v) {
    return v.kind == JINJA_V_STRING && v.string->markup;
}

/* The concatenated texts of values; no markup. */
IG_MUST_CHECK ig_status jinja_join(jinja_run *run, const jinja_value *parts, size_t count,
                                   jinja_value *out);

/* ---- Values ---- */

IG_MUST_CHECK ig_status jinja_new_string(jinja_run *run, const char *bytes, size_t n_bytes,
                                         bool given, jinja_value *out); /* bytes are lent */
IG_MUST_CHECK ig_status jinja_part(jinja_run *run, const jinja_string *s, size_t begin, size_t end,
                                   jinja_value *out);
IG_MUST_CHECK ig_status jinja_new_list(jinja_run *run, jinja_value_kind kind, jinja_value *out);
/* Made of a list that nothing changes any more. */
IG_MUST_CHECK ig_status jinja_new_series(jinja_run *run, jinja_series_kind kind,
                                         const jinja_list *items, jinja_value *out);
IG_MUST_CHECK ig_status jinja_append(jinja_run *run, jinja_list *list, jinja_value v);
/* Reserves room for exactly `count` items in an empty list. */
IG_MUST_CHECK ig_status jinja_reserve(jinja_run *run, jinja_list *list, size_t count);
IG_MUST_CHECK ig_status jinja_new_pair(jinja_run *run, jinja_value a, jinja_value b,
                                       jinja_value *out); /* a tuple */
IG_MUST_CHECK ig_status jinja_new_dict(jinja_run *run, jinja_value_kind kind, jinja_value *out);
bool jinja_can_be_key(jinja_value v);
/* The value of a key, lent; NULL through `out`: there is none. */
IG_MUST_CHECK ig_status jinja_get(jinja_run *run, const jinja_dict *dict, jinja_value key,
                                  jinja_value **out);
IG_MUST_CHECK ig_status jinja_set(jinja_run *run, jinja_dict *dict, jinja_value key,
                                  jinja_value value);
/* The caller's values: all of it is given. */
IG_MUST_CHECK ig_status jinja_from_json(jinja_run *run, const json_t *json, int depth,
                                        jinja_value *out);

/* ---- As text: jinja_print.c ---- */

typedef struct jinja_json_style {
    const char *item, *key; /* ", " and ": " */
    size_t n_item, n_key;
    int indent;       /* spaces; below 0: all on one line */
    const char *fill; /* instead of spaces; NULL: none */
    size_t n_fill;
    bool ascii, sorts;
} jinja_json_style;

IG_MUST_CHECK ig_status jinja_add_value(jinja_run *run, jinja_builder *b, jinja_value v);
IG_MUST_CHECK ig_status jinja_add_repr(jinja_run *run, jinja_builder *b, jinja_value v, int depth);
IG_MUST_CHECK ig_status jinja_add_json(jinja_run *run, jinja_builder *b, jinja_value v,
                                       const jinja_json_style *style, int depth);
IG_MUST_CHECK ig_status jinja_to_string(jinja_run *run, jinja_value v, const jinja_string **out);
size_t jinja_real_text(double x, char out[40]); /* as Python's repr */

/* ---- Operators: jinja_ops.c ---- */

IG_MUST_CHECK ig_status jinja_equal(jinja_run *run, jinja_value a, jinja_value b, int depth,
                                    bool *out);
/* below 0, 0 or above 0 */
IG_MUST_CHECK ig_status jinja_order(jinja_run *run, jinja_value a, jinja_value b, int depth,
                                    int *out);
IG_MUST_CHECK ig_status jinja_compare(jinja_run *run, int sign, jinja_value a, jinja_value b,
                                      bool *out);
IG_MUST_CHECK ig_status jinja_contains(jinja_run *run, jinja_value item, jinja_value in, bool *out);
IG_MUST_CHECK ig_status jinja_binary(jinja_run *run, int sign, jinja_value a, jinja_value b,
                                     jinja_value *out);
/* Sorts, equal ones in the order they had: by keys[i], which belong to items[i]. */
IG_MUST_CHECK ig_status jinja_sort(jinja_run *run, jinja_value *keys, jinja_value *items,
                                   size_t count, bool reverse);

/* ---- Parts of values: jinja_items.c ---- */

IG_MUST_CHECK ig_status jinja_length(jinja_run *run, jinja_value v, int64_t *out);
IG_MUST_CHECK ig_status jinja_index(jinja_run *run, jinja_value of, jinja_value which,
                                    jinja_value *out);
IG_MUST_CHECK ig_status jinja_attribute(jinja_run *run, jinja_value of, const jinja_name *name,
                                        jinja_value *out);
/* A method; undefined, if there is none. */
IG_MUST_CHECK ig_status jinja_method(jinja_run *run, jinja_value of, const jinja_name *name,
                                     jinja_value *out);
/* Bounds that are MISSING are left out. */
IG_MUST_CHECK ig_status jinja_slice(jinja_run *run, jinja_value of, const jinja_value bounds[3],
                                    jinja_value *out);
/* range(begin, end, step), which has these items. */
IG_MUST_CHECK ig_status jinja_new_range(jinja_run *run, const jinja_list *items,
                                        const int64_t bounds[3], jinja_value *out);
/* All elements, of a list of its own: characters, keys, what is left of a generator. */
IG_MUST_CHECK ig_status jinja_iterate(jinja_run *run, jinja_value v, jinja_list **out);
size_t jinja_char_bytes(const jinja_string *s, size_t at); /* of the character at a byte */

/* ---- Calls ---- */

enum { JINJA_PARAMETERS_MAX = 5 };

typedef struct jinja_named {
    jinja_name name;
    jinja_value value;
} jinja_named;

typedef struct jinja_call {
    const char *what; /* the function's name, for messages */
    jinja_value self; /* what is filtered, tested, or has the method */
    jinja_value *at;  /* arguments as they were given */
    size_t count;
    jinja_named *named;
    size_t n_named;
    jinja_value bound[JINJA_PARAMETERS_MAX]; /* those that the function's row names */
} jinja_call;

typedef struct jinja_function {
    const char *name;
    const char *parameters; /* "width first blank"; NULL: it looks at the arguments itself */
    ig_status (*call)(jinja_run *run, const jinja_call *call, jinja_value *out);
} jinja_function;

struct jinja_bound {
    const jinja_function *function;
    jinja_value self;
};

struct jinja_macro {
    const jinja_node *node; /* MACRO or CALL_BLOCK */
    jinja_scope *scope;     /* that it was written in */
};

struct jinja_loop {
    const jinja_node *node; /* FOR */
    jinja_scope *scope;     /* around it */
    const jinja_list *items;
    size_t at;
    int depth;        /* 0, unless it is the loop of a recursive one's call */
    jinja_value last; /* what changed() saw */
};

/* Rows end with a NULL name. */
extern const jinja_function jinja_filters[], jinja_list_filters[], jinja_number_filters[],
    jinja_tests[], jinja_globals[], jinja_string_methods[], jinja_list_methods[],
    jinja_tuple_methods[], jinja_dict_methods[], jinja_loop_methods[], jinja_cycler_methods[];

const jinja_function *jinja_find(const jinja_function *rows, jinja_name name); /* NULL: none */
const jinja_function *jinja_find_filter(jinja_name name);
const jinja_function *jinja_find_method(jinja_value of, jinja_name name);
/* Puts arguments to their parameters and calls. */
IG_MUST_CHECK ig_status jinja_call_function(jinja_run *run, const jinja_function *function,
                                            jinja_call *call, jinja_value *out);
IG_MUST_CHECK ig_status jinja_call_macro(jinja_run *run, const jinja_macro *macro,
                                         const jinja_call *call, jinja_value *out);
/* "%s of %d" and "{} of {}"; `call` has the arguments */
IG_MUST_CHECK ig_status jinja_format_percent(jinja_run *run, const jinja_string *format,
                                             jinja_value arguments, jinja_value *out);
IG_MUST_CHECK ig_status jinja_format_braces(jinja_run *run, const jinja_string *format,
                                            const jinja_call *call, jinja_value *out);

/* Arguments of functions: their value or, if they were not given, what is said here. */
IG_MUST_CHECK ig_status jinja_arg_string(jinja_run *run, const jinja_call *call, size_t i,
                                         const jinja_string **out); /* NULL: not given, or None */
IG_MUST_CHECK ig_status jinja_arg_integer(jinja_run *run, const jinja_call *call, size_t i,
                                          int64_t initial, int64_t *out);
bool jinja_arg_truth(const jinja_call *call, size_t i, bool initial);

/* ---- Names ---- */

IG_MUST_CHECK ig_status jinja_scope_set(jinja_run *run, jinja_name name, jinja_value value);
IG_MUST_CHECK ig_status jinja_scope_get(jinja_run *run, const jinja_name *name, jinja_value *out);
/* A scope inside of another one becomes the rendering's; the caller puts the old one back. */
IG_MUST_CHECK ig_status jinja_scope_enter(jinja_run *run, jinja_scope *outer);
/* The same, for the next turn of a loop: the scope of the last one, if no macro keeps it.  NULL: it
 * is the first. */
IG_MUST_CHECK ig_status jinja_scope_next(jinja_run *run, jinja_scope *outer, jinja_scope **last);

/* ---- The tree: jinja_eval.c, jinja_exec.c ---- */

/* Call before a node runs: counts a step and deepens run->nesting, which the caller decrements
 * afterwards. */
IG_MUST_CHECK ig_status jinja_begin(jinja_run *run, const jinja_node *node);
IG_MUST_CHECK ig_status jinja_eval(jinja_run *run, const jinja_node *node, jinja_value *out);
IG_MUST_CHECK ig_status jinja_exec(jinja_run *run, const jinja_node *node);
IG_MUST_CHECK ig_status jinja_apply_filters(jinja_run *run, const jinja_node *filters,
                                            jinja_value of, jinja_value *out);
/* loop(items) of a recursive loop: what its body writes for other items. */
IG_MUST_CHECK ig_status jinja_call_loop(jinja_run *run, const jinja_loop *loop,
                                        const jinja_call *call, jinja_value *out);
/* Runs a block and keeps what it writes. */
IG_MUST_CHECK ig_status jinja_capture(jinja_run *run, const jinja_node *block, jinja_value *out);
/* `caller` is a macro, or MISSING. */
IG_MUST_CHECK ig_status jinja_eval_call(jinja_run *run, const jinja_node *node, jinja_value caller,
                                        jinja_value *out);

#endif
