/* chat.h - conversations with a model: in which words it was taught to hold them. */
#ifndef IG_MODEL_CHAT_H
#define IG_MODEL_CHAT_H

#include "ingot/model.h"
#include "text/chat/chat_formats.h"
#include "text/jinja/jinja.h"

/* How a conversation is written: as a template says, or else in a format of ours; {0}: it is none.
 */
typedef struct ig_chat_style {
    ig_jinja *jinja;
    const ig_chat_format *format; /* beside a template: the one that it looks like, or NULL */
} ig_chat_style;

void ig_chat_style_deinit(ig_chat_style *style); /* a zeroed one is fine */

/* The style of a template, which must be one that shows what the user says: it is tried with a
 * conversation of a system message, if there is one, and a word. */
IG_MUST_CHECK ig_status ig_chat_style_parse(const ig_adapter *adapter, const char *text,
                                            size_t n_bytes, const char *system, ig_chat_style *out);

/* The template in the model's file, lent; false: it has none. */
bool ig_adapter_chat_template(const ig_adapter *adapter, ig_tokenizer_data *out);

/* The tokens of a conversation, up to where the next answer begins; appended to `out`. */
IG_MUST_CHECK ig_status ig_adapter_encode_chat(const ig_adapter *adapter,
                                               const ig_chat_style *style,
                                               const ig_chat_message *messages, size_t n_messages,
                                               ig_ids *out);

#endif
