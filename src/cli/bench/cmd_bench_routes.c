/*
 * ingot bench routes - one training step on each of the three routes.
 *
 * The routes alternate, so that load on the machine affects all of them alike. They start from the
 * same weights and see the same tokens: their losses are compared, or the times would be
 * meaningless.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/app/output.h"
#include "cli/app/progress.h"
#include "cli/app/report_file.h"
#include "cli/bench/cmd_bench.h"
#include "cli/train/train_routes.h"
#include "ingot/report.h"

enum { RUNS = 15, WARMUP = 3, VOCABULARY = 256 };

static const ig_train_options step_options = {.lr = 1e-3};
static const double most_apart = 1e-5; /* of the losses: sums differ in order */

typedef struct route {
    bench_counter allocations;
    ig_ctx *ctx;
    ig_adapter *adapter;
    double *ms;           /* per turn: ms of a step */
    bench_spread of;      /* over all turns */
    ig_counters counters; /* per step */
    uint64_t n_allocations;
    double loss; /* of the last step */
} route;

typedef struct routes {
    ig_cli *cli;
    int runs;
    int64_t batch;
    ig_model_config config;
    bench_device device;
    double *values;
    int32_t *tokens; /* [batch, ctx + 1] */
    route all[TRAIN_ROUTES];
} routes;

/* Fills in learnable tokens, different in every turn. */
static void fill_tokens(const routes *r, int turn) {
    const int64_t rows = r->config.ctx_len + 1;
    for (int64_t i = 0; i < r->batch * rows; i++)
        r->tokens[i] = (int32_t)((i % rows * (i % 7 + 1) + i / rows + turn) % VOCABULARY);
}

static ig_status open_route(routes *r, int i, int64_t threads) {
    route *one = &r->all[i];
    ig_ctx_options options = ig_cli_ctx_options(r->cli);
    options.threads = (int)threads;
    options.allocator = bench_counting(&one->allocations, r->cli->allocator);
    one->ms = r->values + (ptrdiff_t)i * r->runs;
    IG_TRY(ig_ctx_create(&options, &one->ctx));
    IG_TRY(ig_adapter_create(one->ctx, "llm", &r->config, &one->adapter));
    return train_route_begin(one->ctx, one->adapter, (train_route)i, r->batch, r->config.ctx_len,
                             &step_options);
}

static void close_route(route *one) {
    ig_adapter_destroy(one->adapter);
    ig_ctx_destroy(one->ctx);
}

static ig_status run_turn(const routes *r, route *one, int turn) {
    const ig_counters before = ig_report_counters(one->ctx);
    const uint64_t allocations = one->allocations.calls;
    const double began = ig_clock_seconds();
    IG_TRY(ig_adapter_train(one->adapter, r->tokens, r->batch, r->config.ctx_len, &step_options,
                            &one->loss));
    if (turn < 0) return IG_OK;
    one->ms[turn] = (ig_clock_seconds() - began) * 1e3;
    const ig_counters after = ig_report_counters(one->ctx);
    one->n_allocations = one->allocations.calls - allocations;
    one->counters = (ig_counters){.submits = after.submits - before.submits,
                                  .dispatches = after.dispatches - before.dispatches,
                                  .waits = after.waits - before.waits};
    return IG_OK;
}

static ig_status compare_losses(const routes *r) {
    const double easy = r->all[TRAIN_EASY].loss, replay = r->all[TRAIN_REPLAY].loss;
    const double production = r->all[TRAIN_PRODUCTION].loss;
    if (easy == replay && fabs(production - easy) <= most_apart * fabs(easy)) return IG_OK;
    return IG_FAIL(IG_ERR_STATE, "routes: the losses differ: %.9g, %.9g and %.9g", easy, replay,
                   production);
}

static ig_status measure(routes *r, ig_meter *meter) {
    for (int turn = -WARMUP; turn < r->runs; turn++) {
        if (ig_cli_cancelled(r->cli)) return IG_FAIL(IG_ERR_CANCELLED, "stopped");
        fill_tokens(r, turn + WARMUP);
        for (int i = 0; i < TRAIN_ROUTES; i++) IG_TRY(run_turn(r, &r->all[i], turn));
        IG_TRY(compare_losses(r));
        if (turn >= 0 && turn + 1 < r->runs) ig_meter_update(meter, (uint64_t)turn + 1, "");
    }
    for (int i = 0; i < TRAIN_ROUTES; i++)
        r->all[i].of = bench_spread_of(r->all[i].ms, (size_t)r->runs);
    return IG_OK;
}

/* ---- Results ---- */

static double tokens_per_second(const routes *r, const route *one) {
    return (double)(r->batch * r->config.ctx_len) / one->of.median * 1e3;
}

