/*
 * ingot completion SHELL - prints a completion script.
 *
 * All three scripts complete the same words: commands after `ingot`; after a command its options,
 * the choices of an option, and file names where the value is a file.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/app/cli.h"
#include "cli/app/output.h"
#include "cli/app/report_file.h"

typedef struct completion_options {
    const char *shell;
} completion_options;

/* Option tables of a command: its own, and the common one. */
enum { LISTS = 2 };
static void lists_of(const ig_command *command, const ig_opt *out[LISTS]) {
    out[0] = command->opts;
    out[1] = ig_common_opts;
}

static bool is_shown(const ig_opt *opt) { return !(opt->flags & OPT_HIDDEN); }
static bool is_positional(const ig_opt *opt) { return opt->flags & OPT_POSITIONAL; }
static bool has_value(const ig_opt *opt) { return opt->kind != OPT_FLAG && !is_positional(opt); }

/* Writes text in single quotes of a shell; `zsh` also escapes the special characters of its specs.
 */
static void put_quoted(FILE *to, const char *text, bool zsh) {
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", to);
        else if (zsh && strchr("[]:\\", *text))
            fprintf(to, "\\%c", *text);
        else
            fputc(*text, to);
    }
}

static void put_choices(FILE *to, const ig_opt *opt) {
    for (size_t i = 0; ig_opt_word(opt, i); i++)
        fprintf(to, "%s%s", i ? " " : "", ig_opt_word(opt, i));
}

static void put_command_names(FILE *to, const ig_cli *cli) {
    for (const ig_command *const *c = cli->commands; *c; c++)
        fprintf(to, "%s%s", c == cli->commands ? "" : " ", (*c)->name);
}

/* ---- bash ---- */

/* One case per option with a value: `--color) words="auto always never" ;;`. */
static void bash_values(FILE *to, const ig_opt *opts) {
    for (ig_opt_walk w = ig_opts_first(opts); w.opt; w = ig_opts_next(w)) {
        const ig_opt *opt = w.opt;
        if (!is_shown(opt) || !has_value(opt)) continue;
        fprintf(to, "                --%s", opt->name);
        if (opt->letter) fprintf(to, "|-%c", opt->letter);
        fputs(") ", to);
        if (ig_opt_word(opt, 0)) {
            fputs("COMPREPLY=($(compgen -W \"", to);
            put_choices(to, opt);
            fputs("\" -- \"$word\"));", to);
        } else if (opt->flags & (OPT_FILE | OPT_DIR)) {
            fprintf(to, "compopt -o filenames; COMPREPLY=($(compgen -%c -- \"$word\"));",
                    opt->flags & OPT_DIR ? 'd' : 'f');
        }
        fputs(" return ;;\n", to);
    }
}

static void bash_command(FILE *to, const ig_cli *cli, const ig_command *command) {
    const ig_opt *lists[LISTS];
    lists_of(command, lists);
    fprintf(to, "        %s)\n            case $before in\n", command->name);
    for (int l = 0; l < LISTS; l++) bash_values(to, lists[l]);
    fputs("            esac\n            words=\"", to);
    const char *gap = "";
    for (int l = 0; l < LISTS; l++)
        for (ig_opt_walk w = ig_opts_first(lists[l]); w.opt; w = ig_opts_next(w)) {
            const ig_opt *opt = w.opt;
            if (!is_shown(opt) || is_positional(opt)) continue;
            fprintf(to, "%s--%s", gap, opt->name);
            gap = " ";
        }
    fputs("\"\n", to);
    for (ig_opt_walk w = ig_opts_first(command->opts); w.opt; w = ig_opts_next(w)) {
        const ig_opt *opt = w.opt;
        if (!is_positional(opt)) continue;
        fputs("            [[ $word != -* ]] && ", to);
        if (opt->flags & OPT_FILE)
            fputs("files=1\n", to);
        else {
            fputs("words=\"", to);
            if (ig_opt_word(opt, 0))
                put_choices(to, opt);
            else if (command == &cmd_help)
                put_command_names(to, cli);
            fputs("\"\n", to);
        }
    }
    fputs("            ;;\n", to);
}

