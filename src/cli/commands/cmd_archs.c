/* ingot archs - lists the architectures: trainable ones and those of GGUF files. */
#include <jansson.h>
#include <string.h>

#include "cli/app/arch_plugin.h"
#include "cli/app/cli.h"
#include "cli/app/output.h"
#include "cli/app/report_file.h"
#include "ingot/arch.h"
#include "ingot/model.h"

typedef struct archs_options {
    const char *plugin;
} archs_options;

typedef struct arch_row {
    const char *name, *description, *source; /* "trained", "GGUF" or "plugin" */
} arch_row;

/* Row i: built-in architectures first, then those of the plugin; false: end. */
static bool row_at(const ig_ctx *ctx, size_t i, arch_row *out) {
    size_t built_in = 0;
    while (ig_arch_name(built_in)) built_in++;
    const ig_arch_desc *desc = ctx && i >= built_in ? ig_arch_registered(ctx, i - built_in) : NULL;
    *out = (arch_row){ig_arch_name(i), ig_arch_description(i),
                      ig_arch_is_trainable(i) ? "trained" : "GGUF"};
    if (desc) *out = (arch_row){desc->name, desc->description, "plugin"};
    return out->name != NULL;
}

static ig_status print_json(const ig_cli *cli, const ig_ctx *ctx) {
    json_t *list = json_array();
    arch_row row;
    for (size_t i = 0; row_at(ctx, i, &row); i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:b}", "name", row.name, "description",
                                              row.description, "trained",
                                              strcmp(row.source, "GGUF") != 0));
    return ig_run_result(cli, json_pack("{s:s, s:o}", "schema", "ingot.archs.v1", "archs", list));
}

static ig_status print_table(const ig_cli *cli, const ig_ctx *ctx) {
    int widest = 0;
    arch_row row;
    for (size_t i = 0; row_at(ctx, i, &row); i++)
        if ((int)strlen(row.name) > widest) widest = (int)strlen(row.name);
    for (size_t i = 0; row_at(ctx, i, &row); i++)
        printf("  %s%-*s%s  %-7s %s\n", ig_term_style(cli->term.out_color, IG_BOLD), widest,
               row.name, ig_term_style(cli->term.out_color, IG_PLAIN), row.source, row.description);
    return IG_OK;
}

/* Registered architectures belong to a context: creates one if a plugin is given. */
static ig_status open_plugin(ig_cli *cli, const char *plugin, ig_ctx **out) {
    ig_ctx_options options = ig_cli_ctx_options(cli);
    options.device = "cpu";
    options.threads = 1;
    if (!plugin) return IG_OK;
    IG_TRY(ig_ctx_create(&options, out));
    return ig_cli_load_archs(cli, *out, plugin);
}

static ig_status run(ig_cli *cli, const void *options) {
    ig_ctx *ctx = NULL;
    ig_status status = open_plugin(cli, ((const archs_options *)options)->plugin, &ctx);
    if (status == IG_OK) status = cli->json ? print_json(cli, ctx) : print_table(cli, ctx);
    ig_ctx_destroy(ctx);
    return status;
}

static const ig_opt opts[] = {IG_ARCH_PLUGIN_OPT(offsetof(archs_options, plugin)), {0}};

static const char *const examples[] = {
    "ingot archs",
    "The values of 'ingot train --arch', and the GGUF architectures that run.",
    "ingot archs --plugin ./my_model.so",
    "The same, and the architectures of a plugin.",
    NULL,
};

const ig_command cmd_archs = {
    .name = "archs",
    .summary = "list the architectures that can be trained or run",
    .about = "Lists the architectures that 'ingot train --arch' accepts and the GGUF architectures "
             "that run. Names are matched loosely: llm, Llm and OaLlm are the same.",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(archs_options),
    .run = run,
};
