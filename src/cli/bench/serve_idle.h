/*
 * serve_idle.h - what connections that do nothing cost a server.
 *
 * Each connection gets a reply to GET /health and is then kept open.
 */
#ifndef IG_CLI_BENCH_SERVE_IDLE_H
#define IG_CLI_BENCH_SERVE_IDLE_H

#include <jansson.h>

#include "cli/bench/serve_target.h"

typedef struct serve_idle {
    int n_connections, n_open;           /* wanted; open after a while */
    int n_failed;                        /* without a reply of 200 */
    double seconds;                      /* to open them */
    uint64_t rss_before, rss_after;      /* of --pid; 0: unknown */
    double health_p50_ms, health_p99_ms; /* GET /health on another connection meanwhile */
} serve_idle;

IG_MUST_CHECK ig_status serve_idle_measure(const serve_target *target, serve_idle *out);
void serve_idle_print(const serve_idle *idle);
json_t *serve_idle_json(const serve_idle *idle); /* NULL: out of memory */

#endif
