/*
 * serve_figures.h - what the replies of a level say about the server: a table, JSON and a picture.
 */
#ifndef IG_CLI_BENCH_SERVE_FIGURES_H
#define IG_CLI_BENCH_SERVE_FIGURES_H

#include <jansson.h>

#include "cli/bench/serve_load.h"

typedef struct serve_quantiles {
    double p50, p90, p99, max; /* NaN: no values */
} serve_quantiles;

typedef struct serve_figures {
    int n_clients;
    size_t n_requests, n_ok;
    double seconds;
    serve_quantiles ttft_ms, itl_ms;                      /* the longest ITL is the worst stall */
    int64_t prompt_tokens, cached_tokens, decoded_tokens; /* of requests without an error */
    bool knows_cached;
    double tokens_per_s,
        stream_tokens_per_s;    /* decoded: of all streams, and of one between its first and last */
    double prompt_tokens_per_s; /* cached ones included */
} serve_figures;

IG_MUST_CHECK ig_status serve_figures_of(const ig_cli *cli, const serve_level *level,
                                         serve_figures *out);

/* The longest gap of other streams while the long prompt was read; NaN: unknown. */
double serve_long_stall_ms(const serve_level *level);

void serve_table_head(const serve_target *target);
void serve_table_row(const serve_level *level, const serve_figures *figures);

/* NULL: out of memory. */
json_t *serve_level_json(const serve_level *level, const serve_figures *figures);

/* The argument of serve_plot_print(), which is an ig_print_fn. */
typedef struct serve_plot {
    const char *title;
    const serve_figures *figures;
    size_t n_figures;
} serve_plot;
void serve_plot_print(FILE *to, const void *what);

#endif
