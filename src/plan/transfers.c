/*
 * What has to be brought from one memory to the other, where a device has one of
 * its own.  Both have the same arena and the same bound memories, byte for byte:
 *
 *     host     arena  bound ...          a segment runs on one side; before it does, what it
 *     device   arena  bound ...          touches is made new there
 *
 * For the arena all of that is known when planning: each segment has its list of
 * moves.  What is bound may have been written to by anybody since the last run,
 * so segments only list what they touch, and mirrors know what is old.
 */
#include "plan/lower.h"

enum { NEAR = 1, FAR = 2 };

/* A memory of the plan: which of its bytes anybody touches, and where they are up to date. */
typedef struct extent {
    uint64_t begin, end;
    uint8_t valid; /* NEAR | FAR */
} extent;

typedef struct tracker {
    ig_lowering *l;
    extent *extents;    /* by memory */
    uint32_t *last_seg; /* by bound buffer: 1 + the segment whose list has it, */
    uint32_t *touch_at; /* and where */
    size_t moves_room, touches_room;
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

static ig_status add_move(tracker *t, extent *e, bool to_device) {
    ig_plan *p = t->l->plan;
    if (!IG_GROW(p->allocator, p->moves, &t->moves_room, p->n_moves + (size_t)1))
        return IG_FAIL(IG_ERR_MEMORY, "plan: %u moves", p->n_moves);
    p->moves[p->n_moves++] = (ig_move){to_device, e->begin, e->end - e->begin};
    e->valid |= to_device ? FAR : NEAR;
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

/* A device that keeps weights has taken their bytes when it compiled. */
static bool is_kept(const ig_segment *s, const ig_operand *o) {
    return o->kind == IG_KIND_WEIGHT && s->device && s->device->info.flags & IG_KEEPS_WEIGHTS;
}

static ig_status read(tracker *t, uint32_t segment, const ig_operand *o) {
    const ig_segment *s = &t->l->plan->segments[segment];
    const bool far = ig_segment_is_far(s);
    if (is_kept(s, o)) return IG_OK;
    if (o->buffer != IG_ARENA) return touch_bound(t, segment, o->buffer, false);
    extent *e = &t->extents[ig_memory_of(t->l, o)];
    return e->valid & (far ? FAR : NEAR) ? IG_OK : add_move(t, e, far);
}

/* What is written in part must be there as a whole before. */
static ig_status write(tracker *t, uint32_t segment, const ig_operand *o) {
    const bool far = ig_segment_is_far(&t->l->plan->segments[segment]);
    if (o->buffer != IG_ARENA) return touch_bound(t, segment, o->buffer, true);
    extent *e = &t->extents[ig_memory_of(t->l, o)];
    const bool whole = o->offset == e->begin && o->offset + ig_operand_span(o) == e->end &&
                       ig_operand_is_packed(o);
    if (!whole && e->valid) IG_TRY(read(t, segment, o));
    e->valid = far ? FAR : NEAR;
    return IG_OK;
}

/* At the end of a part the caller finds its results in the host's arena. */
static ig_status bring_home(tracker *t, ig_segment *s) {
    const ig_plan *p = t->l->plan;
    const uint32_t first = p->n_moves;
    const uint32_t levels = s->part + 1 < p->n_parts ? p->part_levels[s->part + 1] : p->n_levels;
    for (size_t v = 0; p->homes && v < t->l->args->graph->n_values; v++) {
        const ig_home home = p->homes[v];
        const bool there =
            home.offset != IG_NOT_THERE && (home.last == UINT32_MAX || home.last + 1 >= levels);
        if (there && t->extents[v].valid == FAR) IG_TRY(add_move(t, &t->extents[v], false));
    }
    s->n_after = p->n_moves - first;
    return IG_OK;
}

static ig_status walk(tracker *t) {
    ig_plan *p = t->l->plan;
    for (uint32_t i = 0; i < p->n_segments; i++) {
        ig_segment *s = &p->segments[i];
        s->moves = p->n_moves;
        s->touches = p->n_touches;
        for (uint32_t j = s->first; j < s->first + s->count; j++) {
            const ig_step *step = &p->steps[j];
            for (uint32_t k = 0; k < step->n_in; k++) IG_TRY(read(t, i, &step->in[k]));
            for (uint32_t k = 0; k < step->n_out; k++) IG_TRY(write(t, i, &step->out[k]));
        }
        s->n_moves = p->n_moves - s->moves;
        s->n_touches = p->n_touches - s->touches;
        if (i + 1 == p->n_segments || p->segments[i + 1].part != s->part) IG_TRY(bring_home(t, s));
    }
    return IG_OK;
}

ig_status ig_lower_moves(ig_lowering *l) {
    ig_plan *p = l->plan;
    for (uint32_t i = 0; i < l->planner->n_devices; i++)
        if (!l->planner->devices[i]->host_memory) p->far = l->planner->devices[i];
    if (!p->far) return IG_OK;
    const size_t buffers = (size_t)l->args->n_bound + 1;
    tracker t = {.l = l,
                 .extents = ig_alloc(p->allocator, ig_memory_count(l), sizeof(extent)),
                 .last_seg = ig_alloc(p->allocator, buffers, sizeof(uint32_t)),
                 .touch_at = ig_alloc(p->allocator, buffers, sizeof(uint32_t))};
    p->far_buffers = ig_alloc(p->allocator, buffers, sizeof *p->far_buffers);
    ig_status status = IG_OK;
    if (!t.extents || !t.last_seg || !t.touch_at || !p->far_buffers)
        status = IG_FAIL(IG_ERR_MEMORY, "plan: %zu memories", ig_memory_count(l));
    if (status == IG_OK) gather(&t);
    if (status == IG_OK) status = walk(&t);
    ig_free(p->allocator, t.touch_at);
    ig_free(p->allocator, t.last_seg);
    ig_free(p->allocator, t.extents);
    return status;
}
