/*
 * ingot chat - type a line, and the model answers it, or goes on from it.
 *
 * A model that was taught to hold conversations says how in its file: each line is
 * then a turn, and it knows those before.  Models that 'ingot train' makes continue
 * text; for them each line is a text of its own, and what follows it is the model's.
 */
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/app/line.h"
#include "cli/app/output.h"
#include "cli/app/report_file.h"
#include "cli/commands/generation.h"

typedef struct chat {
    talker talker;
    ig_line *line;
    talk_text text; /* of one answer; kept for JSON and for the next turns */
    bool out_of_memory;
    uint64_t turn;
    uint64_t n_lines, n_answered, n_refused;
    ig_generated all; /* the guesses of all answers */

    /* Of a conversation. */
    ig_chat_style style;       /* {0}: it is none */
    ig_chat_message *messages; /* contents are ours */
    size_t n_messages, room;
    ig_ids ids; /* of all of it */
} chat;

/* ---- The conversation ---- */

static ig_status add_message(chat *c, const char *role, const char *content, size_t bytes) {
    const ig_allocator *a = &c->talker.cli->allocator;
    char *copy = ig_alloc(a, bytes + 1, 1);
    if (!copy || !IG_GROW(a, c->messages, &c->room, c->n_messages + 1)) {
        ig_free(a, copy);
        return IG_FAIL(IG_ERR_MEMORY, "chat: no memory for the conversation");
    }
    if (bytes > 0) memcpy(copy, content, bytes);
    c->messages[c->n_messages++] = (ig_chat_message){role, copy, bytes};
    return IG_OK;
}

static void forget(chat *c, size_t keep) {
    while (c->n_messages > keep)
        ig_free(&c->talker.cli->allocator, (void *)c->messages[--c->n_messages].content);
}

/* What the model was told before all. */
static ig_status begin(chat *c) {
    const char *system = c->talker.options->system;
    forget(c, 0);
    return system ? add_message(c, "system", system, strlen(system)) : IG_OK;
}

/* ---- One answer ---- */

static bool emit(void *user, const char *text, size_t bytes) {
    chat *c = user;
    if (!c->talker.cli->json) talk_write(&c->talker, text, bytes);
    if (!talk_keep(&c->talker, &c->text, text, bytes)) c->out_of_memory = true;
    return !c->out_of_memory && !ig_cli_cancelled(c->talker.cli);
}

/* One object on a line for each answer. */
static ig_status print_json(const chat *c, const char *prompt, const ig_generated *result) {
    json_t *text = json_stringn(c->text.bytes ? c->text.bytes : "", c->text.used);
    json_t *root = json_pack(
        "{s:s, s:o, s:o, s:I, s:s, s:I, s:o, s:o}", "schema", "ingot.chat.v1", "prompt",
        ig_json_text(prompt), "text", text ? text : ig_json_text(c->text.bytes), "n_tokens",
        (json_int_t)result->n_tokens, "finish", talk_finish_name(result->finish), "seed",
        (json_int_t)c->talker.seed, "first_token_ms", ig_json_real(result->first_token_ms),
        "decode_ms", ig_json_real(result->decode_ms));
    if (!root) return IG_FAIL(IG_ERR_MEMORY, "JSON: no memory for the result");
    talk_add_rates(root, result);
    if (c->talker.options->guess_ngram > 0)
        json_object_set_new(root, "speculation", talk_guesses_json(&c->talker, result));
    (void)!ig_json_write(stdout, root, IG_JSON_LINE); /* a closed pipe is noticed at the end */
    json_decref(root);
    return IG_OK;
}

/* Where an answer ends if nothing was said about that: with its paragraph. */
static const char *const default_stop[] = {"\n\n"};

static ig_status make_answer(chat *c, const char *prompt, ig_generate_options *options) {
    ig_generated result = {0};
    options->sampling.seed += c->turn++; /* the same line again is answered otherwise */
    options->emit = emit;
    options->user = c;
    c->text.used = 0;
    const ig_status status = ig_adapter_generate(c->talker.model.adapter, options, &result);
    talk_report(&c->talker, &result);
    if (status == IG_OK && c->talker.cli->json) IG_TRY(print_json(c, prompt, &result));
    if (!c->talker.cli->json && (status == IG_OK || result.n_tokens > 0)) putchar('\n');
    ig_cli_flush(c->talker.cli);
    talk_say(&c->talker, &result);
    c->all.n_guessed += result.n_guessed;
    c->all.n_guessed_right += result.n_guessed_right;
    if (c->out_of_memory) return IG_FAIL(IG_ERR_MEMORY, "chat: no memory for the text");
    if (ig_cli_cancelled(c->talker.cli)) return IG_FAIL(IG_ERR_CANCELLED, "stopped");
    return status;
}

