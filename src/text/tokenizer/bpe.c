/*
 * The BPE tokenizer: bytes, and merges of two ids into one.
 *
 * Encoding a word repeats training: of all pairs in the word, the one with the lowest merge rank is
 * merged first, leftmost first, until no pair has a merge. The ranks of a word's pairs are kept in
 * an array, so a merge looks up only the two new neighbor pairs.
 */
#include "text/tokenizer/bpe.h"

#include <string.h>

#include "text/tokenizer/bpe_words.h"
#include "text/tokenizer/tokenizer_kind.h"

enum { NO_MERGE = 0 }; /* marks an unmerged pair: no merge creates id 0 */

typedef struct slot {
    uint32_t key;
    uint32_t made; /* the merged id; NO_MERGE: an empty slot */
} slot;

typedef struct bpe_tokenizer {
    ig_tokenizer base;
    ig_bpe_merge *merges; /* [n_merges] */
    size_t n_merges;
    slot *slots; /* [2^(32 - shift)], at most half full */
    int shift;
} bpe_tokenizer;

/* ---- Merges to tables ---- */

static slot *find(const bpe_tokenizer *t, uint32_t key) {
    const uint32_t mask = UINT32_MAX >> t->shift;
    uint32_t i = ig_bpe_slot(key, t->shift);
    while (t->slots[i].made != NO_MERGE && t->slots[i].key != key) i = (i + 1) & mask;
    return &t->slots[i];
}

/* Checks merge i and adds its id; the ones before it must exist. */
static ig_status add_merge(bpe_tokenizer *t, const char *source, size_t i) {
    const ig_bpe_merge m = t->merges[i];
    if (m.left >= IG_BPE_BYTES + i || m.right >= IG_BPE_BYTES + i)
        return IG_FAIL(IG_ERR_FORMAT,
                       "%s: merge %zu of the tokenizer is [%u,%u]: there are %zu ids before it",
                       source, i, m.left, m.right, IG_BPE_BYTES + i);
    const ig_string_view left = ig_tokenizer_piece(&t->base, m.left);
    const ig_string_view right = ig_tokenizer_piece(&t->base, m.right);
    char piece[IG_WORD_BYTES]; /* a merged piece is never longer than a word */
    if (left.n_bytes + right.n_bytes > sizeof piece)
        return IG_FAIL(IG_ERR_FORMAT,
                       "%s: merge %zu of the tokenizer makes a piece of %zu bytes, at most %zu are "
                       "allowed",
                       source, i, left.n_bytes + right.n_bytes, sizeof piece);
    slot *s = find(t, ig_bpe_key(m));
    if (s->made != NO_MERGE)
        return IG_FAIL(IG_ERR_FORMAT, "%s: merge %zu of the tokenizer, [%u,%u], is merge %u again",
                       source, i, m.left, m.right, s->made - IG_BPE_BYTES);

    *s = (slot){ig_bpe_key(m), (uint32_t)(IG_BPE_BYTES + i)};
    memcpy(piece, left.bytes, left.n_bytes);
    memcpy(piece + left.n_bytes, right.bytes, right.n_bytes);
    return ig_pieces_add(&t->base, piece, left.n_bytes + right.n_bytes);
}

/* With all merges added: builds the pieces and the table. */
static ig_status finish(bpe_tokenizer *t, const char *source) {
    t->shift = 31;
    while ((size_t)UINT32_MAX >> t->shift < 2 * t->n_merges) t->shift--;
    const size_t n_slots = (size_t)1 << (32 - t->shift);
    t->slots = ig_alloc(t->base.allocator, n_slots, sizeof *t->slots);
    if (!t->slots) return IG_FAIL(IG_ERR_MEMORY, "tokenizer bpe: no memory for %zu slots", n_slots);
    for (int i = 0; i < IG_BPE_BYTES; i++) IG_TRY(ig_pieces_add(&t->base, &(char){(char)i}, 1));
    for (size_t i = 0; i < t->n_merges; i++) IG_TRY(add_merge(t, source, i));
    return IG_OK;
}

static ig_status learn(ig_tokenizer *base, const ig_tokenizer_training *options) {
    bpe_tokenizer *t = (bpe_tokenizer *)base;
    IG_TRY(ig_bpe_learn(base->allocator, options, &t->merges, &t->n_merges));
    return finish(t, "tokenizer bpe");
}

/* ---- Encoding ---- */

static inline uint32_t made_of(const bpe_tokenizer *t, const uint16_t *ids) {
    const uint32_t made = find(t, ig_bpe_key((ig_bpe_merge){ids[0], ids[1]}))->made;
    return made != NO_MERGE ? made : UINT32_MAX;
}

