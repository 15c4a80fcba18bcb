/*
 * json_parse.h - JSON texts to jansson's values.
 *
 * jansson's own parser is not used: when an allocation fails in it, it drops a character, and then
 * reports a syntax error, accepts another text, or writes past a buffer.  This one takes the same
 * texts and flags, and reports out of memory as such.
 */
#ifndef IG_BASE_JSON_PARSE_H
#define IG_BASE_JSON_PARSE_H

#include <jansson.h>

#include "ingot/status.h"

/* Parses UTF-8 of `n_bytes` into an object or an array.  Of jansson's flags it takes
 * JSON_REJECT_DUPLICATES, JSON_DECODE_ANY, JSON_ALLOW_NUL and JSON_DECODE_INT_AS_REAL.
 * IG_ERR_MEMORY: "FILE: no memory to read WHAT"; for text that is not JSON `code`:
 * "FILE: WHAT is not JSON: ...".  The caller drops the reference. */
IG_MUST_CHECK ig_status ig_json_decode(ig_status code, const char *file, const char *what,
                                       const void *bytes, size_t n_bytes, size_t flags,
                                       json_t **out);

/* How many of jansson's allocations have failed in this thread.  Values that were built are
 * complete if the count is what it was before.  The first call wraps jansson's allocation function,
 * or the one that the program has given it. */
unsigned long ig_json_failures(void);

#endif
