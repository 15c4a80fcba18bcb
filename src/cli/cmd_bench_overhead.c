/*
 * ingot bench overhead - what the runtime costs, without the arithmetic.
 *
 * Steps of different length are replayed, all on tensors of one element, and
 * lines are laid through their times:
 *
 *   chain of n ops, device null   time = submit + n cursor        kernels compute nothing
 *   chain of n ops, cpu           time = ...    + n (cursor + launch)
 *   n pairs of ops, cpu           time = ...    + n (2 cursor + launch + barrier)
 *
 *     chain   x -> o -> o -> o -> assign        pairs   x -> o -> o -> o -> assign
 *                                                         \/   \/   \/  /
 *     each reads what the same thread wrote:              /\   /\   /\ /
 *     no barrier                                        x -> o -> o -> o     a barrier a pair
 *
 * cursor   a builder call in a replay: compare it with the recording, hand out the handle
 * launch   a step of a plan: its kernel's call, and the kernel with one element
 * barrier  all threads wait for each other; with one thread there is none
 * submit   a replay without its ops: beginning, binding memory, running the program, end
 *
 * Numbers of steps and barriers come from the plans themselves.  All probes run
 * in turns; each turn gives one set of slopes.
 */
#include "base/alloc.h"
#include "cli/cmd_bench.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "ingot/grad.h"
#include "ingot/ops.h"
#include "ingot/report.h"

enum { RUNS = 15, LENGTHS = 3, WARMUP = 8, TURN_OPS = 100000 /* builder calls in a turn */ };

static const int lengths[LENGTHS] = {16, 64, 128};

typedef enum family { CHAIN_NULL, CHAIN_CPU, PAIRS_CPU, FAMILIES } family;

/* A step of a certain length in a context of its own. */
typedef struct probe {
    ig_ctx *ctx;
    ig_tensor *x, *y; /* read, and written at the end: a step that writes nothing is no step */
    family family;
    int length;
    double steps, barriers; /* of the plan */
    double ns;              /* of a replay, in this turn */
} probe;

enum { CURSOR, LAUNCH, BARRIER, SUBMIT, COSTS };

static const struct {
    const char *label, *key, *what;
} costs[COSTS] = {
    [CURSOR] = {"cursor", "cursor_ns", "a builder call in a replay"},
    [LAUNCH] = {"launch", "launch_ns", "a step of a plan, with its kernel on one element"},
    [BARRIER] = {"barrier", "barrier_ns", "all threads wait for each other"},
    [SUBMIT] = {"submit", "submit_ns", "a replay without its ops"},
};

typedef struct overhead {
    ig_cli *cli;
    int runs;
    int64_t threads;
    probe probes[FAMILIES][LENGTHS];
    double *values; /* [costs, runs] */
    bool barriers;  /* there are some */
    bench_device device;
} overhead;

/* ---- Probes ---- */

static ig_status chain(const probe *p) {
    ig_tensor *a = p->x;
    for (int i = 0; i < p->length; i++) a = ig_neg(a);
    IG_TRY(ig_assign(p->y, a));
    return ig_step_end(p->ctx);
}

/* Both of a pair read both of the one before.  The values grow, but 2^128 is not reached. */
static ig_status pairs(const probe *p) {
    ig_tensor *a = p->x, *b = p->y;
    for (int i = 0; i < p->length; i++) {
        ig_tensor *sum = ig_sub(a, b), *difference = ig_sub(b, a);
        a = sum, b = difference;
    }
    IG_TRY(ig_assign(p->y, ig_sub(a, b)));
    return ig_step_end(p->ctx);
}

static ig_status replay(const probe *p) { return p->family == PAIRS_CPU ? pairs(p) : chain(p); }

/* Reads from the plan how many steps and barriers there really are. */
static ig_status look_at_plan(probe *p) {
    json_t *plan;
    IG_TRY(ig_json_plan(p->ctx, &plan));
    p->steps = (double)json_array_size(json_object_get(plan, "steps"));
    p->barriers = (double)json_integer_value(json_object_get(plan, "barriers"));
    json_decref(plan);
    return IG_OK;
}

static ig_status open_probe(ig_cli *cli, probe *p, int64_t threads) {
    const ig_desc one = {IG_F32, IG_SHAPE(1, 1)};
    IG_TRY(bench_context(cli, p->family == CHAIN_NULL ? "null" : "cpu",
                         p->family == PAIRS_CPU ? threads : 1, &p->ctx));
    IG_TRY(ig_mode_set(p->ctx, IG_MODE_COMPILED));
    IG_TRY(ig_tensor_create_from(p->ctx, one, &(float){1}, &p->x));
    IG_TRY(ig_tensor_create(p->ctx, one, &p->y));
    for (int i = 0; i < WARMUP; i++) IG_TRY(replay(p));
    return look_at_plan(p);
}

static void close_probe(probe *p) {
    ig_tensor_release(p->y);
    ig_tensor_release(p->x);
    ig_ctx_destroy(p->ctx);
}

static ig_status time_probe(probe *p) {
    const int count = TURN_OPS / p->length / (p->family == PAIRS_CPU ? 8 : 1);
    const double began = ig_clock_seconds();
    for (int i = 0; i < count; i++) IG_TRY(replay(p));
    p->ns = (ig_clock_seconds() - began) * 1e9 / count;
    return IG_OK;
}

