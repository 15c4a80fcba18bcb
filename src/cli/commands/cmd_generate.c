/*
 * ingot generate - continues a text.
 *
 * The text streams to stdout as it is generated. With --json it is part of the run report instead,
 * with its tokens and timings.
 */
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/app/output.h"
#include "cli/app/report_file.h"
#include "cli/commands/generation.h"
#include "cli/commands/generation_profile.h"

enum { PROMPT_MOST = 64 << 20 };

typedef struct generation {
    generator generator;
    model_text prompt;

    ig_chat_template *style;
    ig_tokens read;       /* the prompt's tokens */
    generation_text text; /* generated; kept for JSON */
    int32_t *tokens;
    size_t n_tokens, tokens_room;
    json_t *logprobs; /* NULL: not requested */
    bool out_of_memory;
    generation_profile profile;
    ig_status profile_status;
    ig_generated result;
} generation;

/* ---- While it is made ---- */

static bool emit(void *user, const char *text, size_t bytes) {
    generation *g = user;
    if (!g->generator.cli->json)
        generation_write(&g->generator, text, bytes);
    else if (!generation_keep(&g->generator, &g->text, text, bytes))
        g->out_of_memory = true;
    return !g->out_of_memory && !ig_cli_cancelled(g->generator.cli);
}

static void keep_logprobs(const generation *g, int32_t id, const float *logits) {
    enum { MOST = 100 };
    const int64_t vocabulary = ig_adapter_vocab_size(g->generator.model.adapter);
    ig_logprob top[MOST];
    const size_t n =
        ig_logits_top(logits, vocabulary, top, (size_t)g->generator.options->n_logprobs);
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
    const ig_allocator *a = &g->generator.cli->allocator;
    if (g->profile.model && g->profile.phase == PHASE_PREFILL && g->profile_status == IG_OK)
        g->profile_status = generation_profile_turn(&g->profile);
    if (!g->generator.cli->json) return;
    if (g->logprobs) keep_logprobs(g, id, logits);
    if (IG_GROW(a, g->tokens, &g->tokens_room, g->n_tokens + 1))
        g->tokens[g->n_tokens++] = id;
    else
        g->out_of_memory = true;
}

static void show_prompt(const generation *g) {
    const ig_cli *cli = g->generator.cli;
    if (cli->json || g->generator.options->hide_prompt) return;
    fputs(ig_term_style(cli->term.out_color, IG_BOLD), stdout);
    generation_write(&g->generator, g->prompt.bytes, g->prompt.n_bytes);
    fputs(ig_term_style(cli->term.out_color, IG_PLAIN), stdout);
}

/* ---- Results ---- */

static json_t *text_json(const char *bytes, size_t n_bytes) {
    json_t *text = json_stringn(bytes ? bytes : "", n_bytes);
    return text ? text : ig_json_text(bytes); /* invalid UTF-8 */
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
                  "arch", ig_adapter_architecture(g->generator.model.adapter), "prompt",
                  text_json(g->prompt.bytes, g->prompt.n_bytes), "text",
                  text_json(g->text.bytes, g->text.used), "tokens", tokens_json(g), "n_prompt",
                  (json_int_t)g->read.count, "n_tokens", (json_int_t)r->n_generated, "finish",
                  generation_finish_name(r->finish), "seed", (json_int_t)g->generator.seed);
    if (own) generation_add_rates(own, r);
    if (own && g->logprobs) json_object_set(own, "logprobs", g->logprobs);
    if (own && g->generator.options->draft_ngram > 0)
        json_object_set_new(own, "speculation", speculation_json(&g->generator, r));
    if (own && g->profile.model)
        json_object_set_new(own, "profile", generation_profile_json(&g->profile));
    return ig_run_result(g->generator.cli, own);
}

/* ---- Its tokens ---- */

static ig_status encode_plain(generation *g) {
    const generation_options *o = g->generator.options;
    ig_string_view text;
    if (o->system)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "--system: needs a chat template; choose one with --chat-template");
    if (o->format && strcmp(o->format, "auto") == 0)
        ig_cli_say(
            g->generator.cli,
            "warning: --chat-template auto: the file has %s; the prompt is continued as plain text",
            ig_adapter_chat_template(g->generator.model.adapter, &text)
                ? "a chat template that cannot be rendered"
                : "no chat template");
    return model_tokenize(&g->generator.model, g->prompt, &g->read);
}

/* Tokenizes the text as is, or as the first turn of a conversation. */
static ig_status encode(generation *g) {
    const generation_options *o = g->generator.options;
    g->read.allocator = &g->generator.cli->allocator;
    IG_TRY(generation_find_template(&g->generator, "none", &g->style));
    if (!g->style) return encode_plain(g);
    IG_TRY(model_check_text(&g->generator.model, g->prompt));
    const ig_chat_message messages[] = {
        {.role = "system", .content = o->system, .n_bytes = o->system ? strlen(o->system) : 0},
        {.role = "user", .content = g->prompt.bytes, .n_bytes = g->prompt.n_bytes},
    };
    const size_t first = o->system ? 0 : 1;
    return ig_chat_tokenize(g->style, ig_adapter_tokenizer(g->generator.model.adapter),
                            messages + first, 2 - first, NULL, &g->read);
}

