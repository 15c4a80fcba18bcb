/*
 * ingot plugin - for those who write a backend: is it what Ingot expects, and are its numbers
 * right?
 */
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "backend/loader.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/plugins.h"
#include "cli/report.h"
#include "conformance/harness.h"

typedef struct plugin_options {
    const char *action, *file, *op;
} plugin_options;

static const char *verdict_of(conformance_count c) {
    return c.failed ? "FAIL" : c.passed ? "PASS" : "none";
}

static json_t *rows_of(const conformance *c) {
    json_t *rows = json_array();
    for (uint32_t op = 0; op < IG_OP_COUNT; op++)
        for (uint32_t d = 0; d < IG_DTYPE_COUNT; d++) {
            const conformance_count n = c->at[op][d];
            if (n.passed + n.refused + n.failed == 0) continue;
            json_array_append_new(
                rows, json_pack("{s:s, s:s, s:s, s:i, s:i, s:i}", "op", ig_op_name(op), "dtype",
                                ig_dtype_name((ig_dtype)d), "verdict", verdict_of(n), "passed",
                                (int)n.passed, "refused", (int)n.refused, "failed", (int)n.failed));
        }
    return rows;
}

/* What is wrong beyond single ops, in words; "": nothing. */
static const char *complaint_of(const conformance *c) {
    if (c->all.failed > 0) return "some ops give other numbers than the reference";
    if (c->all.passed == 0) return "no case was taken by the backend";
    if (c->leaked != 0) return "it did not give back all memory of the host";
    if (c->claimed & ~c->shown) return "info() lists dtypes that no case could show";
    return "";
}

static ig_status report(const ig_cli *cli, const ig_backend *backend, const conformance *c) {
    const char *complaint = complaint_of(c);
    if (cli->json)
        IG_TRY(ig_run_result(
            cli, json_pack("{s:s, s:o, s:o, s:b, s:s, s:i, s:i, s:i, s:o}", "schema",
                           "ingot.plugin.v1", "backend", ig_json_text(backend->name), "version",
                           ig_json_text(backend->version), "ok", !*complaint, "complaint",
                           complaint, "passed", (int)c->all.passed, "refused", (int)c->all.refused,
                           "failed", (int)c->all.failed, "ops", rows_of(c))));
    else
        printf("%s: %u passed, %u refused, %u failed\n", backend->name, c->all.passed,
               c->all.refused, c->all.failed);
    if (!*complaint) return IG_OK;
    return IG_FAIL(IG_ERR_STATE, "%s: %s", backend->name, complaint);
}

static ig_status run(ig_cli *cli, const void *options) {
    const plugin_options *o = options;
    char path[PATH_MAX];
    ig_plugin plugin = {0};
    if (strcmp(o->action, "check") != 0)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: there is check", o->action);
    if (!realpath(o->file, path)) return IG_FAIL(IG_ERR_IO, "%s: there is no such file", o->file);
    IG_TRY(ig_cli_try_plugin(path));
    IG_TRY(ig_plugin_open(path, &plugin));
    conformance *result = ig_alloc(&cli->allocator, 1, sizeof *result);
    ig_status status = result ? IG_OK : IG_FAIL(IG_ERR_MEMORY, "plugin check");
    const conformance_options how = {.out = cli->json ? NULL : stdout, .op = o->op};
    if (status == IG_OK) status = conformance_run(&plugin.backend, how, result);
    if (status == IG_OK) status = report(cli, &plugin.backend, result);
    ig_free(&cli->allocator, result);
    ig_plugin_close(&plugin);
    return status;
}

static const char *const actions[] = {"check", NULL};

static const ig_opt opts[] = {
    {OPT_TEXT, 0, "ACTION", offsetof(plugin_options, action), .help = "check", .choices = actions,
     .flags = OPT_POSITIONAL | OPT_REQUIRED},
    {OPT_TEXT, 0, "FILE", offsetof(plugin_options, file), .help = "the plugin, a shared library",
     .flags = OPT_POSITIONAL | OPT_REQUIRED | OPT_FILE},
    {OPT_TEXT, 0, "op", offsetof(plugin_options, op), .help = "cases of this op alone",
     .value = "NAME"},
    {0},
};

static const char *const examples[] = {
    "ingot plugin check ./vendor.so",
    "Runs every case of every op on the plugin, and compares with the reference.",
    NULL,
};

const ig_command cmd_plugin = {
    .name = "plugin",
    .summary = "check a backend plugin against the reference",
    .about = "Loads a backend plugin, in a process of its own first, and runs the conformance "
             "cases of every op on it: odd shapes, strides, empty tensors, each dtype. What it "
             "turns down is no failure; what it takes has to be right, the same with one thread "
             "and with three, and written nowhere else. Prints PASS or FAIL for each op and "
             "dtype.\n\ndocs/adding-a-backend.md says how to write one.",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(plugin_options),
    .run = run,
};
