/*
 * spell.h - tokens as files spell them, and the bytes they stand for.
 *
 *     llama  U+2581 for a space; <0x0A> for a byte
 *     gpt2   each byte as a visible character: those of Latin-1 as they are, the rest
 *            of them, in order, from U+0100 on; so a space is U+0120
 */
#ifndef IG_TEXT_SPELL_H
#define IG_TEXT_SPELL_H

#include "text/tokenizer/tokenizer.h"

#define IG_SPELL_SPACE "\u2581"

/* Writes the bytes; they are never more than the token has.  Returns how many. */
size_t ig_spell_spaces(ig_tokenizer_data token, char *out);
size_t ig_spell_bytes(ig_tokenizer_data token, char *out); /* the token itself if it has others */

/* A byte as gpt2 spells it; returns how many bytes that are. */
enum { IG_SPELL_BYTE_MOST = 4 }; /* room, not all needed */
size_t ig_spell_byte(uint8_t byte, char out[IG_SPELL_BYTE_MOST]);

/* The byte that "<0x0A>" means; below 0: it is not of that form. */
int ig_spell_hex(ig_tokenizer_data token);

#endif
