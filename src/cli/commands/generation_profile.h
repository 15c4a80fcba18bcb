/*
 * talk_profile.h - where the time of a generation goes: kinds of steps, of the prompt
 * that was read and of the tokens that were made, each with its share, bytes and rates.
 */
#ifndef IG_CLI_TALK_PROFILE_H
#define IG_CLI_TALK_PROFILE_H

#include <jansson.h>

#include "cli/commands/loaded_model.h"

typedef enum talk_phase { TALK_READING, TALK_MAKING, TALK_PHASES } talk_phase;

typedef struct talk_profile {
    opened_model *model; /* NULL: nobody asked */
    talk_phase phase;
    double began;
    int64_t first; /* tokens of the sequence when the phase began */
    struct {
        json_t *kinds; /* as the profile has them; NULL: the phase did not come */
        double seconds;
        int64_t tokens;
        double cache_bytes; /* of keys and values that were seen, */
        double cache_flop;  /* and what was computed with them */
    } of[TALK_PHASES];
    int64_t threads;
} talk_profile;

/* Begins with the reading; `model` has its session.  These tokens are read once before, and
 * forgotten again: the first time goes into making plans. */
IG_MUST_CHECK ig_status talk_profile_begin(talk_profile *p, opened_model *model,
                                           const int32_t *tokens, size_t count);
/* The first token comes: what follows is the making. */
IG_MUST_CHECK ig_status talk_profile_turn(talk_profile *p);
IG_MUST_CHECK ig_status talk_profile_end(talk_profile *p);
void talk_profile_deinit(talk_profile *p); /* a zeroed one is fine */

void talk_profile_print(FILE *to, const talk_profile *p);
json_t *talk_profile_json(const talk_profile *p); /* {"prompt": {...}, "tokens": {...}} */

#endif
