/*
 * Compiling a program: kernels for steps, steps to tasks, tasks to chains, chains to chunks.
 *
 * All that can fail fails here.  Weights are packed on the way (pack.c).
 */
#include "backend/cpu/exec/cpu_program.h"
#include "backend/cpu/exec/pack.h"

/* Multiply-adds per chunk: microseconds, so that a claim costs next to nothing, and no more than
 * 128 KiB of f32, so that a chain finds in the cache what it has just written. */
enum { CHUNK_WORK = 1 << 15 };

/* ---- kernels ---- */

/* An output may alias an input if each element is read before it is written, by the same thread;
 * for updates the planner guarantees that. */
static bool aliases_fit(const ig_step *step) {
    const uint32_t traits = ig_op_find(step->op)->traits;
    for (uint32_t i = 0; i < step->n_out && !(traits & IG_UPDATES); i++) {
        const ig_operand *out = &step->out[i];
        if (out->alias < 0) continue;
        if (!(traits & IG_ELEMENTWISE) || (uint32_t)out->alias >= step->n_in) return false;
        const ig_operand *in = &step->in[out->alias];
        if (in->desc.dtype != out->desc.dtype || !ig_operand_is_packed(in)) return false;
    }
    return true;
}

const ig_cpu_entry *ig_cpu_find(const ig_backend_device *device, const ig_step *step,
                                ig_cpu_setup *setup) {
    if (!ig_step_known(step) || step->n_out == 0 || !aliases_fit(step)) return NULL;
    for (uint32_t i = 0; i < step->n_in + step->n_out; i++)
        if (ig_step_operand(step, i)->dynamic_dim >= 0) return NULL;

    const ig_dtype dtype = ig_step_operand(step, 0)->desc.dtype;
    for (const ig_cpu_entry *const *list = ((const cpu_device *)device)->lists; *list; list++)
        for (const ig_cpu_entry *e = *list; e->run; e++) {
            if (e->op != step->op || e->dtype != dtype) continue;
            setup->units = setup->cost = setup->grain = setup->grain_single = 0;
            setup->scratch_bytes = setup->params_bytes = 0;
            setup->pack = (ig_cpu_pack){0};
            setup->prologue = NULL;
            setup->prologue_kind = 0;
            setup->prologue_by_row = false;
            if (e->setup(step, setup)) return e;
        }
    return NULL;
}

/* ---- chains ---- */

static int64_t columns_of(const ig_operand *o) {
    const ig_shape *shape = &o->desc.shape;
    return shape->rank > 0 ? shape->dim[shape->rank - 1] : 1;
}

static int64_t rows_of(const ig_operand *o) {
    int64_t rows = 1;
    for (int d = 0; d < o->desc.shape.rank - 1; d++) rows *= o->desc.shape.dim[d];
    return rows;
}

/* Whether the step takes, of what steps [first, i) of its chain write, only the element that it
 * computes: then the chain may be cut anywhere, not only between rows.  Other buffers are not
 * theirs. */
static bool reads_its_element(const ig_step *steps, uint32_t first, uint32_t i) {
    const ig_step *step = ig_step_at(steps, i);
    if (!(ig_op_find(step->op)->traits & IG_ELEMENTWISE)) return false;
    for (uint32_t k = 0; k < step->n_in; k++) {
        const ig_operand *in = &step->in[k];
        if (ig_operand_is_packed(in)) continue;
        for (uint32_t s = first; s < i; s++)
            for (uint32_t o = 0; o < ig_step_at(steps, s)->n_out; o++)
                if (ig_step_at(steps, s)->out[o].buffer == in->buffer) return false;
    }
    return true;
}

static size_t params_room(const ig_cpu_setup *setup) {
    return (setup->params_bytes + IG_CPU_ALIGNMENT - 1) & ~(size_t)(IG_CPU_ALIGNMENT - 1);
}

/* a b, saturating at CHUNK_WORK. */
static int64_t cost_of(int64_t a, int64_t b) {
    int64_t result;
    return __builtin_mul_overflow(a, b, &result) || result > CHUNK_WORK ? CHUNK_WORK : result;
}

/*
 * The chain of step i: the last one, or a new one.  A step whose units are not rows gets a chain of
 * its own, and so does one that the planner chained although it has other rows; a barrier then
 * keeps the order.
 */
static chain *chain_of(cpu_program *p, const ig_step *steps, uint32_t i, ig_cpu_split split) {
    const ig_step *step = ig_step_at(steps, i), *before = ig_step_at(steps, i > 0 ? i - 1 : 0);
    const int64_t rows = rows_of(&step->out[0]);
    chain *last = p->n_chains > 0 ? &p->chains[p->n_chains - 1] : NULL;
    const bool same = last && before->chain == step->chain && before->level == step->level;
    if (same && split != BY_UNIT && last->split != BY_UNIT && last->rows == rows) return last;

    chain *c = &p->chains[p->n_chains++];
    *c = (chain){.first = NO_TASK, .barrier = same || before->level != step->level, .split = split};
    c->rows = rows;
    c->columns = columns_of(&step->out[0]);
    return c;
}