/* Each line is a text of its own. */
static ig_status go_on(chat *c, const char *prompt) {
    ig_generate_options options = talk_generate_options(&c->talker);
    if (options.n_stop == 0) options.stop = default_stop, options.n_stop = 1;
    options.prompt = prompt;
    options.prompt_bytes = strlen(prompt);
    model_tokens tokens = {0};
    ig_status status = ig_session_truncate(options.session, 0, 0);
    if (status == IG_OK)
        status =
            model_encode(&c->talker.model, (model_text){(char *)prompt, strlen(prompt)}, &tokens);
    if (status == IG_OK) status = talk_check_room(&c->talker, "the line", tokens.count, NULL);
    options.tokens = tokens.at;
    options.n_tokens = tokens.count;
    if (status == IG_OK) status = make_answer(c, prompt, &options);
    ig_free(&c->talker.cli->allocator, tokens.at);
    return status;
}

/* The line is the next turn; one that cannot be answered is forgotten. */
static ig_status reply(chat *c, const char *prompt) {
    ig_generate_options options = talk_generate_options(&c->talker);
    const ig_chat_format *format = c->style.format;
    const char *const turn_end[] = {format ? ig_chat_turn_end(format) : NULL};
    const size_t before = c->n_messages;
    if (options.n_stop == 0 && format) options.stop = turn_end, options.n_stop = 1;
    c->ids.count = 0;
    IG_TRY(add_message(c, "user", prompt, strlen(prompt)));
    ig_status status = ig_adapter_encode_chat(c->talker.model.adapter, &c->style, c->messages,
                                              c->n_messages, &c->ids);
    if (status == IG_OK)
        status =
            talk_check_room(&c->talker, "the conversation", c->ids.count, "/reset begins anew");
    if (status == IG_OK) status = talk_from_tokens(&c->talker, c->ids.at, c->ids.count, &options);
    if (status == IG_OK) status = make_answer(c, prompt, &options);
    if (status == IG_OK) status = add_message(c, "assistant", c->text.bytes, c->text.used);
    if (status != IG_OK) forget(c, before);
    return status;
}

static ig_status answer(chat *c, const char *prompt) {
    IG_TRY(model_check_text(&c->talker.model, (model_text){(char *)prompt, strlen(prompt)}));
    const bool is_talk = talk_has_style(&c->style);
    if (is_talk && strcmp(prompt, "/reset") == 0) return begin(c);
    IG_TRY(is_talk ? reply(c, prompt) : go_on(c, prompt));
    c->n_answered++;
    return IG_OK;
}

/* A line that cannot be answered, because it is too long say, is no reason to leave. */
static ig_status say_why_not(chat *c, ig_status status) {
    if (status != IG_ERR_ARGUMENT) return status;
    const ig_cli *cli = c->talker.cli;
    char words[IG_ERROR_BYTES], number[40] = "";
    if (!ig_line_is_typed(c->line))
        snprintf(number, sizeof number, "line %llu: ", (unsigned long long)c->n_lines);
    fprintf(stderr, "%singot chat:%s %s%s. The line is left out.\n",
            ig_term_style(cli->term.err_color, IG_RED),
            ig_term_style(cli->term.err_color, IG_PLAIN), number, ig_cli_error(cli, words));
    c->n_refused++;
    return IG_OK;
}

/* Reads a line and answers it.  `out`: whether there was one. */
static ig_status take_line(chat *c, bool *out) {
    const char *text = NULL;
    c->n_lines++;
    ig_status status = ig_line_read(c->line, &text);
    *out = status != IG_OK || (text && strcmp(text, "/exit") != 0);
    if (status == IG_OK && *out && *text) status = answer(c, text);
    return say_why_not(c, status);
}

/* Whoever types has seen what became of each line; a program looks at the end. */
static ig_status end(const chat *c) {
    if (ig_line_is_typed(c->line)) {
        fputc('\n', stderr);
        return IG_OK;
    }
    if (c->n_refused == 0 || c->n_answered > 0) return IG_OK;
    return IG_FAIL(IG_ERR_ARGUMENT, "none of the lines could be answered: %llu were left out",
                   (unsigned long long)c->n_refused);
}

/* Whether the file says how conversations are written, in words that we do not know. */
static bool is_unknown(const chat *c) {
    const char *format = c->talker.options->format;
    ig_tokenizer_data text;
    return !talk_has_style(&c->style) && (!format || strcmp(format, "auto") == 0) &&
           ig_adapter_chat_template(c->talker.model.adapter, &text);
}

