/*
 * ingot bench train - training speed of a workload, and the runtime's overhead.
 *
 * Wall time covers all steps after the warmup, including batch assembly; the loss is read during
 * the warmup and in the final steps. The final loss is a mean over these: the loss of a single
 * batch depends too much on the batch. Then the same steps run on the device "null", whose kernels
 * compute nothing, and without batches: the rest is the runtime's overhead, divided by the number
 * of ops. Kernel time is wall time minus overhead minus the time of assembling batches alone.
 */
#include <string.h>

#include "base/alloc.h"
#include "cli/app/output.h"
#include "cli/app/progress.h"
#include "cli/app/report_file.h"
#include "cli/bench/cmd_bench.h"
#include "cli/bench/cmd_bench_dump.h"
#include "ingot/grad.h"
#include "ingot/report.h"

/* Auto records its third step: results read by then are kept in replays. */
enum { READ_AT_FIRST = 4, WARMUP_LEAST = 4, OVERHEAD_STEPS = 200, NOTE_BYTES = 32 };

/* The final loss is the mean over 1 / FINAL_SHARE of the steps, at least 1 and at most FINAL_MOST.
 */
enum { FINAL_SHARE = 10, FINAL_MOST = 100 };

typedef struct trainer {
    ig_cli *cli;
    const bench_options *options;
    const ig_workload_type *type;
    ig_mode mode;
    int64_t steps, warmup; /* total; how many of these run before timing starts */
    int64_t final;         /* how many of these, at the end, count for the final loss */

    /* Results. */
    double seconds, loss; /* the mean over the final steps */
    ig_counters counters; /* of all steps */
    int64_t batch, tokens;
    uint64_t allocations; /* during the timed steps */
    uint64_t peak_rss;
    double overhead_ns; /* per op, with kernels that compute nothing */
    double runtime_us;  /* per step, likewise */
    double batch_us;    /* per batch, assembled alone */
    double waited_us;   /* per step whose loss is read before the next */
    double issue_us;    /* until a step is submitted, on an idle device */
    double replay_us;   /* of these, after the last call: 0 if the host computes */
    double behind_us;   /* the same, for a step right after another one */
    bench_device device;
} trainer;

/* ---- One run ---- */

static ig_status create(const trainer *t, bench_counter *counter, ig_ctx **ctx, ig_workload **out) {
    ig_ctx_options options = ig_cli_ctx_options(t->cli);
    options.device = t->options->device;
    options.threads = (int)t->options->threads;
    options.seed = (uint64_t)t->options->seed;
    options.allocator = bench_counting(counter, options.allocator);
    IG_TRY(ig_ctx_create(&options, ctx));
    IG_TRY(ig_mode_set(*ctx, t->mode));
    return ig_workload_create(t->type, *ctx, t->options->sizes, out);
}

static ig_status train_step(trainer *t, ig_workload *w, int64_t step, ig_meter *meter) {
    const bool counts = step >= t->steps - t->final;
    double loss;
    IG_TRY(ig_workload_next_batch(w));
    IG_TRY(ig_workload_step(w, counts || step < READ_AT_FIRST || step < t->warmup ? &loss : NULL));
    if (counts) t->loss += loss / (double)t->final;
    if (step + 1 < t->steps) ig_meter_update(meter, (uint64_t)step + 1, "");
    return IG_OK;
}

static ig_status train(trainer *t, ig_workload *w, const bench_counter *counter) {
    ig_meter meter =
        ig_meter_begin(&t->cli->term, t->cli->quiet, t->type->name, "steps", (uint64_t)t->steps);
    double began = 0;
    uint64_t calls = 0;
    ig_status status = IG_OK;
    for (int64_t step = 0; step < t->steps && status == IG_OK; step++) {
        if (step == t->warmup) began = ig_clock_seconds(), calls = counter->calls;
        status = train_step(t, w, step, &meter);
    }
    t->seconds = ig_clock_seconds() - began;
    t->allocations = counter->calls - calls;
    if (status == IG_OK) {
        char note[NOTE_BYTES];
        snprintf(note, sizeof note, "loss %.4f", t->loss);
        ig_meter_end(&meter, (uint64_t)t->steps, note);
    } else if (meter.line_open) {
        fputc('\n', stderr); /* end the progress line of an interrupted run */
    }
    return status;
}

