/*
 * Overhead per token of the layers above a backend: the number of programs submitted per token,
 * times the cost of an empty submit.
 */
#include "cli/app/output.h"
#include "cli/app/progress.h"
#include "cli/bench/cmd_bench.h"
#include "ingot/graph.h"
#include "ingot/ops.h"

enum { TURNS = 9, REPLAYS = 4000 };

typedef struct probe {
    ig_tensor *x, *y;
} probe;

static ig_status record(void *arg) {
    const probe *p = arg;
    return ig_assign(p->y, ig_neg(p->x));
}

/* Median time of replaying a captured program, as sessions do. */
static ig_status time_replays(ig_captured *program, double *out_ns) {
    double ns[TURNS];
    for (int t = 0; t < TURNS; t++) {
        const double began = ig_clock_seconds();
        for (int i = 0; i < REPLAYS; i++) IG_TRY(ig_captured_replay(program));
        ns[t] = (ig_clock_seconds() - began) * 1e9 / REPLAYS;
    }
    *out_ns = bench_spread_of(ns, TURNS).median;
    return IG_OK;
}

static ig_status measure(ig_cli *cli, double *out_ns) {
    const ig_desc one = {IG_F32, IG_SHAPE(1, 1)};
    ig_ctx *ctx = NULL;
    probe p = {0};
    ig_captured *program = NULL;
    ig_ctx_options options = ig_cli_ctx_options(cli);
    options.device = "null";
    options.threads = 1;
    options.unsafe_device = true;
    options.on_destroy = NULL; /* report the model's context instead */
    ig_status status = ig_ctx_create(&options, &ctx);
    if (status == IG_OK) status = ig_tensor_create_from(ctx, one, &(float){1}, &p.x);
    if (status == IG_OK) status = ig_tensor_create(ctx, one, &p.y);
    if (status == IG_OK) status = ig_capture(ctx, record, &p, &program);
    if (status == IG_OK) status = time_replays(program, out_ns);
    ig_captured_destroy(program);
    ig_tensor_release(p.y);
    ig_tensor_release(p.x);
    ig_ctx_destroy(ctx);
    return status;
}

ig_status bench_submits_of(ig_cli *cli, double submits_per_token, double token_ms,
                           bench_submits *out) {
    *out = (bench_submits){.per_token = submits_per_token};
    IG_TRY(measure(cli, &out->ns));
    out->share = token_ms > 0 ? submits_per_token * out->ns / (token_ms * 1e6) : 0;
    return IG_OK;
}

json_t *bench_submits_json(bench_submits s) {
    return json_pack("{s:o, s:o, s:o}", "per_token", ig_json_real(s.per_token), "ns",
                     ig_json_real(s.ns), "share", ig_json_real(s.share));
}

void bench_submits_print(bench_submits s) {
    printf("  submits    %10.1f per token, %.0f ns each: %.3f %% of its time\n", s.per_token, s.ns,
           100 * s.share);
}
