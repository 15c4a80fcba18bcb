/* cost.h - what a token costs a model: bytes it cannot do without, and multiplications. */
#ifndef IG_MODEL_COST_H
#define IG_MODEL_COST_H

#include "model/session/session.h"

typedef struct ig_token_cost {
    uint64_t body_bytes, head_bytes;       /* weights that are read, as they are stored */
    uint64_t body_products, head_products; /* a multiply-add each, */
    uint64_t body_floats, head_floats;     /* and those with weights that are no blocks */
    uint64_t last_products; /* of the body's: in the last layer, for rows with logits alone */
    uint64_t cache_bytes;   /* keys and values of one position, in all layers */
    uint64_t seen_products; /* of a row with each position that it sees: in all layers but the */
    uint64_t last_seen_products; /* last, and there, for rows with logits alone */
} ig_token_cost;

/* The head is counted apart: a prompt needs it once.  So it does all of the last layer but queries,
 * keys and values.  Of an embedding a token reads one row, which is nothing; of experts those that
 * are chosen. */
ig_token_cost ig_session_cost(const ig_session *session);

/* Positions that rows [first, end) see, each itself and all before it, together. */
static inline double ig_seen_by_rows(int64_t first, int64_t end) {
    const double from = (double)first, to = (double)end;
    return (to * (to + 1) - from * (from + 1)) / 2;
}

#endif
