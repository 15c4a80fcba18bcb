/*
 * metrics_text.h - the counters of metrics.c, as metrics_text.c reads them.
 */
#ifndef IG_SERVER_METRICS_TEXT_H
#define IG_SERVER_METRICS_TEXT_H

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "server/metrics.h"

enum { IG_METRICS_ROUTES = 96, IG_METRICS_CODES = 26 };
extern const int ig_metrics_codes[]; /* ends with 0: all others */

typedef struct ig_metrics_route {
    atomic_uintptr_t path; /* a const char *; 0: free */
    atomic_ullong count[IG_METRICS_CODES];
} ig_metrics_route;

struct ig_metrics {
    const ig_allocator *allocator;
    const char *build;
    double began_s; /* since 1970 */
    ig_metrics_route routes[IG_METRICS_ROUTES];
    atomic_ullong grammars[IG_HISTOGRAM_BUCKETS + 1], grammar_us;
};

#endif
