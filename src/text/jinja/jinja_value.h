/*
 * jinja_value.h - what templates compute with: Python's values, as far as they show.
 *
 * All memory is of the rendering's arena.  Strings never change, so parts of one lie
 * in its bytes; lists and dicts do change, and are shared as Python shares them.
 *
 * A string's marks say byte by byte who wrote it.  Most are of one writer, and have
 * none.
 */
#ifndef IG_TEXT_JINJA_JINJA_VALUE_H
#define IG_TEXT_JINJA_JINJA_VALUE_H

#include "text/jinja/jinja_arena.h"

/* Bytes of the template that name something. */
typedef struct jinja_name {
    const char *bytes;
    size_t n_bytes;
} jinja_name;

bool jinja_name_is(jinja_name name, const char *text);
bool jinja_name_same(jinja_name a, jinja_name b);
/* For "%.*s" in messages, which show at most 64 bytes. */
#define JINJA_SHOW(name) (int)((name).n_bytes < 64 ? (name).n_bytes : 64), (name).bytes

typedef struct jinja_builder jinja_builder;

typedef struct jinja_string {
    const char *bytes;
    const char *marks; /* [n_bytes], 1: given by the caller; NULL: all as `given` */
    size_t n_bytes;
    bool given;
    bool markup;            /* HTML that is safe already, as |safe says: what joins it is escaped */
    jinja_builder *builder; /* that it is all of, or was when it was made; or NULL */
} jinja_string;

typedef enum jinja_value_kind {
    JINJA_V_MISSING,   /* an argument that was not given */
    JINJA_V_UNDEFINED, /* a name that is not set */
    JINJA_V_NONE,
    JINJA_V_BOOL,
    JINJA_V_INTEGER,
    JINJA_V_REAL,
    JINJA_V_STRING,
    JINJA_V_LIST,
    JINJA_V_TUPLE,
    JINJA_V_SERIES, /* what can be gone through, but is no list */
    JINJA_V_DICT,
    JINJA_V_NAMESPACE,
    JINJA_V_MACRO,
    JINJA_V_FUNCTION, /* of the engine; `self` of a method is bound to it */
    JINJA_V_LOOP,
    JINJA_V_CYCLER, /* cycler(a, b): a series whose `used` is where it stands */
    JINJA_V_JOINER, /* joiner(text): a series of it, used once it has been called */
} jinja_value_kind;

typedef struct jinja_list jinja_list;
typedef struct jinja_series jinja_series;
typedef struct jinja_dict jinja_dict;
typedef struct jinja_macro jinja_macro;
typedef struct jinja_bound jinja_bound;
typedef struct jinja_loop jinja_loop;

typedef struct jinja_value {
    jinja_value_kind kind;
    bool given; /* by the caller: its digits are not the template's */
    union {
        int64_t integer; /* of a BOOL 0 or 1 */
        double real;
        const jinja_string *string;
        jinja_list *list; /* of a TUPLE too */
        jinja_series *series;
        jinja_dict *dict; /* of a NAMESPACE too */
        const jinja_macro *macro;
        const jinja_bound *bound;
        jinja_loop *loop;
        const jinja_name *name; /* of what is not defined; NULL: it has none */
    };
} jinja_value;

struct jinja_list {
    jinja_value *at;
    size_t count, room;
    bool is_group; /* the tuple of groupby, whose items have names */
};

typedef enum jinja_series_kind {                  /* the first two can be gone through once */
                                 JINJA_GENERATOR, /* of map, select, ... */
                                 JINJA_REVERSED,
                                 JINJA_KEYS,
                                 JINJA_VALUES,
                                 JINJA_ITEMS,
                                 JINJA_RANGE,
} jinja_series_kind;

struct jinja_series {
    jinja_series_kind kind;
    const jinja_list *items;
    size_t used;         /* items of a generator that are gone */
    int64_t begin, step; /* of a RANGE */
    int64_t end;
};

typedef struct jinja_pair {
    jinja_value key, value;
} jinja_pair;

struct jinja_dict { /* in the order in which keys came */
    jinja_pair *at;
    size_t count, room;
};

static inline jinja_value jinja_integer(int64_t x) {
    return (jinja_value){.kind = JINJA_V_INTEGER, .integer = x};
}
static inline jinja_value jinja_real(double x) {
    return (jinja_value){.kind = JINJA_V_REAL, .real = x};
}
static inline jinja_value jinja_bool(bool x) {
    return (jinja_value){.kind = JINJA_V_BOOL, .integer = x};
}
static inline jinja_value jinja_none(void) { return (jinja_value){.kind = JINJA_V_NONE}; }
static inline jinja_value jinja_undefined(const jinja_name *name) {
    return (jinja_value){.kind = JINJA_V_UNDEFINED, .name = name};
}

static inline bool jinja_is(jinja_value v, jinja_value_kind kind) { return v.kind == kind; }
static inline bool jinja_is_whole(jinja_value v) { /* a number without a fraction */
    return v.kind == JINJA_V_INTEGER || v.kind == JINJA_V_BOOL;
}
static inline bool jinja_is_number(jinja_value v) {
    return jinja_is_whole(v) || v.kind == JINJA_V_REAL;
}
static inline bool jinja_is_list(jinja_value v) {
    return v.kind == JINJA_V_LIST || v.kind == JINJA_V_TUPLE;
}
static inline double jinja_as_real(jinja_value v) { /* of a number */
    return v.kind == JINJA_V_REAL ? v.real : (double)v.integer;
}

static inline bool jinja_is_once(jinja_value v) { /* a series that is used up */
    return v.kind == JINJA_V_SERIES && v.series->kind <= JINJA_REVERSED;
}

const char *jinja_type_name(jinja_value v); /* for messages: "a list" */
bool jinja_truth(jinja_value v);

#endif
