/*
 * ingot chat - the model answers or continues each line that is typed.
 *
 * The file of a chat model has a chat template: each line is a turn, and the model sees the earlier
 * turns. Models from 'ingot train' continue text: each line is a separate prompt.
 */
#include "cli/commands/cmd_chat.h"

#include <jansson.h>
#include <signal.h>
#include <string.h>

#include "cli/app/output.h"
#include "cli/app/report_file.h"
#include "cli/app/signals.h"

/* ---- The conversation ---- */

ig_status chat_add_message(chat *c, const char *role, const char *content, size_t bytes) {
    const ig_allocator *a = &c->generator.cli->allocator;
    char *copy = ig_alloc(a, bytes + 1, 1);
    if (!copy || !IG_GROW(a, c->messages, &c->room, c->n_messages + 1)) {
        ig_free(a, copy);
        return IG_FAIL(IG_ERR_MEMORY, "chat: no memory for the conversation");
    }
    if (bytes > 0) memcpy(copy, content, bytes);
    c->messages[c->n_messages++] =
        (ig_chat_message){.role = role, .content = copy, .n_bytes = bytes};
    return IG_OK;
}

void chat_forget(chat *c, size_t keep) {
    while (c->n_messages > keep)
        ig_free(&c->generator.cli->allocator, (void *)c->messages[--c->n_messages].content);
}

/* Starts a new conversation with only the system message. */
ig_status chat_begin(chat *c) {
    const char *system = c->generator.options->system;
    chat_forget(c, 0);
    return system ? chat_add_message(c, "system", system, strlen(system)) : IG_OK;
}

/* ---- One answer ---- */

static bool emit(void *user, const char *text, size_t bytes) {
    chat *c = user;
    if (!c->generator.cli->json) generation_write(&c->generator, text, bytes);
    if (!generation_keep(&c->generator, &c->text, text, bytes)) c->out_of_memory = true;
    return !c->out_of_memory && !ig_cli_cancelled(c->generator.cli);
}

/* Prints one JSON object per answer, on one line. */
static ig_status print_json(const chat *c, const char *prompt, const ig_generated *result) {
    json_t *text = json_stringn(c->text.bytes ? c->text.bytes : "", c->text.used);
    json_t *root = json_pack(
        "{s:s, s:o, s:o, s:I, s:s, s:I, s:o, s:o}", "schema", "ingot.chat.v1", "prompt",
        ig_json_text(prompt), "text", text ? text : ig_json_text(c->text.bytes), "n_tokens",
        (json_int_t)result->n_generated, "finish", generation_finish_name(result->finish), "seed",
        (json_int_t)c->generator.seed, "first_token_ms", ig_json_real(result->first_token_ms),
        "decode_ms", ig_json_real(result->decode_ms));
    if (!root) return IG_FAIL(IG_ERR_MEMORY, "JSON: no memory for the result");
    generation_add_rates(root, result);
    if (c->generator.options->draft_ngram > 0)
        json_object_set_new(root, "speculation", speculation_json(&c->generator, result));
    (void)!ig_json_write(stdout, root, IG_JSON_LINE); /* ig_cli_finish() reports a closed pipe */
    json_decref(root);
    return IG_OK;
}

/* Without --stop, a continuation ends with its paragraph. */
static const char *const default_stop[] = {"\n\n"};

/* On a terminal, Ctrl-C stops the answer: the text so far is kept, and the chat continues. */
static bool is_stopped_answer(chat *c) {
    if (!ig_line_is_typed(c->line) || ferror(stdout) || ig_signals_caught() != SIGINT) return false;
    ig_signals_forget();
    fputs("[stopped; Ctrl-C again quits]\n", stderr);
    return true;
}

static ig_status make_answer(chat *c, const char *prompt, ig_generate_options *options) {
    ig_generated result = {0};
    options->sampling.seed += c->turn++; /* repeating a line gives another answer */
    options->emit = emit;
    options->user = c;
    c->text.used = 0;
    ig_status status = ig_adapter_generate(c->generator.model.adapter, options, &result);
    generation_report(&c->generator, &result);
    if (status == IG_OK && c->generator.cli->json) IG_TRY(print_json(c, prompt, &result));
    if (!c->generator.cli->json && (status == IG_OK || result.n_generated > 0)) putchar('\n');
    ig_cli_flush(c->generator.cli);
    generation_say(&c->generator, &result);
    c->all.n_drafted += result.n_drafted;
    c->all.n_accepted += result.n_accepted;
    if (c->out_of_memory) return IG_FAIL(IG_ERR_MEMORY, "chat: no memory for the text");
    if (is_stopped_answer(c)) status = IG_OK;
    if (ig_cli_cancelled(c->generator.cli)) return IG_FAIL(IG_ERR_CANCELLED, "stopped");
    c->last = result;
    return status;
}

