/*
 * The BPE tokenizer: bytes, and merges of two ids into one.
 *
 * To encode a word is to do again what was learnt: of all pairs in it, the one
 * that was merged first is merged first, from the left, until no pair is left
 * that ever was.  The pairs of a word have their ranks beside them, so a merge
 * asks the table for its two neighbours only.
 */
#include "text/bpe.h"

#include <string.h>

#include "text/kind.h"
#include "text/words.h"

enum { NO_MERGE = 0 }; /* what the table has for a pair that is not merged: no merge makes id 0 */

typedef struct slot {
    uint32_t key;
    uint32_t made; /* the id; NO_MERGE: an empty slot */
} slot;

typedef struct bpe_tokenizer {
    ig_tokenizer base;
    ig_bpe_merge *merges; /* [n_merges] */
    size_t n_merges;
    slot *slots; /* [2^(32 - shift)], less than half of them taken */
    int shift;
} bpe_tokenizer;

static_assert((int)IG_WORD_BYTES <= (int)IG_TOKENIZER_PIECE_BYTES, "a merge is part of a word");

/* ---- Merges to tables ---- */

static slot *find(const bpe_tokenizer *t, uint32_t key) {
    const uint32_t mask = UINT32_MAX >> t->shift;
    uint32_t i = ig_bpe_slot(key, t->shift);
    while (t->slots[i].made != NO_MERGE && t->slots[i].key != key) i = (i + 1) & mask;
    return &t->slots[i];
}

/* Checks merge i, whose ids all have their pieces, and adds it to the table and the pieces. */
static ig_status add_merge(bpe_tokenizer *t, const char *source, size_t i, size_t piece_bytes) {
    const ig_bpe_merge m = t->merges[i];
    slot *s = find(t, ig_bpe_key(m));
    if (s->made != NO_MERGE)
        return IG_FAIL(IG_ERR_FORMAT, "%s: merge %zu of the tokenizer, [%u,%u], is merge %u again",
                       source, i, m.left, m.right, s->made - IG_BPE_BYTES);
    *s = (slot){ig_bpe_key(m), (uint32_t)(IG_BPE_BYTES + i)};

    char piece[IG_TOKENIZER_PIECE_BYTES];
    const ig_tokenizer_data left = ig_tokenizer_piece(&t->base, m.left);
    const ig_tokenizer_data right = ig_tokenizer_piece(&t->base, m.right);
    assert(piece_bytes == left.n_bytes + right.n_bytes);
    memcpy(piece, left.bytes, left.n_bytes);
    memcpy(piece + left.n_bytes, right.bytes, right.n_bytes);
    ig_pieces_add(&t->base, piece, piece_bytes);
    return IG_OK;
}
