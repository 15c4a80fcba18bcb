/*
 * The training loop: steps, and periodic evaluations, samples and checkpoints.
 *
 * Weights are saved only after they gave a finite loss, so a file never contains the step that
 * broke them. Signals are checked between steps; then the full state of the last step is saved,
 * including its position in the text.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/app/output.h"
#include "cli/app/report_file.h"
#include "cli/app/signals.h"
#include "cli/train/cmd_train.h"
#include "ingot/report.h"

enum {
    EVAL_BATCHES = 8,
    SAMPLE_TOKENS = 64,
    PROMPT_BYTES = 24, /* taken from the text if none is given */
    TRACE_AFTER = 4,   /* steps of a run: the step is recorded by then */
    TRACE_STEPS = 3,
    TRACE_EVENTS = 1 << 18,
};

static const double least_rate = 1e-30; /* a learning rate of 0 would select the default */

double train_rate(const train_settings *s, int64_t step, int64_t total, double share) {
    if (step < s->warmup) return s->rate * (double)(step + 1) / (double)s->warmup;
    const double falling = (double)(total - s->warmup);
    double done = s->seconds > 0 ? share : falling > 0 ? (double)(step - s->warmup) / falling : 1;
    if (done > 1) done = 1;
    double rate = s->rate;
    if (s->schedule == TRAIN_LINEAR) rate = s->min_rate + (s->rate - s->min_rate) * (1 - done);
    if (s->schedule == TRAIN_COSINE)
        rate = s->min_rate + (s->rate - s->min_rate) * 0.5 * (1 + cos(M_PI * done));
    return rate > least_rate ? rate : least_rate;
}

/* ---- A loss that is not finite ---- */

/* The library's error says which op broke; adds the step and which checkpoint is left. */
static ig_status stop_at_nan(const trainer *t, const char *when, int64_t step) {
    char words[IG_ERROR_BYTES], kept[PATH_MAX + 64] = "nothing was saved before";
    if (t->saved_step >= 0)
        snprintf(kept, sizeof kept, "%s still holds step %lld", t->out, (long long)t->saved_step);
    else if (t->options->resume)
        snprintf(kept, sizeof kept, "%s is unchanged", t->options->resume);
    return IG_FAIL(IG_ERR_NOT_FINITE,
                   "%s %lld of %lld: %s; %s. A smaller --lr or --clip, or a longer --warmup may "
                   "help",
                   when, (long long)step, (long long)t->total, ig_cli_error(t->cli, words), kept);
}

/* ---- Evaluation ---- */

/* Row `i` of `count` rows spread evenly over the validation text. */
static ig_status read_row(trainer *t, int64_t i, int64_t count, int32_t *to) {
    IG_TRY(ig_data_validation(t->data, i * ig_data_val_windows(t->data) / count, to));
    t->val_bytes += (int64_t)ig_detokenize(ig_adapter_tokenizer(t->adapter), to + 1,
                                           (size_t)t->ctx_len, 0, NULL, 0);
    return IG_OK;
}

/* Mean loss over some batches of validation text. */
static ig_status evaluate(trainer *t) {
    const int64_t windows = ig_data_val_windows(t->data), row = t->ctx_len + 1;
    const int64_t batch = windows < t->settings.batch ? windows : t->settings.batch;
    const int64_t fit = windows / batch, batches = fit < EVAL_BATCHES ? fit : EVAL_BATCHES;
    double sum = 0;
    int64_t rows = 0;
    t->val_bytes = 0;
    for (int64_t b = 0; b < batches && (b == 0 || !ig_cli_cancelled(t->cli)); b++) {
        double loss;
        for (int64_t i = 0; i < batch; i++)
            IG_TRY(read_row(t, rows++, batches * batch, t->tokens + i * row));
        IG_TRY(ig_adapter_evaluate(t->adapter, t->tokens, batch, t->ctx_len, &loss));
        sum += loss * (double)batch;
    }
    t->val_loss = sum / (double)rows;
    const double nats = sum * (double)t->ctx_len;
    t->bits_per_byte = t->val_bytes > 0 ? nats / (log(2) * (double)t->val_bytes) : NAN;
    return IG_OK;
}

static ig_status evaluate_and_tell(trainer *t) {
    if (ig_data_val_windows(t->data) == 0) return IG_OK;
    const ig_status status = evaluate(t);
    if (status == IG_ERR_NOT_FINITE) return stop_at_nan(t, "validation at step", t->step);
    IG_TRY(status);
    t->finite_step = t->step;
    return train_tell_evaluation(t);
}

