/*
 * cmd_bench.h - shared by the subjects of `ingot bench`.
 *
 * Shared machines are noisy, so peers run alternately, and each result is a median with its spread.
 */
#ifndef IG_CLI_BENCH_CMD_BENCH_H
#define IG_CLI_BENCH_CMD_BENCH_H

#include <jansson.h>

#include "cli/app/cli.h"
#include "cli/bench/cmd_bench_serve.h"
#include "cli/bench/workload.h"
#include "ingot/grad.h"

typedef struct bench_options {
    const char *subject;
    int64_t threads, runs; /* 0: the subject's default */

    /* train */
    const char *workload, *mode, *device, *dump;
    int64_t steps, warmup, seed;
    ig_workload_sizes sizes;

    /* ops */
    const char *op;

    /* model */
    const char *model, *cache, *cache_v, *gpu_layers;
    const char *n_sequences, *n_depth; /* comma-separated numbers */
    int64_t n_prompt, chunk, threads_batch, draft_ngram;
    bool no_pack;

    bench_serve_options serve;
} bench_options;

ig_status bench_train(ig_cli *cli, const bench_options *o);
ig_status bench_overhead(ig_cli *cli, const bench_options *o);
ig_status bench_roofline(ig_cli *cli, const bench_options *o);
ig_status bench_ops_all(ig_cli *cli, const bench_options *o);
ig_status bench_routes(ig_cli *cli, const bench_options *o);
ig_status bench_model(ig_cli *cli, const bench_options *o);
ig_status bench_serve(ig_cli *cli, const bench_options *o);

/* "dynamic", "compiled", "auto": in the order of ig_mode; NULL at the end. */
extern const char *const bench_modes[];

/* The runtime's overhead in a workload's step: on the device "null", without batches. */
typedef struct bench_overhead_job {
    const ig_workload_type *type;
    ig_workload_sizes sizes;
    ig_mode mode;
    int threads;
    int64_t steps, warmup; /* total steps, and how many of these run before timing starts; 0: as
                              many as a demo needs */
    double step_ns, op_ns; /* results: per step, per op */
} bench_overhead_job;
IG_MUST_CHECK ig_status bench_overhead_of(ig_cli *cli, bench_overhead_job *job);

/* Overhead per token of the layers above a backend: number of submits, the ns of an empty one, and
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

/* Sorts the values; `count` is at least 1. */
bench_spread bench_spread_of(double *values, size_t count);
json_t *bench_spread_json(bench_spread spread); /* {"min", "median", "max"} */

/* Slope and intercept of a least-squares line through the points. */
typedef struct bench_line {
    double slope, at_zero;
} bench_line;
bench_line bench_line_through(const double *x, const double *y, size_t count);

/* Formats a cost that is the difference of two times. Noise may exceed it: a value not above 0 is
 * unknown, null in JSON and "-" as text. Returns `out`. */
enum { BENCH_COST_BYTES = 32 };
json_t *bench_cost_json(double ns);
const char *bench_cost_text(double ns, char out[BENCH_COST_BYTES]);

/* Parses "1,2,4": at most `most` integers within the range; errors name the option. */
IG_MUST_CHECK ig_status bench_numbers(const char *option, const char *text, int64_t low,
                                      int64_t high, int most, int64_t *out, int *out_count);

/* ---- Surroundings ---- */

/* Describes the device of a context. */
typedef struct bench_device {
    char name[64], isa[64]; /* "cpu:0", "avx2" */
    int64_t threads;
} bench_device;
IG_MUST_CHECK ig_status bench_device_of(const ig_ctx *ctx, bench_device *out);
/* As above, for a context that does not exist yet. */
IG_MUST_CHECK ig_status bench_device_ask(ig_cli *cli, const char *device, int64_t threads,
                                         bench_device *out);
/* Whether rooflines apply: only those of the CPU are measured. */
bool bench_has_roof(const bench_device *device);

/* {"cpu", "processors"}: the machine, to be quoted with figures. */
json_t *bench_machine_json(void);
void bench_print_machine(void); /* prints the same as a line */

uint64_t bench_rss(void);         /* current resident bytes of the process */
uint64_t bench_peak_rss(void);    /* peak resident bytes of the process */
void bench_forget_peak_rss(void); /* resets the peak, if the OS can */

/* A counting allocator that wraps another one. */
typedef struct bench_counter {
    ig_allocator inner;
    _Atomic uint64_t calls;
} bench_counter;
ig_allocator bench_counting(bench_counter *counter, ig_allocator inner);

/* A context on `device` (NULL: the default) with `threads` threads (0: all). "null" is used without
 * its self-test, so `device` must not come from the user. */
IG_MUST_CHECK ig_status bench_context(ig_cli *cli, const char *device, int64_t threads,
                                      ig_ctx **out);

/* Sum over tokens [first, end) of the positions each attends to: itself and all before it. */
static inline double ig_seen_by_rows(int64_t first, int64_t end) {
    const double from = (double)first, to = (double)end;
    return (to * (to + 1) - from * (from + 1)) / 2;
}

#endif
