/*
 * report_file.h - the run report: one JSON object per run.
 *
 * Every command has the same fields, failed or not: --report writes them to a file,
 * --json merges them into the command's own result.  The library fills some
 * (ingot/report.h lists all); a command adds the others while it runs, with these
 * functions.  They do nothing without --json or --report.  docs/telemetry.md
 * documents every field.
 */
#ifndef IG_CLI_APP_REPORT_FILE_H
#define IG_CLI_APP_REPORT_FILE_H

#include <jansson.h>

#include "cli/app/cli.h"
#include "cli/app/output.h"

/* The report so far.  References are owned. */
typedef struct ig_run {
    json_t *told;                /* fields set by the command; NULL: none */
    json_t *contexts;            /* merged reports of the contexts; NULL: none */
    json_t *result;              /* the command's own JSON; NULL: none */
    const ig_ctx *asked;         /* a context that was merged before it closes; NULL: none */
    bool lost;                   /* a context's report had no memory */
    unsigned long json_failures; /* ig_json_failures() at the beginning */
    uint64_t estimate_bytes;     /* estimated memory; 0: no estimate */
    double began_ms;             /* since the epoch, */
    uint64_t began_ns;           /* and on the monotonic clock */
} ig_run;

void ig_run_begin(ig_run *run); /* now */

/* The model of the run: a file or an architecture. */
void ig_run_model(const ig_cli *cli, const char *name);

/* The time of a stage, `<stage>_ms`; calls add up. */
void ig_run_stage(const ig_cli *cli, const char *stage, double ms);
/* The same; only the first call counts. */
void ig_run_first(const ig_cli *cli, const char *stage, double ms);

/* An event that the user could observe, `ms_ago` milliseconds ago. */
void ig_run_event(const ig_cli *cli, const char *event, double ms_ago);

/* A file was written; `kind` is "checkpoint", "plot" and so on. */
void ig_run_wrote(const ig_cli *cli, const char *kind, const char *path);

/* Replaces a file atomically with the output of `print`, and records it. */
IG_MUST_CHECK ig_status ig_run_write(const ig_cli *cli, const char *kind, const char *path,
                                     ig_print_fn *print, const void *what);

void ig_run_batch(const ig_cli *cli, int64_t rows); /* rows per forward pass */

/* Tokens of a prompt that the session's KV cache had already. */
void ig_run_prefix(const ig_cli *cli, int64_t tokens);

/* The hidden state after the last token, or the model's final vector. */
void ig_run_hidden(const ig_cli *cli, const float *hidden, int64_t count);

/* The memory estimate made before the run. */
void ig_run_estimate(const ig_cli *cli, uint64_t bytes);

/* Merges a context's report before its parts are destroyed.  Other contexts are merged when they
 * close. */
void ig_run_context(const ig_cli *cli, const ig_ctx *ctx);

/* {mean, std, p50, p95} of `count` numbers; null if there are none. */
json_t *ig_json_stats(const float *numbers, int64_t count);

/* The command's result for --json; takes the reference.  It is printed with the report at the end.
 * NULL: building it ran out of memory. */
IG_MUST_CHECK ig_status ig_run_result(const ig_cli *cli, json_t *root);

/* Writes the requested report; returns the exit code.  `options` is the command's struct. */
int ig_run_finish(const ig_cli *cli, const void *options, ig_status status, int code);

#endif