/* Continues the line, a prompt of its own. */
static ig_status continue_line(chat *c, const char *prompt) {
    ig_generate_options options = generation_generate_options(&c->generator);
    if (options.n_stop == 0) options.stop = default_stop, options.n_stop = 1;
    options.prompt = prompt;
    options.prompt_bytes = strlen(prompt);
    ig_tokens tokens = {0};
    ig_status status = ig_session_truncate(options.session, 0, 0);
    if (status == IG_OK)
        status = model_tokenize(&c->generator.model, (model_text){(char *)prompt, strlen(prompt)},
                                &tokens);
    if (status == IG_OK)
        status = generation_check_room(&c->generator, "the line", tokens.count, NULL);
    options.prompt_tokens = tokens.at;
    options.n_prompt_tokens = tokens.count;
    if (status == IG_OK) status = make_answer(c, prompt, &options);
    ig_tokens_deinit(&tokens);
    if (status == IG_OK) status = chat_add_message(c, "user", prompt, strlen(prompt));
    if (status == IG_OK) status = chat_add_message(c, "assistant", c->text.bytes, c->text.used);
    return status;
}

/* Answers the line as the next turn. A turn without an answer is dropped. */
static ig_status reply(chat *c, const char *prompt) {
    ig_generate_options options = generation_generate_options(&c->generator);
    const char *const turn_end[] = {ig_chat_template_turn_end(c->style)};
    const size_t before = c->n_messages;
    if (options.n_stop == 0 && turn_end[0]) options.stop = turn_end, options.n_stop = 1;
    c->ids.count = 0;
    IG_TRY(chat_add_message(c, "user", prompt, strlen(prompt)));
    ig_status status = ig_chat_tokenize(c->style, ig_adapter_tokenizer(c->generator.model.adapter),
                                        c->messages, c->n_messages, NULL, &c->ids);
    if (status == IG_OK)
        status = generation_check_room(&c->generator, "the conversation", c->ids.count,
                                       "/clear starts over");
    if (status == IG_OK)
        status = generation_from_tokens(&c->generator, c->ids.at, c->ids.count, &options);
    if (status == IG_OK) status = make_answer(c, prompt, &options);
    if (status == IG_OK) status = chat_add_message(c, "assistant", c->text.bytes, c->text.used);
    if (status != IG_OK) chat_forget(c, before);
    return status;
}

ig_status chat_answer(chat *c, const char *prompt) {
    IG_TRY(model_check_text(&c->generator.model, (model_text){(char *)prompt, strlen(prompt)}));
    IG_TRY(c->style ? reply(c, prompt) : continue_line(c, prompt));
    c->n_answered++;
    return IG_OK;
}

/* Reports a line that cannot be answered, because it is too long or the template refuses it
 * (FORMAT); the chat continues. */
static ig_status say_why_not(chat *c, ig_status status) {
    if (status != IG_ERR_ARGUMENT && status != IG_ERR_FORMAT) return status;
    const ig_cli *cli = c->generator.cli;
    char words[IG_ERROR_BYTES], number[40] = "";
    if (!ig_line_is_typed(c->line))
        snprintf(number, sizeof number, "line %llu: ", (unsigned long long)c->n_lines);
    fprintf(stderr, "%singot chat:%s %s%s. The line is skipped.\n",
            ig_term_style(cli->term.err_color, IG_RED),
            ig_term_style(cli->term.err_color, IG_PLAIN), number, ig_cli_error(cli, words));
    c->n_refused++;
    return IG_OK;
}

/* Reads a line and answers it. `out`: whether there was one. */
static ig_status take_line(chat *c, bool *out) {
    const char *text = NULL;
    c->n_lines++;
    ig_status status = ig_line_read(c->line, &text);
    *out = status != IG_OK || text;
    if (status == IG_OK && *out && text[0] == '/' && text[1] != '/')
        status = chat_run_command(c, text, out);
    else if (status == IG_OK && *out && *text)
        status = chat_answer(c, text[0] == '/' ? text + 1 : text);
    return say_why_not(c, status);
}

/* Interactive users have seen the outcome of each line. Scripts check the exit code. */
static ig_status end(const chat *c) {
    if (ig_line_is_typed(c->line)) {
        fputc('\n', stderr);
        return IG_OK;
    }
    if (c->n_refused == 0 || c->n_answered > 0) return IG_OK;
    return IG_FAIL(IG_ERR_ARGUMENT, "no line was answered: %llu were skipped",
                   (unsigned long long)c->n_refused);
}

/* Whether the file has an unusable chat template. */
static bool is_unknown(const chat *c) {
    const char *format = c->generator.options->format;
    ig_string_view text;
    return !c->style && (!format || strcmp(format, "auto") == 0) &&
           ig_adapter_chat_template(c->generator.model.adapter, &text);
}

