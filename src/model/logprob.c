#include "model/logprob.h"

#include <math.h>
#include <string.h>

double ig_logits_log_sum(const float *logits, int64_t vocabulary) {
    float largest = -INFINITY;
    double sum = 0;
    for (int64_t i = 0; i < vocabulary; i++) largest = logits[i] > largest ? logits[i] : largest;
    for (int64_t i = 0; i < vocabulary; i++)
        if (!isnan(logits[i])) sum += exp((double)logits[i] - (double)largest);
    return (double)largest + log(sum);
}

double ig_logits_logprob(const float *logits, int64_t vocabulary, int32_t token) {
    if (!logits || token < 0 || token >= vocabulary || isnan(logits[token])) return -INFINITY;
    return (double)logits[token] - ig_logits_log_sum(logits, vocabulary);
}

size_t ig_logits_top_of(const float *logits, int64_t vocabulary, double log_sum, ig_logprob *out,
                        size_t room) {
    size_t n = 0;
    for (int64_t i = 0; room > 0 && i < vocabulary; i++) {
        const double logprob = isnan(logits[i]) ? -INFINITY : (double)logits[i] - log_sum;
        if (n == room && logprob <= out[n - 1].logprob) continue; /* most of them */
        size_t at = n; /* after all with the same probability */
        while (at > 0 && out[at - 1].logprob < logprob) at--;
        const size_t moved = (n < room ? n : room - 1) - at;
        memmove(out + at + 1, out + at, moved * sizeof *out);
        out[at] = (ig_logprob){(int32_t)i, logprob};
        if (n < room) n++;
    }
    return n;
}

size_t ig_logits_top(const float *logits, int64_t vocabulary, ig_logprob *out, size_t room) {
    if (!logits || room == 0) return 0;
    return ig_logits_top_of(logits, vocabulary, ig_logits_log_sum(logits, vocabulary), out, room);
}
