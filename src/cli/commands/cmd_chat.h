/* cmd_chat.h - a chat: its conversation and its slash commands. */
#ifndef IG_CLI_COMMANDS_CMD_CHAT_H
#define IG_CLI_COMMANDS_CMD_CHAT_H

#include "base/alloc.h"
#include "cli/app/line.h"
#include "cli/commands/generation.h"

typedef struct chat {
    const generation_options *options;
    generator generator;
    ig_line *line;
    generation_text text; /* of one answer; copied for JSON and later turns */
    bool out_of_memory;
    uint64_t turn;
    uint64_t n_lines, n_answered, n_refused;
    ig_generated all;   /* draft token counts over all answers */
    ig_generated last;  /* the newest answer */
    ig_status reported; /* of these, already included in the final report */

    ig_chat_template *style;   /* NULL: the model continues text */
    ig_chat_message *messages; /* contents are owned */
    size_t n_messages, room;
    ig_tokens ids; /* tokens of the whole conversation */
} chat;

/* Copies `content`. */
IG_MUST_CHECK ig_status chat_add_message(chat *chat, const char *role, const char *content,
                                         size_t bytes);
void chat_forget(chat *chat, size_t keep); /* all messages but the first `keep` */

/* Starts a new conversation with only the system message. */
IG_MUST_CHECK ig_status chat_begin(chat *chat);

/* Answers the line or continues it. */
IG_MUST_CHECK ig_status chat_answer(chat *chat, const char *line);

/* Runs "/word ..."; `more` becomes false if it ends the chat. */
IG_MUST_CHECK ig_status chat_run_command(chat *chat, const char *line, bool *more);

#endif
