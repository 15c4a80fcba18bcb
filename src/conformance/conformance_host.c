#include "conformance/conformance_host.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

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

/* The caller is thread 0.  A thread that cannot be started would leave the others waiting at a
 * barrier for ever. */
static void team(const ig_host *base, ig_team_fn *fn, void *task) {
    const test_host *host = (const test_host *)base;
    pthread_t ids[HOST_MAX_THREADS];
    member members[HOST_MAX_THREADS];
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
    test_host *host = (test_host *)base;
    pthread_barrier_wait(&host->barrier);
}

static void *host_alloc(const ig_host *base, size_t count, size_t bytes_each) {
    void *p = ig_alloc(&ig_heap, count, bytes_each);
    if (p) ((test_host *)base)->live++;
    return p;
}

static void host_free(const ig_host *base, void *p) {
    if (p) ((test_host *)base)->live--;
    ig_free(&ig_heap, p);
}

static void host_log(const ig_host *base, ig_log_level level, const char *text) {
    if (level < IG_LOG_WARNING) return;
    ((test_host *)base)->warnings++;
    fprintf(stderr, "%s\n", text);
}

static bool host_progress(ig_progress *progress, uint64_t done, uint64_t total) {
    (void)progress, (void)done, (void)total;
    return true;
}

static ig_status no_override(ig_backend_device *device, ig_tag tag, ig_compile_fn *compile) {
    (void)device, (void)tag, (void)compile;
    return IG_OK;
}

void host_init(test_host *host, uint32_t threads) {
    assert(threads > 0 && threads <= HOST_MAX_THREADS);
    *host = (test_host){.threads = threads};
    host->base = (ig_host){.abi = IG_BACKEND_ABI,
                           .struct_size = sizeof(ig_host),
                           .fail = ig_fail,
                           .log = host_log,
                           .alloc = host_alloc,
                           .free = host_free,
                           .progress = host_progress,
                           .register_override = no_override,
                           .team = team,
                           .team_barrier = team_barrier};
    pthread_barrier_init(&host->barrier, NULL, threads);
}

void host_deinit(test_host *host) { pthread_barrier_destroy(&host->barrier); }
