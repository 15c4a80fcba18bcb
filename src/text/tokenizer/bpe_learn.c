/*
 * Learning BPE merges (Sennrich et al., "Neural machine translation of rare words with subword
 * units"): repeatedly, the most frequent pair of ids becomes a new id.
 *
 * Two things make this fast. Merges do not cross words, so each distinct word is stored once with
 * its count. And a merge touches only the words that contain its pair, so each pair has a list of
 * words:
 *
 *     words   " the" x 61,004     ids  32 116 104 101
 *     pairs   (116, 104) x 83,120   in words 4, 17, 209 ...
 *     heap    the pairs, most frequent first, smaller ids first if equal
 *
 * The count of a pair is highest when the pair first appears: later merges only remove occurrences.
 * A heap entry may therefore be too high but never too low, and it is enough to compare it with the
 * pair's count when it reaches the top. Likewise a list may name words that no longer contain the
 * pair, which is harmless.
 */
#include <string.h>

#include <xxhash.h>

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/bpe_words.h"

enum {
    COUNT_MIN = 2,          /* a pair that occurs once saves nothing */
    FIRST_SLOTS_LOG2 = 12,  /* initial size; tables grow */
    MERGES_PER_REPORT = 64, /* merges between two calls of progress() */
    BYTES_PER_REPORT = 1 << 20,
};

/* A distinct word. Its ids are ids[first] to ids[first + length]; merges shorten it. */
typedef struct word {
    const char *text; /* its first occurrence in the data */
    uint64_t count;
    uint32_t hash, first, length;
} word;

/* An entry of a pair's list of words; 0 ends the list. */
typedef struct node {
    uint32_t word, next;
} node;

typedef struct pair {
    ig_bpe_merge ids;
    uint64_t count;
    uint32_t first, last; /* nodes */
} pair;

typedef struct entry {
    uint64_t count;
    uint32_t key, pair;
} entry;

/* A hash table with open addressing; values start at 1, and 0 is an empty slot. */
typedef struct table {
    uint32_t *slots;
    int shift; /* 2^(32 - shift) slots; 0: none yet */
} table;

typedef struct learner {
    const ig_allocator *allocator;
    const ig_tokenizer_training *options;
    word *words;
    pair *pairs;
    node *nodes; /* [0] is unused */
    entry *heap; /* a binary heap: the children of i are 2i + 1 and 2i + 2 */
    uint16_t *ids;
    size_t n_words, n_pairs, n_nodes, n_heap, n_ids;
    size_t room_words, room_pairs, room_nodes, room_heap;
    table word_table, pair_table;
} learner;

static ig_status no_memory(size_t count, const char *what) {
    return IG_FAIL(IG_ERR_MEMORY, "tokenizer bpe: no memory for %zu %s", count, what);
}

static ig_status report(const learner *l, uint64_t done, uint64_t total) {
    if (!l->options->progress || l->options->progress(l->options->user, done, total)) return IG_OK;
    return IG_FAIL(IG_ERR_CANCELLED, "tokenizer bpe: stopped after %llu of %llu merges",
                   (unsigned long long)done, (unsigned long long)total);
}

/* ---- Tables ---- */

static inline uint32_t table_mask(const table *t) { return UINT32_MAX >> t->shift; }

/* Keeps the table at most half full; a new table is empty. */
static ig_status table_reserve(learner *l, table *t, size_t count, bool *grown) {
    *grown = false;
    if (t->shift > 0 && count < table_mask(t) / 2) return IG_OK;
    const int shift = t->shift > 0 ? t->shift - 1 : 32 - FIRST_SLOTS_LOG2;
    const size_t slots = (size_t)1 << (32 - shift);
    uint32_t *fresh = shift > 0 ? ig_alloc(l->allocator, slots, sizeof *fresh) : NULL;
    if (!fresh) return no_memory(slots, "slots");
    ig_free(l->allocator, t->slots);
    *t = (table){fresh, shift};
    *grown = true;
    return IG_OK;
}

/* Inserts a key that is not in the table. */
static void table_put(table *t, uint32_t hash, uint32_t number) {
    uint32_t i = ig_bpe_slot(hash, t->shift);
    while (t->slots[i] != 0) i = (i + 1) & table_mask(t);
    t->slots[i] = number;
}

/* ---- Words ---- */

static ig_status add_word(learner *l, const char *text, size_t length, uint32_t hash) {
    bool grown;
    IG_TRY(table_reserve(l, &l->word_table, l->n_words + 1, &grown));
    if (grown)
        for (size_t i = 0; i < l->n_words; i++)
            table_put(&l->word_table, l->words[i].hash, (uint32_t)i + 1);
    if (!IG_GROW(l->allocator, l->words, &l->room_words, l->n_words + 1))
        return no_memory(l->n_words + 1, "words");
    l->words[l->n_words++] = (word){text, 1, hash, (uint32_t)l->n_ids, (uint32_t)length};
    l->n_ids += length;
    table_put(&l->word_table, hash, (uint32_t)l->n_words);
    return IG_OK;
}

