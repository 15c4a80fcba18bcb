/*
 * Writes tokenizer.json as tokenizer.ggml.* keys. Three types are supported: byte-level BPE
 * ("gpt2"), BPE over characters with byte fallback, which is how tokenizer.json stores
 * SentencePiece vocabularies ("llama"), and WordPiece ("bert").
 */
#include <stdio.h>
#include <string.h>

#include "model/convert/convert_parts.h"
#include "text/tokenizer/pretokenizer.h"

#define KEY(name) "tokenizer.ggml." name
#define SPACE     "\xe2\x96\x81" /* U+2581, SentencePiece's space */

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 };

typedef enum kind { BYTES, PIECES, WORDS } kind;

typedef struct tokens {
    const ig_conversion *c;
    const ig_allocator *allocator;
    const json_t *root, *config, *generation; /* tokenizer.json, and the other two or NULL */
    const json_t *model, *vocab, *merges, *added;
    kind kind;
    ig_string_view *texts;
    float *scores;
    int32_t *types;
    size_t count;
    char **owned; /* strings that the JSON does not own */
    size_t n_owned, owned_capacity;
} tokens;

static ig_status refuse(const tokens *t, const char *why) {
    return IG_FAIL(IG_ERR_FORMAT, "%s/tokenizer.json: %s", t->c->dir, why);
}

static ig_status no_memory(const tokens *t) {
    return IG_FAIL(IG_ERR_MEMORY, "%s/tokenizer.json: no memory for its tokens", t->c->dir);
}

static ig_string_view text_of(const char *text) { return (ig_string_view){text, strlen(text)}; }

/* Allocates a zeroed string that lives as long as `t`; NULL: out of memory. */
static char *own(tokens *t, size_t bytes) {
    char *room = ig_alloc(t->allocator, bytes, 1);
    if (!room || !IG_GROW(t->allocator, t->owned, &t->owned_capacity, t->n_owned + 1)) {
        ig_free(t->allocator, room);
        return NULL;
    }
    return t->owned[t->n_owned++] = room;
}

/* ---- Tokens by their numbers ---- */

/* A token id is valid only if the embedding has a row for it. */
static bool is_id(const tokens *t, const json_t *id) {
    return json_is_integer(id) && json_integer_value(id) >= 0 &&
           (size_t)json_integer_value(id) < t->count;
}

/* The largest id + 1, if the embedding is not read. */
static size_t count_ids(const tokens *t) {
    const char *text;
    json_t *id;
    json_int_t most = -1;
    json_object_foreach((json_t *)t->vocab, text, id) {
        if (json_integer_value(id) > most) most = json_integer_value(id);
    }
    for (size_t a = 0; a < json_array_size(t->added); a++) {
        id = json_object_get(json_array_get(t->added, a), "id");
        if (json_integer_value(id) > most) most = json_integer_value(id);
    }
    return most >= 0 && most < 1 << 24 ? (size_t)most + 1 : 0;
}

static ig_status allocate(tokens *t) {
    t->count = t->c->n_tokens > 0 ? (size_t)t->c->n_tokens : count_ids(t);
    if (t->count == 0) return refuse(t, "has no tokens, or ids above 16777215");
    t->texts = ig_alloc(t->allocator, t->count, sizeof *t->texts);
    t->scores = ig_alloc(t->allocator, t->count, sizeof *t->scores);
    t->types = ig_alloc(t->allocator, t->count, sizeof *t->types);
    return t->texts && t->scores && t->types ? IG_OK : no_memory(t);
}

static ig_status take_vocab(tokens *t) {
    const char *text;
    json_t *id;
    size_t beyond = 0;
    if (!json_is_object(t->vocab)) return refuse(t, "has no model with a vocab");
    json_object_foreach((json_t *)t->vocab, text, id) {
        if (!is_id(t, id)) {
            if (!json_is_integer(id)) return refuse(t, "a token has no id");
            beyond++;
            continue;
        }
        const size_t i = (size_t)json_integer_value(id);
        if (t->texts[i].bytes)
            return IG_FAIL(IG_ERR_FORMAT, "%s/tokenizer.json: two tokens have the id %zu",
                           t->c->dir, i);
        t->texts[i] = text_of(text);
        t->types[i] = NORMAL;
    }
    if (beyond > 0)
        convert_say(t->c, "%zu tokens have no row in the embedding and are left out", beyond);
    return IG_OK;
}

