/*
 * serve_prompts.h - prompts with a given number of tokens.
 *
 * A prompt is a row of common English words, drawn by the seed and the prompt's number, so two
 * prompts differ within their first words.  The server's /tokenize says how many tokens a text has;
 * the text is cut until the number is right.  Without that route a word counts as one token.
 */
#ifndef IG_CLI_BENCH_SERVE_PROMPTS_H
#define IG_CLI_BENCH_SERVE_PROMPTS_H

#include "cli/bench/serve_target.h"

typedef struct serve_prompts {
    const serve_target *target;
    char *shared;           /* what all begin with; "" */
    int64_t shared_tokens;  /* of it */
    double bytes_per_token; /* seen so far */
} serve_prompts;

/* `shared_tokens` may be 0. */
IG_MUST_CHECK ig_status serve_prompts_init(serve_prompts *prompts, const serve_target *target,
                                           int64_t shared_tokens);
void serve_prompts_deinit(serve_prompts *prompts);

/* Prompt `number`; the caller frees it with the command's allocator. */
IG_MUST_CHECK ig_status serve_prompts_text(serve_prompts *prompts, uint64_t number,
                                           int64_t n_tokens, char **out);

#endif
