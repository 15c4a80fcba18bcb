#include "plan/plan_cache.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum { FIRST_ROOM = 64 };

/* The key of an operand, followed by its extents and strides. */
typedef struct operand_key {
    uint32_t dtype, rank, buffer;
    int64_t offset;
} operand_key;

enum { MOST_OPERAND_BYTES = sizeof(operand_key) + 2 * IG_MAX_RANK * sizeof(int64_t) };

static char *put(char *to, const void *bytes, size_t count) {
    memcpy(to, bytes, count);
    return to + count;
}

static char *put_operand(char *to, const ig_plan_args *args, ig_value v) {
    const ig_value_info *info = ig_value_at(args->graph, v);
    const ig_layout *layout = &info->layout;
    const size_t rank = (size_t)layout->desc.shape.rank;
    operand_key key;
    memset(&key, 0, sizeof key); /* padding is hashed too */
    key.dtype = layout->desc.dtype;
    key.rank = (uint32_t)rank;
    key.offset = layout->offset;
    while (key.buffer < args->n_bound && args->bound[key.buffer] != info->base) key.buffer++;
    to = put(to, &key, sizeof key);
    to = put(to, layout->desc.shape.dim, rank * sizeof(int64_t));
    return put(to, layout->stride, rank * sizeof(int64_t));
}

/* Writes the key into cache->key; 0: out of memory. */
static size_t write_key(ig_plan_cache *cache, const ig_plan_args *args) {
    const ig_graph *g = args->graph;
    const ig_node *node = &g->nodes[args->first];
    const uint32_t header[] = {node->op, node->tag, node->n_in, node->n_out};
    const size_t attrs_bytes = ig_op_find(node->op)->attrs_bytes;
    const size_t most =
        sizeof header + attrs_bytes + ((size_t)node->n_in + node->n_out) * MOST_OPERAND_BYTES;
    if (!IG_GROW(cache->allocator, cache->key, &cache->key_room, most)) return 0;

    char *to = put(cache->key, header, sizeof header);
    if (attrs_bytes) to = put(to, ig_node_attrs(g, node), attrs_bytes);
    for (uint32_t i = 0; i < node->n_in; i++) to = put_operand(to, args, ig_node_in(g, node)[i]);
    for (uint32_t i = 0; i < node->n_out; i++) to = put_operand(to, args, node->out + i);
    return (size_t)(to - cache->key);
}

/* The slot of the entry with the key, or the empty slot for it. */
static uint32_t *find(const ig_plan_cache *cache, uint64_t hash, const char *key, size_t bytes) {
    for (size_t i = hash;; i++) {
        uint32_t *at = &cache->table[i & (cache->room - 1)];
        if (*at == 0) return at;
        const ig_plan_entry *e = &cache->entries[*at - 1];
        if (e->hash == hash && e->key_bytes == bytes && memcmp(e->key, key, bytes) == 0) return at;
    }
}

/* ---- plans that go ---- */

static bool same_past(const ig_past *a, const ig_past *b) {
    return strcmp(a->was.module, b->was.module) == 0 && strcmp(a->was.device, b->was.device) == 0 &&
           memcmp(a->was.attempts, b->was.attempts, sizeof a->was.attempts) == 0;
}

/* Out of memory only loses an old entry. */
static void add_past(ig_plan_cache *cache, const ig_past *new) {
    size_t i = 0;
    while (i < cache->n_past && !same_past(&cache->past[i], new)) i++;
    if (i == cache->n_past) {
        if (!IG_GROW(cache->allocator, cache->past, &cache->past_room, i + 1)) return;
        cache->past[cache->n_past++] = *new;
        return;
    }
    ig_past *p = &cache->past[i];
    p->plans += new->plans;
    p->n_runs += new->n_runs;
    p->moved_bytes += new->moved_bytes;
    p->lost_ns += new->lost_ns;
}

