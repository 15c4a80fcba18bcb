/*
 * ingot plan - shows the plan of a step: levels, chains, barriers, memory.
 *
 * Runs a few steps of a workload in Compiled mode, or a few tokens through a model, and shows the
 * plan that they replay, as a table, a picture or a trace of kernel calls per thread. A profile
 * adds each step's time beside its bytes and FLOP, and the machine's roofs, measured at the same
 * time.
 */
#include <string.h>

#include "cli/app/output.h"
#include "cli/app/progress.h"
#include "cli/app/report_file.h"
#include "cli/bench/cmd_bench.h"
#include "cli/commands/loaded_model.h"
#include "cli/view/plan_view.h"
#include "ingot/bench.h"
#include "ingot/grad.h"
#include "ingot/report.h"

enum { WARMUP = 6, PROFILED = 20, EVENTS = 1 << 18, ROOF_RUNS = 5, TITLE_BYTES = 160 };

typedef struct plan_options {
    const char *workload, *model, *device, *dot, *svg, *trace;
    int mode;
    int64_t threads;
    ig_workload_sizes sizes;
    bool profile;
} plan_options;

static const char *const modes[] = {"compiled", "auto", NULL};
static const ig_mode mode_of[] = {IG_MODE_COMPILED, IG_MODE_AUTO};

typedef struct planner {
    ig_cli *cli;
    const plan_options *options;
    const ig_workload_type *type;
    ig_ctx *ctx;           /* owned by the workload or the model */
    ig_workload *workload; /* NULL with a model */
    model_options model_options;
    loaded_model model;
    int64_t rows;            /* tokens per step */
    double pairs, positions; /* KV pairs attended to and positions read, per profiled step */
    bench_device device;
    char title[TITLE_BYTES];
    plan_view view;
    plan_layout *layout;         /* of the picture */
    json_t *profile;             /* NULL: not requested */
    double step_ns;              /* wall time of a profiled step */
    double roofs[IG_ROOF_COUNT]; /* per thread; 0: not measured */
} planner;

/* ---- Running ---- */

/* Runs the same tokens in every step: their values do not affect the plan. */
static ig_status feed(planner *p) {
    enum { MOST_ROWS = 4096 };
    static const int32_t tokens[MOST_ROWS];
    if (ig_session_length(p->model.session, 0) + p->rows > ig_session_ctx_len(p->model.session))
        IG_TRY(ig_session_truncate(p->model.session, 0, 0));
    const int64_t first = ig_session_length(p->model.session, 0);
    p->pairs += ig_seen_by_rows(first, first + p->rows);
    p->positions += (double)(first + p->rows);
    return ig_session_feed(p->model.session, 0, tokens, p->rows, NULL);
}

static ig_status run_steps(planner *p, int64_t steps) {
    for (int64_t i = 0; i < steps; i++) {
        if (p->model.session) {
            IG_TRY(feed(p));
            continue;
        }
        double loss;
        IG_TRY(ig_workload_next_batch(p->workload));
        IG_TRY(ig_workload_step(p->workload, &loss));
    }
    return IG_OK;
}

static int64_t events_of_a_run(const ig_ctx *ctx, ig_status *status) {
    json_t *profile = NULL;
    *status = ig_json_profile(ctx, &profile);
    const size_t events = json_array_size(json_object_get(profile, "events"));
    json_decref(profile);
    return (int64_t)events;
}

/* Profiles as many steps as the event ring holds, but at most PROFILED. */
static ig_status take_profile(planner *p) {
    ig_status status;
    IG_TRY(ig_profile_begin(p->ctx, EVENTS));
    IG_TRY(run_steps(p, 1));
    ig_profile_end(p->ctx);
    const int64_t events = events_of_a_run(p->ctx, &status);
    IG_TRY(status);
    int64_t steps = events > 0 ? EVENTS / 2 / events : PROFILED;
    steps = steps < 1 ? 1 : steps > PROFILED ? PROFILED : steps;

    IG_TRY(ig_profile_begin(p->ctx, EVENTS));
    p->pairs = p->positions = 0;
    const double began = ig_clock_seconds();
    status = run_steps(p, steps);
    p->step_ns = (ig_clock_seconds() - began) * 1e9 / (double)steps;
    p->pairs /= (double)steps;
    p->positions /= (double)steps;
    ig_profile_end(p->ctx);
    return status == IG_OK ? ig_json_profile(p->ctx, &p->profile) : status;
}

