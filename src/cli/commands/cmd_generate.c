/*
 * ingot generate - let a model continue a text.
 *
 * The text streams to stdout as it is made.  With --json it is part of the run
 * report instead, with its tokens and how long everything took.
 */
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "cli/app/output.h"
#include "cli/app/report_file.h"
#include "cli/commands/generation.h"
#include "cli/commands/generation_profile.h"

enum { PROMPT_MOST = 64 << 20 };

typedef struct generation {
    talker talker;
    ig_file_map file; /* of the prompt */
    model_text input; /* the prompt, if it came from stdin or a pipe */
    const char *prompt;
    size_t prompt_bytes;

    ig_chat_style style;
    ig_ids read;    /* the prompt's tokens */
    talk_text text; /* made; kept for JSON */
    int32_t *tokens;
    size_t n_tokens, tokens_room;
    json_t *logprobs; /* NULL: not asked for */
    bool out_of_memory;
    talk_profile profile;
    ig_status profile_status;
    ig_generated result;
} generation;

/* ---- The prompt ---- */

static ig_status read_stream(generation *g, const char *path) {
    IG_TRY(model_read_stream(g->talker.cli, path, PROMPT_MOST, &g->input));
    g->prompt = g->input.bytes;
    g->prompt_bytes = g->input.n_bytes;
    return IG_OK;
}

static ig_status find_prompt(generation *g, const talk_options *o) {
    if (!o->prompt == !o->file)
        return IG_FAIL(IG_ERR_ARGUMENT, o->prompt ? "--prompt, --file: one prompt is enough"
                                                  : "--prompt: is missing; it is what to continue");
    if (o->prompt) {
        g->prompt = o->prompt;
        g->prompt_bytes = strlen(o->prompt);
        return IG_OK;
    }
    if (model_text_streams(o->file)) return read_stream(g, o->file);
    IG_TRY(ig_file_map_open(o->file, &g->file));
    g->prompt = g->file.bytes;
    g->prompt_bytes = (size_t)g->file.size;
    return IG_OK;
}

/* ---- While it is made ---- */

static bool emit(void *user, const char *text, size_t bytes) {
    generation *g = user;
    if (!g->talker.cli->json)
        talk_write(&g->talker, text, bytes);
    else if (!talk_keep(&g->talker, &g->text, text, bytes))
        g->out_of_memory = true;
    return !g->out_of_memory && !ig_cli_cancelled(g->talker.cli);
}

static void keep_logprobs(const generation *g, int32_t id, const float *logits) {
    enum { MOST = 100 };
    const int64_t vocabulary = ig_adapter_vocabulary(g->talker.model.adapter);
    ig_logprob top[MOST];
    const size_t n = ig_logits_top(logits, vocabulary, top, (size_t)g->talker.options->n_logprobs);
    json_t *others = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(others, json_pack("{s:i, s:o}", "token", top[i].token, "logprob",
                                                ig_json_real(top[i].logprob)));
    json_array_append_new(g->logprobs,
                          json_pack("{s:i, s:o, s:o}", "token", id, "logprob",
                                    ig_json_real(ig_logits_logprob(logits, vocabulary, id)), "top",
                                    others));
}

static void keep_token(void *user, int32_t id, const float *logits) {
    generation *g = user;
    const ig_allocator *a = &g->talker.cli->allocator;
    if (g->profile.model && g->profile.phase == TALK_READING && g->profile_status == IG_OK)
        g->profile_status = talk_profile_turn(&g->profile);
    if (!g->talker.cli->json) return;
    if (g->logprobs) keep_logprobs(g, id, logits);
    if (IG_GROW(a, g->tokens, &g->tokens_room, g->n_tokens + 1))
        g->tokens[g->n_tokens++] = id;
    else
        g->out_of_memory = true;
}

static void show_prompt(const generation *g) {
    const ig_cli *cli = g->talker.cli;
    if (cli->json || g->talker.options->hide_prompt) return;
    fputs(ig_term_style(cli->term.out_color, IG_BOLD), stdout);
    talk_write(&g->talker, g->prompt, g->prompt_bytes);
    fputs(ig_term_style(cli->term.out_color, IG_PLAIN), stdout);
}

/* ---- Results ---- */

