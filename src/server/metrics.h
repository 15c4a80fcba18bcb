/*
 * metrics.h - GET /metrics: what the engines, the routes and the process have counted.
 *
 * Everything is counted in atomic numbers, and the text is built by the thread that asks for it: a
 * scrape takes no lock of a scheduler, and does not wait for a load.
 */
#ifndef IG_SERVER_METRICS_H
#define IG_SERVER_METRICS_H

#include "server/http.h"
#include "server/json_out.h"
#include "server/models.h"

typedef struct ig_metrics ig_metrics;

/* `build` is the commit, or ""; borrowed.  The caller owns the metrics. */
IG_MUST_CHECK ig_status ig_metrics_create(const ig_allocator *a, const char *build,
                                          ig_metrics **out);
void ig_metrics_destroy(ig_metrics *metrics); /* NULL is a no-op */

/* An exchange has ended.  `route` is the path of its row in the table of routes, a static string;
 * NULL: none, as of a 404. */
void ig_metrics_count_exchange(ig_metrics *metrics, const char *route, int code);

void ig_metrics_add_grammar(ig_metrics *metrics, double compile_ms);

typedef enum ig_metrics_form { IG_METRICS_PROMETHEUS, IG_METRICS_OPENMETRICS } ig_metrics_form;
extern const char *const ig_metrics_content_types[];
/* The form that an Accept header asks for; NULL: none was sent. */
ig_metrics_form ig_metrics_form_of(const char *accept);
/* Appends the text. */
void ig_metrics_write(const ig_metrics *metrics, ig_models *models, const ig_http_stats *http,
                      ig_metrics_form form, ig_out *out);

#endif