/* Fills unused ids: the embedding is often padded beyond the vocabulary. */
static ig_status fill_gaps(tokens *t) {
    for (size_t i = 0; i < t->count; i++) {
        if (t->texts[i].bytes) continue;
        char *text = own(t, 32);
        if (!text) return no_memory(t);
        snprintf(text, 32, "[PAD%zu]", i);
        t->texts[i] = text_of(text);
        t->types[i] = UNUSED;
        t->scores[i] = -10000;
    }
    return IG_OK;
}

static bool begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

static bool ends(const char *text, const char *with) {
    const size_t n = strlen(text), n_with = strlen(with);
    return n >= n_with && strcmp(text + n - n_with, with) == 0;
}

/* Special tokens by their spelling: some are not marked as special. */
static bool looks_special(const char *text) {
    return (begins(text, "<|") && ends(text, "|>")) || begins(text, "<unused") ||
           (begins(text, "<\xef\xbd\x9c") && ends(text, "\xef\xbd\x9c>"));
}

/* Replaces SPACE by ' '. */
static const char *with_spaces(tokens *t, const char *text) {
    if (!strstr(text, SPACE)) return text;
    char *out = own(t, strlen(text) + 1), *to = out;
    while (out && *text) {
        const bool is_space = begins(text, SPACE);
        *to++ = is_space ? ' ' : *text;
        text += is_space ? strlen(SPACE) : 1;
    }
    return out;
}

static ig_status take_added(tokens *t) {
    for (size_t a = 0; a < json_array_size(t->added); a++) {
        const json_t *token = json_array_get(t->added, a), *id = json_object_get(token, "id");
        const char *text = json_string_value(json_object_get(token, "content"));
        if (!text || !json_is_integer(id)) return refuse(t, "an added token has no text or id");
        if (!is_id(t, id)) continue;
        const size_t i = (size_t)json_integer_value(id);
        const bool special = json_is_true(json_object_get(token, "special")) || looks_special(text);
        if (!special) text = with_spaces(t, text);
        if (!text) return no_memory(t);
        t->texts[i] = text_of(text);
        t->types[i] = special ? CONTROL : USER_DEFINED;
    }
    return IG_OK;
}

/* The id of a token by its text as spelled in the folder; -1: none. */
static int64_t id_of(const tokens *t, const char *text) {
    for (size_t a = 0; a < json_array_size(t->added); a++) {
        const json_t *token = json_array_get(t->added, a);
        const char *content = json_string_value(json_object_get(token, "content"));
        const json_t *id = json_object_get(token, "id");
        if (content && strcmp(content, text) == 0)
            return is_id(t, id) ? json_integer_value(id) : -1;
    }
    const json_t *id = json_object_get(t->vocab, text);
    return is_id(t, id) ? json_integer_value(id) : -1;
}

/* ---- Merges ---- */

/* The two pieces of merge i; false: malformed. */
static bool merge_at(const tokens *t, size_t i, ig_string_view *left, ig_string_view *right) {
    const json_t *merge = json_array_get(t->merges, i);
    const char *text = json_string_value(merge);
    if (text) {
        const char *space = strchr(text, ' ');
        if (!space || space == text || !space[1] || strchr(space + 1, ' ')) return false;
        *left = (ig_string_view){text, (uint64_t)(space - text)};
        *right = text_of(space + 1);
        return true;
    }
    const char *a = json_string_value(json_array_get(merge, 0));
    const char *b = json_string_value(json_array_get(merge, 1));
    if (json_array_size(merge) != 2 || !a || !b || !*a || !*b || strchr(a, ' ') || strchr(b, ' '))
        return false;
    *left = text_of(a);
    *right = text_of(b);
    return true;
}