static ig_status count_word(learner *l, const char *text, size_t length) {
    const uint32_t hash = (uint32_t)XXH3_64bits(text, length);
    if (l->word_table.shift > 0) {
        const uint32_t mask = table_mask(&l->word_table);
        uint32_t i = ig_bpe_slot(hash, l->word_table.shift);
        for (; l->word_table.slots[i] != 0; i = (i + 1) & mask) {
            word *w = &l->words[l->word_table.slots[i] - 1];
            if (w->hash != hash || w->length != length || memcmp(w->text, text, length) != 0)
                continue;
            w->count++;
            return IG_OK;
        }
    }
    return add_word(l, text, length, hash);
}

static ig_status count_part(learner *l, const ig_string_view *data, uint64_t total) {
    size_t next_report = 0, length;
    for (size_t at = 0; at < data->n_bytes; at += length) {
        if (at >= next_report) {
            IG_TRY(report(l, 0, total));
            next_report += BYTES_PER_REPORT;
        }
        length = ig_word_next(data->bytes + at, data->n_bytes - at);
        IG_TRY(count_word(l, data->bytes + at, length));
    }
    return IG_OK;
}

/* ---- Pairs ---- */

/* The number of a pair; adds a new pair. */
static ig_status find_pair(learner *l, ig_bpe_merge ids, uint32_t *out) {
    const uint32_t key = ig_bpe_key(ids);
    if (l->pair_table.shift > 0) {
        const uint32_t mask = table_mask(&l->pair_table);
        uint32_t i = ig_bpe_slot(key, l->pair_table.shift);
        for (; l->pair_table.slots[i] != 0; i = (i + 1) & mask) {
            *out = l->pair_table.slots[i] - 1;
            if (ig_bpe_key(l->pairs[*out].ids) == key) return IG_OK;
        }
    }
    bool grown;
    IG_TRY(table_reserve(l, &l->pair_table, l->n_pairs + 1, &grown));
    if (grown)
        for (size_t i = 0; i < l->n_pairs; i++)
            table_put(&l->pair_table, ig_bpe_key(l->pairs[i].ids), (uint32_t)i + 1);
    if (!IG_GROW(l->allocator, l->pairs, &l->room_pairs, l->n_pairs + 1))
        return no_memory(l->n_pairs + 1, "pairs");
    *out = (uint32_t)l->n_pairs;
    l->pairs[l->n_pairs++] = (pair){.ids = ids};
    table_put(&l->pair_table, key, (uint32_t)l->n_pairs);
    return IG_OK;
}

/* Adds one occurrence of a pair in word `w`. */
static ig_status add_place(learner *l, uint32_t left, uint32_t right, uint32_t w) {
    uint32_t number;
    IG_TRY(find_pair(l, (ig_bpe_merge){(uint16_t)left, (uint16_t)right}, &number));
    pair *p = &l->pairs[number];
    p->count += l->words[w].count;
    if (p->last != 0 && l->nodes[p->last].word == w) return IG_OK; /* words are added in order */

    if (!IG_GROW(l->allocator, l->nodes, &l->room_nodes, l->n_nodes + 1))
        return no_memory(l->n_nodes + 1, "places");
    const uint32_t fresh = (uint32_t)l->n_nodes++;
    l->nodes[fresh] = (node){w, 0};
    if (p->last != 0)
        l->nodes[p->last].next = fresh;
    else
        p->first = fresh;
    p->last = fresh;
    return IG_OK;
}

/* Removes one occurrence of a pair in word `w`. */
static ig_status remove_place(learner *l, uint32_t left, uint32_t right, uint32_t w) {
    uint32_t number;
    IG_TRY(find_pair(l, (ig_bpe_merge){(uint16_t)left, (uint16_t)right}, &number));
    l->pairs[number].count -= l->words[w].count;
    return IG_OK;
}

/* ---- The heap ---- */

static inline bool is_above(entry a, entry b) {
    return a.count != b.count ? a.count > b.count : a.key < b.key;
}

static void sink(learner *l, entry e) {
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < l->n_heap; at = child) {
        if (child + 1 < l->n_heap && is_above(l->heap[child + 1], l->heap[child])) child++;
        if (!is_above(l->heap[child], e)) break;
        l->heap[at] = l->heap[child];
    }
    l->heap[at] = e;
}

static ig_status push(learner *l, uint32_t number) {
    const pair *p = &l->pairs[number];
    if (p->count < COUNT_MIN) return IG_OK;
    if (!IG_GROW(l->allocator, l->heap, &l->room_heap, l->n_heap + 1))
        return no_memory(l->n_heap + 1, "pairs");
    const entry e = {p->count, ig_bpe_key(p->ids), number};
    size_t at = l->n_heap++;
    for (; at > 0 && is_above(e, l->heap[(at - 1) / 2]); at = (at - 1) / 2)
        l->heap[at] = l->heap[(at - 1) / 2];
    l->heap[at] = e;
    return IG_OK;
}

