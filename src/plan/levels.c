/*
 * Depth levels.  Within a level no step touches what another one writes, so all
 * of a level may run at once; between levels stands a barrier.
 *
 *     level of a step = 1 + the deepest of   the writers of what it reads,
 *                                            the readers and writers of what it overwrites
 */
#include <string.h>

#include "plan/lower.h"

/* Memory, as far as levels care: how deep it was last written and read; -1: not here. */
typedef struct region {
    int64_t written, read;
} region;

/* The region of an operand: the memory its value lies in. */
static region *region_of(const ig_lowering *l, region *regions, const ig_operand *o) {
    const ig_graph *g = l->args->graph;
    const uint32_t id = o->value < g->n_values ? ig_value_at(g, o->value)->base : o->value;
    return &regions[id];
}

static uint32_t level_of(const ig_lowering *l, region *regions, const ig_step *step) {
    int64_t deepest = -1;
    for (uint32_t i = 0; i < step->n_in; i++) {
        const region *r = region_of(l, regions, &step->in[i]);
        if (r->written > deepest) deepest = r->written;
    }
    for (uint32_t i = 0; i < step->n_out; i++) {
        const region *r = region_of(l, regions, &step->out[i]);
        if (r->written > deepest) deepest = r->written;
        if (r->read > deepest) deepest = r->read;
    }
    return (uint32_t)(deepest + 1);
}

static void mark(const ig_lowering *l, region *regions, const ig_step *step) {
    for (uint32_t i = 0; i < step->n_in; i++) {
        region *r = region_of(l, regions, &step->in[i]);
        if (r->read < step->level) r->read = step->level;
    }
    for (uint32_t i = 0; i < step->n_out; i++)
        region_of(l, regions, &step->out[i])->written = step->level;
}

/* Counting sort by level, which keeps the order within one.  What belongs to a step goes along. */
static ig_status sort(ig_lowering *l) {
    ig_plan *p = l->plan;
    const ig_allocator *a = p->allocator;
    const uint32_t n = p->n_steps;
    uint32_t *place = ig_alloc(a, (size_t)p->n_levels + 1, sizeof *place);
    ig_step *steps = ig_alloc(a, n, sizeof *steps);
    uint32_t *device_of = ig_alloc(a, n, sizeof *device_of);
    char(*why)[IG_REASON_BYTES] = ig_alloc(a, n, sizeof *why);
    uint32_t *part_of = ig_alloc(a, n, sizeof *part_of);
    const bool ok = place && steps && device_of && why && part_of;
    for (uint32_t i = 0; ok && i < n; i++) place[p->steps[i].level + 1]++;
    for (uint32_t i = 0; ok && i < p->n_levels; i++) place[i + 1] += place[i];
    for (uint32_t i = 0; ok && i < n; i++) {
        const uint32_t to = place[p->steps[i].level]++;
        steps[to] = p->steps[i];
        steps[to].chain = to;
        device_of[to] = l->device_of[i];
        memcpy(why[to], l->why[i], IG_REASON_BYTES);
        part_of[to] = l->part_of[i];
    }
    if (ok) {
        memcpy(p->steps, steps, n * sizeof *steps);
        memcpy(l->device_of, device_of, n * sizeof *device_of);
        memcpy(l->why, why, n * sizeof *why);
        memcpy(l->part_of, part_of, n * sizeof *part_of);
    }
    ig_free(a, part_of);
    ig_free(a, why);
    ig_free(a, device_of);
    ig_free(a, steps);
    ig_free(a, place);
    return ok ? IG_OK : IG_FAIL(IG_ERR_MEMORY, "plan: %u steps", n);
}

ig_status ig_lower_levels(ig_lowering *l) {
    ig_plan *p = l->plan;
    if (p->n_steps < 2) { /* a single op, as Dynamic runs them */
        p->n_levels = p->n_steps;
        for (uint32_t i = 1; i < p->n_parts; i++)
            p->part_levels[i] = p->n_steps > 0 && l->part_of[0] >= i ? 0 : p->n_levels;
        return IG_OK;
    }
    const size_t count = l->args->graph->n_values + p->n_copies;
    region *regions = ig_alloc(p->allocator, count, sizeof *regions);
    if (!regions) return IG_FAIL(IG_ERR_MEMORY, "plan: %zu values", count);
    memset(regions, 0xff, count * sizeof *regions); /* all -1 */
    uint32_t floor = 0, part = 0; /* the first level of the part */
    for (uint32_t i = 0; i < p->n_steps; i++) {
        ig_step *step = &p->steps[i];
        for (; part < l->part_of[i]; part++) p->part_levels[part + 1] = floor = p->n_levels;
        step->level = level_of(l, regions, step);
        if (step->level < floor) step->level = floor;
        mark(l, regions, step);
        if (p->n_levels <= step->level) p->n_levels = step->level + 1;
    }
    for (; part + 1 < p->n_parts; part++) p->part_levels[part + 1] = p->n_levels;
    ig_free(p->allocator, regions);
    return sort(l);
}
