/*
 * session.h - the insides of a session: pages of keys and values, and the work on
 * rows, captured once for each number of rows.
 *
 * Rows that a class has but nobody needs belong to no sequence: their keys are
 * not stored and their results not looked at.
 */
#ifndef IG_MODEL_SESSION_H
#define IG_MODEL_SESSION_H

#include "ingot/batch.h"
#include "ingot/graph.h"
#include "ingot/session.h"
#include "model/arch/arch.h"
#include "model/session/kv_pages.h"

enum { IG_SESSION_CLASSES = 24, IG_SESSION_CTX_DEFAULT = 4096, IG_SESSION_CHUNK_DEFAULT = 128 };
enum { IG_SESSION_CHUNK_GPU = 512 }; /* fewer rows leave most of a large one idle */

/* The inputs of one number of rows, and the work on them; made when it is first needed. */
typedef struct ig_row_class {
    ig_session *session;
    int64_t rows, picks;
    ig_tensor *ids, *positions, *row_seq, *store_at; /* [1, rows], then [rows] */
    ig_tensor *pick, *pick_seq, *pick_pos;           /* [picks]: rows whose results are wanted */
    ig_tensor *out;                                  /* [picks, width], of the newest replay */
    ig_tensor *hidden;                               /* [picks, d_model]: what they are made of */
    ig_captured *work;
} ig_row_class;

struct ig_session {
    const ig_adapter *adapter; /* lent */
    ig_ctx *ctx;
    const ig_arch *arch;
    ig_lm_config config; /* its context is the session's */
    void *model;
    ig_dtype cache_k, cache_v;
    bool hidden;           /* rows are handed hidden states; else logits */
    int64_t width;         /* of either */
    ig_kv_layer *layers;   /* n_layers, or none */
    ig_tensor *page_table; /* [sequences, pages of each] */
    ig_pages pages;
    int32_t *tokens; /* [sequences, ctx_len] */
    int64_t *before; /* [sequences]: lengths to go back to when a run fails */
    ig_row_class classes[IG_SESSION_CLASSES]; /* with more and more rows */
    int n_classes;
    const ig_row_class *handed; /* that results were last handed out from, NULL: none, */
    int64_t n_handed;           /* and of how many rows */
};

/* Makes room for one more position of a sequence; `out_row` is its row of [pages 64]. */
IG_MUST_CHECK ig_status ig_session_append(ig_session *session, int32_t sequence, int32_t token,
                                          int32_t *out_row);
/* Makes a sequence `length` tokens long without computing: keys and values of its first page are
 * those of all that follow; the pages it has must be full.  For measuring what long texts cost. */
IG_MUST_CHECK ig_status ig_session_stretch(ig_session *session, int32_t sequence, int64_t length);
int64_t ig_session_chunk(const ig_session *session); /* most rows that go through at once */
/* Whether there is such a sequence; the error says how many there are. */
IG_MUST_CHECK ig_status ig_session_check(const ig_session *session, int32_t sequence);

#endif
