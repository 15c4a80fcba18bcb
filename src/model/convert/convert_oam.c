/*
 * Presents a .oam checkpoint as a Hugging Face folder: config keys, mapped tensors, and the
 * tokenizer as tokenizer.json.
 *
 * The GPT-2 pre-tokenizer splits ASCII exactly as Ingot's does. Ingot's treats every non-ASCII
 * character as a letter, so non-ASCII punctuation may get other tokens.
 */
#include <string.h>
#include <sys/stat.h>

#include "base/json_parse.h"
#include "model/convert/convert_parts.h"
#include "text/tokenizer/token_spelling.h"

enum { BYTES = 256, SPELLED_BYTES = 512 }; /* a token is part of a word: at most 256 bytes */

bool convert_is_file(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

/* ---- Config ---- */

static const struct {
    const char *ours, *theirs;
} numbers[] = {
    {"d_model", "hidden_size"},         {"n_layers", "num_hidden_layers"},
    {"n_heads", "num_attention_heads"}, {"n_kv_heads", "num_key_value_heads"},
    {"d_ff", "intermediate_size"},      {"ctx_len", "max_position_embeddings"},
};

static json_t *tell_config(const json_t *own) {
    const double eps = 1e-5; /* of all norms in trained models */
    json_t *config =
        json_pack("{s:[O?], s:b, s:f, s:f}", "architectures", json_object_get(own, "arch"),
                  "tie_word_embeddings", 0, "rms_norm_eps", eps, "layer_norm_eps", eps);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        json_object_set(config, numbers[i].theirs, json_object_get(own, numbers[i].ours));
    return config;
}

/* ---- Tokenizer ---- */

typedef struct pieces {
    json_t *texts, *vocab, *merges; /* by id; id by spelling; pairs of spellings */
    size_t alike;                   /* tokens with the spelling of an earlier one */
} pieces;

static bool add_piece(pieces *p, json_t *text) {
    const char *spelled = json_string_value(text);
    if (!spelled || strlen(spelled) > SPELLED_BYTES || json_array_append_new(p->texts, text) != 0)
        return false;
    const json_int_t id = (json_int_t)json_array_size(p->texts) - 1;
    if (!json_object_get(p->vocab, spelled))
        return json_object_set_new(p->vocab, spelled, json_integer(id)) == 0;
    p->alike++;
    return true;
}

static json_t *piece_at(const pieces *p, const json_t *id) {
    const json_int_t i = json_integer_value(id);
    return json_is_integer(id) && i >= 0 ? json_array_get(p->texts, (size_t)i) : NULL;
}

static bool add_merge(pieces *p, const json_t *pair) {
    json_t *left = piece_at(p, json_array_get(pair, 0));
    json_t *right = piece_at(p, json_array_get(pair, 1));
    if (!left || !right || json_array_append_new(p->merges, json_pack("[OO]", left, right)) != 0)
        return false;
    return add_piece(p, json_sprintf("%s%s", json_string_value(left), json_string_value(right)));
}

static bool add_all(pieces *p, const json_t *merges) {
    char spelled[IG_SPELL_BYTE_MOST + 1];
    for (int byte = 0; byte < BYTES; byte++) {
        spelled[ig_spell_byte((uint8_t)byte, spelled)] = 0;
        if (!add_piece(p, json_string(spelled))) return false;
    }
    for (size_t i = 0; i < json_array_size(merges); i++)
        if (!add_merge(p, json_array_get(merges, i))) return false;
    return true;
}

ig_status convert_own_tokenizer(const ig_conversion *c, json_t **out) {
    const json_t *own = json_object_get(c->config, "tokenizer");
    const char *kind = json_string_value(json_object_get(own, "kind"));
    if (!kind || (strcmp(kind, "byte") != 0 && strcmp(kind, "bpe") != 0))
        return IG_FAIL(IG_ERR_FORMAT,
                       "%s: its tokenizer is %.32s; only byte and bpe can be converted", c->dir,
                       kind ? kind : "missing");
    const unsigned long before = ig_json_failures();
    pieces p = {json_array(), json_object(), json_array(), 0};
    const bool whole = add_all(&p, json_object_get(own, "merges"));
    json_decref(p.texts);
    *out = json_pack("{s:{s:s, s:o, s:o}, s:{s:s}}", "model", "type", "BPE", "vocab", p.vocab,
                     "merges", p.merges, "pre_tokenizer", "type", "ByteLevel");
    if (ig_json_failures() != before)
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for its tokenizer", c->dir);
    if (!whole || !*out)
        return IG_FAIL(IG_ERR_FORMAT, "%s: a merge of its tokenizer is not two earlier tokens",
                       c->dir);
    if (p.alike > 0)
        convert_say(c, "%zu tokens have the spelling of an earlier one, which is used for both",
                    p.alike);
    return IG_OK;
}

/* ---- Tensors ---- */

static ig_status lend_tensors(ig_conversion *c) {
    const size_t count = ig_checkpoint_count(c->checkpoint);
    c->own = ig_alloc(c->allocator, count, sizeof *c->own);
    if (!c->own) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %zu tensors", c->dir, count);
    for (size_t i = 0; i < count; i++) {
        const ig_checkpoint_tensor t = ig_checkpoint_get(c->checkpoint, i);
        if (t.role != IG_ROLE_WEIGHT) continue;
        c->own[c->n_own++] =
            (ig_safetensor){t.name, ig_dtype_name(t.desc.dtype), true, t.desc, t.bytes, t.n_bytes};
    }
    return IG_OK;
}

ig_status convert_open_own(ig_conversion *c) {
    IG_TRY(ig_checkpoint_open(c->dir, &c->checkpoint));
    IG_TRY(ig_checkpoint_verify(c->checkpoint));
    const char *text = ig_checkpoint_config(c->checkpoint);
    const unsigned long before = ig_json_failures();
    json_t *own = NULL;
    IG_TRY(ig_json_decode(IG_ERR_FORMAT, c->dir, "its config", text, strlen(text), 0, &own));
    c->config = tell_config(own);
    json_object_set(c->config, "tokenizer", json_object_get(own, "tokenizer"));
    json_decref(own);
    if (ig_json_failures() != before)
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for its config", c->dir);
    if (!c->config) return IG_FAIL(IG_ERR_FORMAT, "%s: has no config of a model", c->dir);
    return lend_tensors(c);
}
