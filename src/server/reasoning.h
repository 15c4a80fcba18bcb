/*
 * reasoning.h - splits a reply into the model's thoughts and its answer, while it is generated.
 *
 *     <think> thoughts </think>  answer
 *
 * Thoughts are only looked for where the reply begins; the template may have opened them in the
 * prompt already.  White space around the tags belongs to neither.  Characters that may become a
 * tag are held back.  However the text is cut into pieces, the result is the same.
 */
#ifndef IG_SERVER_REASONING_H
#define IG_SERVER_REASONING_H

#include "server/json_out.h"

enum { IG_REASONING_HELD = 64 }; /* bytes that are held back, at most */

typedef enum ig_reasoning_state {
    IG_REASONING_START,
    IG_REASONING_LEADING, /* white space before thoughts */
    IG_REASONING_THOUGHTS,
    IG_REASONING_GAP, /* white space before the answer */
    IG_REASONING_ANSWER,
} ig_reasoning_state;

/* {0} is the beginning of a reply. */
typedef struct ig_reasoning {
    ig_reasoning_state state;
    int tags; /* the pair that was found */
    char held[IG_REASONING_HELD];
    size_t n_held;
} ig_reasoning;

/* The state for a reply to a prompt that ends with this text of n bytes. */
ig_reasoning ig_reasoning_begin(const char *text, size_t n);
/* A reply whose every byte is the answer. */
ig_reasoning ig_reasoning_none(void);

/* Appends to the two texts what a piece of the reply adds to them. */
void ig_reasoning_feed(ig_reasoning *r, const char *bytes, size_t n_bytes, ig_out *thoughts,
                       ig_out *answer);
void ig_reasoning_end(ig_reasoning *r, ig_out *thoughts, ig_out *answer); /* what was held back */

/* Whether tokens that come now are thoughts. */
bool ig_reasoning_is_thinking(const ig_reasoning *r);
/* Whether a control token's name is one of the tags, and so belongs to the text. */
bool ig_reasoning_is_tag(const char *bytes, size_t n_bytes);

#endif
