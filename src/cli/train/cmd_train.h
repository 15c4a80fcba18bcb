/*
 * cmd_train.h - shared by the parts of `ingot train`.
 *
 *     cmd_train.c         the options, and the top-level sequence
 *     cmd_train_setup.c   settings, the model, the data, an estimate of memory
 *     cmd_train_loop.c    steps, evaluations, samples, checkpoints
 *     cmd_train_report.c  the progress line, the log, the curves, the result
 *     train_files.c       the loss history of a checkpoint, the lock of the output
 */
#ifndef IG_CLI_TRAIN_CMD_TRAIN_H
#define IG_CLI_TRAIN_CMD_TRAIN_H

#include <limits.h>

#include <jansson.h>

#include "base/alloc.h"
#include "cli/app/cli.h"
#include "cli/app/progress.h"
#include "cli/train/train_routes.h"
#include "cli/view/plan_view.h"
#include "ingot/data.h"
#include "ingot/model.h"

/* Options as given; an unset number is IG_NOT_GIVEN or NaN (opts.h), an unset string NULL. */
typedef struct train_options {
    const char *arch, *plugin, *tokenizer, *out, *resume, *log, *plot, *trace, *device, *time,
        *prompt, *dtype;
    ig_texts data, more_data;
    int64_t d_model, layers, heads, kv_heads, d_ff, ctx;
    int64_t batch, accumulate, steps, warmup, seed, threads;
    int64_t eval_every, sample_every, save_every;
    double epochs, rate, min_rate, weight_decay, clip, val_split;
    int schedule, mode, route;
} train_options;

typedef enum train_schedule { TRAIN_CONSTANT, TRAIN_LINEAR, TRAIN_COSINE } train_schedule;

/* Settings that affect results; saved with the model and restored by --resume. */
typedef struct train_settings {
    int64_t batch, accumulate, warmup, schedule;
    ig_dtype dtype;
    int64_t steps;          /* total; 0: epochs or seconds set the length */
    double epochs, seconds; /* 0: not given */
    double rate, min_rate, weight_decay, clip, val_split;
} train_settings;

typedef struct train_curve {
    double *step, *loss;
    size_t count, step_room, loss_room;
} train_curve;

typedef struct trainer {
    ig_cli *cli;
    const train_options *options;
    const char *paths[2 * IG_TEXTS_MAX]; /* of the training data */
    size_t n_paths;
    train_settings settings;
    train_route route;
    char out[PATH_MAX];

    ig_ctx *ctx;
    ig_adapter *adapter;
    ig_data *data;
    int64_t ctx_len;
    int64_t total;      /* total steps; with --time, an estimate that improves */
    int64_t first_step; /* of this run, 0-based */
    int32_t *tokens;    /* [batch, ctx + 1] */

    /* Progress so far. */
    int64_t step;          /* updates, including earlier runs */
    int64_t saved_step;    /* the step saved in `out`; -1: none from this run */
    int64_t finite_step;   /* newest step whose weights are known to give a finite loss */
    double seconds_before; /* of earlier runs */
    double began, step_seconds;
    int64_t tokens_seen, tokens_before;       /* total; in earlier runs */
    double first_loss, loss, rate_now, speed; /* speed: recent tok/s */
    double val_loss, bits_per_byte;           /* NaN: never evaluated */
    int64_t val_bytes;
    uint64_t estimate_bytes;

    train_curve curve, val_curve;
    ig_meter meter;
    FILE *log;     /* NULL: none */
    int log_errno; /* why the log is incomplete; 0: it is not */
    int lock;      /* of `out`; 0: none */
    char lock_path[PATH_MAX];
    json_t *profile; /* NULL: none yet */
    plan_view view;  /* the plan of the profile */
} trainer;

/* Time spent in this run and earlier ones. */
static inline double train_seconds(const trainer *t) {
    return t->seconds_before + ig_clock_seconds() - t->began;
}

extern const char *const train_schedules[], *const train_modes[];

/* ---- cmd_train_setup.c ---- */

/* Creates or loads everything the loop needs; the trainer's owner frees it. */
IG_MUST_CHECK ig_status train_setup(trainer *t);
/* Options for one ig_adapter_train() of the current step; `last`: the call that updates. */
ig_train_options train_call_options(const trainer *t, bool last);
/* Settings and progress as JSON text, allocated by malloc(); NULL: out of memory. */
char *train_progress_text(const trainer *t);

/* ---- train_files.c ---- */

/* The loss history, for the checkpoint's progress; NULL: out of memory. */
json_t *train_history_json(const trainer *t);
IG_MUST_CHECK ig_status train_restore_history(trainer *t, const json_t *progress);
IG_MUST_CHECK ig_status train_add_point(const trainer *t, train_curve *curve, double step,
                                        double loss);

/* Refuses an output that another running training writes; train_unlock() or the end of the process
 * releases the lock. */
IG_MUST_CHECK ig_status train_lock(trainer *t);
void train_unlock(trainer *t);

/* ---- cmd_train_loop.c ---- */

/* train_begin() starts the clock; train_tick() runs one step with its evaluations and saves, and
 * sets `done` after the last one or after a signal; train_finish() saves, and fails with
 * IG_ERR_CANCELLED after a signal. */
void train_begin(trainer *t);
IG_MUST_CHECK ig_status train_tick(trainer *t, bool *done);
IG_MUST_CHECK ig_status train_finish(trainer *t);
/* The learning rate of step `step` of `total`; `share` is the elapsed fraction of --time. */
double train_rate(const train_settings *s, int64_t step, int64_t total, double share);

/* ---- cmd_train_report.c ---- */

IG_MUST_CHECK ig_status train_log_open(trainer *t);
IG_MUST_CHECK ig_status train_log_close(trainer *t); /* reports a write error */
/* Records a step's loss for the curve and reports it on the progress line and in the log. */
IG_MUST_CHECK ig_status train_tell_step(trainer *t);
IG_MUST_CHECK ig_status train_tell_evaluation(trainer *t);
void train_tell_sample(trainer *t, const char *prompt, const char *text);
/* Ends the progress line, so that other text can follow; finally, with the last step. */
void train_end_line(trainer *t);
void train_tell_end(trainer *t);
/* Writes the curves and the trace, if requested. */
IG_MUST_CHECK ig_status train_write_files(trainer *t);
IG_MUST_CHECK ig_status train_print_result(const trainer *t);

#endif