static void print_bash(FILE *to, const ig_cli *cli) {
    fputs("# bash completion for ingot.  To use it:  source <(ingot completion bash)\n"
          "_ingot() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
          "    local command= words= files= i\n"
          "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
          "        [[ ${COMP_WORDS[i]} != -* ]] && { command=${COMP_WORDS[i]}; break; }\n"
          "    done\n"
          "    case $command in\n"
          "        '') words=\"",
          to);
    put_command_names(to, cli);
    fputs(" --help --version\" ;;\n", to);
    for (const ig_command *const *c = cli->commands; *c; c++) bash_command(to, cli, *c);
    fputs("    esac\n"
          "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
          "    if [[ $files ]]; then\n"
          "        compopt -o filenames\n"
          "        COMPREPLY+=($(compgen -f -- \"$word\"))\n"
          "    fi\n"
          "}\n"
          "complete -F _ingot ingot\n",
          to);
}

/* ---- zsh ---- */

static void zsh_action(FILE *to, const ig_opt *opt, const ig_cli *cli, const ig_command *command) {
    fputc(':', to);
    if (ig_opt_word(opt, 0)) {
        fputc('(', to);
        put_choices(to, opt);
        fputc(')', to);
    } else if (opt->flags & OPT_DIR)
        fputs("_files -/", to);
    else if (opt->flags & OPT_FILE)
        fputs("_files", to);
    else if (command == &cmd_help) {
        fputc('(', to);
        put_command_names(to, cli);
        fputc(')', to);
    }
}

static void zsh_option(FILE *to, const ig_opt *opt, const ig_cli *cli, const ig_command *command) {
    char text[IG_DESCRIPTION_BYTES];
    fputs(" \\\n                ", to);
    if (is_positional(opt)) {
        fprintf(to, "'%s%s", opt->flags & OPT_REPEAT ? "*" : "",
                opt->flags & (OPT_REQUIRED | OPT_REPEAT) ? ":" : "::");
        put_quoted(to, opt->name, true);
        zsh_action(to, opt, cli, command);
        fputc('\'', to);
        return;
    }
    const char *repeat = opt->flags & OPT_REPEAT ? "*" : "";
    if (opt->letter)
        fprintf(to, "'%s'{-%c%s,--%s%s}'[", *repeat ? repeat : "", opt->letter,
                has_value(opt) ? "+" : "", opt->name, has_value(opt) ? "=" : "");
    else
        fprintf(to, "'%s--%s%s[", repeat, opt->name, has_value(opt) ? "=" : "");
    put_quoted(to, ig_opt_describe(opt, text), true);
    fputc(']', to);
    if (has_value(opt)) {
        fprintf(to, ":%s", opt->value ? opt->value : opt->name);
        zsh_action(to, opt, cli, command);
    }
    fputc('\'', to);
}

static void print_zsh(FILE *to, const ig_cli *cli) {
    fputs("#compdef ingot\n"
          "# zsh completion for ingot.  To use it:  source <(ingot completion zsh)\n"
          "_ingot() {\n"
          "    local -a commands\n"
          "    commands=(\n",
          to);
    for (const ig_command *const *c = cli->commands; *c; c++) {
        fprintf(to, "        '%s:", (*c)->name);
        put_quoted(to, (*c)->summary, true);
        fputs("'\n", to);
    }
    fputs("    )\n"
          "    if (( CURRENT == 2 )); then\n"
          "        _describe command commands\n"
          "        return\n"
          "    fi\n"
          "    local command=$words[2]\n"
          "    shift words\n"
          "    (( CURRENT-- ))\n"
          "    case $command in\n",
          to);
    for (const ig_command *const *c = cli->commands; *c; c++) {
        const ig_opt *lists[LISTS];
        lists_of(*c, lists);
        fprintf(to, "        %s)\n            _arguments -s", (*c)->name);
        for (int l = 0; l < LISTS; l++)
            for (ig_opt_walk w = ig_opts_first(lists[l]); w.opt; w = ig_opts_next(w))
                if (is_shown(w.opt)) zsh_option(to, w.opt, cli, *c);
        fputs("\n            ;;\n", to);
    }
    fputs("    esac\n"
          "}\n"
          "if [[ $funcstack[1] == _ingot ]]; then _ingot \"$@\"; else compdef _ingot ingot; fi\n",
          to);
}

