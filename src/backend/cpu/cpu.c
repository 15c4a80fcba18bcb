/*
 * The CPU backend: the table of functions that backend.h asks for.
 *
 * compile() turns steps into tasks, each with its kernel's address, and groups
 * them into chains.  submit() lets every thread of the host's team claim (chain,
 * chunk) until none is left.  Chunks depend on shapes alone and every unit is
 * computed whole by one thread, so results do not depend on the number of
 * threads.  Memory is the host's: a buffer is its address.
 */
#include "backend/cpu/cpu.h"

#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "backend/cpu/exec/team_choice.h"
#include "backend/cpu/exec/pack.h"

/* Multiply-adds per chunk: microseconds, so that a claim costs next to nothing, and no more than
 * 128 KiB of f32, so that a chain finds in the cache what it has just written. */
enum { CHUNK_WORK = 1 << 15 };

enum { ALIGNMENT = 64 }; /* of offsets, and of what kernels keep */

#define NO_SCRATCH UINT64_MAX
#define NO_TASK    UINT32_MAX

enum { SHARES = 64 }; /* most that the chunks of a chain are dealt into */

/* The next ticket of a share, a cache line apart from others. */
typedef struct share {
    _Atomic int64_t next;
    char apart[56];
} share;

typedef struct cpu_device {
    ig_backend_device base;
    ig_isa isa;
    const ig_cpu_entry *const *lists;
    share shares[SHARES]; /* of the program that runs */
} cpu_device;

/* A step, settled. */
typedef struct task {
    ig_cpu_launch launch;
    int64_t width;           /* units of the kernel in one unit of the chain */
    uint64_t scratch_offset; /* in the arena */
} task;
static_assert(sizeof(task) <= 64, "a task is one cache line");

/* Tasks that a thread takes a chunk through without waiting for the others. */
typedef struct chain {
    uint32_t first, last;        /* its tasks, each of which knows the next */
    bool barrier;                /* all chains before it must be done */
    ig_cpu_split split;          /* what its units are */
    int64_t units, chunk;        /* in all, and per chunk */
    int64_t together, alone;     /* at least so many per chunk; and per chunk of one thread */
    int64_t rows, columns;       /* of its first output */
    int64_t unit_cost, row_cost; /* of one kernel unit, of a row: through all tasks */
    int64_t begin, end;          /* its tickets, one per chunk */
} chain;

typedef struct cpu_program {
    ig_backend_program base;
    const ig_host *host;
    task *tasks;          /* one for each step, then those that prepare some of them */
    uint32_t *step_of;    /* of each task, */
    uint32_t *next;       /* and the one behind it in its chain */
    ig_operand *operands; /* of all tasks, */
    char **at;            /* and where each lies in this run */
    char *params;         /* of all tasks */
    chain *chains;
    uint32_t n_tasks, n_operands, n_chains;
    size_t params_bytes;
    bool alone;           /* no two chunks could run at once */
    uint32_t n_barriers;  /* the team's start and finish counted in */
    ig_cpu_choice choice; /* between the team and one thread */
    bool watched;         /* in this run */
    share *shares;        /* of the device */
} cpu_program;

/* ---- choosing kernels ---- */

/* An output may lie where an input lies if each element is read before it is written, and by the
 * same thread: with updates that is the planner's promise. */
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

/* The kernel that computes the step, and what it needs; NULL: there is none. */
static const ig_cpu_entry *find(const ig_backend_device *device, const ig_step *step,
                                ig_cpu_setup *setup) {
    if (!ig_step_known(step) || step->n_out == 0 || !aliases_fit(step)) return NULL;
    for (uint32_t i = 0; i < step->n_in + step->n_out; i++)
        if (ig_step_operand(step, i)->vary_dim >= 0) return NULL;

    const ig_dtype dtype = ig_step_operand(step, 0)->desc.dtype;
    for (const ig_cpu_entry *const *list = ((const cpu_device *)device)->lists; *list; list++)
        for (const ig_cpu_entry *e = *list; e->run; e++) {
            if (e->op != step->op || e->dtype != dtype) continue;
            setup->units = setup->cost = setup->together = setup->alone = 0;
            setup->scratch_bytes = setup->params_bytes = 0;
            setup->pack = (ig_cpu_pack){0};
            setup->prepare = NULL;
            setup->prepare_kind = 0;
            setup->prepares_rows = false;
            if (e->setup(step, setup)) return e;
        }
    return NULL;
}

