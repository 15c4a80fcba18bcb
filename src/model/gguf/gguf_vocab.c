/*
 * Reads GGUF's tokenizer.ggml.* keys into an ig_vocab.
 *
 * A missing key has the default of its tokenizer model; an existing one must have the right type
 * and size.
 */
#include "model/gguf/gguf_vocab.h"

#include <string.h>
#include <strings.h>

#include "text/tokenizer/pretokenizer.h"

#define KEY(name) "tokenizer.ggml." name

typedef struct reading {
    const ig_allocator *allocator;
    const ig_gguf *gguf;
    ig_vocab vocab;
    ig_string_view *tokens, *merges;
    float *scores;
    int32_t *kinds;
    char model[32], pre[64]; /* 0-terminated; a longer name is unknown anyway */
} reading;

static ig_status wrong(const reading *r, const char *key, const char *what) {
    return IG_FAIL(IG_ERR_FORMAT, "%s: %s is not %s", r->vocab.source, key, what);
}

/* ---- Single values ---- */

/* Reads a string, 0-terminated; `*found`: the key exists. */
static ig_status read_text(const reading *r, const char *key, char *out, size_t room, bool *found) {
    ig_string_view text;
    *found = ig_gguf_find(r->gguf, key) != NULL;
    if (!*found) return IG_OK;
    if (!ig_gguf_string(r->gguf, key, &text)) return wrong(r, key, "a text");
    const size_t n = text.n_bytes < room - 1 ? (size_t)text.n_bytes : room - 1;
    memcpy(out, text.bytes, n);
    out[n] = 0;
    return IG_OK;
}

/* Reads an id. A missing key, and the -1 of some writers, keep the default. */
static ig_status read_id(const reading *r, const char *key, int32_t *out) {
    const size_t n_tokens = r->vocab.n_tokens;
    if (*out >= 0 && (size_t)*out >= n_tokens)
        *out = -1; /* the default may be of a larger vocabulary */
    if (!ig_gguf_find(r->gguf, key)) return IG_OK;
    int64_t id;
    if (!ig_gguf_int(r->gguf, key, &id)) return wrong(r, key, "an integer");
    if (id == -1 || id == UINT32_MAX) return IG_OK;
    if (id < 0 || (uint64_t)id >= n_tokens)
        return IG_FAIL(IG_ERR_FORMAT, "%s: %s is %lld, but there are %zu tokens", r->vocab.source,
                       key, (long long)id, n_tokens);
    *out = (int32_t)id;
    return IG_OK;
}

static ig_status read_bool(const reading *r, const char *key, bool *out) {
    if (!ig_gguf_find(r->gguf, key)) return IG_OK;
    return ig_gguf_bool(r->gguf, key, out) ? IG_OK : wrong(r, key, "true or false");
}

/* ---- Arrays ---- */

/* An array of strings; NULL and 0 if missing. */
static ig_status read_texts(const reading *r, const char *key, ig_string_view **out,
                            size_t *count) {
    const ig_gguf_value *value = ig_gguf_find(r->gguf, key);
    *count = 0;
    if (!value) return IG_OK;
    if (value->type != IG_GGUF_ARRAY || value->elements != IG_GGUF_STRING)
        return wrong(r, key, "an array of texts");
    ig_string_view *texts = ig_alloc(r->allocator, (size_t)value->count, sizeof *texts);
    if (!texts)
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %llu texts of %s", r->vocab.source,
                       (unsigned long long)value->count, key);
    for (uint64_t i = 0; i < value->count; i++)
        texts[i] = (ig_string_view){value->texts[i].bytes, (size_t)value->texts[i].n_bytes};
    *out = texts;
    *count = (size_t)value->count;
    return IG_OK;
}

/* An array with one number per token; `*value` is NULL if missing. */
static ig_status find_numbers(const reading *r, const char *key, const ig_gguf_value **value) {
    *value = ig_gguf_find(r->gguf, key);
    if (!*value) return IG_OK;
    if ((*value)->type != IG_GGUF_ARRAY || !(*value)->packed)
        return wrong(r, key, "an array of numbers");
    if ((*value)->count != r->vocab.n_tokens)
        return IG_FAIL(IG_ERR_FORMAT, "%s: %s has %llu numbers for %zu tokens", r->vocab.source,
                       key, (unsigned long long)(*value)->count, r->vocab.n_tokens);
    return IG_OK;
}

static ig_status read_scores(reading *r) {
    const ig_gguf_value *value;
    IG_TRY(find_numbers(r, KEY("scores"), &value));
    if (!value) return IG_OK;
    r->scores = ig_alloc(r->allocator, r->vocab.n_tokens, sizeof *r->scores);
    if (!r->scores) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for the scores", r->vocab.source);
    for (uint64_t i = 0; i < value->count; i++) r->scores[i] = (float)ig_gguf_real_at(value, i);
    r->vocab.scores = r->scores;
    return IG_OK;
}