static json_t *text_json(const char *bytes, size_t n_bytes) {
    json_t *text = json_stringn(bytes ? bytes : "", n_bytes);
    return text ? text : ig_json_text(bytes); /* no UTF-8 */
}

static json_t *tokens_json(const generation *g) {
    json_t *list = json_array();
    for (size_t i = 0; i < g->n_tokens; i++)
        json_array_append_new(list, json_integer(g->tokens[i]));
    return list;
}

static ig_status print_json(const generation *g) {
    const ig_generated *r = &g->result;
    json_t *own =
        json_pack("{s:s, s:s, s:o, s:o, s:o, s:I, s:I, s:s, s:I}", "schema", "ingot.generate.v1",
                  "arch", ig_adapter_architecture(g->talker.model.adapter), "prompt",
                  text_json(g->prompt, g->prompt_bytes), "text",
                  text_json(g->text.bytes, g->text.used), "tokens", tokens_json(g), "n_prompt",
                  (json_int_t)g->read.count, "n_tokens", (json_int_t)r->n_tokens, "finish",
                  talk_finish_name(r->finish), "seed", (json_int_t)g->talker.seed);
    if (own) talk_add_rates(own, r);
    if (own && g->logprobs) json_object_set(own, "logprobs", g->logprobs);
    if (own && g->talker.options->guess_ngram > 0)
        json_object_set_new(own, "speculation", talk_guesses_json(&g->talker, r));
    if (own && g->profile.model)
        json_object_set_new(own, "profile", talk_profile_json(&g->profile));
    return ig_run_result(g->talker.cli, own);
}

/* ---- Its tokens ---- */

static ig_status encode_plain(generation *g) {
    const talk_options *o = g->talker.options;
    model_tokens tokens = {0};
    ig_tokenizer_data text;
    if (o->system)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "--system: is for conversations; --chat-format says how one "
                       "is written");
    if (o->format && strcmp(o->format, "auto") == 0)
        ig_cli_say(g->talker.cli,
                   "warning: --chat-format auto: the file has %s: the prompt is "
                   "continued as plain text",
                   ig_adapter_chat_template(g->talker.model.adapter, &text)
                       ? "a chat template that is not known"
                       : "no chat template");
    IG_TRY(model_encode(&g->talker.model,
                        (model_text){(char *)(uintptr_t)g->prompt, g->prompt_bytes}, &tokens));
    g->read.at = tokens.at;
    g->read.count = g->read.room = tokens.count;
    return IG_OK;
}

/* Of the text as it is, or as the first turn of a conversation. */
static ig_status encode(generation *g) {
    const talk_options *o = g->talker.options;
    g->read.allocator = &g->talker.cli->allocator;
    IG_TRY(talk_find_style(&g->talker, "none", &g->style));
    if (!talk_has_style(&g->style)) return encode_plain(g);
    IG_TRY(model_check_text(&g->talker.model,
                            (model_text){(char *)(uintptr_t)g->prompt, g->prompt_bytes}));
    const ig_chat_message messages[] = {
        {"system", o->system, o->system ? strlen(o->system) : 0},
        {"user", g->prompt, g->prompt_bytes},
    };
    const size_t first = o->system ? 0 : 1;
    return ig_adapter_encode_chat(g->talker.model.adapter, &g->style, messages + first, 2 - first,
                                  &g->read);
}

/* ---- A prompt that was read before ---- */

static ig_status restore(generation *g) {
    const char *path = g->talker.options->prompt_cache;
    if (!path || access(path, F_OK) != 0) return IG_OK;
    return ig_session_load(g->talker.model.session, 0, path);
}

static ig_status save(generation *g) {
    const char *path = g->talker.options->prompt_cache;
    ig_session *session = g->talker.model.session;
    if (!path || ig_session_length(session, 0) < (int64_t)g->read.count) return IG_OK;
    IG_TRY(ig_session_truncate(session, 0, (int64_t)g->read.count));
    IG_TRY(ig_session_save(session, 0, path));
    ig_run_wrote(g->talker.cli, "prompt_cache", path);
    return IG_OK;
}

/* Somebody wants it to stop: what was made so far is the result. */
static ig_status stop(generation *g) {
    talk_profile_deinit(&g->profile); /* of half a run */
    g->result.finish = IG_FINISH_CALLER;
    if (g->talker.cli->json) IG_TRY(print_json(g));
    return IG_FAIL(IG_ERR_CANCELLED, "stopped after %lld tokens", (long long)g->result.n_tokens);
}