static ig_status put_merges(tokens *t, ig_gguf_writer *w) {
    const size_t count = json_array_size(t->merges);
    ig_string_view *texts = ig_alloc(t->allocator, count, sizeof *texts);
    ig_status status = texts ? IG_OK : no_memory(t);
    for (size_t i = 0; status == IG_OK && i < count; i++) {
        ig_string_view a, b;
        if (!merge_at(t, i, &a, &b)) {
            status = refuse(t, "a merge is not two pieces");
            break;
        }
        char *text = own(t, (size_t)(a.n_bytes + b.n_bytes) + 2);
        if (!text) {
            status = no_memory(t);
            break;
        }
        snprintf(text, (size_t)(a.n_bytes + b.n_bytes) + 2, "%.*s %.*s", (int)a.n_bytes, a.bytes,
                 (int)b.n_bytes, b.bytes);
        texts[i] = text_of(text);
    }
    if (status == IG_OK) ig_gguf_writer_texts(w, KEY("merges"), texts, count);
    ig_free(t->allocator, texts);
    return status;
}

/* SentencePiece merges by the score of the resulting token: earlier merges get higher scores. */
static ig_status score_by_merges(tokens *t) {
    const size_t count = json_array_size(t->merges);
    for (size_t i = 0; i < t->count; i++)
        if (t->types[i] == NORMAL) t->scores[i] = -(float)(count + i);
    for (size_t i = count; i-- > 0;) { /* the earliest merge that yields a token wins */
        ig_string_view a, b;
        if (!merge_at(t, i, &a, &b)) return refuse(t, "a merge is not two pieces");
        char *text = ig_alloc(t->allocator, (size_t)(a.n_bytes + b.n_bytes) + 1, 1);
        if (!text) return no_memory(t);
        memcpy(text, a.bytes, (size_t)a.n_bytes);
        memcpy(text + a.n_bytes, b.bytes, (size_t)b.n_bytes);
        const json_t *id = json_object_get(t->vocab, text);
        if (is_id(t, id)) t->scores[json_integer_value(id)] = -(float)i;
        ig_free(t->allocator, text);
    }
    return IG_OK;
}

/* ---- Kinds ---- */

/* Collects the pre-tokenizer's patterns in order; false: unsupported element. */
static bool take_pattern(const json_t *part, const char *patterns[IG_PRE_PATTERNS], size_t *n) {
    const char *type = json_string_value(json_object_get(part, "type"));
    const char *pattern = NULL;
    if (!type || *n == IG_PRE_PATTERNS) return false;
    if (strcmp(type, "Sequence") == 0) {
        const json_t *parts = json_object_get(part, "pretokenizers");
        for (size_t i = 0; i < json_array_size(parts); i++)
            if (!take_pattern(json_array_get(parts, i), patterns, n)) return false;
        return true;
    }
    if (strcmp(type, "ByteLevel") == 0) {
        if (json_is_false(json_object_get(part, "use_regex"))) return true;
        pattern = ig_pre_byte_level;
    } else if (strcmp(type, "Digits") == 0) {
        if (!json_is_true(json_object_get(part, "individual_digits"))) return false;
        pattern = ig_pre_single_digits;
    } else if (strcmp(type, "Split") == 0) {
        const json_t *given = json_object_get(part, "pattern");
        pattern = json_string_value(json_object_get(given, "Regex"));
    }
    if (pattern) patterns[(*n)++] = pattern;
    return pattern != NULL;
}

static ig_status put_pre(const tokens *t, ig_gguf_writer *w) {
    const char *patterns[IG_PRE_PATTERNS] = {NULL}, *name = t->c->options.pre;
    size_t n = 0;
    if (name) {
        if (!ig_pre_find(name)) return ig_pre_unknown(IG_ERR_ARGUMENT, t->c->dir, name);
    } else if (take_pattern(json_object_get(t->root, "pre_tokenizer"), patterns, &n)) {
        const bool ignores = json_is_true(json_object_get(t->model, "ignore_merges"));
        name = ig_pre_name_of(patterns, n, ignores);
    }
    if (!name)
        return IG_FAIL(IG_ERR_FORMAT,
                       "%s/tokenizer.json: its pre-tokenizer is not known (%.200s); --pre chooses "
                       "one by its name",
                       t->c->dir, n > 0 ? patterns[0] : "no pattern");
    ig_gguf_writer_text(w, KEY("pre"), name);
    return IG_OK;
}

