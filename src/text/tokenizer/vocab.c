/*
 * A tokenizer built from a model file's tables: what all kinds share.
 *
 * The kind converts the file's spelling of tokens to bytes and builds its own tables. Special
 * tokens, BOS and EOS are handled here.
 */
#include "text/tokenizer/vocab.h"

#include <string.h>

#include "text/tokenizer/pretokenizer.h"
#include "text/tokenizer/token_spelling.h"
#include "text/tokenizer/tokenizer_kind.h"

/* A new kind is a row here. */
static const ig_tokenizer_kind *const kinds[] = {&ig_tokenizer_llama, &ig_tokenizer_gpt2,
                                                 &ig_tokenizer_bert, NULL};

bool ig_vocab_adds_bos(const char *pre) {
    const ig_pre *row = pre ? ig_pre_find(pre) : NULL;
    return row && row->adds_bos;
}

/* ---- Checks ---- */

static ig_status find_kind(const ig_vocab *v, const ig_tokenizer_kind **out) {
    for (size_t i = 0; kinds[i]; i++) {
        if (strcmp(kinds[i]->name, v->model) != 0) continue;
        *out = kinds[i];
        return IG_OK;
    }
    return IG_FAIL(IG_ERR_FORMAT,
                   "%s: the tokenizer is of model '%.64s', not one of llama, gpt2, bert", v->source,
                   v->model);
}

static ig_status check_ids(const ig_vocab *v) {
    const struct {
        const char *name;
        int32_t id;
    } rows[] = {{"bos", v->bos},
                {"eos", v->eos},
                {"eot", v->eot},
                {"unknown", v->unknown},
                {"separator", v->separator},
                {"padding", v->padding},
                {"mask", v->mask}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].id >= 0 && (size_t)rows[i].id >= v->n_tokens)
            return IG_FAIL(IG_ERR_FORMAT, "%s: the %s token is %d, but there are %zu tokens",
                           v->source, rows[i].name, rows[i].id, v->n_tokens);
    return IG_OK;
}

static ig_status check(const ig_vocab *v) {
    if (v->n_tokens == 0 || v->n_tokens > INT32_MAX)
        return IG_FAIL(IG_ERR_FORMAT, "%s: a vocabulary of %zu tokens", v->source, v->n_tokens);
    return check_ids(v);
}

/* ---- Special tokens ---- */

/* Names of end-of-turn tokens, in order of preference, for files without an EOT key. */
static const char *const turn_ends[] = {
    "<|eot_id|>",      "<|im_end|>",    "<end_of_turn>", "<|end|>",
    "<|end_of_text|>", "<|endoftext|>", "<EOT>",         "[EOT]"};

/*
 * The kind as the file declares it; an unknown value is a normal token. Old files declare none, so
 * byte tokens are recognized by their spelling. Some files declare end-of-turn tokens as normal
 * text.
 */
static ig_token_kind kind_of(const ig_tokenizer *t, const ig_vocab *v, size_t i) {
    if (ig_token_name_ends(v->tokens[i])) return IG_TOKEN_CONTROL;
    if (v->kinds && v->kinds[i] >= IG_TOKEN_NORMAL && v->kinds[i] <= IG_TOKEN_BYTE)
        return (ig_token_kind)v->kinds[i];
    const bool byte =
        !v->kinds && t->kind == &ig_tokenizer_llama && ig_spell_hex(v->tokens[i]) >= 0;
    return byte ? IG_TOKEN_BYTE : IG_TOKEN_NORMAL;
}

static ig_status copy_kinds(ig_tokenizer *t, const ig_vocab *v) {
    t->kinds = ig_alloc(t->allocator, v->n_tokens, 1);
    if (!t->kinds)
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for the kinds of %zu tokens", v->source,
                       v->n_tokens);
    for (size_t i = 0; i < v->n_tokens; i++) t->kinds[i] = (uint8_t)kind_of(t, v, i);
    return IG_OK;
}

static bool is_special(ig_token_kind kind) {
    return kind == IG_TOKEN_CONTROL || kind == IG_TOKEN_UNKNOWN || kind == IG_TOKEN_USER;
}

static bool is_one_of(ig_special_name name, const char *const *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (name.n_bytes == strlen(list[i]) && memcmp(name.bytes, list[i], name.n_bytes) == 0)
            return true;
    return false;
}

