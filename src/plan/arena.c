/*
 * The arena: where local values and scratch lie.
 *
 * An allocation lives from the level that writes it to the last that reads it, scratch
 * for its step's level and, where the device fills it early, the one before.  They
 * are placed largest first, each at the lowest offset that is free while it lives:
 *
 *     bytes ^  aaaaaaaa            a goes first; b does not fit below it
 *           |      bbbbbb ddd      while a lives, d does
 *           +--------------------> levels
 */
#include <stdlib.h>

#include "plan/lower.h"

#define MOST_SCRATCH (UINT64_C(1) << 40) /* larger requests indicate a bug in the backend */

typedef struct allocation {
    uint32_t first, last; /* levels during which it must stay */
    uint32_t used;        /* the last level that touches it */
    uint64_t bytes, offset;
    uint32_t memory;  /* index of the value's memory, else UINT32_MAX */
    uint32_t scratch; /* the step, for scratch */
} allocation;

typedef struct allocations {
    allocation *at;
    uint32_t count;
    uint32_t *of; /* by memory: 1 + index of its allocation */
} allocations;

static uint64_t align(uint64_t bytes) {
    return (bytes + IG_ALIGNMENT - 1) & ~(uint64_t)(IG_ALIGNMENT - 1);
}

/* The last level that depends on what step i touches. */
static uint32_t last_of(const ig_lowering *l, uint32_t i) {
    const uint32_t level = l->plan->steps[i].level, device = l->places[i].device;
    const bool joins =
        device != IG_ON_HOST && l->planner->devices[device]->info.flags & IG_FUSES_ACROSS_LEVELS;
    return joins ? level + 2 : level;
}

/* The first level from which the scratch of step i is reserved. */
static uint32_t first_of_scratch(const ig_lowering *l, uint32_t i) {
    const uint32_t level = l->plan->steps[i].level;
    const ig_device *device = l->planner->devices[l->places[i].device];
    return device->info.flags & IG_EARLY_SCRATCH && level > 0 ? level - 1 : level;
}

/* Adds the allocation of an output, or extends an existing one. */
static ig_status touch(const ig_lowering *l, allocations *b, uint32_t i, const ig_operand *o) {
    const ig_step *step = &l->plan->steps[i];
    const uint32_t memory = ig_memory_of(l, o);
    uint64_t bytes;
    if (o->buffer != IG_ARENA) return IG_OK;
    if (b->of[memory] == 0) {
        if (!ig_desc_bytes(o->desc, &bytes) || bytes > UINT64_MAX / 2)
            return IG_FAIL(IG_ERR_MEMORY, "plan: %s: too large", ig_op_name(step->op));
        b->at[b->count] = (allocation){
            .first = step->level, .bytes = align(bytes), .memory = memory, .scratch = UINT32_MAX};
        b->of[memory] = ++b->count;
    }
    allocation *own = &b->at[b->of[memory] - 1];
    if (own->last < last_of(l, i)) own->last = last_of(l, i);
    own->used = step->level;
    return IG_OK;
}

static ig_status collect(ig_lowering *l, allocations *b) {
    ig_plan *p = l->plan;
    for (uint32_t i = 0; i < p->n_steps; i++) {
        ig_step *step = &p->steps[i];
        for (uint32_t j = 0; j < step->n_out; j++) IG_TRY(touch(l, b, i, &step->out[j]));
        for (uint32_t j = 0; j < step->n_in; j++) IG_TRY(touch(l, b, i, &step->in[j]));
        if (l->places[i].device == IG_ON_HOST) continue;
        const ig_device *device = l->planner->devices[l->places[i].device];
        step->scratch_bytes = ig_device_scratch(device, step);
        if (step->scratch_bytes > MOST_SCRATCH)
            return IG_FAIL(IG_ERR_DEVICE, "%s: scratch_bytes(): %llu bytes for %s", device->name,
                           (unsigned long long)step->scratch_bytes, ig_op_name(step->op));
        if (step->scratch_bytes)
            b->at[b->count++] = (allocation){.first = first_of_scratch(l, i),
                                             .last = step->level,
                                             .bytes = align(step->scratch_bytes),
                                             .memory = UINT32_MAX,
                                             .scratch = i};
    }
    for (uint32_t i = 0; i < l->args->n_kept; i++) {
        const uint32_t memory = ig_value_at(l->args->graph, l->args->kept[i])->base;
        if (b->of[memory])
            b->at[b->of[memory] - 1].last = b->at[b->of[memory] - 1].used = UINT32_MAX;
    }
    return IG_OK;
}

