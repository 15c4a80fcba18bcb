#include "server/metrics.h"

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include "server/metrics_text.h"

/* ---- counting ---- */

const int ig_metrics_codes[] = {200, 202, 204, 304, 400, 401, 403, 404, 405, 408, 409, 411, 413,
                                414, 415, 417, 422, 429, 431, 499, 500, 501, 502, 503, 504, 0};

ig_status ig_metrics_create(const ig_allocator *a, const char *build, ig_metrics **out) {
    static_assert(sizeof ig_metrics_codes / sizeof ig_metrics_codes[0] == IG_METRICS_CODES,
                  "a counter for each code");
    ig_metrics *m = ig_alloc(a, 1, sizeof *m);
    if (!m) return IG_FAIL(IG_ERR_MEMORY, "metrics");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    m->allocator = a;
    m->build = build;
    m->began_s = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    *out = m;
    return IG_OK;
}

void ig_metrics_destroy(ig_metrics *metrics) {
    if (metrics) ig_free(metrics->allocator, metrics);
}

static size_t code_index(int code) {
    size_t i = 0;
    while (ig_metrics_codes[i] != 0 && ig_metrics_codes[i] != code) i++;
    return i;
}

/* The counters of a route, claimed by the first exchange; the last ones are for all that is left.
 */
static ig_metrics_route *route_at(ig_metrics *m, const char *route) {
    for (size_t i = 0; i + 1 < IG_METRICS_ROUTES; i++) {
        uintptr_t none = 0;
        ig_metrics_route *at = &m->routes[i];
        if (atomic_compare_exchange_strong(&at->path, &none, (uintptr_t)route)) return at;
        if (none == (uintptr_t)route) return at;
    }
    return &m->routes[IG_METRICS_ROUTES - 1];
}

void ig_metrics_count_exchange(ig_metrics *m, const char *route, int code) {
    static const char other[] = "other";
    ig_metrics_route *at = route_at(m, route ? route : other);
    atomic_fetch_add_explicit(&at->count[code_index(code)], 1, memory_order_relaxed);
}

void ig_metrics_add_grammar(ig_metrics *m, double compile_ms) {
    int i = 0;
    while (i < IG_HISTOGRAM_BUCKETS && compile_ms * 1e-3 > ig_histogram_seconds(i)) i++;
    atomic_fetch_add_explicit(&m->grammars[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&m->grammar_us, (uint64_t)(compile_ms * 1e3), memory_order_relaxed);
}

/* ---- the form ---- */

const char *const ig_metrics_content_types[] = {
    [IG_METRICS_PROMETHEUS] = "text/plain; version=0.0.4; charset=utf-8",
    [IG_METRICS_OPENMETRICS] = "application/openmetrics-text; version=1.0.0; charset=utf-8",
};

ig_metrics_form ig_metrics_form_of(const char *accept) {
    return accept && strstr(accept, "application/openmetrics-text") ? IG_METRICS_OPENMETRICS
                                                                    : IG_METRICS_PROMETHEUS;
}
