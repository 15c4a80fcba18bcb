/*
 * sampler.h - samples the next token from a model's logits.
 *
 *     ig_sampler_create(allocator, &sampling, vocabulary, &sampler)
 *     ig_sampler_accept(sampler, id)        for every token of the prompt
 *     id = ig_sampler_next(sampler, logits)
 *     ig_sampler_accept(sampler, id)        and so on
 *     ig_sampler_destroy(sampler)
 *
 * The order is llama.cpp's: logit biases, penalties, top-k, typical, top-p, min-p, then
 * temperature, so the cut-offs see the model's own probabilities. Mirostat replaces the cut-offs
 * and comes after temperature. Random numbers are counter-based: draw n of a seed is the same on
 * every machine. Nothing is allocated after create.
 */
#ifndef IG_TEXT_SAMPLER_H
#define IG_TEXT_SAMPLER_H

#include "base/alloc.h"
#include "ingot/model.h"

typedef struct ig_sampler ig_sampler;

/* NULL sampling: all defaults. A NaN or out-of-range option is an error that names it. The caller
 * owns the sampler; the allocator must outlive it. */
IG_MUST_CHECK ig_status ig_sampler_create(const ig_allocator *a, const ig_sampling *sampling,
                                          int64_t vocabulary, ig_sampler **out);
void ig_sampler_destroy(ig_sampler *sampler); /* NULL is fine */

/* The next token for logits [vocabulary]. NaN counts as minus infinity. Greedy sampling takes the
 * lowest id among equal maxima. */
int32_t ig_sampler_next(ig_sampler *sampler, const float *logits);

/* Records a token of the text: penalties look back at it. */
void ig_sampler_accept(ig_sampler *sampler, int32_t token);

#endif