static ig_status put_bytes(tokens *t, ig_gguf_writer *w) {
    IG_TRY(put_pre(t, w));
    return put_merges(t, w);
}

/* Whether a space is prepended to a text, by the normalizer or the pre-tokenizer. */
static bool adds_space(const json_t *part) {
    const char *type = json_string_value(json_object_get(part, "type"));
    if (!type) return false;
    if (strcmp(type, "Prepend") == 0) return true;
    if (strcmp(type, "Metaspace") == 0) {
        const char *scheme = json_string_value(json_object_get(part, "prepend_scheme"));
        return scheme ? strcmp(scheme, "never") != 0
                      : json_is_true(json_object_get(part, "add_prefix_space"));
    }
    const json_t *parts = json_object_get(part, "normalizers");
    if (!parts) parts = json_object_get(part, "pretokenizers");
    for (size_t i = 0; i < json_array_size(parts); i++)
        if (adds_space(json_array_get(parts, i))) return true;
    return false;
}

static ig_status put_pieces(tokens *t, ig_gguf_writer *w) {
    const char *unknown = json_string_value(json_object_get(t->model, "unk_token"));
    const int64_t unknown_id = unknown ? id_of(t, unknown) : -1;
    char byte[8];
    for (unsigned b = 0; b < 256; b++) {
        snprintf(byte, sizeof byte, "<0x%02X>", b);
        const int64_t id = id_of(t, byte);
        if (id < 0) return refuse(t, "has byte_fallback, but not all byte tokens");
        t->types[id] = BYTE;
    }
    if (unknown_id >= 0) t->types[unknown_id] = UNKNOWN;
    IG_TRY(score_by_merges(t));
    ig_gguf_writer_array(w, KEY("scores"), IG_GGUF_F32, t->scores, t->count);
    ig_gguf_writer_bool(w, KEY("add_space_prefix"),
                        adds_space(json_object_get(t->root, "normalizer")) ||
                            adds_space(json_object_get(t->root, "pre_tokenizer")));
    return IG_OK;
}

/* "##ing" becomes "ing", and "the" becomes SPACE "the". */
static ig_status put_words(tokens *t, ig_gguf_writer *w) {
    const json_t *normalizer = json_object_get(t->root, "normalizer");
    if (json_is_false(json_object_get(normalizer, "lowercase")))
        return refuse(t, "is case-sensitive, which is not supported");
    for (size_t i = 0; i < t->count; i++) {
        const char *text = t->texts[i].bytes;
        if (t->types[i] != NORMAL || (begins(text, "[") && ends(text, "]"))) continue;
        const bool goes_on = begins(text, "##");
        const size_t bytes = strlen(text) + sizeof SPACE;
        char *out = own(t, bytes);
        if (!out) return no_memory(t);
        snprintf(out, bytes, "%s%s", goes_on ? "" : SPACE, goes_on ? text + 2 : text);
        t->texts[i] = text_of(out);
    }
    ig_gguf_writer_u32(w, KEY("token_type_count"),
                       (uint32_t)convert_int(t->c, "type_vocab_size", NULL, 2));
    return IG_OK;
}

/* ---- Special tokens ---- */

/* A token of tokenizer_config.json, a string or an object with one; NULL: none. */
static const char *special_text(const tokens *t, const char *name) {
    const json_t *token = json_object_get(t->config, name);
    const json_t *content = json_is_object(token) ? json_object_get(token, "content") : token;
    return json_string_value(content);
}

/* By its text, else by its id in config.json; -1: none. */
static int64_t special_id(const tokens *t, const char *name) {
    char key[64];
    const char *text = special_text(t, name);
    const int64_t by_text = text ? id_of(t, text) : -1;
    if (by_text >= 0) return by_text;
    snprintf(key, sizeof key, "%s_id", name);
    const json_t *id = json_object_get(t->c->text, key);
    if (json_is_array(id)) id = json_array_get(id, 0);
    return is_id(t, id) ? json_integer_value(id) : -1;
}

