/*
 * Storage: the host's memory by size class.  What is released goes to the pool of
 * its class and comes back with the next request, so a training loop settles
 * after its first step.
 */
#include "runtime/ctx.h"

/* Four classes for each power of two: at most a quarter is wasted.  From 64 bytes on. */
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

static void drop_mirror(const ig_ctx *ctx, ig_storage *s) {
    if (s->mirror.buffer) ig_mirror_drop(&s->mirror, ig_ctx_far(ctx));
}

ig_status ig_storage_to_host(ig_ctx *ctx, ig_storage *s) {
    const bool old = s->mirror.host_old || s->mirror.n_late > 0;
    return old ? ig_mirror_to_host(&s->mirror, ig_ctx_far(ctx)) : IG_OK;
}

ig_status ig_storage_part_to_host(ig_ctx *ctx, ig_storage *s, uint64_t offset, uint64_t bytes) {
    if (s->mirror.host_old) return ig_storage_to_host(ctx, s);
    if (s->mirror.n_late == 0) return IG_OK;
    return ig_mirror_catch_up(&s->mirror, ig_ctx_far(ctx), offset, bytes);
}

void ig_pool_drain(ig_ctx *ctx) {
    for (int i = 0; i < IG_POOL_CLASSES; i++)
        for (ig_storage *s; (s = ctx->pool[i]) != NULL;) {
            ctx->pool[i] = s->next;
            drop_mirror(ctx, s);
            ig_device_free(ig_ctx_near(ctx), s->buffer, s->bytes);
            ig_free(&ctx->allocator, s);
        }
}

ig_status ig_storage_promise(ig_ctx *ctx, uint64_t bytes, ig_storage **out) {
    uint64_t rounded;
    ig_storage *s = NULL;
    if (class_of(bytes, &rounded) < IG_POOL_CLASSES) s = ig_alloc(&ctx->allocator, 1, sizeof *s);
    if (!s) return IG_FAIL(IG_ERR_MEMORY, "a tensor of %llu bytes", (unsigned long long)bytes);
    s->refs = 1;
    s->bytes = rounded;
    *out = s;
    return IG_OK;
}

ig_status ig_storage_fulfil(ig_ctx *ctx, ig_storage *s) {
    if (s->buffer) return IG_OK;
    ig_status status = ig_device_alloc(ig_ctx_near(ctx), s->bytes, &s->buffer);
    if (status != IG_OK) { /* what lies unused in the pool may be enough */
        ig_pool_drain(ctx);
        status = ig_device_alloc(ig_ctx_near(ctx), s->bytes, &s->buffer);
    }
    if (status != IG_OK) return status;
    ig_ask_large_pages(s->buffer, s->bytes); /* what is as large, caches say, is read at length */
    s->zeroed = true;                        /* as all memory of the host comes */
    s->mirror = (ig_mirror){.host = (char *)s->buffer, .bytes = s->bytes};
    ig_mirror_wrote_host(&s->mirror); /* whatever is there is nobody's */
    return IG_OK;
}

void ig_ctx_release_memory(ig_ctx *ctx) {
    if (ctx) ig_pool_drain(ctx);
}

ig_status ig_storage_create(ig_ctx *ctx, uint64_t bytes, ig_storage **out) {
    uint64_t rounded;
    const uint32_t class = class_of(bytes, &rounded);
    ig_storage *s = class < IG_POOL_CLASSES ? ctx->pool[class] : NULL;
    if (!s) {
        IG_TRY(ig_storage_promise(ctx, bytes, &s));
        const ig_status status = ig_storage_fulfil(ctx, s);
        if (status == IG_OK)
            *out = s;
        else
            ig_storage_release(ctx, s);
        return status;
    }
    ctx->pool[class] = s->next;
    s->zeroed = false;
    ig_mirror_wrote_host(&s->mirror); /* whatever is there is nobody's */
    s->mirror.shared = s->frozen = false;
    s->mirror.n_late = 0;
    s->refs = 1;
    s->version = 0;
    s->of_caller = false;
    s->next = NULL;
    *out = s;
    return IG_OK;
}

void ig_storage_adopt(ig_ctx *ctx, ig_storage *s, const ig_storage *outside) {
    drop_mirror(ctx, s);
    if (s->wrapped) {
        if (s->release) s->release(s->owner);
    } else {
        ig_device_free(ig_ctx_near(ctx), s->buffer, s->bytes);
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

bool ig_storage_overlaps(const ig_storage *a, const ig_storage *b) {
    const uintptr_t x = (uintptr_t)a->buffer, y = (uintptr_t)b->buffer;
    return a == b || (x < y + b->bytes && y < x + a->bytes);
}

ig_storage *ig_storage_retain(ig_storage *storage) {
    storage->refs++;
    return storage;
}

void ig_storage_release(ig_ctx *ctx, ig_storage *s) {
    if (!s || --s->refs > 0) return;
    if (s->wrapped) {
        drop_mirror(ctx, s);
        if (s->release) s->release(s->owner);
        ig_free(&ctx->allocator, s);
        return;
    }
    if (!s->buffer) {
        ig_free(&ctx->allocator, s);
        return;
    }
    uint64_t rounded;
    const uint32_t class = class_of(s->bytes, &rounded);
    s->next = ctx->pool[class];
    ctx->pool[class] = s;
}

void ig_arena_free(ig_ctx *ctx) {
    drop_mirror(ctx, &ctx->arena);
    ig_device_free(ig_ctx_near(ctx), ctx->arena.buffer, ctx->arena.bytes);
}

ig_status ig_arena_reserve(ig_ctx *ctx, uint64_t bytes) {
    if (bytes <= ctx->arena.bytes) return IG_OK;
    ig_backend_buffer *larger = NULL;
    IG_TRY(ig_device_alloc(ig_ctx_near(ctx), bytes, &larger));
    drop_mirror(ctx, &ctx->arena);
    ig_device_free(ig_ctx_near(ctx), ctx->arena.buffer, ctx->arena.bytes);
    ctx->arena.buffer = larger;
    ctx->arena.bytes = bytes;
    ctx->arena.mirror = (ig_mirror){.host = (char *)larger, .bytes = bytes};
    return IG_OK;
}
