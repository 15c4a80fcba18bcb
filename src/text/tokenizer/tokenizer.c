/*
 * What all tokenizers share: the table of kinds, pieces, detokenizing, JSON.
 */
#include "text/tokenizer/tokenizer.h"

#include <string.h>

#include "base/json_parse.h"
#include "base/utf8.h"
#include "text/tokenizer/tokenizer_kind.h"

/* A new tokenizer kind is a row here. */
static const ig_tokenizer_kind *const kinds[] = {&ig_tokenizer_byte, &ig_tokenizer_char,
                                                 &ig_tokenizer_bpe, NULL};

/* ---- Pieces ---- */

ig_status ig_pieces_add(ig_tokenizer *t, const char *bytes, size_t n_bytes) {
    const size_t id = (size_t)t->vocabulary, start = t->starts ? t->starts[id] : 0;
    if (n_bytes > UINT32_MAX - start)
        return IG_FAIL(IG_ERR_FORMAT, "tokenizer %s: the pieces have more than 4 GiB",
                       t->kind->name);
    if (!IG_GROW(t->allocator, t->starts, &t->room_starts, id + 2) ||
        !IG_GROW(t->allocator, t->pieces, &t->room_pieces, start + n_bytes))
        return IG_FAIL(IG_ERR_MEMORY, "tokenizer %s: no memory for id %zu", t->kind->name, id);
    if (n_bytes > 0) memcpy(t->pieces + start, bytes, n_bytes);
    t->starts[id + 1] = (uint32_t)(start + n_bytes);
    if (n_bytes > t->longest_piece) t->longest_piece = n_bytes;
    t->vocabulary++;
    return IG_OK;
}

ig_string_view ig_tokenizer_piece(const ig_tokenizer *t, int32_t id) {
    if (id < 0 || id >= t->vocabulary)
        return (ig_string_view){IG_UTF8_REPLACEMENT, strlen(IG_UTF8_REPLACEMENT)};
    return (ig_string_view){t->pieces + t->starts[id], t->starts[id + 1] - t->starts[id]};
}

/* ---- Made and unmade ---- */

/* "byte, char, bpe" */
enum { LIST_BYTES = 128 };
static const char *list_kinds(char out[LIST_BYTES]) {
    ig_text list = ig_text_begin(out, LIST_BYTES);
    for (size_t i = 0; kinds[i]; i++) ig_text_add(&list, "%s%s", i ? ", " : "", kinds[i]->name);
    return out;
}

static const ig_tokenizer_kind *find_kind(const char *name) {
    size_t i = 0;
    while (kinds[i] && strcmp(kinds[i]->name, name) != 0) i++;
    return kinds[i];
}

ig_status ig_tokenizer_make(const ig_allocator *a, const ig_tokenizer_kind *kind,
                            ig_tokenizer **out) {
    ig_tokenizer *t = ig_alloc(a, 1, kind->struct_bytes);
    if (!t) return IG_FAIL(IG_ERR_MEMORY, "tokenizer %s: no memory", kind->name);
    t->allocator = a;
    t->kind = kind;
    for (size_t i = 0; i < IG_SPECIAL_COUNT; i++) t->special_ids[i] = -1;
    t->message_end = -1;
    *out = t;
    return IG_OK;
}

static ig_status check_data(const ig_tokenizer_training *options) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < options->n_data; i++) {
        if (__builtin_add_overflow(bytes, options->data[i].n_bytes, &bytes)) bytes = UINT64_MAX;
        if (bytes > IG_TOKENIZER_DATA_MAX)
            return IG_FAIL(IG_ERR_ARGUMENT, "tokenizer: %llu bytes to learn from, at most %d",
                           (unsigned long long)bytes, IG_TOKENIZER_DATA_MAX);
    }
    return IG_OK;
}

ig_status ig_tokenizer_train(const ig_allocator *a, const char *name,
                             const ig_tokenizer_training *options, ig_tokenizer **out) {
    const ig_tokenizer_training defaults = {0};
    if (!options) options = &defaults;
    IG_TRY(check_data(options));
    const ig_tokenizer_kind *kind = find_kind(name);
    char list[LIST_BYTES];
    if (!kind)
        return IG_FAIL(IG_ERR_ARGUMENT, "tokenizer '%.64s': must be one of %s", name,
                       list_kinds(list));
    ig_tokenizer *t = NULL;
    IG_TRY(ig_tokenizer_make(a, kind, &t));
    const ig_status status = t->kind->learn(t, options);
    if (status == IG_OK)
        *out = t;
    else
        ig_tokenizer_destroy(t);
    return status;
}

void ig_tokenizer_destroy(ig_tokenizer *t) {
    if (!t) return;
    if (t->kind->deinit) t->kind->deinit(t);
    ig_free(t->allocator, t->specials.names);
    ig_free(t->allocator, t->kinds);
    ig_free(t->allocator, t->pieces);
    ig_free(t->allocator, t->starts);
    ig_free(t->allocator, t);
}

