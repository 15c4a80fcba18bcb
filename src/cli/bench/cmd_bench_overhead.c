/*
 * ingot bench overhead - the runtime's overhead, without the arithmetic.
 *
 * Steps of n chained ops on one element are replayed for several n, and a line is fitted through
 * the times:
 *
 *   device null   slope = cursor             kernels compute nothing
 *   cpu           slope = cursor + launch    one thread, no barriers
 *
 * cursor   a builder call in a replay: compare it with the recording, return the handle
 * submit   the shortest replay without its one builder call: begin, bind memory, end
 * launch   a step of a plan: the call of its kernel, and the kernel with one element
 * barrier  all threads of the team wait for each other
 * team     fork and join of all threads: the extra cost of a multi-threaded submit
 *
 * The number of launches is the number of plan steps. Barrier and team are measured directly, since
 * the backend avoids both where they do not pay. All probes alternate. A line is fitted through the
 * times of each turn, and the result is the median; a second fit uses the minimum of each time,
 * which excludes noise from other processes.
 *
 * All costs except barrier and team are differences of times. A difference not above 0 is within
 * the noise: the cost is unknown.
 */
#include "base/alloc.h"
#include "cli/app/output.h"
#include "cli/app/progress.h"
#include "cli/app/report_file.h"
#include "cli/bench/cmd_bench.h"
#include "ingot/bench.h"
#include "ingot/grad.h"
#include "ingot/ops.h"
#include "ingot/report.h"

enum { RUNS = 15, LENGTHS = 4, WARMUP = 8, TURN_OPS = 100000 /* builder calls in a turn */ };

static const int lengths[LENGTHS] = {0, 16, 64, 256}; /* besides the final assignment */
static const double turn_seconds = 0.01;              /* per turn, for barriers and for fork-join */

enum { ON_NULL, ON_CPU, DEVICES };
static const char *const devices[DEVICES] = {"null", "cpu"};

/* A step of a certain length in its own context. */
typedef struct probe {
    ig_ctx *ctx;
    ig_tensor *x, *y; /* read, and written at the end: a step without a write runs nothing */
    int length;
    double steps; /* of the plan */
    double *ns;   /* per turn: ns of a replay */
} probe;

enum { CURSOR, LAUNCH, BARRIER, TEAM, SUBMIT, COSTS };

static const struct {
    const char *label, *key, *what;
} costs[COSTS] = {
    [CURSOR] = {"cursor", "cursor_ns", "one builder call during replay"},
    [LAUNCH] = {"launch", "launch_ns", "one plan step, with a kernel on one element"},
    [BARRIER] = {"barrier", "barrier_ns", "one barrier of all threads"},
    [TEAM] = {"team", "team_ns", "one fork and join of all threads"},
    [SUBMIT] = {"submit", "submit_ns", "one replay without its steps"},
};

typedef struct overhead {
    ig_cli *cli;
    int runs;
    bench_device device;
    probe probes[DEVICES][LENGTHS];
    double *values;    /* [(devices x lengths) + costs][runs] */
    double *ns[COSTS]; /* per turn */
} overhead;

enum { PROBES = DEVICES * LENGTHS, SERIES = PROBES + COSTS };

/* ---- Probes ---- */

static ig_status replay(const probe *p) {
    ig_tensor *a = p->x;
    for (int i = 0; i < p->length; i++) a = ig_neg(a);
    IG_TRY(ig_assign(p->y, a));
    return ig_ctx_step_end(p->ctx);
}

static ig_status open_probe(ig_cli *cli, probe *p, const char *device) {
    const ig_desc one = {IG_F32, IG_SHAPE(1, 1)};
    json_t *plan;
    IG_TRY(bench_context(cli, device, 1, &p->ctx));
    IG_TRY(ig_mode_set(p->ctx, IG_MODE_COMPILED));
    IG_TRY(ig_tensor_create_from(p->ctx, one, &(float){1}, &p->x));
    IG_TRY(ig_tensor_create(p->ctx, one, &p->y));
    for (int i = 0; i < WARMUP; i++) IG_TRY(replay(p));
    IG_TRY(ig_json_plan(p->ctx, &plan));
    p->steps = (double)json_array_size(json_object_get(plan, "steps"));
    json_decref(plan);
    return IG_OK;
}

