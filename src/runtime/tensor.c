/*
 * Tensor handles: references, slabs and scopes.
 *
 *     slab     [t][t][t]...[t] > next slab      63 handles each, freed with the context
 *     free     oldest > ... > newest            taken from the front, returned at the end
 *     scopes   [0]: outermost, [1] ...          a list of tensors each, newest first
 *
 * Invariants. refs = retains of callers + 1 if in_scope + 1 if replayed. A handle is in at most one
 * list: that of its scope or the free list. A released handle keeps its memory and is reused last,
 * so using a stale handle is an error with a message instead of a crash. Poison and the null tensor
 * are not counted: retain and release ignore them.
 *
 * Cost: retain, release and a new handle take constant time; only a new slab allocates.
 */
#include "runtime/ctx.h"

static const ig_tensor null_tensor = {.alive = IG_TENSOR_ALIVE, .refs = 1};

/* Never written: it has no storage, and every writing call checks that first. */
ig_tensor *ig_null_tensor(void) { return (ig_tensor *)&null_tensor; }

/* Only called while the free list is empty: the new handles become the free list. */
static bool add_slab(ig_ctx *ctx) {
    ig_tensor_slab *slab = ig_alloc(&ctx->allocator, 1, sizeof *slab);
    if (!slab) return false;
    slab->next = ctx->handles.slabs;
    ctx->handles.slabs = slab;
    const size_t count = IG_SLAB_TENSORS;
    for (size_t i = 0; i + 1 < count; i++) slab->tensors[i].next = &slab->tensors[i + 1];
    ctx->handles.free_first = &slab->tensors[0];
    ctx->handles.free_last = &slab->tensors[count - 1];
    return true;
}

/* The id is new even if the memory is reused, so recordings and batches notice. */
ig_tensor *ig_tensor_new(ig_ctx *ctx, ig_layout layout, ig_storage *storage) {
    if (!ctx->handles.free_first && !add_slab(ctx)) {
        ig_storage_release(&ctx->memory, storage);
        return NULL;
    }
    ig_tensor *t = ctx->handles.free_first;
    ctx->handles.free_first = t->next;
    if (!ctx->handles.free_first) ctx->handles.free_last = NULL;
    *t = (ig_tensor){.alive = IG_TENSOR_ALIVE,
                     .refs = 1,
                     .ctx = ctx,
                     .storage = storage,
                     .layout = layout,
                     .id = ++ctx->handles.n_ids};
    ctx->counters.tensors++;
    return t;
}

/* The last reference is gone: releases the storage, the gradient and the name, and appends the
 * handle to the free list. */
static void give_back(ig_tensor *t) {
    ig_ctx *ctx = t->ctx;
    t->alive = 0;
    ig_tensor_release(t->grad);
    t->grad = NULL;
    ig_free(&ctx->allocator, t->name);
    t->name = NULL;
    ig_storage_release(&ctx->memory, t->storage);
    t->storage = NULL;
    t->next = NULL;
    if (ctx->handles.free_last)
        ctx->handles.free_last->next = t;
    else
        ctx->handles.free_first = t;
    ctx->handles.free_last = t;
    ctx->counters.tensors--;
}

/* Stale handles and static ones are not counted. */
static bool is_counted(const ig_tensor *t) {
    return t && t->alive == IG_TENSOR_ALIVE && t->ctx && t != &t->ctx->handles.poison;
}

/* Retaining a result makes its recording keep the value in replays. */
ig_tensor *ig_tensor_retain(ig_tensor *tensor) {
    if (!is_counted(tensor)) return tensor;
    tensor->refs++;
    if (tensor->cell) ig_replay_retain(tensor);
    return tensor;
}

/* A caller may release only its own references: those of the scope and the recording stay. A
 * replayed handle without other references is stale until the next replay returns it again. */
void ig_tensor_release(ig_tensor *tensor) {
    if (!is_counted(tensor)) return;
    const uint32_t not_the_caller_s = (uint32_t)tensor->in_scope + tensor->replayed;
    if (tensor->refs == not_the_caller_s && tensor->in_scope) return;
    if (tensor->refs == 1 && tensor->state) ig_replay_release(tensor);
    if (--tensor->refs == 0)
        give_back(tensor);
    else if (tensor->refs == 1 && tensor->replayed)
        tensor->alive = 0; /* until the next replay */
}

