/*
 * ingot info - the engine in its three roles: dispatch, pipeline cache, memory.
 *
 * Everything shown is measured: a small computation with its gradient runs twice in its own
 * context, so that programs are compiled the first time and cached the second.
 */
#include <string.h>

#include "cli/app/cli.h"
#include "cli/app/output.h"
#include "cli/app/report_file.h"
#include "ingot/grad.h"
#include "ingot/ops.h"
#include "ingot/report.h"

typedef struct info_options {
    const char *device;
    int64_t threads;
} info_options;

enum { ROWS = 8, COLUMNS = 16, ROUNDS = 2, OPS_BYTES = 512 };

/* mean(silu(x w)), x [8, 16], w [16, 16], and its gradient by w. */
static ig_status compute(ig_ctx *ctx, ig_tensor *x, ig_tensor *w) {
    IG_TRY(ig_tensor_fill_normal(x, 0, 1));
    IG_TRY(ig_tensor_fill_normal(w, 0, 0.25));
    IG_TRY(ig_tensor_require_grad(w));
    for (int round = 0; round < ROUNDS; round++) {
        ig_tensor_zero_grad(w);
        IG_TRY(ig_backward(ig_mean(ig_silu(ig_matmul(x, w)), NULL, 0, IG_DROP_DIM)));
        IG_TRY(ig_ctx_step_end(ctx));
    }
    return IG_OK;
}

/* ---- For people ---- */

/* The ops that a device ran, without duplicates: "matmul silu mean". */
static void ops_of(const json_t *timeline, const char *device, char out[OPS_BYTES]) {
    size_t used = 0, i;
    const json_t *entry;
    *out = 0;
    json_array_foreach(timeline, i, entry) {
        const char *op = json_string_value(json_object_get(entry, "module"));
        const char *where = json_string_value(json_object_get(entry, "device"));
        if (!op || !where || strcmp(where, device) != 0) continue;
        char word[80];
        snprintf(word, sizeof word, " %s ", op);
        if (strstr(out, word)) continue;
        const int n = snprintf(out + used, OPS_BYTES - used, "%s%s ", used ? "" : " ", op);
        if (n > 0 && used + (size_t)n < OPS_BYTES) used += (size_t)n;
    }
}

/* Prints one row per device, in the order of the timeline. */
static void print_devices(const json_t *timeline) {
    const json_t *entry;
    size_t i;
    json_array_foreach(timeline, i, entry) {
        const char *device = json_string_value(json_object_get(entry, "device"));
        bool seen = !device;
        for (size_t j = 0; j < i && !seen; j++) {
            const json_t *before = json_object_get(json_array_get(timeline, j), "device");
            seen = strcmp(json_string_value(before), device) == 0;
        }
        if (seen) continue;
        char ops[OPS_BYTES];
        ops_of(timeline, device, ops);
        printf("  %-18s%.*s\n", device, (int)strlen(ops) - 2, ops + 1); /* trim spaces */
    }
}

static void print_heading(const ig_cli *cli, const char *text) {
    printf("\n%s%s%s\n", ig_term_style(cli->term.out_color, IG_BOLD), text,
           ig_term_style(cli->term.out_color, IG_PLAIN));
}

static void print_bytes(const char *label, uint64_t bytes) {
    char text[IG_UNIT_TEXT_BYTES];
    printf("  %-18s%s\n", label, bytes == UINT64_MAX ? "not known" : ig_bytes_text(bytes, text));
}

static void print_summary(const ig_cli *cli, const ig_ctx *ctx, const json_t *report) {
    const json_t *config = json_object_get(report, "config_resolved");
    const ig_counters c = ig_report_counters(ctx);
    const ig_memory_stats m = ig_report_memory(ctx);
    const char *isa = json_string_value(json_object_get(config, "architecture"));
    printf("ingot %s on %s, after a matmul, a silu and their gradients, %d times\n", ig_version(),
           ig_ctx_device(ctx), ROUNDS);

    print_heading(cli, "dispatch");
    printf("  %-18s%s\n", "instruction set", isa && *isa ? isa : "none");
    printf("  %-18s%lld\n", "threads",
           (long long)json_integer_value(json_object_get(config, "threads")));
    printf("  %-18s%llu, in %llu submits of %llu kernels\n", "ops run", (unsigned long long)c.ops,
           (unsigned long long)c.submits, (unsigned long long)c.dispatches);
    printf("  %-18s%d\n", "ops in the table", IG_OP_COUNT);
    print_devices(json_object_get(report, "backend_timeline"));

    print_heading(cli, "pipeline cache");
    printf("  %-18s%llu\n", "programs", (unsigned long long)c.programs);
    printf("  %-18s%llu\n", "hits", (unsigned long long)c.program_hits);
    printf("  %-18s%llu\n", "misses", (unsigned long long)c.program_misses);

    print_heading(cli, "memory");
    print_bytes("allocated", m.allocated_bytes);
    print_bytes("peak", m.peak_bytes);
    print_bytes("available", m.available_bytes);
}

