#include "backend/standalone_host.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "ingot/status.h"

static void host_log(const ig_host *host, ig_log_level level, const char *text) {
    (void)host, (void)level, (void)text;
}

static void *host_alloc(const ig_host *host, size_t count, size_t bytes_each) {
    (void)host;
    return ig_alloc(&ig_heap, count, bytes_each);
}

static void host_free(const ig_host *host, void *p) {
    (void)host;
    ig_free(&ig_heap, p);
}

static bool host_progress(ig_progress *progress, uint64_t done, uint64_t total) {
    (void)progress, (void)done, (void)total;
    return true;
}

static ig_status no_override(ig_backend_device *device, ig_tag tag, ig_compile_fn *compile) {
    (void)device, (void)tag, (void)compile;
    return IG_FAIL(IG_ERR_STATE, "register_override: no plan is being prepared here");
}

static void team_of_one(const ig_host *host, ig_team_fn *fn, void *task) {
    (void)host;
    fn(task, 0, 1);
}

static void no_barrier(const ig_host *host) { (void)host; }

const ig_host ig_standalone_host = {.abi = IG_BACKEND_ABI,
                                    .struct_size = sizeof(ig_host),
                                    .fail = ig_fail,
                                    .log = host_log,
                                    .alloc = host_alloc,
                                    .free = host_free,
                                    .progress = host_progress,
                                    .register_override = no_override,
                                    .team = team_of_one,
                                    .team_barrier = no_barrier};

/* ---- for the conformance cases ---- */

typedef struct member {
    ig_team_fn *fn;
    void *task;
    uint32_t thread, threads;
} member;

static void *enter(void *arg) {
    const member *m = arg;
    m->fn(m->task, m->thread, m->threads);
    return NULL;
}

/* The caller is thread 0. Aborts if a thread cannot be started: the others would wait at a barrier
 * forever. */
static void run_team(const ig_host *base, ig_team_fn *fn, void *task) {
    const ig_test_host *host = (const ig_test_host *)base;
    pthread_t ids[IG_TEST_HOST_THREADS];
    member members[IG_TEST_HOST_THREADS];
    for (uint32_t i = 1; i < host->threads; i++) {
        members[i] = (member){fn, task, i, host->threads};
        if (pthread_create(&ids[i], NULL, enter, &members[i]) != 0) {
            fprintf(stderr, "conformance: cannot start a thread\n");
            abort();
        }
    }
    fn(task, 0, host->threads);
    for (uint32_t i = 1; i < host->threads; i++) pthread_join(ids[i], NULL);
}

static void team_barrier(const ig_host *base) {
    ig_test_host *host = (ig_test_host *)base;
    pthread_barrier_wait(&host->barrier);
}

static void *counted_alloc(const ig_host *base, size_t count, size_t bytes_each) {
    void *p = ig_alloc(&ig_heap, count, bytes_each);
    if (p) ((ig_test_host *)base)->live++;
    return p;
}

static void counted_free(const ig_host *base, void *p) {
    if (p) ((ig_test_host *)base)->live--;
    ig_free(&ig_heap, p);
}

static void log_warning(const ig_host *base, ig_log_level level, const char *text) {
    if (level < IG_LOG_WARNING) return;
    ((ig_test_host *)base)->warnings++;
    fprintf(stderr, "%s\n", text);
}

static ig_status accept_override(ig_backend_device *device, ig_tag tag, ig_compile_fn *compile) {
    (void)device, (void)tag, (void)compile;
    return IG_OK;
}

void ig_test_host_init(ig_test_host *host, uint32_t threads) {
    assert(threads > 0 && threads <= IG_TEST_HOST_THREADS);
    *host = (ig_test_host){.base = ig_standalone_host, .threads = threads};
    host->base.log = log_warning;
    host->base.alloc = counted_alloc;
    host->base.free = counted_free;
    host->base.register_override = accept_override;
    host->base.team = run_team;
    host->base.team_barrier = team_barrier;
    pthread_barrier_init(&host->barrier, NULL, threads);
}

void ig_test_host_deinit(ig_test_host *host) { pthread_barrier_destroy(&host->barrier); }
