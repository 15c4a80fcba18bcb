/*
 * WordPiece, as in BERT: normalizes each word and takes the longest piece first.
 *
 * Files mark either the pieces that begin a word (U+2581) or the others (##). Here a piece that
 * begins a word has a leading space. A word that no sequence of pieces covers becomes one unknown
 * token.
 */
#include <string.h>

#include "base/utf8.h"
#include "text/tokenizer/pretokenizer.h"
#include "text/tokenizer/token_lookup.h"
#include "text/tokenizer/token_spelling.h"
#include "text/tokenizer/tokenizer_kind.h"
#include "text/tokenizer/unicode.h"

enum { WORD_CHARACTERS = 100 }; /* BERT's limit: a longer word is unknown */

typedef struct bert_tokenizer {
    ig_tokenizer base;
    ig_lookup lookup;
    ig_pretokenizer *dropped, *breaks;
    ig_unicode_decompositions decompositions;
    bool keep_case, keep_accents;
} bert_tokenizer;

#define CONTROLS "\\x{0}-\\x{8}\\x{b}\\x{c}\\x{e}-\\x{1f}\\x{7f}-\\x{9f}\\p{Cf}\\p{Co}\\x{fffd}"
/* BERT's list ends a block at U+2B820; the tokenizers in use have U+2B920. */
#define IDEOGRAPHS                                                                               \
    "\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{20000}-\\x{2a6df}\\x{2a700}-\\x{2b73f}\\x{2b740}" \
    "-\\x{2b81f}\\x{2b920}-\\x{2ceaf}\\x{f900}-\\x{faff}\\x{2f800}-\\x{2fa1f}"

/* Dropped characters, and characters that separate words or are words. */
static const ig_pre drop_controls = {.name = "bert", .patterns = {"[" CONTROLS "]+"}};
static const ig_pre drop_accents = {.name = "bert", .patterns = {"[" CONTROLS "\\p{Mn}]+"}};
static const ig_pre break_words = {.name = "bert",
                                   .patterns = {"\\s+|[\\p{P}!-/:-@\\[-`{-~" IDEOGRAPHS "]"}};

/* ---- Tables ---- */

static bool begins_with(ig_string_view token, const char *begin) {
    const size_t n = strlen(begin);
    return token.n_bytes > n && memcmp(token.bytes, begin, n) == 0;
}

/* Adds a piece, with a leading space if it begins a word. */
static ig_status add_piece(bert_tokenizer *t, ig_string_view token, bool hashes, char *spelled) {
    const char *mark = hashes ? "##" : IG_SPELL_SPACE;
    const bool marked = begins_with(token, mark);
    const size_t skip = marked ? strlen(mark) : 0, n = token.n_bytes - skip;
    size_t used = 0;
    if (marked != hashes) spelled[used++] = ' ';
    if (n > 0) memcpy(spelled + used, token.bytes + skip, n);
    return ig_pieces_add(&t->base, spelled, used + n);
}

static ig_status add_pieces(bert_tokenizer *t, const ig_vocab *v, char *spelled) {
    bool hashes = false;
    for (size_t i = 0; i < v->n_tokens && !hashes; i++) hashes = begins_with(v->tokens[i], "##");
    for (size_t i = 0; i < v->n_tokens && hashes; i++)
        if (begins_with(v->tokens[i], IG_SPELL_SPACE)) hashes = false;
    for (size_t i = 0; i < v->n_tokens; i++) {
        const bool normal = ig_token_kind_of(&t->base, (int32_t)i) == IG_TOKEN_NORMAL;
        IG_TRY(normal ? add_piece(t, v->tokens[i], hashes, spelled)
                      : ig_pieces_add(&t->base, v->tokens[i].bytes, v->tokens[i].n_bytes));
    }
    IG_TRY(ig_lookup_init(&t->base, v->n_tokens, &t->lookup));
    for (int32_t id = 0; id < t->base.vocabulary; id++)
        if (ig_token_kind_of(&t->base, id) == IG_TOKEN_NORMAL)
            ig_lookup_add(&t->lookup, &t->base, id);
    return IG_OK;
}

static ig_status load(ig_tokenizer *base, const ig_vocab *v) {
    bert_tokenizer *t = (bert_tokenizer *)base;
    const ig_allocator *a = base->allocator;
    t->keep_case = v->keep_case;
    t->keep_accents = v->keep_accents;
    base->space_prefix = true;
    IG_TRY(
        ig_pretokenizer_create(a, t->keep_accents ? &drop_controls : &drop_accents, &t->dropped));
    IG_TRY(ig_pretokenizer_create(a, &break_words, &t->breaks));
    IG_TRY(ig_unicode_decompositions_init(a, &t->decompositions));

    size_t longest = 0;
    for (size_t i = 0; i < v->n_tokens; i++)
        if (v->tokens[i].n_bytes > longest) longest = v->tokens[i].n_bytes;
    char *spelled = ig_alloc(a, longest + 1, 1);
    if (!spelled)
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for a token of %zu bytes", v->source, longest);
    const ig_status status = add_pieces(t, v, spelled);
    ig_free(a, spelled);
    return status;
}