/* ---- For programs ---- */

static json_t *kernels_json(const json_t *timeline) {
    json_t *list = json_array();
    const json_t *entry;
    size_t i;
    json_array_foreach(timeline, i, entry) {
        json_array_append_new(list,
                              json_pack("{s:O*, s:O*}", "op", json_object_get(entry, "module"),
                                        "device", json_object_get(entry, "device")));
    }
    return list;
}

static ig_status print_json(const ig_cli *cli, const ig_ctx *ctx, json_t *report) {
    const json_t *config = json_object_get(report, "config_resolved");
    const ig_counters c = ig_report_counters(ctx);
    const ig_memory_stats m = ig_report_memory(ctx);
    return ig_run_result(
        cli,
        json_pack("{s:s, s:s, s:{s:s, s:O?, s:O?, s:i, s:I, s:I, s:I, s:I, s:o}, s:{s:I, s:I, s:I},"
                  " s:{s:o, s:o, s:o}}",
                  "schema", "ingot.info.v1", "version", ig_version(), "dispatch", "device",
                  ig_ctx_device(ctx), "instruction_set", json_object_get(config, "architecture"),
                  "threads", json_object_get(config, "threads"), "ops_in_table", IG_OP_COUNT, "ops",
                  (json_int_t)c.ops, "views", (json_int_t)c.views, "submits", (json_int_t)c.submits,
                  "dispatches", (json_int_t)c.dispatches, "kernels",
                  kernels_json(json_object_get(report, "backend_timeline")), "pipeline_cache",
                  "programs", (json_int_t)c.programs, "hits", (json_int_t)c.program_hits, "misses",
                  (json_int_t)c.program_misses, "memory", "allocated_bytes",
                  ig_json_count(m.allocated_bytes), "peak_bytes", ig_json_count(m.peak_bytes),
                  "available_bytes", ig_json_count(m.available_bytes)));
}

/* ---- The command ---- */

static ig_status show(ig_cli *cli, ig_ctx *ctx) {
    json_t *report;
    IG_TRY(ig_json_report(ctx, &report));
    ig_status status = IG_OK;
    if (cli->json)
        status = print_json(cli, ctx, report);
    else
        print_summary(cli, ctx, report);
    json_decref(report);
    return status;
}

static ig_status run(ig_cli *cli, const void *options) {
    const info_options *o = options;
    ig_ctx_options ctx_options = ig_cli_ctx_options(cli);
    ctx_options.device = o->device;
    ctx_options.threads = (int)o->threads;
    ig_ctx *ctx = NULL;
    ig_tensor *x = NULL, *w = NULL;
    ig_status status = ig_ctx_create(&ctx_options, &ctx);
    if (status == IG_OK)
        status = ig_tensor_create(ctx, (ig_desc){IG_F32, IG_SHAPE(ROWS, COLUMNS)}, &x);
    if (status == IG_OK)
        status = ig_tensor_create(ctx, (ig_desc){IG_F32, IG_SHAPE(COLUMNS, COLUMNS)}, &w);
    if (status == IG_OK) status = compute(ctx, x, w);
    if (status == IG_OK) status = show(cli, ctx);
    ig_tensor_release(w);
    ig_tensor_release(x);
    ig_ctx_destroy(ctx);
    return status;
}

static const ig_opt opts[] = {
    {OPT_TEXT, 0, "device", offsetof(info_options, device), .help = "the device to inspect",
     .value = "NAME", .alias = "backend dev", .env = "INGOT_DEVICE",
     .suggestion = ig_device_suggestion},
    {OPT_INT, 't', "threads", offsetof(info_options, threads),
     .help = "compute threads; 0: one per processor", .value = "N", .initial = "0",
     .env = "INGOT_THREADS", .low = 0, .high = 1024},
    {0},
};

static const char *const examples[] = {
    "ingot info",
    "The device and instruction set in use.",
    "ingot info --device ref --json | jq .dispatch",
    "Dispatch counters of another device, as JSON.",
    NULL,
};

const ig_command cmd_info = {
    .name = "info",
    .summary = "show runtime counters of a small computation",
    .about = "Runs a small computation and its gradient twice and prints runtime counters: the "
             "device and instruction set of each op, compiled programs and cache hits, and memory.",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(info_options),
    .run = run,
};
