#include "cli/bench/serve_idle.h"

#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "cli/app/output.h"
#include "cli/app/progress.h"
#include "cli/bench/cmd_bench.h"

enum { AT_ONCE = 128, WAIT_MS = 50, PROBES = 50, SETTLE_MS = 1000 };

typedef struct opener {
    const serve_target *target;
    ig_http_client *http;
    int n_ended, n_failed;
} opener;

static void on_done(void *user, const ig_http_result *result) {
    opener *o = user;
    o->n_ended++;
    o->n_failed += result->outcome != IG_HTTP_REPLIED || result->code != 200;
}

static ig_status check_cancelled(const opener *o) {
    if (!ig_cli_cancelled(o->target->cli)) return IG_OK;
    return IG_FAIL(IG_ERR_CANCELLED, "bench serve: %d connections were open",
                   ig_http_client_open(o->http));
}

/* A few at a time, so that the server's backlog is not what is measured. */
static ig_status open_all(opener *o, int n_connections, ig_meter *meter) {
    const ig_http_request request = {.method = "GET",
                                     .path = "/health",
                                     .on_done = on_done,
                                     .timeout_s = o->target->options->timeout,
                                     .user = o};
    for (int sent = 0; o->n_ended < n_connections;) {
        IG_TRY(check_cancelled(o));
        while (sent < n_connections && sent - o->n_ended < AT_ONCE)
            IG_TRY(ig_http_client_send(o->http, sent++, &request));
        IG_TRY(ig_http_client_poll(o->http, WAIT_MS));
        ig_meter_update(meter, (uint64_t)o->n_ended, "");
    }
    return IG_OK;
}

static ig_status settle(opener *o) {
    const double until = ig_clock_ms() + SETTLE_MS;
    while (ig_clock_ms() < until) {
        IG_TRY(check_cancelled(o));
        IG_TRY(ig_http_client_poll(o->http, WAIT_MS));
    }
    return IG_OK;
}

/* Times PROBES requests on a connection of its own; NULL: just sends them. */
static ig_status probe(const serve_target *t, serve_idle *out) {
    double ms[PROBES];
    for (int i = 0; i < PROBES; i++) {
        const double began = ig_clock_ms();
        ig_http_result result;
        json_t *json = NULL;
        IG_TRY(serve_target_ask(t, "GET", "/health", NULL, &result, &json));
        json_decref(json);
        if (result.outcome != IG_HTTP_REPLIED)
            return IG_FAIL(IG_ERR_STATE, "bench serve: GET /health: no reply (%s)",
                           ig_http_outcome_names[result.outcome]);
        ms[i] = ig_clock_ms() - began;
    }
    if (!out) return IG_OK;
    out->health_p50_ms = bench_spread_of(ms, PROBES).median;
    out->health_p99_ms = ms[PROBES - 1]; /* sorted by now */
    return IG_OK;
}

static ig_status measure(opener *o, serve_idle *out) {
    ig_cli *cli = o->target->cli;
    const int64_t pid = o->target->options->pid;
    ig_meter meter =
        ig_meter_begin(&cli->term, cli->quiet, "idle", "connections", (uint64_t)out->n_connections);
    IG_TRY(probe(o->target, NULL)); /* what a server allocates once */
    out->rss_before = pid > 0 ? serve_rss(pid) : 0;
    const double began = ig_clock_seconds();
    const ig_status status = open_all(o, out->n_connections, &meter);
    if (status != IG_OK && meter.line_open) fputc('\n', stderr);
    IG_TRY(status);
    out->seconds = ig_clock_seconds() - began;
    ig_meter_end(&meter, (uint64_t)o->n_ended, "");
    IG_TRY(settle(o));
    out->n_open = ig_http_client_open(o->http);
    out->n_failed = o->n_failed;
    out->rss_after = pid > 0 ? serve_rss(pid) : 0;
    return probe(o->target, out);
}

ig_status serve_idle_measure(const serve_target *target, serve_idle *out) {
    serve_idle idle = {.n_connections = (int)target->options->n_idle};
    opener o = {.target = target};
    IG_TRY(serve_target_client(target, idle.n_connections, &o.http));
    const ig_status status = measure(&o, &idle);
    ig_http_client_destroy(o.http);
    if (status == IG_OK) *out = idle;
    return status;
}

/* NaN: unknown, or the server closed more than a tenth, whose memory may still be counted. */
static double bytes_each(const serve_idle *i) {
    const bool most_open = i->n_open >= i->n_connections - i->n_connections / 10;
    if (i->rss_after == 0 || i->rss_before == 0 || !most_open) return NAN;
    return ((double)i->rss_after - (double)i->rss_before) / i->n_open;
}

void serve_idle_print(const serve_idle *i) {
    char before[IG_UNIT_TEXT_BYTES], after[IG_UNIT_TEXT_BYTES];
    printf("idle connections: %d of %d open after %.1f s, %d failed; GET /health p50 %.2f ms, p99 "
           "%.2f ms\n",
           i->n_open, i->n_connections, i->seconds, i->n_failed, i->health_p50_ms,
           i->health_p99_ms);
    if (isfinite(bytes_each(i)))
        printf("resident: %s before, %s after: %.1f KiB for each connection\n",
               ig_bytes_text(i->rss_before, before), ig_bytes_text(i->rss_after, after),
               bytes_each(i) / 1024);
    putchar('\n');
}

json_t *serve_idle_json(const serve_idle *i) {
    json_t *rss = i->rss_after > 0 ? json_pack("{s:I, s:I}", "before", (json_int_t)i->rss_before,
                                               "after", (json_int_t)i->rss_after)
                                   : json_null();
    return json_pack("{s:i, s:i, s:i, s:o, s:o, s:o, s:{s:o, s:o}}", "connections",
                     i->n_connections, "failed", i->n_failed, "open", i->n_open, "seconds",
                     ig_json_real(i->seconds), "rss_bytes", rss, "bytes_per_connection",
                     ig_json_real(bytes_each(i)), "health_ms", "p50",
                     ig_json_real(i->health_p50_ms), "p99", ig_json_real(i->health_p99_ms));
}
