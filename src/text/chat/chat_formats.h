/*
 * chat.h - a conversation as the text that a model was taught to answer.
 *
 *     ig_chat_prompt prompt = {.allocator = a};
 *     ig_chat_write(format, messages, n_messages, IG_CHAT_REPLY, &prompt)
 *     ig_tokenizer_encode_spans(t, prompt.spans, prompt.n_spans,
 *                               IG_ENCODE_ADD_SPECIAL | IG_ENCODE_GOES_ON, &ids)
 *
 * The prompt is a list of spans: what belongs to the format may hold control
 * tokens, what people wrote may not.  So nobody can end his turn, or speak as
 * somebody else, by typing the name of a token.  BOS is not part of it: encoding
 * adds it where the model wants one.
 */
#ifndef IG_TEXT_CHAT_H
#define IG_TEXT_CHAT_H

#include "text/tokenizer/tokenizer.h"

typedef struct ig_chat_message {
    const char *role; /* "system", "user" or "assistant" */
    const char *content;
    size_t n_bytes; /* of the content */
} ig_chat_message;

/* A way to write conversations: chatml, llama3 and others; the table has them all. */
typedef struct ig_chat_format ig_chat_format;

const ig_chat_format *ig_chat_find(const char *name); /* NULL: none of that name */
const char *ig_chat_name(const ig_chat_format *format);
const ig_chat_format *ig_chat_at(size_t i); /* NULL behind the last */

/* The format that a model's template (tokenizer.chat_template) writes, by what stands in it;
 * NULL: none of ours. */
const ig_chat_format *ig_chat_detect(const char *template_text, size_t n_bytes);

/* What a model writes at the end of its turn; one that has no token for it writes it as text. */
const char *ig_chat_turn_end(const ig_chat_format *format);

typedef struct ig_chat_prompt {
    const ig_allocator *allocator;
    ig_tokenizer_data eos; /* lent: how the model's EOS is called; of 0 bytes: "</s>" */
    ig_text_span *spans;   /* lent: of the format, and of the messages' contents */
    size_t n_spans, room;
} ig_chat_prompt;

void ig_chat_prompt_deinit(ig_chat_prompt *prompt); /* a zeroed one is fine */

typedef enum ig_chat_ending {
    IG_CHAT_WHOLE, /* ends with the last message */
    IG_CHAT_REPLY, /* goes on to where the assistant's answer begins */
} ig_chat_ending;

/* Writes messages into a prompt that is empty.  A role that is none, and a system message where the
 * format has no place for one, are errors that say which message it is. */
IG_MUST_CHECK ig_status ig_chat_write(const ig_chat_format *format, const ig_chat_message *messages,
                                      size_t n_messages, ig_chat_ending ending,
                                      ig_chat_prompt *out);

#endif