/* ---- Samples ---- */

typedef struct sample {
    const trainer *trainer;
    char text[8 * SAMPLE_TOKENS];
    size_t used;
} sample;

static bool keep_text(void *user, const char *text, size_t bytes) {
    sample *s = user;
    const size_t room = sizeof s->text - 1 - s->used, n = bytes < room ? bytes : room;
    memcpy(s->text + s->used, text, n);
    s->used += n;
    return n == bytes && !ig_cli_cancelled(s->trainer->cli);
}

/* The first words of the text; half of the context stays free for the continuation. */
static ig_status choose_prompt(trainer *t, char out[PROMPT_BYTES + 1]) {
    const size_t half = (size_t)t->ctx_len / 2, most = half < PROMPT_BYTES ? half : PROMPT_BYTES;
    ig_string_view text;
    IG_TRY(ig_data_sample(t->data, most, &text));
    size_t n = text.n_bytes;
    memcpy(out, text.bytes, n);
    size_t space = n;
    while (space > 0 && out[space - 1] != ' ') space--;
    if (space > 1) n = space - 1;
    out[n] = 0;
    return IG_OK;
}

static ig_status write_sample(trainer *t) {
    char begin[PROMPT_BYTES + 1];
    const char *prompt = t->options->prompt;
    if (!prompt) {
        IG_TRY(choose_prompt(t, begin));
        prompt = begin;
    }
    sample s = {.trainer = t};
    const ig_generate_options options = {.prompt = prompt,
                                         .prompt_bytes = strlen(prompt),
                                         .max_tokens = SAMPLE_TOKENS,
                                         .sampling = {.seed = (uint64_t)t->step},
                                         .emit = keep_text,
                                         .user = &s};
    ig_generated unused;
    IG_TRY(ig_adapter_generate(t->adapter, &options, &unused));
    train_tell_sample(t, prompt, s.text);
    return IG_OK;
}

/* ---- Checkpoints ---- */

/* An update may break the weights although its loss was finite: checks them. */
static ig_status check_weights(trainer *t) {
    if (t->finite_step == t->step || t->step == t->first_step) return IG_OK;
    const ig_status status =
        ig_adapter_evaluate(t->adapter, t->tokens, t->settings.batch, t->ctx_len, NULL);
    if (status == IG_ERR_NOT_FINITE) return stop_at_nan(t, "after step", t->step);
    IG_TRY(status);
    t->finite_step = t->step;
    return IG_OK;
}

static ig_status save(trainer *t) {
    IG_TRY(check_weights(t));
    char *progress = train_progress_text(t);
    if (!progress) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for its progress", t->out);
    const ig_status status = ig_adapter_save(t->adapter, t->out, progress);
    free(progress);
    if (status == IG_OK) {
        t->saved_step = t->step;
        ig_run_wrote(t->cli, "checkpoint", t->out);
    }
    return status;
}

/* A failed save during the run is a warning: the next one may succeed. */
static ig_status save_within(trainer *t) {
    const ig_status status = save(t);
    if (status != IG_ERR_IO) return status;
    char words[IG_ERROR_BYTES];
    train_end_line(t);
    ig_cli_say(t->cli, "warning: step %lld is not saved: %s", (long long)t->step,
               ig_cli_error(t->cli, words));
    return IG_OK;
}

/* ---- Steps ---- */

static ig_status watch(trainer *t) {
    const int64_t done = t->step - t->first_step;
    const int64_t left = t->total - t->first_step;
    const int64_t after = left > TRACE_AFTER + TRACE_STEPS ? TRACE_AFTER : 0;
    if (!t->options->trace || t->profile) return IG_OK;
    if (done == after) return ig_profile_begin(t->ctx, TRACE_EVENTS);
    if (done != after + TRACE_STEPS && done != left) return IG_OK;
    ig_profile_end(t->ctx);
    json_t *plan;
    IG_TRY(ig_json_profile(t->ctx, &t->profile));
    IG_TRY(ig_json_plan(t->ctx, &plan));
    return plan_view_init(&t->view, &t->cli->allocator, plan);
}

/* One update from `accumulate` batches. `out_whole` is false if a signal came between two batches:
 * the step is discarded. */
