#include "text/jinja/jinja_lex.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

typedef struct lexer {
    jinja_arena *arena;
    const char *text;
    size_t n_bytes, at;
    int line; /* of `counted` */
    size_t counted;
    size_t depth; /* brackets that are open: in one }} ends nothing */
    jinja_tokens *out;
} lexer;

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool begins_name(char c) {
    const unsigned byte = (unsigned char)c;
    return (byte | 32) - 'a' < 26 || byte == '_' || byte >= 0x80;
}

static char peek(const lexer *l, size_t ahead) {
    return ahead < l->n_bytes - l->at ? l->text[l->at + ahead] : 0;
}

/* The line that a place is in; places are asked for in order. */
static int line_at(lexer *l, size_t at) {
    for (; l->counted < at; l->counted++) l->line += l->text[l->counted] == '\n';
    return l->line;
}

static ig_status add(lexer *l, jinja_token token) {
    if (!IG_GROW(l->arena->allocator, l->out->at, &l->out->room, l->out->count + 1))
        return JINJA_FAIL_AT(IG_ERR_MEMORY, l->line, "no memory");
    l->out->at[l->out->count++] = token;
    return IG_OK;
}

/* ---- Text, and where it ends ---- */

/* Where the next {{, {% or {# stands; the end, if none does. */
static size_t find_tag(const lexer *l) {
    for (size_t i = l->at; i + 1 < l->n_bytes; i++)
        if (l->text[i] == '{' && strchr("{%#", l->text[i + 1]) && l->text[i + 1]) return i;
    return l->n_bytes;
}

/* The text up to a tag, without the white space that the tag takes. */
static ig_status add_text(lexer *l, size_t end, bool strips, char sign) {
    const size_t begin = l->at;
    const int line = line_at(l, begin);
    size_t last = end;
    while (last > begin && ig_is_space(l->text[last - 1]) && sign == '-') last--;
    if (strips && sign != '-' && sign != '+') {
        size_t first = end; /* of the white space, on this line */
        while (first > begin && ig_is_space(l->text[first - 1]) && l->text[first - 1] != '\n')
            first--;
        if (first == 0 || l->text[first - 1] == '\n') last = first;
    }
    if (last == begin) return IG_OK;
    return add(l, (jinja_token){.kind = JINJA_TEXT,
                                .line = line,
                                .bytes = l->text + begin,
                                .n_bytes = last - begin});
}

static void skip_space(lexer *l) {
    while (ig_is_space(peek(l, 0))) l->at++;
}

/* Behind a tag's end: "-" takes all white space, a block the end of its line. */
static void skip_behind(lexer *l, char sign, bool is_block) {
    if (sign == '-')
        skip_space(l);
    else if (sign != '+' && is_block && peek(l, 0) == '\n')
        l->at++;
}

/* Whether "raw" or "endraw" and the end of the block stand at `at`; where that ends, and its sign.
 */
static bool is_raw(const lexer *l, size_t at, const char *word, size_t *end, char *sign) {
    const size_t n = strlen(word);
    const char *t = l->text;
    while (at < l->n_bytes && ig_is_space(t[at])) at++;
    if (l->n_bytes - at < n || memcmp(t + at, word, n) != 0) return false;
    at += n;
    while (at < l->n_bytes && ig_is_space(t[at])) at++;
    *sign = at < l->n_bytes && (t[at] == '-' || t[at] == '+') ? t[at++] : 0;
    *end = at + 2;
    return l->n_bytes - at >= 2 && t[at] == '%' && t[at + 1] == '}';
}

/* From behind {% raw %} to behind {% endraw %}. */
static ig_status lex_raw(lexer *l, size_t begin, char sign) {
    const int line = line_at(l, l->at);
    l->at = begin;
    skip_behind(l, sign, false);
    for (size_t i = l->at; i + 1 < l->n_bytes; i++) {
        size_t end;
        char after;
        if (l->text[i] != '{' || l->text[i + 1] != '%') continue;
        const char before = i + 2 < l->n_bytes ? l->text[i + 2] : 0;
        const size_t skipped = before == '-' || before == '+' ? 3 : 2;
        if (!is_raw(l, i + skipped, "endraw", &end, &after)) continue;
        IG_TRY(add_text(l, i, true, before));
        l->at = end;
        skip_behind(l, after, true);
        return IG_OK;
    }
    return JINJA_FAIL_AT(IG_ERR_FORMAT, line, "raw has no endraw");
}

static ig_status lex_comment(lexer *l, size_t begin) {
    const int line = line_at(l, l->at);
    const char *end = memmem(l->text + begin, l->n_bytes - begin, "#}", 2);
    if (!end) return JINJA_FAIL_AT(IG_ERR_FORMAT, line, "a comment has no end");
    const char sign = end > l->text + begin ? end[-1] : 0;
    l->at = (size_t)(end - l->text) + 2;
    skip_behind(l, sign, true);
    return IG_OK;
}

/* ---- Inside of a tag ---- */

