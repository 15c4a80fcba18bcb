/*
 * The man page ingot(1) in roff, generated from the commands' tables.
 *
 * The build installs the output of `ingot help --man` as ingot.1.
 */
#include <string.h>

#include "cli/app/cli.h"
#include "ingot/report.h"

enum { LABEL_BYTES = 64, SHORT_WORD = 3 };

/* roff reads '-' as a hyphen, '\' as an escape, and '.' or ''' at a line's start as a request. */
static void put(FILE *to, const char *text) {
    bool line_start = true;
    for (; *text; text++) {
        if (line_start && (*text == '.' || *text == '\'')) fputs("\\&", to);
        line_start = *text == '\n';
        if (*text == '-')
            fputs("\\-", to);
        else if (*text == '\\')
            fputs("\\e", to);
        else if (*text == '\n' && text[1] == '\n') { /* between paragraphs */
            fputs("\n.PP\n", to);
            text++;
        } else
            fputc(*text, to);
    }
}

static void put_line(FILE *to, const char *before, const char *text, const char *after) {
    fputs(before, to);
    put(to, text);
    fputs(after, to);
}

static void put_options(FILE *to, const ig_opt *opts) {
    for (ig_opt_walk w = ig_opts_first(opts); w.opt; w = ig_opts_next(w)) {
        const ig_opt *opt = w.opt;
        if (opt->flags & OPT_HIDDEN) continue;
        fputs(".TP\n", to);
        if (opt->flags & OPT_POSITIONAL) {
            put_line(to, "\\fI", opt->name, "\\fR\n");
        } else {
            if (opt->letter) fprintf(to, "\\fB\\-%c\\fR, ", opt->letter);
            put_line(to, "\\fB\\-\\-", opt->name, "\\fR");
            if (opt->value) put_line(to, " \\fI", opt->value, "\\fR");
            fputc('\n', to);
        }
        char text[IG_DESCRIPTION_BYTES];
        put_line(to, "", ig_opt_describe(opt, text), "\n");
    }
}

/* llama.cpp options with all their names: -fa, --flash-attn. */
static void put_foreign(FILE *to) {
    for (const ig_opt *opt = ig_llama_opts; opt->kind != OPT_END; opt++) {
        fputs(".TP\n", to);
        put_line(to, "\\fB\\-\\-", opt->name, "\\fR");
        for (const char *at = opt->alias ? opt->alias : ""; *at; at += strspn(at, " ")) {
            const size_t length = strcspn(at, " ");
            char word[LABEL_BYTES];
            snprintf(word, sizeof word, "%s%.*s", length > SHORT_WORD ? "--" : "-", (int)length,
                     at);
            put_line(to, ", \\fB", word, "\\fR");
            at += length;
        }
        put_line(to, opt->kind == OPT_IGNORED ? "\naccepted: " : "\nrefused: ", opt->help, "\n");
    }
}

static void put_command(FILE *to, const ig_command *command) {
    char usage[IG_DESCRIPTION_BYTES];
    put_line(to, ".SS ingot ", command->name, " ");
    put_line(to, "", ig_opts_usage(command->opts, usage), "\n");
    put_line(to, "", command->about, "\n");
    put_options(to, command->opts);
}

static void put_examples(FILE *to, const ig_cli *cli) {
    fputs(".SH EXAMPLES\n", to);
    for (const ig_command *const *c = cli->commands; *c; c++)
        for (const char *const *e = (*c)->examples; e && e[0]; e += 2) {
            put_line(to, ".TP\n\\fB", e[0], "\\fR\n");
            put_line(to, "", e[1], "\n");
        }
}

/* Environment variables that are not in an option's row. */
static const char *const environment[][2] = {
    {"INGOT_DEVICE", "the device, without \\fB\\-\\-device\\fR; RM_DEVICE is an alias"},
    {"INGOT_THREADS", "the number of threads, without \\fB\\-\\-threads\\fR"},
    {"INGOT_ISA", "the CPU instruction set: scalar, avx2, avx512, avx512vnni or amx"},
    {"INGOT_CACHE_DIR", "folder of the compile cache instead of ~/.cache/ingot"},
    {"NO_COLOR", "any value but the empty one: no color"},
    {"CLICOLOR_FORCE", "any value but 0: color even without a terminal"},
    {"TERM", "dumb: no color and no progress bar"},
    {"COLUMNS", "the width of help texts, if the terminal does not report its own"},
};

void ig_man_print(const ig_cli *cli, FILE *to) {
    fprintf(to, ".TH INGOT 1 \"\" \"ingot %s\" \"Ingot\"\n", ig_version());
    fputs(".SH NAME\ningot \\- build, train, compile and run models on any device\n"
          ".SH SYNOPSIS\n\\fBingot\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR...]\n.br\n"
          "\\fBingot help\\fR [\\fICOMMAND\\fR]\n"
          ".SH DESCRIPTION\n"
          "Results go to standard output; progress, log messages and errors go to standard error.\n"
          "Called through a symlink named after a command, the program runs that command.\n"
          ".SH COMMANDS\n",
          to);
    for (const ig_command *const *c = cli->commands; *c; c++) put_command(to, *c);
    fputs(".SH OPTIONS OF EVERY COMMAND\n", to);
    put_options(to, ig_common_opts);
    fputs(".SH OPTIONS OF INGOT ITSELF\n", to);
    put_options(to, ig_global_opts);
    fputs(".SH OPTIONS OF OTHER PROGRAMS\n"
          "These llama.cpp options are accepted without effect or refused with a hint.\n",
          to);
    put_foreign(to);
    fputs(".SH EXIT STATUS\n", to);
    for (const ig_exit_row *row = ig_exit_rows; row->meaning; row++) {
        fprintf(to, ".TP\n\\fB%d\\fR\n", row->code);
        put_line(to, "", row->meaning, "\n");
    }
    fputs(".SH ENVIRONMENT\n", to);
    for (size_t i = 0; i < sizeof environment / sizeof environment[0]; i++)
        fprintf(to, ".TP\n\\fB%s\\fR\n%s\n", environment[i][0], environment[i][1]);
    put_examples(to, cli);
}
