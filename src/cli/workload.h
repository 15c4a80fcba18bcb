/*
 * workload.h - small training jobs that demos and benchmarks run by name.
 *
 * A workload brings its model, its optimiser and its data; whoever runs it
 * decides on context, mode, number of steps, and what to measure:
 *
 *     create;  for every step: next_batch, step;  destroy
 *
 * Assembling a batch and training on it are two calls, so a benchmark can time
 * either.  All that is random comes from the context's seed, and a batch depends
 * on nothing but that seed and how many steps the optimiser has taken: a job
 * that was stopped and loaded again sees the batches it would have seen.
 */
#ifndef IG_CLI_WORKLOAD_H
#define IG_CLI_WORKLOAD_H

#include "ingot/nn.h"

typedef struct ig_workload ig_workload;

typedef struct ig_workload_type {
    const char *name, *summary;
    int64_t steps, batch; /* as the published figures have them */
    const char *config;   /* JSON for checkpoints: what the model is */

    /* In the context, which must outlive it.  The caller owns the result. */
    ig_status (*create)(ig_ctx *ctx, int64_t batch, ig_workload **out);
    void (*destroy)(ig_workload *workload); /* NULL is fine */

    /* Fills the inputs for the optimiser's next step. */
    ig_status (*next_batch)(ig_workload *workload);

    /* Forward, backward and update on the current batch.  The loss is read only if asked for. */
    ig_status (*step)(ig_workload *workload, double *out_loss);

    /* The model's outputs for the current batch, without a gradient: `count` floats. */
    ig_status (*logits)(ig_workload *workload, float *out, size_t count);
    size_t logits_per_sample;

    /* Continues a prompt by the `count` most likely characters, one after the other; `out` has
     * room for a final 0.  NULL: not a model of text. */
    ig_status (*generate)(ig_workload *workload, const char *prompt, char *out, size_t count);
} ig_workload_type;

/* What all begin with; to be read by those who run them. */
struct ig_workload {
    const ig_workload_type *type;
    ig_ctx *ctx;
    ig_module *model;
    ig_optimizer *optimizer;
    int64_t batch; /* samples of a step */
};

extern const ig_workload_type ig_workload_char_mlp;

/* A row of the table by its name; an unknown one is an error that lists the names. */
IG_MUST_CHECK ig_status ig_workload_find(const char *name, const ig_workload_type **out);

/* All rows; NULL at the end. */
extern const ig_workload_type *const ig_workload_types[];

#endif
