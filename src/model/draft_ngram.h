/* guess.h - what may come next in a text, from what came before ("prompt lookup"). */
#ifndef IG_MODEL_GUESS_H
#define IG_MODEL_GUESS_H

#include <stdbool.h>
#include <stdint.h>

enum { IG_GUESS_MOST = 63, IG_GUESS_DEFAULT = 7 };

/* A text ends with tokens[count - 1], then `last`.  Where its last `ngram` tokens stood before,
 * newest first, the text is taken to go on as it did there: `most` guesses.  False: those tokens
 * are new, or the text is shorter. */
bool ig_guess_next(const int32_t *tokens, int64_t count, int32_t last, int64_t ngram, int32_t *out,
                   int64_t most);

#endif