/* ---- fish ---- */

static void fish_option(FILE *to, const ig_opt *opt, const ig_cli *cli, const ig_command *command) {
    char text[IG_DESCRIPTION_BYTES];
    fprintf(to, "complete -c ingot -n '__fish_seen_subcommand_from %s'", command->name);
    if (!is_positional(opt)) {
        fprintf(to, " -l %s", opt->name);
        if (opt->letter) fprintf(to, " -s %c", opt->letter);
        if (has_value(opt)) fputs(opt->flags & (OPT_FILE | OPT_DIR) ? " -r -F" : " -x", to);
    } else if (opt->flags & OPT_FILE)
        fputs(" -F", to);
    if (ig_opt_word(opt, 0)) {
        fputs(" -a '", to);
        put_choices(to, opt);
        fputc('\'', to);
    } else if (is_positional(opt) && command == &cmd_help) {
        fputs(" -a '", to);
        put_command_names(to, cli);
        fputc('\'', to);
    }
    fputs(" -d '", to);
    put_quoted(to, ig_opt_describe(opt, text), false);
    fputs("'\n", to);
}

static void print_fish(FILE *to, const ig_cli *cli) {
    fputs("# fish completion for ingot.  To use it:  ingot completion fish | source\n"
          "complete -c ingot -f\n",
          to);
    for (const ig_command *const *c = cli->commands; *c; c++) {
        fprintf(to, "complete -c ingot -n __fish_use_subcommand -a %s -d '", (*c)->name);
        put_quoted(to, (*c)->summary, false);
        fputs("'\n", to);
    }
    for (const ig_command *const *c = cli->commands; *c; c++) {
        const ig_opt *lists[LISTS];
        lists_of(*c, lists);
        for (int l = 0; l < LISTS; l++)
            for (ig_opt_walk w = ig_opts_first(lists[l]); w.opt; w = ig_opts_next(w))
                if (is_shown(w.opt)) fish_option(to, w.opt, cli, *c);
    }
}

enum { BASH, ZSH, FISH, SHELLS };

static const char *const names[SHELLS + 1] = {[BASH] = "bash", [ZSH] = "zsh", [FISH] = "fish"};

static void (*const prints[SHELLS])(FILE *to, const ig_cli *cli) = {
    [BASH] = print_bash, [ZSH] = print_zsh, [FISH] = print_fish};

static ig_status print_json(const ig_cli *cli, int shell) {
    char *script = NULL;
    size_t bytes;
    FILE *memory = open_memstream(&script, &bytes);
    if (!memory) return IG_FAIL(IG_ERR_MEMORY, "completion: no memory");
    prints[shell](memory, cli);
    json_t *root = NULL;
    if (fclose(memory) == 0)
        root = json_pack("{s:s, s:s, s:s}", "schema", "ingot.completion.v1", "shell", names[shell],
                         "script", script);
    free(script);
    return ig_run_result(cli, root);
}

static ig_status run(ig_cli *cli, const void *options) {
    const completion_options *o = options;
    for (int shell = 0; shell < SHELLS; shell++) {
        if (strcmp(o->shell, names[shell]) != 0) continue;
        if (cli->json) return print_json(cli, shell);
        prints[shell](stdout, cli);
        return IG_OK;
    }
    return IG_FAIL(IG_ERR_ARGUMENT, "SHELL '%s': must be one of bash, zsh, fish", o->shell);
}

static const ig_opt opts[] = {
    {OPT_TEXT, 0, "SHELL", offsetof(completion_options, shell), .help = "the shell",
     .choices = names, .flags = OPT_POSITIONAL | OPT_REQUIRED},
    {0},
};

static const char *const examples[] = {
    "source <(ingot completion bash)",
    "Enable completion in this shell.",
    "ingot completion fish > ~/.config/fish/completions/ingot.fish",
    "Enable completion in every fish shell.",
    NULL,
};

const ig_command cmd_completion = {
    .name = "completion",
    .summary = "print a shell completion script",
    .about = "Prints a script for bash, zsh or fish that completes commands, options and their "
             "values. It is generated from the option tables.",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(completion_options),
    .run = run,
};
