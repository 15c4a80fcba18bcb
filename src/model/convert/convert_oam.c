/*
 * What was trained here, told as a folder would: the config by the names that folders
 * use, the tensors where they are mapped, the tokenizer as a tokenizer.json.
 *
 * Words are cut as GPT-2 cuts them, in ASCII exactly; behind it our tokenizer takes
 * every character for a letter, and signs among them may become other tokens.
 */
#include <string.h>
#include <sys/stat.h>

#include "model/convert/convert_parts.h"
#include "text/tokenizer/token_spelling.h"

enum { BYTES = 256, SPELT_BYTES = 512 }; /* a piece is part of a word, of 256 bytes at most */

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
    const double eps = 1e-5; /* of every norm that is trained */
    json_t *config =
        json_pack("{s:[O?], s:b, s:f, s:f}", "architectures", json_object_get(own, "arch"),
                  "tie_word_embeddings", 0, "rms_norm_eps", eps, "layer_norm_eps", eps);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        json_object_set(config, numbers[i].theirs, json_object_get(own, numbers[i].ours));
    return config;
}

/* ---- Tokenizer ---- */

typedef struct pieces {
    json_t *texts, *vocab, *merges; /* by number; number by text; pairs of texts */
    size_t alike;                   /* pieces that are spelt as one before them */
} pieces;

static bool add_piece(pieces *p, json_t *text) {
    const char *spelt = json_string_value(text);
    if (!spelt || strlen(spelt) > SPELT_BYTES || json_array_append_new(p->texts, text) != 0)
        return false;
    const json_int_t id = (json_int_t)json_array_size(p->texts) - 1;
    if (!json_object_get(p->vocab, spelt))
        return json_object_set_new(p->vocab, spelt, json_integer(id)) == 0;
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
    char spelt[IG_SPELL_BYTE_MOST + 1];
    for (int byte = 0; byte < BYTES; byte++) {
        spelt[ig_spell_byte((uint8_t)byte, spelt)] = 0;
        if (!add_piece(p, json_string(spelt))) return false;
    }
    for (size_t i = 0; i < json_array_size(merges); i++)
        if (!add_merge(p, json_array_get(merges, i))) return false;
    return true;
}

ig_status convert_own_tokenizer(const ig_conversion *c, json_t **out) {
    const json_t *own = json_object_get(c->config, "tokenizer");
    const char *kind = json_string_value(json_object_get(own, "kind"));
    if (!kind || (strcmp(kind, "byte") != 0 && strcmp(kind, "bpe") != 0))
        return IG_FAIL(IG_ERR_FORMAT, "%s: its tokenizer is %.32s; converted are byte and bpe",
                       c->dir, kind ? kind : "missing");
    pieces p = {json_array(), json_object(), json_array(), 0};
    const bool whole = add_all(&p, json_object_get(own, "merges"));
    json_decref(p.texts);
    *out = json_pack("{s:{s:s, s:o, s:o}, s:{s:s}}", "model", "type", "BPE", "vocab", p.vocab,
                     "merges", p.merges, "pre_tokenizer", "type", "ByteLevel");
    if (!whole || !*out)
        return IG_FAIL(IG_ERR_FORMAT, "%s: a merge of its tokenizer is not two pieces before it",
                       c->dir);
    if (p.alike > 0)
        convert_say(c, "%zu pieces are spelt as others are, which will stand for both", p.alike);
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
    json_t *own = json_loads(ig_checkpoint_config(c->checkpoint), 0, NULL);
    c->config = tell_config(own);
    json_object_set(c->config, "tokenizer", json_object_get(own, "tokenizer"));
    json_decref(own);
    if (!c->config) return IG_FAIL(IG_ERR_FORMAT, "%s: has no config of a model", c->dir);
    return lend_tensors(c);
}
