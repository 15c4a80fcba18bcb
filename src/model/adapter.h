/* adapter.h - the insides of an adapter: a model, what it learns with, how it talks. */
#ifndef IG_MODEL_ADAPTER_H
#define IG_MODEL_ADAPTER_H

#include "ingot/batch.h"
#include "ingot/checkpoint.h"
#include "ingot/model.h"
#include "model/session/session.h"
#include "text/tokenizer/tokenizer.h"

struct ig_adapter {
    ig_ctx *ctx;
    const ig_arch *arch;
    ig_lm_config config;
    char *tokenizer_name; /* as the config had it */
    ig_tokenizer *tokenizer;
    ig_module *root;
    void *model;             /* the architecture's, or an ig_lm */
    ig_model *source;        /* NULL, or where the ig_lm and the tokenizer are from */
    ig_optimizer *optimizer; /* made with the first step */
    ig_checkpoint *file;     /* NULL, or where its optimiser still lies */
    char *progress;          /* as it was saved or loaded */

    /* Rows of one batch: made anew when the sizes change. */
    int64_t batch, ctx_rows;
    ig_tensor *ids, *targets, *positions;

    ig_session *session;  /* made with the first generation */
    ig_session *embedder; /* with the first embedding */
};

/* ---- store.c: a model as a .oam's config ---- */
/* Makes sure that there is an optimiser, if the file that the model is from has one. */
IG_MUST_CHECK ig_status ig_adapter_load_optimizer(ig_adapter *a);
/* ---- explain.c ---- */
/* Fails with IG_ERR_NUMBER and the op at which it began that `what`, of the rows at hand, is
 * `value`. Between steps, and before an update. */
IG_MUST_CHECK ig_status ig_adapter_explain(ig_adapter *a, const char *what, double value);
/* The same with the weight that is to blame, if one is: `what` came of rows and is not finite. */
IG_MUST_CHECK ig_status ig_adapter_explain_rows(const ig_adapter *a, const char *what);
/* ---- adapter.c ---- */
ig_tensor *ig_adapter_loss(const ig_adapter *a); /* of the rows at hand */
IG_MUST_CHECK ig_status ig_adapter_make_optimizer(ig_adapter *a, double rate, double decay);
/* Makes the model that the config says; weights are drawn. */
IG_MUST_CHECK ig_status ig_adapter_build(ig_ctx *ctx, const ig_arch *arch,
                                         const ig_lm_config *config, const char *tokenizer_name,
                                         ig_tokenizer *tokenizer, ig_adapter **out);

#endif
