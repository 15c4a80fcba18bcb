#include "text/tokenizer/pretokenizer.h"

#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/text_out.h"
#include "base/utf8.h"

/* ---- The table ---- */

/* Whether `name` is in `names`, which are separated by spaces; NULL: none. */
static bool has_name(const char *names, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = names; at && *at;) {
        const size_t n = strcspn(at, " ");
        if (n == length && memcmp(at, name, n) == 0) return true;
        at += n + (at[n] == ' ');
    }
    return false;
}

const ig_pre *ig_pre_find(const char *name) {
    const ig_pre *row = ig_pre_rows;
    while (row->name && strcmp(row->name, name) != 0 && !has_name(row->aliases, name)) row++;
    return row->name ? row : NULL;
}

ig_status ig_pre_unknown(ig_status code, const char *source, const char *name) {
    enum { LIST_BYTES = 512 };
    char list[LIST_BYTES];
    ig_text text = ig_text_begin(list, sizeof list);
    for (const ig_pre *row = ig_pre_rows; row->name; row++)
        ig_text_add(&text, "%s%s", row == ig_pre_rows ? "" : ", ", row->name);
    return IG_FAIL(code, "%s: the pre-tokenizer '%.64s' is not known; --pre chooses one of %s",
                   source, name, list);
}

/*
 * The next character of a pattern; resolves "\r" and "
 * ".
 */
static char next_char(const char **at) {
    const char c = *(*at)++;
    if (c != '\\' || (**at != 'r' && **at != 'n')) return c;
    return *(*at)++ == 'r' ? '\r' : '\n';
}

static bool is_same(const char *a, const char *b) {
    while (*a && *b)
        if (next_char(&a) != next_char(&b)) return false;
    return *a == *b;
}

static bool has_patterns(const ig_pre *row, const char *const *patterns, size_t n_patterns) {
    size_t n = 0;
    while (n < IG_PRE_PATTERNS && row->patterns[n]) n++;
    if (n != n_patterns) return false;
    for (size_t i = 0; i < n; i++)
        if (!is_same(row->patterns[i], patterns[i])) return false;
    return true;
}

const char *ig_pre_name_of(const char *const *patterns, size_t n_patterns, bool ignores_merges) {
    for (const ig_pre *row = ig_pre_rows; row->name; row++)
        if (row->ignores_merges == ignores_merges && has_patterns(row, patterns, n_patterns))
            return row->name;
    return NULL;
}

/* ---- Patterns made ready ---- */

struct ig_pretokenizer {
    const ig_allocator *allocator;
    pcre2_general_context *memory;
    pcre2_match_context *limits;
    pcre2_code *codes[IG_PRE_PATTERNS];
    size_t n_codes;
};

static void *take(PCRE2_SIZE n_bytes, void *user) { return ig_alloc(user, n_bytes, 1); }
static void give(void *p, void *user) { ig_free(user, p); }

/* Patterns rewritten for PCRE2. */
static const struct {
    const char *published, *ours;
} rewritten[] = {
    /* The same matches without quadratic backtracking on long runs of spaces. */
    {"\\s+$", "(?<!\\s)\\s+$"},
    /* Groups of three digits, counted from the end: the look-ahead runs once per number, and \G
     * takes each further group. In Oniguruma, combining marks are word characters: there is no \b
     * between a digit and a mark. */
    {"(?=(\\d{3})+(?!\\d))",
     "(?<!\\d)\\d{0,2}\\K(?=(?:\\d{3})+(?!\\d))|\\G(?<=\\d)\\d{2}\\K(?=\\d{3})"},
    {"\\d{1,3}(?=(?:\\d{3})*\\b)",
     "(?<!\\d)\\d{1,3}(?=(?:\\d{3})*(?![\\p{L}\\p{M}\\p{N}\\p{Pc}]))|\\G(?<=\\d)\\d{3}"},
};

static const char *rewrite(const char *pattern) {
    for (size_t i = 0; i < sizeof rewritten / sizeof *rewritten; i++)
        if (strcmp(pattern, rewritten[i].published) == 0) return rewritten[i].ours;
    return pattern;
}

