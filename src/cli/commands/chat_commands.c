/* The commands of a chat, which start with a slash. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli/app/output.h"
#include "cli/app/report_file.h"
#include "cli/commands/cmd_chat.h"

typedef struct chat_command {
    const char *name;
    ig_status (*run)(chat *c, const char *argument); /* NULL: ends the chat */
    const char *argument;                            /* in help: "FILE"; NULL: none */
    const char *help;                                /* NULL: an alias */
} chat_command;

static ig_status help(chat *c, const char *argument);

static ig_status clear(chat *c, const char *argument) {
    (void)argument;
    return chat_begin(c);
}

/* Drops the last answer and answers its line again. */
static ig_status regenerate(chat *c, const char *argument) {
    const ig_allocator *a = &c->generator.cli->allocator;
    (void)argument;
    if (c->n_messages < 2 || strcmp(c->messages[c->n_messages - 1].role, "assistant") != 0)
        return IG_FAIL(IG_ERR_ARGUMENT, "/regen: there is no answer yet");
    char *line = ig_copy_text(a, c->messages[c->n_messages - 2].content);
    if (!line) return IG_FAIL(IG_ERR_MEMORY, "chat: no memory for the line");
    chat_forget(c, c->n_messages - 2);
    const ig_status status = chat_answer(c, line);
    ig_free(a, line);
    return status;
}

static void print_messages(FILE *to, const void *what) {
    ig_json_write(to, what, IG_JSON_INDENTED);
}

static json_t *messages_json(const chat *c) {
    json_t *list = json_array();
    for (size_t i = 0; i < c->n_messages; i++) {
        const ig_chat_message *m = &c->messages[i];
        json_t *content = json_stringn(m->content, m->n_bytes); /* NULL: not UTF-8 */
        json_array_append_new(list, json_pack("{s:s, s:o}", "role", m->role, "content",
                                              content ? content : ig_json_text(m->content)));
    }
    return list;
}

static ig_status save(chat *c, const char *argument) {
    if (c->n_messages == 0) return IG_FAIL(IG_ERR_ARGUMENT, "/save: there is nothing to save yet");
    char path[512];
    json_t *list = messages_json(c);
    if (json_array_size(list) != c->n_messages) {
        json_decref(list);
        return IG_FAIL(IG_ERR_MEMORY, "/save: no memory for the conversation");
    }
    ig_status status =
        ig_file_replace(&c->generator.cli->allocator, argument, print_messages, list);
    json_decref(list);
    if (status == IG_ERR_IO) /* an error of this command only: the chat continues */
        status = IG_FAIL(IG_ERR_ARGUMENT, "/save: %s", ig_error_text());
    IG_TRY(status);
    ig_run_wrote(c->generator.cli, "conversation", argument);
    fprintf(stderr, "%zu messages in %s\n", c->n_messages,
            ig_text_safe(argument, path, sizeof path));
    return IG_OK;
}

static ig_status stats(chat *c, const char *argument) {
    const generation_rates rates = generation_rates_of(&c->last);
    const ig_session *session = c->generator.model.session;
    (void)argument;
    fprintf(stderr,
            "last answer: %lld prompt tokens (%.1f tok/s), %lld generated (%.1f tok/s)\n"
            "context: %lld of %lld tokens; messages: %zu; answers: %llu\n",
            (long long)c->last.n_prompt_tokens, rates.prefill, (long long)c->last.n_generated,
            rates.decode, (long long)ig_session_length(session, 0),
            (long long)ig_session_ctx_len(session), c->n_messages,
            (unsigned long long)c->n_answered);
    return IG_OK;
}

static const chat_command commands[] = {
    {"help", help, NULL, "list the commands"},
    {"clear", clear, NULL, "start a new conversation"},
    {"reset", clear, NULL, NULL},
    {"regen", regenerate, NULL, "answer the last line again"},
    {"save", save, "FILE", "write the conversation to a file, as JSON"},
    {"stats", stats, NULL, "print tokens, tok/s and context use"},
    {"exit", NULL, NULL, "quit; so do /quit, /bye and Ctrl-D"},
    {"quit", NULL, NULL, NULL},
    {"bye", NULL, NULL, NULL},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static ig_status help(chat *c, const char *argument) {
    (void)c, (void)argument;
    for (size_t i = 0; i < N_COMMANDS; i++) {
        char label[32];
        if (!commands[i].help) continue;
        snprintf(label, sizeof label, "/%s %s", commands[i].name,
                 commands[i].argument ? commands[i].argument : "");
        fprintf(stderr, "  %-12s  %s\n", label, commands[i].help);
    }
    fprintf(stderr, "  %-12s  %s\n", "//...", "send a message that begins with /");
    return IG_OK;
}

ig_status chat_run_command(chat *c, const char *line, bool *more) {
    const size_t length = strcspn(line + 1, " \t");
    const char *argument = line + 1 + length;
    while (isspace((unsigned char)*argument)) argument++;
    for (size_t i = 0; i < N_COMMANDS; i++) {
        const chat_command *command = &commands[i];
        if (strlen(command->name) != length || strncmp(command->name, line + 1, length) != 0)
            continue;
        if (command->argument && !*argument)
            return IG_FAIL(IG_ERR_ARGUMENT, "/%s: %s is missing", command->name, command->argument);
        if (!command->argument && *argument)
            return IG_FAIL(IG_ERR_ARGUMENT, "/%s: takes no argument", command->name);
        *more = command->run != NULL;
        return command->run ? command->run(c, argument) : IG_OK;
    }
    return IG_FAIL(IG_ERR_ARGUMENT, "/%.*s: no such command; /help lists them",
                   (int)(length < 32 ? length : 32), line + 1);
}
