/*
 * jinja_arena.h - memory of a template, or of one rendering of it, that goes all at
 * once; and how both tell what is wrong.
 */
#ifndef IG_TEXT_JINJA_ARENA_H
#define IG_TEXT_JINJA_ARENA_H

#include <stdarg.h>

#include "base/alloc.h"

typedef struct jinja_chunk jinja_chunk;

typedef struct jinja_arena {
    const ig_allocator *allocator;
    jinja_chunk *chunks; /* the newest first */
    char *at;            /* in it, with so many bytes left */
    size_t left;
    size_t taken; /* bytes of all chunks */
    bool full;    /* it was refused for the limit, not for want of memory */
} jinja_arena;

void jinja_arena_deinit(jinja_arena *arena); /* a zeroed one is fine */

/* Zeroed room for `count` things; NULL: there is none. */
void *jinja_take(jinja_arena *arena, size_t count, size_t bytes_each);

/* What jinja_take() could not give. */
IG_MUST_CHECK ig_status jinja_no_memory(const jinja_arena *arena, int line);

/* "chat template, line 12: ..." */
IG_MUST_CHECK ig_status jinja_fail(ig_status code, int line, const char *fmt, ...) IG_PRINTF(3, 4);

#endif
