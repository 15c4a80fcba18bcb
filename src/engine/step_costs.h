/* step_costs.h - what the tokens of a step cost, measured, and how many of them fit a time. */
#ifndef IG_ENGINE_STEP_COSTS_H
#define IG_ENGINE_STEP_COSTS_H

#include <stdint.h>

enum { IG_STEP_LEAST_PROMPT = 8 }; /* prompt tokens in a step, at least */

/* 0: not known yet. */
typedef struct ig_step_costs {
    double decode_ms[16];   /* of a step with up to 2^i decode tokens and no prompt */
    double prompt_token_ms; /* a prompt token more */
} ig_step_costs;

/* Prompt tokens of a step of about `step_ms` beside this number of decode tokens, of at most
 * `ubatch` tokens.  Without decode tokens all there is room for: no stream waits for it. */
int64_t ig_step_costs_prompt_tokens(const ig_step_costs *costs, double step_ms, int64_t n_decode,
                                    int64_t ubatch);

/* A step took `ms`. */
void ig_step_costs_learn(ig_step_costs *costs, int64_t n_decode, int64_t n_prompt, double ms);

#endif