static void close_probe(probe *p) {
    ig_tensor_release(p->y);
    ig_tensor_release(p->x);
    ig_ctx_destroy(p->ctx);
}

static ig_status time_probe(const probe *p, int run) {
    const int count = TURN_OPS / (p->length + 1);
    const double began = ig_clock_seconds();
    for (int i = 0; i < count; i++) IG_TRY(replay(p));
    p->ns[run] = (ig_clock_seconds() - began) * 1e9 / count;
    return IG_OK;
}

static ig_status time_team(const overhead *o, ig_roofline what, double *out_ns) {
    const ig_roofline_options options = {
        .threads = (int)o->device.threads, .seconds = turn_seconds, .allocator = o->cli->allocator};
    double per_second;
    IG_TRY(ig_roofline_measure(what, &options, &per_second));
    *out_ns = 1e9 / per_second;
    return IG_OK;
}

static ig_status measure(overhead *o, ig_meter *meter) {
    for (int run = 0; run < o->runs; run++) {
        for (int i = 0; i < LENGTHS; i++) /* probes that are compared run alternately */
            for (int d = 0; d < DEVICES; d++) IG_TRY(time_probe(&o->probes[d][i], run));
        IG_TRY(time_team(o, IG_ROOF_BARRIER, &o->ns[BARRIER][run]));
        IG_TRY(time_team(o, IG_ROOF_FORK_JOIN, &o->ns[TEAM][run]));
        if (run + 1 < o->runs) ig_meter_update(meter, (uint64_t)run + 1, "");
    }
    return IG_OK;
}

/* ---- Lines ---- */

typedef enum quantile { MEDIAN, LEAST, QUANTILES } quantile;

static bench_line line_of(const probe probes[LENGTHS], const double ns[LENGTHS], bool by_steps) {
    double x[LENGTHS];
    for (int i = 0; i < LENGTHS; i++) x[i] = by_steps ? probes[i].steps : probes[i].length;
    return bench_line_through(x, ns, LENGTHS);
}

/* Computes the costs that are differences from the times of all probes. */
static void solve(const overhead *o, double ns[DEVICES][LENGTHS], double out[COSTS]) {
    const bench_line null = line_of(o->probes[ON_NULL], ns[ON_NULL], false);
    const bench_line ops = line_of(o->probes[ON_CPU], ns[ON_CPU], false);
    const bench_line steps = line_of(o->probes[ON_CPU], ns[ON_CPU], true);
    const double steps_per_op = steps.slope != 0 ? ops.slope / steps.slope : 1;
    out[CURSOR] = null.slope;
    out[SUBMIT] = ns[ON_NULL][0] - null.slope; /* without the assignment */
    out[LAUNCH] = (ops.slope - null.slope) / steps_per_op;
}

static double least_of(const double *values, int count) {
    double least = values[0];
    for (int i = 1; i < count; i++) least = values[i] < least ? values[i] : least;
    return least;
}

static void evaluate(const overhead *o, double out[QUANTILES][COSTS]) {
    double ns[DEVICES][LENGTHS], of_turn[COSTS];
    for (int run = 0; run < o->runs; run++) {
        for (int d = 0; d < DEVICES; d++)
            for (int i = 0; i < LENGTHS; i++) ns[d][i] = o->probes[d][i].ns[run];
        solve(o, ns, of_turn);
        for (int c = 0; c < COSTS; c++)
            if (c != BARRIER && c != TEAM) o->ns[c][run] = of_turn[c];
    }
    for (int d = 0; d < DEVICES; d++)
        for (int i = 0; i < LENGTHS; i++) ns[d][i] = least_of(o->probes[d][i].ns, o->runs);
    solve(o, ns, out[LEAST]);
    out[LEAST][BARRIER] = least_of(o->ns[BARRIER], o->runs);
    out[LEAST][TEAM] = least_of(o->ns[TEAM], o->runs);
    for (int c = 0; c < COSTS; c++)
        out[MEDIAN][c] = bench_spread_of(o->ns[c], (size_t)o->runs).median;
}