static void append(cpu_program *p, chain *c, uint32_t i) {
    if (c->first == NO_TASK)
        c->first = i;
    else
        p->next[c->last] = i;
    c->last = i;
    p->next[i] = NO_TASK;
}

/* A chain can be cut anywhere only if all that follows its first task goes by element. */
static void extend(cpu_program *p, chain *c, const ig_step *steps, uint32_t i, ig_cpu_split split,
                   const ig_cpu_setup *setup) {
    const int64_t columns = columns_of(&ig_step_at(steps, i)->out[0]);
    const int64_t cost = setup->cost > 0 ? setup->cost : 1;
    append(p, c, i);
    if (c->first == i) {
        c->units = setup->units;
    } else if (split != BY_ELEMENT || columns != c->columns ||
               !reads_its_element(steps, c->first, i)) {
        c->split = BY_ROW;
    }
    if (c->grain < setup->grain) c->grain = setup->grain;
    if (c->grain_single < setup->grain_single) c->grain_single = setup->grain_single;
    c->unit_cost += cost_of(cost, 1);
    c->row_cost += cost_of(cost, split == BY_ELEMENT ? columns : 1);
}

/* `packed`: a weight in the kernel's own layout, or NULL. */
static void add_task(cpu_program *p, const ig_step *step, uint32_t i, const ig_cpu_entry *entry,
                     const ig_cpu_setup *setup, const void *packed) {
    task *t = &p->tasks[i];
    ig_operand *operands = p->operands + p->n_operands;
    p->step_of[i] = i;
    t->launch = (ig_cpu_launch){.run = packed ? setup->pack.run : entry->run,
                                .at = p->at + p->n_operands,
                                .params = p->params + p->params_bytes,
                                .operand = operands};
    t->width = entry->split == BY_ELEMENT ? columns_of(&step->out[0]) : 1;
    t->scratch_offset = setup->scratch_bytes > 0 ? step->scratch_offset : NO_SCRATCH;
    memcpy(p->params + p->params_bytes, setup->params, setup->params_bytes);
    p->params_bytes += params_room(setup);
    for (uint32_t k = 0; k < step->n_in + step->n_out; k++) {
        operands[k] = *ig_step_operand(step, k);
        operands[k].host = NULL; /* for compile() only */
    }
    if (packed) operands[setup->pack.input].host = packed;
    p->n_operands += step->n_in + step->n_out;
}

/* The level that is being compiled. */
typedef struct level {
    uint32_t chain;     /* its first chain */
    uint32_t prologues; /* chains of prologues before it */
    bool follows;       /* the step follows another of its chain */
    uint32_t n_shared;  /* of these, those whose scratch later steps may share */
    struct {
        ig_cpu_kernel *prologue;
        uint32_t kind;
        const ig_operand *x;
        uint64_t scratch_offset;
    } shared[8];
} level;

static bool same_operand(const ig_operand *a, const ig_operand *b) {
    return a->value == b->value && a->buffer == b->buffer && a->offset == b->offset &&
           a->desc.dtype == b->desc.dtype && ig_shape_equal(a->desc.shape, b->desc.shape) &&
           memcmp(a->stride, b->stride, (size_t)a->desc.shape.rank * sizeof a->stride[0]) == 0;
}

/* Whether an earlier step of the level has the same prologue: then this one reads its scratch,
 * which lives as long as the level. */
static bool shares_scratch(task *t, const ig_step *step, const ig_cpu_setup *setup, level *now) {
    const uint32_t room = sizeof now->shared / sizeof now->shared[0];
    if (setup->prologue_kind == 0 || now->follows) return false;
    for (uint32_t i = 0; i < now->n_shared; i++)
        if (now->shared[i].prologue == setup->prologue &&
            now->shared[i].kind == setup->prologue_kind &&
            same_operand(now->shared[i].x, &step->in[0])) {
            t->scratch_offset = now->shared[i].scratch_offset;
            return true;
        }
    if (now->n_shared < room) {
        now->shared[now->n_shared].prologue = setup->prologue;
        now->shared[now->n_shared].kind = setup->prologue_kind;
        now->shared[now->n_shared].x = &step->in[0];
        now->shared[now->n_shared++].scratch_offset = t->scratch_offset;
    }
    return false;
}

/* Whether the step writes exactly the rows of the operand. */
static bool writes_rows(const ig_step *step, const ig_operand *x) {
    const ig_operand *y = &step->out[0];
    return step->n_out == 1 && y->buffer == x->buffer && y->offset == x->offset &&
           y->desc.dtype == x->desc.dtype && ig_operand_is_packed(y) && ig_operand_is_packed(x) &&
           columns_of(y) == columns_of(x) &&
           ig_shape_count(y->desc.shape) == ig_shape_count(x->desc.shape);
}