/* Adds to each attention step the bytes and FLOP of one layer's KV cache, which are known only
 * after a run. */
static void add_seen(planner *p) {
    if (!p->model.session) return;
    const ig_token_cost cost = ig_session_cost(p->model.session);
    const double layers = (double)ig_adapter_config(p->model.adapter).n_layers;
    for (uint32_t i = 0; i < p->view.n_steps; i++) {
        plan_step *s = &p->view.steps[i];
        if (strncmp(s->op, "attention_paged", strlen("attention_paged")) != 0) continue;
        s->bytes += (uint64_t)(p->positions * (double)cost.kv_bytes / layers);
        s->flop += (uint64_t)(2 * p->pairs * (double)cost.last_attention_macs);
    }
}

/* Measures the roofs of one thread, since step times are per thread; takes the maximum of several
 * runs, since other load only lowers a rate. */
static ig_status measure_roofs(planner *p) {
    const ig_roofline_options options = {
        .threads = 1, .seconds = 0.05, .allocator = p->cli->allocator};
    for (ig_roofline what = IG_ROOF_READ; what <= IG_ROOF_DOT_INT8; what++) {
        double rates[ROOF_RUNS];
        for (int i = 0; i < ROOF_RUNS; i++) IG_TRY(ig_roofline_measure(what, &options, &rates[i]));
        p->roofs[what] = bench_spread_of(rates, ROOF_RUNS).max;
    }
    return IG_OK;
}

static ig_status open_workload(planner *p) {
    const plan_options *o = p->options;
    IG_TRY(ig_workload_find(o->workload ? o->workload : ig_workload_char_mlp.name, &p->type));
    ig_run_model(p->cli, p->type->name);
    ig_ctx_options options = ig_cli_ctx_options(p->cli);
    options.device = o->device;
    options.threads = (int)o->threads;
    IG_TRY(ig_ctx_create(&options, &p->ctx));
    IG_TRY(ig_mode_set(p->ctx, mode_of[o->mode]));
    IG_TRY(ig_workload_create(p->type, p->ctx, o->sizes, &p->workload));
    p->rows = p->workload->sizes.batch;
    return IG_OK;
}

static ig_status open_model(planner *p) {
    const plan_options *o = p->options;
    if (o->workload || o->sizes.width || o->sizes.layers)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "--model: has its own sizes; leave out the options of workloads");
    p->rows = o->sizes.batch > 0 ? o->sizes.batch : 1;
    p->model_options = (model_options){.path = o->model,
                                       .device = o->device,
                                       .threads = o->threads,
                                       .ctx_len = o->sizes.length,
                                       .chunk = p->rows > 8 ? p->rows : 0};
    IG_TRY(loaded_model_open(p->cli, &p->model_options, &p->model));
    p->ctx = p->model.ctx;
    return model_session(&p->model, 0, 1);
}

static const char *subject(const planner *p) {
    return p->type ? p->type->name : ig_adapter_architecture(p->model.adapter);
}

static ig_status make_plan(planner *p) {
    const plan_options *o = p->options;
    json_t *plan;
    IG_TRY(o->model ? open_model(p) : open_workload(p));
    IG_TRY(run_steps(p, WARMUP));
    IG_TRY(bench_device_of(p->ctx, &p->device));
    IG_TRY(ig_json_plan(p->ctx, &plan));
    IG_TRY(plan_view_init(&p->view, &p->cli->allocator, plan));
    snprintf(p->title, sizeof p->title, "%s, %s %lld, %s %s, %lld threads", subject(p),
             p->type ? "batch" : "rows", (long long)p->rows, p->device.name, p->device.isa,
             (long long)p->device.threads);
    if (!o->profile && !o->trace) return IG_OK;
    IG_TRY(take_profile(p));
    plan_view_add_times(&p->view, p->profile);
    add_seen(p);
    return o->profile && bench_has_roof(&p->device) ? measure_roofs(p) : IG_OK;
}

/* ---- Files ---- */

static void print_dot(FILE *to, const void *what) {
    const planner *p = what;
    plan_dot_print(to, &p->view, p->title);
}