static ig_status read_kinds(reading *r) {
    const ig_gguf_value *value;
    IG_TRY(find_numbers(r, KEY("token_type"), &value));
    if (!value) return IG_OK;
    r->kinds = ig_alloc(r->allocator, r->vocab.n_tokens, sizeof *r->kinds);
    if (!r->kinds) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for the kinds", r->vocab.source);
    for (uint64_t i = 0; i < value->count; i++) {
        const int64_t kind = ig_gguf_int_at(value, i);
        r->kinds[i] = kind >= 0 && kind <= IG_TOKEN_BYTE ? (int32_t)kind : 0;
    }
    r->vocab.kinds = r->kinds;
    return IG_OK;
}

/* ---- All of it ---- */

/* Defaults per tokenizer model. */
static void set_defaults(ig_vocab *v) {
    v->bos = v->eos = v->eot = v->unknown = v->separator = v->padding = v->mask = -1;
    if (strcmp(v->model, "llama") == 0) {
        v->unknown = 0, v->bos = 1, v->eos = 2;
        v->add_bos = v->add_space_prefix = true;
    } else if (strcmp(v->model, "bert") == 0) {
        v->padding = 0, v->unknown = 100, v->bos = 101, v->separator = 102, v->mask = 103;
        v->add_bos = v->add_eos = true;
    } else {
        v->add_bos = ig_vocab_adds_bos(v->pre);
    }
}

static ig_status read_ids(reading *r) {
    ig_vocab *v = &r->vocab;
    IG_TRY(read_id(r, KEY("bos_token_id"), &v->bos));
    IG_TRY(read_id(r, KEY("eos_token_id"), &v->eos));
    IG_TRY(read_id(r, KEY("eot_token_id"), &v->eot));
    IG_TRY(read_id(r, KEY("unknown_token_id"), &v->unknown));
    IG_TRY(read_id(r, KEY("seperator_token_id"), &v->separator)); /* files spell it this way */
    IG_TRY(read_id(r, KEY("padding_token_id"), &v->padding));
    return read_id(r, KEY("mask_token_id"), &v->mask);
}

static ig_status read_flags(reading *r) {
    ig_vocab *v = &r->vocab;
    IG_TRY(read_bool(r, KEY("add_bos_token"), &v->add_bos));
    if (strcmp(v->model, "bert") != 0) IG_TRY(read_bool(r, KEY("add_eos_token"), &v->add_eos));
    IG_TRY(read_bool(r, KEY("add_space_prefix"), &v->add_space_prefix));
    bool lower = true;
    IG_TRY(read_bool(r, KEY("normalizer.lowercase"), &lower));
    bool strip_accents = lower; /* as in BERT, unless the file says otherwise */
    IG_TRY(read_bool(r, KEY("normalizer.strip_accents"), &strip_accents));
    v->keep_case = !lower;
    v->keep_accents = !strip_accents;
    return read_bool(r, KEY("remove_extra_whitespaces"), &v->remove_extra_spaces);
}

/* Phi-3 files do not declare that special tokens swallow the white space after them. */
static ig_status read_name(reading *r) {
    char name[64] = "";
    bool found;
    IG_TRY(read_text(r, "general.name", name, sizeof name, &found));
    r->vocab.specials_strip_right = strcasestr(name, "phi-3") || strcasestr(name, "phi3");
    return IG_OK;
}

static ig_status read_all(reading *r, const char *pre) {
    ig_vocab *v = &r->vocab;
    bool found;
    IG_TRY(read_text(r, KEY("model"), r->model, sizeof r->model, &found));
    if (!found)
        return IG_FAIL(IG_ERR_FORMAT, "%s: has no tokenizer (%s is missing)", v->source,
                       KEY("model"));
    v->model = r->model;
    IG_TRY(read_text(r, KEY("pre"), r->pre, sizeof r->pre, &found));
    v->pre = pre ? pre : found ? r->pre : NULL;
    if (!ig_gguf_find(r->gguf, KEY("tokens")))
        return IG_FAIL(IG_ERR_FORMAT, "%s: has no tokenizer (%s is missing)", v->source,
                       KEY("tokens"));
    IG_TRY(read_texts(r, KEY("tokens"), &r->tokens, &v->n_tokens));
    IG_TRY(read_texts(r, KEY("merges"), &r->merges, &v->n_merges));
    v->tokens = r->tokens;
    v->merges = r->merges;
    IG_TRY(read_scores(r));
    IG_TRY(read_kinds(r));
    set_defaults(v);
    IG_TRY(read_ids(r));
    IG_TRY(read_flags(r));
    return read_name(r);
}

ig_status ig_vocab_from_gguf(const ig_allocator *a, const char *source, const ig_gguf *gguf,
                             const char *pre, ig_tokenizer **out) {
    if (pre && !ig_pre_find(pre)) return ig_pre_unknown(IG_ERR_ARGUMENT, source, pre);
    reading r = {.allocator = a, .gguf = gguf, .vocab = {.source = source}};
    ig_status status = read_all(&r, pre);
    if (status == IG_OK) status = ig_tokenizer_from_vocab(a, &r.vocab, out);
    ig_free(a, r.kinds);
    ig_free(a, r.scores);
    ig_free(a, r.merges);
    ig_free(a, r.tokens);
    return status;
}