/* Runs a step and times its submission; `replay_us`: the part after the last call. */
static ig_status time_issue(ig_ctx *ctx, ig_workload *w, double *loss, double *issue_us,
                            double *replay_us) {
    const uint64_t before = ig_report_counters(ctx).replay_ns;
    const double began = ig_clock_seconds();
    IG_TRY(ig_workload_step(w, loss));
    *issue_us = (ig_clock_seconds() - began) * 1e6;
    *replay_us = (double)(ig_report_counters(ctx).replay_ns - before) / 1e3;
    return IG_OK;
}

/* First, every other step is read: a step with a new batch finds the device idle and, after a long
 * wait, cold host caches; the next one, with the same batch, follows at once. Then every step is
 * read. Results are medians. */
static ig_status time_waits(trainer *t, ig_ctx *ctx, ig_workload *w) {
    enum { MOST = 100 };
    double issued[MOST], replayed[MOST], behind[MOST], waited[MOST], whole, loss;
    const int64_t timed = t->steps - t->warmup, count = timed < MOST ? timed : MOST;
    for (int64_t i = 0; i < count; i++) {
        IG_TRY(ig_workload_next_batch(w));
        IG_TRY(time_issue(ctx, w, NULL, &issued[i], &replayed[i]));
        IG_TRY(time_issue(ctx, w, &loss, &whole, &behind[i]));
    }
    for (int64_t i = 0; i < count; i++) {
        const double began = ig_clock_seconds();
        IG_TRY(ig_workload_next_batch(w));
        IG_TRY(ig_workload_step(w, &loss));
        waited[i] = (ig_clock_seconds() - began) * 1e6;
    }
    t->issue_us = bench_spread_of(issued, (size_t)count).median;
    t->replay_us = bench_spread_of(replayed, (size_t)count).median;
    t->behind_us = bench_spread_of(behind, (size_t)count).median;
    t->waited_us = bench_spread_of(waited, (size_t)count).median;
    return IG_OK;
}

static ig_status time_batches(trainer *t, ig_workload *w) {
    enum { COUNT = 100 };
    double us[COUNT];
    for (int i = 0; i < COUNT; i++) {
        const double began = ig_clock_seconds();
        IG_TRY(ig_workload_next_batch(w));
        us[i] = (ig_clock_seconds() - began) * 1e6;
    }
    t->batch_us = bench_spread_of(us, COUNT).median;
    return IG_OK;
}

static ig_status note_surroundings(trainer *t, ig_ctx *ctx, const ig_workload *w) {
    IG_TRY(bench_device_of(ctx, &t->device));
    t->batch = w->sizes.batch;
    t->tokens = w->type->target == IG_TARGET_EACH ? ig_workload_targets(w) : 0;
    t->counters = ig_report_counters(ctx);
    t->peak_rss = bench_peak_rss();
    return IG_OK;
}

static ig_status run_for_speed(trainer *t) {
    bench_counter counter;
    ig_ctx *ctx = NULL;
    ig_workload *w = NULL;
    ig_status status = create(t, &counter, &ctx, &w);
    if (status == IG_OK) status = train(t, w, &counter);
    if (status == IG_OK) status = note_surroundings(t, ctx, w);
    if (status == IG_OK) status = time_waits(t, ctx, w);
    if (status == IG_OK) status = time_batches(t, w);
    ig_workload_destroy(w);
    ig_ctx_destroy(ctx);
    return status;
}

/* ---- The runtime alone ---- */

static ig_status time_steps(bench_overhead_job *job, ig_ctx *ctx, ig_workload *w) {
    double began = 0, loss;
    uint64_t ops = 0;
    for (int64_t step = 0; step < job->steps; step++) {
        if (step == job->warmup) began = ig_clock_seconds(), ops = ig_report_counters(ctx).ops;
        IG_TRY(ig_workload_step(w, step < READ_AT_FIRST ? &loss : NULL));
    }
    const double ns = (ig_clock_seconds() - began) * 1e9;
    ops = ig_report_counters(ctx).ops - ops;
    job->step_ns = ns / (double)(job->steps - job->warmup);
    job->op_ns = ops > 0 ? ns / (double)ops : 0;
    return IG_OK;
}

