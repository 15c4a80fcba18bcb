/*
 * opts.h - options as a table.
 *
 * A command writes down its options once, as rows that say where in its own
 * struct a value goes.  The parser, the help text, the manual page and the shell
 * completions all read that table, so none of them can know an option that the
 * others do not.
 *
 *     --steps 9   --steps=9   -n 9   -n9   -qv (two flags)   -- (what follows is no option)
 */
#ifndef IG_CLI_OPTS_H
#define IG_CLI_OPTS_H

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
    OPT_TEXT,    /* const char *, lent by argv or the table */
    OPT_CHOICE,  /* int, the index among `choices` */
    OPT_TABLE,   /* a struct within the struct, and the rows of `table` for it */
    OPT_MOOT,    /* accepted and without effect: what it asks for is so anyway, `help` says why.
                    Where it has `choices`, one may follow */
    OPT_REFUSED, /* other programs have it; `help` is the error, and says what to do instead */
} ig_opt_kind;

enum {
    OPT_POSITIONAL = 1 << 0, /* an argument without a name, told apart by its place */
    OPT_REQUIRED = 1 << 1,   /* TEXT only: it starts out NULL, so one can tell */
    OPT_REPEAT = 1 << 2,     /* TEXT only: goes to an ig_texts */
    OPT_FILE = 1 << 3,       /* the value is a path: shells complete file names */
    OPT_DIR = 1 << 4,        /* the value is a folder */
    OPT_HIDDEN = 1 << 5,     /* parsed, but not shown */
    OPT_UNSAID = 1 << 6,     /* INT, REAL and CHOICE start as "not said", so one can tell */
    OPT_OUTPUT = 1 << 7,   /* a FILE that is written: its folder must be there, - is no name, and */
    OPT_RENEWED = 1 << 8,  /* no other option may name it, unless both are RENEWED */
    OPT_ONE_OF = 1 << 9,   /* TEXT: nothing but one of `choices` */
    OPT_NUMBERS = 1 << 10, /* TEXT: whole numbers from 1 on, with commas between */
};

/* What an UNSAID option holds that nobody gave: an int64_t this, a double NaN, a choice -1. */
#define IG_UNSAID INT64_MIN

enum { IG_TEXTS_MAX = 32 };
typedef struct ig_texts {
    const char *at[IG_TEXTS_MAX];
    int count;
} ig_texts;

typedef struct ig_opt {
    ig_opt_kind kind;
    char letter;         /* 0: none */
    const char *name;    /* "steps" for --steps; of a positional, what help calls it: "FILE" */
    size_t to;           /* offset of the value in the options struct */
    const char *help;    /* a phrase; starts small, ends without a full stop */
    const char *value;   /* what help calls the value: "N".  NULL for flags and positionals */
    const char *alias;   /* further names, with a space between; accepted with one dash or two */
    const char *initial; /* parsed as if it had been given, and shown in help */
    const char *env;     /* an environment variable that is asked before `initial` */
    const char *const *choices; /* of CHOICE, and for completion of TEXT; NULL at the end */
    double low, high;           /* allowed range of a number, both ends included; equal: any */
    unsigned flags;
    const struct ig_opt *table; /* of TABLE, which has `to` and nothing else; not nested further */
} ig_opt;

/* Goes through a table row by row, those of tables within it in their place:
 *     for (ig_opt_walk w = ig_opts_first(opts); w.opt; w = ig_opts_next(w)) */
typedef struct ig_opt_walk {
    const ig_opt *opt;   /* the row, never a TABLE; NULL: that was all */
    size_t to;           /* offset of its value in the struct of the outer table */
    const ig_opt *outer; /* the TABLE row that it is within; NULL: none */
} ig_opt_walk;
ig_opt_walk ig_opts_first(const ig_opt *opts);
ig_opt_walk ig_opts_next(ig_opt_walk walk);

/* A table and the struct that its offsets are of. */
typedef struct ig_opt_set {
    const ig_opt *opts;
    void *to;
} ig_opt_set;

/*
 * Fills the structs: `initial` first, then the environment, then argv, the later
 * winning.  Without `out_used`, argv[0] on are options and positionals, all of
 * which must be known.  With it, parsing stops at the first positional and the
 * count of arguments before that is written there.  The failure's text names the
 * option, the value and what would have been right.  An OUTPUT that would replace
 * what another option names is a failure, and is taken back: nobody writes to it.
 */
IG_MUST_CHECK ig_status ig_opts_parse(const ig_opt_set *sets, int n_sets, int argc, char **argv,
                                      int *out_used);

/* Whether all REQUIRED ones were given, and an OUTPUT has a folder (IG_ERR_IO, and its value
 * becomes NULL); asked after --help had its turn. */
IG_MUST_CHECK ig_status ig_opts_check(const ig_opt_set *sets, int n_sets);

/* How many edits (a letter more, less, other, or two swapped) lead from one word to the other. */
int ig_edit_distance(const char *a, const char *b);

/* The word nearest to a misspelt one; NULL: none is near.  `words[0..count)`, NULLs skipped. */
const char *ig_nearest(const char *wrong, const char *const *words, int count);

#endif
