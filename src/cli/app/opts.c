/*
 * The parser of option tables.
 *
 * It makes three passes over the same rows: initial values, environment, argv.
 * All go through set_value(), so a test finds a default that is out of range.
 */
#include "cli/app/opts.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"

enum { LABEL_BYTES = 64, WORDS_MAX = 160, WORD_BYTES = 32 };

typedef struct parser {
    const ig_opt_set *sets;
    int n_sets;
    int argc, at;
    char **argv;
    int n_positional; /* taken so far */
} parser;

/* A row, and the struct it writes to. */
typedef struct match {
    const ig_opt *opt;
    char *to;
} match;

/* ---- Values ---- */

static ig_status check_range(const ig_opt *opt, const char *label, const char *text, double value) {
    if (opt->low == opt->high || (value >= opt->low && value <= opt->high)) return IG_OK;
    if (isinf(opt->high))
        return IG_FAIL(IG_ERR_ARGUMENT, "%s %s: must be %.15g or more", label, text, opt->low);
    return IG_FAIL(IG_ERR_ARGUMENT, "%s %s: must be from %.15g to %.15g", label, text, opt->low,
                   opt->high);
}

static ig_status set_int(const ig_opt *opt, const char *label, const char *text, void *to) {
    char *end;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno == EINVAL || strchr(" \t\n\v\f\r", *text))
        return IG_FAIL(IG_ERR_ARGUMENT, "%s '%s': not an integer", label, text);
    if (errno == ERANGE)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s %s: does not fit 64 bits", label, text);
    IG_TRY(check_range(opt, label, text, (double)value));
    *(int64_t *)to = value;
    return IG_OK;
}

static ig_status set_real(const ig_opt *opt, const char *label, const char *text, void *to) {
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value) || strchr(" \t\n\v\f\r", *text))
        return IG_FAIL(IG_ERR_ARGUMENT, "%s '%s': not a number", label, text);
    IG_TRY(check_range(opt, label, text, value));
    *(double *)to = value;
    return IG_OK;
}

/* The factor of "K", "KiB" (1024) or "KB" (1000), and so on; 0: no such unit. */
static uint64_t unit_bytes(const char *unit) {
    static const char letters[] = "KMGT";
    if (*unit == 0 || strcmp(unit, "B") == 0) return 1;
    const char upper = *unit >= 'a' && *unit <= 'z' ? (char)(*unit - 'a' + 'A') : *unit;
    const char *letter = strchr(letters, upper);
    if (!letter) return 0;
    uint64_t base = 1024;
    if (strcmp(unit + 1, "B") == 0 || strcmp(unit + 1, "b") == 0)
        base = 1000;
    else if (unit[1] && strcmp(unit + 1, "iB") != 0)
        return 0;
    uint64_t factor = 1;
    for (const char *l = letters; l <= letter; l++) factor *= base;
    return factor;
}

static ig_status set_bytes(const ig_opt *opt, const char *label, const char *text, void *to) {
    char *end;
    const double count = strtod(text, &end);
    const uint64_t unit = unit_bytes(end);
    if (end == text || unit == 0 || *text < '0' || *text > '9')
        return IG_FAIL(IG_ERR_ARGUMENT, "%s '%s': not a size such as 4096, 64K or 1.5GiB", label,
                       text);
    const double bytes = count * (double)unit;
    if (!(bytes < 0x1p63)) return IG_FAIL(IG_ERR_ARGUMENT, "%s %s: too large", label, text);
    IG_TRY(check_range(opt, label, text, bytes));
    *(uint64_t *)to = (uint64_t)bytes;
    return IG_OK;
}

static ig_status set_choice(const ig_opt *opt, const char *label, const char *text, void *to) {
    char list[160] = "";
    size_t used = 0;
    for (int i = 0; opt->choices[i]; i++) {
        if (strcmp(text, opt->choices[i]) == 0) {
            *(int *)to = i;
            return IG_OK;
        }
        const int wrote =
            snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", opt->choices[i]);
        used = wrote < 0 || used + (size_t)wrote >= sizeof list ? sizeof list - 1
                                                                : used + (size_t)wrote;
    }
    return IG_FAIL(IG_ERR_ARGUMENT, "%s '%s': must be one of %s", label, text, list);
}

static ig_status check_numbers(const char *label, const char *text) {
    for (const char *at = text;; at++) {
        char *end;
        const bool begins = *at >= '1' && *at <= '9';
        errno = 0;
        if (!begins || strtoll(at, &end, 10) < 1 || errno || (*end && *end != ','))
            return IG_FAIL(IG_ERR_ARGUMENT, "%s '%s': must be integers >= 1, such as 1,8,64", label,
                           text);
        if (!*end) return IG_OK;
        at = end;
    }
}

