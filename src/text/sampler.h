/*
 * sampler.h - which token comes next: one drawn from a model's logits.
 *
 *     ig_sampler_create(allocator, &sampling, vocabulary, &sampler)
 *     ig_sampler_accept(sampler, id)        for every token of the prompt
 *     id = ig_sampler_next(sampler, logits)
 *     ig_sampler_accept(sampler, id)        and so on
 *     ig_sampler_destroy(sampler)
 *
 * The order is llama.cpp's: biases, penalties, top-k, typical, top-p, min-p, and
 * only then temperature, so the cut-offs look at the model's own probabilities.
 * Mirostat takes the place of the cut-offs and comes after temperature.  Draws are
 * counted, not kept in a state: the n-th draw of a seed is always the same number,
 * whatever the machine.  Nothing is allocated after create.
 */
#ifndef IG_TEXT_SAMPLER_H
#define IG_TEXT_SAMPLER_H

#include "base/alloc.h"
#include "ingot/model.h"

typedef struct ig_sampler ig_sampler;

/* NULL sampling is all defaults.  A number that is none (NaN), or one that means nothing, is an
 * error that names it.  The caller owns the sampler; the allocator must outlive it. */
IG_MUST_CHECK ig_status ig_sampler_create(const ig_allocator *a, const ig_sampling *sampling,
                                          int64_t vocabulary, ig_sampler **out);
void ig_sampler_destroy(ig_sampler *sampler); /* NULL is fine */

/* The next token, of logits [vocabulary].  Those that are no numbers count as impossible; where
 * several are the likeliest, greedy takes the lowest id. */
int32_t ig_sampler_next(ig_sampler *sampler, const float *logits);

/* Tells of a token that stands in the text now: penalties look back at it. */
void ig_sampler_accept(ig_sampler *sampler, int32_t token);

#endif
