/*
 * session.h - generation: a text is put through a model once, row by row, while
 * keys and values stay in pages.
 *
 * The work is captured once for each number of rows it is done with, one and a
 * chunk of a prompt, and replayed from then on.  Rows that a chunk does not need
 * belong to no sequence.
 */
#ifndef IG_MODEL_SESSION_H
#define IG_MODEL_SESSION_H

#include "ingot/batch.h"
#include "ingot/graph.h"
#include "model/arch.h"

typedef struct ig_session ig_session;

/* `model` is the architecture's, and must outlive the session; so must the module it is made of. */
IG_MUST_CHECK ig_status ig_session_create(ig_ctx *ctx, const ig_arch *arch,
                                          const ig_lm_config *config, void *model,
                                          ig_session **out);
void ig_session_destroy(ig_session *session);

void ig_session_reset(ig_session *session); /* the next token is the first of a text */
int64_t ig_session_length(const ig_session *session);

/* Takes in tokens; `logits` are those behind the last, [vocabulary].  More than the context has
 * room for is an error that says both numbers. */
IG_MUST_CHECK ig_status ig_session_feed(ig_session *session, const int32_t *tokens, int64_t count,
                                        float *logits);

#endif
