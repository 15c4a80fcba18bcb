/*
 * ingot plugin - checks a backend plugin: does it follow the contract, and are its results correct?
 */
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cli/app/cli.h"
#include "cli/app/output.h"
#include "cli/app/plugins.h"
#include "cli/app/report_file.h"
#include "ingot/conformance.h"

typedef struct plugin_options {
    const char *action, *file, *op;
} plugin_options;

static const char *verdict_of(ig_conformance_count c) {
    return c.failed ? "FAIL" : c.passed ? "PASS" : "none";
}

/* Input and result of the child process, in shared memory. */
typedef struct checking {
    const ig_cli *cli;
    const char *op;
    char path[PATH_MAX], name[32], version[64];
    ig_conformance_count at[IG_OP_COUNT][IG_DTYPE_COUNT], all;
    char complaint[64];
} checking;

static json_t *rows_of(const checking *c) {
    json_t *rows = json_array();
    for (uint32_t op = 0; op < IG_OP_COUNT; op++)
        for (uint32_t d = 0; d < IG_DTYPE_COUNT; d++) {
            const ig_conformance_count n = c->at[op][d];
            if (n.passed + n.refused + n.failed == 0) continue;
            json_array_append_new(
                rows, json_pack("{s:s, s:s, s:s, s:i, s:i, s:i}", "op", ig_op_name(op), "dtype",
                                ig_dtype_name((ig_dtype)d), "verdict", verdict_of(n), "passed",
                                (int)n.passed, "refused", (int)n.refused, "failed", (int)n.failed));
        }
    return rows;
}

static ig_status report(const ig_cli *cli, const checking *c) {
    const char *complaint = c->complaint;
    if (cli->json)
        IG_TRY(ig_run_result(
            cli,
            json_pack("{s:s, s:o, s:o, s:b, s:s, s:i, s:i, s:i, s:o}", "schema", "ingot.plugin.v1",
                      "backend", ig_json_text(c->name), "version", ig_json_text(c->version), "ok",
                      !*complaint, "complaint", complaint, "passed", (int)c->all.passed, "refused",
                      (int)c->all.refused, "failed", (int)c->all.failed, "ops", rows_of(c))));
    else
        printf("%s: %u passed, %u refused, %u failed\n", c->name, c->all.passed, c->all.refused,
               c->all.failed);
    if (!*complaint) return IG_OK;
    return IG_FAIL(IG_ERR_STATE, "%s: %s", c->name, complaint);
}

static void keep(checking *c, const ig_conformance *result) {
    snprintf(c->name, sizeof c->name, "%s", ig_conformance_name(result));
    snprintf(c->version, sizeof c->version, "%s", ig_conformance_version(result));
    snprintf(c->complaint, sizeof c->complaint, "%s", ig_conformance_complaint(result));
    c->all = ig_conformance_total(result);
    for (uint32_t op = 0; op < IG_OP_COUNT; op++)
        for (uint32_t d = 0; d < IG_DTYPE_COUNT; d++)
            c->at[op][d] = ig_conformance_at(result, op, (ig_dtype)d);
}

static ig_status check(void *arg) {
    checking *c = arg;
    ig_conformance *result = NULL;
    const ig_conformance_options options = {.op = c->op, .out = c->cli->json ? NULL : stdout};
    IG_TRY(ig_conformance_run_plugin(c->path, &options, &result));
    keep(c, result);
    ig_conformance_destroy(result);
    return IG_OK;
}

/* Rejects an op without conformance cases, which would pass untested. */
static ig_status check_op(const checking *c) {
    uint32_t op = 0;
    if (!c->op) return IG_OK;
    while (op < IG_OP_COUNT && strcmp(ig_op_name(op), c->op) != 0) op++;
    if (op == IG_OP_COUNT) return IG_FAIL(IG_ERR_ARGUMENT, "--op '%s': there is no such op", c->op);
    return IG_OK;
}

static ig_status check_cases(const checking *c) {
    const ig_conformance_count n = c->all;
    if (!c->op || n.passed + n.refused + n.failed > 0) return IG_OK;
    return IG_FAIL(IG_ERR_ARGUMENT, "--op '%s': no conformance case runs this op", c->op);
}

static ig_status check_in_child(ig_cli *cli, const plugin_options *o, checking *c) {
    c->cli = cli;
    c->op = o->op;
    if (!realpath(o->file, c->path)) return IG_FAIL(IG_ERR_IO, "%s: no such file", o->file);
    IG_TRY(check_op(c));
    IG_TRY(ig_cli_try_plugin(cli, c->path));
    IG_TRY(ig_cli_in_child(check, c, false));
    IG_TRY(check_cases(c));
    return report(cli, c);
}

static ig_status run(ig_cli *cli, const void *options) {
    const plugin_options *o = options;
    if (strcmp(o->action, "check") != 0)
        return IG_FAIL(IG_ERR_ARGUMENT, "ACTION '%s': expected check", o->action);
    checking *c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (c == MAP_FAILED) return IG_FAIL(IG_ERR_MEMORY, "plugin check");
    const ig_status status = check_in_child(cli, o, c);
    munmap(c, sizeof *c);
    return status;
}

static const char *const actions[] = {"check", NULL};

static const ig_opt opts[] = {
    {OPT_TEXT, 0, "ACTION", offsetof(plugin_options, action), .help = "check", .choices = actions,
     .flags = OPT_POSITIONAL | OPT_REQUIRED},
    {OPT_TEXT, 0, "FILE", offsetof(plugin_options, file), .help = "the plugin (a shared library)",
     .flags = OPT_POSITIONAL | OPT_REQUIRED | OPT_FILE},
    {OPT_TEXT, 0, "op", offsetof(plugin_options, op), .help = "run only the cases of this op",
     .value = "NAME"},
    {0},
};

static const char *const examples[] = {
    "ingot plugin check ./vendor.so",
    "Run all conformance cases on the plugin.",
    NULL,
};

const ig_command cmd_plugin = {
    .name = "plugin",
    .summary = "run the conformance cases on a backend plugin",
    .about = "Loads a backend plugin, in a child process first, and runs the conformance cases of "
             "every op on it: odd shapes, strides, empty tensors, each dtype. A refused case is "
             "not a failure. An accepted case must be correct, bit-equal with one thread and with "
             "three, and must not write outside its outputs. Prints PASS or FAIL for each op and "
             "dtype.\n\ndocs/adding-a-backend.md explains how to write one.",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(plugin_options),
    .run = run,
};
