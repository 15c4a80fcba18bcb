#include "base/json_parse.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

#include "base/alloc.h"
#include "base/utf8.h"

/* Levels of nesting; each takes about 100 bytes of stack. */
enum { MAX_DEPTH = 1000 };

/* ---- Failed allocations ---- */

static json_malloc_t wrapped; /* written once */
static once_flag once = ONCE_FLAG_INIT;
static _Thread_local unsigned long failures;

static void *watched(size_t bytes) {
    void *p = wrapped(bytes);
    failures += !p;
    return p;
}

static void install(void) {
    json_free_t release;
    json_get_alloc_funcs(&wrapped, &release);
    json_set_alloc_funcs(watched, release);
}

unsigned long ig_json_failures(void) {
    call_once(&once, install);
    return failures;
}

/* ---- Reading ---- */

/* Every function returns NULL or false after fail(), and leaves `at` where the error is. */
typedef struct reader {
    const char *begin, *at, *end;
    size_t flags;
    int depth;
    const char *error; /* NULL with `no_memory` */
    bool no_memory;
    char *text; /* a string, unescaped and with a trailing 0, or a number */
    size_t n_text, room;
} reader;

static void *fail(reader *r, const char *error) {
    if (!r->error && !r->no_memory) r->error = error;
    return NULL;
}

/* A value that jansson has made; NULL: no memory. */
static json_t *made(reader *r, json_t *value) {
    if (!value && !r->error) r->no_memory = true;
    return value;
}

static void skip_space(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
        r->at++;
}

static bool take(reader *r, char c) {
    skip_space(r);
    if (r->at >= r->end || *r->at != c) return false;
    r->at++;
    return true;
}

static bool put(reader *r, const char *bytes, size_t n_bytes) {
    if (!IG_GROW(&ig_heap, r->text, &r->room, r->n_text + n_bytes + 1)) {
        r->no_memory = true;
        return false;
    }
    memcpy(r->text + r->n_text, bytes, n_bytes);
    r->n_text += n_bytes;
    r->text[r->n_text] = 0;
    return true;
}

/* ---- Strings ---- */

static bool read_hex(reader *r, uint32_t *out) {
    *out = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        const char c = r->at < r->end ? *r->at : 0;
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) return fail(r, "invalid escape: \\u needs four hex digits");
        *out = *out << 4 | (uint32_t)digit;
    }
    return true;
}

/* After \u: a character, or the two surrogates of one. */
static bool read_point(reader *r) {
    enum { HIGH = 0xD800, LOW = 0xDC00, SURROGATES_END = 0xE000 };
    uint32_t point, low;
    char bytes[IG_UTF8_BYTES];
    if (!read_hex(r, &point)) return false;
    if (point >= HIGH && point < SURROGATES_END) {
        const bool pair = point < LOW && r->end - r->at >= 2 && r->at[0] == '\\' && r->at[1] == 'u';
        if (!pair) return fail(r, "invalid escape: an unpaired surrogate");
        r->at += 2;
        if (!read_hex(r, &low)) return false;
        if (low < LOW || low >= SURROGATES_END)
            return fail(r, "invalid escape: an unpaired surrogate");
        point = 0x10000 + ((point - HIGH) << 10) + (low - LOW);
    }
    if (point == 0 && !(r->flags & JSON_ALLOW_NUL)) return fail(r, "\\u0000 is not allowed");
    return put(r, bytes, ig_utf8_put(point, bytes));
}

static bool read_escape(reader *r) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char name = r->at < r->end ? *r->at : 0;
    const char *found = name ? strchr(names, name) : NULL;
    if (name != 'u' && !found) return fail(r, "invalid escape");
    r->at++;
    return found ? put(r, &values[found - names], 1) : read_point(r);
}

/* After the opening quote, to `text`. */
static bool read_string(reader *r) {
    r->n_text = 0;
    if (!put(r, "", 0)) return false;
    for (;;) {
        const char *from = r->at;
        uint32_t point;
        size_t bytes;
        while (r->at < r->end && *r->at != '"' && *r->at != '\\') {
            if ((unsigned char)*r->at < ' ') return fail(r, "a control character in a string");
            if (ig_utf8_next(r->at, (size_t)(r->end - r->at), &point, &bytes) != IG_UTF8_WHOLE)
                return fail(r, "invalid UTF-8");
            r->at += bytes;
        }
        if (!put(r, from, (size_t)(r->at - from))) return false;
        if (r->at >= r->end) return fail(r, "unexpected end: a string without a closing quote");
        if (*r->at++ == '"') return true;
        if (!read_escape(r)) return false;
    }
}

/* ---- Numbers ---- */

static bool read_digits(reader *r) {
    const char *from = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9') r->at++;
    return r->at > from || fail(r, "invalid number");
}