static void remember(ig_plan_cache *cache, const ig_plan *plan) {
    for (uint32_t i = 0; i < plan->n_segments; i++) {
        const ig_segment *s = &plan->segments[i];
        ig_past p;
        memset(&p, 0, sizeof p); /* attempts are compared with their padding */
        snprintf(p.was.module, sizeof p.was.module, "%s",
                 ig_plan_step_name(plan->planner, &plan->steps[s->first]));
        snprintf(p.was.device, sizeof p.was.device, "%s", ig_segment_device(s));
        memcpy(p.fallback, s->fallback, sizeof p.fallback);
        for (int k = 0; k < IG_ATTEMPTS; k++) {
            ig_attempt *a = &p.was.attempts[k];
            a->level = s->attempts[k].level;
            a->ok = s->attempts[k].ok;
            a->selected = s->attempts[k].selected;
            snprintf(a->reason, sizeof a->reason, "%s", s->attempts[k].reason);
        }
        p.plans = 1;
        p.n_runs = s->n_runs;
        p.moved_bytes = s->transferred_bytes;
        p.lost_ns = s->lost_ns;
        add_past(cache, &p);
    }
}

static void clear(ig_plan_cache *cache) {
    for (size_t i = 0; i < cache->count; i++) {
        ig_plan_destroy(cache->entries[i].plan);
        ig_free(cache->allocator, cache->entries[i].key);
    }
    if (cache->room) memset(cache->table, 0, cache->room * sizeof *cache->table);
    cache->count = 0;
}

/* Keeps a quarter of the table free. When there are too many plans, all are dropped. */
static bool make_room(ig_plan_cache *cache) {
    if (cache->count >= IG_PLAN_CACHE_MOST) {
        for (size_t i = 0; i < cache->count; i++) remember(cache, cache->entries[i].plan);
        clear(cache);
    }
    if (!IG_GROW(cache->allocator, cache->entries, &cache->entries_room, cache->count + 1))
        return false;
    if (cache->room && cache->count + 1 <= cache->room / 4 * 3) return true;
    ig_plan_cache larger = *cache;
    larger.room = cache->room ? cache->room * 2 : FIRST_ROOM;
    larger.table = ig_alloc(cache->allocator, larger.room, sizeof *larger.table);
    if (!larger.table) return false;
    for (size_t i = 0; i < cache->count; i++) {
        const ig_plan_entry *e = &cache->entries[i];
        *find(&larger, e->hash, e->key, e->key_bytes) = (uint32_t)i + 1;
    }
    ig_free(cache->allocator, cache->table);
    *cache = larger;
    return true;
}

static ig_status add(ig_plan_cache *cache, const ig_planner *planner, ig_plan_args args,
                     uint64_t hash, size_t bytes, const ig_plan **out) {
    char *key = make_room(cache) ? ig_alloc(cache->allocator, bytes, 1) : NULL;
    if (!key) return IG_FAIL(IG_ERR_MEMORY, "plan cache: %zu plans", cache->count);
    memcpy(key, cache->key, bytes);
    ig_plan *plan = NULL;
    const ig_status status = ig_plan_create(planner, args, &plan);
    if (status != IG_OK) {
        ig_free(cache->allocator, key);
        return status;
    }
    *find(cache, hash, key, bytes) = (uint32_t)cache->count + 1;
    cache->entries[cache->count++] = (ig_plan_entry){hash, (uint32_t)bytes, key, plan};
    cache->misses++;
    *out = plan;
    return IG_OK;
}

ig_status ig_plan_cache_get(ig_plan_cache *cache, const ig_planner *planner, ig_plan_args args,
                            const ig_plan **out) {
    const size_t bytes = write_key(cache, &args);
    if (bytes == 0) return IG_FAIL(IG_ERR_MEMORY, "plan cache: key");
    const uint64_t hash = XXH3_64bits(cache->key, bytes);
    if (cache->room) {
        const uint32_t at = *find(cache, hash, cache->key, bytes);
        if (at > 0) {
            cache->hits++;
            *out = cache->entries[at - 1].plan;
            return IG_OK;
        }
    }
    return add(cache, planner, args, hash, bytes, out);
}

void ig_plan_cache_init(ig_plan_cache *cache, const ig_allocator *allocator) {
    *cache = (ig_plan_cache){.allocator = allocator};
}

void ig_plan_cache_deinit(ig_plan_cache *cache) {
    if (!cache->allocator) return;
    clear(cache);
    ig_free(cache->allocator, cache->table);
    ig_free(cache->allocator, cache->entries);
    ig_free(cache->allocator, cache->key);
    ig_free(cache->allocator, cache->past);
}
