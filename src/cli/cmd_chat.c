/*
 * ingot chat - type a line, and the model goes on from it.
 *
 * Models that 'ingot train' makes continue text; they were not taught to answer.
 * So each line is a text of its own, and what follows it is the model's.
 */
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/line.h"
#include "cli/output.h"
#include "cli/talk.h"

typedef struct chat {
    talker talker;
    ig_line *line;
    talk_text text; /* of one answer; kept for JSON */
    bool out_of_memory;
    uint64_t turn;
} chat;

static bool emit(void *user, const char *text, size_t bytes) {
    chat *c = user;
    if (!c->talker.cli->json)
        talk_write(&c->talker, text, bytes);
    else if (!talk_keep(&c->talker, &c->text, text, bytes))
        c->out_of_memory = true;
    return !c->out_of_memory && !ig_cli_cancelled(c->talker.cli);
}

/* One object on a line for each answer. */
static ig_status print_json(const chat *c, const char *prompt, const ig_generated *result) {
    json_t *text = json_stringn(c->text.bytes ? c->text.bytes : "", c->text.used);
    json_t *root = json_pack(
        "{s:s, s:o, s:o, s:I, s:s, s:o, s:o}", "schema", "ingot.chat.v1", "prompt",
        ig_json_text(prompt), "text", text ? text : ig_json_text(c->text.bytes), "n_tokens",
        (json_int_t)result->n_tokens, "finish", talk_finish_name(result->finish), "first_token_ms",
        ig_json_real(result->first_token_ms), "decode_ms", ig_json_real(result->decode_ms));
    if (!root) return IG_FAIL(IG_ERR_MEMORY, "JSON: no memory for the result");
    json_dumpf(root, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(root);
    return IG_OK;
}

/* Where an answer ends if nothing was said about that: with its paragraph. */
static const char *const default_stop[] = {"\n\n"};

static ig_status answer(chat *c, const char *prompt) {
    ig_generate_options options = talk_generate_options(&c->talker);
    if (options.n_stop == 0) options.stop = default_stop, options.n_stop = 1;
    options.prompt = prompt;
    options.prompt_bytes = strlen(prompt);
    options.sampling.seed += c->turn++; /* the same line again is answered otherwise */
    options.emit = emit;
    options.user = c;
    ig_generated result = {0};
    c->text.used = 0;
    IG_TRY(ig_session_truncate(options.session, 0, 0)); /* each line is a text of its own */
    const ig_status status = ig_adapter_generate(c->talker.model.adapter, &options, &result);
    if (status == IG_OK && c->talker.cli->json) IG_TRY(print_json(c, prompt, &result));
    if (status == IG_OK || result.n_tokens > 0) putchar('\n');
    fflush(stdout);
    if (c->out_of_memory) return IG_FAIL(IG_ERR_MEMORY, "chat: no memory for the text");
    if (ig_cli_cancelled(c->talker.cli)) return IG_FAIL(IG_ERR_CANCELLED, "stopped");
    return status;
}

/* A line that cannot be answered, because it is too long say, is no reason to leave. */
static ig_status answer_or_say(chat *c, const char *prompt) {
    const ig_status status = answer(c, prompt);
    if (status != IG_ERR_ARGUMENT || !ig_line_is_typed(c->line)) return status;
    char words[IG_ERROR_BYTES];
    fprintf(stderr, "%s\n", ig_cli_error(c->talker.cli, words));
    return IG_OK;
}

static void introduce(const chat *c) {
    const ig_cli *cli = c->talker.cli;
    char path[256], count[IG_UNIT_TEXT_BYTES];
    ig_cli_say(cli, "%s: %s, %s parameters, context %lld",
               ig_text_safe(c->talker.model.path, path, sizeof path),
               ig_adapter_architecture(c->talker.model.adapter),
               ig_count_text((uint64_t)ig_adapter_param_count(c->talker.model.adapter), count),
               (long long)ig_adapter_config(c->talker.model.adapter).ctx_len);
    ig_cli_say(cli, "It continues what you type; it was not taught to answer. /exit ends.");
}

static ig_status converse(chat *c) {
    introduce(c);
    for (;;) {
        const char *text;
        IG_TRY(ig_line_read(c->line, &text));
        if (!text || strcmp(text, "/exit") == 0) break;
        if (*text) IG_TRY(answer_or_say(c, text));
    }
    if (ig_line_is_typed(c->line)) fputc('\n', stderr);
    return IG_OK;
}

static ig_status run(ig_cli *cli, const void *options) {
    const ig_allocator *a = &cli->allocator;
    chat c = {.talker = {.cli = cli}};
    ig_status status = talk_open(cli, options, &c.talker);
    if (status == IG_OK) status = ig_line_create(a, "> ", &c.line);
    if (status == IG_OK) status = converse(&c);
    ig_line_destroy(c.line);
    talk_close(&c.talker);
    ig_free(a, c.text.bytes);
    return status;
}

static const char *const examples[] = {
    "ingot chat",
    "Type the beginning of a story, and the model that comes with ingot goes on.",
    "ingot chat -m llm.oam",
    "Type a beginning, and the model goes on.",
    "ingot chat -m llm.oam --temp 0.5 --stop . <lines.txt",
    "A careful end for each line of a file, up to the full stop.",
    NULL,
};

const ig_command cmd_chat = {
    .name = "chat",
    .summary = "type a line, and a model goes on from it",
    .about = "Reads lines until the end of standard input or /exit, and lets a model continue each "
             "one, up to an empty line or to what --stop says. On a terminal, lines can be edited "
             "and called back. With --json each answer is an object on a line of its own.",
    .examples = examples,
    .opts = talk_opts + TALK_SHARED,
    .options_bytes = sizeof(talk_options),
    .cancels = true,
    .run = run,
};
