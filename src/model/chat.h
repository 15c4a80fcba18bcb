/* chat.h - conversations with a model: in which words it was taught to hold them. */
#ifndef IG_MODEL_CHAT_H
#define IG_MODEL_CHAT_H

#include "ingot/model.h"
#include "text/chat.h"

/* The format of the template in the model's file; NULL: it has none, or one that is not known. */
const ig_chat_format *ig_adapter_chat_format(const ig_adapter *adapter);
bool ig_adapter_has_chat_template(const ig_adapter *adapter); /* known or not */

/* The tokens of a conversation, up to where the next answer begins; appended to `out`. */
IG_MUST_CHECK ig_status ig_adapter_encode_chat(const ig_adapter *adapter,
                                               const ig_chat_format *format,
                                               const ig_chat_message *messages, size_t n_messages,
                                               ig_ids *out);

#endif