/* ---- Results ---- */

static bool is_known(const overhead *o, int cost) {
    return (cost != BARRIER && cost != TEAM) || o->device.threads > 1;
}

static void print_table(const overhead *o, double of[QUANTILES][COSTS]) {
    bench_print_machine();
    printf("%s; %lld threads; %d rounds, in ns\n\n  %-8s %8s %8s\n", o->device.isa,
           (long long)o->device.threads, o->runs, "", "median", "min");
    for (int c = 0; c < COSTS; c++) {
        char median[BENCH_COST_BYTES], least[BENCH_COST_BYTES];
        const bool shows = of[MEDIAN][c] > 0 && of[LEAST][c] > 0;
        if (is_known(o, c))
            printf("  %-8s %8s %8s   %s%s\n", costs[c].label,
                   bench_cost_text(of[MEDIAN][c], median), bench_cost_text(of[LEAST][c], least),
                   costs[c].what, shows ? "" : "; -: below the noise");
        else
            printf("  %-8s %8s %8s   no barrier on one thread\n", costs[c].label, "-", "-");
    }
}

static ig_status print_json(const overhead *o, double of[QUANTILES][COSTS]) {
    json_t *root = json_pack("{s:s, s:o, s:s, s:I, s:i}", "schema", "ingot.bench.overhead.v1",
                             "machine", bench_machine_json(), "instruction_set", o->device.isa,
                             "threads", (json_int_t)o->device.threads, "runs", o->runs);
    for (int c = 0; c < COSTS; c++) {
        json_t *cost = json_pack("{s:o, s:o}", "median", bench_cost_json(of[MEDIAN][c]), "min",
                                 bench_cost_json(of[LEAST][c]));
        if (!is_known(o, c)) json_decref(cost);
        json_object_set_new(root, costs[c].key, is_known(o, c) ? cost : json_null());
    }
    return ig_run_result(o->cli, root);
}

/* ---- The subject ---- */

static ig_status open_all(overhead *o) {
    for (int d = 0; d < DEVICES; d++)
        for (int i = 0; i < LENGTHS; i++) {
            probe *p = &o->probes[d][i];
            p->length = lengths[i];
            p->ns = o->values + (d * LENGTHS + i) * o->runs;
            IG_TRY(open_probe(o->cli, p, devices[d]));
        }
    for (int c = 0; c < COSTS; c++) o->ns[c] = o->values + (PROBES + c) * o->runs;
    return IG_OK;
}

static ig_status run_all(overhead *o) {
    double of[QUANTILES][COSTS];
    ig_meter meter =
        ig_meter_begin(&o->cli->term, o->cli->quiet, "overhead", "runs", (uint64_t)o->runs);
    const ig_status status = measure(o, &meter);
    if (status != IG_OK && meter.line_open) fputc('\n', stderr);
    IG_TRY(status);
    ig_meter_end(&meter, (uint64_t)o->runs, "");
    evaluate(o, of);
    if (o->cli->json) return print_json(o, of);
    print_table(o, of);
    return IG_OK;
}

ig_status bench_overhead(ig_cli *cli, const bench_options *options) {
    const ig_allocator *a = &cli->allocator;
    overhead o = {.cli = cli, .runs = options->runs > 0 ? (int)options->runs : RUNS};
    IG_TRY(bench_device_ask(cli, "cpu", options->threads, &o.device));
    o.values = ig_alloc(a, (size_t)o.runs * SERIES, sizeof *o.values);
    if (!o.values) return IG_FAIL(IG_ERR_MEMORY, "overhead: no memory for %d runs", o.runs);
    ig_status status = open_all(&o);
    if (status == IG_OK) status = run_all(&o);
    for (int d = 0; d < DEVICES; d++)
        for (int i = 0; i < LENGTHS; i++) close_probe(&o.probes[d][i]);
    ig_free(a, o.values);
    return status;
}
