/*
 * The store of a packing: copies of weights in the layouts of devices.
 *
 * Packed weights lie side by side in slabs of large pages.  A program reads all of them for every
 * token: with small pages, address translation costs a tenth to a fifth of the time where eight
 * streams read at the speed of memory.  A slab is filled from its beginning and freed as a whole.
 */
#include "plan/packed_weights.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"

enum { SLAB_BYTES = 1 << 26 };

/* A range of weights that may be packed. */
typedef struct source {
    const char *bytes;
    uint64_t n_bytes;
    ig_pack_source kind;
} source;

/* Memory that is filled from its start. */
typedef struct slab {
    void *memory;
    char *first, *next; /* the taken bytes: [first, next) */
    uint64_t left;      /* free bytes after them */
} slab;

struct ig_packing {
    ig_allocator memory; /* a packing outlives contexts */
    atomic_uint refs;
    pthread_mutex_t lock; /* of all that follows */
    uint32_t n_attached;
    source *sources;
    size_t n_sources, sources_room;
    ig_packed_weight *all;
    size_t count, room;
    uint64_t taken; /* bytes allocated for slabs */
    slab *slabs;    /* a list; the last one is being filled */
    size_t n_slabs, slabs_room;
};

/* ---- for callers ---- */

ig_status ig_packing_create(const ig_allocator *allocator, ig_packing **out) {
    if (!out) return IG_FAIL(IG_ERR_ARGUMENT, "packing_create: NULL");
    const ig_allocator *memory = allocator ? allocator : &ig_heap;
    ig_packing *p = ig_alloc(memory, 1, sizeof *p);
    if (!p) return IG_FAIL(IG_ERR_MEMORY, "packing_create: a packing");
    p->memory = *memory;
    atomic_init(&p->refs, 1);
    if (pthread_mutex_init(&p->lock, NULL) != 0) {
        ig_free(memory, p);
        return IG_FAIL(IG_ERR_MEMORY, "packing_create: a lock");
    }
    *out = p;
    return IG_OK;
}

ig_packing *ig_packing_retain(ig_packing *p) {
    if (p) atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    return p;
}

static void drop_all(ig_packing *p) {
    for (size_t i = 0; i < p->count; i++) ig_cache_entry_close(&p->all[i].entry);
    for (size_t i = 0; i < p->n_slabs; i++) ig_free(&p->memory, p->slabs[i].memory);
    p->count = p->n_slabs = 0;
    p->taken = 0;
}

void ig_packing_release(ig_packing *p) {
    if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1) return;
    drop_all(p);
    pthread_mutex_destroy(&p->lock);
    const ig_allocator memory = p->memory;
    ig_free(&memory, p->slabs);
    ig_free(&memory, p->all);
    ig_free(&memory, p->sources);
    ig_free(&memory, p);
}

ig_status ig_packing_add(ig_packing *p, const void *bytes, uint64_t n_bytes, ig_pack_source kind) {
    if (!p || !bytes) return IG_FAIL(IG_ERR_ARGUMENT, "packing_add: NULL");
    pthread_mutex_lock(&p->lock);
    const bool room = IG_GROW(&p->memory, p->sources, &p->sources_room, p->n_sources + 1);
    if (room) p->sources[p->n_sources++] = (source){bytes, n_bytes, kind};
    pthread_mutex_unlock(&p->lock);
    return room ? IG_OK : IG_FAIL(IG_ERR_MEMORY, "packing_add: %zu weights", p->n_sources);
}

uint64_t ig_packing_bytes(ig_packing *p) {
    uint64_t bytes = 0;
    if (!p) return 0;
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->count; i++) bytes += p->all[i].n_bytes;
    pthread_mutex_unlock(&p->lock);
    return bytes;
}

/* ---- for contexts ---- */

