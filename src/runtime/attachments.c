#include "runtime/attachments.h"

#include "runtime/ctx_host.h"

void ig_attachments_deinit(ig_attachments *all, const ig_allocator *allocator) {
    for (size_t i = all->count; i > 0; i--)
        if (all->at[i - 1].destroy) all->at[i - 1].destroy(all->at[i - 1].data);
    ig_free(allocator, all->at);
    *all = (ig_attachments){0};
}

void *ig_ctx_attached(const ig_ctx *ctx, const void *key) {
    const ig_attachments *all = &ig_ctx_get_host(ctx)->attachments;
    for (size_t i = 0; i < all->count; i++)
        if (all->at[i].key == key) return all->at[i].data;
    return NULL;
}

ig_status ig_ctx_attach(ig_ctx *ctx, const void *key, void *data, void (*destroy)(void *data)) {
    if (!ctx || !key || !data) return IG_FAIL(IG_ERR_ARGUMENT, "ctx_attach: NULL");
    ig_attachments *all = &ig_ctx_get_host(ctx)->attachments;
    if (ig_ctx_attached(ctx, key))
        return IG_FAIL(IG_ERR_STATE, "ctx_attach: the key has data already");
    if (!IG_GROW(ig_ctx_allocator(ctx), all->at, &all->room, all->count + 1))
        return IG_FAIL(IG_ERR_MEMORY, "ctx_attach: %zu attachments", all->count);
    all->at[all->count++] = (ig_attachment){key, data, destroy};
    return IG_OK;
}
