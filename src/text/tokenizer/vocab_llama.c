/*
 * SentencePiece, as in the Llama family: pieces with scores.
 *
 * A text starts as characters. Neighbors that form a piece are merged, highest score first. A
 * character that is not a piece becomes its bytes. A space belongs to the word after it, so one is
 * inserted before a text.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/tokenizer/merge.h"
#include "text/tokenizer/token_lookup.h"
#include "text/tokenizer/token_spelling.h"
#include "text/tokenizer/tokenizer_kind.h"

typedef struct llama_tokenizer {
    ig_tokenizer base;
    ig_lookup lookup;      /* pieces that text may become */
    uint32_t *ranks;       /* [vocabulary], by score: 0 is the highest */
    int32_t byte_ids[256]; /* below 0: none */
    bool remove_extra_spaces;
} llama_tokenizer;

/* ---- Tables ---- */

/* Whether plain text may become this token. */
static bool is_text(ig_token_kind kind) {
    return kind == IG_TOKEN_NORMAL || kind == IG_TOKEN_UNUSED;
}

static ig_status add_byte(llama_tokenizer *t, const ig_vocab *v, size_t i, int byte) {
    if (byte < 0)
        return IG_FAIL(IG_ERR_FORMAT, "%s: token %zu is said to be a byte, but is '%.*s'",
                       v->source, i, (int)(v->tokens[i].n_bytes < 32 ? v->tokens[i].n_bytes : 32),
                       v->tokens[i].bytes);
    if (t->byte_ids[byte] < 0) t->byte_ids[byte] = (int32_t)i;
    return ig_pieces_add(&t->base, &(char){(char)byte}, 1);
}

static ig_status add_pieces(llama_tokenizer *t, const ig_vocab *v, char *spelled) {
    for (size_t i = 0; i < v->n_tokens; i++) {
        const ig_string_view token = v->tokens[i];
        const ig_token_kind kind = ig_token_kind_of(&t->base, (int32_t)i);
        if (kind == IG_TOKEN_BYTE) {
            IG_TRY(add_byte(t, v, i, ig_spell_hex(token)));
        } else if (is_text(kind)) {
            IG_TRY(ig_pieces_add(&t->base, spelled, ig_spell_spaces(token, spelled)));
        } else {
            IG_TRY(ig_pieces_add(&t->base, token.bytes, token.n_bytes));
        }
    }
    return IG_OK;
}

typedef struct scored {
    float score;
    int32_t id;
} scored;

static int by_score(const void *left, const void *right) {
    const scored *a = left, *b = right;
    return a->score > b->score ? -1 : a->score < b->score;
}

/* Equal scores have equal ranks; NaN ranks lowest. */
static ig_status rank(llama_tokenizer *t, const ig_vocab *v) {
    const ig_allocator *a = t->base.allocator;
    t->ranks = ig_alloc(a, v->n_tokens, sizeof *t->ranks);
    if (!v->scores && t->ranks) return IG_OK;
    scored *all = ig_alloc(a, v->n_tokens, sizeof *all);
    if (!t->ranks || !all) {
        ig_free(a, all);
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %zu scores", v->source, v->n_tokens);
    }
    for (size_t i = 0; i < v->n_tokens; i++)
        all[i] = (scored){isnan(v->scores[i]) ? -INFINITY : v->scores[i], (int32_t)i};
    qsort(all, v->n_tokens, sizeof *all, by_score);
    uint32_t now = 0;
    for (size_t i = 0; i < v->n_tokens; i++) {
        if (i > 0 && all[i].score != all[i - 1].score) now++;
        t->ranks[all[i].id] = now;
    }
    ig_free(a, all);
    return IG_OK;
}

static ig_status load(ig_tokenizer *base, const ig_vocab *v) {
    llama_tokenizer *t = (llama_tokenizer *)base;
    size_t longest = 0;
    for (size_t i = 0; i < v->n_tokens; i++)
        if (v->tokens[i].n_bytes > longest) longest = v->tokens[i].n_bytes;
    char *spelled = ig_alloc(base->allocator, longest, 1);
    if (!spelled)
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for a token of %zu bytes", v->source, longest);
    for (size_t i = 0; i < 256; i++) t->byte_ids[i] = -1;
    const ig_status status = add_pieces(t, v, spelled);
    ig_free(base->allocator, spelled);
    IG_TRY(status);

    IG_TRY(ig_lookup_init(base, v->n_tokens, &t->lookup));
    for (int32_t id = 0; id < base->vocabulary; id++)
        if (is_text(ig_token_kind_of(base, id))) ig_lookup_add(&t->lookup, base, id);
    base->space_prefix = v->add_space_prefix;
    t->remove_extra_spaces = v->remove_extra_spaces;
    return rank(t, v);
}