/* Finds the special tokens by name. The pieces are complete and no longer move. */
static ig_status collect_specials(ig_tokenizer *t, const ig_vocab *v) {
    static const char *const never_strip[] = {"<unk>", "<s>", "<|endoftext|>"}; /* phi-3 */
    size_t count = 0;
    for (int32_t id = 0; id < t->vocabulary; id++) count += is_special(ig_token_kind_of(t, id));
    ig_special_name *names = ig_alloc(t->allocator, count, sizeof *names);
    if (!names)
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %zu special tokens", v->source, count);

    count = 0;
    for (int32_t id = 0; id < t->vocabulary; id++) {
        const ig_token_kind kind = ig_token_kind_of(t, id);
        if (!is_special(kind)) continue;
        const ig_string_view piece = ig_tokenizer_piece(t, id);
        if (piece.n_bytes == 0) continue;
        ig_special_name name = {piece.bytes, piece.n_bytes, id, .control = kind != IG_TOKEN_USER};
        name.strips_right = v->specials_strip_right && !is_one_of(name, never_strip, 3);
        names[count++] = name;
    }
    ig_specials_init(names, count, &t->specials);
    return IG_OK;
}

/* The id of a special token by name; below 0: none. */
static int32_t find_name(const ig_tokenizer *t, const char *name) {
    const size_t n = strlen(name);
    const ig_special_name *found = ig_specials_match(&t->specials, name, n, n);
    return found && found->n_bytes == n ? found->id : -1;
}

static void set_special_ids(ig_tokenizer *t, const ig_vocab *v) {
    const bool bert = strcmp(v->model, "bert") == 0;
    t->special_ids[IG_SPECIAL_BOS] = v->bos;
    t->special_ids[IG_SPECIAL_EOS] = bert ? v->separator : v->eos;
    t->special_ids[IG_SPECIAL_EOT] = v->eot;
    t->special_ids[IG_SPECIAL_UNKNOWN] = v->unknown;
    t->special_ids[IG_SPECIAL_PADDING] = v->padding;
    t->special_ids[IG_SPECIAL_MASK] = v->mask;
    for (size_t i = 0; i < IG_SPECIAL_COUNT; i++)
        if (t->special_ids[i] < 0) t->special_ids[i] = -1;
    for (size_t i = 0; i < sizeof turn_ends / sizeof *turn_ends && !bert; i++)
        if (t->special_ids[IG_SPECIAL_EOT] < 0)
            t->special_ids[IG_SPECIAL_EOT] = find_name(t, turn_ends[i]);
}

/* gpt-oss sends several messages per turn, each ended by <|end|>; <|return|> or <|call|> ends the
 * turn. */
static int32_t find_message_end(const ig_tokenizer *t) {
    if (find_name(t, "<|return|>") < 0 || find_name(t, "<|call|>") < 0) return -1;
    return find_name(t, "<|end|>");
}

/* A piece is at most as long as its spelling, plus a leading space. */
static ig_status make_room(ig_tokenizer *t, const ig_vocab *v) {
    size_t bytes = v->n_tokens;
    for (size_t i = 0; i < v->n_tokens; i++) bytes += v->tokens[i].n_bytes;
    if (IG_GROW(t->allocator, t->starts, &t->room_starts, v->n_tokens + 1) &&
        IG_GROW(t->allocator, t->pieces, &t->room_pieces, bytes))
        return IG_OK;
    return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %zu tokens", v->source, v->n_tokens);
}

static ig_status fill(ig_tokenizer *t, const ig_vocab *v) {
    IG_TRY(copy_kinds(t, v));
    IG_TRY(make_room(t, v));
    IG_TRY(t->kind->load(t, v));
    IG_TRY(collect_specials(t, v));
    set_special_ids(t, v);
    t->message_end = find_message_end(t);
    t->add_bos = v->add_bos;
    t->add_eos = v->add_eos;
    return IG_OK;
}

ig_status ig_tokenizer_from_vocab(const ig_allocator *a, const ig_vocab *vocab,
                                  ig_tokenizer **out) {
    const ig_tokenizer_kind *kind = NULL;
    IG_TRY(find_kind(vocab, &kind));
    IG_TRY(check(vocab));
    ig_tokenizer *t = NULL;
    IG_TRY(ig_tokenizer_make(a, kind, &t));
    const ig_status status = fill(t, vocab);
    if (status == IG_OK)
        *out = t;
    else
        ig_tokenizer_destroy(t);
    return status;
}