const char *ig_tokenizer_name(const ig_tokenizer *t) { return t->kind->name; }

int32_t ig_tokenizer_vocab_size(const ig_tokenizer *t) { return t->vocabulary; }

/* ---- Tokens that are no text ---- */

int32_t ig_tokenizer_special(const ig_tokenizer *t, ig_special which) {
    return (unsigned)which < IG_SPECIAL_COUNT ? t->special_ids[which] : -1;
}

bool ig_tokenizer_is_control(const ig_tokenizer *t, int32_t id) {
    if (id < 0 || id >= t->vocabulary) return false;
    const ig_token_kind kind = ig_token_kind_of(t, id);
    return kind == IG_TOKEN_CONTROL || kind == IG_TOKEN_UNKNOWN;
}

/* Names of end-of-turn tokens, because not all files list them. */
static const char *const end_names[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "</s>",
    "<eos>",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<|return|>",
    "<|call|>",
    "<turn|>",
    "<\uFF5Cend\u2581of\u2581sentence\uFF5C>",
};

bool ig_token_name_ends(ig_string_view name) {
    static const char begins[] = {'<', '[', '_'}; /* first bytes of the names: a quick reject */
    if (name.n_bytes == 0 || !memchr(begins, name.bytes[0], sizeof begins)) return false;
    for (size_t i = 0; i < sizeof end_names / sizeof *end_names; i++)
        if (name.n_bytes == strlen(end_names[i]) &&
            memcmp(name.bytes, end_names[i], name.n_bytes) == 0)
            return true;
    return false;
}

bool ig_tokenizer_is_eog(const ig_tokenizer *t, int32_t id) {
    if (id < 0 || id >= t->vocabulary || id == t->message_end) return false;
    if (id == t->special_ids[IG_SPECIAL_EOS] || id == t->special_ids[IG_SPECIAL_EOT]) return true;
    return ig_tokenizer_is_control(t, id) && ig_token_name_ends(ig_tokenizer_piece(t, id));
}

/* ---- Text to ids ---- */

void ig_tokens_deinit(ig_tokens *ids) {
    ig_free(ids->allocator, ids->at);
    *ids = (ig_tokens){.allocator = ids->allocator};
}

ig_status ig_tokens_reserve(ig_tokens *ids, size_t more) {
    size_t wanted;
    if (__builtin_add_overflow(ids->count, more, &wanted) ||
        !IG_GROW(ids->allocator, ids->at, &ids->room, wanted))
        return IG_FAIL(IG_ERR_MEMORY, "tokenizer: no memory for %zu ids", more);
    return IG_OK;
}

ig_status ig_tokens_add(ig_tokens *ids, int32_t id) {
    if (ids->count == ids->room) IG_TRY(ig_tokens_reserve(ids, 1));
    ids->at[ids->count++] = id;
    return IG_OK;
}

size_t ig_tokenizer_cut(const ig_tokenizer *t, const char *text, size_t n_bytes) {
    return n_bytes == 0 || !t->kind->cut ? 0 : t->kind->cut(t, text, n_bytes);
}

/* ---- Ids to text ---- */

/* The text that an id adds; `*flags` loses START after the first output. Unused tokens add
 * nothing. */
static ig_string_view spoken(const ig_tokenizer *t, int32_t id, unsigned *flags) {
    ig_string_view piece = ig_tokenizer_piece(t, id);
    if (id >= 0 && id < t->vocabulary && ig_token_kind_of(t, id) == IG_TOKEN_UNUSED)
        return (ig_string_view){"", 0};
    if (ig_tokenizer_is_control(t, id))
        return *flags & IG_DETOKENIZE_SPECIAL ? piece : (ig_string_view){"", 0};
    const bool spaced = *flags & IG_DETOKENIZE_START && t->space_prefix;
    if (spaced && piece.n_bytes > 0 && piece.bytes[0] == ' ') piece.bytes++, piece.n_bytes--;
    *flags &= ~(unsigned)IG_DETOKENIZE_START;
    return piece;
}

size_t ig_detokenize(const ig_tokenizer *t, const int32_t *ids, size_t n_ids, unsigned flags,
                     char *out, size_t room) {
    size_t used = 0;
    for (size_t i = 0; i < n_ids; i++) {
        const ig_string_view piece = spoken(t, ids[i], &flags);
        const size_t left = used < room ? room - used : 0;
        const size_t fits = piece.n_bytes < left ? piece.n_bytes : left;
        if (fits > 0) memcpy(out + used, piece.bytes, fits);
        used += piece.n_bytes;
    }
    return used;
}

struct ig_detokenizer {
    const ig_tokenizer *tokenizer;
    unsigned flags;
    char held[4]; /* leading bytes of an incomplete character */
    size_t n_held;
    char *bytes; /* `held` and the newest piece, in the same allocation */
    char *text;  /* the output: up to three times as long */
};

