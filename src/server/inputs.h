/*
 * inputs.h - prompts and inputs: a string, token ids, or an array of these.
 */
#ifndef IG_SERVER_INPUTS_H
#define IG_SERVER_INPUTS_H

#include "server/work.h"

/* The number of inputs in a value: 1 for a string, and for an array with ids, which may also have
 * strings between them. */
size_t ig_inputs_count(const json_t *value);
/* Input i; borrowed. */
const json_t *ig_inputs_at(const json_t *value, size_t i);
/* Appends its tokens; `flags` are IG_TOKENIZE_*, for strings.  False: w->error. */
bool ig_input_tokenize(ig_work *w, const char *field, size_t i, const json_t *input, unsigned flags,
                       ig_tokens *out);

#endif
