/*
 * words.h - where BPE may not merge across.
 *
 * Text falls into words as GPT-2's pattern has them, in ASCII exactly so:
 *
 *     He said: "It's 12 o'clock   now."   ->   He| said|:| "|It|'s| 12| o|'|clock|  | now|."
 *
 * Letters, digits and other signs stand in words of their own kind; a space goes
 * with what follows it; 's 't 're 've 'm 'll 'd are words; of several spaces in a
 * row all but the last are one.  Bytes from 0x80 on, whatever their character,
 * count as letters, so no character of UTF-8 is ever cut in two.
 */
#ifndef IG_TEXT_WORDS_H
#define IG_TEXT_WORDS_H

#include <stddef.h>

enum { IG_WORD_BYTES = 256 }; /* a longer word becomes several */

/* The bytes of the first word of a text of `bytes`, at least one. */
size_t ig_word_next(const char *text, size_t bytes);

/*
 * The longest part of a text, from its begin on, whose words are the same
 * whatever follows it and after which the words go on as if nothing stood
 * before.  0: no such place was found.
 */
size_t ig_words_whole(const char *text, size_t bytes);

#endif
