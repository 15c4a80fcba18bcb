/*
 * What devices have made of weights: copies in layouts of their own, found by the
 * address of the weight and the layout's name.  One lock for each packing, held
 * while a weight is being packed: whoever wants the same one waits for it.
 *
 * Packed weights lie side by side in stretches of large pages.  A program that reads
 * all of them for every token would otherwise wait for the translation of addresses:
 * by a tenth to a fifth, where eight streams read as fast as memory goes.
 */
#include "ingot/packing.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "runtime/ctx.h"

enum { LAYOUT_BYTES = 32, STRETCH_BYTES = 1 << 26 };
enum { PLANS_SHARE = 8 }; /* one part in so many of a limit is for plans, which come later */

/* Bytes that may be packed. */
typedef struct source {
    const char *bytes;
    uint64_t n_bytes;
    ig_pack_source kind;
} source;

/* A weight that is packed, or about to be. */
typedef struct packed {
    const void *weight;
    char layout[LAYOUT_BYTES];
    void *bytes; /* in a stretch, or in what is kept */
    uint64_t n_bytes;
    ig_entry kept; /* the cache's, where they came from there */
    bool old;      /* nobody has asked for it since the context that has it got another device */
} packed;

/* Memory that is filled from its beginning. */
typedef struct stretch {
    void *memory;
    char *first, *next; /* what is taken of it, */
    uint64_t left;      /* and what is free */
} stretch;

struct ig_packing {
    ig_allocator memory; /* no context's: a packing outlives them */
    atomic_uint refs;
    pthread_mutex_t lock;
    uint32_t n_attached;
    source *sources;
    size_t n_sources, sources_room;
    packed *all;
    size_t count, room;
    uint64_t taken;     /* bytes of stretches */
    stretch *stretches; /* the last one is being filled */
    size_t n_stretches, stretches_room;
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
    for (size_t i = 0; i < p->count; i++) ig_entry_close(&p->all[i].kept);
    for (size_t i = 0; i < p->n_stretches; i++) ig_free(&p->memory, p->stretches[i].memory);
    p->count = p->n_stretches = 0;
    p->taken = 0;
}

void ig_packing_release(ig_packing *p) {
    if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1) return;
    drop_all(p);
    pthread_mutex_destroy(&p->lock);
    const ig_allocator memory = p->memory;
    ig_free(&memory, p->stretches);
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

/* ---- in a context ---- */

static bool is_first(const ig_ctx *ctx, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (ctx->packings[k] == ctx->packings[i]) return false;
    return true;
}

/* Others may have packed, too.  What is mapped from the cache is a file's, as the weights are. */
static void count_packed(const ig_ctx *ctx) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < ctx->n_packings; i++) {
        if (!is_first(ctx, i)) continue;
        pthread_mutex_lock(&ctx->packings[i]->lock);
        bytes += ctx->packings[i]->taken;
        pthread_mutex_unlock(&ctx->packings[i]->lock);
    }
    ig_ctx_near(ctx)->packed = bytes;
}

ig_status ig_ctx_attach_packing(ig_ctx *ctx, ig_packing *p) {
    if (!ctx) return IG_FAIL(IG_ERR_ARGUMENT, "attach_packing: NULL");
    if (!p) return IG_OK;
    if (!IG_GROW(&ctx->allocator, ctx->packings, &ctx->packings_room, ctx->n_packings + 1))
        return IG_FAIL(IG_ERR_MEMORY, "attach_packing: %zu packings", ctx->n_packings);
    ctx->packings[ctx->n_packings++] = ig_packing_retain(p);
    pthread_mutex_lock(&p->lock);
    p->n_attached++;
    pthread_mutex_unlock(&p->lock);
    count_packed(ctx);
    return IG_OK;
}

static void detach(ig_ctx *ctx, size_t i) {
    ig_packing *p = ctx->packings[i];
    ctx->packings[i] = ctx->packings[--ctx->n_packings];
    pthread_mutex_lock(&p->lock);
    p->n_attached--;
    pthread_mutex_unlock(&p->lock);
    ig_packing_release(p);
}

void ig_ctx_detach_packing(ig_ctx *ctx, ig_packing *p) {
    for (size_t i = 0; ctx && p && i < ctx->n_packings; i++)
        if (ctx->packings[i] == p) {
            detach(ctx, i);
            count_packed(ctx);
            return;
        }
}

void ig_ctx_detach_all(ig_ctx *ctx) {
    while (ctx->n_packings > 0) detach(ctx, ctx->n_packings - 1);
    ig_free(&ctx->allocator, (void *)ctx->packings);
}

/* Whether no other context has it. */
static bool is_own(const ig_ctx *ctx, const ig_packing *p) {
    uint32_t own = 0;
    for (size_t i = 0; i < ctx->n_packings; i++) own += ctx->packings[i] == p;
    return p->n_attached == own;
}

