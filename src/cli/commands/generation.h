/*
 * generation.h - what `ingot generate` and `ingot chat` share: a loaded model,
 * its sampling options, and how generated text reaches stdout.
 */
#ifndef IG_CLI_COMMANDS_GENERATION_H
#define IG_CLI_COMMANDS_GENERATION_H

#include <jansson.h>

#include "cli/commands/loaded_model.h"
#include "ingot/chat.h"

typedef struct generation_options {
    const char *prompt, *file, *prompt_cache;
    model_options model;
    ig_texts stop, biases;
    const char *format, *template_file, *system; /* for conversations */
    int64_t max_tokens, seed, top_k, repeat_last_n, mirostat, n_logprobs;
    int64_t draft_ngram, draft_max;
    double temperature, top_p, min_p, typical_p, mirostat_tau, mirostat_eta;
    double repeat_penalty, presence_penalty, frequency_penalty;
    bool hide_prompt, ignore_eos, profile;
} generation_options;

/* Index of the first option that chat shares. */
enum { GENERATION_SHARED = 8 };
extern const ig_opt generation_opts[];

typedef struct generator {
    ig_cli *cli;
    const generation_options *options;
    loaded_model model;
    ig_logit_bias biases[IG_TEXTS_MAX];
    uint64_t seed;    /* given, or random */
    bool to_terminal; /* control characters are not written */
} generator;

/* Loads the model.  Close the generator also after an error. */
IG_MUST_CHECK ig_status generation_open(ig_cli *cli, const generation_options *options,
                                        generator *out);
void generation_close(generator *g); /* a zeroed one is fine */

/* Generation options from the command line; the caller adds prompt and callbacks. */
ig_generate_options generation_generate_options(const generator *g);

/* Reuses the prefix that the session and these tokens share, and sets the rest as the prompt. The
 * tokens are borrowed by `out`. */
IG_MUST_CHECK ig_status generation_from_tokens(generator *g, const int32_t *tokens, size_t count,
                                               ig_generate_options *out);

/* Checks that after `count` tokens of `what` the context has room for one more. If not, the error
 * gives the remedy: `next` ("/reset starts over", or NULL), or a value for -c. */
IG_MUST_CHECK ig_status generation_check_room(const generator *g, const char *what, size_t count,
                                              const char *next);

/* Finds the chat template: the file of --chat-template-file, the one named by --chat-template, or
 * `initial`. "auto" is the template of the model's file; if that cannot be rendered, the built-in
 * one that it resembles, with a warning. NULL through `out`: none, the text is continued as is.
 * The caller destroys it. */
IG_MUST_CHECK ig_status generation_find_template(const generator *g, const char *initial,
                                                 ig_chat_template **out);

/* Writes generated text to stdout and flushes. */
void generation_write(const generator *g, const char *text, size_t bytes);

/* Adds the times of a generation to the run report. */
void generation_report(const generator *g, const ig_generated *made);

/* Tokens per second, without the time for plans and packing.  The first generated token comes out
 * of the prefill, so decode does not count it. */
typedef struct generation_rates {
    double prefill, decode; /* 0: no tokens */
} generation_rates;
generation_rates generation_rates_of(const ig_generated *made);
void generation_add_rates(json_t *root, const ig_generated *made); /* null without tokens */

/* With -v, a line on stderr: tokens of the prompt and generated tokens, both with tok/s, and how
 * many draft tokens were accepted. */
void generation_say(const generator *g, const ig_generated *made);

/* {"ngram", "draft_max", "drafted", "accepted", "acceptance_rate"} */
json_t *speculation_json(const generator *g, const ig_generated *made);

/* "length", "stop" or "cancelled" */
const char *generation_finish_name(ig_finish finish);

/* Collected generated text; {0} is empty. */
typedef struct generation_text {
    char *bytes;
    size_t used, room;
} generation_text;
bool generation_keep(const generator *g, generation_text *text, const char *bytes, size_t n_bytes);

#endif