static ig_status generate(generation *g) {
    ig_generate_options options = talk_generate_options(&g->talker);
    IG_TRY(encode(g));
    IG_TRY(talk_check_room(&g->talker, "the prompt", g->read.count, NULL));
    IG_TRY(restore(g));
    if (g->read.count > 0)
        IG_TRY(talk_from_tokens(&g->talker, g->read.at, g->read.count, &options));
    if (g->talker.options->n_logprobs > 0) g->logprobs = json_array();
    options.emit = emit;
    options.token = keep_token;
    options.user = g;
    show_prompt(g);
    if (g->talker.options->profile)
        IG_TRY(talk_profile_begin(&g->profile, &g->talker.model, options.tokens, options.n_tokens));
    const ig_status status = ig_adapter_generate(g->talker.model.adapter, &options, &g->result);
    talk_report(&g->talker, &g->result);
    if (!g->talker.cli->json && (status == IG_OK || g->result.n_tokens > 0)) {
        putchar('\n');
        ig_cli_flush(g->talker.cli);
    }
    talk_say(&g->talker, &g->result);
    if (status == IG_ERR_CANCELLED) return stop(g);
    IG_TRY(status);
    IG_TRY(g->profile_status);
    if (g->profile.model) IG_TRY(talk_profile_end(&g->profile));
    IG_TRY(save(g));
    if (g->out_of_memory) return IG_FAIL(IG_ERR_MEMORY, "generate: no memory for the text");
    if (ig_cli_cancelled(g->talker.cli)) return stop(g);
    if (g->talker.cli->json) return print_json(g);
    if (g->profile.model) talk_profile_print(stderr, &g->profile);
    return IG_OK;
}

static ig_status run(ig_cli *cli, const void *options) {
    const talk_options *o = options;
    const ig_allocator *a = &cli->allocator;
    generation g = {.talker = {.cli = cli}};
    ig_status status = find_prompt(&g, o);
    if (status == IG_OK) status = talk_open(cli, o, &g.talker);
    if (status == IG_OK) status = generate(&g);
    talk_profile_deinit(&g.profile);
    ig_chat_style_deinit(&g.style);
    talk_close(&g.talker);
    json_decref(g.logprobs);
    ig_ids_deinit(&g.read);
    ig_free(a, g.tokens);
    ig_free(a, g.text.bytes);
    ig_free(a, g.input.bytes);
    ig_file_map_close(&g.file);
    return status;
}

static const char *const examples[] = {
    "ingot generate -p 'Once upon a time'",
    "A story, by the model that comes with ingot.",
    "ingot generate -m llm.oam -p 'The old mill'",
    "Continue a text until the context is full.",
    "ingot generate -m llm.oam -f letter.txt -n 100 --temp 0",
    "A hundred tokens, each the likeliest.",
    "ingot generate -m model.gguf -p 'Why is the sky blue?' --chat-format auto",
    "An answer, of a model that was taught to give them.",
    "ingot generate -m llm.oam -p 'The' -n 50 --json | jq .timings",
    "How long loading, reading and writing took.",
    "ingot generate -m model.gguf -f letter.txt -n 64 --profile",
    "Which steps that time went into, and how near they come to the machine's rates.",
    NULL,
};

const ig_command cmd_generate = {
    .name = "generate",
    .summary = "let a model continue a text",
    .about =
        "Continues a prompt with a model, one that 'ingot train' made or a GGUF file, and writes "
        "what comes as it comes. The same seed gives the same text; with --temp 0 it does not even "
        "depend on "
        "the seed. Neither depends on the number of threads.\n\n"
        "With --json, prompt_tokens_per_s is the rate at which the prompt was read, and "
        "tokens_per_s that of the tokens behind the first, which comes out of the prompt; both "
        "leave out the time for plans and packed weights, which are made when they are first "
        "needed. The times have it in them: plan_ms, of which pack_ms is a part, belongs to "
        "prefill_ms and to decode_ms, prefill_ms to first_token_ms, read_ms to load_ms.",
    .examples = examples,
    .opts = talk_opts,
    .options_bytes = sizeof(talk_options),
    .cancels = true,
    .run = run,
};