static void print_svg(FILE *to, const void *what) {
    const planner *p = what;
    plan_svg_print(to, &p->view, p->layout, p->title);
}

static void print_trace(FILE *to, const void *what) {
    const planner *p = what;
    plan_trace_print(to, &p->view, p->profile, p->title);
}

static ig_status write_files(planner *p) {
    const plan_options *o = p->options;
    if (o->dot) IG_TRY(ig_run_write(p->cli, "dot", o->dot, print_dot, p));
    if (o->trace) IG_TRY(ig_run_write(p->cli, "trace", o->trace, print_trace, p));
    if (!o->svg) return IG_OK;
    p->layout = plan_layout_create(&p->view);
    if (!p->layout) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for its picture", o->svg);
    return ig_run_write(p->cli, "svg", o->svg, print_svg, p);
}

/* ---- Results ---- */

static double fill_of(const plan_view *v) {
    return v->live_bytes > 0 ? (double)v->arena_bytes / (double)v->live_bytes : 1;
}

static void print_summary(const planner *p) {
    const plan_view *v = &p->view;
    char a[IG_UNIT_TEXT_BYTES], b[IG_UNIT_TEXT_BYTES], c[IG_UNIT_TEXT_BYTES];
    const bool color = p->cli->term.out_color;
    printf("%s%s%s\n\n", ig_term_style(color, IG_BOLD), p->title, ig_term_style(color, IG_PLAIN));
    printf("  %u steps in %u chains on %u levels, %llu barriers", v->n_steps, v->n_chains,
           v->n_levels, (unsigned long long)v->barriers);
    printf("; %llu regions, %llu copies, %llu buffers\n", (unsigned long long)v->regions,
           (unsigned long long)v->copies, (unsigned long long)v->buffers);
    printf("  arena %s: %.2f times the peak live size (%s); without reuse %s\n",
           ig_bytes_text(v->arena_bytes, a), fill_of(v), ig_bytes_text(v->live_bytes, b),
           ig_bytes_text(v->sum_bytes, c));
}

static void print_steps(const plan_view *v) {
    printf("\n  %5s %5s %5s  %-22s %-7s %-22s %12s %12s\n", "step", "level", "chain", "op",
           "weight", "result", "bytes", "FLOP");
    for (uint32_t i = 0; i < v->n_steps; i++) {
        const plan_step *s = &v->steps[i];
        char bytes[IG_UNIT_TEXT_BYTES], flop[IG_UNIT_TEXT_BYTES];
        printf("  %5u %5u %5u  %-22s %-7s %-22s %12s %12s\n", i, s->level, s->chain, s->op,
               s->weight, s->result, ig_count_text(s->bytes, bytes), ig_count_text(s->flop, flop));
    }
}

/* The share of a roof that one thread reaches during a step. */
static double share(const planner *p, uint64_t amount, double ns, ig_roofline what) {
    return ns > 0 && p->roofs[what] > 0 ? (double)amount / ns * 1e9 / p->roofs[what] : 0;
}

static const char *share_text(const planner *p, uint64_t amount, double ns, ig_roofline what,
                              char out[16]) {
    if (p->roofs[what] > 0)
        snprintf(out, 16, "%5.0f %%", 100 * share(p, amount, ns, what));
    else
        snprintf(out, 16, "-");
    return out;
}

/* null: no roof was measured */
static json_t *share_json(const planner *p, uint64_t amount, double ns, ig_roofline what) {
    return p->roofs[what] > 0 ? ig_json_real(share(p, amount, ns, what)) : json_null();
}

static json_t *roof_json(const planner *p, ig_roofline what) {
    return p->roofs[what] > 0 ? ig_json_real(p->roofs[what]) : json_null();
}

/* The roof of a step's arithmetic: int8 dot products run at four times the rate of FP32 FMA. */
static ig_roofline arithmetic_of(const plan_step *s) {
    return s->in_bytes ? IG_ROOF_DOT_INT8 : IG_ROOF_FMA_F32;
}

