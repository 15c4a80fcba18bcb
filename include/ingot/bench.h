/*
 * bench.h - yardsticks: what this machine can do at most, and one step in three routes.
 *
 * Each rate is measured by a loop that does nothing else, on as many threads as
 * asked for, all starting together.  Machines with neighbours vary from moment to
 * moment: take several, and those nearest in time to what is compared with them.
 */
#ifndef INGOT_BENCH_H
#define INGOT_BENCH_H

#include "ingot/context.h"
#include "ingot/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ig_ceiling {
    IG_CEILING_READ,    /* bytes a second, from memory beyond the caches, eight streams a thread */
    IG_CEILING_FMA,     /* F32 operations a second: a multiply-add is two */
    IG_CEILING_DOT,     /* int8 operations a second, summed in 32 bits: a multiply-add is two */
    IG_CEILING_BARRIER, /* barriers a second: all threads wait for each other */
    IG_CEILING_TEAM,    /* times a second that all threads start and finish, with nothing to do */
    IG_CEILING_COUNT
} ig_ceiling;

typedef struct ig_ceiling_options {
    int threads;         /* as many as the process may use */
    double seconds;      /* about how long it runs; 0.1 */
    uint64_t read_bytes; /* of all threads together, for READ; ig_ceiling_read_bytes() */
    ig_allocator allocator;
    /* As many bytes, zero before the first measurement, for several of the same threads: memory
     * that comes from the system and goes back there each time disturbs what runs next.  NULL: it
     * does. */
    void *memory;
} ig_ceiling_options;

/* 256 MiB, and 8 caches at least, but a quarter of what memory there is. */
IG_API uint64_t ig_ceiling_read_bytes(void);

/* Measures once, with the instruction set that kernels use.  NULL options: defaults. */
IG_API IG_MUST_CHECK ig_status ig_ceiling_measure(ig_ceiling what,
                                                  const ig_ceiling_options *options,
                                                  double *out_per_second);

/*
 * A training step of the llm architecture, by each of the ways to write one: op
 * by op; the same code, recorded and replayed; buffers and dispatches by hand.
 * Equal contexts give equal weights, and so the same losses, to rounding.
 */
typedef enum ig_train_route {
    IG_ROUTE_EASY,
    IG_ROUTE_REPLAY,
    IG_ROUTE_PRODUCTION,
    IG_ROUTES
} ig_train_route;
typedef struct ig_trainee ig_trainee;

/* For `batch` rows of the config's context; the context, whose mode is set, is for this alone.  The
 * caller owns the trainee. */
IG_API IG_MUST_CHECK ig_status ig_trainee_create(ig_ctx *ctx, ig_train_route route,
                                                 const ig_model_config *config, int64_t batch,
                                                 ig_trainee **out);
IG_API void ig_trainee_destroy(ig_trainee *trainee);
IG_API int64_t ig_trainee_param_count(const ig_trainee *trainee);

/* Forward, backward, AdamW; tokens [batch, ctx + 1] as ig_adapter_train() has them. */
IG_API IG_MUST_CHECK ig_status ig_trainee_step(ig_trainee *trainee, const int32_t *tokens,
                                               double rate, double *out_loss);

#ifdef __cplusplus
}
#endif
#endif
