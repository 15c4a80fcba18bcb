#include "engine/step_costs.h"

enum { FIRST_PROMPT = 32 }; /* tokens before the time of one is known */

static int index_of(int64_t n_tokens) {
    int i = 0;
    while (i < 15 && (int64_t)1 << i < n_tokens) i++;
    return i;
}

static double decode_ms(const ig_step_costs *costs, int64_t n_tokens) {
    if (n_tokens == 0) return 0;
    int i = index_of(n_tokens);
    while (i > 0 && costs->decode_ms[i] == 0) i--;
    return costs->decode_ms[i];
}

int64_t ig_step_costs_prompt_tokens(const ig_step_costs *costs, double step_ms, int64_t n_decode,
                                    int64_t ubatch) {
    const int64_t room = ubatch - n_decode;
    if (n_decode == 0) return room;
    double n = FIRST_PROMPT;
    if (costs->prompt_token_ms > 0)
        n = (step_ms - decode_ms(costs, n_decode)) / costs->prompt_token_ms;
    if (n < IG_STEP_LEAST_PROMPT) n = IG_STEP_LEAST_PROMPT;
    return n < (double)room ? (int64_t)n : room;
}

static double smooth(double old, double now) { return old == 0 ? now : 0.8 * old + 0.2 * now; }

void ig_step_costs_learn(ig_step_costs *costs, int64_t n_decode, int64_t n_prompt, double ms) {
    double *decode = &costs->decode_ms[index_of(n_decode)];
    if (n_prompt == 0) {
        *decode = smooth(*decode, ms);
    } else if (n_prompt >= IG_STEP_LEAST_PROMPT) {
        const double rest = ms - decode_ms(costs, n_decode);
        const double token_ms = (rest > 0.1 * ms ? rest : 0.1 * ms) / (double)n_prompt;
        costs->prompt_token_ms = smooth(costs->prompt_token_ms, token_ms);
    }
}
