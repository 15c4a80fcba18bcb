/*
 * token_spelling.h - tokens as files spell them, and their bytes.
 *
 *     llama  U+2581 for a space; <0x0A> for a byte
 *     gpt2   each byte as a visible character: printable Latin-1 as it is, the others
 *            in order from U+0100 on, so a space is U+0120
 */
#ifndef IG_TEXT_TOKENIZER_TOKEN_SPELLING_H
#define IG_TEXT_TOKENIZER_TOKEN_SPELLING_H

#include "text/tokenizer/tokenizer.h"

#define IG_SPELL_SPACE "\u2581"

/* Writes the bytes, at most as many as the spelling has. Returns how many. */
size_t ig_spell_spaces(ig_string_view token, char *out);
size_t ig_spell_bytes(ig_string_view token,
                      char *out); /* copies the token if it has other characters */

/* Writes a byte in gpt2's spelling; returns the length. */
enum { IG_SPELL_BYTE_MOST = 4 }; /* buffer size */
size_t ig_spell_byte(uint8_t byte, char out[IG_SPELL_BYTE_MOST]);

/* The byte of "<0x0A>"; below 0: another form. */
int ig_spell_hex(ig_string_view token);

#endif
