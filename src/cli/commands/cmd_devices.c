/*
 * ingot devices - lists devices, and why others are unavailable.
 *
 * A device counts as working if it computes a few sums or matmuls correctly.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "cli/app/cli.h"
#include "cli/app/output.h"
#include "cli/app/plugins.h"
#include "cli/app/report_file.h"
#include "ingot/device.h"
#include "ingot/ingot.h"

typedef struct devices_options {
    bool explain;
} devices_options;

typedef struct listing {
    ig_cli *cli;
    json_t *all;
    ig_status status;
} listing;

/* ---- a small kernel ---- */

enum { SIDE = 8, COUNT = SIDE * SIDE };

static ig_tensor *sum(ig_tensor *a, ig_tensor *b) { return ig_add(a, b); }
static ig_tensor *product(ig_tensor *a, ig_tensor *b) { return ig_matmul(a, b); }

/* a holds small integers and b is the identity, so both results are exact in any dtype. */
static const struct trial {
    const char *op;
    ig_tensor *(*call)(ig_tensor *a, ig_tensor *b);
    float added; /* added to a[i] by b's diagonal */
} trials[] = {{"add", sum, 1}, {"matmul", product, 0}};

typedef struct work {
    const struct trial *trial;
    ig_tensor *a, *b, *y;
} work;

static ig_status record(void *arg) {
    work *w = arg;
    w->y = ig_tensor_retain(w->trial->call(w->a, w->b));
    return ig_eval(&w->y, 1);
}

/* Compiled: some devices run nothing else. */
static ig_status compute(work *w, double *out_ms) {
    const struct trial *t = w->trial;
    float got[COUNT];
    ig_captured *program = NULL;
    ig_status status = ig_capture(ig_tensor_ctx(w->a), record, w, &program);
    const double begin = ig_clock_ms();
    if (status == IG_OK) status = ig_captured_replay(program);
    if (status == IG_OK) status = ig_tensor_read(w->y, got, sizeof got);
    *out_ms = ig_clock_ms() - begin;
    ig_tensor_release(w->y);
    ig_captured_destroy(program);
    IG_TRY(status);
    for (int i = 0; i < COUNT; i++) {
        const float want = (float)(i % 13) + (i % (SIDE + 1) == 0 ? t->added : 0);
        if (got[i] != want)
            return IG_FAIL(IG_ERR_DEVICE, "%s gave %g; expected %g", t->op, (double)got[i],
                           (double)want);
    }
    return IG_OK;
}

static ig_status run_on(ig_ctx *ctx, const struct trial *t, double *out_ms) {
    float x[COUNT], identity[COUNT];
    work w = {.trial = t};
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)(i % 13);
        identity[i] = i % (SIDE + 1) == 0;
    }
    const ig_desc desc = {IG_F32, IG_SHAPE(SIDE, SIDE)};
    ig_status status = ig_tensor_create_from(ctx, desc, x, &w.a);
    if (status == IG_OK) status = ig_tensor_create_from(ctx, desc, identity, &w.b);
    if (status == IG_OK) status = ig_tensor_freeze(w.b); /* like weights */
    if (status == IG_OK) status = compute(&w, out_ms);
    ig_tensor_release(w.a);
    ig_tensor_release(w.b);
    return status;
}

/* The outcome, in memory shared with a child process. */
typedef struct outcome {
    ig_cli *cli;
    char device[64], words[IG_ERROR_BYTES];
    const char *plugin; /* its path; "": none */
    const char *op;
    double ms;
    bool ok;
} outcome;

/* All trials that the device supports must be correct; the last one is reported. */
static ig_status try_all(outcome *o, ig_ctx *ctx) {
    ig_status status = IG_ERR_UNSUPPORTED;
    for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++) {
        double ms = 0;
        const ig_status one = run_on(ctx, &trials[i], &ms);
        if (one == IG_ERR_UNSUPPORTED) continue;
        if (!o->op[0] || one != IG_OK) {
            o->op = trials[i].op;
            o->ms = ms;
        }
        status = one;
        if (one != IG_OK) break;
    }
    return status;
}

static ig_status try_kernels(void *arg) {
    outcome *o = arg;
    if (o->plugin[0]) setenv("INGOT_PLUGIN_PATH", o->plugin, 1); /* the only one needed */
    ig_ctx_options options = ig_cli_ctx_options(o->cli);
    options.device = o->device;
    options.strict = true;
    options.threads = 1;
    options.unsafe_device = true; /* so that wrong results can be reported */
    ig_ctx *ctx = NULL;
    ig_status status = ig_ctx_create(&options, &ctx);
    if (status == IG_OK) status = try_all(o, ctx);
    if (status != IG_OK) ig_cli_error(o->cli, o->words);
    ig_ctx_destroy(ctx);
    o->ok = status == IG_OK;
    return IG_OK;
}

