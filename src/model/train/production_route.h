/*
 * production_route.h - runs a model by its production table.
 *
 * The host owns gradients, token tensors and gradient clipping, the same for every model; the model
 * owns activations and dispatches.
 */
#ifndef IG_MODEL_TRAIN_PRODUCTION_ROUTE_H
#define IG_MODEL_TRAIN_PRODUCTION_ROUTE_H

#include "model/arch/arch.h"

typedef struct ig_optimizer ig_optimizer;

typedef struct ig_production_run {
    ig_ctx *ctx;
    const ig_production *table;
    ig_production_args args;
    ig_production_model made;
    ig_production_param *params; /* weights, means and variances are borrowed, gradients owned */
    ig_optimizer *optimizer;     /* borrowed; NULL: forward only */
    ig_batch *clip;
    ig_tensor *norm, **grads; /* of all parameters, as clipping takes them */
} ig_production_run;

/* Whether a table has this ABI and all functions; the error says what is wrong. */
IG_MUST_CHECK ig_status ig_production_check(const char *name, const ig_production *given);

/* The arguments of a run. */
typedef struct ig_production_parts {
    ig_ctx *ctx;
    const ig_production *table;
    const ig_lm_config *config; /* borrowed, as all fields here */
    ig_module *root;            /* the weights */
    ig_optimizer *optimizer;    /* AdamW of `root`; NULL: forward only */
    int64_t batch, rows;
    double clip_norm; /* the clip_norm of the steps to come */
} ig_production_parts;

/* Init: creates everything the steps need. The caller owns the run. */
IG_MUST_CHECK ig_status ig_production_run_create(const ig_production_parts *parts,
                                                 ig_production_run **out);
void ig_production_run_destroy(ig_production_run *run); /* NULL is allowed */

/* Forward of the tokens in args.ids and args.targets. */
IG_MUST_CHECK ig_status ig_production_run_forward(ig_production_run *run, double *out_loss);
/* A training step: forward, backward, clip (clip_norm 0: off), and the update, unless the loss or
 * the norm is not finite. */
IG_MUST_CHECK ig_status ig_production_run_step(ig_production_run *run, double clip_norm,
                                               double *out_loss, double *out_norm);

#endif