/* ---- Lines ---- */

typedef double of_probe(const probe *p);
static double ops_of(const probe *p) { return p->length; }
static double steps_of(const probe *p) { return p->steps; }
static double barriers_of(const probe *p) { return p->barriers; }

static bench_line line_of(const probe probes[LENGTHS], of_probe *x_of) {
    double x[LENGTHS], y[LENGTHS];
    for (int i = 0; i < LENGTHS; i++) x[i] = x_of(&probes[i]), y[i] = probes[i].ns;
    return bench_line_through(x, y, LENGTHS);
}

/* What one turn says. */
static void evaluate(const overhead *o, double out[COSTS]) {
    const bench_line null = line_of(o->probes[CHAIN_NULL], ops_of);
    const bench_line cpu = line_of(o->probes[CHAIN_CPU], steps_of);
    const bench_line pair = line_of(o->probes[PAIRS_CPU], barriers_of);
    out[CURSOR] = null.slope;
    out[SUBMIT] = null.at_zero - null.slope; /* the assignment is a builder call too */
    out[LAUNCH] = cpu.slope - null.slope;
    out[BARRIER] = pair.slope - 2 * null.slope - out[LAUNCH];
}

static ig_status measure(overhead *o, ig_meter *meter) {
    for (int run = 0; run < o->runs; run++) {
        for (int f = 0; f < FAMILIES; f++)
            for (int i = 0; i < LENGTHS; i++) IG_TRY(time_probe(&o->probes[f][i]));
        double turn[COSTS];
        evaluate(o, turn);
        for (int c = 0; c < COSTS; c++) o->values[c * o->runs + run] = turn[c];
        if (run + 1 < o->runs) ig_meter_update(meter, (uint64_t)run + 1, "");
    }
    return IG_OK;
}

/* ---- Results ---- */

static bool is_known(const overhead *o, int cost) { return cost != BARRIER || o->barriers; }

static void print_table(const overhead *o, const bench_spread of[COSTS]) {
    bench_print_machine();
    printf("%s; %lld threads; median (least to most) of %d turns, in ns\n\n", o->device.isa,
           (long long)o->device.threads, o->runs);
    for (int c = 0; c < COSTS; c++) {
        if (is_known(o, c))
            printf("  %-8s %7.1f  (%.1f to %.1f)", costs[c].label, of[c].median, of[c].min,
                   of[c].max);
        else
            printf("  %-8s %7s  (one thread waits for nobody)", costs[c].label, "none");
        printf("  %s\n", costs[c].what);
    }
}

static ig_status print_json(const overhead *o, const bench_spread of[COSTS]) {
    json_t *root = json_pack("{s:s, s:o, s:s, s:I, s:i}", "schema", "ingot.bench.overhead.v1",
                             "machine", bench_machine_json(), "instruction_set", o->device.isa,
                             "threads", (json_int_t)o->device.threads, "runs", o->runs);
    for (int c = 0; c < COSTS; c++)
        json_object_set_new(root, costs[c].key,
                            is_known(o, c) ? bench_spread_json(of[c]) : json_null());
    return ig_json_print(root);
}

static ig_status show(const overhead *o) {
    bench_spread of[COSTS];
    for (int c = 0; c < COSTS; c++)
        of[c] = bench_spread_of(&o->values[c * o->runs], (size_t)o->runs);
    if (o->cli->json) return print_json(o, of);
    print_table(o, of);
    return IG_OK;
}

/* ---- The subject ---- */

static ig_status open_all(overhead *o) {
    for (int f = 0; f < FAMILIES; f++)
        for (int i = 0; i < LENGTHS; i++) {
            probe *p = &o->probes[f][i];
            p->family = (family)f, p->length = lengths[i];
            IG_TRY(open_probe(o->cli, p, o->threads));
        }
    const probe *least = &o->probes[PAIRS_CPU][0], *most = &o->probes[PAIRS_CPU][LENGTHS - 1];
    IG_TRY(bench_device_of(most->ctx, &o->device));
    o->barriers = o->device.threads > 1 && most->barriers > least->barriers;
    return IG_OK;
}

ig_status bench_overhead(ig_cli *cli, const bench_options *options) {
    const ig_allocator *a = &cli->allocator;
    overhead *o = ig_alloc(a, 1, sizeof *o);
    if (!o) return IG_FAIL(IG_ERR_MEMORY, "overhead: no memory");
    o->cli = cli, o->threads = options->threads;
    o->runs = options->runs > 0 ? (int)options->runs : RUNS;
    o->values = ig_alloc(a, (size_t)o->runs * COSTS, sizeof *o->values);
    ig_status status =
        o->values ? open_all(o) : IG_FAIL(IG_ERR_MEMORY, "overhead: no memory for the turns");
    ig_meter meter = ig_meter_begin(&cli->term, cli->quiet, "overhead", "turns", (uint64_t)o->runs);
    if (status == IG_OK) status = measure(o, &meter);
    if (status == IG_OK) {
        ig_meter_end(&meter, (uint64_t)o->runs, "");
        status = show(o);
    }
    for (int f = 0; f < FAMILIES; f++)
        for (int i = 0; i < LENGTHS; i++) close_probe(&o->probes[f][i]);
    ig_free(a, o->values);
    ig_free(a, o);
    return status;
}
