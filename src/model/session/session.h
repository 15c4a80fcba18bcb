/*
 * session.h - the internals of a session: KV cache pages, and one captured graph per bucket.
 *
 * Padding tokens of a bucket belong to no sequence: their keys are not stored and their outputs are
 * ignored.
 */
#ifndef IG_MODEL_SESSION_SESSION_H
#define IG_MODEL_SESSION_SESSION_H

#include "ingot/batch.h"
#include "ingot/graph.h"
#include "ingot/session.h"
#include "model/arch/arch.h"
#include "model/session/kv_pages.h"

enum { IG_SESSION_BUCKETS = 32, IG_SESSION_CTX_LEAST = 512 };
enum { IG_SESSION_UBATCH_GPU = 512 }; /* fewer tokens underuse a large GPU */

/* The inputs and the captured graph of one ubatch size; created on first use. */
typedef struct ig_bucket {
    ig_session *session;
    int64_t rows, n_outputs;
    ig_tensor *ids;                                          /* [1, rows] */
    ig_tensor *positions, *token_seq, *token_pos, *store_at; /* [rows] */
    ig_tensor *outputs, *output_seq, *output_pos;            /* [n_outputs]: rows with results */
    ig_tensor *out;    /* [n_outputs, width], of the latest replay */
    ig_tensor *hidden; /* [n_outputs, d_model]: the hidden states they are computed from */
    ig_captured *work;
} ig_bucket;

struct ig_session {
    const ig_adapter *adapter; /* lent */
    ig_ctx *ctx;
    const ig_arch *arch;
    ig_lm_config config; /* its context length is the session's */
    void *model;
    ig_dtype cache_type_k, cache_type_v;
    bool hidden; /* returns hidden states instead of logits */
    /* [n_layers + 2]: during a forward pass ig_ubatch.states, the final ones and the logits; NULL:
     * hidden states of layers are not returned */
    ig_tensor **states;
    int64_t width;         /* of the output of a token */
    ig_kv_layer *layers;   /* n_layers; none for encoders */
    ig_tensor *page_table; /* [sequences, pages of each] */
    ig_pages pages;
    int32_t *tokens;    /* [sequences, ctx_len] */
    int32_t *positions; /* [sequences, ctx_len]: of tokens; NULL: all count from 0 */
    int64_t *before;    /* [n_sequences]: lengths to restore when a run fails */
    ig_bucket buckets[IG_SESSION_BUCKETS]; /* ascending sizes */
    int n_buckets;
    struct ig_production_run *recompute; /* of a model without modules: recompute.c */
    const ig_bucket *last_outputs;       /* the bucket of the latest results; NULL: none */
    int64_t n_returned;                  /* and their number of rows */
};

/* Makes room for one more position of a sequence; `out_row` is its row of [pages 64]. */
IG_MUST_CHECK ig_status ig_session_append(ig_session *session, int32_t sequence, int32_t token,
                                          int32_t *out_row);
/* ---- pages that sequences share: for the engine's prefix cache ---- */

/* Page i of a sequence. */
int32_t ig_session_page(const ig_session *session, int32_t sequence, int64_t i);
/* Appends tokens whose keys and values are the first of a held page: see ig_pages_attach(). */
void ig_session_attach(ig_session *session, int32_t sequence, int32_t page, const int32_t *tokens,
                       int64_t count);

/* ---- session_file.c: what pages hold ---- */

typedef ig_status ig_session_visit_fn(void *user, char *bytes, uint64_t n_bytes);
/* Visits the keys and values of the first rows of a page, layer by layer; visit() may write them.
 */
IG_MUST_CHECK ig_status ig_session_visit_page(const ig_session *session, int32_t page, int64_t rows,
                                              ig_session_visit_fn *visit, void *user);
/* Bytes of keys and values of a row, in all layers. */
uint64_t ig_session_row_bytes(const ig_session *session);
/* Of the model and the KV cache types: of what the keys and values of a token depend on, except
 * the device. */
uint64_t ig_session_digest(const ig_session *session);

/* ---- recompute.c: sessions of models that are dispatches alone ---- */
IG_MUST_CHECK ig_status ig_session_recompute_init(ig_session *session);
IG_MUST_CHECK ig_status ig_session_recompute(ig_session *session, const ig_session_token *rows,
                                             int64_t count);
/* Copies the logits of a row; false: not all are finite. */
bool ig_session_copy_finite(float *to, const float *from, size_t count);

/* ---- session_encode.c: encoders, which see a text whole ---- */
typedef struct ig_encoder_texts {
    const int64_t *lengths;                       /* of n texts, one after the other */
    int64_t n, count;                             /* their tokens in all */
    const int32_t *ids, *positions, *token_types; /* [count]; the last may be NULL */
} ig_encoder_texts;
/* `out` [count, width] */
IG_MUST_CHECK ig_status ig_session_encode(const ig_session *session, const ig_encoder_texts *texts,
                                          float *out);
/* The output rows [rows, width] of a session with states, which are [rows, d_model] like the final
 * ones; logits are ignored if it does not return them. */
ig_tensor *ig_session_output(const ig_session *session, ig_tensor *hidden, ig_tensor *logits);

/* Whether it returns logits and nothing else. */
bool ig_session_returns_logits(const ig_session *session);

/* The position of the next token of a sequence, unless it has its own. */
int32_t ig_session_next_position(const ig_session *session, int32_t sequence);
/* Whether the positions of a sequence count from 0. */
bool ig_session_counts(const ig_session *session, int32_t sequence);

/* Checks that the sequence exists; the error names the number of sequences. */
IG_MUST_CHECK ig_status ig_session_check(const ig_session *session, int32_t sequence);

#endif
