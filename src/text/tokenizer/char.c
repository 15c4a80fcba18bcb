/*
 * The char tokenizer: an id for each symbol of the data, in ascending order, and a last id for all
 * others, named <unk> and detokenized as U+FFFD.
 *
 * A symbol is a code point, or 0x110000 + byte for a byte that is not part of a UTF-8 character.
 */
#include <string.h>

#include "base/utf8.h"
#include "text/tokenizer/tokenizer_kind.h"

enum { SYMBOLS = IG_UTF8_POINTS + 256, ASCII = 128, COUNT_MAX = IG_TOKENIZER_IDS_MAX - 1 };

typedef struct char_tokenizer {
    ig_tokenizer base;
    uint32_t *symbols;    /* [vocabulary - 1], ascending */
    int32_t ascii[ASCII]; /* direct lookup of ASCII symbols */
} char_tokenizer;

/* The first symbol of a non-empty text; `*bytes` receives its length. */
static uint32_t next_symbol(const char *text, size_t n_bytes, size_t *bytes) {
    uint32_t point;
    if (ig_utf8_next(text, n_bytes, &point, bytes) == IG_UTF8_WHOLE) return point;
    *bytes = 1;
    return IG_UTF8_POINTS + (unsigned char)text[0];
}

static size_t symbol_bytes(uint32_t symbol, char out[IG_UTF8_BYTES]) {
    if (symbol < IG_UTF8_POINTS) return ig_utf8_put(symbol, out);
    out[0] = (char)(symbol - IG_UTF8_POINTS);
    return 1;
}

/* The id of a symbol, by binary search. */
static int32_t find(const char_tokenizer *t, uint32_t symbol) {
    const int32_t unknown = t->base.vocabulary - 1;
    int32_t low = 0, high = unknown;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (t->symbols[middle] < symbol)
            low = middle + 1;
        else
            high = middle;
    }
    return low < unknown && t->symbols[low] == symbol ? low : unknown;
}

/* With all symbols added: builds the pieces and the ASCII table. */
static ig_status finish(char_tokenizer *t, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char bytes[IG_UTF8_BYTES];
        IG_TRY(ig_pieces_add(&t->base, bytes, symbol_bytes(t->symbols[i], bytes)));
    }
    IG_TRY(ig_pieces_add(&t->base, IG_UTF8_REPLACEMENT, strlen(IG_UTF8_REPLACEMENT)));
    for (uint32_t i = 0; i < ASCII; i++) t->ascii[i] = find(t, i);
    return IG_OK;
}

static ig_status reserve(char_tokenizer *t, size_t count) {
    t->symbols = ig_alloc(t->base.allocator, count, sizeof *t->symbols);
    return t->symbols ? IG_OK
                      : IG_FAIL(IG_ERR_MEMORY, "tokenizer char: no memory for %zu symbols", count);
}

/* ---- Learning ---- */

/* Sets seen[SYMBOLS] for each symbol that occurs; returns the number of distinct ones. */
static size_t mark(const ig_tokenizer_training *options, uint8_t *seen) {
    size_t count = 0, step;
    for (size_t i = 0; i < options->n_data; i++) {
        const ig_string_view *data = &options->data[i];
        for (size_t at = 0; at < data->n_bytes; at += step) {
            uint8_t *here = &seen[next_symbol(data->bytes + at, data->n_bytes - at, &step)];
            count += !*here;
            *here = 1;
        }
    }
    return count;
}

static ig_status learn(ig_tokenizer *base, const ig_tokenizer_training *options) {
    char_tokenizer *t = (char_tokenizer *)base;
    uint8_t *seen = ig_alloc(base->allocator, SYMBOLS, 1);
    if (!seen) return IG_FAIL(IG_ERR_MEMORY, "tokenizer char: no memory");
    const size_t count = mark(options, seen);
    ig_status status = count <= COUNT_MAX
                           ? reserve(t, count)
                           : IG_FAIL(IG_ERR_ARGUMENT,
                                     "tokenizer char: the data has %zu different symbols, at most "
                                     "%d are allowed; bpe takes any data",
                                     count, COUNT_MAX);
    size_t found = 0;
    for (uint32_t i = 0; status == IG_OK && i < SYMBOLS; i++)
        if (seen[i]) t->symbols[found++] = i;
    ig_free(base->allocator, seen);
    return status == IG_OK ? finish(t, count) : status;
}

/* ---- Encoding ---- */

static ig_status encode(const ig_tokenizer *base, ig_fragment f, ig_tokens *out) {
    const char_tokenizer *t = (const char_tokenizer *)base;
    IG_TRY(ig_tokens_reserve(out, f.n_bytes));
    for (size_t at = 0, step; at < f.n_bytes; at += step) {
        const uint32_t symbol = next_symbol(f.bytes + at, f.n_bytes - at, &step);
        out->at[out->count++] = symbol < ASCII ? t->ascii[symbol] : find(t, symbol);
    }
    return IG_OK;
}

/* Before the last byte that begins a character, unless that character is complete. */
static size_t cut(const ig_tokenizer *t, const char *text, size_t n_bytes) {
    (void)t;
    for (size_t back = 1; back < IG_UTF8_BYTES && back <= n_bytes; back++) {
        const size_t at = n_bytes - back;
        uint32_t point;
        size_t bytes;
        if (((unsigned char)text[at] & 0xC0) == 0x80) continue;
        return ig_utf8_next(text + at, back, &point, &bytes) == IG_UTF8_CUT_OFF ? at : n_bytes;
    }
    return n_bytes;
}

/* ---- JSON ---- */

static void write(const ig_tokenizer *base, ig_text *out) {
    const char_tokenizer *t = (const char_tokenizer *)base;
    for (int32_t i = 0; i < base->vocabulary - 1; i++)
        ig_text_add(out, "%s%u", i ? "," : "", t->symbols[i]);
}

static ig_status parse(ig_tokenizer *base, const char *source, const json_t *array) {
    char_tokenizer *t = (char_tokenizer *)base;
    const size_t count = json_array_size(array);
    if (count > COUNT_MAX)
        return IG_FAIL(IG_ERR_FORMAT, "%s: the tokenizer has %zu symbols, at most %d are allowed",
                       source, count, COUNT_MAX);
    IG_TRY(reserve(t, count));
    json_int_t before = -1;
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(array, i);
        const json_int_t symbol = json_integer_value(value);
        const bool surrogate = symbol >= 0xD800 && symbol <= 0xDFFF;
        if (!json_is_integer(value) || symbol <= before || symbol >= SYMBOLS || surrogate ||
            (symbol >= IG_UTF8_POINTS && symbol < IG_UTF8_POINTS + ASCII))
            return IG_FAIL(IG_ERR_FORMAT,
                           "%s: symbol %zu of the tokenizer is no symbol (%lld after %lld)", source,
                           i, (long long)symbol, (long long)before);
        t->symbols[i] = (uint32_t)symbol;
        before = symbol;
    }
    return finish(t, count);
}

static void deinit(ig_tokenizer *base) {
    ig_free(base->allocator, ((char_tokenizer *)base)->symbols);
}

const ig_tokenizer_kind ig_tokenizer_char = {
    .name = "char",
    .struct_bytes = sizeof(char_tokenizer),
    .learn = learn,
    .encode = encode,
    .cut = cut,
    .key = "symbols",
    .write = write,
    .parse = parse,
    .deinit = deinit,
};