/*
 * PCRE2's \s includes U+180E, which is not white space since Unicode 6.3 nor in the engines that
 * the patterns were written for. So \s and \S are spelled out.
 */
#define SPACES "\\t-\\r\\x{85}\\p{Z}"
static void spell_spaces(const char *pattern, ig_text *out) {
    bool in_class = false;
    for (const char *at = pattern; *at; at++) {
        if (*at == '\\' && (at[1] == 's' || at[1] == 'S')) {
            const char *open = in_class ? "" : at[1] == 's' ? "[" : "[^";
            ig_text_add(out, "%s" SPACES "%s", open, in_class ? "" : "]");
            at++;
        } else if (*at == '\\') {
            ig_text_add(out, "%c%c", at[0], at[1]);
            at++;
        } else {
            if (*at == '[') in_class = true;
            if (*at == ']') in_class = false;
            ig_text_add(out, "%c", *at);
        }
    }
}

static ig_status compile(ig_pretokenizer *p, const char *name, const char *pattern) {
    enum { PATTERN_BYTES = 4096 };
    char spelled[PATTERN_BYTES];
    ig_text text = ig_text_begin(spelled, sizeof spelled);
    spell_spaces(rewrite(pattern), &text);

    pcre2_compile_context *context = pcre2_compile_context_create(p->memory);
    if (!context) return IG_FAIL(IG_ERR_MEMORY, "pre-tokenizer %s: no memory", name);
    int code = 0;
    PCRE2_SIZE at = 0;
    pcre2_code *made =
        pcre2_compile((PCRE2_SPTR)spelled, text.used, PCRE2_UTF | PCRE2_UCP, &code, &at, context);
    pcre2_compile_context_free(context);
    if (!made && code == PCRE2_ERROR_HEAP_FAILED)
        return IG_FAIL(IG_ERR_MEMORY, "pre-tokenizer %s: no memory", name);
    if (!made) {
        char words[IG_TEXT_PIECE_BYTES];
        pcre2_get_error_message(code, (PCRE2_UCHAR *)words, sizeof words);
        return IG_FAIL(IG_ERR_UNSUPPORTED, "pre-tokenizer %s: PCRE2 refuses its pattern at %zu: %s",
                       name, (size_t)at, words);
    }
    p->codes[p->n_codes++] = made;
    (void)pcre2_jit_compile(made,
                            PCRE2_JIT_COMPLETE); /* if it fails, PCRE2 interprets the pattern */
    return IG_OK;
}

static ig_status fill(ig_pretokenizer *p, const ig_pre *pre) {
    p->memory = pcre2_general_context_create(take, give, (void *)p->allocator);
    p->limits = p->memory ? pcre2_match_context_create(p->memory) : NULL;
    if (!p->limits) return IG_FAIL(IG_ERR_MEMORY, "pre-tokenizer %s: no memory", pre->name);
    pcre2_set_match_limit(p->limits,
                          UINT32_MAX); /* interpreter limit: long words take many steps */
    pcre2_set_depth_limit(p->limits, UINT32_MAX);
    for (size_t i = 0; i < IG_PRE_PATTERNS && pre->patterns[i]; i++)
        IG_TRY(compile(p, pre->name, pre->patterns[i]));
    return IG_OK;
}

ig_status ig_pretokenizer_create(const ig_allocator *a, const ig_pre *pre, ig_pretokenizer **out) {
    ig_pretokenizer *p = ig_alloc(a, 1, sizeof *p);
    if (!p) return IG_FAIL(IG_ERR_MEMORY, "pre-tokenizer %s: no memory", pre->name);
    p->allocator = a;
    const ig_status status = fill(p, pre);
    if (status == IG_OK)
        *out = p;
    else
        ig_pretokenizer_destroy(p);
    return status;
}

