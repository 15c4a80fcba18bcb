/*
 * Byte-level BPE: a pre-tokenizer splits the text into words; in each word, bytes are merged in the
 * order of the merge ranks.
 */
#include <string.h>

#include "text/tokenizer/merge.h"
#include "text/tokenizer/pretokenizer.h"
#include "text/tokenizer/token_lookup.h"
#include "text/tokenizer/token_spelling.h"
#include "text/tokenizer/tokenizer_kind.h"

/* The merge of two ids; an empty slot has made 0. */
typedef struct pair_slot {
    int32_t left, right;
    uint32_t rank;
    int32_t made; /* 1 + the id; 0: empty */
} pair_slot;

typedef struct gpt2_tokenizer {
    ig_tokenizer base;
    ig_lookup lookup;
    pair_slot *pairs; /* [pair_mask + 1], at most half full */
    uint32_t pair_mask;
    int32_t byte_ids[256]; /* below 0: none */
    ig_pretokenizer *pretokenizer;
    bool ignores_merges;
} gpt2_tokenizer;

/* ---- Tables ---- */

/* Whether the token is spelled in byte characters: special tokens are not. */
static bool is_spelled(ig_token_kind kind) {
    return kind == IG_TOKEN_NORMAL || kind == IG_TOKEN_UNUSED || kind == IG_TOKEN_BYTE;
}

static ig_status add_pieces(gpt2_tokenizer *t, const ig_vocab *v, char *spelled) {
    for (size_t i = 0; i < v->n_tokens; i++) {
        const ig_string_view token = v->tokens[i];
        if (is_spelled(ig_token_kind_of(&t->base, (int32_t)i)))
            IG_TRY(ig_pieces_add(&t->base, spelled, ig_spell_bytes(token, spelled)));
        else
            IG_TRY(ig_pieces_add(&t->base, token.bytes, token.n_bytes));
    }
    IG_TRY(ig_lookup_init(&t->base, v->n_tokens, &t->lookup));
    for (int32_t id = 0; id < t->base.vocabulary; id++)
        if (is_spelled(ig_token_kind_of(&t->base, id))) ig_lookup_add(&t->lookup, &t->base, id);
    for (int i = 0; i < 256; i++)
        t->byte_ids[i] = ig_lookup_find(&t->lookup, &t->base, &(char){(char)i}, 1);
    return IG_OK;
}

static pair_slot *find_pair(const gpt2_tokenizer *t, int32_t left, int32_t right) {
    const uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint32_t i = (uint32_t)((key * 0x9E3779B97F4A7C15u) >> 32) & t->pair_mask;
    for (;; i = (i + 1) & t->pair_mask) {
        pair_slot *slot = &t->pairs[i];
        if (slot->made == 0 || (slot->left == left && slot->right == right)) return slot;
    }
}

/* Adds merge `rank`, "left right". A merge of pieces that are not in the vocabulary is skipped. */
static ig_status add_merge(gpt2_tokenizer *t, const ig_vocab *v, size_t rank, char *spelled) {
    const ig_string_view merge = v->merges[rank];
    const char *space = merge.n_bytes > 1 ? memchr(merge.bytes + 1, ' ', merge.n_bytes - 1) : NULL;
    if (!space)
        return IG_FAIL(IG_ERR_FORMAT, "%s: merge %zu is not two pieces with a space between",
                       v->source, rank);
    const size_t n_left = (size_t)(space - merge.bytes), n_right = merge.n_bytes - n_left - 1;
    const size_t left = ig_spell_bytes((ig_string_view){merge.bytes, n_left}, spelled);
    const size_t right = ig_spell_bytes((ig_string_view){space + 1, n_right}, spelled + left);
    const int32_t ids[3] = {ig_lookup_find(&t->lookup, &t->base, spelled, left),
                            ig_lookup_find(&t->lookup, &t->base, spelled + left, right),
                            ig_lookup_find(&t->lookup, &t->base, spelled, left + right)};
    if (ids[0] < 0 || ids[1] < 0 || ids[2] < 0) return IG_OK;
    pair_slot *slot = find_pair(t, ids[0], ids[1]);
    if (slot->made == 0) *slot = (pair_slot){ids[0], ids[1], (uint32_t)rank, ids[2] + 1};
    return IG_OK;
}

