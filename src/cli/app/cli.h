/*
 * cli.h - the program `ingot`: one cmd_*.c per command.
 *
 * A command is a row: its name, its help texts, its option table, and a function
 * that gets the parsed options.  commands.def lists the rows; help, the man page
 * and the completions are generated from them.  Only results go to stdout; log
 * messages, progress and errors go to stderr.
 */
#ifndef IG_CLI_APP_CLI_H
#define IG_CLI_APP_CLI_H

#include <stdio.h>

#include "cli/app/load_progress.h"
#include "cli/app/opts.h"
#include "cli/app/term.h"
#include "ingot/context.h"

typedef struct ig_command ig_command;

/* The state every command gets: how it was called, its terminal and allocator. */
typedef struct ig_cli {
    const ig_command *const *commands;  /* all of them; NULL at the end */
    const ig_command *command;          /* the one that runs; NULL: none yet */
    ig_allocator allocator;             /* for the command and its contexts */
    const struct ig_alloc_fault *fault; /* allocations that failed */
    ig_term term;

    /* Common options. */
    bool help, help_all, version, json, quiet, verbose, strict;
    const char *report; /* a path; NULL: none */
    bool no_cache, cache_weights, isolate_plugins, unsafe_device;
    const char *cache_dir, *precision, *batch_sizes; /* NULL: not given */
    int64_t optimization_level;                      /* 0: not given */
    uint64_t memory_bytes;                           /* 0: no limit */
    int color;                                       /* ig_color */
    ig_load_progress compiling;

    int write_errno;    /* of the first failed write to stdout; 0: none */
    struct ig_run *run; /* the run report so far: report_file.h */
} ig_cli;

enum { IG_OPTIONS_BYTES = 1024 }; /* no command's options struct is larger */

struct ig_command {
    const char *name;            /* also works as the name of a symlink to the program */
    const char *summary;         /* a line in the list of commands */
    const char *about;           /* paragraphs, with an empty line between */
    const char *const *examples; /* a command line, then what it does; NULL at the end, or none */
    const ig_opt *opts;
    size_t options_bytes; /* size of the struct that `opts` fills and `run` gets */
    bool cancels; /* polls ig_cli_cancelled(): SIGINT and SIGTERM set a flag instead of killing */
    bool json_lines; /* --json prints one object per line; the last has the run report */
    ig_status (*run)(ig_cli *cli, const void *options);
};

#define IG_COMMAND(name) extern const ig_command cmd_##name;
#include "cli/commands.def"

/* -h, -q, -v, --json, --color of every command; --version of the program.  Offsets in ig_cli. */
extern const ig_opt ig_common_opts[], ig_global_opts[];

const char *ig_device_suggestion(size_t i); /* value i of --device, besides plugins */

/* llama.cpp options that Ingot refuses or ignores: they write to no struct. */
extern const ig_opt ig_llama_opts[];

/* ---- Exit codes ---- */

typedef struct ig_exit_row {
    int code;
    const char *meaning; /* for the manual page */
} ig_exit_row;
extern const ig_exit_row ig_exit_rows[]; /* a NULL meaning at the end */

int ig_exit_code(ig_status status);          /* 2 usage, 3 bad file, 4 memory, 5 device, 6 I/O */
const char *ig_error_name(ig_status status); /* "WeightFormat", for programs */
const char *ig_error_hint(ig_status status); /* a hint for the user; "": none */

/* The text of the last error, without its source line unless -v.  Returns `out`. */
enum { IG_ERROR_BYTES = 640 };
const char *ig_cli_error(const ig_cli *cli, char out[IG_ERROR_BYTES]);

/* As above, for the end of a run. A cancelled run reports that it was stopped and, if known, its
 * progress, but not the op that noticed. */
const char *ig_cli_outcome(const ig_cli *cli, ig_status status, char out[IG_ERROR_BYTES]);

/* Refuses common options that contradict each other. */
IG_MUST_CHECK ig_status ig_cli_check(const ig_cli *cli);

/* Prints the error and a hint on stderr; returns the exit code. */
int ig_cli_fail(const ig_cli *cli, ig_status status);

/* Flushes stdout; a closed pipe is 141 without a message, a full disk is 6. */
int ig_cli_finish(const ig_cli *cli, int code);

/* ---- For commands ---- */

/* Context options with the program's logging, cancellation and allocator. */
ig_ctx_options ig_cli_ctx_options(ig_cli *cli);

/* Whether a signal asked the run to stop, or the reader of stdout is gone. */
bool ig_cli_cancelled(const ig_cli *cli);

/* Flushes stdout; the errno of a failure is kept for ig_cli_finish(). */
void ig_cli_flush(ig_cli *cli);

/* A line on stderr, unless -q. */
void ig_cli_say(const ig_cli *cli, const char *fmt, ...) IG_PRINTF(2, 3);

/* Help for a command; NULL: for the program. */
void ig_help_print(const ig_cli *cli, const ig_command *command, FILE *to, bool color);
void ig_man_print(const ig_cli *cli, FILE *to); /* the manual page, as roff */

/* An option's help line: its text, choices, default and environment variable.  Returns `out`. */
enum { IG_DESCRIPTION_BYTES = 400 };
const char *ig_opt_describe(const ig_opt *opt, char out[IG_DESCRIPTION_BYTES]);

/* "[OPTION...] FILE", the end of a usage line.  Returns `out`. */
const char *ig_opts_usage(const ig_opt *opts, char out[IG_DESCRIPTION_BYTES]);

/* A row by its name; NULL: none.  `ig_command_suggest` returns the nearest name instead. */
const ig_command *ig_command_find(const ig_cli *cli, const char *name);
const char *ig_command_suggest(const ig_cli *cli, const char *wrong);

/* Refuses output names with the extension of another format. */
IG_MUST_CHECK ig_status ig_cli_check_gguf_name(const char *out);

#endif
