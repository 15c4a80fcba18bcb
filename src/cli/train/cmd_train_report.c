/*
 * Output of `ingot train`: the progress line, the log, the curves and the result.
 */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "cli/app/output.h"
#include "cli/app/report_file.h"
#include "cli/train/cmd_train.h"
#include "cli/view/plot.h"
#include "ingot/checkpoint.h"
#include "ingot/report.h"

enum { NOTE_BYTES = 128, MEAN_STEPS = 20 };

/* ---- The log ---- */

static ig_status log_failed(const trainer *t, int why) {
    return IG_FAIL(IG_ERR_IO, "%s: cannot write the log: %s", t->options->log, strerror(why));
}

/* A resumed run appends to the log; a truncated line stays on its own. */
ig_status train_log_open(trainer *t) {
    const char *path = t->options->log;
    if (!path) return IG_OK;
    t->log = fopen(path, t->options->resume ? "a+e" : "we");
    if (!t->log) return log_failed(t, errno);
    setvbuf(t->log, NULL, _IOLBF, BUFSIZ);
    ig_run_wrote(t->cli, "log", path);
    char last = '\n';
    if (t->options->resume && fseek(t->log, -1, SEEK_END) == 0) (void)!fread(&last, 1, 1, t->log);
    if (t->options->resume) fseek(t->log, 0, SEEK_END);
    if (last != '\n') fputc('\n', t->log);
    return IG_OK;
}

/* A write error of the log is a warning now, and an error of the run after everything else is
 * saved. */
static void check_log(trainer *t) {
    if (!t->log || !ferror(t->log)) return;
    t->log_errno = errno ? errno : EIO;
    fclose(t->log);
    t->log = NULL;
    train_end_line(t);
    ig_cli_say(t->cli, "warning: %s: cannot write the log: %s; training continues without it",
               t->options->log, strerror(t->log_errno));
}

ig_status train_log_close(trainer *t) {
    FILE *log = t->log;
    t->log = NULL;
    if (log && fclose(log) != 0) t->log_errno = errno ? errno : EIO;
    return t->log_errno ? log_failed(t, t->log_errno) : IG_OK;
}

/* ---- While it runs ---- */

static void note_text(const trainer *t, char out[NOTE_BYTES]) {
    char speed[IG_UNIT_TEXT_BYTES], validation[32] = "";
    if (!isnan(t->val_loss)) snprintf(validation, sizeof validation, "  val %.4f", t->val_loss);
    snprintf(out, NOTE_BYTES, "loss %.4f%s  %s tok/s", t->loss, validation,
             ig_count_text((uint64_t)(t->speed + 0.5), speed));
}

ig_status train_tell_step(trainer *t) {
    char note[NOTE_BYTES];
    note_text(t, note);
    t->meter.total = (uint64_t)t->total;
    ig_meter_update(&t->meter, (uint64_t)t->step, note);
    if (t->log)
        fprintf(
            t->log, "{\"step\":%lld,\"loss\":%.9g,\"lr\":%.9g,\"tokens\":%lld,\"seconds\":%.3f}\n",
            (long long)t->step, t->loss, t->rate_now, (long long)t->tokens_seen, train_seconds(t));
    check_log(t);
    return train_add_point(t, &t->curve, (double)t->step, t->loss);
}

ig_status train_tell_evaluation(trainer *t) {
    if (t->log)
        fprintf(t->log, "{\"step\":%lld,\"val_loss\":%.9g,\"bits_per_byte\":%.9g}\n",
                (long long)t->step, t->val_loss, t->bits_per_byte);
    check_log(t);
    return train_add_point(t, &t->val_curve, (double)t->step, t->val_loss);
}

void train_tell_sample(trainer *t, const char *prompt, const char *text) {
    char begin[256], safe[1024];
    ig_text_safe(prompt, begin, sizeof begin);
    ig_text_safe(text, safe, sizeof safe);
    train_end_line(t);
    ig_cli_say(t->cli, "step %lld: %s|%s", (long long)t->step, begin, safe);
    if (!t->log) return;
    json_t *line =
        json_pack("{s:I, s:s, s:s}", "step", (json_int_t)t->step, "prompt", begin, "sample", safe);
    if (line && json_dumpf(line, t->log, JSON_COMPACT) == 0) fputc('\n', t->log);
    json_decref(line);
}

