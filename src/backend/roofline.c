/*
 * Measures the machine's roofline: see bench.h.
 *
 * Each thread of the team repeats a unit of a few tens of microseconds until time is up, and the
 * threads' rates are summed. So if a thread is preempted, only its own lost work is missing.
 * Barriers and fork-joins, which need all threads, are counted by the caller.
 */
#include "ingot/bench.h"

#include <stdio.h>
#include <string.h>

#include "backend/cpu/cpu_roofline.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/machine_memory.h"
#include "base/team.h"

enum {
    ROUNDS = 4096,                              /* of arithmetic per unit */
    STREAM_BYTES = 64 * 1024,                   /* per stream and unit */
    READ_UNIT = IG_READ_STREAMS * STREAM_BYTES, /* of all streams */
    MEETINGS = 64, /* barriers of all threads between two clock reads */
    MAX_THREADS = 1024,
};

static const double default_seconds = 0.1, most_seconds = 60;
static const uint64_t least_read_bytes = 256u << 20, most_read_bytes = UINT64_C(1) << 40;

typedef struct measurement {
    const ig_cpu_roofline *loops;
    const ig_allocator *allocator;
    ig_team *team;
    ig_roofline what;
    double seconds;
    uint64_t units; /* of READ: in one thread's memory */
    char *memory;   /* for all threads; NULL: each allocates its own */
    double *rates;  /* per thread; negative: out of memory */
} measurement;

/* The size of the last-level cache; 0: unknown. */
static uint64_t cache_bytes(void) {
    unsigned long long kib = 0;
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "re");
    if (!file) return 0;
    if (fscanf(file, "%lluK", &kib) != 1 || kib > most_read_bytes / 1024) kib = 0;
    fclose(file);
    return kib * 1024;
}

/* Large enough that even a cache of 300 MB holds little of data that is read repeatedly. */
uint64_t ig_roofline_read_bytes(void) {
    const uint64_t wanted = 8 * cache_bytes(), quarter = ig_memory_available() / 4;
    const uint64_t bytes = wanted < quarter ? wanted : quarter;
    return bytes > least_read_bytes ? bytes : least_read_bytes;
}

/* Runs unit `i` and returns its bytes or operations. */
static double run_unit(const measurement *m, const char *memory, uint64_t i) {
    _Alignas(IG_SINK_BYTES) char sink[IG_SINK_BYTES];
    switch (m->what) {
    case IG_ROOF_READ:
        m->loops->read(memory + i % m->units * STREAM_BYTES, m->units * STREAM_BYTES, STREAM_BYTES,
                       (int32_t *)sink);
        return READ_UNIT;
    case IG_ROOF_FMA_F32:
        m->loops->fma(ROUNDS, (float *)sink);
        return (double)ROUNDS * m->loops->fma_ops;
    default: m->loops->dot(ROUNDS, (int32_t *)sink); return (double)ROUNDS * m->loops->dot_ops;
    }
}

/* Allocates a thread's memory and writes it first: first touch places it on the thread's NUMA
 * node, and pages never written all map to the zero page. NULL: out of memory. */
static char *memory_of(const measurement *m, uint32_t thread) {
    const uint64_t bytes = m->units * READ_UNIT;
    char *memory = m->memory ? m->memory + thread * bytes : ig_alloc(m->allocator, bytes, 1);
    if (!memory || memory[0]) return memory;
    ig_ask_large_pages(memory, bytes); /* as for packed weights */
    return memset(memory, 1, bytes);
}

/* The task of a thread. */
static void work(void *task, uint32_t thread, uint32_t threads) {
    (void)threads;
    const measurement *m = task;
    const bool reads = m->what == IG_ROOF_READ;
    char *memory = reads ? memory_of(m, thread) : NULL;
    m->rates[thread] = -1;
    ig_team_barrier(m->team);
    if (reads && !memory) return;
    const double began = ig_clock_seconds();
    double done = 0, seconds = 0;
    for (uint64_t i = 0; seconds < m->seconds; i++) {
        done += run_unit(m, memory, i);
        seconds = ig_clock_seconds() - began;
    }
    m->rates[thread] = done / seconds;
    if (!m->memory) ig_free(m->allocator, memory);
}