/* ---- Encoding ---- */

typedef struct encoding {
    const bert_tokenizer *t;
    char *text; /* normalized text */
    size_t used, room;
    ig_tokens *out;
} encoding;

/* Appends a character, normalized. */
static ig_status put_character(encoding *e, uint32_t point) {
    const bert_tokenizer *t = e->t;
    uint32_t bare[3] = {point};
    const size_t n = t->keep_accents ? 1 : ig_unicode_bare(&t->decompositions, point, bare);
    if (!IG_GROW(t->base.allocator, e->text, &e->room, e->used + n * IG_UTF8_BYTES))
        return IG_FAIL(IG_ERR_MEMORY, "tokenizer: no memory for %zu bytes", e->used);
    for (size_t i = 0; i < n; i++)
        e->used +=
            ig_utf8_put(t->keep_case ? bare[i] : ig_unicode_small(bare[i]), e->text + e->used);
    return IG_OK;
}

static ig_status clean(void *user, const char *bytes, size_t n_bytes, bool dropped) {
    for (size_t at = 0, step; at < n_bytes && !dropped; at += step) {
        uint32_t point;
        if (ig_utf8_next(bytes + at, n_bytes - at, &point, &step) == IG_UTF8_WHOLE)
            IG_TRY(put_character(user, point));
    }
    return IG_OK;
}

/* The longest piece that is a prefix of the text; below 0: none. */
static int32_t longest_piece(const bert_tokenizer *t, const char *text, size_t n_bytes,
                             size_t *length) {
    size_t n = n_bytes < t->lookup.longest ? n_bytes : t->lookup.longest;
    for (; n > 0; n--) {
        const int32_t id = ig_lookup_find(&t->lookup, &t->base, text, n);
        *length = n;
        if (id >= 0) return id;
    }
    return -1;
}

static size_t count_characters(const char *text, size_t n_bytes) {
    size_t count = 0;
    for (size_t i = 0; i < n_bytes; i++) count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

/* Tokenizes one word. */
static ig_status put_word(encoding *e, const char *word, size_t n_bytes) {
    const bert_tokenizer *t = e->t;
    const int32_t unknown = t->base.special_ids[IG_SPECIAL_UNKNOWN];
    const size_t before = e->out->count;
    char spaced[1 + WORD_CHARACTERS * IG_UTF8_BYTES];
    bool whole = count_characters(word, n_bytes) <= WORD_CHARACTERS;
    if (whole) {
        spaced[0] = ' ';
        memcpy(spaced + 1, word, n_bytes);
    }
    for (size_t at = 0, length; whole && at < n_bytes + 1; at += length) {
        const int32_t id = longest_piece(t, spaced + at, n_bytes + 1 - at, &length);
        whole = id >= 0 && (at > 0 || length > 1); /* a lone space begins no word */
        if (whole) IG_TRY(ig_tokens_add(e->out, id));
    }
    if (whole) return IG_OK;
    e->out->count = before;
    return unknown >= 0 ? ig_tokens_add(e->out, unknown) : IG_OK;
}

/* A match is white space or punctuation; the text between matches is a word. */
static ig_status take_word(void *user, const char *bytes, size_t n_bytes, bool matched) {
    uint32_t point = 0;
    size_t step;
    (void)ig_utf8_next(bytes, n_bytes, &point, &step);
    return matched && ig_unicode_is_space(point) ? IG_OK : put_word(user, bytes, n_bytes);
}

static ig_status encode(const ig_tokenizer *base, ig_fragment f, ig_tokens *out) {
    const bert_tokenizer *t = (const bert_tokenizer *)base;
    encoding e = {.t = t, .out = out};
    ig_status status = ig_pretokenizer_split(t->dropped, f.bytes, f.n_bytes, clean, &e);
    if (status == IG_OK) status = ig_pretokenizer_split(t->breaks, e.text, e.used, take_word, &e);
    ig_free(base->allocator, e.text);
    return status;
}

static void deinit(ig_tokenizer *base) {
    bert_tokenizer *t = (bert_tokenizer *)base;
    ig_pretokenizer_destroy(t->dropped);
    ig_pretokenizer_destroy(t->breaks);
    ig_free(base->allocator, t->decompositions.rows);
    ig_lookup_deinit(base, &t->lookup);
}

const ig_tokenizer_kind ig_tokenizer_bert = {
    .name = "bert",
    .struct_bytes = sizeof(bert_tokenizer),
    .load = load,
    .encode = encode,
    .deinit = deinit,
};