/* One escape of a string, as Python has them; `*at` is behind the backslash. */
static size_t unescape(const char *text, size_t n_bytes, size_t *at, char *out) {
    static const char names[] = "abfnrtv\\'\"", values[] = "\a\b\f\n\r\t\v\\'\"";
    const char c = text[*at];
    const char *known = c ? strchr(names, c) : NULL;
    if (known || c == '\n') { /* a line that goes on in the next */
        *at += 1;
        if (known) *out = values[known - names];
        return known ? 1 : 0;
    }
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0, from = *at + 1;
    const unsigned base = digits ? 16 : 8;
    if (c >= '0' && c <= '7') from = *at, digits = 3;
    uint32_t point = 0;
    size_t used = 0;
    for (; used < digits && from + used < n_bytes; used++) {
        const char d = text[from + used];
        const unsigned value = is_digit(d) ? (unsigned)(d - '0') : ((unsigned)d | 32) - 'a' + 10;
        if (value >= base || point > IG_UTF8_POINTS) break;
        point = point * base + value;
    }
    if (used == 0 || (base == 16 && used < digits) || point >= IG_UTF8_POINTS) {
        *out = '\\'; /* unknown ones stay */
        return 1;
    }
    *at = from + used;
    return ig_utf8_put(point, out);
}

static ig_status lex_string(lexer *l) {
    const char quote = peek(l, 0);
    const int line = line_at(l, l->at);
    const size_t begin = l->at + 1;
    size_t end = begin;
    bool escaped = false;
    for (; end < l->n_bytes && l->text[end] != quote; end++)
        if (l->text[end] == '\\') escaped = true, end++;
    if (end >= l->n_bytes) return JINJA_FAIL_AT(IG_ERR_FORMAT, line, "a string has no end");
    jinja_token token = {
        .kind = JINJA_STRING, .line = line, .bytes = l->text + begin, .n_bytes = end - begin};
    if (escaped) { /* no escape becomes longer than it is */
        char *value = jinja_take(l->arena, token.n_bytes + IG_UTF8_BYTES, 1);
        if (!value) return jinja_no_memory(l->arena, line);
        size_t used = 0;
        for (size_t at = 0; at < token.n_bytes;) {
            const char c = token.bytes[at++];
            if (c == '\\' && at < token.n_bytes)
                used += unescape(token.bytes, token.n_bytes, &at, value + used);
            else
                value[used++] = c;
        }
        token.bytes = value;
        token.n_bytes = used;
    }
    l->at = end + 1;
    return add(l, token);
}

/* Copies digits, without the underscores between them; returns how many. */
static size_t take_digits(lexer *l, char *out, size_t room) {
    size_t used = 0;
    while (is_digit(peek(l, 0)) || (peek(l, 0) == '_' && used > 0 && is_digit(peek(l, 1)))) {
        if (peek(l, 0) != '_' && used < room) out[used++] = peek(l, 0);
        l->at++;
    }
    return used;
}

/* 0x1F, 0o17, 0b11; false: none stands here. */
static bool take_based(lexer *l, int64_t *out, bool *large) {
    static const char names[] = "xob";
    static const unsigned bases[] = {16, 8, 2};
    const char *name = peek(l, 0) == '0' && peek(l, 1) ? strchr(names, peek(l, 1) | 32) : NULL;
    if (!name) return false;
    size_t at = 2, digits = 0;
    for (;; at++) {
        const char c = peek(l, at);
        const unsigned digit = is_digit(c) ? (unsigned)(c - '0') : ((unsigned)c | 32) - 'a' + 10;
        if (c == '_' && peek(l, at + 1) != '_') continue;
        if (digit >= bases[name - names]) break;
        *large |= __builtin_mul_overflow(*out, (int64_t)bases[name - names], out) ||
                  __builtin_add_overflow(*out, (int64_t)digit, out);
        digits++;
    }
    if (digits == 0) return false;
    l->at += at;
    return true;
}

static ig_status lex_number(lexer *l, bool after_dot) {
    enum { DIGITS = 400 };
    char text[2 * DIGITS + 16];
    const int line = line_at(l, l->at);
    jinja_token token = {.kind = JINJA_INTEGER, .line = line};
    bool large = false;
    if (take_based(l, &token.integer, &large))
        return large ? JINJA_FAIL_AT(IG_ERR_FORMAT, line, "a number is more than 64 bits hold")
                     : add(l, token);
    size_t used = take_digits(l, text, DIGITS);
    if (!after_dot && peek(l, 0) == '.' && is_digit(peek(l, 1))) {
        token.kind = JINJA_REAL;
        text[used++] = '.';
        l->at++;
        used += take_digits(l, text + used, DIGITS / 2);
    }
    const bool is_signed = peek(l, 1) == '-' || peek(l, 1) == '+';
    if (!after_dot && (peek(l, 0) | 32) == 'e' && is_digit(peek(l, is_signed ? 2 : 1))) {
        token.kind = JINJA_REAL;
        text[used++] = 'e';
        if (is_signed) text[used++] = peek(l, 1);
        l->at += is_signed ? 2 : 1;
        used += take_digits(l, text + used, 8);
    }
    text[used] = 0;
    if (token.kind == JINJA_INTEGER && *text == '0' && strspn(text, "0") != used)
        return JINJA_FAIL_AT(IG_ERR_FORMAT, line, "%.40s: an integer cannot begin with 0", text);
    token.real = strtod(text, NULL);
    for (size_t i = 0; i < used && token.kind == JINJA_INTEGER; i++)
        if (__builtin_mul_overflow(token.integer, 10, &token.integer) ||
            __builtin_add_overflow(token.integer, text[i] - '0', &token.integer))
            return JINJA_FAIL_AT(IG_ERR_FORMAT, line, "%.40s... is more than 64 bits hold", text);
    return add(l, token);
}

