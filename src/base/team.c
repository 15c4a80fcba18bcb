#include "base/team.h"

#include <assert.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_THREADS = 256, SPINS = 2000, ARRIVED_BITS = 10, ARRIVED = (1 << ARRIVED_BITS) - 1 };
static_assert(MAX_THREADS <= ARRIVED, "all threads can be counted");

typedef struct worker {
    ig_team *team;
    uint32_t id;
    pthread_t thread;
} worker;

/* A futex word, a cache line apart from others. Waking is a system call, so it is made only if a
 * thread sleeps. */
typedef struct gate {
    _Alignas(64) _Atomic uint32_t word;
    _Atomic uint32_t sleepers;
} gate;

struct ig_team {
    const ig_allocator *allocator;
    uint32_t wanted, threads; /* requested; running, including the caller */
    bool started;
    worker *workers;
    ig_team_task *fn;
    void *task;
    gate round;   /* incremented with every run */
    gate working; /* threads still in the run */
    gate meeting; /* barriers passed; the low bits count arrivals at the next one */
    _Alignas(64) _Atomic uint32_t quit;
};

static void pause_briefly(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Called after the word has changed. The change and the sleeper's check are sequentially
 * consistent: either the sleeper sees the change or this sees the sleeper. */
static void wake_all(gate *g) {
    if (atomic_load(&g->sleepers) > 0)
        syscall(SYS_futex, (uint32_t *)&g->word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* Returns when the word, without its low bits, differs from `value`. */
static void wait_while(gate *g, uint32_t value, int bits) {
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&g->word, memory_order_acquire) >> bits != value) return;
        pause_briefly();
    }
    atomic_fetch_add(&g->sleepers, 1);
    for (uint32_t word; (word = atomic_load(&g->word)) >> bits == value;)
        syscall(SYS_futex, (uint32_t *)&g->word, FUTEX_WAIT_PRIVATE, word, NULL, NULL, 0);
    atomic_fetch_sub(&g->sleepers, 1);
}

static void *work(void *arg) {
    const worker *w = arg;
    ig_team *team = w->team;
    for (uint32_t round = 0;; round++) {
        wait_while(&team->round, round, 0);
        if (atomic_load_explicit(&team->quit, memory_order_acquire)) return NULL;
        team->fn(team->task, w->id, team->threads);
        if (atomic_fetch_sub(&team->working.word, 1) == 1) wake_all(&team->working);
    }
}

/* Kernels keep panels of up to 250 KiB on the stack, and the default size of a thread's stack is
 * the limit of the process (ulimit -s), which may be less.  Pages that are not touched take none.
 */
enum { STACK_BYTES = 2 << 20 };

/* Continues without threads that the system refuses. */
static void start(ig_team *team) {
    pthread_attr_t attributes;
    size_t bytes = 0;
    pthread_attr_init(&attributes);
    if (pthread_attr_getstacksize(&attributes, &bytes) != 0 || bytes < STACK_BYTES)
        (void)!pthread_attr_setstacksize(&attributes, STACK_BYTES);
    team->started = true;
    team->threads = 1;
    for (uint32_t i = 1; i < team->wanted; i++) {
        worker *w = &team->workers[i];
        *w = (worker){.team = team, .id = i};
        if (pthread_create(&w->thread, &attributes, work, w) != 0) break;
        team->threads++;
    }
    pthread_attr_destroy(&attributes);
}

void ig_team_run(ig_team *team, ig_team_task *fn, void *task) {
    if (!team->started) start(team);
    if (team->threads == 1) {
        fn(task, 0, 1);
        return;
    }
    team->fn = fn;
    team->task = task;
    atomic_store_explicit(&team->working.word, team->threads - 1, memory_order_relaxed);
    atomic_fetch_add(&team->round.word, 1);
    wake_all(&team->round);
    fn(task, 0, team->threads);
    for (uint32_t left;
         (left = atomic_load_explicit(&team->working.word, memory_order_acquire)) > 0;)
        wait_while(&team->working, left, 0);
}

/* Each arriving thread increments the count; the last one resets it and starts the next round. */
void ig_team_barrier(ig_team *team) {
    if (team->threads == 1) return;
    const uint32_t word = atomic_fetch_add_explicit(&team->meeting.word, 1, memory_order_acq_rel);
    const uint32_t round = word >> ARRIVED_BITS, arrived = (word & ARRIVED) + 1;
    if (arrived < team->threads) {
        wait_while(&team->meeting, round, ARRIVED_BITS);
        return;
    }
    atomic_store(&team->meeting.word, (round + 1) << ARRIVED_BITS);
    wake_all(&team->meeting);
}

ig_status ig_team_create(const ig_allocator *allocator, uint32_t threads, ig_team **out) {
    if (threads < 1 || threads > MAX_THREADS)
        return IG_FAIL(IG_ERR_ARGUMENT, "%u threads: from 1 to %d", threads, MAX_THREADS);
    ig_team *team = ig_alloc(allocator, 1, sizeof *team);
    if (!team) return IG_FAIL(IG_ERR_MEMORY, "a team of %u threads", threads);
    team->allocator = allocator;
    team->wanted = team->threads = threads;
    team->workers = ig_alloc(allocator, threads, sizeof *team->workers);
    if (team->workers) {
        *out = team;
        return IG_OK;
    }
    ig_free(allocator, team);
    return IG_FAIL(IG_ERR_MEMORY, "a team of %u threads", threads);
}

void ig_team_destroy(ig_team *team) {
    if (!team) return;
    if (team->started && team->threads > 1) {
        atomic_store_explicit(&team->quit, 1, memory_order_release);
        atomic_fetch_add(&team->round.word, 1);
        wake_all(&team->round);
        for (uint32_t i = 1; i < team->threads; i++) pthread_join(team->workers[i].thread, NULL);
    }
    ig_free(team->allocator, team->workers);
    ig_free(team->allocator, team);
}

uint32_t ig_team_threads(const ig_team *team) { return team->threads; }

/* The cgroup's limit in whole processors, rounded up; UINT32_MAX: none. */
static uint32_t cgroup_limit(void) {
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    long long quota = 0, period = 0;
    if (!file) return UINT32_MAX;
    const int found = fscanf(file, "%lld %lld", &quota, &period); /* "max 100000" has no quota */
    fclose(file);
    if (found != 2 || quota <= 0 || period <= 0) return UINT32_MAX;
    const long long whole = (quota + period - 1) / period;
    return whole > MAX_THREADS ? MAX_THREADS : (uint32_t)whole;
}

uint32_t ig_team_default_threads(void) {
    cpu_set_t set;
    uint32_t n = sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
    const uint32_t limit = cgroup_limit();
    if (n > limit) n = limit;
    if (n > MAX_THREADS) n = MAX_THREADS;
    return n > 0 ? n : 1;
}