/* ---- Encoding ---- */

/* The text in the vocabulary's form: U+2581 for spaces, and a leading one where needed. */
static size_t prepare(const llama_tokenizer *t, ig_fragment f, char *out) {
    char *text = out;
    if (t->base.space_prefix && f.begins_text) *text++ = ' ';
    const size_t n = ig_spell_spaces((ig_string_view){f.bytes, f.n_bytes}, text);
    size_t used = (size_t)(text - out);
    if (!t->remove_extra_spaces) return used + n;
    bool after_space = true;
    for (size_t i = 0; i < n; i++) {
        if (text[i] != ' ' || !after_space) out[used++] = text[i];
        after_space = text[i] == ' ';
    }
    while (used > 0 && out[used - 1] == ' ') used--;
    return used;
}

static ig_merge_pair look(const void *user, const char *text, ig_merge_part left,
                          ig_merge_part right) {
    const llama_tokenizer *t = user;
    const int32_t id =
        ig_lookup_find(&t->lookup, &t->base, text + left.start, left.n_bytes + right.n_bytes);
    return (ig_merge_pair){id >= 0 ? t->ranks[id] : 0, id};
}

static ig_status put_bytes(const llama_tokenizer *t, const char *bytes, size_t n_bytes,
                           ig_tokens *out) {
    const int32_t unknown = t->base.special_ids[IG_SPECIAL_UNKNOWN];
    for (size_t i = 0; i < n_bytes; i++) {
        const int32_t id = t->byte_ids[(unsigned char)bytes[i]];
        if (id < 0) return unknown >= 0 ? ig_tokens_add(out, unknown) : IG_OK;
        IG_TRY(ig_tokens_add(out, id));
    }
    return IG_OK;
}

static ig_status merge(const llama_tokenizer *t, ig_merge *m, const char *text, size_t n_bytes,
                       ig_tokens *out) {
    IG_TRY(ig_merge_reset(m, text, n_bytes));
    for (size_t at = 0, step; at < n_bytes; at += step) {
        uint32_t point;
        if (ig_utf8_next(text + at, n_bytes - at, &point, &step) != IG_UTF8_WHOLE) step = 1;
        ig_merge_add(m, (uint32_t)step, ig_lookup_find(&t->lookup, &t->base, text + at, step));
    }
    ig_merge_run(m);
    for (int32_t i = m->n_parts > 0 ? 0 : -1; i >= 0; i = m->parts[i].after) {
        const ig_merge_part part = m->parts[i];
        IG_TRY(part.id >= 0 ? ig_tokens_add(out, part.id)
                            : put_bytes(t, text + part.start, part.n_bytes, out));
    }
    return IG_OK;
}

static ig_status encode(const ig_tokenizer *base, ig_fragment f, ig_tokens *out) {
    const llama_tokenizer *t = (const llama_tokenizer *)base;
    char *text = ig_alloc(base->allocator, f.n_bytes + 1, 1);
    if (!text) return IG_FAIL(IG_ERR_MEMORY, "tokenizer: no memory for %zu bytes", f.n_bytes);
    ig_merge m = {.allocator = base->allocator, .look = look, .user = t};
    const ig_status status = merge(t, &m, text, prepare(t, f, text), out);
    ig_merge_deinit(&m);
    ig_free(base->allocator, text);
    return status;
}

static void deinit(ig_tokenizer *base) {
    llama_tokenizer *t = (llama_tokenizer *)base;
    ig_lookup_deinit(base, &t->lookup);
    ig_free(base->allocator, t->ranks);
}

const ig_tokenizer_kind ig_tokenizer_llama = {
    .name = "llama",
    .struct_bytes = sizeof(llama_tokenizer),
    .load = load,
    .encode = encode,
    .deinit = deinit,
};
