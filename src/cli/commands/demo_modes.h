/*
 * demo_modes.h - the same training in the three modes.
 *
 * Dynamic runs every op when it is called; Compiled records the first step and replays it; Auto is
 * Dynamic for three steps, then Compiled. The losses must agree bit for bit at every step, which is
 * checked.
 */
#ifndef IG_CLI_COMMANDS_DEMO_MODES_H
#define IG_CLI_COMMANDS_DEMO_MODES_H

#include <jansson.h>

#include "cli/app/cli.h"
#include "cli/bench/workload.h"
#include "ingot/grad.h"
#include "ingot/report.h"

enum { DEMO_MODES = 3 };

typedef struct demo_job {
    const ig_workload_type *type;
    const char *device;
    int threads;
    uint64_t seed;
    int64_t steps;
} demo_job;

typedef struct demo_mode {
    ig_mode mode;
    ig_ctx *ctx;
    ig_workload *workload; /* after training */
    double *losses;        /* [steps] */
    double seconds;        /* wall time after the warmup */
    int64_t timed_steps;
    ig_counters counters;
    ig_memory_stats memory;
    double overhead_ns; /* per step, with kernels that compute nothing */
} demo_mode;

/* Trains in all modes and compares. Call demo_modes_close() also after an error. */
IG_MUST_CHECK ig_status demo_modes_train(ig_cli *cli, const demo_job *job,
                                         demo_mode modes[DEMO_MODES]);
void demo_modes_close(const ig_cli *cli, demo_mode modes[DEMO_MODES]);

double demo_samples_per_second(const demo_mode *mode);
void demo_modes_print(const ig_cli *cli, const demo_job *job, const demo_mode modes[DEMO_MODES]);
json_t *demo_modes_json(const demo_job *job, const demo_mode modes[DEMO_MODES]);

/* Creates a context for the job. */
IG_MUST_CHECK ig_status demo_context(ig_cli *cli, const demo_job *job, ig_ctx **out);

#endif
