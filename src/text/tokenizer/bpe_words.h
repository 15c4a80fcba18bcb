/*
 * bpe_words.h - word boundaries that BPE merges do not cross.
 *
 * Text is split as GPT-2's pattern splits ASCII:
 *
 *     He said: "It's 12 o'clock   now."   ->   He| said|:| "|It|'s| 12| o|'|clock|  | now|."
 *
 * Letters, digits and other characters form separate words. A space belongs to the word after it;
 * 's 't 're 've 'm 'll 'd are words; of several spaces all but the last form a word. Bytes from
 * 0x80 on count as letters, so no UTF-8 character is split.
 */
#ifndef IG_TEXT_TOKENIZER_BPE_WORDS_H
#define IG_TEXT_TOKENIZER_BPE_WORDS_H

#include <stddef.h>

enum { IG_WORD_BYTES = 256 }; /* longer words are split */

/* The length of the first word, at least one byte. */
size_t ig_word_next(const char *text, size_t bytes);

/*
 * The longest prefix whose words do not depend on the rest of the text, and after which the rest
 * splits as it would alone. 0: none found.
 */
size_t ig_words_whole(const char *text, size_t bytes);

#endif