/* The chain of the previous level that writes the rows of in[0] of step i, which are in cache then;
 * NULL: none.  A chain that can be cut anywhere stays so if its rows are long and too few for all
 * threads. */
static chain *writer_of(const cpu_program *p, const ig_step *steps, uint32_t i,
                        const ig_cpu_setup *setup, const level *now) {
    enum { ROWS_ENOUGH = 32 };
    const ig_step *step = ig_step_at(steps, i);
    if (!setup->prologue_by_row || now->follows) return NULL;
    for (chain *c = p->chains + now->chain; c-- > p->chains;) {
        if (ig_step_at(steps, p->step_of[c->first])->level + 1 < step->level) break;
        if (c->rows != setup->prologue_units || c->split == BY_UNIT) continue;
        if (c->split == BY_ELEMENT && c->row_cost >= CHUNK_WORK && c->rows < ROWS_ENOUGH) continue;
        for (uint32_t t = c->first; t != NO_TASK; t = p->next[t])
            if (p->step_of[t] == t && writes_rows(ig_step_at(steps, t), &step->in[0])) return c;
    }
    return NULL;
}

/* A chain of one task, before chain `at`, which then waits for it. */
static chain *insert_chain(cpu_program *p, uint32_t at, uint32_t i) {
    chain *c = &p->chains[at];
    memmove(c + 1, c, (p->n_chains++ - at) * sizeof *c);
    *c = (chain){.first = NO_TASK, .split = BY_UNIT, .barrier = c[1].barrier};
    c[1].barrier = true;
    append(p, c, i);
    return c;
}

/*
 * Adds the prologue of step i, whose task was added last.  Where a chain of the previous level
 * writes its rows, the prologue is appended to that chain.  Else it goes before all chains of the
 * level, followed by a barrier that several steps share.  A step that follows others of its chain
 * may read what they write; its prologue stays in the chain.
 *
 *     level   [ a  b  prologue c ] barrier [ prologue d | prologue e ] barrier [ c  d  e ]
 */
static void add_prologue(cpu_program *p, const ig_step *steps, uint32_t i,
                         const ig_cpu_setup *setup, level *now) {
    const uint32_t own = p->n_tasks++;
    p->step_of[own] = i;
    p->tasks[own] = p->tasks[i];
    p->tasks[own].launch.run = setup->prologue;
    p->tasks[own].width = 1;
    chain *c = writer_of(p, steps, i, setup, now);
    if (c) {
        append(p, c, own);
        c->split = BY_ROW;
        c->row_cost += cost_of(setup->prologue_cost, 1);
        return;
    }
    c = insert_chain(p, now->follows ? p->n_chains - 1 : now->chain + now->prologues, own);
    c->barrier &= now->follows || now->prologues == 0;
    c->units = setup->prologue_units;
    c->unit_cost = cost_of(setup->prologue_cost, 1);
    if (!now->follows) now->prologues++;
}

/* Chunks of about CHUNK_WORK each, numbered through all chains. */
static void cut(cpu_program *p) {
    int64_t tickets = 0, before_level = 0;
    p->is_serial = true;
    p->n_barriers = 2;
    for (chain *c = p->chains; c < p->chains + p->n_chains; c++) {
        if (c->split == BY_ELEMENT)
            for (uint32_t i = c->first; i != NO_TASK; i = p->next[i]) p->tasks[i].width = 1;
        if (c->split != BY_UNIT) c->units = c->split == BY_ROW ? c->rows : c->rows * c->columns;
        const int64_t each = c->split == BY_ROW ? c->row_cost : c->unit_cost;
        c->chunk = CHUNK_WORK / (each > 0 ? each : 1); /* rows without columns cost nothing */
        if (c->chunk < c->grain) c->chunk = c->grain;
        if (c->chunk == 0) c->chunk = 1;
        if (c->grain_single < c->chunk) c->grain_single = c->chunk;
        if (c->barrier) before_level = tickets;
        p->n_barriers += c->barrier;
        c->begin = tickets;
        tickets += c->units / c->chunk + (c->units % c->chunk != 0);
        c->end = tickets;
        p->is_serial &= tickets - before_level <= 1;
    }
}

static void cpu_destroy(ig_backend_program *program) {
    cpu_program *p = (cpu_program *)program;
    const ig_host *host = p->host;
    host->free(host, p->chains);
    host->free(host, p->params);
    host->free(host, p->at);
    host->free(host, p->operands);
    host->free(host, p->next);
    host->free(host, p->step_of);
    host->free(host, p->tasks);
    host->free(host, p);
}

