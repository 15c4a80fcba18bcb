/*
 * chat_prompt.h - the messages of a request as the prompt of a model's chat template.
 */
#ifndef IG_SERVER_CHAT_PROMPT_H
#define IG_SERVER_CHAT_PROMPT_H

#include "server/work.h"

/* Renders IG_FIELD_MESSAGES and the fields that belong to it as tokens or as text; the other one is
 * NULL.  False: `error` says what is wrong with the messages, or with the template. */
bool ig_chat_prompt(const ig_served *served, const ig_fields *fields, ig_tokens *out_tokens,
                    ig_out *out_text, ig_http_error *error);

#endif