/* A plugin's device may crash, so it is tried in a child process. */
static json_t *try_device(ig_cli *cli, const char *name, const char *plugin) {
    outcome *o = mmap(NULL, sizeof *o, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (o == MAP_FAILED) return json_null();
    o->cli = cli;
    o->op = "";
    o->plugin = plugin;
    snprintf(o->device, sizeof o->device, "%s", name);
    const ig_status status = plugin[0] ? ig_cli_in_child(try_kernels, o, true) : try_kernels(o);
    if (status != IG_OK) ig_cli_error(cli, o->words);
    json_t *row = json_pack("{s:s, s:b, s:o, s:o}", "op", o->op, "ok", o->ok, "ms",
                            ig_json_real(o->ms), "reason", ig_json_text(o->words));
    munmap(o, sizeof *o);
    return row;
}

/* ---- collecting ---- */

static json_t *dtypes_of(uint64_t dtypes) {
    json_t *list = json_array();
    for (uint32_t d = 0; d < IG_DTYPE_COUNT; d++)
        if (dtypes >> d & 1) json_array_append_new(list, json_string(ig_dtype_name((ig_dtype)d)));
    return list;
}

static void collect(void *user, const ig_device_entry *e) {
    static const char *const classes[] = {"cpu", "gpu", "npu"};
    listing *l = user;
    const bool known = e->available && e->info.device_class < sizeof classes / sizeof classes[0];
    json_t *row = json_pack(
        "{s:o, s:s, s:o, s:o, s:b, s:o, s:s, s:o, s:o, s:o, s:b, s:b, s:o}", "name",
        ig_json_text(e->name), "backend", e->backend, "version", ig_json_text(e->version), "plugin",
        e->plugin[0] ? ig_json_text(e->plugin) : json_null(), "available", e->available, "reason",
        ig_json_text(e->reason), "class", known ? classes[e->info.device_class] : "",
        "architecture", ig_json_text(e->info.architecture), "description",
        ig_json_text(e->info.name), "memory_bytes",
        e->info.memory_bytes ? ig_json_count(e->info.memory_bytes) : json_null(), "compile",
        (e->info.flags & IG_CAN_COMPILE) != 0, "graph", (e->info.flags & IG_CAN_GRAPH) != 0,
        "dtypes", dtypes_of(e->info.dtypes));
    if (!row || json_array_append(l->all, row) != 0)
        l->status = IG_FAIL(IG_ERR_MEMORY, "devices: the list");
    json_decref(row);
}

/* ---- printing ---- */

static const char *text(const json_t *row, const char *key) {
    const char *s = json_string_value(json_object_get(row, key));
    return s ? s : "";
}

static void explain(const json_t *row) {
    const json_t *kernel = json_object_get(row, "kernel");
    const json_t *dtypes = json_object_get(row, "dtypes");
    if (text(row, "plugin")[0]) printf("    plugin        %s\n", text(row, "plugin"));
    if (!json_is_true(json_object_get(row, "available"))) return;
    printf("    backend       %s, version %s\n", text(row, "backend"), text(row, "version"));
    printf("    architecture  %s\n", text(row, "architecture"));
    printf("    dtypes       ");
    for (size_t i = 0; i < json_array_size(dtypes); i++)
        printf(" %s", json_string_value(json_array_get(dtypes, i)));
    printf("\n    programs      %s%s\n",
           json_is_true(json_object_get(row, "compile")) ? "compiled by the device"
                                                         : "kernel lists",
           json_is_true(json_object_get(row, "graph")) ? ", replayed as a graph" : "");
    printf("    self-test     %s of %d elements: %.3f ms\n", text(kernel, "op"), COUNT,
           json_real_value(json_object_get(kernel, "ms")));
}

static void print(const ig_cli *cli, const json_t *all, bool explained) {
    size_t i;
    json_t *row;
    json_array_foreach(all, i, row) {
        const json_t *kernel = json_object_get(row, "kernel");
        const bool works = json_is_true(json_object_get(kernel, "ok"));
        const char *why = kernel ? text(kernel, "reason") : text(row, "reason");
        printf("%s%-14s%s %-4s %-8s %s\n", ig_term_style(cli->term.out_color, IG_BOLD),
               text(row, "name"), ig_term_style(cli->term.out_color, IG_PLAIN), text(row, "class"),
               works    ? "works"
               : kernel ? "fails"
                        : "absent",
               works ? text(row, "description") : why);
        if (explained) explain(row);
    }
    if (explained)
        printf("Plugin search path: INGOT_PLUGIN_PATH, the lists of config.json, "
               "PREFIX/lib/ingot/plugins.\n");
}

static ig_status run(ig_cli *cli, const void *options) {
    const devices_options *o = options;
    listing l = {cli, json_array(), IG_OK};
    const ig_ctx_options ctx_options = ig_cli_ctx_options(cli);
    ig_status status = ig_devices_each(&ctx_options, collect, &l);
    if (status == IG_OK) status = l.status;
    size_t i;
    json_t *row;
    json_array_foreach(l.all, i, row) {
        if (status != IG_OK || !json_is_true(json_object_get(row, "available"))) continue;
        json_object_set_new(row, "kernel", try_device(cli, text(row, "name"), text(row, "plugin")));
    }
    if (status == IG_OK && cli->json)
        return ig_run_result(
            cli, json_pack("{s:s, s:o}", "schema", "ingot.devices.v1", "devices", l.all));
    if (status == IG_OK) print(cli, l.all, o->explain);
    json_decref(l.all);
    return status;
}

static const ig_opt opts[] = {
    {OPT_FLAG, 0, "explain", offsetof(devices_options, explain),
     .help = "show capabilities, plugin files and the reason for each unavailable device"},
    {0},
};

static const char *const examples[] = {
    "ingot devices",
    "The values of --device on this machine.",
    "INGOT_PLUGIN_PATH=/opt/vendor ingot devices --explain",
    "The same with the plugins of a folder.",
    NULL,
};

const ig_command cmd_devices = {
    .name = "devices",
    .summary = "list the devices to run on",
    .about = "Lists the devices that --device accepts: those of built-in backends and those of "
             "plugins. Each device runs a small kernel as a self-test. An unavailable device is "
             "listed with the reason.\n\nA device is named by its backend (cpu, vulkan:1), by its "
             "class (gpu, npu:0, counted over all backends) or by auto. --device overrides "
             "INGOT_DEVICE and RM_DEVICE, which override \"device\" in config.json.",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(devices_options),
    .run = run,
};
