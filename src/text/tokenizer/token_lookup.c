#include "text/tokenizer/token_lookup.h"

#include <string.h>
#include <xxhash.h>

ig_status ig_lookup_init(const ig_tokenizer *t, size_t count, ig_lookup *out) {
    size_t n_slots = 2;
    while (n_slots < 2 * count) n_slots *= 2;
    uint32_t *slots = ig_alloc(t->allocator, n_slots, sizeof *slots);
    if (!slots)
        return IG_FAIL(IG_ERR_MEMORY, "tokenizer %s: no memory for %zu pieces", t->kind->name,
                       count);
    *out = (ig_lookup){.slots = slots, .mask = (uint32_t)(n_slots - 1)};
    return IG_OK;
}

void ig_lookup_deinit(const ig_tokenizer *t, ig_lookup *lookup) {
    ig_free(t->allocator, lookup->slots);
    *lookup = (ig_lookup){0};
}

/* The slot of these bytes, or the empty slot to insert them. */
static uint32_t *find_slot(const ig_lookup *lookup, const ig_tokenizer *t, const char *bytes,
                           size_t n_bytes) {
    uint32_t i = (uint32_t)XXH3_64bits(bytes, n_bytes) & lookup->mask;
    for (;; i = (i + 1) & lookup->mask) {
        uint32_t *slot = &lookup->slots[i];
        if (*slot == 0) return slot;
        const ig_string_view piece = ig_tokenizer_piece(t, (int32_t)(*slot - 1));
        if (piece.n_bytes == n_bytes && memcmp(piece.bytes, bytes, n_bytes) == 0) return slot;
    }
}

void ig_lookup_add(ig_lookup *lookup, const ig_tokenizer *t, int32_t id) {
    const ig_string_view piece = ig_tokenizer_piece(t, id);
    if (piece.n_bytes == 0) return;
    uint32_t *slot = find_slot(lookup, t, piece.bytes, piece.n_bytes);
    if (*slot == 0) *slot = (uint32_t)id + 1;
    if (piece.n_bytes > lookup->longest) lookup->longest = piece.n_bytes;
}

int32_t ig_lookup_find(const ig_lookup *lookup, const ig_tokenizer *t, const char *bytes,
                       size_t n_bytes) {
    if (n_bytes == 0 || n_bytes > lookup->longest) return -1;
    return (int32_t)*find_slot(lookup, t, bytes, n_bytes) - 1;
}