/* ---- A prompt that was read before ---- */

static ig_status restore(generation *g) {
    const char *path = g->generator.options->prompt_cache;
    if (!path || access(path, F_OK) != 0) return IG_OK;
    return ig_session_load(g->generator.model.session, 0, path);
}

static ig_status save(generation *g) {
    const char *path = g->generator.options->prompt_cache;
    ig_session *session = g->generator.model.session;
    if (!path || ig_session_length(session, 0) < (int64_t)g->read.count) return IG_OK;
    IG_TRY(ig_session_truncate(session, 0, (int64_t)g->read.count));
    IG_TRY(ig_session_save(session, 0, path));
    ig_run_wrote(g->generator.cli, "prompt_cache", path);
    return IG_OK;
}

/* Stopped by a signal: the text so far is the result. */
static ig_status stop(generation *g) {
    generation_profile_deinit(&g->profile); /* it covers only part of the run */
    g->result.finish = IG_FINISH_CANCELLED;
    if (g->generator.cli->json) IG_TRY(print_json(g));
    return IG_FAIL(IG_ERR_CANCELLED, "stopped after %lld tokens", (long long)g->result.n_generated);
}

static ig_status generate(generation *g) {
    ig_generate_options options = generation_generate_options(&g->generator);
    IG_TRY(encode(g));
    IG_TRY(generation_check_room(&g->generator, "the prompt", g->read.count, NULL));
    IG_TRY(restore(g));
    if (g->read.count > 0)
        IG_TRY(generation_from_tokens(&g->generator, g->read.at, g->read.count, &options));
    if (g->generator.options->n_logprobs > 0) g->logprobs = json_array();
    options.emit = emit;
    options.token = keep_token;
    options.user = g;
    show_prompt(g);
    if (g->generator.options->profile)
        IG_TRY(generation_profile_begin(&g->profile, &g->generator.model, options.prompt_tokens,
                                        options.n_prompt_tokens));
    const ig_status status = ig_adapter_generate(g->generator.model.adapter, &options, &g->result);
    generation_report(&g->generator, &g->result);
    if (!g->generator.cli->json && (status == IG_OK || g->result.n_generated > 0)) {
        putchar('\n');
        ig_cli_flush(g->generator.cli);
    }
    generation_say(&g->generator, &g->result);
    if (status == IG_ERR_CANCELLED) return stop(g);
    IG_TRY(status);
    IG_TRY(g->profile_status);
    if (g->profile.model) IG_TRY(generation_profile_end(&g->profile));
    IG_TRY(save(g));
    if (g->out_of_memory) return IG_FAIL(IG_ERR_MEMORY, "generate: no memory for the text");
    if (ig_cli_cancelled(g->generator.cli)) return stop(g);
    if (g->generator.cli->json) return print_json(g);
    if (g->profile.model) generation_profile_print(stderr, &g->profile);
    return IG_OK;
}

static ig_status run(ig_cli *cli, const void *options) {
    const generation_options *o = options;
    const ig_allocator *a = &cli->allocator;
    generation g = {.generator = {.cli = cli}};
    ig_status status = model_read_text(cli, o->prompt, o->file, PROMPT_MOST, &g.prompt);
    if (status == IG_OK) status = generation_open(cli, o, &g.generator);
    if (status == IG_OK) status = generate(&g);
    generation_profile_deinit(&g.profile);
    ig_chat_template_destroy(g.style);
    generation_close(&g.generator);
    json_decref(g.logprobs);
    ig_tokens_deinit(&g.read);
    ig_free(a, g.tokens);
    ig_free(a, g.text.bytes);
    ig_free(a, g.prompt.bytes);
    return status;
}

static const char *const examples[] = {
    "ingot generate -p 'Once upon a time'",
    "A story, by the bundled model.",
    "ingot generate -m llm.oam -p 'The old mill'",
    "Continue a prompt until the context is full.",
    "ingot generate -m llm.oam -f letter.txt -n 100 --temp 0",
    "100 tokens, greedy.",
    "ingot generate -m model.gguf -p 'Why is the sky blue?' --chat-template auto",
    "An answer of an instruction-tuned model.",
    "ingot generate -m llm.oam -p 'The' -n 50 --json | jq .timings",
    "Load, prefill and decode times.",
    "ingot generate -m model.gguf -f letter.txt -n 64 --profile",
    "Time per kind of step, with its bandwidth and FLOP rate.",
    NULL,
};

const ig_command cmd_generate = {
    .name = "generate",
    .summary = "generate text from a prompt",
    .about = "Continues a prompt with a GGUF model or a checkpoint of 'ingot train', and streams "
             "the text. Equal seeds give equal text, on any number of threads; with --temp 0 "
             "(greedy) the seed does not matter.\n\nWith --json, prompt_tokens_per_s is the "
             "prefill rate and tokens_per_s the decode rate after the first token. Both exclude "
             "planning and weight packing, which happen on first use. The times include them: "
             "plan_ms (with pack_ms in it) is part of prefill_ms and decode_ms, prefill_ms of "
             "first_token_ms, and read_ms of load_ms.",
    .examples = examples,
    .opts = generation_opts,
    .options_bytes = sizeof(generation_options),
    .cancels = true,
    .run = run,
};