static ig_status set_text(const ig_opt *opt, const char *label, const char *text, void *to) {
    int choice;
    if (opt->flags & OPT_ONE_OF) IG_TRY(set_choice(opt, label, text, &choice));
    if (opt->flags & OPT_NUMBERS) IG_TRY(check_numbers(label, text));
    if (opt->flags & OPT_OUTPUT && strcmp(text, "-") == 0)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s -: must be a file, not standard output", label);
    if (!(opt->flags & OPT_REPEAT)) {
        *(const char **)to = text;
        return IG_OK;
    }
    ig_texts *texts = to;
    if (texts->count == IG_TEXTS_MAX)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: given more than %d times", label, IG_TEXTS_MAX);
    texts->at[texts->count++] = text;
    return IG_OK;
}

static ig_status set_flag(const ig_opt *opt, const char *label, const char *text, void *to) {
    (void)opt, (void)label, (void)text;
    *(bool *)to = true;
    return IG_OK;
}

/* `label` is the option as the user spelled it, or the variable: errors begin with it. */
static ig_status set_value(match m, ig_opt_source source, const char *label, const char *text) {
    static ig_status (*const set[])(const ig_opt *, const char *, const char *, void *) = {
        [OPT_FLAG] = set_flag, [OPT_INT] = set_int,   [OPT_BYTES] = set_bytes,
        [OPT_REAL] = set_real, [OPT_TEXT] = set_text, [OPT_CHOICE] = set_choice,
    };
    IG_TRY(set[m.opt->kind](m.opt, label, text, m.to));
    void *kept = m.to - m.opt->to + m.opt->source; /* in the same struct */
    if (m.opt->source > 0) *(ig_opt_source *)kept = source;
    return IG_OK;
}

/* ---- Finding rows ---- */

/* Skips from the ends of tables and into nested ones to the next row. */
static ig_opt_walk settle(const ig_opt *opt, const ig_opt *outer) {
    for (;;) {
        if (opt->kind == OPT_TABLE) {
            outer = opt;
            opt = opt->table;
        } else if (opt->kind == OPT_END && outer) {
            opt = outer + 1;
            outer = NULL;
        } else if (opt->kind == OPT_END) {
            return (ig_opt_walk){0};
        } else {
            return (ig_opt_walk){opt, opt->to + (outer ? outer->to : 0), outer};
        }
    }
}

ig_opt_walk ig_opts_first(const ig_opt *opts) { return settle(opts, NULL); }
ig_opt_walk ig_opts_next(ig_opt_walk walk) { return settle(walk.opt + 1, walk.outer); }

const char *ig_opt_word(const ig_opt *opt, size_t i) {
    if (opt->suggestion) return opt->suggestion(i);
    for (size_t n = 0; opt->choices && opt->choices[n]; n++)
        if (n == i) return opt->choices[n];
    return NULL;
}

static bool listed(const char *list, const char *name, size_t length) {
    while (list && *list) {
        const size_t word = strcspn(list, " ");
        if (word == length && memcmp(list, name, length) == 0) return true;
        list += word;
        list += strspn(list, " ");
    }
    return false;
}

static bool find_name(const parser *p, const char *name, size_t length, match *out) {
    for (int s = 0; s < p->n_sets; s++)
        for (ig_opt_walk w = ig_opts_first(p->sets[s].opts); w.opt; w = ig_opts_next(w)) {
            const ig_opt *opt = w.opt;
            if (opt->flags & OPT_POSITIONAL) continue;
            const bool own = strlen(opt->name) == length && memcmp(opt->name, name, length) == 0;
            if (!own && !listed(opt->alias, name, length)) continue;
            *out = (match){opt, (char *)p->sets[s].to + w.to};
            return true;
        }
    return false;
}

static bool find_letter(const parser *p, char letter, match *out) {
    for (int s = 0; s < p->n_sets; s++)
        for (ig_opt_walk w = ig_opts_first(p->sets[s].opts); w.opt; w = ig_opts_next(w))
            if (w.opt->letter == letter && letter != 0) {
                *out = (match){w.opt, (char *)p->sets[s].to + w.to};
                return true;
            }
    return false;
}

