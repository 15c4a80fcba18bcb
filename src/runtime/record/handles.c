/*
 * Handles: results of replays as the caller holds them.
 *
 * A recording has one handle for each result and returns the same one in every step. It points into
 * the arena. A handle that is still referenced when the next step begins leaves the recording and
 * gets its own memory, filled if the plan keeps the value to its end. The recording learns which
 * results to keep from the caller: read, retained, or used in a later step.
 */
#include <string.h>

#include "base/quant_blocks.h"
#include "runtime/ctx.h"

/* The tensor that owns the memory of a value; false: the value is in the arena. */
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
    ig_storage *storage = &ctx->memory.arena;
    ig_ref ref;
    handle->layout = info->layout;
    if (bind_of(r, info->base, &ref)) {
        storage = ig_replay_bound(ctx, ref)->storage;
    } else {
        const uint64_t offset = r->plan->placements[info->base].offset;
        if (offset != IG_NOT_THERE)
            handle->layout.offset += ig_elements_of(info->layout.desc.dtype, (int64_t)offset);
    }
    ig_storage_retain(storage);
    ig_storage_release(&ctx->memory, handle->storage);
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
    /* Rebind a view of a leaf: the leaf may be another tensor now. */
    if (t->storage != &ctx->memory.arena) ig_handle_point(ctx, rec->now, cell, t);
    t->alive = IG_TENSOR_ALIVE;
    t->refs = 2; /* one for the recording, one for the scope */
    t->run = rec->run;
    return ig_tensor_to_scope(t);
}

bool ig_plan_holds(const ig_plan *plan, ig_value base, uint32_t n_regions) {
    const ig_placement placement = plan->placements[base];
    const uint32_t levels =
        n_regions < plan->n_regions ? plan->region_levels[n_regions] : plan->n_levels;
    /* Inputs of the last level that ran are intact: no later level has overwritten them. */
    return placement.offset != IG_NOT_THERE &&
           (placement.last == UINT32_MAX || placement.last + 1 >= levels);
}

void ig_handle_detach(ig_ctx *ctx, ig_recording *r, ig_cell *cell, bool there) {
    ig_tensor *t = cell->handle;
    uint64_t bytes = 0;
    cell->handle = NULL;
    t->replayed = false;
    t->refs--;
    if (t->storage != &ctx->memory.arena) return;
    const ig_value base = ig_value_at(&r->graph, cell->value)->base;
    const ig_placement placement = r->plan->placements[base];
    const ig_desc desc = ig_value_at(&r->graph, base)->layout.desc;
    ig_storage *own = NULL;
    (void)ig_desc_bytes(desc, &bytes);
    if (there && ig_storage_range_to_host(&ctx->memory, &ctx->memory.arena, placement.offset,
                                          bytes) != IG_OK)
        there = false; /* the device that holds it is lost */
    if (there && ig_storage_create(&ctx->memory, bytes, &own) == IG_OK) { /* host memory */
        memcpy((void *)own->buffer, (const char *)ctx->memory.arena.buffer + placement.offset,
               bytes);
        t->layout.offset -= ig_elements_of(desc.dtype, (int64_t)placement.offset);
    }
    ig_storage_release(&ctx->memory, t->storage);
    t->storage = own;
}

void ig_replay_detach(ig_ctx *ctx) {
    ig_recording *r = ctx->recorder.now;
    for (size_t i = 0; r && r->plan && i < r->n_cells; i++) {
        ig_tensor *t = r->cells[i].handle;
        if (!t || t->alive != IG_TENSOR_ALIVE) continue;
        const ig_value base = ig_value_at(&r->graph, r->cells[i].value)->base;
        ig_handle_detach(ctx, r, &r->cells[i], ig_plan_holds(r->plan, base, r->plan->n_regions));
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

/* Whether the current plan keeps the result to its end. */
static bool is_kept(const ig_ctx *ctx, const ig_recording *r, const ig_tensor *t) {
    if (r->cells[t->cell - 1].kept) return true;
    if (!r->plan) return false;
    const ig_value base = ig_value_at(&r->graph, r->cells[t->cell - 1].value)->base;
    return t->storage != &ctx->memory.arena || ig_plan_holds(r->plan, base, r->plan->n_regions);
}

void ig_replay_retain(ig_tensor *t) {
    ig_ctx *ctx = t->ctx;
    ig_recorder *rec = &ctx->recorder;
    ig_recording *r = rec->now;
    if (!r || t->recording != r->number || t->cell > r->n_cells || is_kept(ctx, r, t)) return;
    keep(r, t->cell);
    if (rec->state != IG_REPLAYING || t->run != rec->run) return;
    const ig_status status = ig_diverge(ctx); /* the current plan would not keep it */
    if (status != IG_OK) ig_graph_stick(&ctx->tape.graph, status);
}