static void introduce(const chat *c) {
    const ig_cli *cli = c->talker.cli;
    const long long own = (long long)ig_adapter_config(c->talker.model.adapter).ctx_len;
    const long long ctx_len = (long long)ig_session_ctx_len(c->talker.model.session);
    char path[256], count[IG_UNIT_TEXT_BYTES], of[64] = "";
    if (ctx_len < own) snprintf(of, sizeof of, " of the model's %lld (-c N asks for more)", own);
    ig_cli_say(cli, "%s: %s, %s parameters, context %lld%s",
               ig_text_safe(c->talker.model.path, path, sizeof path),
               ig_adapter_architecture(c->talker.model.adapter),
               ig_count_text((uint64_t)ig_adapter_param_count(c->talker.model.adapter), count),
               ctx_len, of);
    if (c->style.jinja)
        ig_cli_say(cli, "A conversation, written by %s. /reset begins anew, /exit ends.",
                   c->talker.options->template_file ? "that template" : "the model's own template");
    else if (c->style.format)
        ig_cli_say(cli, "A conversation in the format %s. /reset begins anew, /exit ends.",
                   ig_chat_name(c->style.format));
    else if (is_unknown(c))
        ig_cli_say(cli, "The file has a chat template, but not one that is known: --chat-format "
                        "says how to write. Without it, it continues what you type. /exit ends.");
    else
        ig_cli_say(cli, "It continues what you type; it was not taught to answer. /exit ends.");
}

static ig_status converse(chat *c) {
    c->ids.allocator = &c->talker.cli->allocator;
    IG_TRY(talk_find_style(&c->talker, "auto", &c->style));
    if (c->talker.options->system && !talk_has_style(&c->style))
        return IG_FAIL(IG_ERR_ARGUMENT, "--system: %s; --chat-format says how one is written",
                       is_unknown(c) ? "how the file writes a conversation is not known"
                                     : "this model holds no conversations");
    IG_TRY(begin(c));
    introduce(c);
    for (bool more = true; more;) IG_TRY(take_line(c, &more));
    return end(c);
}

/* Beside the report, in the last line. */
static ig_status tell_guesses(const chat *c) {
    if (!c->talker.options || c->talker.options->guess_ngram == 0) return IG_OK;
    return ig_run_result(c->talker.cli,
                         json_pack("{s:o}", "speculation", talk_guesses_json(&c->talker, &c->all)));
}

static ig_status run(ig_cli *cli, const void *options) {
    const ig_allocator *a = &cli->allocator;
    chat c = {.talker = {.cli = cli}};
    ig_status status = talk_open(cli, options, &c.talker);
    if (status == IG_OK) status = ig_line_create(a, "> ", &c.line);
    if (status == IG_OK) status = converse(&c);
    const ig_status told = tell_guesses(&c);
    if (status == IG_OK) status = told;
    ig_line_destroy(c.line);
    forget(&c, 0);
    ig_ids_deinit(&c.ids);
    ig_chat_style_deinit(&c.style);
    talk_close(&c.talker);
    ig_free(a, c.messages);
    ig_free(a, c.text.bytes);
    return status;
}

static const char *const examples[] = {
    "ingot chat",
    "Type the beginning of a story, and the model that comes with ingot goes on.",
    "ingot chat -m model.gguf --system 'Answer in verse.'",
    "A conversation, in the format that the model's file asks for.",
    "ingot chat -m llm.oam",
    "Type a beginning, and the model goes on.",
    "ingot chat -m llm.oam --temp 0.5 --stop . <lines.txt",
    "A careful end for each line of a file, up to the full stop.",
    NULL,
};

const ig_command cmd_chat = {
    .name = "chat",
    .summary = "type a line, and a model answers it or goes on from it",
    .about =
        "Reads lines until the end of standard input or /exit. A model whose file says how "
        "conversations are written answers each line and remembers those before, until "
        "/reset. Others continue each line, up to an empty line or to what --stop says. On a "
        "terminal, lines can be edited "
        "and called back. A line that cannot be answered, as it is not UTF-8 or does not fit into "
        "the context, is an error on standard error, and the next one is read; the exit code says "
        "so only if none was answered. With --json each answer is an object on a line of its own, "
        "and the last "
        "line is the report of the run.",
    .examples = examples,
    .opts = talk_opts + TALK_SHARED,
    .options_bytes = sizeof(talk_options),
    .cancels = true,
    .json_lines = true,
    .run = run,
};
