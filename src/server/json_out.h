/*
 * json_out.h - writes JSON into memory that grows, without a tree.
 *
 * Commas are written where they are needed.  `name` is the member's name in an object, and NULL in
 * an array.  Out of memory is remembered in `failed`: callers check it once, at the end.
 */
#ifndef IG_SERVER_JSON_OUT_H
#define IG_SERVER_JSON_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"

/* {.allocator = a} is empty; the owner deinits it. */
typedef struct ig_out {
    const ig_allocator *allocator; /* borrowed; NULL: malloc's */
    char *bytes;
    size_t n_bytes, room;
    bool failed; /* out of memory: something is missing */
} ig_out;

void ig_out_deinit(ig_out *o);
void ig_out_clear(ig_out *o); /* keeps the memory */

void ig_out_raw(ig_out *o, const void *bytes, size_t n_bytes);
void ig_out_text(ig_out *o, const char *text); /* as it is */

void ig_out_open(ig_out *o, const char *name, char bracket);       /* '{' or '[' */
void ig_out_close(ig_out *o, char bracket);                        /* '}' or ']' */
void ig_out_string(ig_out *o, const char *name, const char *text); /* NULL: null */
/* Bytes that are not UTF-8 become U+FFFD. */
void ig_out_bytes(ig_out *o, const char *name, const void *bytes, size_t n_bytes);
void ig_out_int(ig_out *o, const char *name, int64_t value);
void ig_out_number(ig_out *o, const char *name, double value); /* null unless it is finite */
void ig_out_float(ig_out *o, const char *name, float value);
void ig_out_bool(ig_out *o, const char *name, bool value);
void ig_out_null(ig_out *o, const char *name);
/* A value that is JSON already. */
void ig_out_json(ig_out *o, const char *name, const void *bytes, size_t n_bytes);

#endif
