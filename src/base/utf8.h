/*
 * utf8.h - characters out of bytes that may be anything.
 *
 * As RFC 3629 has it: the shortest form only, no surrogates, nothing above
 * U+10FFFF.  Bytes that are no character come in the pieces that Unicode asks to
 * be replaced: as many as could have begun one, at least one.
 */
#ifndef IG_TEXT_UTF8_H
#define IG_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    IG_UTF8_BYTES = 4,         /* of the longest character */
    IG_UTF8_POINTS = 0x110000, /* code points are below */
    IG_UTF8_UNKNOWN = 0xFFFD,  /* stands where no character was */
};
#define IG_UTF8_REPLACEMENT "\xEF\xBF\xBD" /* the same as bytes */

typedef enum ig_utf8_found {
    IG_UTF8_WHOLE,   /* a character */
    IG_UTF8_CUT_OFF, /* all bytes that are there begin one, but more have to follow */
    IG_UTF8_NONE,    /* bytes that no character begins with, whatever follows */
} ig_utf8_found;

/* Looks at the first of `n_bytes`, at least one.  `*bytes` is how many the finding is about;
 * `*point` is set where a character was found. */
ig_utf8_found ig_utf8_next(const char *text, size_t n_bytes, uint32_t *point, size_t *bytes);

/* White space of ASCII, which no other character has a byte of. */
static inline bool ig_is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Writes a character and returns its bytes. */
size_t ig_utf8_put(uint32_t point, char out[IG_UTF8_BYTES]);

#endif
