/*
 * Slots as files.  An idle slot has no pages of its own: its text is attached from the prefix cache
 * to be saved, and is given to the prefix cache once it is restored.
 */
#include "engine/scheduler.h"

typedef struct slot_work {
    ig_engine *engine;
    int32_t slot;
    const char *path;
    ig_salt_digest salt;
    int64_t n_tokens;
} slot_work;

static ig_prefix text_of(const ig_engine *e, int32_t slot) {
    return (ig_prefix){&e->texts[slot].salt, ig_session_tokens(e->session, slot),
                       e->texts[slot].n_tokens};
}

static ig_status need_text(const slot_work *w, int64_t n_tokens) {
    if (n_tokens > 0) return IG_OK;
    return IG_FAIL(IG_ERR_STATE, "engine: slot %d has no text, or the prefix cache has evicted it",
                   w->slot);
}

static ig_status need_idle(const slot_work *w) {
    const ig_reply *r = w->engine->slots[w->slot];
    if (!r) return IG_OK;
    return IG_FAIL(IG_ERR_BUSY, "engine: slot %d runs request %llu", w->slot,
                   (unsigned long long)r->job->stats.id);
}

static ig_status save_text(slot_work *w) {
    w->n_tokens = ig_session_length(w->engine->session, w->slot);
    IG_TRY(need_text(w, w->n_tokens));
    return ig_session_save(w->engine->session, w->slot, w->path);
}

static ig_status save(ig_adapter *adapter, void *user) {
    slot_work *w = user;
    ig_engine *e = w->engine;
    ig_prefix_miss miss;
    (void)adapter;
    if (e->slots[w->slot]) return save_text(w);
    if (e->prefix_cache)
        ig_prefix_cache_attach(e->prefix_cache, text_of(e, w->slot), w->slot, &miss);
    const ig_status status = save_text(w);
    ig_pages_truncate(&e->session->pages, w->slot, 0);
    return status;
}

static ig_status restore(ig_adapter *adapter, void *user) {
    slot_work *w = user;
    ig_engine *e = w->engine;
    (void)adapter;
    IG_TRY(need_idle(w));
    if (!e->prefix_cache)
        return IG_FAIL(IG_ERR_STATE, "engine: there is no prefix cache to restore to");
    e->texts[w->slot].n_tokens = 0;
    ig_status status = ig_session_load(e->session, w->slot, w->path);
    if (status == IG_ERR_MEMORY) { /* the pages may be the prefix cache's */
        ig_prefix_cache_evict(e->prefix_cache, e->session->pages.per_sequence);
        status = ig_session_load(e->session, w->slot, w->path);
    }
    IG_TRY(status);
    w->n_tokens = ig_session_length(e->session, w->slot);
    e->texts[w->slot] = (ig_slot_text){w->n_tokens, w->salt};
    ig_prefix_cache_add(e->prefix_cache, text_of(e, w->slot), w->slot, true);
    ig_pages_truncate(&e->session->pages, w->slot, 0);
    return IG_OK;
}

static ig_status erase(ig_adapter *adapter, void *user) {
    slot_work *w = user;
    ig_engine *e = w->engine;
    (void)adapter;
    IG_TRY(need_idle(w));
    const int64_t length = e->texts[w->slot].n_tokens;
    IG_TRY(need_text(w, length));
    const int32_t pages =
        e->prefix_cache ? ig_prefix_cache_forget(e->prefix_cache, text_of(e, w->slot)) : 0;
    const int64_t most = (int64_t)pages * IG_PAGE_TOKENS;
    w->n_tokens = most < length ? most : length;
    e->texts[w->slot].n_tokens = 0;
    return IG_OK;
}

/* Runs one of these between two steps. */
static ig_status work_on(ig_engine *e, int64_t i, slot_work *w, int64_t *out_tokens,
                         ig_status (*call)(ig_adapter *adapter, void *user)) {
    if (!e || i < 0 || i >= e->n_slots)
        return IG_FAIL(IG_ERR_ARGUMENT, "engine: slot %lld of %lld", (long long)i,
                       (long long)(e ? e->n_slots : 0));
    w->engine = e;
    w->slot = (int32_t)i;
    IG_TRY(ig_engine_call(e, call, w));
    if (out_tokens) *out_tokens = w->n_tokens;
    return IG_OK;
}

ig_status ig_engine_save_slot(ig_engine *e, int64_t i, const char *path, int64_t *out_tokens) {
    if (!path) return IG_FAIL(IG_ERR_ARGUMENT, "engine_save_slot: NULL");
    return work_on(e, i, &(slot_work){.path = path}, out_tokens, save);
}

ig_status ig_engine_restore_slot(ig_engine *e, int64_t i, const char *path, const void *salt,
                                 size_t salt_bytes, int64_t *out_tokens) {
    if (!path) return IG_FAIL(IG_ERR_ARGUMENT, "engine_restore_slot: NULL");
    slot_work w = {.path = path, .salt = ig_salt_digest_of(salt, salt_bytes)};
    return work_on(e, i, &w, out_tokens, restore);
}

ig_status ig_engine_erase_slot(ig_engine *e, int64_t i, int64_t *out_tokens) {
    return work_on(e, i, &(slot_work){0}, out_tokens, erase);
}
