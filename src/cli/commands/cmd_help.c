/* ingot help [COMMAND] - prints the help of the program or of a command. */
#include <jansson.h>

#include "cli/app/cli.h"
#include "cli/app/output.h"
#include "cli/app/report_file.h"

typedef struct help_options {
    const char *command;
    bool man;
} help_options;

static json_t *option_json(const ig_opt *opt) {
    char text[IG_DESCRIPTION_BYTES];
    const char letter[] = {opt->letter, 0};
    return json_pack("{s:s, s:s*, s:s*, s:s*, s:s*, s:b, s:b, s:b, s:s}", "name", opt->name,
                     "letter", opt->letter ? letter : NULL, "value", opt->value, "default",
                     opt->initial, "environment", opt->env, "positional",
                     !!(opt->flags & OPT_POSITIONAL), "required", !!(opt->flags & OPT_REQUIRED),
                     "repeats", !!(opt->flags & OPT_REPEAT), "help", ig_opt_describe(opt, text));
}

static json_t *options_json(const ig_opt *opts) {
    json_t *list = json_array();
    for (ig_opt_walk w = ig_opts_first(opts); list && w.opt; w = ig_opts_next(w))
        if (!(w.opt->flags & OPT_HIDDEN) && json_array_append_new(list, option_json(w.opt)) != 0) {
            json_decref(list);
            list = NULL;
        }
    return list;
}

static ig_status print_json(const ig_cli *cli, const ig_command *only) {
    json_t *commands = json_array();
    for (const ig_command *const *c = cli->commands; *c; c++) {
        if (only && *c != only) continue;
        json_array_append_new(commands, json_pack("{s:s, s:s, s:s, s:o}", "name", (*c)->name,
                                                  "summary", (*c)->summary, "about", (*c)->about,
                                                  "options", options_json((*c)->opts)));
    }
    return ig_run_result(cli, json_pack("{s:s, s:o, s:o}", "schema", "ingot.help.v1", "commands",
                                        commands, "common_options", options_json(ig_common_opts)));
}

static ig_status run(ig_cli *cli, const void *options) {
    const help_options *o = options;
    const ig_command *command = NULL;
    if (o->command && !(command = ig_command_find(cli, o->command))) {
        const char *near = ig_command_suggest(cli, o->command);
        return IG_FAIL(IG_ERR_ARGUMENT, "'%s': unknown command%s%s%s", o->command,
                       near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    }
    if (o->man)
        ig_man_print(cli, stdout);
    else if (cli->json)
        return print_json(cli, command);
    else
        ig_help_print(cli, command, stdout, cli->term.out_color);
    return IG_OK;
}

static const ig_opt opts[] = {
    {OPT_TEXT, 0, "COMMAND", offsetof(help_options, command),
     .help = "the command to describe (default: list all)", .flags = OPT_POSITIONAL},
    {OPT_FLAG, 0, "man", offsetof(help_options, man), .help = "print the man page as roff",
     .flags = OPT_HIDDEN},
    {0},
};

const ig_command cmd_help = {
    .name = "help",
    .summary = "describe a command and its options",
    .about = "Describes the program or one of its commands. 'ingot COMMAND --help' prints the same "
             "text.",
    .opts = opts,
    .options_bytes = sizeof(help_options),
    .run = run,
};