ig_status bench_overhead_of(ig_cli *cli, bench_overhead_job *job) {
    ig_ctx *ctx;
    ig_workload *w = NULL;
    if (job->steps == 0) job->steps = OVERHEAD_STEPS, job->warmup = READ_AT_FIRST;
    IG_TRY(bench_context(cli, "null", job->threads, &ctx));
    ig_status status = ig_mode_set(ctx, job->mode);
    if (status == IG_OK) status = ig_workload_create(job->type, ctx, job->sizes, &w);
    if (status == IG_OK) status = time_steps(job, ctx, w);
    ig_workload_destroy(w);
    ig_ctx_destroy(ctx);
    return status;
}

static ig_status run_for_overhead(trainer *t) {
    bench_overhead_job job = {.type = t->type,
                              .sizes = t->options->sizes,
                              .mode = t->mode,
                              .threads = (int)t->options->threads,
                              .steps = t->steps,
                              .warmup = t->warmup};
    IG_TRY(bench_overhead_of(t->cli, &job));
    t->overhead_ns = job.op_ns;
    t->runtime_us = job.step_ns / 1e3;
    return IG_OK;
}

/* ---- Results ---- */

static double step_us(const trainer *t) {
    return t->seconds * 1e6 / (double)(t->steps - t->warmup);
}

/* Kernel time per step. On a noisy machine the parts may exceed the total: the result is 0
 * (unknown) then. */
static double kernel_us(const trainer *t) {
    const double us = step_us(t) - t->runtime_us - t->batch_us;
    return us > 0 ? us : 0;
}

static double samples_per_s(const trainer *t, double us) {
    return us > 0 ? (double)t->batch * 1e6 / us : 0;
}

static ig_status print_json(const trainer *t) {
    const double timed = (double)(t->steps - t->warmup);
    json_t *tokens = t->tokens > 0 ? ig_json_real((double)t->tokens * timed / t->seconds)
                                   : NULL; /* NULL: left out */
    return ig_run_result(
        t->cli,
        json_pack(
            "{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:o, s:o*, s:o, s:o, s:I, s:I, s:I, s:o, s:I, s:o,"
            " s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:s}",
            "schema", "ingot.bench.train.v1", "workload", t->type->name, "mode",
            bench_modes[t->mode], "batch", (json_int_t)t->batch, "threads",
            (json_int_t)t->device.threads, "steps", (json_int_t)t->steps, "warmup",
            (json_int_t)t->warmup, "samples_per_s", ig_json_real(samples_per_s(t, step_us(t))),
            "tokens_per_s", tokens, "us_per_step", ig_json_real(step_us(t)), "final_loss",
            ig_json_real(t->loss), "records", (json_int_t)t->counters.records, "replays",
            (json_int_t)t->counters.replays, "dispatches", (json_int_t)t->counters.dispatches,
            "overhead_ns_per_op", ig_json_real(t->overhead_ns), "peak_rss_bytes",
            (json_int_t)t->peak_rss, "allocations_per_step",
            ig_json_real((double)t->allocations / timed), "us_per_waited_step",
            ig_json_real(t->waited_us), "us_to_issue", ig_json_real(t->issue_us), "us_to_replay",
            ig_json_real(t->behind_us), "us_to_replay_after_wait", ig_json_real(t->replay_us),
            "us_per_batch", ig_json_real(t->batch_us), "us_of_runtime", ig_json_real(t->runtime_us),
            "us_in_kernels", ig_json_real(kernel_us(t)), "samples_per_s_of_kernels",
            ig_json_real(samples_per_s(t, kernel_us(t))), "device", t->device.name,
            "instruction_set", t->device.isa));
}

static void print_row(const trainer *t, const char *label, const char *fmt, ...) IG_PRINTF(3, 4);
static void print_row(const trainer *t, const char *label, const char *fmt, ...) {
    const bool color = t->cli->term.out_color;
    printf("  %s%-12s%s ", ig_term_style(color, IG_DIM), label, ig_term_style(color, IG_PLAIN));
    va_list args;
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
}

