/*
 * Transfers between host memory and device memory. Both sides have the same arena and the same
 * bound memories, byte for byte:
 *
 *     host     arena  bound ...          a segment runs on one side; its inputs are first
 *     device   arena  bound ...          brought up to date there
 *
 * For the arena, everything is known when planning: each segment has its list of transfers. Bound
 * memory may have been written by any caller since the last run, so segments only list what they
 * touch, and mirrors track which side is up to date.
 */
#include "plan/lower.h"

enum { ON_HOST = 1, ON_DEVICE = 2 };

/* The bytes of a memory that the plan touches, and the sides where they are up to date. */
typedef struct extent {
    uint64_t begin, end;
    uint8_t valid; /* ON_HOST | ON_DEVICE */
} extent;

typedef struct tracker {
    ig_lowering *l;
    extent *extents;    /* by memory */
    uint32_t *last_seg; /* by bound buffer: 1 + the last segment that lists it, */
    uint32_t *touch_at; /* and its index in that list */
    size_t transfers_room, touches_room;
} tracker;

static void gather(tracker *t) {
    const ig_plan *p = t->l->plan;
    for (size_t i = 0; i < ig_memory_count(t->l); i++) t->extents[i] = (extent){UINT64_MAX, 0, 0};
    for (uint32_t i = 0; i < p->n_steps; i++)
        for (uint32_t j = 0; j < p->steps[i].n_in + p->steps[i].n_out; j++) {
            const ig_operand *o = ig_step_operand(&p->steps[i], j);
            const uint64_t end = o->offset + ig_operand_span(o);
            extent *e = &t->extents[ig_memory_of(t->l, o)];
            if (o->offset < e->begin) e->begin = o->offset;
            if (end > e->end) e->end = end;
        }
}

static ig_status add_transfer(tracker *t, extent *e, bool to_device) {
    ig_plan *p = t->l->plan;
    if (!IG_GROW(p->allocator, p->transfers, &t->transfers_room, p->n_transfers + (size_t)1))
        return IG_FAIL(IG_ERR_MEMORY, "plan: %u transfers", p->n_transfers);
    p->transfers[p->n_transfers++] = (ig_transfer){to_device, e->begin, e->end - e->begin};
    e->valid |= to_device ? ON_DEVICE : ON_HOST;
    return IG_OK;
}

static ig_status touch_bound(tracker *t, uint32_t segment, uint32_t buffer, bool written) {
    ig_plan *p = t->l->plan;
    if (t->last_seg[buffer] != segment + 1) {
        if (!IG_GROW(p->allocator, p->touches, &t->touches_room, p->n_touches + (size_t)1))
            return IG_FAIL(IG_ERR_MEMORY, "plan: %u memories", p->n_touches);
        t->last_seg[buffer] = segment + 1;
        t->touch_at[buffer] = p->n_touches;
        p->touches[p->n_touches++] = (ig_touch){buffer, false};
    }
    p->touches[t->touch_at[buffer]].written |= written;
    return IG_OK;
}

/* A device that owns its weights has copied them when compiling. */
static bool is_kept(const ig_segment *s, const ig_operand *o) {
    return o->kind == IG_KIND_WEIGHT && s->device && s->device->info.flags & IG_OWNS_WEIGHTS;
}

static ig_status read(tracker *t, uint32_t segment, const ig_operand *o) {
    const ig_segment *s = &t->l->plan->segments[segment];
    const bool remote = ig_segment_is_remote(s);
    if (is_kept(s, o)) return IG_OK;
    if (o->buffer != IG_ARENA) return touch_bound(t, segment, o->buffer, false);
    extent *e = &t->extents[ig_memory_of(t->l, o)];
    return e->valid & (remote ? ON_DEVICE : ON_HOST) ? IG_OK : add_transfer(t, e, remote);
}

/* A partial write needs the other bytes to be up to date first. */
static ig_status write(tracker *t, uint32_t segment, const ig_operand *o) {
    const bool remote = ig_segment_is_remote(&t->l->plan->segments[segment]);
    if (o->buffer != IG_ARENA) return touch_bound(t, segment, o->buffer, true);
    extent *e = &t->extents[ig_memory_of(t->l, o)];
    const bool complete = o->offset == e->begin && o->offset + ig_operand_span(o) == e->end &&
                          ig_operand_is_packed(o);
    if (!complete && e->valid) IG_TRY(read(t, segment, o));
    e->valid = remote ? ON_DEVICE : ON_HOST;
    return IG_OK;
}

/* At the end of a region, the caller expects results in the host's arena. */
static ig_status bring_home(tracker *t, ig_segment *s) {
    const ig_plan *p = t->l->plan;
    const uint32_t first = p->n_transfers;
    const uint32_t levels =
        s->region + 1 < p->n_regions ? p->region_levels[s->region + 1] : p->n_levels;
    for (size_t v = 0; p->placements && v < t->l->args->graph->n_values; v++) {
        const ig_placement placement = p->placements[v];
        const bool there = placement.offset != IG_NOT_THERE &&
                           (placement.last == UINT32_MAX || placement.last + 1 >= levels);
        if (there && t->extents[v].valid == ON_DEVICE)
            IG_TRY(add_transfer(t, &t->extents[v], false));
    }
    s->n_after = p->n_transfers - first;
    return IG_OK;
}

static ig_status walk(tracker *t) {
    ig_plan *p = t->l->plan;
    for (uint32_t i = 0; i < p->n_segments; i++) {
        ig_segment *s = &p->segments[i];
        s->transfers = p->n_transfers;
        s->touches = p->n_touches;
        for (uint32_t j = s->first; j < s->first + s->count; j++) {
            const ig_step *step = &p->steps[j];
            for (uint32_t k = 0; k < step->n_in; k++) IG_TRY(read(t, i, &step->in[k]));
            for (uint32_t k = 0; k < step->n_out; k++) IG_TRY(write(t, i, &step->out[k]));
        }
        s->n_transfers = p->n_transfers - s->transfers;
        s->n_touches = p->n_touches - s->touches;
        if (i + 1 == p->n_segments || p->segments[i + 1].region != s->region)
            IG_TRY(bring_home(t, s));
    }
    return IG_OK;
}

ig_status ig_lower_transfers(ig_lowering *l) {
    ig_plan *p = l->plan;
    for (uint32_t i = 0; i < l->planner->n_devices; i++)
        if (!l->planner->devices[i]->host_memory) p->remote = l->planner->devices[i];
    if (!p->remote) return IG_OK;
    const size_t buffers = (size_t)l->args->n_bound + 1;
    tracker t = {.l = l,
                 .extents = ig_alloc(p->allocator, ig_memory_count(l), sizeof(extent)),
                 .last_seg = ig_alloc(p->allocator, buffers, sizeof(uint32_t)),
                 .touch_at = ig_alloc(p->allocator, buffers, sizeof(uint32_t))};
    p->remote_buffers = ig_alloc(p->allocator, buffers, sizeof *p->remote_buffers);
    ig_status status = IG_OK;
    if (!t.extents || !t.last_seg || !t.touch_at || !p->remote_buffers)
        status = IG_FAIL(IG_ERR_MEMORY, "plan: %zu memories", ig_memory_count(l));
    if (status == IG_OK) gather(&t);
    if (status == IG_OK) status = walk(&t);
    ig_free(p->allocator, t.touch_at);
    ig_free(p->allocator, t.last_seg);
    ig_free(p->allocator, t.extents);
    return status;
}
