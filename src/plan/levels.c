/*
 * Chains and depth levels.
 *
 *     level of a step = 1 + the deepest of   the writers of what it reads,
 *                                            the readers and writers of what it overwrites
 *
 * Within a level no chain touches what another one writes, so all of a level may
 * run at once; between levels stands a barrier.  A step that needs, of all that
 * is that deep, only its own rows of one chain joins the chain instead and costs
 * no barrier: the thread that wrote the rows reads them while they are warm.
 */
#include "plan/lower.h"

#define NOBODY UINT32_MAX

/* The last writer and readers of a memory, by level and chain. */
typedef struct access {
    uint32_t writer; /* a step; NOBODY: none in this plan */
    int64_t read;    /* the deepest level that reads it; -1: none */
    uint32_t read_chain;
    bool many_read; /* several chains of that level read it */
} access;

/* The deepest dependency of a step. */
typedef struct depth {
    int64_t level;
    uint32_t chain; /* NOBODY: several */
} depth;

static void deepen(depth *d, int64_t level, uint32_t chain) {
    if (level > d->level)
        *d = (depth){level, chain};
    else if (level == d->level && chain != d->chain)
        d->chain = NOBODY;
}

static void after_writer(const ig_plan *p, depth *d, const access *r) {
    if (r->writer != NOBODY) deepen(d, p->steps[r->writer].level, p->steps[r->writer].chain);
}

static depth depth_of(const ig_lowering *l, const access *accesses, const ig_step *step) {
    depth d = {-1, NOBODY};
    for (uint32_t i = 0; i < step->n_in; i++)
        after_writer(l->plan, &d, &accesses[ig_memory_of(l, &step->in[i])]);
    for (uint32_t i = 0; i < step->n_out; i++) {
        const access *r = &accesses[ig_memory_of(l, &step->out[i])];
        after_writer(l->plan, &d, r);
        if (r->read >= 0) deepen(&d, r->read, r->many_read ? NOBODY : r->read_chain);
    }
    return d;
}

static void mark(const ig_lowering *l, access *accesses, uint32_t i) {
    const ig_step *step = &l->plan->steps[i];
    for (uint32_t k = 0; k < step->n_in; k++) {
        access *r = &accesses[ig_memory_of(l, &step->in[k])];
        if (r->read < step->level) {
            r->read = step->level;
            r->read_chain = step->chain;
            r->many_read = false;
        } else if (r->read == step->level && r->read_chain != step->chain) {
            r->many_read = true;
        }
    }
    for (uint32_t k = 0; k < step->n_out; k++) {
        access *r = &accesses[ig_memory_of(l, &step->out[k])];
        *r = (access){.writer = i, .read = -1};
    }
}

/* ---- chains ---- */

static int64_t rows_of(const ig_operand *o) {
    int64_t rows = 1;
    for (int d = 0; d < o->desc.shape.rank - 1; d++) rows *= o->desc.shape.dim[d];
    return rows;
}

static ig_attrs_matmul matmul_attrs(const ig_step *step) {
    ig_attrs_matmul attrs;
    ig_step_attrs(step, &attrs, sizeof attrs);
    return attrs;
}

/* Whether step i can be chunked by rows. For matmuls the device decides: with a large M, splitting
 * by columns is faster for many of them. */
static bool can_chunk_rows(const ig_lowering *l, uint32_t i) {
    static const bool rowwise[IG_OP_COUNT] = {
        [IG_OP_SOFTMAX] = true,
        [IG_OP_LOG_SOFTMAX] = true,
        [IG_OP_RMS_NORM] = true,
        [IG_OP_RMS_NORM_GRAD] = true,
        [IG_OP_LAYER_NORM] = true,
        [IG_OP_LAYER_NORM_GRAD] = true,
        [IG_OP_CROSS_ENTROPY_GRAD] = true,
    };
    const ig_step *step = &l->plan->steps[i];
    if (step->op == IG_OP_MATMUL)
        return !matmul_attrs(step).transpose_a &&
               ig_device_goes_by_row(l->planner->devices[l->places[i].device], step);
    return rowwise[step->op] || ig_op_find(step->op)->traits & IG_ELEMENTWISE;
}

/* Whether row r of the result depends only on row r of input i: input a and the residual of a
 * matmul; otherwise an input with the shape of the result. */
static bool reads_own_row(const ig_step *step, uint32_t i) {
    const ig_operand *in = &step->in[i], *out = &step->out[0];
    if (step->op == IG_OP_MATMUL && i == 0) return rows_of(in) == rows_of(out);
    if (step->op == IG_OP_MATMUL && !(matmul_attrs(step).residual && i == step->n_in - 1))
        return false;
    return ig_shape_equal(in->desc.shape, out->desc.shape);
}

/* Whether the operand covers exactly what the step writes, row by row. */
static bool shows_rows_of(const ig_lowering *l, const ig_operand *o, const ig_step *writer) {
    for (uint32_t i = 0; i < writer->n_out; i++) {
        const ig_operand *out = &writer->out[i];
        if (ig_memory_of(l, out) == ig_memory_of(l, o))
            return out->offset == o->offset && ig_operand_is_packed(o) &&
                   ig_operand_is_packed(out) &&
                   ig_shape_count(out->desc.shape) == ig_shape_count(o->desc.shape);
    }
    return false;
}