/* The extent of a number; `real`: it has a fraction or an exponent. */
static bool scan_number(reader *r, bool *real) {
    if (*r->at == '-') r->at++;
    const bool zero = r->at < r->end && *r->at == '0';
    const char *from = r->at;
    if (!read_digits(r)) return false;
    if (zero && r->at - from > 1) return fail(r, "invalid number: a leading 0");
    *real = r->at < r->end && (*r->at == '.' || *r->at == 'e' || *r->at == 'E');
    if (r->at < r->end && *r->at == '.') {
        r->at++;
        if (!read_digits(r)) return false;
    }
    if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
        r->at++;
        if (r->at < r->end && (*r->at == '+' || *r->at == '-')) r->at++;
        if (!read_digits(r)) return false;
    }
    return true;
}

static json_t *read_real(reader *r) {
    char *dot = strchr(r->text, '.');
    if (dot) *dot = *localeconv()->decimal_point;
    const double value = strtod(r->text, NULL);
    if (isinf(value)) return fail(r, "a number is too large for a double");
    return made(r, json_real(value));
}

static json_t *read_number(reader *r) {
    const char *from = r->at;
    bool real = false;
    r->n_text = 0;
    if (!scan_number(r, &real) || !put(r, from, (size_t)(r->at - from))) return NULL;
    if (real || (r->flags & JSON_DECODE_INT_AS_REAL)) return read_real(r);
    errno = 0;
    const long long value = strtoll(r->text, NULL, 10);
    if (errno == ERANGE) return fail(r, "an integer is too large for 64 bits");
    return made(r, json_integer(value));
}

/* ---- Values ---- */

static json_t *read_value(reader *r);

static bool read_item(reader *r, json_t *array) {
    json_t *value = read_value(r);
    if (!value) return false;
    if (json_array_append_new(array, value) == 0) return true;
    r->no_memory = true;
    return false;
}

/* "key": value.  The key is put first, with null, so that it need not be kept meanwhile. */
static bool read_member(reader *r, json_t *object) {
    if (!take(r, '"')) return fail(r, "expected a key");
    if (!read_string(r)) return false;
    if (strlen(r->text) != r->n_text) return fail(r, "a NUL byte in a key");
    if ((r->flags & JSON_REJECT_DUPLICATES) && json_object_get(object, r->text))
        return fail(r, "duplicate key");
    if (json_object_set_new_nocheck(object, r->text, json_null()) != 0) {
        r->no_memory = true;
        return false;
    }
    void *place = json_object_iter_at(object, r->text);
    if (!take(r, ':')) return fail(r, "expected ':'");
    json_t *value = read_value(r);
    return value && json_object_iter_set_new(object, place, value) == 0;
}

/* After the opening bracket: items, or members, with commas between. */
static json_t *read_list(reader *r, json_t *list, char close) {
    if (!made(r, list)) return NULL;
    bool good = r->depth++ < MAX_DEPTH || fail(r, "nested too deeply");
    for (bool first = true; good && !take(r, close); first = false) {
        good = first || take(r, ',') || fail(r, "expected ',' or the closing bracket");
        good = good && (close == ']' ? read_item(r, list) : read_member(r, list));
    }
    r->depth--;
    if (good) return list;
    json_decref(list);
    return NULL;
}

static json_t *read_word(reader *r) {
    static const char *const words[] = {"true", "false", "null"};
    json_t *const values[] = {json_true(), json_false(), json_null()};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t bytes = strlen(words[i]);
        if ((size_t)(r->end - r->at) < bytes || memcmp(r->at, words[i], bytes) != 0) continue;
        r->at += bytes;
        return values[i];
    }
    return fail(r, "expected a value");
}

static json_t *read_value(reader *r) {
    skip_space(r);
    if (r->at >= r->end) return fail(r, "unexpected end");
    const char c = *r->at;
    if (c == '-' || (c >= '0' && c <= '9')) return read_number(r);
    if (c != '{' && c != '[' && c != '"') return read_word(r);
    r->at++;
    if (c == '{') return read_list(r, json_object(), '}');
    if (c == '[') return read_list(r, json_array(), ']');
    return read_string(r) ? made(r, json_stringn_nocheck(r->text, r->n_text)) : NULL;
}

static json_t *read_all(reader *r) {
    skip_space(r);
    const bool list = r->at < r->end && (*r->at == '{' || *r->at == '[');
    if (!list && !(r->flags & JSON_DECODE_ANY)) return fail(r, "expected '{' or '['");
    json_t *root = read_value(r);
    skip_space(r);
    if (!root || r->at == r->end) return root;
    json_decref(root);
    return fail(r, "text after the end");
}

ig_status ig_json_decode(ig_status code, const char *file, const char *what, const void *bytes,
                         size_t n_bytes, size_t flags, json_t **out) {
    const char *begin = bytes;
    reader r = {.begin = begin, .at = begin, .end = begin + n_bytes, .flags = flags};
    json_t *root = read_all(&r);
    ig_free(&ig_heap, r.text);
    if (root) {
        *out = root;
        return IG_OK;
    }
    if (r.no_memory || !r.error)
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory to read %s", file, what);
    long line = 1, column = 1;
    for (const char *at = r.begin; at < r.at; at++, column++)
        if (*at == '\n') line++, column = 0;
    return IG_FAIL(code, "%s: %s is not JSON: %s (line %ld, column %ld)", file, what, r.error, line,
                   column);
}
