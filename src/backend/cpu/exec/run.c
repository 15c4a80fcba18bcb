/*
 * Running a program: the threads of the host's team claim (chain, chunk) until none is left.
 *
 * Buffers of the host are addresses, so a run first computes the address of each operand.
 */
#include "backend/cpu/exec/cpu_program.h"

#include "base/clock.h"

/* Claims a chunk of share `of` out of `shares`; -1: all are claimed. */
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

/* The same, reported to the host. */
static void run_task_traced(const cpu_program *p, const task *t, int64_t begin, int64_t end,
                            uint32_t thread) {
    const uint64_t start = ig_clock_ns();
    t->launch.run(&t->launch, begin, end);
    p->host->trace(p->host, thread, p->step_of[t - p->tasks], start, ig_clock_ns());
}

/* `units` units from `begin` on, or as many as there are. */
static void run_units(const cpu_program *p, const chain *c, int64_t begin, int64_t units,
                      uint32_t thread) {
    const int64_t left = c->units - begin, end = begin + (left < units ? left : units);
    for (uint32_t i = c->first; i != NO_TASK; i = p->next[i]) {
        const task *t = &p->tasks[i];
        if (p->traced)
            run_task_traced(p, t, begin * t->width, end * t->width, thread);
        else
            t->launch.run(&t->launch, begin * t->width, end * t->width);
    }
}

static void work_single(const cpu_program *p) {
    for (const chain *c = p->chains; c < p->chains + p->n_chains; c++)
        for (int64_t i = 0; i < c->units; i += c->grain_single)
            run_units(p, c, i, c->grain_single, 0);
}

/*
 * What each thread of the team does.
 *
 *     chain          0         1    |    2           A ticket is a chunk of a chain, through
 *     ticket   0 1 2 | 3 4 5   6 7  |  8 9 | 10 11    all its tasks.  Those of a chain are
 *     share      0       1     0 1  |   0      1      dealt into shares, one for each thread.
 *                                barrier
 *
 * A thread begins with its own share, so that it finds in its cache what it wrote in
 * the previous step and run, and then claims chunks of other shares.
 */
static void work_team(void *program, uint32_t thread, uint32_t threads) {
    cpu_program *p = program;
    if (threads == 1) {
        work_single(p);
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
    const bool team = ig_cpu_team_choose(&p->choice, p->n_barriers);
    const uint64_t start = ig_clock_ns();
    if (team) {
        for (int i = 0; i < SHARES; i++)
            atomic_store_explicit(&p->shares[i].next, 0, memory_order_relaxed);
        p->host->team(p->host, work_team, p);
    } else {
        work_single(p);
    }
    ig_cpu_team_took(&p->choice, ig_clock_ns() - start);
}

ig_status ig_cpu_submit(ig_backend_program *program, ig_backend_buffer *const *buffers,
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
    p->traced = p->host->struct_size > offsetof(ig_host, trace) && p->host->trace;
    if (p->is_serial || !p->host->team)
        work_single(p);
    else
        work_timed(p);
    return IG_OK;
}
