#include "cli/commands/demo_modes.h"

#include <string.h>

#include "base/alloc.h"
#include "cli/app/output.h"
#include "cli/app/progress.h"
#include "cli/bench/cmd_bench.h"

enum { WARMUP = 10, NOTE_BYTES = 48 }; /* warmup steps, if there are twice as many */

ig_status demo_context(ig_cli *cli, const demo_job *job, ig_ctx **out) {
    ig_ctx_options options = ig_cli_ctx_options(cli);
    options.device = job->device;
    options.threads = job->threads;
    options.seed = job->seed;
    return ig_ctx_create(&options, out);
}

/* ---- Training ---- */

static ig_status train_step(const ig_cli *cli, const demo_job *job, demo_mode *m, int64_t step,
                            ig_meter *meter) {
    IG_TRY(ig_workload_next_batch(m->workload));
    IG_TRY(ig_workload_step(m->workload, &m->losses[step]));
    char note[NOTE_BYTES];
    snprintf(note, sizeof note, "%s, loss %.3f", bench_modes[m->mode], m->losses[step]);
    if (step + 1 < job->steps)
        ig_meter_update(meter, (uint64_t)step + 1, note);
    else
        ig_meter_end(meter, (uint64_t)step + 1, note);
    return ig_cli_cancelled(cli) ? IG_ERR_CANCELLED : IG_OK;
}

static ig_status train(ig_cli *cli, const demo_job *job, demo_mode *m) {
    const int64_t warmup = job->steps > 2 * WARMUP ? WARMUP : 0;
    ig_meter meter = ig_meter_begin(&cli->term, cli->quiet, "train", "steps", (uint64_t)job->steps);
    double began = 0;
    int64_t step = 0;
    ig_status status = IG_OK;
    while (step < job->steps && status == IG_OK) {
        if (step == warmup) began = ig_clock_seconds();
        status = train_step(cli, job, m, step++, &meter);
    }
    m->seconds = ig_clock_seconds() - began;
    m->timed_steps = job->steps - warmup;
    m->counters = ig_report_counters(m->ctx);
    m->memory = ig_report_memory(m->ctx);
    if (meter.line_open) fputc('\n', stderr); /* end the progress line of an interrupted run */
    if (status == IG_ERR_CANCELLED)
        return IG_FAIL(status, "stopped at step %lld of %lld; nothing was saved", (long long)step,
                       (long long)job->steps);
    return status;
}

static ig_status train_in_mode(ig_cli *cli, const demo_job *job, demo_mode *m) {
    m->losses = ig_alloc(&cli->allocator, (size_t)job->steps, sizeof *m->losses);
    if (!m->losses)
        return IG_FAIL(IG_ERR_MEMORY, "demo: no memory for %lld losses", (long long)job->steps);
    IG_TRY(demo_context(cli, job, &m->ctx));
    IG_TRY(ig_mode_set(m->ctx, m->mode));
    IG_TRY(ig_workload_create(job->type, m->ctx, (ig_workload_sizes){0}, &m->workload));
    IG_TRY(train(cli, job, m));
    bench_overhead_job overhead = {.type = job->type, .mode = m->mode, .threads = job->threads};
    IG_TRY(bench_overhead_of(cli, &overhead));
    m->overhead_ns = overhead.step_ns;
    return IG_OK;
}

/* Compares bits: NaN equals itself, and 0 differs from -0. */
static uint64_t bits_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static ig_status compare(const demo_job *job, const demo_mode *a, const demo_mode *b) {
    for (int64_t i = 0; i < job->steps; i++)
        if (bits_of(a->losses[i]) != bits_of(b->losses[i]))
            return IG_FAIL(IG_ERR_STATE, "step %lld: loss %.9g in %s mode, %.9g in %s mode",
                           (long long)i + 1, a->losses[i], bench_modes[a->mode], b->losses[i],
                           bench_modes[b->mode]);
    return IG_OK;
}

ig_status demo_modes_train(ig_cli *cli, const demo_job *job, demo_mode modes[DEMO_MODES]) {
    for (int i = 0; i < DEMO_MODES; i++) {
        modes[i].mode = (ig_mode)i;
        IG_TRY(train_in_mode(cli, job, &modes[i]));
        IG_TRY(compare(job, &modes[0], &modes[i]));
    }
    return IG_OK;
}

void demo_modes_close(const ig_cli *cli, demo_mode modes[DEMO_MODES]) {
    for (int i = 0; i < DEMO_MODES; i++) {
        ig_workload_destroy(modes[i].workload);
        ig_ctx_destroy(modes[i].ctx);
        ig_free(&cli->allocator, modes[i].losses);
    }
}

/* ---- Results ---- */

double demo_samples_per_second(const demo_mode *m) {
    return (double)m->timed_steps * (double)m->workload->sizes.batch / m->seconds;
}

void demo_modes_print(const ig_cli *cli, const demo_job *job, const demo_mode modes[DEMO_MODES]) {
    const bool color = cli->term.out_color;
    printf("  %s%-9s %10s %12s %8s %8s %11s %12s%s\n", ig_term_style(color, IG_DIM), "mode",
           "last loss", "samples/s", "records", "replays", "dispatches", "overhead",
           ig_term_style(color, IG_PLAIN));
    for (int i = 0; i < DEMO_MODES; i++) {
        const demo_mode *m = &modes[i];
        char rate[IG_UNIT_TEXT_BYTES], dispatches[IG_UNIT_TEXT_BYTES];
        printf("  %-9s %10.6f %12s %8llu %8llu %11s %9.2f us\n", bench_modes[m->mode],
               m->losses[job->steps - 1],
               ig_count_text((uint64_t)(demo_samples_per_second(m) + 0.5), rate),
               (unsigned long long)m->counters.records, (unsigned long long)m->counters.replays,
               ig_count_text(m->counters.dispatches, dispatches), m->overhead_ns / 1e3);
    }
    printf("\n  All %lld losses are bit-equal in the three modes. Overhead: the time per step with "
           "empty kernels.\n",
           (long long)job->steps);
}

json_t *demo_modes_json(const demo_job *job, const demo_mode modes[DEMO_MODES]) {
    json_t *list = json_array();
    for (int i = 0; i < DEMO_MODES; i++) {
        const demo_mode *m = &modes[i];
        json_array_append_new(
            list,
            json_pack("{s:s, s:o, s:o, s:I, s:I, s:I, s:o}", "mode", bench_modes[m->mode],
                      "last_loss", ig_json_real(m->losses[job->steps - 1]), "samples_per_s",
                      ig_json_real(demo_samples_per_second(m)), "records",
                      (json_int_t)m->counters.records, "replays", (json_int_t)m->counters.replays,
                      "dispatches", (json_int_t)m->counters.dispatches, "overhead_ns_per_step",
                      ig_json_real(m->overhead_ns)));
    }
    return list;
}