/* Whether TemplateProcessing puts `text` before (or after) the sequence. */
static bool template_has(const json_t *part, const char *text, bool before) {
    const json_t *parts = json_object_get(part, "processors");
    for (size_t i = 0; i < json_array_size(parts); i++)
        if (template_has(json_array_get(parts, i), text, before)) return true;
    const json_t *single = json_object_get(part, "single");
    const size_t n = json_array_size(single);
    const json_t *edge = json_array_get(single, before || n == 0 ? 0 : n - 1);
    const char *id =
        json_string_value(json_object_get(json_object_get(edge, "SpecialToken"), "id"));
    return id && strcmp(id, text) == 0;
}

static void put_flag(const tokens *t, ig_gguf_writer *w, const char *name, const char *token,
                     bool before) {
    char key[64];
    const json_t *said = json_object_get(t->config, name), *post;
    const char *text = special_text(t, token);
    snprintf(key, sizeof key, KEY("%s"), name);
    post = json_object_get(t->root, "post_processor");
    if (json_is_boolean(said))
        ig_gguf_writer_bool(w, key, json_is_true(said));
    else if (text)
        ig_gguf_writer_bool(w, key, template_has(post, text, before));
}

/* Of several EOS ids, the first that is not the main one is EOT. */
static void put_end_of_turn(const tokens *t, ig_gguf_writer *w, int64_t eos) {
    const json_t *ids = json_object_get(t->generation, "eos_token_id");
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *id = json_array_get(ids, i);
        if (!is_id(t, id) || json_integer_value(id) == eos) continue;
        ig_gguf_writer_u32(w, KEY("eot_token_id"), (uint32_t)json_integer_value(id));
        return;
    }
}

