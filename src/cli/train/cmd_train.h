/*
 * cmd_train.h - what the parts of `ingot train` share.
 *
 *     cmd_train.c         the options, and the order of things
 *     cmd_train_setup.c   settings, the model, the data, an estimate of memory
 *     cmd_train_loop.c    steps, evaluations, samples, checkpoints
 *     cmd_train_report.c  the line while it runs, the log, the curves, the result
 */
#ifndef IG_CLI_CMD_TRAIN_H
#define IG_CLI_CMD_TRAIN_H

#include <limits.h>

#include <jansson.h>

#include "cli/app/cli.h"
#include "cli/data.h"
#include "cli/view/plan_view.h"
#include "cli/app/progress.h"

/* As they were given; a number that was not is UNSAID (opts.h), a text NULL. */
typedef struct train_options {
    const char *arch, *tokenizer, *out, *resume, *log, *plot, *trace, *device, *time, *prompt,
        *dtype;
    ig_texts data, more_data;
    int64_t d_model, layers, heads, kv_heads, d_ff, ctx;
    int64_t batch, accumulate, steps, warmup, seed, threads;
    int64_t eval_every, sample_every, save_every;
    double epochs, rate, min_rate, weight_decay, clip, val_split;
    int schedule, mode;
} train_options;

typedef enum train_schedule { TRAIN_CONSTANT, TRAIN_LINEAR, TRAIN_COSINE } train_schedule;

/* What decides which numbers come out; saved with the model, so that --resume has them again. */
typedef struct train_settings {
    int64_t batch, accumulate, warmup, schedule;
    ig_dtype dtype;
    int64_t steps;          /* in all; 0 where epochs or seconds say how long */
    double epochs, seconds; /* 0: not said */
    double rate, min_rate, weight_decay, clip, val_split;
} train_settings;

typedef struct train_curve {
    double *step, *loss;
    size_t count, step_room, loss_room;
} train_curve;

typedef struct trainer {
    ig_cli *cli;
    const train_options *options;
    const char *paths[2 * IG_TEXTS_MAX]; /* of the data */
    size_t n_paths;
    train_settings settings;
    char out[PATH_MAX];

    ig_ctx *ctx;
    ig_adapter *adapter;
    ig_data *data;
    int64_t ctx_len;
    int64_t total;      /* steps in all; by time, a guess that gets better */
    int64_t first_step; /* of this run, counted from 0 */
    int32_t *tokens;    /* [batch, ctx + 1] */

    /* So far. */
    int64_t step;          /* updates done, those of earlier runs included */
    int64_t saved_step;    /* that the file `out` holds; -1: none of ours */
    int64_t finite_step;   /* the weights of this step were used, and gave a number */
    double seconds_before; /* of earlier runs */
    double began, step_seconds;
    int64_t tokens_seen, tokens_before;       /* in all; of earlier runs */
    double first_loss, loss, rate_now, speed; /* tokens a second, of late */
    double val_loss, bits_per_byte;           /* NaN: never evaluated */
    int64_t val_bytes;
    uint64_t estimate_bytes;

    train_curve curve, val_curve;
    ig_meter meter;
    FILE *log;       /* NULL: none */
    json_t *profile; /* NULL: none yet */
    plan_view view;  /* of the plan that it is of */
} trainer;

/* Of this run and earlier ones. */
static inline double train_seconds(const trainer *t) {
    return t->seconds_before + ig_clock_seconds() - t->began;
}

extern const char *const train_schedules[], *const train_modes[];

/* ---- cmd_train_setup.c ---- */

/* Makes or loads all that the loop needs.  What was made is freed by whoever owns the trainer. */
IG_MUST_CHECK ig_status train_setup(trainer *t);
/* The settings and how far it is, as a JSON text of the C library's; NULL: no memory. */
char *train_progress_text(const trainer *t);

/* ---- cmd_train_loop.c ---- */

/* Starts the clock; then a step, with what is due after it, until that was the last or a signal
 * came; then the last save, which fails with IG_ERR_CANCELLED and its words where a signal was why.
 */
void train_begin(trainer *t);
IG_MUST_CHECK ig_status train_tick(trainer *t, bool *done);
IG_MUST_CHECK ig_status train_finish(trainer *t);
/* The rate of step `step`, of `total`; `share` of the time is gone where it goes by time. */
double train_rate(const train_settings *s, int64_t step, int64_t total, double share);

/* ---- cmd_train_report.c ---- */

IG_MUST_CHECK ig_status train_log_open(trainer *t);
IG_MUST_CHECK ig_status train_log_close(trainer *t); /* says what could not be written */
/* Keeps a step's loss for the curve, and tells of it on the line and in the log. */
IG_MUST_CHECK ig_status train_tell_step(trainer *t);
IG_MUST_CHECK ig_status train_tell_evaluation(trainer *t);
void train_tell_sample(trainer *t, const char *prompt, const char *text);
/* Ends the line while it runs, so that other text may follow; and for good, with the last step. */
void train_end_line(trainer *t);
void train_tell_end(trainer *t);
/* Writes the curves and the trace, if they were asked for. */
IG_MUST_CHECK ig_status train_write_files(trainer *t);
IG_MUST_CHECK ig_status train_print_result(const trainer *t);

#endif