void train_end_line(trainer *t) {
    if (!t->meter.line_open) return;
    fputc('\n', stderr);
    t->meter.line_open = false;
}

void train_tell_end(trainer *t) {
    char note[NOTE_BYTES];
    note_text(t, note);
    t->meter.total = (uint64_t)t->total;
    if (t->step > t->first_step) ig_meter_end(&t->meter, (uint64_t)t->step, note);
    ig_run_stage(t->cli, "train", t->step_seconds * 1e3);
}

/* ---- Files ---- */

static void print_plot(FILE *to, const void *plot) { ig_plot_print(to, plot); }

/* Moving average, so that the curve shows through the noise. */
static void smooth(const train_curve *from, double *out) {
    for (size_t i = 0; i < from->count; i++) {
        const size_t begin = i < MEAN_STEPS / 2 ? 0 : i - MEAN_STEPS / 2;
        const size_t end = i + MEAN_STEPS / 2 < from->count ? i + MEAN_STEPS / 2 : from->count;
        double sum = 0;
        for (size_t j = begin; j < end; j++) sum += from->loss[j];
        out[i] = sum / (double)(end - begin);
    }
}

static ig_status draw(const trainer *t) {
    const ig_allocator *a = &t->cli->allocator;
    double *means = ig_alloc(a, t->curve.count, sizeof *means);
    if (!means) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for it", t->options->plot);
    smooth(&t->curve, means);

    char title[128], mean[48], count[IG_UNIT_TEXT_BYTES];
    snprintf(title, sizeof title, "%s, %s parameters", ig_adapter_architecture(t->adapter),
             ig_count_text((uint64_t)ig_adapter_param_count(t->adapter), count));
    snprintf(mean, sizeof mean, "training, mean of %d steps", MEAN_STEPS);
    const train_curve *c = &t->curve, *v = &t->val_curve;
    const ig_series series[] = {
        {.name = "each step", .x = c->step, .y = c->loss, .count = c->count, .faint = true},
        {.name = mean, .x = c->step, .y = means, .count = c->count},
        {.name = "validation", .x = v->step, .y = v->loss, .count = v->count},
    };
    const ig_plot plot = {.title = title,
                          .x_label = "step",
                          .y_label = "cross entropy (nats per token)",
                          .series = series,
                          .n_series = v->count > 0 ? 3 : 2};
    const ig_status status = ig_run_write(t->cli, "plot", t->options->plot, print_plot, &plot);
    ig_free(a, means);
    return status;
}

static void print_trace(FILE *to, const void *of) {
    const trainer *t = of;
    plan_trace_print(to, &t->view, t->profile, ig_adapter_architecture(t->adapter));
}

ig_status train_write_files(trainer *t) {
    const train_options *o = t->options;
    if (o->plot) IG_TRY(draw(t));
    if (!o->trace || !t->profile) return IG_OK;
    return ig_run_write(t->cli, "trace", o->trace, print_trace, t);
}

/* ---- The result ---- */

static double mean_speed(const trainer *t) {
    return (double)(t->tokens_seen - t->tokens_before) / t->step_seconds;
}

static ig_status file_bytes(const trainer *t, uint64_t *out) {
    ig_checkpoint *file;
    IG_TRY(ig_checkpoint_open(t->out, &file));
    *out = ig_checkpoint_file_bytes(file);
    ig_checkpoint_close(file);
    return IG_OK;
}

static json_t *config_json(const trainer *t) {
    const ig_model_config c = ig_adapter_config(t->adapter);
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:I}", "d_model", (json_int_t)c.d_model,
                     "n_layers", (json_int_t)c.n_layers, "n_heads", (json_int_t)c.n_heads,
                     "n_kv_heads", (json_int_t)c.n_kv_heads, "d_ff", (json_int_t)c.d_ff, "ctx_len",
                     (json_int_t)c.ctx_len, "tokenizer", ig_json_text(c.tokenizer), "vocabulary",
                     (json_int_t)ig_adapter_vocab_size(t->adapter));
}