void ig_packing_attached(ig_packing *p, int32_t change) {
    pthread_mutex_lock(&p->lock);
    p->n_attached += (uint32_t)change;
    pthread_mutex_unlock(&p->lock);
}

uint64_t ig_packing_slab_bytes(ig_packing *p) {
    pthread_mutex_lock(&p->lock);
    const uint64_t bytes = p->taken;
    pthread_mutex_unlock(&p->lock);
    return bytes;
}

/* Later weights go to new slabs, so that the old ones can be freed. */
static void mark_old(ig_packing *p) {
    for (size_t i = 0; i < p->count; i++) p->all[i].old = true;
    if (p->n_slabs > 0) p->slabs[p->n_slabs - 1].left = 0;
}

static bool is_used(const ig_packing *p, const slab *s) {
    for (size_t i = 0; i < p->count; i++) {
        const char *bytes = p->all[i].bytes;
        if (bytes >= (const char *)s->memory && bytes < s->next) return true;
    }
    return false;
}

static void drop_old(ig_packing *p) {
    size_t count = 0, n_slabs = 0;
    for (size_t i = 0; i < p->count; i++)
        if (p->all[i].old)
            ig_cache_entry_close(&p->all[i].entry);
        else
            p->all[count++] = p->all[i];
    p->count = count;
    for (size_t i = 0; i < p->n_slabs; i++)
        if (is_used(p, &p->slabs[i])) {
            p->slabs[n_slabs++] = p->slabs[i];
        } else {
            p->taken -= (uint64_t)(p->slabs[i].next - p->slabs[i].first);
            ig_free(&p->memory, p->slabs[i].memory);
        }
    p->n_slabs = n_slabs;
}

static void for_sole_user(ig_packing *p, uint32_t n_own, void (*fn)(ig_packing *p)) {
    pthread_mutex_lock(&p->lock);
    if (p->n_attached == n_own) fn(p);
    pthread_mutex_unlock(&p->lock);
}

void ig_packing_mark_old(ig_packing *p, uint32_t n_own) { for_sole_user(p, n_own, mark_old); }
void ig_packing_drop_old(ig_packing *p, uint32_t n_own) { for_sole_user(p, n_own, drop_old); }

/* The source that holds the weight, and its owner; NULL: none. */
static const source *source_of(const ig_packing *p, const void *weight) {
    const char *at = weight;
    for (size_t i = 0; i < p->n_sources; i++)
        if (at >= p->sources[i].bytes && at < p->sources[i].bytes + p->sources[i].n_bytes)
            return &p->sources[i];
    return NULL;
}

bool ig_packing_lock(ig_packing *p, const void *weight) {
    pthread_mutex_lock(&p->lock);
    if (source_of(p, weight)) return true;
    pthread_mutex_unlock(&p->lock);
    return false;
}

void ig_packing_unlock(ig_packing *p) { pthread_mutex_unlock(&p->lock); }

/* ---- locked ---- */

void *ig_packing_find(ig_packing *p, const void *weight, const char *layout, uint64_t bytes) {
    for (size_t i = 0; i < p->count; i++) {
        ig_packed_weight *w = &p->all[i];
        if (w->weight != weight || w->n_bytes != bytes || strcmp(w->layout, layout) != 0) continue;
        w->old = false;
        return w->bytes;
    }
    return NULL;
}

static uint64_t source_bytes(const ig_packing *p) {
    uint64_t all = 0;
    for (size_t i = 0; i < p->n_sources; i++) all += p->sources[i].n_bytes;
    return all;
}

uint64_t ig_packing_wanted(const ig_packing *p, uint64_t bytes) {
    const uint64_t all = source_bytes(p), rest = all > p->taken ? all - p->taken : 0;
    return rest > bytes ? rest : bytes;
}

