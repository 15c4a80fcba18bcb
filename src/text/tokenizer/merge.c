#include "text/tokenizer/merge.h"

ig_status ig_merge_reset(ig_merge *m, const char *text, size_t n_parts) {
    /* Each merge takes one pair out, adds at most two, and removes one part. */
    if (!IG_GROW(m->allocator, m->parts, &m->room_parts, n_parts) ||
        !IG_GROW(m->allocator, m->heap, &m->room_heap, 2 * n_parts))
        return IG_FAIL(IG_ERR_MEMORY, "tokenizer: no memory for a text of %zu parts", n_parts);
    m->text = text;
    m->n_parts = m->n_heap = 0;
    return IG_OK;
}

void ig_merge_deinit(ig_merge *m) {
    ig_free(m->allocator, m->heap);
    ig_free(m->allocator, m->parts);
}

void ig_merge_add(ig_merge *m, uint32_t n_bytes, int32_t id) {
    const int32_t i = (int32_t)m->n_parts++;
    const ig_merge_part *last = i > 0 ? &m->parts[i - 1] : NULL;
    m->parts[i] = (ig_merge_part){.start = last ? last->start + last->n_bytes : 0,
                                  .n_bytes = n_bytes,
                                  .id = id,
                                  .before = i - 1,
                                  .after = -1};
    if (last) m->parts[i - 1].after = i;
}

/* ---- The heap: no entry is better than the one above it ---- */

static inline bool is_better(ig_merge_entry a, ig_merge_entry b) {
    return a.rank < b.rank || (a.rank == b.rank && a.left < b.left);
}

static void push(ig_merge *m, ig_merge_entry e) {
    size_t at = m->n_heap++;
    for (; at > 0; at = (at - 1) / 2) {
        const size_t above = (at - 1) / 2;
        if (!is_better(e, m->heap[above])) break;
        m->heap[at] = m->heap[above];
    }
    m->heap[at] = e;
}

static ig_merge_entry pop(ig_merge *m) {
    const ig_merge_entry best = m->heap[0], moved = m->heap[--m->n_heap];
    size_t at = 0;
    for (size_t below = 1; below < m->n_heap; below = 2 * at + 1) {
        if (below + 1 < m->n_heap && is_better(m->heap[below + 1], m->heap[below])) below++;
        if (!is_better(m->heap[below], moved)) break;
        m->heap[at] = m->heap[below];
        at = below;
    }
    m->heap[at] = moved;
    return best;
}

/* ---- Merging ---- */

/* Pushes the pair of a part and its right neighbor, if they merge. */
static void consider(ig_merge *m, int32_t left) {
    if (left < 0 || m->parts[left].after < 0) return;
    const ig_merge_part a = m->parts[left], b = m->parts[a.after];
    const ig_merge_pair pair = m->look(m->user, m->text, a, b);
    if (pair.id >= 0) push(m, (ig_merge_entry){pair.rank, left, pair.id, a.n_bytes + b.n_bytes});
}

static bool still_there(const ig_merge *m, ig_merge_entry e) {
    const ig_merge_part *left = &m->parts[e.left];
    return left->n_bytes > 0 && left->after >= 0 &&
           left->n_bytes + m->parts[left->after].n_bytes == e.n_bytes;
}

void ig_merge_run(ig_merge *m) {
    for (size_t i = 0; i + 1 < m->n_parts; i++) consider(m, (int32_t)i);
    while (m->n_heap > 0) {
        const ig_merge_entry e = pop(m);
        if (!still_there(m, e)) continue;
        ig_merge_part *left = &m->parts[e.left], *right = &m->parts[left->after];
        left->n_bytes = e.n_bytes;
        left->id = e.id;
        left->after = right->after;
        right->n_bytes = 0;
        if (left->after >= 0) m->parts[left->after].before = e.left;
        consider(m, left->before);
        consider(m, e.left);
    }
}