static ig_status print_json(const trainer *t, uint64_t bytes) {
    const train_settings *s = &t->settings;
    return ig_run_result(
        t->cli,
        json_pack("{s:s, s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:{s:o, s:o, s:o, s:o}, s:o, s:o,"
                  " s:{s:o, s:o}, s:s, s:s, s:s, s:I, s:{s:o, s:o}, s:o, s:o}",
                  "schema", "ingot.train.v1", "arch", ig_adapter_architecture(t->adapter), "config",
                  config_json(t), "parameters", (json_int_t)ig_adapter_param_count(t->adapter),
                  "steps", (json_int_t)t->step, "batch", (json_int_t)s->batch, "accumulate",
                  (json_int_t)s->accumulate, "tokens", (json_int_t)t->tokens_seen, "loss", "first",
                  ig_json_real(t->first_loss), "last", ig_json_real(t->loss), "validation",
                  ig_json_real(t->val_loss), "bits_per_byte", ig_json_real(t->bits_per_byte),
                  "seconds", ig_json_real(train_seconds(t)), "tokens_per_s",
                  ig_json_real(mean_speed(t)), "memory", "estimate_bytes",
                  ig_json_count(t->estimate_bytes), "peak_bytes",
                  ig_json_count(ig_report_memory(t->ctx).peak_bytes), "device",
                  ig_ctx_device(t->ctx), "mode", train_modes[t->options->mode], "route",
                  train_routes[t->route], "seed", (json_int_t)ig_ctx_seed(t->ctx), "checkpoint",
                  "file", ig_json_text(t->out), "bytes", ig_json_count(bytes), "plot",
                  t->options->plot ? ig_json_text(t->options->plot) : json_null(), "log",
                  t->options->log ? ig_json_text(t->options->log) : json_null()));
}

static void print_row(const trainer *t, const char *label, const char *fmt, ...) IG_PRINTF(3, 4);
static void print_row(const trainer *t, const char *label, const char *fmt, ...) {
    const bool color = t->cli->term.out_color;
    printf("  %s%-11s%s ", ig_term_style(color, IG_DIM), label, ig_term_style(color, IG_PLAIN));
    va_list args;
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
}

static void print_heading(const trainer *t) {
    const bool color = t->cli->term.out_color;
    const ig_model_config c = ig_adapter_config(t->adapter);
    char count[IG_UNIT_TEXT_BYTES];
    printf("%s%s%s, %s parameters: %lld x %lld, context %lld, %s tokens\n\n",
           ig_term_style(color, IG_BOLD), ig_adapter_architecture(t->adapter),
           ig_term_style(color, IG_PLAIN),
           ig_count_text((uint64_t)ig_adapter_param_count(t->adapter), count), (long long)c.d_model,
           (long long)c.n_layers, (long long)c.ctx_len, c.tokenizer);
}

static void print_table(const trainer *t, uint64_t bytes) {
    const train_settings *s = &t->settings;
    char a[IG_UNIT_TEXT_BYTES], b[IG_UNIT_TEXT_BYTES], path[PATH_MAX];
    print_heading(t);
    print_row(t, "loss", "%.4f -> %.4f", t->first_loss, t->loss);
    if (!isnan(t->val_loss)) {
        print_row(t, "validation", "%.4f", t->val_loss);
        print_row(t, "bits/byte", "%.4f, on %s bytes of held-out text", t->bits_per_byte,
                  ig_count_text((uint64_t)t->val_bytes, a));
    }
    print_row(t, "steps", "%s of %lld x %lld tokens, in %.1f s",
              ig_count_text((uint64_t)t->step, a), (long long)(s->batch * s->accumulate),
              (long long)t->ctx_len, train_seconds(t));
    print_row(t, "tokens/s", "%s", ig_count_text((uint64_t)(mean_speed(t) + 0.5), a));
    print_row(t, "memory", "peak %s; the estimate was %s",
              ig_bytes_text(ig_report_memory(t->ctx).peak_bytes, a),
              ig_bytes_text(t->estimate_bytes, b));
    print_row(t, "device", "%s", ig_ctx_device(t->ctx));
    print_row(t, "checkpoint", "%s (%s)", ig_text_safe(t->out, path, sizeof path),
              ig_bytes_text(bytes, a));
    if (t->options->plot)
        print_row(t, "curves", "%s", ig_text_safe(t->options->plot, path, sizeof path));
}

ig_status train_print_result(const trainer *t) {
    uint64_t bytes;
    IG_TRY(file_bytes(t, &bytes));
    if (t->cli->json) return print_json(t, bytes);
    print_table(t, bytes);
    return IG_OK;
}