/* The positional with this index; a REPEAT one takes all remaining arguments. */
static bool find_positional(const parser *p, int number, match *out) {
    for (int s = 0; s < p->n_sets; s++)
        for (ig_opt_walk w = ig_opts_first(p->sets[s].opts); w.opt; w = ig_opts_next(w)) {
            if (!(w.opt->flags & OPT_POSITIONAL)) continue;
            if (number-- > 0 && !(w.opt->flags & OPT_REPEAT)) continue;
            *out = (match){w.opt, (char *)p->sets[s].to + w.to};
            return true;
        }
    return false;
}

int ig_edit_distance(const char *a, const char *b) {
    const size_t rows = strlen(a), columns = strlen(b);
    if (rows >= WORD_BYTES || columns >= WORD_BYTES) return WORD_BYTES;
    int d[WORD_BYTES][WORD_BYTES]; /* d[i][j]: from the first i letters of a to the first j of b */
    for (size_t i = 0; i <= rows; i++) d[i][0] = (int)i;
    for (size_t j = 0; j <= columns; j++) d[0][j] = (int)j;
    for (size_t i = 1; i <= rows; i++)
        for (size_t j = 1; j <= columns; j++) {
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best) best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best) best = d[i][j - 1] + 1;
            const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && d[i - 2][j - 2] + 1 < best) best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    return d[rows][columns];
}

const char *ig_nearest(const char *wrong, const char *const *words, int count) {
    const char *best = NULL;
    const size_t length = strlen(wrong);
    int least = length < 3 ? 2 : 1 + (int)(length + 2) / 3; /* one edit for three letters */
    for (int i = 0; i < count; i++) {
        if (!words[i]) continue;
        const bool prefix = length >= 2 && strncmp(words[i], wrong, length) == 0;
        const int edits = prefix ? 1 : ig_edit_distance(wrong, words[i]);
        if (edits >= least) continue;
        least = edits;
        best = words[i];
    }
    return best;
}

/* ---- argv ---- */

/* Candidates for "did you mean": names and aliases. */
typedef struct word_list {
    const char *at[WORDS_MAX];
    char aliases[WORDS_MAX][WORD_BYTES];
    int count;
} word_list;

static void add_words(word_list *l, const ig_opt *opt) {
    if (l->count < WORDS_MAX) l->at[l->count++] = opt->name;
    for (const char *a = opt->alias ? opt->alias : ""; *a && l->count < WORDS_MAX;) {
        const size_t length = strcspn(a, " ");
        snprintf(l->aliases[l->count], WORD_BYTES, "%.*s", (int)length, a);
        l->at[l->count] = l->aliases[l->count];
        l->count++;
        a += length + (a[length] == ' ');
    }
}

static ig_status unknown_option(const parser *p, const char *arg, const char *name, size_t length) {
    word_list words = {0};
    for (int s = 0; s < p->n_sets; s++)
        for (ig_opt_walk w = ig_opts_first(p->sets[s].opts); w.opt; w = ig_opts_next(w))
            if (!(w.opt->flags & (OPT_POSITIONAL | OPT_HIDDEN))) add_words(&words, w.opt);
    char wrong[WORD_BYTES];
    snprintf(wrong, sizeof wrong, "%.*s", (int)length, name);
    const char *near = ig_nearest(wrong, words.at, words.count);
    const int shown = (int)(name + length - arg);
    if (near)
        return IG_FAIL(IG_ERR_ARGUMENT, "%.*s: no such option; did you mean --%s?", shown, arg,
                       near);
    return IG_FAIL(IG_ERR_ARGUMENT, "%.*s: no such option", shown, arg);
}

/* Takes the next argument as a value, unless it looks like an option itself. */
static ig_status next_value(parser *p, const ig_opt *opt, const char *label, const char **out) {
    const char *next = p->at < p->argc ? p->argv[p->at] : NULL;
    if (!next)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: needs a value (%s)", label,
                       opt->value ? opt->value : opt->name);
    const bool negative = next[0] == '-' && next[1] && strchr("0123456789.", next[1]);
    if (next[0] == '-' && next[1] && !negative)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: needs a value (%s), but %s follows", label,
                       opt->value ? opt->value : opt->name, next);
    p->at++;
    *out = next;
    return IG_OK;
}

/* An option of another program: refused, or ignored with the choice that may follow it. */
static ig_status pass_over(parser *p, const ig_opt *opt, const char *label, const char *value) {
    int choice;
    if (opt->kind == OPT_REFUSED) return IG_FAIL(IG_ERR_ARGUMENT, "%s: %s", label, opt->help);
    if (value && opt->choices) return set_choice(opt, label, value, &choice);
    if (value) return IG_FAIL(IG_ERR_ARGUMENT, "%s: takes no value, but has '%s'", label, value);
    for (int i = 0; opt->choices && opt->choices[i] && p->at < p->argc; i++)
        if (strcmp(p->argv[p->at], opt->choices[i]) == 0) {
            p->at++;
            break;
        }
    return IG_OK;
}

