/*
 * embed.h - an embedding that is computed piece by piece, between other work.
 *
 *     ig_embedder_create(session, tokens, n_tokens, IG_POOL_DEFAULT, &embedding)
 *     do ig_embedder_advance(embedding, 128, &done) while (!done)
 *     ig_embedder_read(embedding, out)
 *     ig_embedder_destroy(embedding)
 */
#ifndef IG_MODEL_EMBED_H
#define IG_MODEL_EMBED_H

#include "ingot/session.h"

typedef struct ig_embedder ig_embedder;

/* Uses sequence 0 of the session, which returns hidden states and outlives the embedding.  The
 * tokens are copied. */
IG_MUST_CHECK ig_status ig_embedder_create(ig_session *session, const int32_t *tokens,
                                           size_t n_tokens, ig_pooling pooling, ig_embedder **out);
void ig_embedder_destroy(ig_embedder *embedding); /* NULL is a no-op */
/* Runs up to `n_tokens` tokens, at most a micro-batch; an encoder runs the whole text. */
IG_MUST_CHECK ig_status ig_embedder_advance(ig_embedder *embedding, int64_t n_tokens,
                                            bool *out_done);
/* The unit vector [d_model]. */
void ig_embedder_read(const ig_embedder *embedding, float *out);

#endif