static ig_status update(trainer *t, bool *out_whole) {
    const train_settings *s = &t->settings;
    const ig_data_cursor place = ig_data_tell(t->data);
    const double share = s->seconds > 0 ? train_seconds(t) / s->seconds : 0;
    t->rate_now = train_rate(s, t->step, t->total, share);
    double sum = 0;
    for (int64_t i = 0; i < s->accumulate; i++) {
        const bool last = i + 1 == s->accumulate;
        const ig_train_options options = train_call_options(t, last);
        double loss;
        *out_whole = i == 0 || !ig_cli_cancelled(t->cli);
        if (!*out_whole) {
            (void)ig_data_seek(t->data, place);
            return IG_OK;
        }
        IG_TRY(ig_data_next(t->data, s->batch, t->tokens));
        IG_TRY(ig_adapter_train(t->adapter, t->tokens, s->batch, t->ctx_len, &options, &loss));
        sum += loss;
    }
    t->loss = sum / (double)s->accumulate;
    return IG_OK;
}

static ig_status step(trainer *t) {
    const double began = ig_clock_seconds();
    bool whole = false;
    IG_TRY(watch(t));
    const ig_status status = update(t, &whole);
    if (status == IG_ERR_NOT_FINITE) return stop_at_nan(t, "step", t->step + 1);
    IG_TRY(status);
    if (!whole) return IG_OK;
    t->step++;

    const int64_t tokens = t->settings.batch * t->settings.accumulate * t->ctx_len;
    const double seconds = ig_clock_seconds() - began;
    t->tokens_seen += tokens;
    t->step_seconds += seconds;
    t->speed += (t->speed > 0 ? 0.1 : 1) * ((double)tokens / seconds - t->speed);
    if (isnan(t->first_loss)) t->first_loss = t->loss;
    if (t->settings.seconds > 0) {
        const double each =
            (train_seconds(t) - t->seconds_before) / (double)(t->step - t->first_step);
        t->total = t->step + (int64_t)ceil((t->settings.seconds - train_seconds(t)) / each);
        if (t->total < t->step) t->total = t->step;
    }
    return train_tell_step(t);
}

/* An asynchronous device may still run updates: their time belongs to the steps. */
static ig_status finish_steps(trainer *t) {
    const double began = ig_clock_seconds();
    const ig_status status = ig_ctx_synchronize(t->ctx);
    t->step_seconds += ig_clock_seconds() - began;
    return status;
}

/* Runs a stage of the report other than the steps; it ends when the device is done. */
static ig_status run_stage(trainer *t, const char *stage, ig_status (*run)(trainer *t)) {
    IG_TRY(finish_steps(t));
    const double began = ig_clock_seconds();
    IG_TRY(run(t));
    const ig_status status = ig_ctx_synchronize(t->ctx);
    ig_run_stage(t->cli, stage, (ig_clock_seconds() - began) * 1e3);
    return status;
}

static bool is_over(const trainer *t) {
    if (t->settings.seconds > 0) return train_seconds(t) >= t->settings.seconds;
    return t->step >= t->total;
}

static bool is_due(const trainer *t, int64_t every) { return every > 0 && t->step % every == 0; }

void train_begin(trainer *t) {
    t->began = ig_clock_seconds();
    t->meter = ig_meter_begin(&t->cli->term, t->cli->quiet, "train", "steps", (uint64_t)t->total);
    t->meter.before = (uint64_t)t->first_step;
    t->meter.eager = 3; /* shows early progress of short or slow runs, also in a file */
}

ig_status train_tick(trainer *t, bool *done) {
    const train_options *o = t->options;
    *done = is_over(t) || ig_cli_cancelled(t->cli);
    if (*done) return IG_OK;
    IG_TRY(step(t));
    *done = is_over(t) || ig_cli_cancelled(t->cli);
    if (ig_cli_cancelled(t->cli)) return IG_OK;
    if (*done || is_due(t, o->eval_every)) IG_TRY(run_stage(t, "evaluate", evaluate_and_tell));
    if (is_due(t, o->sample_every) && t->ctx_len > 1) IG_TRY(run_stage(t, "sample", write_sample));
    return !*done && is_due(t, o->save_every) ? run_stage(t, "save", save_within) : IG_OK;
}

ig_status train_finish(trainer *t) {
    IG_TRY(finish_steps(t));
    train_tell_end(t);
    const bool cancelled = ig_cli_cancelled(t->cli) && !is_over(t);
    if (t->saved_step != t->step && t->step > t->first_step) IG_TRY(run_stage(t, "save", save));
    if (!cancelled) return IG_OK;
    if (t->step == t->first_step)
        return IG_FAIL(IG_ERR_CANCELLED, "stopped before the first step; nothing was saved");
    return IG_FAIL(IG_ERR_CANCELLED,
                   "stopped after step %lld of %lld; saved to %s, continue with --resume %s",
                   (long long)t->step, (long long)t->total, t->out, t->out);
}
