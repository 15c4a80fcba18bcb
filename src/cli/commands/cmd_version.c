/* ingot version - the program's version and build. */
#include "cli/app/cli.h"
#include "cli/app/output.h"
#include "cli/app/report_file.h"
#include "ingot/device.h"
#include "ingot/report.h"

/* The build may define its commit. */
#ifndef INGOT_COMMIT
#    define INGOT_COMMIT ""
#endif

#if defined(__clang__)
static const char compiler[] = "clang " __clang_version__;
#else
static const char compiler[] = "gcc " __VERSION__;
#endif

enum { ISA_BYTES = 32 };

/* The instruction set that the CPU backend chooses here; "" on failure, with the thread's error
 * set. */
static void isa_in_use(ig_cli *cli, char out[ISA_BYTES]) {
    ig_ctx_options options = ig_cli_ctx_options(cli);
    options.device = "cpu";
    options.threads = 1;
    ig_ctx *ctx;
    *out = 0;
    if (ig_ctx_create(&options, &ctx) != IG_OK) return;
    json_t *report = NULL;
    if (ig_json_report(ctx, &report) == IG_OK) {
        const json_t *config = json_object_get(report, "config_resolved");
        const char *isa = json_string_value(json_object_get(config, "architecture"));
        snprintf(out, ISA_BYTES, "%s", isa ? isa : "");
    }
    json_decref(report);
    ig_ctx_destroy(ctx);
}

static json_t *sets_json(void) {
    json_t *list = json_array();
    const char *name;
    for (size_t i = 0; (name = ig_isa_name(i)) != NULL; i++)
        json_array_append_new(list, json_string(name));
    return list;
}

static json_t *backends_json(void) {
    json_t *list = json_array();
    const char *name;
    for (size_t i = 0; (name = ig_backend_name(i)) != NULL; i++)
        if (*ig_backend_version(i)) json_array_append_new(list, json_string(name));
    return list;
}

static ig_status print_json(const ig_cli *cli, const char *in_use) {
    return ig_run_result(cli, json_pack("{s:s, s:s, s:s*, s:s, s:o, s:o, s:s?}", "schema",
                                        "ingot.version.v1", "version", ig_version(), "commit",
                                        *INGOT_COMMIT ? INGOT_COMMIT : NULL, "compiler", compiler,
                                        "backends", backends_json(), "instruction_sets",
                                        sets_json(), "instruction_set", *in_use ? in_use : NULL));
}

static void print_lists(void) {
    const char *name;
    fputs("backends:", stdout);
    for (size_t i = 0; (name = ig_backend_name(i)) != NULL; i++)
        if (*ig_backend_version(i)) printf(" %s", name);
    putchar('\n');
    fputs("instruction sets:", stdout);
    for (size_t i = 0; (name = ig_isa_name(i)) != NULL; i++) printf(" %s", name);
    putchar('\n');
}

static ig_status run(ig_cli *cli, const void *options) {
    (void)options;
    char in_use[ISA_BYTES], why[IG_ERROR_BYTES];
    isa_in_use(cli, in_use);
    if (cli->json) return print_json(cli, in_use);

    const bool known = *INGOT_COMMIT;
    printf("ingot %s%s%s%s\n", ig_version(), known ? " (" : "", INGOT_COMMIT, known ? ")" : "");
    printf("compiler: %s\n", compiler);
    print_lists();
    if (*in_use)
        printf("in use here: %s\n", in_use);
    else
        printf("in use here: none (%s)\n", ig_cli_error(cli, why));
    return IG_OK;
}

static const ig_opt opts[] = {{0}};

const ig_command cmd_version = {
    .name = "version",
    .summary = "show version, compiler and instruction sets",
    .about = "Shows the version, the compiler, the built-in backends, the instruction sets with "
             "kernels and those of this machine, and the one in use. INGOT_ISA forces another one. "
             "'ingot devices' lists devices and plugins.",
    .opts = opts,
    .run = run,
};
