/* ingot archs - the architectures: those that are trained, and those of GGUF files. */
#include <jansson.h>
#include <string.h>

#include "cli/app/cli.h"
#include "cli/app/output.h"
#include "cli/app/report_file.h"
#include "ingot/model.h"

static ig_status print_json(const ig_cli *cli) {
    json_t *list = json_array();
    for (size_t i = 0; ig_arch_name(i); i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:b}", "name", ig_arch_name(i), "description",
                                        ig_arch_description(i), "trained", ig_arch_is_trained(i)));
    return ig_run_result(cli, json_pack("{s:s, s:o}", "schema", "ingot.archs.v1", "archs", list));
}

static ig_status run(ig_cli *cli, const void *options) {
    (void)options;
    if (cli->json) return print_json(cli);
    int widest = 0;
    for (size_t i = 0; ig_arch_name(i); i++)
        if ((int)strlen(ig_arch_name(i)) > widest) widest = (int)strlen(ig_arch_name(i));
    for (size_t i = 0; ig_arch_name(i); i++)
        printf("  %s%-*s%s  %-7s %s\n", ig_term_style(cli->term.out_color, IG_BOLD), widest,
               ig_arch_name(i), ig_term_style(cli->term.out_color, IG_PLAIN),
               ig_arch_is_trained(i) ? "trained" : "GGUF", ig_arch_description(i));
    return IG_OK;
}

static const ig_opt opts[] = {{0}};

static const char *const examples[] = {
    "ingot archs",
    "What --arch of 'ingot train' can be, and which GGUF files can be run.",
    NULL,
};

const ig_command cmd_archs = {
    .name = "archs",
    .summary = "list the architectures that can be trained or run",
    .about = "Lists the architectures that 'ingot train --arch' knows, and those whose GGUF files "
             "can be run. Names are taken as people write them: llm, Llm and OaLlm are one.",
    .examples = examples,
    .opts = opts,
    .options_bytes = 1,
    .run = run,
};
