/* adapter.h - the internals of an adapter: model, optimizer, tokenizer, chat template. */
#ifndef IG_MODEL_ADAPTER_H
#define IG_MODEL_ADAPTER_H

#include "ingot/batch.h"
#include "ingot/checkpoint.h"
#include "ingot/model.h"
#include "model/session/session.h"
#include "model/train/production_route.h"
#include "text/tokenizer/tokenizer.h"

struct ig_adapter {
    ig_ctx *ctx;
    const ig_arch *arch;
    ig_lm_config config;
    char *tokenizer_name; /* as in the config */
    ig_tokenizer *tokenizer;
    ig_module *root;
    void *model;      /* the architecture's model, or an ig_lm */
    ig_model *source; /* NULL, or the file that the ig_lm and the tokenizer were loaded from */
    ig_optimizer *optimizer; /* created at the first step */
    ig_checkpoint *file;     /* NULL, or the file whose optimizer state is not loaded yet */
    char *progress;          /* as saved or loaded */
    bool as_loaded;          /* weights are those of an .oam file: no update has changed them */

    /* Tensors of one batch, recreated when the sizes change. */
    int64_t batch, ctx_rows;
    ig_tensor *ids, *targets, *positions;

    ig_production_run *production; /* NULL: training runs op by op, or is replayed */
    const ig_production *table;    /* of `production` */
    ig_production_run *evaluator;  /* forward only, for sizes that `production` does not have */

    ig_session *session;  /* created at the first generation */
    ig_session *embedder; /* created at the first embedding */
};

/* ---- store.c: a model as a .oam's config ---- */
/* Loads the optimizer state if the model's file has one. */
IG_MUST_CHECK ig_status ig_adapter_load_optimizer(ig_adapter *a);
/* ---- train/nan_source.c ---- */
/* Fails with IG_ERR_NOT_FINITE: `what`, computed from the current batch, is `value`. Names the op
 * that produced the first such value. Call between steps, before an update. */
IG_MUST_CHECK ig_status ig_adapter_explain(ig_adapter *a, const char *what, double value);
/* The same, but names the weight that is not finite, if there is one; `what` was computed from
 * inputs and is not finite. A broken weight of a file is IG_ERR_FORMAT, in both functions. */
IG_MUST_CHECK ig_status ig_adapter_explain_rows(const ig_adapter *a, const char *what);
/* ---- adapter.c ---- */
ig_tensor *ig_adapter_loss(const ig_adapter *a); /* of the current batch */
IG_MUST_CHECK ig_status ig_adapter_make_optimizer(ig_adapter *a, double rate, double decay);
/* Creates the model that the config describes, with initialized weights. */
IG_MUST_CHECK ig_status ig_adapter_build(ig_ctx *ctx, const ig_arch *arch,
                                         const ig_lm_config *config, const char *tokenizer_name,
                                         ig_tokenizer *tokenizer, ig_adapter **out);

#endif
