/*
 * text_out.h - text output like snprintf: writes what fits and counts all of it.
 */
#ifndef IG_BASE_TEXT_OUT_H
#define IG_BASE_TEXT_OUT_H

#include <stddef.h>
#include <stdint.h>

#include "ingot/status.h"

typedef struct ig_text {
    char *out;
    size_t room, used; /* `used` also counts what did not fit */
    char last;         /* last character, whether it fit or not */
} ig_text;

enum { IG_TEXT_PIECE_BYTES = 512 }; /* an ig_text_add() call writes less than this */

/* Starts an empty text; `out` may be NULL if room is 0. */
ig_text ig_text_begin(char *out, size_t room);
void ig_text_add(ig_text *t, const char *fmt, ...) IG_PRINTF(2, 3);
void ig_text_add_string(ig_text *t, const char *s);                    /* as a JSON string */
void ig_text_add_number(ig_text *t, const char *name, uint64_t value); /* "name":value, or null */
void ig_text_comma(ig_text *t); /* unless an object or array was just opened */

#endif
