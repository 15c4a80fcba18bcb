/*
 * generation_profile.h - profile of a generation: the kinds of steps in prefill and decode, each
 * with its share of time, bytes and rates.
 */
#ifndef IG_CLI_COMMANDS_GENERATION_PROFILE_H
#define IG_CLI_COMMANDS_GENERATION_PROFILE_H

#include <jansson.h>

#include "cli/commands/loaded_model.h"

typedef enum generation_phase { PHASE_PREFILL, PHASE_DECODE, N_PHASES } generation_phase;

typedef struct generation_profile {
    loaded_model *model; /* NULL: no profile */
    generation_phase phase;
    double began;
    int64_t first; /* sequence length at the start of the phase */
    struct {
        json_t *kinds; /* from the profile; NULL: the phase did not run */
        double seconds;
        int64_t tokens;
        double cache_bytes; /* bytes of the KV cache that were read, */
        double cache_flop;  /* and the attention FLOP on them */
    } of[N_PHASES];
    int64_t threads;
} generation_profile;

/* Starts profiling prefill; `model` has its session. Runs these tokens once before and discards
 * them, so that plans are made. */
IG_MUST_CHECK ig_status generation_profile_begin(generation_profile *p, loaded_model *model,
                                                 const int32_t *tokens, size_t count);
/* Switches to decode, at the first token. */
IG_MUST_CHECK ig_status generation_profile_turn(generation_profile *p);
IG_MUST_CHECK ig_status generation_profile_end(generation_profile *p);
void generation_profile_deinit(generation_profile *p); /* a zeroed one is fine */

void generation_profile_print(FILE *to, const generation_profile *p);
json_t *
generation_profile_json(const generation_profile *p); /* {"prompt": {...}, "tokens": {...}} */

#endif