/* The index of the smallest of `count` >= 1 values, leftmost if equal. */
static inline size_t smallest(const uint32_t *values, size_t count) {
    size_t at = 0;
    for (size_t i = 1; i < count; i++)
        if (values[i] < values[at]) at = i;
    return at;
}

/* Encodes a word of at most IG_WORD_BYTES. made[i] is the merge of ids i and i + 1. */
static size_t encode_word(const bpe_tokenizer *t, const char *text, size_t n_bytes, int32_t *out) {
    uint16_t ids[IG_WORD_BYTES];
    uint32_t made[IG_WORD_BYTES];
    size_t n = n_bytes;
    for (size_t i = 0; i < n; i++) ids[i] = (unsigned char)text[i];
    for (size_t i = 0; i + 1 < n; i++) made[i] = made_of(t, ids + i);

    while (n > 1) {
        const size_t at = smallest(made, n - 1);
        if (made[at] == UINT32_MAX) break;
        ids[at] = (uint16_t)made[at];
        n--;
        memmove(ids + at + 1, ids + at + 2, (n - at - 1) * sizeof *ids);
        memmove(made + at, made + at + 1, (n - at - 1) * sizeof *made);
        if (at > 0) made[at - 1] = made_of(t, ids + at - 1);
        if (at + 1 < n) made[at] = made_of(t, ids + at);
    }
    for (size_t i = 0; i < n; i++) out[i] = ids[i];
    return n;
}

static ig_status encode(const ig_tokenizer *base, ig_fragment f, ig_tokens *out) {
    const bpe_tokenizer *t = (const bpe_tokenizer *)base;
    IG_TRY(ig_tokens_reserve(out, f.n_bytes));
    for (size_t at = 0, length; at < f.n_bytes; at += length) {
        length = ig_word_next(f.bytes + at, f.n_bytes - at);
        out->count += encode_word(t, f.bytes + at, length, out->at + out->count);
    }
    return IG_OK;
}

static size_t cut(const ig_tokenizer *t, const char *text, size_t n_bytes) {
    (void)t;
    return ig_words_whole(text, n_bytes);
}

/* ---- JSON ---- */

static void write(const ig_tokenizer *base, ig_text *out) {
    const bpe_tokenizer *t = (const bpe_tokenizer *)base;
    for (size_t i = 0; i < t->n_merges; i++)
        ig_text_add(out, "%s[%u,%u]", i ? "," : "", t->merges[i].left, t->merges[i].right);
}

/* Reads one id of an array; false: missing or invalid. */
static bool read_id(const json_t *array, size_t i, uint16_t *out) {
    const json_t *value = json_array_get(array, i);
    const json_int_t id = json_integer_value(value);
    if (!json_is_integer(value) || id < 0 || id >= IG_TOKENIZER_IDS_MAX) return false;
    *out = (uint16_t)id;
    return true;
}

static ig_status parse(ig_tokenizer *base, const char *source, const json_t *array) {
    bpe_tokenizer *t = (bpe_tokenizer *)base;
    const size_t count = json_array_size(array);
    if (count > IG_BPE_MERGES_MAX)
        return IG_FAIL(IG_ERR_FORMAT, "%s: the tokenizer has %zu merges, at most %d are allowed",
                       source, count, IG_BPE_MERGES_MAX);
    t->merges = ig_alloc(base->allocator, count, sizeof *t->merges);
    if (!t->merges) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %zu merges", source, count);
    t->n_merges = count;
    for (size_t i = 0; i < count; i++) {
        const json_t *ids = json_array_get(array, i);
        if (json_array_size(ids) != 2 || !read_id(ids, 0, &t->merges[i].left) ||
            !read_id(ids, 1, &t->merges[i].right))
            return IG_FAIL(IG_ERR_FORMAT, "%s: merge %zu of the tokenizer is not two ids", source,
                           i);
    }
    return finish(t, source);
}

static void deinit(ig_tokenizer *base) {
    bpe_tokenizer *t = (bpe_tokenizer *)base;
    ig_free(base->allocator, t->slots);
    ig_free(base->allocator, t->merges);
}

const ig_tokenizer_kind ig_tokenizer_bpe = {
    .name = "bpe",
    .struct_bytes = sizeof(bpe_tokenizer),
    .learn = learn,
    .encode = encode,
    .cut = cut,
    .key = "merges",
    .write = write,
    .parse = parse,
    .deinit = deinit,
};