static ig_status add_up(measurement *m, double *out) {
    ig_team_run(m->team, work, m);
    double sum = 0;
    for (uint32_t i = 0; i < ig_team_threads(m->team); i++) {
        if (m->rates[i] < 0)
            return IG_FAIL(IG_ERR_MEMORY, "roofline: no memory for %llu bytes on thread %u",
                           (unsigned long long)(m->units * READ_UNIT), i);
        sum += m->rates[i];
    }
    *out = sum;
    return IG_OK;
}

/* ---- All threads together ---- */

static void meet(void *task, uint32_t thread, uint32_t threads) {
    (void)thread, (void)threads;
    const measurement *m = task;
    for (int i = 0; i < MEETINGS; i++) ig_team_barrier(m->team);
}

static void do_nothing(void *task, uint32_t thread, uint32_t threads) {
    (void)task, (void)thread, (void)threads;
}

static double count_runs(measurement *m) {
    const bool barriers = m->what == IG_ROOF_BARRIER;
    ig_team_task *fn = barriers ? meet : do_nothing;
    ig_team_run(m->team, fn, m); /* starts the threads */
    const double began = ig_clock_seconds();
    double done = 0, seconds = 0;
    while (seconds < m->seconds) {
        for (int i = 0; i < (barriers ? 1 : MEETINGS); i++) ig_team_run(m->team, fn, m);
        done += MEETINGS;
        seconds = ig_clock_seconds() - began;
    }
    return done / seconds;
}

static ig_status run(measurement *m, double *out) {
    if (m->what < IG_ROOF_BARRIER) return add_up(m, out);
    *out = count_runs(m);
    return IG_OK;
}

static ig_status check(ig_roofline what, const ig_roofline_options *o) {
    if ((unsigned)what >= IG_ROOF_COUNT)
        return IG_FAIL(IG_ERR_ARGUMENT, "roofline: %d is not a roof", (int)what);
    if (o->threads < 0 || o->threads > MAX_THREADS)
        return IG_FAIL(IG_ERR_ARGUMENT, "roofline: %d threads", o->threads);
    if (!(o->seconds >= 0 && o->seconds <= most_seconds))
        return IG_FAIL(IG_ERR_ARGUMENT, "roofline: %g seconds", o->seconds);
    if (o->read_bytes > most_read_bytes)
        return IG_FAIL(IG_ERR_ARGUMENT, "roofline: %llu bytes to read",
                       (unsigned long long)o->read_bytes);
    return IG_OK;
}

ig_status ig_roofline_measure(ig_roofline what, const ig_roofline_options *options, double *out) {
    static const ig_host host = {
        .abi = IG_BACKEND_ABI, .struct_size = sizeof host, .fail = ig_fail};
    const ig_roofline_options o = options ? *options : (ig_roofline_options){0};
    ig_isa isa;
    IG_TRY(check(what, &o));
    IG_TRY(ig_isa_choose(&host, &isa));
    const uint32_t threads = o.threads > 0 ? (uint32_t)o.threads : ig_team_default_threads();
    const uint64_t bytes = o.read_bytes > 0 ? o.read_bytes : ig_roofline_read_bytes();
    const uint64_t each = bytes / threads / READ_UNIT; /* units per thread */
    if (o.memory && (each == 0 || o.read_bytes == 0))
        return IG_FAIL(IG_ERR_ARGUMENT, "roofline: memory of %llu bytes for %u threads, %d each",
                       (unsigned long long)o.read_bytes, threads, READ_UNIT);
    measurement m = {.loops = ig_cpu_roofline_of(isa),
                     .allocator = o.allocator.alloc ? &o.allocator : &ig_heap,
                     .what = what,
                     .seconds = o.seconds > 0 ? o.seconds : default_seconds,
                     .units = o.memory ? each : each + 1,
                     .memory = o.memory};
    IG_TRY(ig_team_create(m.allocator, threads, &m.team));
    m.rates = ig_alloc(m.allocator, threads, sizeof *m.rates);
    const ig_status status =
        m.rates ? run(&m, out) : IG_FAIL(IG_ERR_MEMORY, "roofline: %u threads", threads);
    ig_free(m.allocator, m.rates);
    ig_team_destroy(m.team);
    return status;
}