/* A word after one dash or two: --steps=9, --steps 9, -ngl 9.  `known` is false: no such option. */
static ig_status parse_word(parser *p, const char *arg, bool *known) {
    const char *name = arg + (arg[1] == '-' ? 2 : 1);
    const size_t length = strcspn(name, "=");
    match m;
    *known = find_name(p, name, length, &m);
    /* One dash before a long name is only for aliases: -ub is one, -steps is a mistake. */
    if (*known && arg[1] != '-' && !listed(m.opt->alias, name, length)) *known = false;
    if (!*known) return IG_OK;

    char label[LABEL_BYTES];
    snprintf(label, sizeof label, "%.*s", (int)(name + length - arg), arg);
    const char *value = name[length] ? name + length + 1 : NULL;
    if (m.opt->kind == OPT_IGNORED || m.opt->kind == OPT_REFUSED)
        return pass_over(p, m.opt, label, value);
    if (m.opt->kind == OPT_FLAG && value)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: takes no value, but has '%s'", label, value);
    if (m.opt->kind != OPT_FLAG && !value) IG_TRY(next_value(p, m.opt, label, &value));
    return set_value(m, OPT_FROM_ARGV, label, value);
}

/* One dash: flags may stand together, the last letter may take a value: -qn9. */
static ig_status parse_letters(parser *p, const char *arg) {
    for (const char *at = arg + 1; *at; at++) {
        match m;
        if (!find_letter(p, *at, &m)) {
            if (at == arg + 1) return unknown_option(p, arg, arg + 1, strcspn(arg + 1, "="));
            return IG_FAIL(IG_ERR_ARGUMENT, "-%c in %s: no such option", *at, arg);
        }
        const char label[] = {'-', *at, 0};
        if (m.opt->kind == OPT_FLAG) {
            IG_TRY(set_value(m, OPT_FROM_ARGV, label, NULL));
            continue;
        }
        const char *value = at[1] == '=' ? at + 2 : at + 1;
        if (!*value) IG_TRY(next_value(p, m.opt, label, &value));
        return set_value(m, OPT_FROM_ARGV, label, value);
    }
    return IG_OK;
}

static ig_status parse_option(parser *p, const char *arg) {
    bool known;
    IG_TRY(parse_word(p, arg, &known));
    if (known) return IG_OK;
    if (arg[1] == '-') return unknown_option(p, arg, arg + 2, strcspn(arg + 2, "="));
    return parse_letters(p, arg);
}

static ig_status parse_positional(parser *p, const char *arg) {
    match m;
    if (!find_positional(p, p->n_positional, &m))
        return IG_FAIL(IG_ERR_ARGUMENT, "'%s': unexpected argument", arg);
    p->n_positional++;
    return set_value(m, OPT_FROM_ARGV, m.opt->name, arg);
}

static void set_unsaid(const ig_opt *opt, void *to) {
    if (opt->kind == OPT_INT) *(int64_t *)to = IG_NOT_GIVEN;
    if (opt->kind == OPT_REAL) *(double *)to = NAN;
    if (opt->kind == OPT_CHOICE) *(int *)to = -1;
}

static ig_status parse_defaults(const ig_opt_set *set) {
    for (ig_opt_walk w = ig_opts_first(set->opts); w.opt; w = ig_opts_next(w)) {
        const ig_opt *opt = w.opt;
        const match m = {opt, (char *)set->to + w.to};
        if (opt->flags & OPT_NO_DEFAULT) set_unsaid(opt, m.to);
        if (opt->initial) IG_TRY(set_value(m, OPT_FROM_INITIAL, opt->name, opt->initial));
        const char *value = opt->env ? getenv(opt->env) : NULL;
        if (value && *value) IG_TRY(set_value(m, OPT_FROM_ENV, opt->env, value));
    }
    return IG_OK;
}

/* The first error and its text. */
typedef struct first_failure {
    ig_status status;
    char text[512];
} first_failure;

static void keep_first(first_failure *f, ig_status status) {
    if (f->status != IG_OK || status == IG_OK) return;
    f->status = status;
    snprintf(f->text, sizeof f->text, "%s", ig_error_text());
}