static ig_status add_merges(gpt2_tokenizer *t, const ig_vocab *v, char *spelled) {
    if (v->n_merges > INT32_MAX / 2)
        return IG_FAIL(IG_ERR_FORMAT, "%s: %zu merges", v->source, v->n_merges);
    size_t n_slots = 2;
    while (n_slots < 2 * v->n_merges) n_slots *= 2;
    t->pairs = ig_alloc(t->base.allocator, n_slots, sizeof *t->pairs);
    if (!t->pairs)
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %zu merges", v->source, v->n_merges);
    t->pair_mask = (uint32_t)(n_slots - 1);
    for (size_t i = 0; i < v->n_merges; i++) IG_TRY(add_merge(t, v, i, spelled));
    return IG_OK;
}

static size_t longest(const ig_string_view *texts, size_t count) {
    size_t most = 0;
    for (size_t i = 0; i < count; i++)
        if (texts[i].n_bytes > most) most = texts[i].n_bytes;
    return most;
}

static ig_status load(ig_tokenizer *base, const ig_vocab *v) {
    gpt2_tokenizer *t = (gpt2_tokenizer *)base;
    const ig_pre *pre = ig_pre_find(v->pre ? v->pre : "default");
    if (!pre) return ig_pre_unknown(IG_ERR_FORMAT, v->source, v->pre);
    IG_TRY(ig_pretokenizer_create(base->allocator, pre, &t->pretokenizer));
    t->ignores_merges = pre->ignores_merges;

    const size_t room = longest(v->tokens, v->n_tokens) + longest(v->merges, v->n_merges);
    char *spelled = ig_alloc(base->allocator, room, 1);
    if (!spelled)
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for tokens of %zu bytes", v->source, room);
    ig_status status = add_pieces(t, v, spelled);
    if (status == IG_OK) status = add_merges(t, v, spelled);
    ig_free(base->allocator, spelled);
    return status;
}

/* ---- Encoding ---- */

typedef struct encoding {
    const gpt2_tokenizer *t;
    ig_merge merge;
    ig_tokens *out;
} encoding;

static ig_merge_pair look(const void *user, const char *text, ig_merge_part left,
                          ig_merge_part right) {
    (void)text;
    if (left.id < 0 || right.id < 0) return (ig_merge_pair){0, -1};
    const pair_slot *slot = find_pair(user, left.id, right.id);
    return (ig_merge_pair){slot->rank, slot->made - 1};
}

static ig_status encode_word(void *user, const char *bytes, size_t n_bytes, bool matched) {
    encoding *e = user;
    const gpt2_tokenizer *t = e->t;
    (void)matched;
    if (t->ignores_merges || n_bytes == 1) {
        const int32_t id = ig_lookup_find(&t->lookup, &t->base, bytes, n_bytes);
        if (id >= 0) return ig_tokens_add(e->out, id);
    }
    ig_merge *m = &e->merge;
    IG_TRY(ig_merge_reset(m, bytes, n_bytes));
    for (size_t i = 0; i < n_bytes; i++) ig_merge_add(m, 1, t->byte_ids[(unsigned char)bytes[i]]);
    ig_merge_run(m);
    const int32_t unknown = t->base.special_ids[IG_SPECIAL_UNKNOWN];
    for (int32_t i = 0; i >= 0; i = m->parts[i].after) {
        const int32_t id = m->parts[i].id >= 0 ? m->parts[i].id : unknown;
        if (id >= 0) IG_TRY(ig_tokens_add(e->out, id));
    }
    return IG_OK;
}

static ig_status encode(const ig_tokenizer *base, ig_fragment f, ig_tokens *out) {
    const gpt2_tokenizer *t = (const gpt2_tokenizer *)base;
    encoding e = {
        .t = t, .merge = {.allocator = base->allocator, .look = look, .user = t}, .out = out};
    const ig_status status =
        ig_pretokenizer_split(t->pretokenizer, f.bytes, f.n_bytes, encode_word, &e);
    ig_merge_deinit(&e.merge);
    return status;
}

static void deinit(ig_tokenizer *base) {
    gpt2_tokenizer *t = (gpt2_tokenizer *)base;
    ig_pretokenizer_destroy(t->pretokenizer);
    ig_free(base->allocator, t->pairs);
    ig_lookup_deinit(base, &t->lookup);
}

const ig_tokenizer_kind ig_tokenizer_gpt2 = {
    .name = "gpt2",
    .struct_bytes = sizeof(gpt2_tokenizer),
    .load = load,
    .encode = encode,
    .deinit = deinit,
};
