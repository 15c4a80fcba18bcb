/*
 * report.h - the run report: one JSON object for whoever runs many.
 *
 * The same fields for every command, whether it went well or not: --report writes
 * them to a file, --json puts them beside the command's own result.  The library
 * knows some (ingot/report.h lists all); a command tells the others while it runs,
 * with these functions.  They do nothing where nobody asked for a report.
 */
#ifndef IG_CLI_REPORT_H
#define IG_CLI_REPORT_H

#include <jansson.h>

#include "cli/app/cli.h"
#include "cli/app/output.h"

/* What is known so far.  References are owned. */
typedef struct ig_run {
    json_t *told;            /* by the command; NULL: nothing */
    json_t *contexts;        /* what they said of themselves; NULL: there were none */
    json_t *result;          /* the command's own JSON; NULL: none */
    const ig_ctx *asked;     /* the context that was asked before it closes; NULL: none */
    uint64_t estimate_bytes; /* what it was thought to take; 0: nobody has said */
    double began_ms;         /* since 1970, */
    uint64_t began_ns;       /* and on the monotonic clock */
} ig_run;

void ig_run_begin(ig_run *run); /* now */

/* What the run is about: a model's file, or an architecture. */
void ig_run_model(const ig_cli *cli, const char *name);

/* A stage took so long: `<stage>_ms`, which adds up over calls. */
void ig_run_stage(const ig_cli *cli, const char *stage, double ms);
/* The same for what counts only the first time. */
void ig_run_first(const ig_cli *cli, const char *stage, double ms);

/* Something happened that whoever waits for output sees, so many milliseconds ago. */
void ig_run_event(const ig_cli *cli, const char *event, double ms_ago);

/* A file was written: of what kind ("checkpoint", "plot"), and where. */
void ig_run_wrote(const ig_cli *cli, const char *kind, const char *path);

/* Replaces a file, whole or not at all, by what `print` writes; and says so. */
IG_MUST_CHECK ig_status ig_run_write(const ig_cli *cli, const char *kind, const char *path,
                                     ig_print_fn *print, const void *what);

void ig_run_batch(const ig_cli *cli, int64_t rows); /* that went through the model together */

/* A prompt began with so many tokens that the session held already. */
void ig_run_prefix(const ig_cli *cli, int64_t tokens);

/* The hidden state behind the last token, or whatever vector the model ended with. */
void ig_run_hidden(const ig_cli *cli, const float *hidden, int64_t count);

/* What the run was thought to take, before it began. */
void ig_run_estimate(const ig_cli *cli, uint64_t bytes);

/* What a context says of itself, before things that are part of it are destroyed.  Of others it is
 * asked when they close. */
void ig_run_context(const ig_cli *cli, const ig_ctx *ctx);

/* {mean, std, p50, p95} of some numbers; null where there are none. */
json_t *ig_json_stats(const float *numbers, int64_t count);

/* The command's result for --json, which takes the reference: printed with the report beside it
 * when all is over.  NULL: building it ran out of memory. */
IG_MUST_CHECK ig_status ig_run_result(const ig_cli *cli, json_t *root);

/* Writes the report that was asked for; returns the exit code.  `options` are the command's. */
int ig_run_finish(const ig_cli *cli, const void *options, ig_status status, int code);

#endif