static void each_own(const ig_ctx *ctx, void (*what)(ig_packing *p)) {
    for (size_t i = 0; i < ctx->n_packings; i++) {
        ig_packing *p = ctx->packings[i];
        pthread_mutex_lock(&p->lock);
        if (is_own(ctx, p)) what(p);
        pthread_mutex_unlock(&p->lock);
    }
}

/* What comes from now on lies in other stretches, so that these can go. */
static void mark_old(ig_packing *p) {
    for (size_t i = 0; i < p->count; i++) p->all[i].old = true;
    if (p->n_stretches > 0) p->stretches[p->n_stretches - 1].left = 0;
}

static bool is_used(const ig_packing *p, const stretch *s) {
    for (size_t i = 0; i < p->count; i++) {
        const char *bytes = p->all[i].bytes;
        if (bytes >= (const char *)s->memory && bytes < s->next) return true;
    }
    return false;
}

static void drop_old(ig_packing *p) {
    size_t count = 0, n_stretches = 0;
    for (size_t i = 0; i < p->count; i++)
        if (p->all[i].old)
            ig_entry_close(&p->all[i].kept);
        else
            p->all[count++] = p->all[i];
    p->count = count;
    for (size_t i = 0; i < p->n_stretches; i++)
        if (is_used(p, &p->stretches[i])) {
            p->stretches[n_stretches++] = p->stretches[i];
        } else {
            p->taken -= (uint64_t)(p->stretches[i].next - p->stretches[i].first);
            ig_free(&p->memory, p->stretches[i].memory);
        }
    p->n_stretches = n_stretches;
}

void ig_ctx_mark_packed(const ig_ctx *ctx) {
    each_own(ctx, mark_old);
    count_packed(ctx);
}

void ig_ctx_drop_packed(const ig_ctx *ctx) {
    each_own(ctx, drop_old);
    count_packed(ctx);
}

/* ---- for backends ---- */

/* The source that holds the weight, and whose it is; NULL: nobody's. */
static const source *source_of(const ig_packing *p, const void *weight) {
    const char *at = weight;
    for (size_t i = 0; i < p->n_sources; i++)
        if (at >= p->sources[i].bytes && at < p->sources[i].bytes + p->sources[i].n_bytes)
            return &p->sources[i];
    return NULL;
}

/* Leaves the packing locked. */
static ig_packing *lock_packing_of(const ig_ctx *ctx, const void *weight) {
    for (size_t i = 0; weight && i < ctx->n_packings; i++) {
        pthread_mutex_lock(&ctx->packings[i]->lock);
        if (source_of(ctx->packings[i], weight)) return ctx->packings[i];
        pthread_mutex_unlock(&ctx->packings[i]->lock);
    }
    return NULL;
}

static packed *find(const ig_packing *p, const void *weight, const char *layout, uint64_t bytes) {
    for (size_t i = 0; i < p->count; i++)
        if (p->all[i].weight == weight && p->all[i].n_bytes == bytes &&
            strcmp(p->all[i].layout, layout) == 0)
            return &p->all[i];
    return NULL;
}

static uint64_t source_bytes(const ig_packing *p) {
    uint64_t all = 0;
    for (size_t i = 0; i < p->n_sources; i++) all += p->sources[i].n_bytes;
    return all;
}

/* Room for the weight in a stretch of its own, or for others behind it too. */
static bool add_stretch(ig_packing *p, uint64_t bytes) {
    const uint64_t all = source_bytes(p);
    uint64_t room = bytes;
    if (room < STRETCH_BYTES && room < all) room = all < STRETCH_BYTES ? all : STRETCH_BYTES;
    if (room > UINT64_MAX - 2 * (uint64_t)IG_LARGE_PAGE ||
        !IG_GROW(&p->memory, p->stretches, &p->stretches_room, p->n_stretches + 1))
        return false;
    /* Pages that nobody writes to take no memory. */
    room = (room + IG_LARGE_PAGE - 1) & -(uint64_t)IG_LARGE_PAGE;
    char *memory = ig_alloc(&p->memory, room + IG_LARGE_PAGE, 1);
    if (!memory) return false;
    char *first = memory + (-(uintptr_t)memory & (IG_LARGE_PAGE - 1));
    ig_ask_large_pages(first, room);
    p->stretches[p->n_stretches++] = (stretch){memory, first, first, room};
    return true;
}

/* So many bytes, which begin on a cache line; NULL: there is no memory left. */
static void *take(ig_packing *p, uint64_t bytes) {
    const uint64_t lines = (bytes + IG_ALIGNMENT - 1) & -(uint64_t)IG_ALIGNMENT;
    if (lines < bytes) return NULL;
    if (p->n_stretches == 0 || p->stretches[p->n_stretches - 1].left < lines)
        if (!add_stretch(p, lines)) return NULL;
    stretch *last = &p->stretches[p->n_stretches - 1];
    char *taken = last->next;
    last->next += lines;
    last->left -= lines;
    p->taken += lines;
    return taken;
}

