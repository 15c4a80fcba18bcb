/*
 * opts.h - options as a table.
 *
 * A command lists its options once, as rows with the offset of the value in the
 * command's own struct.  The parser, --help, the man page and the shell completions
 * all read that table, so they always agree.
 *
 *     --steps 9   --steps=9   -n 9   -n9   -qv (two flags)   -- (end of options)
 */
#ifndef IG_CLI_APP_OPTS_H
#define IG_CLI_APP_OPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ingot/status.h"

typedef enum ig_opt_kind {
    OPT_END,
    OPT_FLAG,    /* bool */
    OPT_INT,     /* int64_t */
    OPT_BYTES,   /* uint64_t; 64K and 64KiB are 65536, 64KB is 64000 */
    OPT_REAL,    /* double */
    OPT_TEXT,    /* const char *, borrowed from argv or the table */
    OPT_CHOICE,  /* int, the index among `choices` */
    OPT_TABLE,   /* a struct within the struct, and the rows of `table` for it */
    OPT_IGNORED, /* accepted without effect, because Ingot always behaves so; `help` says why.
                    If it has `choices`, one may follow */
    OPT_REFUSED, /* an option of another program; `help` is the error and names an alternative */
} ig_opt_kind;

enum {
    OPT_POSITIONAL = 1 << 0, /* an argument without a name, identified by its position */
    OPT_REQUIRED = 1 << 1,   /* TEXT only, which starts as NULL */
    OPT_REPEAT = 1 << 2,     /* TEXT only: goes to an ig_texts */
    OPT_FILE = 1 << 3,       /* the value is a path: shells complete file names */
    OPT_DIR = 1 << 4,        /* the value is a folder */
    OPT_HIDDEN = 1 << 5,     /* parsed, but not shown */
    OPT_NO_DEFAULT = 1 << 6, /* INT, REAL and CHOICE start as IG_NOT_GIVEN, NaN and -1 */
    OPT_OUTPUT = 1 << 7,  /* a FILE to write: its folder must exist, "-" is refused, and no other */
    OPT_RENEWED = 1 << 8, /* option may name the same file, unless both are RENEWED */
    OPT_ONE_OF = 1 << 9,  /* TEXT: only one of `choices` */
    OPT_FIRST = 1 << 11,  /* --help shows it also where a command has many options */
    OPT_NUMBERS = 1 << 10, /* TEXT: comma-separated integers >= 1 */
};

/* Where a value came from. */
typedef enum ig_opt_source {
    OPT_FROM_NOWHERE, /* there is none */
    OPT_FROM_INITIAL,
    OPT_FROM_ENV,
    OPT_FROM_ARGV,
} ig_opt_source;

/* The int64_t of a NO_DEFAULT option that was not given (a double: NaN, a choice: -1). */
#define IG_NOT_GIVEN INT64_MIN

enum { IG_TEXTS_MAX = 32 };
typedef struct ig_texts {
    const char *at[IG_TEXTS_MAX];
    int count;
} ig_texts;

typedef struct ig_opt {
    ig_opt_kind kind;
    char letter;       /* 0: none */
    const char *name;  /* "steps" for --steps; of a positional its name in help: "FILE" */
    size_t to;         /* offset of the value in the options struct */
    const char *help;  /* a phrase in lower case, without a full stop */
    const char *value; /* placeholder of the value in help: "N".  NULL for flags and positionals */
    const char *alias; /* more names, separated by spaces; accepted with one dash or two */
    const char *initial;        /* parsed as if it had been given, and shown in help */
    const char *default_help;   /* the default that help shows, where `initial` is not it */
    const char *env;            /* an environment variable that overrides `initial` */
    const char *const *choices; /* of CHOICE, and for completion of TEXT; NULL at the end */
    const char *(*suggestion)(size_t i); /* instead, of TEXT: number i; NULL: no more */
    size_t source;    /* offset of an ig_opt_source, which is not the first member; 0: none */
    double low, high; /* allowed range of a number, both ends included; equal: any */
    unsigned flags;
    const struct ig_opt *table; /* of TABLE, which has only `to`; one level of nesting */
} ig_opt;

/* Walks a table row by row, with the rows of nested tables in their place:
 *     for (ig_opt_walk w = ig_opts_first(opts); w.opt; w = ig_opts_next(w)) */
typedef struct ig_opt_walk {
    const ig_opt *opt;   /* the row, never a TABLE; NULL: the end */
    size_t to;           /* offset of its value in the struct of the outer table */
    const ig_opt *outer; /* the TABLE row that contains it; NULL: none */
} ig_opt_walk;
ig_opt_walk ig_opts_first(const ig_opt *opts);
ig_opt_walk ig_opts_next(ig_opt_walk walk);

/* Choice or suggestion i, for help and completion; NULL: no more. */
const char *ig_opt_word(const ig_opt *opt, size_t i);

/* A table and the struct that its offsets refer to. */
typedef struct ig_opt_set {
    const ig_opt *opts;
    void *to;
} ig_opt_set;

/*
 * Fills the structs: `initial` first, then the environment, then argv; the last one
 * wins.  Without `out_used`, all of argv must be known options and positionals.
 * With it, parsing stops at the first positional and writes the number of arguments
 * before it.  The error names the option, the value and the expected values.  An
 * OUTPUT that would replace a file that another option names is an error, and its
 * value becomes NULL, so that the file stays as it is.
 */
IG_MUST_CHECK ig_status ig_opts_parse(const ig_opt_set *sets, int n_sets, int argc, char **argv,
                                      int *out_used);

/* Checks that all REQUIRED options were given and that the folder of every OUTPUT exists
 * (otherwise IG_ERR_IO, and its value becomes NULL).  Call it after handling --help. */
IG_MUST_CHECK ig_status ig_opts_check(const ig_opt_set *sets, int n_sets);

/* Edit distance: letters inserted, deleted, replaced, or two neighbors swapped. */
int ig_edit_distance(const char *a, const char *b);

/* The word nearest to a misspelled one; NULL: none is near.  `words[0..count)`, NULLs skipped. */
const char *ig_nearest(const char *wrong, const char *const *words, int count);

#endif
