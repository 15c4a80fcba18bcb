/*
 * Text to ids: finds special tokens first and tokenizes the fragments between them.
 *
 * A text may consist of spans, some of which must not contain special tokens. The spans are joined,
 * so that the tokenizer sees one text; the spans decide which bytes may match a special token.
 */
#include <string.h>

#include "base/utf8.h"
#include "text/tokenizer/tokenizer_kind.h"

/* The joined spans; `at` is the current position. */
typedef struct walk {
    const char *text;
    size_t n_bytes, at;
    const ig_text_span *spans;
    size_t n_spans, span; /* `span` holds `at` */
    size_t span_end;
} walk;

/* Advances to a later position. */
static void move_to(walk *w, size_t at) {
    w->at = at;
    while (w->span_end <= at && w->span + 1 < w->n_spans)
        w->span_end += w->spans[++w->span].n_bytes;
}

/* How many of the following bytes may match a special token. */
static size_t control_bytes(const walk *w) {
    return w->spans[w->span].special ? w->span_end - w->at : 0;
}

static const ig_special_name *find_special(const ig_tokenizer *t, walk *w) {
    for (size_t i = w->at; i < w->n_bytes; i++) {
        if (!t->specials.any_begins_with[(unsigned char)w->text[i]]) continue;
        move_to(w, i);
        const ig_special_name *found =
            ig_specials_match(&t->specials, w->text + i, w->n_bytes - i, control_bytes(w));
        if (found) return found;
    }
    move_to(w, w->n_bytes);
    return NULL;
}

static ig_status encode_fragments(const ig_tokenizer *t, walk *w, bool begins_text,
                                  ig_tokens *out) {
    while (w->at < w->n_bytes) {
        const size_t from = w->at;
        const ig_special_name *special = find_special(t, w);
        const ig_fragment f = {w->text + from, w->at - from, begins_text};
        if (f.n_bytes > 0) IG_TRY(t->kind->encode(t, f, out));
        if (!special) break;
        IG_TRY(ig_tokens_add(out, special->id));
        begins_text = true;
        size_t next = w->at + special->n_bytes;
        while (special->strips_right && next < w->n_bytes && ig_is_space(w->text[next])) next++;
        move_to(w, next);
    }
    return IG_OK;
}

static ig_status encode_all(const ig_tokenizer *t, walk *w, unsigned flags, ig_tokens *out) {
    const int32_t bos = t->special_ids[IG_SPECIAL_BOS], eos = t->special_ids[IG_SPECIAL_EOS];
    const bool add = flags & IG_TOKENIZE_ADD_SPECIAL;
    if (add && t->add_bos && bos >= 0) IG_TRY(ig_tokens_add(out, bos));
    IG_TRY(encode_fragments(t, w, !(flags & IG_TOKENIZE_CONTINUES), out));
    if (add && t->add_eos && eos >= 0 && !(flags & IG_TOKENIZE_NO_EOS))
        IG_TRY(ig_tokens_add(out, eos));
    return IG_OK;
}

/* Concatenates the spans in the caller's memory. */
static ig_status join(const ig_tokenizer *t, const ig_text_span *spans, size_t n_spans,
                      size_t n_bytes, char **out) {
    char *text = ig_alloc(t->allocator, n_bytes, 1);
    if (!text)
        return IG_FAIL(IG_ERR_MEMORY, "tokenizer: no memory for a text of %zu bytes", n_bytes);
    *out = text;
    for (size_t i = 0; i < n_spans; text += spans[i].n_bytes, i++)
        if (spans[i].n_bytes > 0) memcpy(text, spans[i].bytes, spans[i].n_bytes);
    return IG_OK;
}

ig_status ig_tokenize_spans(const ig_tokenizer *t, const ig_text_span *spans, size_t n_spans,
                            unsigned flags, ig_tokens *out) {
    const ig_text_span none = {"", 0, false};
    if (n_spans == 0) spans = &none, n_spans = 1;
    size_t n_bytes = 0;
    for (size_t i = 0; i < n_spans; i++)
        if (__builtin_add_overflow(n_bytes, spans[i].n_bytes, &n_bytes)) n_bytes = SIZE_MAX;
    if (n_bytes > INT32_MAX)
        return IG_FAIL(IG_ERR_ARGUMENT, "tokenizer: a text of %zu bytes, at most %d", n_bytes,
                       INT32_MAX);

    char *joined = NULL;
    if (n_spans > 1) IG_TRY(join(t, spans, n_spans, n_bytes, &joined));
    walk w = {.text = joined ? joined : spans[0].bytes,
              .n_bytes = n_bytes,
              .spans = spans,
              .n_spans = n_spans,
              .span_end = spans[0].n_bytes};
    move_to(&w, 0);
    const size_t before = out->count;
    const ig_status status = encode_all(t, &w, flags, out);
    if (status != IG_OK) out->count = before;
    ig_free(t->allocator, joined);
    return status;
}

ig_status ig_tokenize(const ig_tokenizer *t, const char *text, size_t n_bytes, unsigned flags,
                      ig_tokens *out) {
    const ig_text_span whole = {text, n_bytes, flags & IG_TOKENIZE_PARSE_SPECIAL};
    return ig_tokenize_spans(t, &whole, 1, flags, out);
}
