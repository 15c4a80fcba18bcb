/*
 * text.h - text that is written as snprintf writes: as much as fits, and counted
 * to the end.
 */
#ifndef IG_BASE_TEXT_H
#define IG_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "ingot/status.h"

typedef struct ig_text {
    char *out;
    size_t room, used; /* used counts what did not fit, too */
    char last;         /* that was written, whether it fit or not */
} ig_text;

enum { IG_TEXT_PIECE_BYTES = 512 }; /* one call of ig_text_add() writes less */

/* Starts with an empty text; `out` may be NULL where room is 0. */
ig_text ig_text_begin(char *out, size_t room);
void ig_text_add(ig_text *t, const char *fmt, ...) IG_PRINTF(2, 3);
void ig_text_add_string(ig_text *t, const char *s);                    /* as a JSON string */
void ig_text_add_number(ig_text *t, const char *name, uint64_t value); /* "name":value, or null */
void ig_text_comma(ig_text *t);                                        /* unless one just opened */

#endif
