/* ingot version - what this program is, and what it was made with. */
#include <string.h>

#include "cli/cli.h"
#include "cli/output.h"
#include "cli/report.h"
#include "ingot/report.h"

/* The build may say which commit it is of and which instruction sets it has kernels for. */
#ifndef INGOT_COMMIT
#    define INGOT_COMMIT ""
#endif
#ifndef INGOT_ISAS
#    define INGOT_ISAS ""
#endif

#if defined(__clang__)
static const char compiler[] = "clang " __clang_version__;
#else
static const char compiler[] = "gcc " __VERSION__;
#endif

enum { ISA_BYTES = 32 };

/* The set that the CPU backend settles on here; "" where it cannot, and why in the error. */
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

/* The compiled sets; where the build does not tell, the one in use is known to be there. */
static json_t *sets_json(const char *in_use) {
    json_t *list = json_array();
    const char *at = *INGOT_ISAS ? INGOT_ISAS : in_use;
    while (*at) {
        const size_t length = strcspn(at, " ;");
        json_array_append_new(list, json_stringn(at, length));
        at += length;
        at += strspn(at, " ;");
    }
    return list;
}

static ig_status print_json(const ig_cli *cli, const char *in_use) {
    return ig_run_result(cli, json_pack("{s:s, s:s, s:s*, s:s, s:o, s:s?}", "schema",
                                        "ingot.version.v1", "version", ig_version(), "commit",
                                        *INGOT_COMMIT ? INGOT_COMMIT : NULL, "compiler", compiler,
                                        "instruction_sets", sets_json(in_use), "instruction_set",
                                        *in_use ? in_use : NULL));
}

static void print_sets(void) {
    if (!*INGOT_ISAS) return;
    fputs("instruction sets: ", stdout);
    for (const char *at = INGOT_ISAS; *at; at++) putchar(*at == ';' ? ' ' : *at);
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
    print_sets();
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
    .about = "Shows the version, the compiler, the instruction sets that there are kernels for, "
             "and the one that is used on this machine. INGOT_ISA forces another.",
    .opts = opts,
    .run = run,
};
