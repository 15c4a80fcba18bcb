/* logprob.h - log-probabilities of several tokens of one row of logits, with one sum over it. */
#ifndef IG_MODEL_LOGPROB_H
#define IG_MODEL_LOGPROB_H

#include "ingot/model.h"

/* log(sum(exp(logits))): subtracted from a logit, it gives the log-probability. */
double ig_logits_log_sum(const float *logits, int64_t vocabulary);

/* ig_logits_top() with the sum. */
size_t ig_logits_top_of(const float *logits, int64_t vocabulary, double log_sum, ig_logprob *out,
                        size_t room);

#endif
