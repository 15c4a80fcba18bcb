#include "model/session/kv_pages.h"

ig_status ig_pages_init(ig_pages *p, const ig_allocator *a, int32_t *table, int32_t n_sequences,
                        int32_t per_sequence, int32_t n_pages) {
    *p = (ig_pages){.n_sequences = n_sequences,
                    .per_sequence = per_sequence,
                    .n_pages = n_pages,
                    .n_free = n_pages,
                    .table = table,
                    .refs = ig_alloc(a, (size_t)n_pages, sizeof *p->refs),
                    .free = ig_alloc(a, (size_t)n_pages, sizeof *p->free),
                    .length = ig_alloc(a, (size_t)n_sequences, sizeof *p->length)};
    if (!p->refs || !p->free || !p->length) {
        ig_pages_deinit(p, a);
        return IG_FAIL(IG_ERR_MEMORY, "session: a table of %d pages", n_pages);
    }
    for (int32_t i = 0; i < n_pages; i++) p->free[i] = n_pages - 1 - i; /* page 0 is taken first */
    for (int64_t i = 0; i < (int64_t)n_sequences * per_sequence; i++) table[i] = -1;
    return IG_OK;
}

void ig_pages_deinit(ig_pages *p, const ig_allocator *a) {
    ig_free(a, p->refs);
    ig_free(a, p->free);
    ig_free(a, p->length);
    *p = (ig_pages){0};
}

static int32_t *pages_of(const ig_pages *p, int32_t sequence) {
    return p->table + (int64_t)sequence * p->per_sequence;
}

static void give_back(ig_pages *p, int32_t *page) {
    if (--p->refs[*page] == 0) p->free[p->n_free++] = *page;
    *page = -1;
}

ig_status ig_pages_append(ig_pages *p, int32_t sequence, int32_t *out_row, int32_t *copy_from) {
    const int64_t at = p->length[sequence];
    int32_t *page = pages_of(p, sequence) + at / IG_PAGE_TOKENS;
    *copy_from = -1;
    if (*page < 0 || p->refs[*page] > 1) {
        if (p->n_free == 0)
            return IG_FAIL(IG_ERR_MEMORY, "session: all %d pages of the cache are taken",
                           p->n_pages);
        if (*page >= 0) {
            *copy_from = *page;
            p->refs[*page]--;
        }
        *page = ig_pages_take(p);
    }
    *out_row = *page * IG_PAGE_TOKENS + (int32_t)(at % IG_PAGE_TOKENS);
    p->length[sequence]++;
    return IG_OK;
}

void ig_pages_truncate(ig_pages *p, int32_t sequence, int64_t length) {
    int32_t *pages = pages_of(p, sequence);
    const int64_t keep = (length + IG_PAGE_TOKENS - 1) / IG_PAGE_TOKENS;
    for (int64_t i = keep; i < p->per_sequence && pages[i] >= 0; i++) give_back(p, &pages[i]);
    p->length[sequence] = length;
}

void ig_pages_share(ig_pages *p, int32_t from, int32_t to) {
    const int32_t *pages = pages_of(p, from);
    for (int32_t i = 0; i < p->per_sequence && pages[i] >= 0; i++) {
        pages_of(p, to)[i] = pages[i];
        p->refs[pages[i]]++;
    }
    p->length[to] = p->length[from];
}

void ig_pages_hold(ig_pages *p, int32_t page) { p->refs[page]++; }

int32_t ig_pages_take(ig_pages *p) {
    if (p->n_free == 0) return -1;
    const int32_t page = p->free[--p->n_free];
    p->refs[page] = 1;
    return page;
}

void ig_pages_drop(ig_pages *p, int32_t page) { give_back(p, &page); }

void ig_pages_attach(ig_pages *p, int32_t sequence, int32_t page, int64_t count) {
    pages_of(p, sequence)[p->length[sequence] / IG_PAGE_TOKENS] = page;
    p->refs[page]++;
    p->length[sequence] += count;
}

int32_t ig_pages_needed(const ig_pages *p, int32_t sequence, int64_t count) {
    const int64_t length = p->length[sequence];
    const int64_t had = (length + IG_PAGE_TOKENS - 1) / IG_PAGE_TOKENS;
    const int64_t wanted = (length + count + IG_PAGE_TOKENS - 1) / IG_PAGE_TOKENS;
    const bool copies = count > 0 && length % IG_PAGE_TOKENS != 0 &&
                        p->refs[pages_of(p, sequence)[length / IG_PAGE_TOKENS]] > 1;
    return (int32_t)(wanted - had) + copies;
}
