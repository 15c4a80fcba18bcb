/*
 * talk.h - what `ingot generate` and `ingot chat` share: a model that was loaded
 * to be talked with, how its words are drawn, and how they reach stdout.
 */
#ifndef IG_CLI_TALK_H
#define IG_CLI_TALK_H

#include "cli/opened.h"

typedef struct talk_options {
    const char *prompt, *file;
    model_options model;
    ig_texts stop;
    int64_t max_tokens, seed, top_k, repeat_last;
    double temperature, top_p, min_p, repeat_penalty;
    bool hide_prompt, ignore_end;
} talk_options;

/* The options; those from TALK_SHARED on are chat's too. */
enum { TALK_SHARED = 3 };
extern const ig_opt talk_opts[];

typedef struct talker {
    ig_cli *cli;
    const talk_options *options;
    opened_model model;
    bool to_terminal; /* what could steer it is not written */
} talker;

/* Loads the model.  The talker must be closed in any case. */
IG_MUST_CHECK ig_status talk_open(ig_cli *cli, const talk_options *options, talker *out);
void talk_close(talker *talker); /* a zeroed one is fine */

/* Generation as the options say: prompt and callbacks are the caller's to add. */
ig_generate_options talk_generate_options(const talker *talker);

/* Writes model text to stdout, at once. */
void talk_write(const talker *talker, const char *text, size_t bytes);

/* "length", "stop" or "cancelled" */
const char *talk_finish_name(ig_finish finish);

/* Model text that is kept: {0} is empty. */
typedef struct talk_text {
    char *bytes;
    size_t used, room;
} talk_text;
bool talk_keep(const talker *talker, talk_text *text, const char *bytes, size_t n_bytes);

#endif