/* Whether step i can extend the chain that ends with step `last`, row by row. */
static bool fits_chain(const ig_lowering *l, const access *accesses, uint32_t at, uint32_t last) {
    const ig_step *steps = l->plan->steps, *step = &steps[at], *before = &steps[last];
    if (!can_chunk_rows(l, at) || !can_chunk_rows(l, last)) return false;
    if (step->out[0].desc.shape.rank < 1 || rows_of(&step->out[0]) != rows_of(&before->out[0]))
        return false;
    for (uint32_t i = 0; i < step->n_in + step->n_out; i++) {
        const ig_operand *o = ig_step_operand(step, i);
        const access *r = &accesses[ig_memory_of(l, o)];
        const bool in_chain = r->writer != NOBODY && steps[r->writer].chain == before->chain;
        if (in_chain && !shows_rows_of(l, o, &steps[r->writer])) return false;
        if (in_chain && i < step->n_in && !reads_own_row(step, i)) return false;
        if (i >= step->n_in && r->read == before->level)
            return false; /* other steps may read all of it */
    }
    return true;
}

/* Adds step i to the chain it depends on, or starts a new one a level deeper. */
static void settle(const ig_lowering *l, const access *accesses, uint32_t i, uint32_t floor,
                   uint32_t *n_chains, uint32_t *last_of) {
    ig_plan *p = l->plan;
    ig_step *step = &p->steps[i];
    const depth d = depth_of(l, accesses, step);
    if (d.level >= floor && d.chain != NOBODY) {
        const uint32_t before = last_of[d.chain];
        const bool same_place = l->places[before].device == l->places[i].device &&
                                l->places[before].region == l->places[i].region &&
                                l->places[i].device != IG_ON_HOST;
        if (same_place && fits_chain(l, accesses, i, before)) {
            step->chain = d.chain;
            step->level = p->steps[before].level;
            last_of[d.chain] = i;
            return;
        }
    }
    step->level = d.level + 1 > floor ? (uint32_t)(d.level + 1) : floor;
    step->chain = (*n_chains)++;
    last_of[step->chain] = i;
}

/* ---- order ---- */

/* By level, then device, then chain, then step order; chains are renumbered accordingly. */
static ig_status sort(ig_lowering *l, uint32_t n_chains) {
    ig_plan *p = l->plan;
    const ig_allocator *a = p->allocator;
    const uint32_t n = p->n_steps;
    uint32_t *at_level = ig_alloc(a, (size_t)p->n_levels + 1, sizeof *at_level);
    uint32_t *at_chain = ig_alloc(a, (size_t)n_chains + 1, sizeof *at_chain);
    uint32_t *size = ig_alloc(a, n_chains, sizeof *size);
    ig_step *steps = ig_alloc(a, n, sizeof *steps);
    ig_place *places = ig_alloc(a, n, sizeof *places);
    const bool ok = at_level && at_chain && size && steps && places;
    for (uint32_t i = 0; ok && i < n; i++) {
        at_level[p->steps[i].level + 1]++;
        size[p->steps[i].chain]++;
    }
    for (uint32_t i = 0; ok && i < p->n_levels; i++) at_level[i + 1] += at_level[i];
    /* Chains are ordered by their first step, grouped by device. */
    for (uint32_t d = 0; ok && d <= l->planner->n_devices; d++)
        for (uint32_t i = 0; i < n; i++) {
            const ig_step *s = &p->steps[i];
            const uint32_t device = l->places[i].device;
            const bool now = device == d || (device == IG_ON_HOST && d == l->planner->n_devices);
            if (size[s->chain] == 0 || !now) continue;
            at_chain[s->chain] = at_level[s->level];
            at_level[s->level] += size[s->chain];
            size[s->chain] = 0;
        }
    for (uint32_t i = 0; ok && i < n; i++) {
        const uint32_t to = at_chain[p->steps[i].chain]++;
        steps[to] = p->steps[i];
        places[to] = l->places[i];
    }
    for (uint32_t i = 0, chain = 0; ok && i < n; i++) {
        if (i > 0 && steps[i].chain != steps[i - 1].chain) chain++;
        p->steps[i] = steps[i];
        p->steps[i].chain = chain;
        l->places[i] = places[i];
    }
    ig_free(a, places);
    ig_free(a, steps);
    ig_free(a, size);
    ig_free(a, at_chain);
    ig_free(a, at_level);
    return ok ? IG_OK : IG_FAIL(IG_ERR_MEMORY, "plan: %u steps", n);
}

ig_status ig_lower_levels(ig_lowering *l) {
    ig_plan *p = l->plan;
    const size_t count = ig_memory_count(l);
    access *accesses = ig_alloc(p->allocator, count, sizeof *accesses);
    uint32_t *last_of = ig_alloc(p->allocator, p->n_steps, sizeof *last_of);
    if (!accesses || !last_of) {
        ig_free(p->allocator, last_of);
        ig_free(p->allocator, accesses);
        return IG_FAIL(IG_ERR_MEMORY, "plan: %zu values", count);
    }
    for (size_t i = 0; i < count; i++) accesses[i] = (access){.writer = NOBODY, .read = -1};
    uint32_t floor = 0, region = 0, n_chains = 0; /* floor: the first level of the region */
    for (uint32_t i = 0; i < p->n_steps; i++) {
        for (; region < l->places[i].region; region++)
            p->region_levels[region + 1] = floor = p->n_levels;
        settle(l, accesses, i, floor, &n_chains, last_of);
        mark(l, accesses, i);
        if (p->n_levels <= p->steps[i].level) p->n_levels = p->steps[i].level + 1;
    }
    for (; region + 1 < p->n_regions; region++) p->region_levels[region + 1] = p->n_levels;
    ig_free(p->allocator, last_of);
    ig_free(p->allocator, accesses);
    return p->n_steps > 1 ? sort(l, n_chains) : IG_OK;
}
