/* step_rates.h - what the rows of a step cost, measured, and how many of them fit a time. */
#ifndef IG_ENGINE_STEP_RATES_H
#define IG_ENGINE_STEP_RATES_H

#include <stdint.h>

enum { IG_RATES_LEAST_PROMPT = 8 }; /* prompt tokens in a step, at least */

/* 0: not known yet. */
typedef struct ig_step_rates {
    double decode_ms[16]; /* of a step with up to 2^i decode rows and no prompt */
    double prompt_row_ms; /* a prompt row more */
} ig_step_rates;

/* Prompt rows of a step of about `step_ms` beside this number of decode rows, of at most `ubatch`
 * rows.  Without decode rows all there is room for: no stream waits for it. */
int64_t ig_rates_prompt_rows(const ig_step_rates *rates, double step_ms, int64_t decode_rows,
                             int64_t ubatch);

/* A step took `ms`. */
void ig_rates_learn(ig_step_rates *rates, int64_t decode_rows, int64_t prompt_rows, double ms);

#endif
