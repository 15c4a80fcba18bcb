/*
 * cmd_bench.h - what the subjects of `ingot bench` share.
 *
 * Machines that others use too are noisy: whatever is compared is run in turns,
 * and what is reported is a median with its spread.
 */
#ifndef IG_CLI_CMD_BENCH_H
#define IG_CLI_CMD_BENCH_H

#include <jansson.h>

#include "cli/app/cli.h"
#include "cli/bench/workload.h"
#include "ingot/grad.h"

typedef struct bench_options {
    const char *subject;
    int64_t threads, runs; /* 0: as the subject has it */

    /* train */
    const char *workload, *mode, *device, *dump;
    int64_t steps, warmup, seed;
    ig_workload_sizes sizes;

    /* ops */
    const char *op;

    /* model */
    const char *model, *cache, *cache_v, *gpu_layers;
    const char *rows, *ctx; /* lists of numbers; ctx is one number to train and routes */
    int64_t n_prompt, chunk, threads_batch, guess_ngram;
    bool no_pack;
} bench_options;

ig_status bench_train(ig_cli *cli, const bench_options *o);
ig_status bench_overhead(ig_cli *cli, const bench_options *o);
ig_status bench_ceilings(ig_cli *cli, const bench_options *o);
ig_status bench_ops_all(ig_cli *cli, const bench_options *o);
ig_status bench_routes(ig_cli *cli, const bench_options *o);
ig_status bench_model(ig_cli *cli, const bench_options *o);

/* "dynamic", "compiled", "auto": those of ig_mode, in its order; NULL at the end. */
extern const char *const bench_modes[];

/* What the runtime costs in a workload's step: on the device "null", without batches. */
typedef struct bench_overhead_job {
    const ig_workload_type *type;
    ig_workload_sizes sizes;
    ig_mode mode;
    int threads;
    int64_t steps, warmup; /* in all, of these before the clock; 0: as many as a demo needs */
    double step_ns, op_ns; /* results: of a step, of an op */
} bench_overhead_job;
IG_MUST_CHECK ig_status bench_overhead_of(ig_cli *cli, bench_overhead_job *job);

/* What the layers above a backend take of a token: submits, the ns of one that does nothing, and
 * both as a share of the token's time. */
typedef struct bench_submits {
    double per_token, ns, share;
} bench_submits;
IG_MUST_CHECK ig_status bench_submits_of(ig_cli *cli, double submits_per_token, double token_ms,
                                         bench_submits *out);
json_t *bench_submits_json(bench_submits submits);
void bench_submits_print(bench_submits submits);

/* ---- Numbers ---- */

typedef struct bench_spread {
    double min, median, max;
} bench_spread;

/* Sorts the values, of which there is one at least. */
bench_spread bench_spread_of(double *values, size_t count);
json_t *bench_spread_json(bench_spread spread); /* {"min", "median", "max"} */

/* The slope and intercept of a line through the points that is nearest to them. */
typedef struct bench_line {
    double slope, at_zero;
} bench_line;
bench_line bench_line_through(const double *x, const double *y, size_t count);

/* A cost that is the difference of two times.  One that is not above zero says that the machine
 * changes more from turn to turn than it takes: it is not known, null and "-".  Returns `out`. */
enum { BENCH_COST_BYTES = 32 };
json_t *bench_cost_json(double ns);
const char *bench_cost_text(double ns, char out[BENCH_COST_BYTES]);

/* "1,2,4": at most so many numbers, each in the range; the error names the option. */
IG_MUST_CHECK ig_status bench_numbers(const char *option, const char *text, int64_t low,
                                      int64_t high, int most, int64_t *out, int *out_count);

/* ---- Surroundings ---- */

/* What a context computes with. */
typedef struct bench_device {
    char name[64], isa[64]; /* "cpu:0", "avx2" */
    int64_t threads;
} bench_device;
IG_MUST_CHECK ig_status bench_device_of(const ig_ctx *ctx, bench_device *out);
/* The same of a context that would be made. */
IG_MUST_CHECK ig_status bench_device_ask(ig_cli *cli, const char *device, int64_t threads,
                                         bench_device *out);

/* {"cpu", "processors"}: what figures are to be quoted with. */
json_t *bench_machine_json(void);
void bench_print_machine(void); /* the same, as a line */

uint64_t bench_rss(void);         /* bytes of the process, now */
uint64_t bench_peak_rss(void);    /* and so far */
void bench_forget_peak_rss(void); /* from here on, if the system can */

/* An allocator that counts, and otherwise is the one inside. */
typedef struct bench_counter {
    ig_allocator inner;
    _Atomic uint64_t calls;
} bench_counter;
ig_allocator bench_counting(bench_counter *counter, ig_allocator inner);

/* A context on `device` (NULL: the default) with so many threads (0: all). */
IG_MUST_CHECK ig_status bench_context(ig_cli *cli, const char *device, int64_t threads,
                                      ig_ctx **out);

#endif