void ig_tensor_give_up(ig_tensor *tensor) {
    if (!tensor) return;
    const bool held = tensor->alive == IG_TENSOR_ALIVE;
    tensor->replayed = false;
    if (!held)
        give_back(tensor); /* only the recording references it */
    else
        tensor->refs--;
}

/* Scope [depth] exists: ig_scope_begin() reserved it. */
ig_tensor *ig_tensor_to_scope(ig_tensor *tensor) {
    ig_ctx *ctx = tensor->ctx;
    tensor->in_scope = true;
    tensor->next = ctx->handles.scopes[ctx->handles.depth];
    ctx->handles.scopes[ctx->handles.depth] = tensor;
    return tensor;
}

/* Also drops values whose nodes a backward is about to cut off. */
void ig_scope_release(ig_ctx *ctx, uint32_t depth) {
    for (ig_tensor *t; (t = ctx->handles.scopes[depth]) != NULL;) {
        ctx->handles.scopes[depth] = t->next;
        t->next = NULL;
        t->in_scope = false;
        if (ig_is_passing(ctx)) t->value = IG_NO_VALUE;
        ig_tensor_release(t);
    }
}

/* NULL `ctx`: any context is accepted. */
ig_status ig_tensor_check(const ig_tensor *tensor, const ig_ctx *ctx, const char *what) {
    if (!tensor || tensor == &null_tensor)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: a tensor is NULL", what);
    if (tensor->alive != IG_TENSOR_ALIVE)
        return IG_FAIL(
            IG_ERR_STATE,
            "%s: the tensor was released with its scope or step; ig_tensor_retain() keeps it",
            what);
    if (ctx && tensor->ctx != ctx)
        return IG_FAIL(IG_ERR_ARGUMENT, "%s: a tensor belongs to another context", what);
    return IG_OK;
}

/* Reading a lost result makes the recording keep it from the next step on. */
ig_status ig_tensor_missing(const ig_tensor *tensor, const char *what) {
    if (!tensor->lost)
        return IG_FAIL(IG_ERR_STATE, "%s: the tensor comes from an op that failed", what);
    ig_replay_used(tensor->ctx, tensor);
    return IG_FAIL(IG_ERR_STATE,
                   "%s: the replayed step did not keep this result; it does from the next step on "
                   "(results that are read or retained in the first step are kept)",
                   what);
}

ig_status ig_tensor_check_usable(const ig_tensor *tensor, const char *what) {
    IG_TRY(ig_tensor_check(tensor, NULL, what));
    if (tensor->storage) return IG_OK;
    IG_TRY(ig_graph_take_error(&tensor->ctx->tape.graph));
    return ig_tensor_missing(tensor, what);
}

ig_status ig_tensor_check_writable(const ig_tensor *tensor, const char *what) {
    if (!tensor->storage->frozen) return IG_OK;
    return IG_FAIL(IG_ERR_STATE, "%s: %s is frozen", what,
                   tensor->name ? tensor->name : "the tensor");
}

/* Handles that callers did not release are freed with the context; their storages return to the
 * pool. */
void ig_handles_deinit(ig_ctx *ctx) {
    for (uint32_t d = 0; ctx->handles.scopes && d <= ctx->handles.depth; d++)
        ig_scope_release(ctx, d);
    for (ig_tensor_slab *slab; (slab = ctx->handles.slabs) != NULL;) {
        for (size_t i = 0; i < IG_SLAB_TENSORS; i++) {
            ig_tensor *t = &slab->tensors[i];
            if (t->alive != IG_TENSOR_ALIVE) continue;
            ig_storage_release(&ctx->memory, t->storage); /* unreleased handles */
            ig_free(&ctx->allocator, t->name);
        }
        ctx->handles.slabs = slab->next;
        ig_free(&ctx->allocator, slab);
    }
    ig_free(&ctx->allocator, (void *)ctx->handles.scopes);
}