static void introduce(const chat *c) {
    const ig_cli *cli = c->generator.cli;
    const long long own = (long long)ig_adapter_config(c->generator.model.adapter).ctx_len;
    const long long ctx_len = (long long)ig_session_ctx_len(c->generator.model.session);
    char path[256], count[IG_UNIT_TEXT_BYTES], of[64] = "";
    if (ctx_len < own) snprintf(of, sizeof of, " of the model's %lld (-c N for more)", own);
    ig_cli_say(cli, "%s: %s, %s parameters, context %lld%s",
               ig_text_safe(c->generator.model.path, path, sizeof path),
               ig_adapter_architecture(c->generator.model.adapter),
               ig_count_text((uint64_t)ig_adapter_param_count(c->generator.model.adapter), count),
               ctx_len, of);
    if (c->style && ig_chat_template_is_jinja(c->style))
        ig_cli_say(cli, "Chat with %s. /help lists the commands.",
                   c->generator.options->template_file ? "the given chat template"
                                                       : "the model's own chat template");
    else if (c->style)
        ig_cli_say(cli, "Chat with the built-in template %s. /help lists the commands.",
                   ig_chat_template_name(c->style));
    else if (is_unknown(c))
        ig_cli_say(cli,
                   "The chat template of this file cannot be rendered; choose one with "
                   "--chat-template. Without one, the model continues what you type. /help lists "
                   "the commands.");
    else
        ig_cli_say(cli, "A base model without a chat template: it continues what you type. /help "
                        "lists the commands.");
}

static ig_status prepare(chat *c) {
    c->ids.allocator = &c->generator.cli->allocator;
    IG_TRY(generation_find_template(&c->generator, "auto", &c->style));
    if (c->generator.options->system && !c->style)
        return IG_FAIL(IG_ERR_ARGUMENT, "--system: %s; choose a template with --chat-template",
                       is_unknown(c) ? "the chat template of this file cannot be rendered"
                                     : "this model has no chat template");
    IG_TRY(chat_begin(c));
    introduce(c);
    return IG_OK;
}

/* With --json, in the last line, with the report. */
static ig_status report_speculation(const chat *c) {
    if (!c->generator.options || c->generator.options->draft_ngram == 0) return IG_OK;
    return ig_run_result(c->generator.cli, json_pack("{s:o}", "speculation",
                                                     speculation_json(&c->generator, &c->all)));
}

/* ---- As an application: init, ticks, shutdown ---- */

static ig_status init(void *self) {
    chat *c = self;
    ig_cli *cli = c->generator.cli;
    IG_TRY(generation_open(cli, c->options, &c->generator));
    IG_TRY(ig_line_create(&cli->allocator, "> ", &c->line));
    return prepare(c);
}

/* Handles one line. */
static ig_status tick(void *self, bool *done) {
    bool more = false;
    IG_TRY(take_line(self, &more));
    *done = !more;
    return more ? IG_OK : end(self);
}

static void deinit(void *self) {
    chat *c = self;
    const ig_allocator *a = &c->generator.cli->allocator;
    c->reported = report_speculation(c);
    ig_line_destroy(c->line);
    chat_forget(c, 0);
    ig_tokens_deinit(&c->ids);
    ig_chat_template_destroy(c->style);
    generation_close(&c->generator);
    ig_free(a, c->messages);
    ig_free(a, c->text.bytes);
}

static ig_status run(ig_cli *cli, const void *options) {
    chat c = {.generator = {.cli = cli}, .options = options};
    const ig_status status = ig_app_run(&(ig_app){init, tick, deinit, &c});
    return status == IG_OK ? c.reported : status;
}

static const char *const examples[] = {
    "ingot chat",
    "Continue stories with the bundled model.",
    "ingot chat -m model.gguf --system 'Answer in verse.'",
    "A chat with the model's own chat template.",
    "ingot chat -m llm.oam",
    "Continue what you type.",
    "ingot chat -m llm.oam --temp 0.5 --stop . <lines.txt",
    "Continue each line of a file up to the next period, at a low temperature.",
    NULL,
};

const ig_command cmd_chat = {
    .name = "chat",
    .summary = "chat with a model",
    .about =
        "Reads lines until the end of standard input or /exit. With a chat template each line is a "
        "user message, and the model sees the whole conversation until /clear. A base model, "
        "without a chat template, continues each line on its own, up to an empty line or a --stop "
        "string. A terminal has line editing and history; Ctrl-C stops an answer, and quits at "
        "the prompt.\n\n"
        "A line that begins with / is a command: /help lists the commands; /exit, /quit and /bye "
        "quit; /clear (or /reset) starts a new conversation; /regen answers the last line again; "
        "/save FILE writes the messages as JSON, with role and content; /stats prints tokens, "
        "tok/s and context use. Any other /word is an error. Begin a line with // to send a "
        "message that begins with /.\n\n"
        "A line that is not UTF-8 or does not fit into the context is reported on standard error "
        "and skipped. If every line was skipped, the exit code is 2. With --json each answer is "
        "one JSON object per line, and the last line is the run report.",
    .examples = examples,
    .opts = generation_opts + GENERATION_SHARED,
    .options_bytes = sizeof(generation_options),
    .cancels = true,
    .json_lines = true,
    .run = run,
};