static int larger_first(const void *x, const void *y) {
    const allocation *a = *(const allocation *const *)x, *b = *(const allocation *const *)y;
    if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
    return a < b ? -1 : 1; /* ties: in step order */
}

static bool meet(const allocation *a, const allocation *b) {
    return a->first <= b->last && b->first <= a->last;
}

/* Puts order[i] at the lowest offset that is free of earlier allocations with an overlapping
 * lifetime. `busy` holds those sorted by offset and gains the new one. */
static void settle(allocation *const *order, uint32_t i, allocation **busy) {
    allocation *own = order[i];
    uint64_t offset = 0;
    for (uint32_t j = 0; j < i; j++) {
        const allocation *other = busy[j];
        if (!meet(own, other)) continue;
        if (other->offset >= offset + own->bytes) break; /* fits into the gap */
        if (other->offset + other->bytes > offset) offset = other->offset + other->bytes;
    }
    own->offset = offset;
    uint32_t at = i;
    for (; at > 0 && busy[at - 1]->offset > offset; at--) busy[at] = busy[at - 1];
    busy[at] = own;
}

static ig_status place_all(ig_plan *p, const allocations *b) {
    allocation **order = ig_alloc(p->allocator, b->count, sizeof *order);
    allocation **busy = ig_alloc(p->allocator, b->count, sizeof *busy);
    uint64_t *live = ig_alloc(p->allocator, p->n_levels, sizeof *live);
    const bool ok = order && busy && live;
    for (uint32_t i = 0; ok && i < b->count; i++) order[i] = &b->at[i];
    if (ok) qsort(order, b->count, sizeof(allocation *), larger_first);
    for (uint32_t i = 0; ok && i < b->count; i++) {
        settle(order, i, busy);
        const uint64_t end = order[i]->offset + order[i]->bytes;
        if (end > p->arena_bytes) p->arena_bytes = end;
        for (uint32_t d = order[i]->first; d <= order[i]->last && d < p->n_levels; d++)
            live[d] += order[i]->bytes;
    }
    for (uint32_t d = 0; ok && d < p->n_levels; d++)
        if (live[d] > p->live_bytes) p->live_bytes = live[d];
    ig_free(p->allocator, live);
    ig_free(p->allocator, busy);
    ig_free(p->allocator, order);
    return ok ? IG_OK : IG_FAIL(IG_ERR_MEMORY, "plan: %u allocations", b->count);
}

/* Until here, offsets of views are relative to their allocation. */
static void write_back(ig_lowering *l, const allocations *b) {
    ig_plan *p = l->plan;
    for (uint32_t i = 0; i < p->n_steps; i++)
        for (uint32_t j = 0; j < p->steps[i].n_in + p->steps[i].n_out; j++) {
            ig_operand *o = (ig_operand *)ig_step_operand(&p->steps[i], j);
            if (o->buffer == IG_ARENA) o->offset += b->at[b->of[ig_memory_of(l, o)] - 1].offset;
        }
    for (uint32_t i = 0; i < b->count; i++)
        if (b->at[i].scratch != UINT32_MAX)
            p->steps[b->at[i].scratch].scratch_offset = b->at[i].offset;
    for (size_t v = 0; p->placements && v < l->args->graph->n_values; v++) {
        const allocation *own = b->of[v] ? &b->at[b->of[v] - 1] : NULL;
        p->placements[v] =
            own ? (ig_placement){own->offset, own->used} : (ig_placement){IG_NOT_THERE, 0};
    }
}

ig_status ig_lower_memory(ig_lowering *l) {
    ig_plan *p = l->plan;
    const size_t most = (size_t)p->n_operands + p->n_steps;
    const size_t values = ig_memory_count(l);
    allocations b = {ig_alloc(p->allocator, most, sizeof(allocation)), 0,
                     ig_alloc(p->allocator, values, sizeof(uint32_t))};
    ig_status status = IG_OK;
    const bool asked = l->args->kept != NULL;
    if (asked)
        p->placements = ig_alloc(p->allocator, l->args->graph->n_values, sizeof *p->placements);
    if (!b.at || !b.of || (asked && !p->placements))
        status = IG_FAIL(IG_ERR_MEMORY, "plan: %zu values", values);
    if (status == IG_OK) status = collect(l, &b);
    if (status == IG_OK && b.count > 0) status = place_all(p, &b);
    if (status == IG_OK) write_back(l, &b);
    ig_free(p->allocator, b.of);
    ig_free(p->allocator, b.at);
    return status;
}
