/*
 * utf8.h - decodes UTF-8 from untrusted bytes.
 *
 * As in RFC 3629: shortest form only, no surrogates, nothing above U+10FFFF. Invalid bytes are
 * grouped as Unicode recommends for replacement: the longest valid prefix of a character, or one
 * byte.
 */
#ifndef IG_BASE_UTF8_H
#define IG_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    IG_UTF8_BYTES = 4,         /* bytes of the longest character */
    IG_UTF8_POINTS = 0x110000, /* code points are below this */
    IG_UTF8_UNKNOWN = 0xFFFD,  /* replaces an invalid sequence */
};
#define IG_UTF8_REPLACEMENT "\xEF\xBF\xBD" /* the same in UTF-8 */

typedef enum ig_utf8_found {
    IG_UTF8_WHOLE,   /* a complete character */
    IG_UTF8_CUT_OFF, /* a truncated character: more bytes must follow */
    IG_UTF8_NONE,    /* invalid, whatever follows */
} ig_utf8_found;

/* Classifies the first bytes of a non-empty text. `*bytes` receives the length of the finding;
 * `*point` the character, if there is one. */
ig_utf8_found ig_utf8_next(const char *text, size_t n_bytes, uint32_t *point, size_t *bytes);

/* ASCII white space; never part of another character. */
static inline bool ig_is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Encodes a character; returns its length. */
size_t ig_utf8_put(uint32_t point, char out[IG_UTF8_BYTES]);

#endif