/* What was taken last. */
static void give_back(ig_packing *p, char *taken) {
    stretch *last = &p->stretches[p->n_stretches - 1];
    const uint64_t bytes = (uint64_t)(last->next - taken);
    last->left += bytes;
    last->next = taken;
    p->taken -= bytes;
}

/* Pages that lie whole in the first bytes of the weight; its neighbours need theirs. */
static void drop_pages(const ig_packing *p, const char *weight, uint64_t bytes) {
    const source *s = source_of(p, weight);
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uint64_t most = s->n_bytes - (uint64_t)(weight - s->bytes);
    const uintptr_t begin = ((uintptr_t)weight + page - 1) & -page;
    const uintptr_t end = ((uintptr_t)weight + (bytes < most ? bytes : most)) & -page;
    if (s->kind != IG_PACK_MAPPED || end <= begin) return;
    /* Who looks at a few bytes, or at a neighbour, shall not have 2 MiB brought for them. */
    (void)madvise((void *)begin, end - begin, MADV_NOHUGEPAGE);
    (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}

/* Whether the limit leaves room for the weight, and for those that follow and for plans: packing
 * some would leave plans without memory that they could have had. */
static bool may_take(ig_ctx *ctx, const ig_packing *p, uint64_t bytes) {
    const ig_device *device = ig_ctx_near(ctx);
    const uint64_t left = ig_device_left(device), plans = device->limit / PLANS_SHARE;
    const uint64_t room = left > plans ? left - plans : 0;
    const uint64_t all = source_bytes(p), rest = all > p->taken ? all - p->taken : 0;
    const uint64_t wanted = rest > bytes ? rest : bytes;
    if (wanted <= room) return true;
    if (!ctx->reads_unpacked) {
        char text[192];
        snprintf(
            text, sizeof text,
            "weights are read as they lie: packed they would take %llu bytes, and of %llu that "
            "may be taken %llu are left for them",
            (unsigned long long)wanted, (unsigned long long)device->limit,
            (unsigned long long)room);
        ctx->host.table.log(&ctx->host.table, IG_LOG_WARNING, text);
    }
    ctx->reads_unpacked = true;
    return false;
}

/* From the cache, mapped, or as memory to be filled. */
static void *begin_new(ig_ctx *ctx, ig_packing *p, const ig_operand *weight, const char *layout,
                       uint64_t bytes, bool *out_ready) {
    const void *kept = NULL;
    if (strlen(layout) >= LAYOUT_BYTES || !IG_GROW(&p->memory, p->all, &p->room, p->count + 1))
        return NULL;
    packed *new = &p->all[p->count];
    *new = (packed){.weight = weight->host, .n_bytes = bytes};
    *out_ready =
        ig_artifacts_find_weight(&ctx->artifacts, weight, layout, bytes, &new->kept, &kept);
    if (*out_ready) {
        (void)ig_ctx_tell(ctx, "weights from the cache", ctx->artifacts.found_bytes,
                          ctx->artifacts.found_bytes);
        drop_pages(p, weight->host, UINT64_MAX); /* that may have been read for their digest */
    }
    new->bytes = *out_ready                ? (void *)(uintptr_t)kept
                 : may_take(ctx, p, bytes) ? take(p, bytes)
                                           : NULL;
    if (!new->bytes) return NULL;
    memcpy(new->layout, layout, strlen(layout) + 1);
    p->count++;
    return new->bytes;
}

void *ig_ctx_pack_begin(ig_ctx *ctx, const ig_operand *weight, const char *layout, uint64_t bytes,
                        bool *out_ready) {
    count_packed(ctx);
    ig_packing *p = lock_packing_of(ctx, weight->host);
    if (!p) return NULL;
    packed *known = find(p, weight->host, layout, bytes);
    if (known) known->old = false;
    *out_ready = known != NULL;
    void *result = known ? known->bytes : begin_new(ctx, p, weight, layout, bytes, out_ready);
    if (*out_ready || !result)
        pthread_mutex_unlock(&p->lock);
    else
        ctx->packing = p;
    ctx->pack_began_ns = ig_clock_ns();
    return result;
}

void ig_ctx_pack_reached(const ig_ctx *ctx, const ig_operand *weight, uint64_t source_bytes) {
    drop_pages(ctx->packing, weight->host, source_bytes);
}

void ig_ctx_pack_end(ig_ctx *ctx, const ig_operand *weight, bool whole) {
    ig_packing *p = ctx->packing;
    packed *new = &p->all[p->count - 1];
    if (whole) {
        ig_artifacts_keep_weight(&ctx->artifacts, weight, new->layout, new->bytes, new->n_bytes);
        (void)ig_ctx_tell(ctx, "weights to the cache", ctx->artifacts.kept_bytes,
                          ctx->artifacts.kept_bytes);
        drop_pages(p, weight->host, UINT64_MAX);
    } else {
        p->count--;
        give_back(p, new->bytes);
    }
    ctx->packing = NULL;
    ctx->pack_ns += ig_clock_ns() - ctx->pack_began_ns;
    pthread_mutex_unlock(&p->lock);
    count_packed(ctx);
}
