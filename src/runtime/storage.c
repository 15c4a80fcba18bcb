/*
 * Storage: host memory by size class.
 *
 *     create > pool of the class has one?   yes: reuse it, contents as left by its last user
 *                                           no: reserve + commit, zeroed by the OS
 *     release > 0 references                to the pool of its class; wrapped memory to its owner
 *
 * A training loop requests the same sizes in every step, so it allocates nothing after the first.
 * The pool is freed when a device runs out of memory, after planning a recording, and on request.
 *
 * Buffers are accounted to the device that works in host memory, rounded up to their class.
 */
#include "runtime/storage.h"

#include "base/alloc.h"

/* Four classes per power of two, from 64 bytes on: at most a quarter is wasted. */
static uint32_t class_of(uint64_t bytes, uint64_t *rounded) {
    if (bytes <= 64) {
        *rounded = 64;
        return 0;
    }
    const uint64_t last = bytes - 1;
    const uint32_t top = 63u - (uint32_t)__builtin_clzll(last); /* 6 or more */
    const uint32_t quarter = (uint32_t)(last >> (top - 2)) & 3;
    *rounded = (uint64_t)(5 + quarter) << (top - 2);
    return (top - 6) * 4 + quarter + 1;
}

static ig_device *host_device(const ig_memory *m) {
    return ig_planner_host_device(&m->devices->planner);
}

void ig_storage_drop_mirror(const ig_memory *m, ig_storage *s) {
    if (s->mirror.buffer) ig_mirror_drop(&s->mirror, ig_devices_remote(m->devices));
}

/* n_late: ranges that only the device has up to date, recorded instead of copied (mirror.h). */
ig_status ig_storage_to_host(ig_memory *m, ig_storage *s) {
    const bool old = s->mirror.host_old || s->mirror.n_late > 0;
    return old ? ig_mirror_to_host(&s->mirror, ig_devices_remote(m->devices)) : IG_OK;
}

ig_status ig_storage_range_to_host(ig_memory *m, ig_storage *s, uint64_t offset, uint64_t bytes) {
    if (s->mirror.host_old) return ig_storage_to_host(m, s);
    if (s->mirror.n_late == 0) return IG_OK;
    return ig_mirror_catch_up(&s->mirror, ig_devices_remote(m->devices), offset, bytes);
}

void ig_pool_drain(ig_memory *m) {
    for (int i = 0; i < IG_POOL_CLASSES; i++)
        for (ig_storage *s; (s = m->pool[i]) != NULL;) {
            m->pool[i] = s->next;
            ig_storage_drop_mirror(m, s);
            ig_device_free(host_device(m), s->buffer, s->bytes);
            ig_free(m->allocator, s);
        }
}

ig_status ig_storage_reserve(ig_memory *m, uint64_t bytes, ig_storage **out) {
    uint64_t rounded;
    ig_storage *s = NULL;
    if (class_of(bytes, &rounded) < IG_POOL_CLASSES) s = ig_alloc(m->allocator, 1, sizeof *s);
    if (!s) return IG_FAIL(IG_ERR_MEMORY, "a tensor of %llu bytes", (unsigned long long)bytes);
    s->refs = 1;
    s->bytes = rounded;
    *out = s;
    return IG_OK;
}

ig_status ig_storage_commit(ig_memory *m, ig_storage *s) {
    if (s->buffer) return IG_OK;
    ig_status status = ig_device_alloc(host_device(m), s->bytes, &s->buffer);
    if (status != IG_OK) { /* freeing the pool may help */
        ig_pool_drain(m);
        status = ig_device_alloc(host_device(m), s->bytes, &s->buffer);
    }
    if (status != IG_OK) return status;
    ig_ask_large_pages(s->buffer, s->bytes); /* e.g. KV caches: read sequentially */
    s->zeroed = true;                        /* fresh host memory is zeroed */
    s->mirror = (ig_mirror){.host = (char *)s->buffer, .bytes = s->bytes};
    ig_mirror_wrote_host(&s->mirror); /* the contents are undefined */
    return IG_OK;
}

ig_status ig_storage_create(ig_memory *m, uint64_t bytes, ig_storage **out) {
    uint64_t rounded;
    const uint32_t class = class_of(bytes, &rounded);
    ig_storage *s = class < IG_POOL_CLASSES ? m->pool[class] : NULL;
    if (!s) {
        IG_TRY(ig_storage_reserve(m, bytes, &s));
        const ig_status status = ig_storage_commit(m, s);
        if (status == IG_OK)
            *out = s;
        else
            ig_storage_release(m, s);
        return status;
    }
    m->pool[class] = s->next;
    s->zeroed = false;
    ig_mirror_wrote_host(&s->mirror); /* the contents are undefined */
    s->mirror.shared = s->frozen = false;
    s->mirror.n_late = 0;
    s->refs = 1;
    s->version = 0;
    s->of_caller = false;
    s->next = NULL;
    *out = s;
    return IG_OK;
}

/* All views see the new memory; the version tells backwards that the bytes changed. */
void ig_storage_adopt(ig_memory *m, ig_storage *s, const ig_storage *outside) {
    ig_storage_drop_mirror(m, s);
    if (s->wrapped) {
        if (s->release) s->release(s->owner);
    } else {
        ig_device_free(host_device(m), s->buffer, s->bytes);
    }
    s->buffer = outside->buffer;
    s->bytes = outside->bytes;
    s->release = outside->release;
    s->owner = outside->owner;
    s->wrapped = true;
    s->mirror = (ig_mirror){
        .host = (char *)s->buffer, .bytes = s->bytes, .device_old = true, .shared = true};
    s->version++;
}

/* Compares addresses: two wrapped tensors may share memory without sharing a storage. */
bool ig_storage_overlaps(const ig_storage *a, const ig_storage *b) {
    const uintptr_t x = (uintptr_t)a->buffer, y = (uintptr_t)b->buffer;
    return a == b || (x < y + b->bytes && y < x + a->bytes);
}

ig_storage *ig_storage_retain(ig_storage *storage) {
    storage->refs++;
    return storage;
}

void ig_storage_release(ig_memory *m, ig_storage *s) {
    if (!s || --s->refs > 0) return;
    if (s->wrapped) {
        ig_storage_drop_mirror(m, s);
        if (s->release) s->release(s->owner);
        ig_free(m->allocator, s);
        return;
    }
    if (!s->buffer) {
        ig_free(m->allocator, s);
        return;
    }
    uint64_t rounded;
    const uint32_t class = class_of(s->bytes, &rounded);
    s->next = m->pool[class];
    m->pool[class] = s;
}

void ig_arena_free(ig_memory *m) {
    ig_storage_drop_mirror(m, &m->arena);
    ig_device_free(host_device(m), m->arena.buffer, m->arena.bytes);
}

ig_status ig_arena_reserve(ig_memory *m, uint64_t bytes) {
    if (bytes <= m->arena.bytes) return IG_OK;
    ig_backend_buffer *larger = NULL;
    IG_TRY(ig_device_alloc(host_device(m), bytes, &larger));
    ig_storage_drop_mirror(m, &m->arena);
    ig_device_free(host_device(m), m->arena.buffer, m->arena.bytes);
    m->arena.buffer = larger;
    m->arena.bytes = bytes;
    m->arena.mirror = (ig_mirror){.host = (char *)larger, .bytes = bytes};
    return IG_OK;
}