static void print_profile(const planner *p) {
    const plan_view *v = &p->view;
    double sum = 0;
    for (uint32_t i = 0; i < v->n_steps; i++) sum += v->steps[i].ns;
    printf(
        "\n  %.1f us per step of wall time while profiled; %.1f us in kernels, over %lld threads\n",
        p->step_ns / 1e3, sum / 1e3, (long long)p->device.threads);
    if (bench_has_roof(&p->device))
        printf("  roofline of one thread: %.1f GB/s read, %.1f GFLOP/s in F32, %.1f GOP/s in int8 "
               "(quantized weights);\n  shares are of that (above 100 %% of the read bandwidth: "
               "served by a CPU cache)\n",
               p->roofs[IG_ROOF_READ] / 1e9, p->roofs[IG_ROOF_FMA_F32] / 1e9,
               p->roofs[IG_ROOF_DOT_INT8] / 1e9);
    else
        printf("  no roofline for %s: only the CPU's is measured\n", p->device.name);
    printf("\n  %5s %5s %5s  %-22s %-7s %-18s %6s %9s %6s %12s %13s %7s %6s %8s %7s\n", "step",
           "level", "chain", "op", "weight", "result", "calls", "us", "time", "bytes", "FLOP",
           "GB/s", "of roof", "GFLOP/s", "of roof");
    for (uint32_t i = 0; i < v->n_steps; i++) {
        const plan_step *s = &v->steps[i];
        char bytes[IG_UNIT_TEXT_BYTES], flop[IG_UNIT_TEXT_BYTES];
        const double ns = s->ns > 0 ? s->ns : 1;
        char of_read[16], of_arithmetic[16];
        printf("  %5u %5u %5u  %-22s %-7s %-18s %6.0f %9.2f %4.1f %% %12s %13s %7.1f %7s %8.1f "
               "%7s\n",
               i, s->level, s->chain, s->op, s->weight, s->result, s->calls, s->ns / 1e3,
               sum > 0 ? 100 * s->ns / sum : 0, ig_count_text(s->bytes, bytes),
               ig_count_text(s->flop, flop), (double)s->bytes / ns,
               share_text(p, s->bytes, s->ns, IG_ROOF_READ, of_read), (double)s->flop / ns,
               share_text(p, s->flop, s->ns, arithmetic_of(s), of_arithmetic));
    }
}

static json_t *profile_json(const planner *p) {
    json_t *steps = json_array();
    for (uint32_t i = 0; i < p->view.n_steps; i++) {
        const plan_step *s = &p->view.steps[i];
        json_array_append_new(
            steps,
            json_pack("{s:I, s:s, s:s, s:o, s:o, s:I, s:I, s:s, s:o, s:o}", "step", (json_int_t)i,
                      "op", s->op, "weight", s->weight, "calls", ig_json_real(s->calls), "ns",
                      ig_json_real(s->ns), "bytes", (json_int_t)s->bytes, "flop",
                      (json_int_t)s->flop, "arithmetic", s->in_bytes ? "int8" : "f32",
                      "roof_share_read", share_json(p, s->bytes, s->ns, IG_ROOF_READ),
                      "roof_share_arithmetic", share_json(p, s->flop, s->ns, arithmetic_of(s))));
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "step_ns", ig_json_real(p->step_ns),
                     "read_bytes_per_s", roof_json(p, IG_ROOF_READ), "fma_flop_per_s",
                     roof_json(p, IG_ROOF_FMA_F32), "int8_op_per_s", roof_json(p, IG_ROOF_DOT_INT8),
                     "steps", steps);
}

static ig_status print_json(const planner *p) {
    const plan_view *v = &p->view;
    return ig_run_result(
        p->cli, json_pack("{s:s, s:s, s:s, s:I, s:I, s:s, s:s, s:o, s:I, s:O, s:o}", "schema",
                          "ingot.plan.v1", "workload", subject(p), "mode", modes[p->options->mode],
                          "batch", (json_int_t)p->rows, "threads", (json_int_t)p->device.threads,
                          "device", p->device.name, "instruction_set", p->device.isa, "arena_fill",
                          ig_json_real(fill_of(v)), "buffers", (json_int_t)v->buffers, "plan",
                          v->plan, "profile", p->options->profile ? profile_json(p) : json_null()));
}

/* ---- The command ---- */

static ig_status show(planner *p) {
    IG_TRY(make_plan(p));
    IG_TRY(write_files(p));
    if (p->cli->json) return print_json(p);
    print_summary(p);
    if (p->options->profile)
        print_profile(p);
    else
        print_steps(&p->view);
    return IG_OK;
}

