/*
 * cli.h - the program `ingot`: one cmd_*.c per command.
 *
 * A command is a row: its name, its words for help, its option table, and a
 * function that gets the options filled in.  main.c lists the rows; help, the
 * manual page and the completions are made from them.  Results go to stdout and
 * nothing else does; talk, progress and errors go to stderr.
 */
#ifndef IG_CLI_CLI_H
#define IG_CLI_CLI_H

#include <stdio.h>

#include "cli/app/load_progress.h"
#include "cli/app/opts.h"
#include "cli/app/term.h"
#include "ingot/context.h"

typedef struct ig_command ig_command;

/* What every command is given: how it was called, and where it may write what. */
typedef struct ig_cli {
    const ig_command *const *commands; /* all there are; NULL at the end */
    const ig_command *command;         /* the one that runs; NULL: none yet */
    ig_allocator allocator;            /* for the command and its contexts */
    const struct ig_fault *fault;      /* what the allocator could not give */
    ig_term term;

    /* Common options. */
    bool help, version, json, quiet, verbose, strict;
    const char *report; /* a file; NULL: none */
    bool no_cache, cache_weights, isolate_plugins;
    const char *cache_dir, *precision, *batch_sizes; /* NULL: not said */
    int64_t optimization_level;                      /* 0: not said */
    uint64_t memory_bytes;                           /* 0: no limit */
    int color;                                       /* ig_color */
    ig_compiling compiling;

    int write_errno;    /* of the write to stdout that failed first, where it was noticed */
    struct ig_run *run; /* what is known of the run for its report: report.h */
} ig_cli;

enum { IG_OPTIONS_BYTES = 1024 }; /* no command's options struct is larger */

struct ig_command {
    const char *name;            /* also the name of a link that calls it */
    const char *summary;         /* a line in the list of commands */
    const char *about;           /* paragraphs, with an empty line between */
    const char *const *examples; /* a command line, then what it does; NULL at the end, or none */
    const ig_opt *opts;
    size_t options_bytes; /* of the struct that `opts` fills and `run` is given */
    bool cancels;         /* it asks ig_cli_cancelled() often: SIGINT and SIGTERM are kept for it */
    bool json_lines;      /* --json gives an object a line, the last one with the run report */
    ig_status (*run)(ig_cli *cli, const void *options);
};

#define IG_COMMAND(name) extern const ig_command cmd_##name;
#include "cli/commands.def"

/* -h, -q, -v, --json, --color of every command; --version of the program.  Offsets in ig_cli. */
extern const ig_opt ig_common_opts[], ig_global_opts[];

extern const char *const ig_devices[]; /* what --device takes, besides plugins; NULL at the end */

/* What llama.cpp has and Ingot has not, or has always: no offsets, of no struct. */
extern const ig_opt ig_foreign_opts[];

/* ---- Exit codes ---- */

typedef struct ig_exit_row {
    int code;
    const char *meaning; /* for the manual page */
} ig_exit_row;
extern const ig_exit_row ig_exit_rows[]; /* a NULL meaning at the end */

int ig_exit_code(ig_status status); /* DESIGN: 2 usage, 3 bad file, 4 memory, 5 device, 6 I/O */
const char *ig_error_name(ig_status status); /* "WeightFormat": for programs that sort by it */
const char *
ig_error_hint(ig_status status); /* what a person may do about it; "": nothing general */

/* The last failure in words, without the place in the source unless -v.  Returns `out`. */
enum { IG_ERROR_BYTES = 640 };
const char *ig_cli_error(const ig_cli *cli, char out[IG_ERROR_BYTES]);

/* The same of a run that ended so.  Whoever was stopped hears that, and how far it came where that
 * is known, not which op noticed. */
const char *ig_cli_outcome(const ig_cli *cli, ig_status status, char out[IG_ERROR_BYTES]);

/* Common options that contradict each other. */
IG_MUST_CHECK ig_status ig_cli_check(const ig_cli *cli);

/* Prints what went wrong and what to do next on stderr; returns the exit code. */
int ig_cli_fail(const ig_cli *cli, ig_status status);

/* Writes out what stdout still holds; a closed pipe is 141 without a word, a full disk is 6. */
int ig_cli_finish(const ig_cli *cli, int code);

/* ---- For commands ---- */

/* Options of a context that logs, stops and allocates as the program does. */
ig_ctx_options ig_cli_ctx_options(ig_cli *cli);

/* Whether the user wants it to stop, or nobody reads the output any more. */
bool ig_cli_cancelled(const ig_cli *cli);

/* Sends what was printed so far on its way; why that failed is kept for ig_cli_finish(). */
void ig_cli_flush(ig_cli *cli);

/* A line on stderr, unless -q. */
void ig_cli_say(const ig_cli *cli, const char *fmt, ...) IG_PRINTF(2, 3);

/* Help for a command, or for the program where it is NULL. */
void ig_help_print(const ig_cli *cli, const ig_command *command, FILE *to, bool color);
void ig_man_print(const ig_cli *cli, FILE *to); /* the manual page, as roff */

/* What an option does, with its choices, default and variable: a line of help.  Returns `out`. */
enum { IG_DESCRIPTION_BYTES = 400 };
const char *ig_opt_describe(const ig_opt *opt, char out[IG_DESCRIPTION_BYTES]);

/* "[OPTION...] FILE": what follows the command's name in a usage line.  Returns `out`. */
const char *ig_opts_usage(const ig_opt *opts, char out[IG_DESCRIPTION_BYTES]);

/* A row by its name; NULL: none.  `ig_command_suggest` gives the nearest name instead. */
const ig_command *ig_command_find(const ig_cli *cli, const char *name);
const char *ig_command_suggest(const ig_cli *cli, const char *wrong);

/* A name that says it were another format would deceive who reads it next. */
IG_MUST_CHECK ig_status ig_cli_check_gguf_name(const char *out);

#endif