static bool cpu_can_run(const ig_backend_device *device, const ig_step *step) {
    ig_cpu_setup setup;
    return find(device, step, &setup) != NULL;
}

static uint64_t cpu_scratch_bytes(const ig_backend_device *device, const ig_step *step) {
    ig_cpu_setup setup;
    return find(device, step, &setup) ? setup.scratch_bytes : 0;
}

static bool cpu_goes_by_row(const ig_backend_device *device, const ig_step *step) {
    ig_cpu_setup setup;
    const ig_cpu_entry *entry = find(device, step, &setup);
    return entry && entry->split == BY_ROW;
}

/* ---- running ---- */

/* A chunk of share number `of` out of so many; -1: all are claimed. */
static int64_t claim(cpu_program *p, const chain *c, int64_t of, int64_t shares) {
    const int64_t chunks = c->end - c->begin;
    const int64_t begin = c->begin + chunks * of / shares;
    const int64_t end = c->begin + chunks * (of + 1) / shares;
    _Atomic int64_t *next = &p->shares[of].next;
    int64_t was = atomic_load_explicit(next, memory_order_relaxed), ticket;
    do {
        ticket = was > begin ? was : begin;
        if (ticket >= end) return -1;
    } while (!atomic_compare_exchange_weak_explicit(next, &was, ticket + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    return ticket - c->begin;
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The same, while somebody watches. */
static void run_task_watched(const cpu_program *p, const task *t, int64_t begin, int64_t end,
                             uint32_t thread) {
    const uint64_t start = now_ns();
    t->launch.run(&t->launch, begin, end);
    p->host->trace(p->host, thread, p->step_of[t - p->tasks], start, now_ns());
}

/* `units` units from `begin` on, or as many as there are. */
static void run_units(const cpu_program *p, const chain *c, int64_t begin, int64_t units,
                      uint32_t thread) {
    const int64_t left = c->units - begin, end = begin + (left < units ? left : units);
    for (uint32_t i = c->first; i != NO_TASK; i = p->next[i]) {
        const task *t = &p->tasks[i];
        if (p->watched)
            run_task_watched(p, t, begin * t->width, end * t->width, thread);
        else
            t->launch.run(&t->launch, begin * t->width, end * t->width);
    }
}

static void work_alone(const cpu_program *p) {
    for (const chain *c = p->chains; c < p->chains + p->n_chains; c++)
        for (int64_t i = 0; i < c->units; i += c->alone) run_units(p, c, i, c->alone, 0);
}

/*
 * What each thread of the team does.
 *
 *     chain          0         1    |    2           A ticket is a chunk of a chain, through
 *     ticket   0 1 2 | 3 4 5   6 7  |  8 9 | 10 11    all its tasks.  Those of a chain are
 *     share      0       1     0 1  |   0      1      dealt into shares, one for each thread.
 *                                barrier
 *
 * A thread begins with its own share, so that it finds in its cache what it has written
 * there, in the step before and in the run before, and then helps with the others'.
 */
static void work(void *program, uint32_t thread, uint32_t threads) {
    cpu_program *p = program;
    if (threads == 1) {
        work_alone(p);
        return;
    }
    const int64_t shares = threads < SHARES ? threads : SHARES, own = thread % shares;
    for (const chain *c = p->chains; c < p->chains + p->n_chains; c++) {
        if (c->barrier) p->host->team_barrier(p->host);
        for (int64_t i = 0; i < shares; i++) {
            const int64_t of = own + i < shares ? own + i : own + i - shares;
            for (int64_t chunk; (chunk = claim(p, c, of, shares)) >= 0;)
                run_units(p, c, chunk * c->chunk, c->chunk, thread);
        }
    }
}

static void work_timed(cpu_program *p) {
    const bool team = ig_cpu_choose_team(&p->choice, p->n_barriers);
    const uint64_t start = now_ns();
    if (team) {
        for (int i = 0; i < SHARES; i++)
            atomic_store_explicit(&p->shares[i].next, 0, memory_order_relaxed);
        p->host->team(p->host, work, p);
    } else {
        work_alone(p);
    }
    ig_cpu_choice_took(&p->choice, now_ns() - start);
}

static ig_status cpu_submit(ig_backend_program *program, ig_backend_buffer *const *buffers,
                            uint32_t n_buffers, const ig_slot *slots, uint32_t n_slots) {
    (void)n_buffers, (void)n_slots;
    cpu_program *p = (cpu_program *)program;
    for (uint32_t i = 0; i < p->n_operands; i++) {
        const ig_operand *o = &p->operands[i];
        char *buffer = (char *)buffers[o->buffer];
        p->at[i] = o->host  ? (char *)(uintptr_t)o->host /* packed */
                   : buffer ? buffer + o->offset
                            : NULL; /* of no elements */
    }
    for (task *t = p->tasks; t < p->tasks + p->n_tasks; t++) {
        t->launch.slots = slots;
        if (t->scratch_offset != NO_SCRATCH)
            t->launch.scratch = (char *)buffers[IG_ARENA] + t->scratch_offset;
    }
    p->watched = p->host->struct_size > offsetof(ig_host, trace) && p->host->trace;
    if (p->alone || !p->host->team)
        work_alone(p);
    else
        work_timed(p);
    return IG_OK;
}

/* ---- making a program ---- */

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
 * computes: then the chain may be cut anywhere, not only between rows.  What lies in another
 * buffer or before and behind is not theirs. */
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
    return (setup->params_bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

/* a b, but no more than is certainly too much for one chunk. */
static int64_t cost_of(int64_t a, int64_t b) {
    int64_t result;
    return __builtin_mul_overflow(a, b, &result) || result > CHUNK_WORK ? CHUNK_WORK : result;
}

/*
 * The chain that step i goes into: the last one, or a new one.  A step whose
 * units are no rows stands alone, and so does one that the planner chained
 * although its rows are others; a barrier then keeps the order.
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
    if (c->together < setup->together) c->together = setup->together;
    if (c->alone < setup->alone) c->alone = setup->alone;
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
        operands[k].host = NULL; /* it was for compile() */
    }
    if (packed) operands[setup->pack.input].host = packed;
    p->n_operands += step->n_in + step->n_out;
}

/* The level that is being made. */
typedef struct level {
    uint32_t chain;    /* its first */
    uint32_t prepared; /* tasks that come before it */
    bool follows;      /* the step at hand follows another of its chain */
    uint32_t n_shared; /* of `prepared`, those that later steps may find what they need in */
    struct {
        ig_cpu_kernel *prepare;
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

/* Whether a step of the level has made already what this one needs: then it looks there.  Scratch
 * is a step's own as long as its level lasts. */
static bool shares(task *t, const ig_step *step, const ig_cpu_setup *setup, level *now) {
    const uint32_t room = sizeof now->shared / sizeof now->shared[0];
    if (setup->prepare_kind == 0 || now->follows) return false;
    for (uint32_t i = 0; i < now->n_shared; i++)
        if (now->shared[i].prepare == setup->prepare &&
            now->shared[i].kind == setup->prepare_kind &&
            same_operand(now->shared[i].x, &step->in[0])) {
            t->scratch_offset = now->shared[i].scratch_offset;
            return true;
        }
    if (now->n_shared < room) {
        now->shared[now->n_shared].prepare = setup->prepare;
        now->shared[now->n_shared].kind = setup->prepare_kind;
        now->shared[now->n_shared].x = &step->in[0];
        now->shared[now->n_shared++].scratch_offset = t->scratch_offset;
    }
    return false;
}

/* Whether the step writes just what the operand shows, row for row. */
static bool makes(const ig_step *step, const ig_operand *x) {
    const ig_operand *y = &step->out[0];
    return step->n_out == 1 && y->buffer == x->buffer && y->offset == x->offset &&
           y->desc.dtype == x->desc.dtype && ig_operand_is_packed(y) && ig_operand_is_packed(x) &&
           columns_of(y) == columns_of(x) &&
           ig_shape_count(y->desc.shape) == ig_shape_count(x->desc.shape);
}

/* The chain of the level before in which rows of in[0] of step i are made, and are warm; NULL:
 * there is none.  One that could be cut anywhere is left so if its rows are long and too few for
 * all threads. */
static chain *maker_of(const cpu_program *p, const ig_step *steps, uint32_t i,
                       const ig_cpu_setup *setup, const level *now) {
    enum { ROWS_ENOUGH = 32 };
    const ig_step *step = ig_step_at(steps, i);
    if (!setup->prepares_rows || now->follows) return NULL;
    for (chain *c = p->chains + now->chain; c-- > p->chains;) {
        if (ig_step_at(steps, p->step_of[c->first])->level + 1 < step->level) break;
        if (c->rows != setup->prepare_units || c->split == BY_UNIT) continue;
        if (c->split == BY_ELEMENT && c->row_cost >= CHUNK_WORK && c->rows < ROWS_ENOUGH) continue;
        for (uint32_t t = c->first; t != NO_TASK; t = p->next[t])
            if (p->step_of[t] == t && makes(ig_step_at(steps, t), &step->in[0])) return c;
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
 * A task before that of step i, which was added last.  Where a chain of the level
 * before makes the rows it needs, it goes there.  Else it goes before all chains of
 * the level, with a barrier behind it, so that several steps share one.  A step
 * that follows others of its chain may need what they make; its task stays there.
 *
 *     level   [ a  b  prepare c ] barrier [ prepare d | prepare e ] barrier [ c  d  e ]
 */
static void prepare(cpu_program *p, const ig_step *steps, uint32_t i, const ig_cpu_setup *setup,
                    level *now) {
    const uint32_t own = p->n_tasks++;
    p->step_of[own] = i;
    p->tasks[own] = p->tasks[i];
    p->tasks[own].launch.run = setup->prepare;
    p->tasks[own].width = 1;
    chain *c = maker_of(p, steps, i, setup, now);
    if (c) {
        append(p, c, own);
        c->split = BY_ROW;
        c->row_cost += cost_of(setup->prepare_cost, 1);
        return;
    }
    c = insert_chain(p, now->follows ? p->n_chains - 1 : now->chain + now->prepared, own);
    c->barrier &= now->follows || now->prepared == 0;
    c->units = setup->prepare_units;
    c->unit_cost = cost_of(setup->prepare_cost, 1);
    if (!now->follows) now->prepared++;
}

/* Chunks of about CHUNK_WORK each, numbered through all chains. */
static void cut(cpu_program *p) {
    int64_t tickets = 0, before_level = 0;
    p->alone = true;
    p->n_barriers = 2;
    for (chain *c = p->chains; c < p->chains + p->n_chains; c++) {
        if (c->split == BY_ELEMENT)
            for (uint32_t i = c->first; i != NO_TASK; i = p->next[i]) p->tasks[i].width = 1;
        if (c->split != BY_UNIT) c->units = c->split == BY_ROW ? c->rows : c->rows * c->columns;
        const int64_t each = c->split == BY_ROW ? c->row_cost : c->unit_cost;
        c->chunk = CHUNK_WORK / (each > 0 ? each : 1); /* rows without columns cost nothing */
        if (c->chunk < c->together) c->chunk = c->together;
        if (c->chunk == 0) c->chunk = 1;
        if (c->alone < c->chunk) c->alone = c->chunk;
        if (c->barrier) before_level = tickets;
        p->n_barriers += c->barrier;
        c->begin = tickets;
        tickets += c->units / c->chunk + (c->units % c->chunk != 0);
        c->end = tickets;
        p->alone &= tickets - before_level <= 1;
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
    p->base = (ig_backend_program){cpu_submit, cpu_destroy};
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

/* What a program needs room for. */
typedef struct needs {
    size_t operands, params_bytes;
    uint32_t prepared;
    uint64_t packed_bytes;
} needs;

static ig_status add_needs(const ig_backend_device *device, const ig_step *steps, uint32_t i,
                           needs *out) {
    ig_cpu_setup setup;
    const ig_step *step = ig_step_at(steps, i);
    if (!find(device, step, &setup)) return refuse(device, step, i);
    if (setup.scratch_bytes > step->scratch_bytes)
        return IG_HOST_FAIL(device->host, IG_ERR_ARGUMENT,
                            "cpu: step %u: %s has %llu bytes of scratch and needs %llu", i,
                            ig_op_name(step->op), (unsigned long long)step->scratch_bytes,
                            (unsigned long long)setup.scratch_bytes);
    out->operands += (size_t)step->n_in + step->n_out;
    out->params_bytes += params_room(&setup);
    out->prepared += setup.prepare != NULL;
    out->packed_bytes += ig_cpu_pack_bytes(device->host, step, &setup);
    return IG_OK;
}

static ig_status add_step(cpu_program *p, const ig_backend_device *device, const ig_step *steps,
                          uint32_t i, level *now, ig_cpu_pack_progress *packing) {
    ig_cpu_setup setup;
    const void *packed;
    const ig_step *step = ig_step_at(steps, i), *before = ig_step_at(steps, i > 0 ? i - 1 : 0);
    const ig_cpu_entry *entry = find(device, step, &setup);
    IG_TRY(ig_cpu_pack_weight(device->host, step, &setup, packing, &packed));
    add_task(p, step, i, entry, &setup, packed);
    extend(p, chain_of(p, steps, i, entry->split), steps, i, entry->split, &setup);
    if (before->level != step->level) *now = (level){.chain = p->n_chains - 1};
    now->follows = i > 0 && before->level == step->level && before->chain == step->chain;
    if (setup.pack.prepares && !packed) setup.prepare = NULL;
    if (setup.prepare && !shares(&p->tasks[i], step, &setup, now))
        prepare(p, steps, i, &setup, now);
    return IG_OK;
}

static ig_status cpu_compile(ig_backend_device *device, const ig_step *steps, uint32_t count,
                             ig_blob saved, ig_progress *progress, ig_backend_program **out) {
    (void)saved; /* it takes no time but for packing, so there is nothing to keep */
    needs need = {0};
    for (uint32_t i = 0; i < count; i++) IG_TRY(add_needs(device, steps, i, &need));
    cpu_program *p =
        create(device->host, (size_t)count + need.prepared, need.operands, need.params_bytes);
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

/* ---- the device ---- */

static ig_status cpu_open(const ig_host *host, uint32_t index, ig_backend_device **out) {
    ig_isa isa;
    if (index > 0) return IG_HOST_FAIL(host, IG_ERR_DEVICE, "cpu:%u: there is only cpu:0", index);
    IG_TRY(ig_isa_choose(host, &isa));
    cpu_device *device = host->alloc(host, 1, sizeof *device);
    if (!device) return IG_HOST_FAIL(host, IG_ERR_MEMORY, "cpu: device");
    device->base.host = host;
    device->isa = isa;
    device->lists = ig_isa_lists(isa);
    *out = &device->base;
    return IG_OK;
}

static void cpu_close(ig_backend_device *device) { device->host->free(device->host, device); }

static void cpu_info(const ig_backend_device *device, ig_device_info *out) {
    const cpu_device *cpu = (const cpu_device *)device;
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    ig_device_info info = {.flags = IG_NEVER_FAILS | IG_EARLY_SCRATCH,
                           .struct_size = out->struct_size,
                           .device_class = IG_DEVICE_CPU,
                           .alignment = ALIGNMENT};
    if (pages > 0 && page_bytes > 0) info.memory_bytes = (uint64_t)pages * (uint64_t)page_bytes;
    for (const ig_cpu_entry *const *list = cpu->lists; *list; list++)
        for (const ig_cpu_entry *e = *list; e->run; e++) info.dtypes |= UINT64_C(1) << e->dtype;
    snprintf(info.name, sizeof info.name, "CPU with %s", ig_isa_name(cpu->isa));
    snprintf(info.architecture, sizeof info.architecture, "%s", ig_isa_name(cpu->isa));
    memcpy(out, &info, out->struct_size < sizeof info ? out->struct_size : sizeof info);
}

const ig_backend ig_cpu_backend = {
    .abi = IG_BACKEND_ABI,
    .struct_size = sizeof(ig_backend),
    .name = "cpu",
    .version = "1",
    .open = cpu_open,
    .close = cpu_close,
    .info = cpu_info,
    .can_run = cpu_can_run,
    .scratch_bytes = cpu_scratch_bytes,
    .compile = cpu_compile,
    .goes_by_row = cpu_goes_by_row,
};
