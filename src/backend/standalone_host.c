#include "backend/standalone_host.h"

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

const ig_host ig_lone_host = {.abi = IG_BACKEND_ABI,
                              .struct_size = sizeof(ig_host),
                              .fail = ig_fail,
                              .log = host_log,
                              .alloc = host_alloc,
                              .free = host_free,
                              .progress = host_progress,
                              .register_override = no_override,
                              .team = team_of_one,
                              .team_barrier = no_barrier};
