/*
 * Results of replays as the caller holds them.
 *
 * A recording has one handle for each result and hands the same one out in every
 * step.  It points into the arena.  A handle that somebody still holds when the
 * next step begins leaves the recording and gets memory of its own; the bytes
 * are there if the plan keeps the value to its end.  What is worth keeping the
 * recording learns from what callers do: read, retain, use in a later step.
 */
#include <string.h>

#include "base/quant_blocks.h"
#include "runtime/ctx.h"

/* The tensor that brings the memory a value lies in; false: it lies in the arena. */
static bool bind_of(const ig_recording *r, ig_value base, ig_ref *out) {
    for (size_t i = 0; i < r->n_binds; i++)
        if (r->binds[i].value == base) {
            *out = r->binds[i].ref;
            return true;
        }
    return false;
}

void ig_handle_point(ig_ctx *ctx, const ig_recording *r, const ig_cell *cell, ig_tensor *handle) {
    const ig_value_info *info = ig_value_at(&r->graph, cell->value);
    ig_storage *storage = &ctx->arena;
    ig_ref ref;
    handle->layout = info->layout;
    if (bind_of(r, info->base, &ref)) {
        storage = ig_replay_bound(ctx, ref)->storage;
    } else {
        const uint64_t offset = r->plan->homes[info->base].offset;
        if (offset != IG_NOT_THERE)
            handle->layout.offset += ig_elements_of(info->layout.desc.dtype, (int64_t)offset);
    }
    ig_storage_retain(storage);
    ig_storage_release(ctx, handle->storage);
    handle->storage = storage;
}

ig_tensor *ig_handle_out(ig_ctx *ctx, uint32_t index) {
    const ig_recorder *rec = &ctx->recorder;
    ig_cell *cell = &rec->now->cells[index];
    ig_tensor *t = cell->handle;
    if (!t) {
        t = ig_tensor_new(ctx, (ig_layout){0}, NULL);
        if (!t) return NULL;
        t->made_by_op = t->replayed = true;
        t->cell = index + 1;
        t->recording = rec->now->number;
        cell->handle = t;
    }
    /* A view of a leaf has to be pointed anew: that may be another tensor now. */
    if (t->storage != &ctx->arena) ig_handle_point(ctx, rec->now, cell, t);
    t->alive = IG_TENSOR_ALIVE;
    t->refs = 2; /* the recording's and the scope's */
    t->run = rec->run;
    return ig_tensor_to_scope(t);
}

bool ig_plan_holds(const ig_plan *plan, ig_value base, uint32_t parts) {
    const ig_home home = plan->homes[base];
    const uint32_t levels = parts < plan->n_parts ? plan->part_levels[parts] : plan->n_levels;
    /* What the last level may read lies there still, whether anybody comes after it or not. */
    return home.offset != IG_NOT_THERE && (home.last == UINT32_MAX || home.last + 1 >= levels);
}

void ig_handle_detach(ig_ctx *ctx, ig_recording *r, ig_cell *cell, bool there) {
    ig_tensor *t = cell->handle;
    uint64_t bytes = 0;
    cell->handle = NULL;
    t->replayed = false;
    t->refs--;
    if (t->storage != &ctx->arena) return;
    const ig_value base = ig_value_at(&r->graph, cell->value)->base;
    const ig_home home = r->plan->homes[base];
    const ig_desc desc = ig_value_at(&r->graph, base)->layout.desc;
    ig_storage *own = NULL;
    (void)ig_desc_bytes(desc, &bytes);
    if (there && ig_storage_part_to_host(ctx, &ctx->arena, home.offset, bytes) != IG_OK)
        there = false; /* the device that has it is lost */
    if (there && ig_storage_create(ctx, bytes, &own) == IG_OK) { /* all is host memory here */
        memcpy((void *)own->buffer, (const char *)ctx->arena.buffer + home.offset, bytes);
        t->layout.offset -= ig_elements_of(desc.dtype, (int64_t)home.offset);
    }
    ig_storage_release(ctx, t->storage);
    t->storage = own;
}

void ig_replay_detach(ig_ctx *ctx) {
    ig_recording *r = ctx->recorder.now;
    for (size_t i = 0; r && r->plan && i < r->n_cells; i++) {
        ig_tensor *t = r->cells[i].handle;
        if (!t || t->alive != IG_TENSOR_ALIVE) continue;
        const ig_value base = ig_value_at(&r->graph, r->cells[i].value)->base;
        ig_handle_detach(ctx, r, &r->cells[i], ig_plan_holds(r->plan, base, r->plan->n_parts));
        t->lost = !t->storage;
    }
}

/* ---- what is worth keeping ---- */

static void keep(ig_recording *r, uint32_t cell) {
    if (cell == 0 || cell > r->n_cells || r->cells[cell - 1].kept) return;
    r->cells[cell - 1].kept = true;
    r->stale = r->plan != NULL;
}

void ig_replay_used(ig_ctx *ctx, const ig_tensor *t) {
    const ig_recorder *rec = &ctx->recorder;
    for (uint32_t i = 0; t->cell && i < rec->count; i++)
        if (rec->all[i]->number == t->recording || rec->all[i]->also == t->recording)
            keep(rec->all[i], t->cell);
}

/* Whether the plan at hand keeps the result to its end. */
static bool is_kept(const ig_ctx *ctx, const ig_recording *r, const ig_tensor *t) {
    if (r->cells[t->cell - 1].kept) return true;
    if (!r->plan) return false;
    const ig_value base = ig_value_at(&r->graph, r->cells[t->cell - 1].value)->base;
    return t->storage != &ctx->arena || ig_plan_holds(r->plan, base, r->plan->n_parts);
}

void ig_replay_retain(ig_tensor *t) {
    ig_ctx *ctx = t->ctx;
    ig_recorder *rec = &ctx->recorder;
    ig_recording *r = rec->now;
    if (!r || t->recording != r->number || t->cell > r->n_cells || is_kept(ctx, r, t)) return;
    keep(r, t->cell);
    if (rec->state != IG_REPLAYING || t->run != rec->run) return;
    const ig_status status = ig_diverge(ctx); /* the plan at hand would not keep it */
    if (status != IG_OK) ig_graph_stick(&ctx->graph, status);
}