static ig_status lex_name(lexer *l) {
    const size_t begin = l->at;
    while (begins_name(peek(l, 0)) || is_digit(peek(l, 0))) l->at++;
    return add(l, (jinja_token){.kind = JINJA_NAME,
                                .line = line_at(l, begin),
                                .bytes = l->text + begin,
                                .n_bytes = l->at - begin});
}

static ig_status lex_sign(lexer *l) {
    static const char *const pairs[] = {"==", "!=", ">=", "<=", "//", "**"};
    const char c = peek(l, 0);
    const int line = line_at(l, l->at);
    int sign = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (c == pairs[i][0] && peek(l, 1) == pairs[i][1]) sign = JINJA_SIGN_OF(c, pairs[i][1]);
    if (!sign && c && strchr("+-*/%~[](){}<>=.:|,", c)) sign = c;
    if (!sign)
        return JINJA_FAIL_AT(IG_ERR_FORMAT, line, "a character stands where none can: 0x%02x",
                             (unsigned char)c);
    if (strchr("([{", c)) l->depth++;
    if (strchr(")]}", c)) {
        if (l->depth == 0) return JINJA_FAIL_AT(IG_ERR_FORMAT, line, "'%c' closes nothing", c);
        l->depth--;
    }
    l->at += sign > 255 ? 2 : 1;
    return add(l, (jinja_token){.kind = JINJA_SIGN, .line = line, .sign = sign});
}

/* Whether the tag ends here: its two characters, and before them a sign. */
static bool takes_end(lexer *l, bool is_block) {
    const char first = is_block ? '%' : '}', c = peek(l, 0);
    const char sign = c == '-' || (c == '+' && is_block) ? c : 0;
    const size_t skipped = sign ? 1 : 0;
    if (l->depth > 0 || peek(l, skipped) != first || peek(l, skipped + 1) != '}') return false;
    l->at += skipped + 2;
    skip_behind(l, sign, is_block);
    return true;
}

/* From after {{ or {% to after its closing delimiter. */
static ig_status lex_tag(lexer *l, bool is_block) {
    const int line = line_at(l, l->at);
    l->depth = 0;
    for (;;) {
        skip_space(l);
        const int end_line = line_at(l, l->at);
        const jinja_token *last = &l->out->at[l->out->count - 1];
        if (l->at == l->n_bytes)
            return JINJA_FAIL_AT(IG_ERR_FORMAT, line, "%s has no end", is_block ? "{%" : "{{");
        if (takes_end(l, is_block))
            return add(l, (jinja_token){.kind = is_block ? JINJA_BLOCK_END : JINJA_PRINT_END,
                                        .line = end_line});
        const char c = peek(l, 0);
        if (c == '\'' || c == '"')
            IG_TRY(lex_string(l));
        else if (is_digit(c))
            IG_TRY(lex_number(l, last->kind == JINJA_SIGN && last->sign == '.'));
        else if (begins_name(c))
            IG_TRY(lex_name(l));
        else
            IG_TRY(lex_sign(l));
    }
}

/* ---- All of it ---- */

static ig_status lex_next(lexer *l) {
    const size_t tag = find_tag(l);
    const char kind = tag < l->n_bytes ? l->text[tag + 1] : 0;
    char sign = tag + 2 < l->n_bytes ? l->text[tag + 2] : 0, after;
    if (sign != '-' && sign != '+') sign = 0;
    IG_TRY(add_text(l, tag, kind == '%' || kind == '#', sign));
    l->at = tag;
    if (!kind) return IG_OK;
    size_t end;
    const size_t begin = tag + (sign ? 3 : 2);
    if (kind == '#') return lex_comment(l, begin);
    if (kind == '%' && is_raw(l, begin, "raw", &end, &after)) return lex_raw(l, end, after);
    IG_TRY(add(l, (jinja_token){.kind = kind == '%' ? JINJA_BLOCK : JINJA_PRINT,
                                .line = line_at(l, tag)}));
    l->at = begin;
    return lex_tag(l, kind == '%');
}

ig_status jinja_lex(jinja_arena *arena, const char *text, size_t n_bytes, jinja_tokens *out) {
    lexer l = {.arena = arena, .text = text, .n_bytes = n_bytes, .line = 1, .out = out};
    while (l.at < n_bytes) IG_TRY(lex_next(&l));
    return add(&l, (jinja_token){.kind = JINJA_END, .line = line_at(&l, n_bytes)});
}