/* Room for the weight in its own slab, or in one shared with later weights. */
static bool add_slab(ig_packing *p, uint64_t bytes) {
    const uint64_t all = source_bytes(p);
    uint64_t room = bytes;
    if (room < SLAB_BYTES && room < all) room = all < SLAB_BYTES ? all : SLAB_BYTES;
    if (room > UINT64_MAX - 2 * (uint64_t)IG_LARGE_PAGE ||
        !IG_GROW(&p->memory, p->slabs, &p->slabs_room, p->n_slabs + 1))
        return false;
    /* OS pages that are never written take no memory. */
    room = (room + IG_LARGE_PAGE - 1) & -(uint64_t)IG_LARGE_PAGE;
    char *memory = ig_alloc(&p->memory, room + IG_LARGE_PAGE, 1);
    if (!memory) return false;
    char *first = memory + (-(uintptr_t)memory & (IG_LARGE_PAGE - 1));
    ig_ask_large_pages(first, room);
    p->slabs[p->n_slabs++] = (slab){memory, first, first, room};
    return true;
}

/* Aligned to a cache line; NULL: out of memory. */
static void *take(ig_packing *p, uint64_t bytes) {
    const uint64_t lines = (bytes + IG_ALIGNMENT - 1) & -(uint64_t)IG_ALIGNMENT;
    if (lines < bytes) return NULL;
    if (p->n_slabs == 0 || p->slabs[p->n_slabs - 1].left < lines)
        if (!add_slab(p, lines)) return NULL;
    slab *last = &p->slabs[p->n_slabs - 1];
    char *taken = last->next;
    last->next += lines;
    last->left -= lines;
    p->taken += lines;
    return taken;
}

void ig_packing_remove_last(ig_packing *p) {
    const char *taken = p->all[--p->count].bytes;
    slab *last = &p->slabs[p->n_slabs - 1];
    const uint64_t bytes = (uint64_t)(last->next - taken);
    last->left += bytes;
    last->next -= bytes;
    p->taken -= bytes;
}

static bool add(ig_packing *p, const void *weight, const char *layout, uint64_t bytes) {
    const size_t length = strlen(layout);
    if (length >= IG_PACK_LAYOUT_BYTES || !IG_GROW(&p->memory, p->all, &p->room, p->count + 1))
        return false;
    ig_packed_weight *new = &p->all[p->count];
    *new = (ig_packed_weight){.weight = weight, .n_bytes = bytes};
    memcpy(new->layout, layout, length + 1);
    return true;
}

void *ig_packing_add_slab(ig_packing *p, const void *weight, const char *layout, uint64_t bytes) {
    if (!add(p, weight, layout, bytes)) return NULL;
    void *memory = take(p, bytes);
    if (memory) p->all[p->count++].bytes = memory;
    return memory;
}

void *ig_packing_add_entry(ig_packing *p, const void *weight, const char *layout, uint64_t bytes,
                           ig_cache_entry *entry, const void *entry_bytes) {
    if (!add(p, weight, layout, bytes)) {
        ig_cache_entry_close(entry);
        return NULL;
    }
    ig_packed_weight *new = &p->all[p->count++];
    new->entry = *entry;
    new->bytes = (void *)(uintptr_t)entry_bytes; /* a mapped file: read-only */
    return new->bytes;
}

const ig_packed_weight *ig_packing_last(const ig_packing *p) { return &p->all[p->count - 1]; }

void ig_packing_release_pages(const ig_packing *p, const void *weight, uint64_t bytes) {
    const source *s = source_of(p, weight);
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uint64_t most = s->n_bytes - (uint64_t)((const char *)weight - s->bytes);
    const uintptr_t begin = ((uintptr_t)weight + page - 1) & -page;
    const uintptr_t end = ((uintptr_t)weight + (bytes < most ? bytes : most)) & -page;
    if (s->kind != IG_PACK_MAPPED || end <= begin) return;
    /* Reading a few bytes, or a neighbor, should not page in 2 MiB. */
    (void)madvise((void *)begin, end - begin, MADV_NOHUGEPAGE);
    (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}
