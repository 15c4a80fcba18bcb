/*
 * chat_formats.h - built-in chat templates: a conversation rendered as a prompt.
 *
 *     ig_chat_prompt prompt = {.allocator = a};
 *     ig_chat_format_write(format, messages, n_messages, IG_CHAT_REPLY, &prompt)
 *     ig_tokenize_spans(t, prompt.spans, prompt.n_spans,
 *                               IG_TOKENIZE_ADD_SPECIAL | IG_TOKENIZE_NO_EOS, &ids)
 *
 * The prompt is a list of spans. Text of the format may contain special tokens, text of messages
 * may not, so a user cannot end a turn or take another role by typing the name of a token. BOS is
 * not part of the prompt: the tokenizer adds it where the model expects one.
 */
#ifndef IG_TEXT_CHAT_CHAT_FORMATS_H
#define IG_TEXT_CHAT_CHAT_FORMATS_H

#include "ingot/chat.h"
#include "text/tokenizer/tokenizer.h"

/* A built-in template, such as chatml or llama3. */
typedef struct ig_chat_format ig_chat_format;

const ig_chat_format *ig_chat_format_find(const char *name); /* NULL: unknown name */
const char *ig_chat_format_name(const ig_chat_format *format);
const ig_chat_format *ig_chat_format_at(size_t i); /* NULL: i is past the end */

/* The built-in template that matches a model's own (tokenizer.chat_template), detected by its
 * marks. NULL: none matches. */
const ig_chat_format *ig_chat_format_detect(const char *template_text, size_t n_bytes);

/* The text that ends the assistant's turn, for models without an EOT token. */
const char *ig_chat_format_turn_end(const ig_chat_format *format);

typedef struct ig_chat_prompt {
    const ig_allocator *allocator;
    ig_string_view eos;  /* lent: the text of the model's EOS; empty: "</s>" */
    ig_text_span *spans; /* lent, from the format and the messages */
    size_t n_spans, room;
} ig_chat_prompt;

void ig_chat_prompt_deinit(ig_chat_prompt *prompt); /* a zeroed one is fine */

typedef enum ig_chat_turn_suffix {
    IG_CHAT_WHOLE, /* ends after the last message */
    IG_CHAT_REPLY, /* ends with the generation prompt */
} ig_chat_turn_suffix;

/* Renders messages into an empty prompt. Fails on an unknown role, and on a system message if the
 * format has none; the error names the message. */
IG_MUST_CHECK ig_status ig_chat_format_write(const ig_chat_format *format,
                                             const ig_chat_message *messages, size_t n_messages,
                                             ig_chat_turn_suffix ending, ig_chat_prompt *out);

#endif