static void print_table(const trainer *t) {
    const double timed = (double)(t->steps - t->warmup);
    char a[IG_UNIT_TEXT_BYTES];
    bench_print_machine();
    printf("%s, %s, batch %lld, %lld threads, %s %s\n\n", t->type->name, bench_modes[t->mode],
           (long long)t->batch, (long long)t->device.threads, t->device.name, t->device.isa);
    print_row(t, "samples/s", "%s",
              ig_count_text((uint64_t)(samples_per_s(t, step_us(t)) + 0.5), a));
    if (t->tokens > 0)
        print_row(t, "tokens/s", "%s",
                  ig_count_text((uint64_t)((double)t->tokens * timed / t->seconds + 0.5), a));
    print_row(t, "us/step", "%.2f (%lld steps after %lld, batches included)", step_us(t),
              (long long)(t->steps - t->warmup), (long long)t->warmup);
    print_row(
        t, "in kernels",
        "%.2f us: the rest is runtime overhead (%.2f) and batch assembly (%.2f); %s samples/s",
        kernel_us(t), t->runtime_us, t->batch_us,
        ig_count_text((uint64_t)(samples_per_s(t, kernel_us(t)) + 0.5), a));
    print_row(t, "synchronous", "%.2f us per step if each loss is read; %.2f us until the submit",
              t->waited_us, t->issue_us);
    if (t->replay_us > 0)
        print_row(t, "replay",
                  "%.2f us of host time after the last call of a step, %.2f after a wait",
                  t->behind_us, t->replay_us);
    print_row(t, "final loss", "%.6f (mean of the last %lld steps)", t->loss, (long long)t->final);
    print_row(t, "records", "%llu, replays %llu", (unsigned long long)t->counters.records,
              (unsigned long long)t->counters.replays);
    print_row(t, "dispatches", "%s", ig_count_text(t->counters.dispatches, a));
    print_row(t, "overhead", "%.1f ns per op, with empty kernels", t->overhead_ns);
    print_row(t, "allocations", "%.2f per step", (double)t->allocations / timed);
    print_row(t, "peak RSS", "%s", ig_bytes_text(t->peak_rss, a));
}

/* ---- The subject ---- */

static ig_status choose(trainer *t) {
    const bench_options *o = t->options;
    IG_TRY(ig_workload_find(o->workload ? o->workload : ig_workload_char_mlp.name, &t->type));
    ig_run_model(t->cli, t->type->name);
    const char *mode = o->mode ? o->mode : bench_modes[IG_MODE_COMPILED];
    for (t->mode = IG_MODE_DYNAMIC; strcmp(bench_modes[t->mode], mode) != 0; t->mode++)
        if (!bench_modes[t->mode + 1])
            return IG_FAIL(IG_ERR_ARGUMENT, "--mode '%s': must be one of dynamic, compiled, auto",
                           mode);
    t->steps = o->steps > 0 ? o->steps : t->type->steps;
    t->warmup = o->warmup > 0 ? o->warmup : t->steps / 10;
    if (o->warmup == 0 && t->warmup < WARMUP_LEAST) t->warmup = WARMUP_LEAST;
    t->final = t->steps / FINAL_SHARE < FINAL_MOST ? t->steps / FINAL_SHARE : FINAL_MOST;
    if (t->final == 0) t->final = 1;
    if (t->warmup >= t->steps)
        return IG_FAIL(IG_ERR_ARGUMENT, "--steps %lld: --warmup %lld leaves none to measure",
                       (long long)t->steps, (long long)t->warmup);
    return IG_OK;
}

ig_status bench_train(ig_cli *cli, const bench_options *o) {
    trainer t = {.cli = cli, .options = o};
    IG_TRY(choose(&t));
    if (o->dump) IG_TRY(bench_dump(cli, o, t.type, t.steps));
    IG_TRY(run_for_speed(&t));
    IG_TRY(run_for_overhead(&t));
    if (cli->json) return print_json(&t);
    print_table(&t);
    return IG_OK;
}