static void put_special(const tokens *t, ig_gguf_writer *w) {
    static const struct {
        const char *token, *key;
        bool of_words; /* WordPiece only */
    } rows[] = {
        {"bos_token", KEY("bos_token_id"), false},
        {"cls_token", KEY("bos_token_id"), true},
        {"eos_token", KEY("eos_token_id"), false},
        {"sep_token", KEY("eos_token_id"), true},
        {"sep_token", KEY("seperator_token_id"), true}, /* sic: the GGUF key has this spelling */
        {"unk_token", KEY("unknown_token_id"), false},
        {"pad_token", KEY("padding_token_id"), false},
        {"mask_token", KEY("mask_token_id"), false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int64_t id = special_id(t, rows[i].token);
        if (id >= 0 && (t->kind == WORDS || !rows[i].of_words))
            ig_gguf_writer_u32(w, rows[i].key, (uint32_t)id);
    }
    if (t->kind == WORDS) return;
    put_end_of_turn(t, w, special_id(t, "eos_token"));
    put_flag(t, w, "add_bos_token", "bos_token", true);
    put_flag(t, w, "add_eos_token", "eos_token", false);
}

/* One template, or several named ones. */
static void put_chat_template(const tokens *t, ig_gguf_writer *w) {
    const json_t *given = json_object_get(t->config, "chat_template");
    if (json_is_string(given))
        ig_gguf_writer_text(w, "tokenizer.chat_template", json_string_value(given));
    for (size_t i = 0; i < json_array_size(given); i++) {
        char key[96];
        const json_t *one = json_array_get(given, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        const char *text = json_string_value(json_object_get(one, "template"));
        if (!name || !text) continue;
        snprintf(key, sizeof key, "tokenizer.chat_template%s%.64s",
                 strcmp(name, "default") == 0 ? "" : ".", strcmp(name, "default") == 0 ? "" : name);
        ig_gguf_writer_text(w, key, text);
    }
}

/* ---- The whole ---- */

static ig_status find_kind(tokens *t) {
    t->model = json_object_get(t->root, "model");
    t->vocab = json_object_get(t->model, "vocab");
    t->merges = json_object_get(t->model, "merges");
    t->added = json_object_get(t->root, "added_tokens");
    const char *type = json_string_value(json_object_get(t->model, "type"));
    if (type && strcmp(type, "BPE") == 0)
        t->kind = json_is_true(json_object_get(t->model, "byte_fallback")) ? PIECES : BYTES;
    else if (type && strcmp(type, "WordPiece") == 0)
        t->kind = WORDS;
    else
        return IG_FAIL(IG_ERR_FORMAT,
                       "%s/tokenizer.json: a model of type %.32s is not converted, BPE and "
                       "WordPiece are",
                       t->c->dir, type ? type : "none");
    return IG_OK;
}

static ig_status put_all(tokens *t, ig_gguf_writer *w) {
    static const char *const names[] = {[BYTES] = "gpt2", [PIECES] = "llama", [WORDS] = "bert"};
    IG_TRY(find_kind(t));
    IG_TRY(allocate(t));
    IG_TRY(take_vocab(t));
    IG_TRY(take_added(t));
    IG_TRY(fill_gaps(t));
    ig_gguf_writer_text(w, KEY("model"), names[t->kind]);
    IG_TRY(t->kind == BYTES    ? put_bytes(t, w)
           : t->kind == PIECES ? put_pieces(t, w)
                               : put_words(t, w));
    ig_gguf_writer_texts(w, KEY("tokens"), t->texts, t->count);
    ig_gguf_writer_array(w, KEY("token_type"), IG_GGUF_I32, t->types, t->count);
    put_special(t, w);
    put_chat_template(t, w);
    return IG_OK;
}

ig_status convert_put_vocabulary(const ig_conversion *c, const convert_documents *docs,
                                 ig_gguf_writer *w) {
    tokens t = {.c = c,
                .allocator = c->allocator,
                .root = docs->tokenizer,
                .config = docs->config,
                .generation = docs->generation};
    const ig_status status = put_all(&t, w);
    for (size_t i = 0; i < t.n_owned; i++) ig_free(t.allocator, t.owned[i]);
    ig_free(t.allocator, t.owned);
    ig_free(t.allocator, t.types);
    ig_free(t.allocator, t.scores);
    ig_free(t.allocator, t.texts);
    return status;
}

/* ---- Files ---- */

/* The chat template in a separate file, as newer folders have it. */
static ig_status put_template_file(const ig_conversion *c, ig_gguf_writer *w) {
    static const char name[] = "chat_template.jinja";
    if (!ig_json_exists(c->dir, name)) return IG_OK;
    char *text = NULL;
    IG_TRY(ig_json_load_text(c->allocator, c->dir, name, &text));
    ig_gguf_writer_text(w, "tokenizer.chat_template", text);
    ig_free(c->allocator, text);
    return IG_OK;
}

static ig_status load(const ig_conversion *c, convert_documents *docs) {
    if (c->source) return convert_source_documents(c, docs);
    if (c->checkpoint) return convert_own_tokenizer(c, &docs->tokenizer);
    IG_TRY(ig_json_load(c->allocator, c->dir, "tokenizer.json", &docs->tokenizer));
    if (ig_json_exists(c->dir, "tokenizer_config.json"))
        IG_TRY(ig_json_load_reals(c->allocator, c->dir, "tokenizer_config.json", &docs->config));
    if (ig_json_exists(c->dir, "generation_config.json"))
        IG_TRY(ig_json_load(c->allocator, c->dir, "generation_config.json", &docs->generation));
    return IG_OK;
}

ig_status convert_put_tokenizer(const ig_conversion *c, ig_gguf_writer *w) {
    convert_documents docs = {0};
    if (c->source && !c->source->tokenizer) return IG_OK; /* the model has none */
    ig_status status = load(c, &docs);
    if (status == IG_OK) status = convert_put_vocabulary(c, &docs, w);
    if (status == IG_OK && !c->own) status = put_template_file(c, w);
    json_decref(docs.generation);
    json_decref(docs.config);
    json_decref(docs.tokenizer);
    return status;
}