/* Takes the most frequent pair; false: none occurs often enough. */
static bool pop(learner *l, uint32_t *out) {
    while (l->n_heap > 0) {
        entry top = l->heap[0];
        const uint64_t count = l->pairs[top.pair].count;
        if (count == top.count || count < COUNT_MIN) {
            const entry last = l->heap[--l->n_heap];
            if (l->n_heap > 0) sink(l, last);
            *out = top.pair;
            if (count >= COUNT_MIN) return true;
        } else {
            top.count = count;
            sink(l, top);
        }
    }
    return false;
}

/* ---- Merging ---- */

/*
 * Replaces each occurrence of the pair in one word, from the left. Around  x [left right] y  the
 * pairs (x, left) and (right, y) lose an occurrence, and (x, made) and (made, y) gain one; x is
 * read from the shortened word.
 */
static ig_status merge_word(learner *l, uint32_t w, ig_bpe_merge old, uint16_t made) {
    uint16_t *ids = l->ids + l->words[w].first;
    const uint32_t length = l->words[w].length;
    uint32_t to = 0;
    for (uint32_t from = 0; from < length; from++) {
        if (from + 1 == length || ids[from] != old.left || ids[from + 1] != old.right) {
            ids[to++] = ids[from];
            continue;
        }
        if (to > 0) {
            IG_TRY(remove_place(l, ids[to - 1], old.left, w));
            IG_TRY(add_place(l, ids[to - 1], made, w));
        }
        if (from + 2 < length) {
            IG_TRY(remove_place(l, old.right, ids[from + 2], w));
            IG_TRY(add_place(l, made, ids[from + 2], w));
        }
        ids[to++] = made;
        from++;
    }
    l->words[w].length = to;
    return IG_OK;
}

/* New pairs all contain the new id, so none is in the heap yet. */
static ig_status merge(learner *l, uint32_t number, uint16_t made) {
    const ig_bpe_merge ids = l->pairs[number].ids;
    const size_t n_before = l->n_pairs;
    for (uint32_t n = l->pairs[number].first; n != 0; n = l->nodes[n].next)
        IG_TRY(merge_word(l, l->nodes[n].word, ids, made));
    l->pairs[number].count = 0;
    for (size_t i = n_before; i < l->n_pairs; i++) IG_TRY(push(l, (uint32_t)i));
    return IG_OK;
}

/* Turns words into byte ids and counts their pairs. */
static ig_status begin(learner *l) {
    l->ids = ig_alloc(l->allocator, l->n_ids, sizeof *l->ids);
    if (!l->ids) return no_memory(l->n_ids, "ids");
    l->n_nodes = 1;
    for (uint32_t w = 0; w < l->n_words; w++) {
        const word *this = &l->words[w];
        uint16_t *ids = l->ids + this->first;
        for (uint32_t i = 0; i < this->length; i++) ids[i] = (unsigned char)this->text[i];
        for (uint32_t i = 0; i + 1 < this->length; i++) IG_TRY(add_place(l, ids[i], ids[i + 1], w));
    }
    for (size_t i = 0; i < l->n_pairs; i++) IG_TRY(push(l, (uint32_t)i));
    return IG_OK;
}

static ig_status learn(learner *l, ig_bpe_merge *merges, size_t limit, size_t *out_count) {
    for (size_t i = 0; i < l->options->n_data; i++)
        IG_TRY(count_part(l, &l->options->data[i], limit));
    IG_TRY(begin(l));
    size_t count = 0;
    for (uint32_t number; count < limit && pop(l, &number); count++) {
        if (count % MERGES_PER_REPORT == 0) IG_TRY(report(l, count, limit));
        merges[count] = l->pairs[number].ids;
        IG_TRY(merge(l, number, (uint16_t)(IG_BPE_BYTES + count)));
    }
    IG_TRY(report(l, limit, limit));
    *out_count = count;
    return IG_OK;
}

ig_status ig_bpe_learn(const ig_allocator *a, const ig_tokenizer_training *options,
                       ig_bpe_merge **out, size_t *out_count) {
    const int32_t limit = options->merges != 0 ? options->merges : IG_TOKENIZER_DEFAULT_MERGES;
    if (limit < 0 || limit > IG_BPE_MERGES_MAX)
        return IG_FAIL(IG_ERR_ARGUMENT, "tokenizer bpe: %d merges, 1 to %d are allowed", limit,
                       IG_BPE_MERGES_MAX);
    ig_bpe_merge *merges = ig_alloc(a, (size_t)limit, sizeof *merges);
    if (!merges) return no_memory((size_t)limit, "merges");

    learner l = {.allocator = a, .options = options};
    const ig_status status = learn(&l, merges, (size_t)limit, out_count);
    void *const parts[] = {l.words,           l.pairs, l.nodes, l.heap, l.ids, l.word_table.slots,
                           l.pair_table.slots};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) ig_free(a, parts[i]);
    if (status == IG_OK)
        *out = merges;
    else
        ig_free(a, merges);
    return status;
}