void ig_pretokenizer_destroy(ig_pretokenizer *p) {
    if (!p) return;
    for (size_t i = 0; i < p->n_codes; i++) pcre2_code_free(p->codes[i]);
    pcre2_match_context_free(p->limits);
    pcre2_general_context_free(p->memory);
    ig_free(p->allocator, p);
}

/* ---- Splitting ---- */

typedef struct splitting {
    const ig_pretokenizer *p;
    pcre2_match_data *found;
    ig_pre_word *word;
    void *user;
} splitting;

/* The first match at or after `from`; `*begin` is n_bytes if there is none. */
static ig_status match(const splitting *s, size_t level, const char *text, size_t n_bytes,
                       size_t from, size_t *begin, size_t *end) {
    const pcre2_code *code = s->p->codes[level];
    const PCRE2_SPTR subject = (PCRE2_SPTR)text;
    int count =
        pcre2_match(code, subject, n_bytes, from, PCRE2_NO_UTF_CHECK, s->found, s->p->limits);
    if (count == PCRE2_ERROR_JIT_STACKLIMIT)
        count = pcre2_match(code, subject, n_bytes, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                            s->found, s->p->limits);
    *begin = *end = n_bytes;
    if (count == PCRE2_ERROR_NOMATCH) return IG_OK;
    if (count < 0)
        return IG_FAIL(IG_ERR_MEMORY,
                       "pre-tokenizer: no memory for a text of %zu bytes (PCRE2: %d)", n_bytes,
                       count);
    const PCRE2_SIZE *places = pcre2_get_ovector_pointer(s->found);
    *begin = places[0];
    *end = places[1];
    return IG_OK;
}

static size_t after_character(const char *text, size_t n_bytes, size_t at) {
    do at++;
    while (at < n_bytes && ((unsigned char)text[at] & 0xC0) == 0x80);
    return at;
}

/* Splits a word by the patterns from `level` on, one recursion per pattern. */
/* NOLINTNEXTLINE(misc-no-recursion) */
static ig_status split(const splitting *s, size_t level, const char *text, size_t n_bytes,
                       bool matched) {
    if (level == s->p->n_codes) return s->word(s->user, text, n_bytes, matched);
    size_t done = 0, begin, end;
    for (size_t from = 0; from < n_bytes;) {
        IG_TRY(match(s, level, text, n_bytes, from, &begin, &end));
        if (begin == n_bytes) break;
        if (begin > done) IG_TRY(split(s, level + 1, text + done, begin - done, false));
        if (end > begin) IG_TRY(split(s, level + 1, text + begin, end - begin, true));
        done = end;
        from = end > begin ? end : after_character(text, n_bytes, end); /* an empty match splits */
    }
    return done < n_bytes ? split(s, level + 1, text + done, n_bytes - done, false) : IG_OK;
}

/* The length of the prefix that is all valid, or all invalid, UTF-8. */
static size_t same_sort(const char *text, size_t n_bytes, bool *is_utf8) {
    size_t at = 0;
    for (size_t step; at < n_bytes; at += step) {
        uint32_t point;
        const bool whole = ig_utf8_next(text + at, n_bytes - at, &point, &step) == IG_UTF8_WHOLE;
        if (at == 0) *is_utf8 = whole;
        if (whole != *is_utf8) break;
    }
    return at;
}

ig_status ig_pretokenizer_split(const ig_pretokenizer *p, const char *text, size_t n_bytes,
                                ig_pre_word *word, void *user) {
    splitting s = {.p = p, .word = word, .user = user};
    s.found = pcre2_match_data_create(1, p->memory);
    if (!s.found) return IG_FAIL(IG_ERR_MEMORY, "pre-tokenizer: no memory");
    ig_status status = IG_OK;
    for (size_t at = 0, length; at < n_bytes && status == IG_OK; at += length) {
        bool is_utf8 = false;
        length = same_sort(text + at, n_bytes - at, &is_utf8);
        status =
            is_utf8 ? split(&s, 0, text + at, length, false) : word(user, text + at, length, false);
    }
    pcre2_match_data_free(s.found);
    return status;
}