/* An empty program with room for the steps; NULL: no memory. */
static cpu_program *create(const ig_host *host, size_t tasks, size_t operands,
                           size_t params_bytes) {
    cpu_program *p = host->alloc(host, 1, sizeof *p);
    if (!p) return NULL;
    p->base = (ig_backend_program){ig_cpu_submit, cpu_destroy};
    p->host = host;
    p->tasks = host->alloc(host, tasks, sizeof *p->tasks);
    p->step_of = host->alloc(host, tasks, sizeof *p->step_of);
    p->next = host->alloc(host, tasks, sizeof *p->next);
    p->operands = host->alloc(host, operands, sizeof *p->operands);
    p->at = host->alloc(host, operands, sizeof *p->at);
    p->params = host->alloc(host, params_bytes, 1);
    p->chains = host->alloc(host, tasks, sizeof *p->chains);
    if (p->tasks && p->step_of && p->next && p->operands && p->at && p->params && p->chains)
        return p;
    cpu_destroy(&p->base);
    return NULL;
}

static ig_status refuse(const ig_backend_device *device, const ig_step *step, uint32_t i) {
    const char *dtype = step->n_in + step->n_out > 0
                            ? ig_dtype_name(ig_step_operand(step, 0)->desc.dtype)
                            : "nothing";
    return IG_HOST_FAIL(device->host, IG_ERR_UNSUPPORTED, "cpu: step %u: no kernel for %s of %s", i,
                        ig_op_name(step->op), dtype);
}

/* Sizes of a program. */
typedef struct needs {
    size_t operands, params_bytes;
    uint32_t prologues;
    uint64_t packed_bytes;
} needs;

static ig_status add_needs(const ig_backend_device *device, const ig_step *steps, uint32_t i,
                           needs *out) {
    ig_cpu_setup setup;
    const ig_step *step = ig_step_at(steps, i);
    if (!ig_cpu_find(device, step, &setup)) return refuse(device, step, i);
    if (setup.scratch_bytes > step->scratch_bytes)
        return IG_HOST_FAIL(device->host, IG_ERR_ARGUMENT,
                            "cpu: step %u: %s has %llu bytes of scratch and needs %llu", i,
                            ig_op_name(step->op), (unsigned long long)step->scratch_bytes,
                            (unsigned long long)setup.scratch_bytes);
    out->operands += (size_t)step->n_in + step->n_out;
    out->params_bytes += params_room(&setup);
    out->prologues += setup.prologue != NULL;
    out->packed_bytes += ig_cpu_pack_bytes(device->host, step, &setup);
    return IG_OK;
}

static ig_status add_step(cpu_program *p, const ig_backend_device *device, const ig_step *steps,
                          uint32_t i, level *now, ig_cpu_pack_progress *packing) {
    ig_cpu_setup setup;
    const void *packed;
    const ig_step *step = ig_step_at(steps, i), *before = ig_step_at(steps, i > 0 ? i - 1 : 0);
    const ig_cpu_entry *entry = ig_cpu_find(device, step, &setup);
    IG_TRY(ig_cpu_pack_weight(device->host, step, &setup, packing, &packed));
    add_task(p, step, i, entry, &setup, packed);
    extend(p, chain_of(p, steps, i, entry->split), steps, i, entry->split, &setup);
    if (before->level != step->level) *now = (level){.chain = p->n_chains - 1};
    now->follows = i > 0 && before->level == step->level && before->chain == step->chain;
    if (setup.pack.prologue_packed_only && !packed) setup.prologue = NULL;
    if (setup.prologue && !shares_scratch(&p->tasks[i], step, &setup, now))
        add_prologue(p, steps, i, &setup, now);
    return IG_OK;
}

ig_status ig_cpu_compile(ig_backend_device *device, const ig_step *steps, uint32_t count,
                         ig_blob saved, ig_progress *progress, ig_backend_program **out) {
    (void)saved; /* only packing takes time, and packed weights are cached apart */
    needs need = {0};
    for (uint32_t i = 0; i < count; i++) IG_TRY(add_needs(device, steps, i, &need));
    cpu_program *p =
        create(device->host, (size_t)count + need.prologues, need.operands, need.params_bytes);
    if (!p) return IG_HOST_FAIL(device->host, IG_ERR_MEMORY, "cpu: %u steps", count);

    level now = {0};
    ig_cpu_pack_progress packing = {progress, 0, need.packed_bytes};
    ig_status status = IG_OK;
    p->shares = ((cpu_device *)device)->shares;
    p->n_tasks = count;
    for (uint32_t i = 0; i < count && status == IG_OK; i++)
        status = add_step(p, device, steps, i, &now, &packing);
    if (status != IG_OK) {
        cpu_destroy(&p->base);
        return status;
    }
    cut(p);
    *out = &p->base;
    return IG_OK;
}
