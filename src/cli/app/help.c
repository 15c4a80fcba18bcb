/*
 * --help, printed from the tables that the parser reads.
 */
#include <stdarg.h>
#include <string.h>

#include "cli/app/cli.h"

enum { LABEL_COLUMNS = 24, WIDEST = 100, LABEL_BYTES = 128 };

/* Appends to a text of IG_DESCRIPTION_BYTES; truncates. */
static void IG_PRINTF(2, 3) append(char *out, const char *fmt, ...) {
    const size_t used = strlen(out);
    va_list args;
    va_start(args, fmt);
    vsnprintf(out + used, IG_DESCRIPTION_BYTES - used, fmt, args);
    va_end(args);
}

const char *ig_opt_describe(const ig_opt *opt, char out[IG_DESCRIPTION_BYTES]) {
    *out = 0;
    append(out, "%s", opt->help);
    for (size_t i = 0; ig_opt_word(opt, i); i++)
        append(out, "%s%s", i ? ", " : " (", ig_opt_word(opt, i));
    if (ig_opt_word(opt, 0)) append(out, ")");
    const char *shown = opt->default_help ? opt->default_help : opt->initial;
    if (shown) append(out, " (default: %s)", shown);
    if (opt->env) append(out, " [$%s]", opt->env);
    return out;
}

const char *ig_opts_usage(const ig_opt *opts, char out[IG_DESCRIPTION_BYTES]) {
    *out = 0;
    append(out, "[OPTION...]");
    for (ig_opt_walk w = ig_opts_first(opts); w.opt; w = ig_opts_next(w)) {
        const ig_opt *opt = w.opt;
        if (!(opt->flags & OPT_POSITIONAL)) continue;
        const bool required = opt->flags & OPT_REQUIRED;
        append(out, " %s%s%s%s", required ? "" : "[", opt->name,
               opt->flags & OPT_REPEAT ? "..." : "", required ? "" : "]");
    }
    return out;
}

/* Prints text in lines of at most `width` columns; all but the first are indented. */
static void print_wrapped(FILE *to, const char *text, int column, int indent, int width) {
    while (*text) {
        if (*text == '\n') { /* an empty line ends a paragraph */
            fprintf(to, "\n\n%*s", indent, "");
            column = indent;
            text += strspn(text, "\n");
            continue;
        }
        const int word = (int)strcspn(text, " \n");
        if (column > indent && column + 1 + word > width) {
            fprintf(to, "\n%*s", indent, "");
            column = indent;
        }
        const char *gap = column > indent ? " " : "";
        fprintf(to, "%s%.*s", gap, word, text);
        column += word + (int)strlen(gap);
        text += word;
        if (*text == ' ') text++;
    }
    fputc('\n', to);
}

static void print_row(FILE *to, const char *label, const char *text, int width) {
    const int used = fprintf(to, "  %s", label);
    if (used + 2 > LABEL_COLUMNS)
        fprintf(to, "\n%*s", LABEL_COLUMNS, "");
    else
        fprintf(to, "%*s", LABEL_COLUMNS - used, "");
    print_wrapped(to, text, LABEL_COLUMNS, LABEL_COLUMNS, width);
}

static void print_heading(FILE *to, const char *text, bool color) {
    fprintf(to, "\n%s%s%s\n", ig_term_style(color, IG_BOLD), text, ig_term_style(color, IG_PLAIN));
}

/* With more options than this, --help shows those that are marked, and --help-all shows all. */
enum { FIRST_OPTIONS = 12 };

/* Whether --help leaves some of the options out. */
static bool has_more(const ig_opt *opts) {
    int count = 0, marked = 0;
    for (ig_opt_walk w = ig_opts_first(opts); w.opt; w = ig_opts_next(w)) {
        count += !(w.opt->flags & (OPT_POSITIONAL | OPT_HIDDEN));
        marked += !!(w.opt->flags & OPT_FIRST);
    }
    return count > FIRST_OPTIONS && marked > 0;
}

/* Prints all positionals, or all options; `only`: of these the marked ones. */
static void print_options(FILE *to, const ig_opt *opts, unsigned positional, unsigned only,
                          const char *heading, bool color, int width) {
    bool first = true;
    for (ig_opt_walk w = ig_opts_first(opts); w.opt; w = ig_opts_next(w)) {
        const ig_opt *opt = w.opt;
        if ((opt->flags & OPT_POSITIONAL) != positional || (opt->flags & OPT_HIDDEN)) continue;
        if ((opt->flags & only) != only) continue;
        if (first) print_heading(to, heading, color);
        first = false;
        char label[LABEL_BYTES], text[IG_DESCRIPTION_BYTES];
        const char letter[] = {'-', opt->letter, ',', ' ', 0};
        snprintf(label, sizeof label, "%s%s%s%s%s",
                 positional    ? ""
                 : opt->letter ? letter
                               : "    ",
                 positional ? "" : "--", opt->name, opt->value ? " " : "",
                 opt->value ? opt->value : "");
        print_row(to, label, ig_opt_describe(opt, text), width);
    }
}

static void print_examples(FILE *to, const ig_command *command, bool color, int width) {
    if (!command->examples) return;
    print_heading(to, "Examples", color);
    for (const char *const *e = command->examples; e[0]; e += 2) {
        fprintf(to, "  %s\n      ", e[0]);
        print_wrapped(to, e[1], 6, 6, width);
    }
}

static void print_program(const ig_cli *cli, FILE *to, bool color, int width) {
    fprintf(to, "%susage:%s ingot COMMAND [OPTION...]\n\n", ig_term_style(color, IG_BOLD),
            ig_term_style(color, IG_PLAIN));
    print_wrapped(to, "Ingot builds, trains, compiles and runs models on any device.", 0, 0, width);
    print_heading(to, "Commands", color);
    for (const ig_command *const *c = cli->commands; *c; c++)
        print_row(to, (*c)->name, (*c)->summary, width);
    const unsigned only = cli->help_all ? 0 : OPT_FIRST;
    print_options(to, ig_common_opts, 0, only, "Options", color, width);
    print_options(to, ig_global_opts, 0, 0, "Options of ingot itself", color, width);
    fputs("\n'ingot COMMAND --help' describes a command.\n", to);
}

void ig_help_print(const ig_cli *cli, const ig_command *command, FILE *to, bool color) {
    const int width = cli->term.width < WIDEST ? cli->term.width : WIDEST;
    if (!command) {
        print_program(cli, to, color, width);
        return;
    }
    char usage[IG_DESCRIPTION_BYTES];
    fprintf(to, "%susage:%s ingot %s %s\n\n", ig_term_style(color, IG_BOLD),
            ig_term_style(color, IG_PLAIN), command->name, ig_opts_usage(command->opts, usage));
    print_wrapped(to, command->about, 0, 0, width);
    const unsigned only = !cli->help_all && has_more(command->opts) ? OPT_FIRST : 0;
    print_options(to, command->opts, OPT_POSITIONAL, 0, "Arguments", color, width);
    print_options(to, command->opts, 0, only, "Options", color, width);
    if (cli->help_all)
        print_options(to, ig_common_opts, 0, 0, "Options of every command", color, width);
    print_examples(to, command, color, width);
    if (cli->help_all) return;
    char more[128];
    snprintf(more, sizeof more,
             "'ingot %s --help-all' lists all options, such as --json and --report.",
             command->name);
    fputc('\n', to);
    print_wrapped(to, more, 0, 0, width);
}