/* Whether the value of a row is the same file. */
static bool names_file(const match *m, const char *file) {
    const void *to = m->to;
    if (m->opt->kind != OPT_TEXT || !(m->opt->flags & OPT_FILE)) return false;
    if (!(m->opt->flags & OPT_REPEAT)) {
        const char *text = *(const char *const *)to;
        return text && ig_file_is_same(text, file);
    }
    const ig_texts *texts = to;
    for (int i = 0; i < texts->count; i++)
        if (ig_file_is_same(texts->at[i], file)) return true;
    return false;
}

static ig_status guard_output(const parser *p, match out) {
    const char **file = (void *)out.to, *name = *file;
    for (int s = 0; name && s < p->n_sets; s++)
        for (ig_opt_walk w = ig_opts_first(p->sets[s].opts); w.opt; w = ig_opts_next(w)) {
            const match m = {w.opt, (char *)p->sets[s].to + w.to};
            if (m.to == out.to || w.opt->flags & out.opt->flags & OPT_RENEWED) continue;
            if (!names_file(&m, name)) continue;
            *file = NULL;
            return IG_FAIL(IG_ERR_ARGUMENT, "%s%s %s: would replace the file that %s%s names",
                           out.opt->flags & OPT_POSITIONAL ? "" : "--", out.opt->name, name,
                           m.opt->flags & OPT_POSITIONAL ? "" : "--", m.opt->name);
        }
    return IG_OK;
}

static ig_status guard_outputs(const parser *p) {
    for (int s = 0; s < p->n_sets; s++)
        for (ig_opt_walk w = ig_opts_first(p->sets[s].opts); w.opt; w = ig_opts_next(w))
            if (w.opt->flags & OPT_OUTPUT)
                IG_TRY(guard_output(p, (match){w.opt, (char *)p->sets[s].to + w.to}));
    return IG_OK;
}

/* Parsing continues after an error: a later --report says where to report it. */
ig_status ig_opts_parse(const ig_opt_set *sets, int n_sets, int argc, char **argv, int *out_used) {
    parser p = {.sets = sets, .n_sets = n_sets, .argc = argc, .argv = argv};
    first_failure first = {.status = IG_OK};
    for (int s = 0; s < n_sets; s++) keep_first(&first, parse_defaults(&sets[s]));

    bool options = true; /* until "--" */
    while (p.at < argc) {
        const char *arg = argv[p.at];
        const bool is_option = options && arg[0] == '-' && arg[1];
        if (!is_option && out_used) break;
        p.at++;
        if (is_option && strcmp(arg, "--") == 0)
            options = false;
        else
            keep_first(&first, is_option ? parse_option(&p, arg) : parse_positional(&p, arg));
    }
    if (out_used) *out_used = p.at;
    keep_first(&first, guard_outputs(&p));
    return first.status == IG_OK ? IG_OK : ig_fail(first.status, NULL, 0, "%s", first.text);
}

static bool is_given(const ig_opt *opt, const void *to) {
    if (opt->flags & OPT_REPEAT) return ((const ig_texts *)to)->count > 0;
    return opt->kind != OPT_TEXT || *(const char *const *)to != NULL;
}

/* Finds a missing output folder before the work begins, not hours later. */
static ig_status check_folder(const ig_opt *opt, const char **path) {
    const char *slash = *path ? strrchr(*path, '/') : NULL;
    char folder[PATH_MAX];
    struct stat info;
    if (!slash || (size_t)(slash - *path) + 2 > sizeof folder)
        return IG_OK; /* the current folder, or too long */
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - *path) + 1, *path);
    const bool found = stat(folder, &info) == 0; /* the trailing slash asks for a folder */
    if (found) return IG_OK;
    const ig_status status =
        IG_FAIL(IG_ERR_IO, "%s%s %s: %s", opt->flags & OPT_POSITIONAL ? "" : "--", opt->name, *path,
                strerror(errno));
    *path = NULL;
    return status;
}

ig_status ig_opts_check(const ig_opt_set *sets, int n_sets) {
    for (int s = 0; s < n_sets; s++)
        for (ig_opt_walk w = ig_opts_first(sets[s].opts); w.opt; w = ig_opts_next(w)) {
            const ig_opt *opt = w.opt;
            char *to = (char *)sets[s].to + w.to;
            if (opt->flags & OPT_OUTPUT) IG_TRY(check_folder(opt, (const char **)to));
            if (!(opt->flags & OPT_REQUIRED)) continue;
            if (is_given(opt, to)) continue;
            return IG_FAIL(IG_ERR_ARGUMENT, "%s%s is required: %s",
                           opt->flags & OPT_POSITIONAL ? "" : "--", opt->name, opt->help);
        }
    return IG_OK;
}
