/*
 * ingot plugin - for those who write a backend: is it what Ingot expects, and are its numbers
 * right?
 */
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backend/plugin/loader.h"
#include "cli/app/cli.h"
#include "cli/app/output.h"
#include "cli/app/plugins.h"
#include "cli/app/report_file.h"
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

/* What the child is asked, and what it finds: in memory that both see. */
typedef struct checking {
    const ig_cli *cli;
    const char *op;
    char path[PATH_MAX], name[32], version[64];
    conformance result;
} checking;

static ig_status report(const ig_cli *cli, const checking *checked) {
    const conformance *c = &checked->result;
    const char *complaint = complaint_of(c);
    if (cli->json)
        IG_TRY(ig_run_result(
            cli, json_pack("{s:s, s:o, s:o, s:b, s:s, s:i, s:i, s:i, s:o}", "schema",
                           "ingot.plugin.v1", "backend", ig_json_text(checked->name), "version",
                           ig_json_text(checked->version), "ok", !*complaint, "complaint",
                           complaint, "passed", (int)c->all.passed, "refused", (int)c->all.refused,
                           "failed", (int)c->all.failed, "ops", rows_of(c))));
    else
        printf("%s: %u passed, %u refused, %u failed\n", checked->name, c->all.passed,
               c->all.refused, c->all.failed);
    if (!*complaint) return IG_OK;
    return IG_FAIL(IG_ERR_STATE, "%s: %s", checked->name, complaint);
}

static ig_status check(void *arg) {
    checking *c = arg;
    ig_plugin plugin = {0};
    IG_TRY(ig_plugin_open(c->path, &plugin));
    snprintf(c->name, sizeof c->name, "%s", plugin.backend.name);
    snprintf(c->version, sizeof c->version, "%s", plugin.backend.version);
    const conformance_options how = {.out = c->cli->json ? NULL : stdout, .op = c->op};
    const ig_status status = conformance_run(&plugin.backend, how, &c->result);
    ig_plugin_close(&plugin);
    return status;
}

static ig_status check_in_child(ig_cli *cli, const plugin_options *o, checking *c) {
    c->cli = cli;
    c->op = o->op;
    if (!realpath(o->file, c->path))
        return IG_FAIL(IG_ERR_IO, "%s: there is no such file", o->file);
    IG_TRY(ig_cli_try_plugin(cli, c->path));
    IG_TRY(ig_cli_in_child(check, c, false));
    return report(cli, c);
}

static ig_status run(ig_cli *cli, const void *options) {
    const plugin_options *o = options;
    if (strcmp(o->action, "check") != 0)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: there is check", o->action);
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