ig_status ig_detokenizer_create(const ig_tokenizer *t, unsigned flags, ig_detokenizer **out) {
    const size_t replacement = strlen(IG_UTF8_REPLACEMENT); /* also the text of an invalid id */
    const size_t longest = t->longest_piece > replacement ? t->longest_piece : replacement;
    const size_t room = longest + sizeof(*out)->held;
    ig_detokenizer *d = ig_alloc(t->allocator, 1, sizeof *d + room * (1 + replacement));
    if (!d)
        return IG_FAIL(IG_ERR_MEMORY, "detokenizer: no memory for pieces of %zu bytes", longest);
    *d = (ig_detokenizer){.tokenizer = t, .flags = flags, .bytes = (char *)(d + 1)};
    d->text = d->bytes + room;
    *out = d;
    return IG_OK;
}

void ig_detokenizer_destroy(ig_detokenizer *d) {
    if (d) ig_free(d->tokenizer->allocator, d);
}

ig_string_view ig_detokenizer_next(ig_detokenizer *d, int32_t id) {
    const ig_string_view piece = spoken(d->tokenizer, id, &d->flags);
    const size_t n_bytes = d->n_held + piece.n_bytes;
    char *bytes = d->bytes;
    memcpy(bytes, d->held, d->n_held);
    if (piece.n_bytes > 0) memcpy(bytes + d->n_held, piece.bytes, piece.n_bytes);

    size_t used = 0, at = 0, step;
    uint32_t point;
    for (; at < n_bytes; at += step) {
        const ig_utf8_found found = ig_utf8_next(bytes + at, n_bytes - at, &point, &step);
        if (found == IG_UTF8_CUT_OFF) break;
        if (found == IG_UTF8_NONE) {
            used += ig_utf8_put(IG_UTF8_UNKNOWN, d->text + used);
        } else {
            memcpy(d->text + used, bytes + at, step);
            used += step;
        }
    }
    d->n_held = n_bytes - at;
    memcpy(d->held, bytes + at, d->n_held);
    return (ig_string_view){d->text, used};
}

ig_string_view ig_detokenizer_end(ig_detokenizer *d) {
    const size_t held = d->n_held;
    d->n_held = 0;
    return (ig_string_view){d->text, held ? ig_utf8_put(IG_UTF8_UNKNOWN, d->text) : 0};
}

/* ---- JSON ---- */

size_t ig_tokenizer_json(const ig_tokenizer *t, char *out, size_t room) {
    ig_text text = ig_text_begin(out, room);
    if (!t->kind->parse) return 0;
    ig_text_add(&text, "{\"kind\":\"%s\"", t->kind->name);
    if (t->kind->key) {
        ig_text_add(&text, ",\"%s\":[", t->kind->key);
        t->kind->write(t, &text);
        ig_text_add(&text, "]");
    }
    ig_text_add(&text, "}");
    return text.used;
}

/* Fills an empty tokenizer from its JSON object. */
static ig_status parse_rest(ig_tokenizer *t, const char *source, const json_t *root) {
    const char *key = t->kind->key;
    const json_t *array = key ? json_object_get(root, key) : NULL;
    if (json_object_size(root) != (key ? 2 : 1) || (key && !json_is_array(array)))
        return IG_FAIL(IG_ERR_FORMAT, "%s: a tokenizer of kind %s has %s%s%s", source,
                       t->kind->name, key ? "an array '" : "nothing else", key ? key : "",
                       key ? "' and nothing else" : "");
    return t->kind->parse(t, source, array);
}

static ig_status parse_root(const ig_allocator *a, const char *source, const json_t *root,
                            ig_tokenizer **out) {
    const char *name = json_string_value(json_object_get(root, "kind"));
    if (!name) return IG_FAIL(IG_ERR_FORMAT, "%s: the tokenizer has no \"kind\"", source);
    const ig_tokenizer_kind *kind = find_kind(name);
    char list[LIST_BYTES];
    if (!kind)
        return IG_FAIL(IG_ERR_FORMAT, "%s: the tokenizer is of kind '%.64s', not one of %s", source,
                       name, list_kinds(list));
    ig_tokenizer *t = NULL;
    IG_TRY(ig_tokenizer_make(a, kind, &t));
    const ig_status status = parse_rest(t, source, root);
    if (status == IG_OK)
        *out = t;
    else
        ig_tokenizer_destroy(t);
    return status;
}

ig_status ig_tokenizer_parse(const ig_allocator *a, const char *source, const char *json,
                             size_t n_bytes, ig_tokenizer **out) {
    if (n_bytes > IG_TOKENIZER_JSON_MAX)
        return IG_FAIL(IG_ERR_FORMAT, "%s: the tokenizer has %zu bytes, at most %d are allowed",
                       source, n_bytes, IG_TOKENIZER_JSON_MAX);
    json_t *root = NULL;
    IG_TRY(ig_json_decode(IG_ERR_FORMAT, source, "the tokenizer", json, n_bytes,
                          JSON_REJECT_DUPLICATES, &root));
    const ig_status status = parse_root(a, source, root, out);
    json_decref(root);
    return status;
}
