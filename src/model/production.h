/*
 * production.h - the llm architecture by the production route.
 *
 * The same model as arch/llm.c, with the same weights under the same names, so
 * checkpoints go both ways.  All buffers are made at the start; a step is three
 * batches, forward, backward written by hand, and update, of one submit each;
 * nothing is allocated after the first.
 */
#ifndef IG_MODEL_PRODUCTION_H
#define IG_MODEL_PRODUCTION_H

#include "ingot/batch.h"
#include "model/arch/arch.h"

typedef struct ig_production ig_production;

/* For batches of `batch` rows of `ctx` tokens.  Weights are drawn as the easy route draws them. */
IG_MUST_CHECK ig_status ig_production_create(ig_ctx *ctx, const ig_lm_config *config, int64_t batch,
                                             int64_t rows, ig_production **out);
void ig_production_destroy(ig_production *p);

ig_module *
ig_production_module(const ig_production *p);         /* lent: weights by name, for checkpoints */
ig_tensor *ig_production_ids(const ig_production *p); /* [batch, rows]; write them in place */
ig_tensor *ig_production_targets(const ig_production *p); /* [batch, rows] */
ig_tensor *ig_production_logits(const ig_production *p);  /* [batch rows, vocabulary] */
ig_tensor *ig_production_grad(const ig_production *p, const char *path); /* NULL: no such weight */

IG_MUST_CHECK ig_status ig_production_forward(ig_production *p, double *out_loss);
IG_MUST_CHECK ig_status ig_production_backward(ig_production *p); /* of the last forward */
/* AdamW, with step numbers from 1 on. */
IG_MUST_CHECK ig_status ig_production_step(ig_production *p, int64_t step, double rate);

#endif