static void print_table(const routes *r) {
    char count[IG_UNIT_TEXT_BYTES];
    bench_print_machine();
    printf("%s; %lld threads; llm %lld x %lld, %s parameters; %lld x %lld tokens; runs: %d\n\n",
           r->device.isa, (long long)r->device.threads, (long long)r->config.d_model,
           (long long)r->config.n_layers,
           ig_count_text((uint64_t)ig_adapter_param_count(r->all[0].adapter), count),
           (long long)r->batch, (long long)r->config.ctx_len, r->runs);
    printf("  %-11s %9s %9s %9s %8s %10s %6s %11s\n", "route", "ms/step", "min", "tok/s", "submits",
           "dispatches", "waits", "allocations");
    for (int i = 0; i < TRAIN_ROUTES; i++) {
        const route *one = &r->all[i];
        printf(
            "  %-11s %9.3f %9.3f %9s %8llu %10llu %6llu %11llu\n", train_routes[i], one->of.median,
            one->of.min, ig_count_text((uint64_t)tokens_per_second(r, one), count),
            (unsigned long long)one->counters.submits, (unsigned long long)one->counters.dispatches,
            (unsigned long long)one->counters.waits, (unsigned long long)one->n_allocations);
    }
}

static ig_status print_json(const routes *r) {
    json_t *list = json_array();
    for (int i = 0; i < TRAIN_ROUTES; i++) {
        const route *one = &r->all[i];
        json_array_append_new(
            list, json_pack("{s:s, s:o, s:o, s:I, s:I, s:I, s:I, s:o}", "route", train_routes[i],
                            "ms_per_step", bench_spread_json(one->of), "tokens_per_s",
                            ig_json_real(tokens_per_second(r, one)), "submits",
                            (json_int_t)one->counters.submits, "dispatches",
                            (json_int_t)one->counters.dispatches, "waits",
                            (json_int_t)one->counters.waits, "allocations",
                            (json_int_t)one->n_allocations, "loss", ig_json_real(one->loss)));
    }
    return ig_run_result(
        r->cli,
        json_pack("{s:s, s:o, s:s, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:i, s:o}", "schema",
                  "ingot.bench.routes.v1", "machine", bench_machine_json(), "instruction_set",
                  r->device.isa, "threads", (json_int_t)r->device.threads, "arch", "llm",
                  "parameters", (json_int_t)ig_adapter_param_count(r->all[0].adapter), "d_model",
                  (json_int_t)r->config.d_model, "layers", (json_int_t)r->config.n_layers, "batch",
                  (json_int_t)r->batch, "ctx", (json_int_t)r->config.ctx_len, "runs", r->runs,
                  "routes", list));
}

static ig_status run_all(routes *r, int64_t threads) {
    for (int i = 0; i < TRAIN_ROUTES; i++) IG_TRY(open_route(r, i, threads));
    ig_meter meter =
        ig_meter_begin(&r->cli->term, r->cli->quiet, "routes", "runs", (uint64_t)r->runs);
    const ig_status status = measure(r, &meter);
    if (status != IG_OK && meter.line_open) fputc('\n', stderr);
    IG_TRY(status);
    ig_meter_end(&meter, (uint64_t)r->runs, "");
    if (r->cli->json) return print_json(r);
    print_table(r);
    return IG_OK;
}

static int64_t or_else(int64_t said, int64_t usual) { return said > 0 ? said : usual; }

ig_status bench_routes(ig_cli *cli, const bench_options *o) {
    const ig_allocator *a = &cli->allocator;
    routes r = {.cli = cli,
                .runs = (int)or_else(o->runs, RUNS),
                .batch = or_else(o->sizes.batch, 4),
                .config = {.d_model = or_else(o->sizes.width, 128),
                           .n_layers = or_else(o->sizes.layers, 3),
                           .ctx_len = or_else(o->sizes.length, 64)}};
    IG_TRY(bench_device_ask(cli, "cpu", o->threads, &r.device));
    r.values = ig_alloc(a, (size_t)r.runs * TRAIN_ROUTES, sizeof *r.values);
    r.tokens = ig_alloc(a, (size_t)r.batch, ((size_t)r.config.ctx_len + 1) * sizeof *r.tokens);
    ig_status status = r.values && r.tokens ? IG_OK : IG_FAIL(IG_ERR_MEMORY, "routes: no memory");
    if (status == IG_OK) status = run_all(&r, o->threads);
    for (int i = 0; i < TRAIN_ROUTES; i++) close_route(&r.all[i]);
    ig_free(a, r.tokens);
    ig_free(a, r.values);
    return status;
}
