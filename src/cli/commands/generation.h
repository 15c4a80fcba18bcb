/*
 * talk.h - what `ingot generate` and `ingot chat` share: a model that was loaded
 * to be talked with, how its words are drawn, and how they reach stdout.
 */
#ifndef IG_CLI_TALK_H
#define IG_CLI_TALK_H

#include <jansson.h>

#include "cli/commands/loaded_model.h"
#include "model/chat.h"

typedef struct talk_options {
    const char *prompt, *file, *prompt_cache;
    model_options model;
    ig_texts stop, biases;
    const char *format, *template_file, *system; /* of a conversation */
    int64_t max_tokens, seed, top_k, repeat_last, mirostat, n_logprobs;
    int64_t guess_ngram, guess_most;
    double temperature, top_p, min_p, typical_p, mirostat_tau, mirostat_eta;
    double repeat_penalty, presence_penalty, frequency_penalty;
    bool hide_prompt, ignore_end, profile;
} talk_options;

/* The options; those from TALK_SHARED on are chat's too. */
enum { TALK_SHARED = 8 };
extern const ig_opt talk_opts[];

typedef struct talker {
    ig_cli *cli;
    const talk_options *options;
    opened_model model;
    ig_logit_bias biases[IG_TEXTS_MAX];
    uint64_t seed;    /* as said, or drawn */
    bool to_terminal; /* what could steer it is not written */
} talker;

/* Loads the model.  The talker must be closed in any case. */
IG_MUST_CHECK ig_status talk_open(ig_cli *cli, const talk_options *options, talker *out);
void talk_close(talker *talker); /* a zeroed one is fine */

/* Generation as the options say: prompt and callbacks are the caller's to add. */
ig_generate_options talk_generate_options(const talker *talker);

/* Lets generation go on from what the session and these tokens have in common, with the others as
 * its prompt.  The tokens are lent to `out`. */
IG_MUST_CHECK ig_status talk_from_tokens(talker *talker, const int32_t *tokens, size_t count,
                                         ig_generate_options *out);

/* Whether `what`, of so many tokens, leaves room for another one in the context.  Where it does
 * not, the error says what to do: `next` ("/reset begins anew", or NULL), or what -c can give. */
IG_MUST_CHECK ig_status talk_check_room(const talker *talker, const char *what, size_t count,
                                        const char *next);

/* How conversations are written: as the template of --chat-template-file does, or as --chat-format
 * says, or else as `initial` does.  "auto": by the template in the model's file, or, where that
 * cannot be rendered, in the format that it looks like, which is said.  {0} through `out`: not at
 * all, and text is continued as it is.  The caller deinits it. */
IG_MUST_CHECK ig_status talk_find_style(const talker *talker, const char *initial,
                                        ig_chat_style *out);
bool talk_has_style(const ig_chat_style *style);

/* Writes model text to stdout, at once. */
void talk_write(const talker *talker, const char *text, size_t bytes);

/* What the run report shall know of it. */
void talk_report(const talker *talker, const ig_generated *made);

/* How many tokens went through the model in a second, without the time for plans and packing.  The
 * first token that is made comes out of the prompt, so it is none of those that were decoded. */
typedef struct talk_rates {
    double read, made; /* 0: there were none */
} talk_rates;
talk_rates talk_rates_of(const ig_generated *made);
void talk_add_rates(json_t *root, const ig_generated *made); /* null where there were none */

/* With -v, a line on stderr: what was read and made, how fast, and how often it was guessed right.
 */
void talk_say(const talker *talker, const ig_generated *made);

/* {"ngram", "draft", "guessed", "accepted", "rate"}: how often --spec-ngram guessed right */
json_t *talk_guesses_json(const talker *talker, const ig_generated *made);

/* "length", "stop" or "cancelled" */
const char *talk_finish_name(ig_finish finish);

/* Model text that is kept: {0} is empty. */
typedef struct talk_text {
    char *bytes;
    size_t used, room;
} talk_text;
bool talk_keep(const talker *talker, talk_text *text, const char *bytes, size_t n_bytes);

#endif