static ig_status run(ig_cli *cli, const void *options) {
    planner p = {.cli = cli, .options = options};
    const ig_status status = show(&p);
    plan_layout_destroy(&p.view, p.layout);
    plan_view_deinit(&p.view);
    json_decref(p.profile);
    ig_workload_destroy(p.workload);
    if (!p.model.ctx) ig_ctx_destroy(p.ctx);
    loaded_model_close(&p.model);
    return status;
}

static const ig_opt opts[] = {
    {OPT_TEXT, 'w', "workload", offsetof(plan_options, workload), .help = "the workload",
     .default_help = "char-mlp", .value = "NAME", .flags = OPT_FIRST},
    {OPT_TEXT, 'm', "model", offsetof(plan_options, model),
     .help = "a .gguf or .oam file to run instead", .value = "FILE", .flags = OPT_FIRST | OPT_FILE},
    {OPT_CHOICE, 0, "mode", offsetof(plan_options, mode), .help = "grad mode", .value = "MODE",
     .initial = "compiled", .choices = modes, .flags = OPT_FIRST},
    {OPT_INT, 'b', "batch", offsetof(plan_options, sizes.batch),
     .help = "samples per step; with -m: tokens per step", .value = "N", .low = 1, .high = 4096,
     .flags = OPT_FIRST},
    {OPT_INT, 0, "d-model", offsetof(plan_options, sizes.width),
     .help = "hidden size of tinyllm or gpt", .value = "N", .low = 1, .high = 65536},
    {OPT_INT, 0, "layers", offsetof(plan_options, sizes.layers), .help = "layers of tinyllm or gpt",
     .value = "N", .low = 1, .high = 1000},
    {OPT_INT, 'c', "ctx", offsetof(plan_options, sizes.length), .help = "context length",
     .value = "N", .low = 1, .high = 1e6, .flags = OPT_FIRST},
    {OPT_FLAG, 0, "profile", offsetof(plan_options, profile),
     .help = "time each step, with its share of the CPU's roofline", .flags = OPT_FIRST},
    {OPT_TEXT, 0, "svg", offsetof(plan_options, svg), .help = "draw the plan as SVG",
     .value = "FILE", .flags = OPT_FIRST | OPT_FILE | OPT_OUTPUT},
    {OPT_TEXT, 0, "dot", offsetof(plan_options, dot), .help = "draw the plan as Graphviz DOT",
     .value = "FILE", .flags = OPT_FIRST | OPT_FILE | OPT_OUTPUT},
    {OPT_TEXT, 0, "trace", offsetof(plan_options, trace),
     .help = "write a Chrome trace of all threads (chrome://tracing, ui.perfetto.dev)",
     .value = "FILE", .flags = OPT_FIRST | OPT_FILE | OPT_OUTPUT},
    {OPT_INT, 't', "threads", offsetof(plan_options, threads),
     .help = "compute threads; 0: one per processor", .value = "N", .initial = "0",
     .env = "INGOT_THREADS", .low = 0, .high = 1024, .flags = OPT_FIRST},
    {OPT_TEXT, 0, "device", offsetof(plan_options, device), .help = "device to run on",
     .value = "NAME", .alias = "backend dev", .env = "INGOT_DEVICE", .flags = OPT_FIRST},
    {0},
};

static const char *const examples[] = {
    "ingot plan --svg plan.svg",
    "The plan of a char-mlp training step, as a table and as SVG.",
    "ingot plan --workload gpt --layers 2 --profile",
    "Time per step of a transformer, compared with the machine's rooflines.",
    "ingot plan --workload tinyllm --trace trace.json",
    "A timeline of all threads.",
    "ingot plan -m model.gguf --profile",
    "Time per step of decoding one token; with -b 64, of prefill.",
    NULL,
};

const ig_command cmd_plan = {
    .name = "plan",
    .summary = "show the plan of a model or training step",
    .about =
        "Trains a workload for a few steps in Compiled mode, or runs a few tokens through a model, "
        "and shows the plan that is replayed: its levels, chains and barriers, the arena and how "
        "well it is reused, and each step. The plan can be drawn, profiled and traced.",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(plan_options),
    .cancels = true,
    .run = run,
};
