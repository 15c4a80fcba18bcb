/*
 * jinja_arena.h - memory of a template, or of one rendering of it, that goes all at
 * once; and how both tell what is wrong.
 */
#ifndef IG_TEXT_JINJA_JINJA_ARENA_H
#define IG_TEXT_JINJA_JINJA_ARENA_H

#include "base/alloc.h"
#include "text/jinja/jinja.h"

typedef struct jinja_chunk jinja_chunk;

typedef struct jinja_arena {
    const ig_allocator *allocator;
    jinja_chunk *chunks; /* the newest first */
    char *at;            /* next free byte of the newest chunk, `left` bytes before its end */
    size_t left;
    size_t taken; /* bytes of all chunks */
    bool full;    /* it was refused for the limit, not for want of memory */
} jinja_arena;

void jinja_arena_deinit(jinja_arena *arena); /* a zeroed one is fine */

/* Zeroed room for `count` things; NULL: there is none. */
void *jinja_take(jinja_arena *arena, size_t count, size_t bytes_each);

/* "chat template, line 12: ..."; in sight of the compiler, which sees that it is never IG_OK. */
#define JINJA_FAIL_AT(code, line, ...) \
    (jinja_say(code, __FILE__, __LINE__, line, __VA_ARGS__), (ig_status)(code))
void jinja_say(ig_status code, const char *file, int file_line, int line, const char *fmt, ...)
    IG_PRINTF(5, 6);

/* What jinja_take() could not give. */
IG_MUST_CHECK static inline ig_status jinja_no_memory(const jinja_arena *arena, int line) {
    if (!arena->full) return JINJA_FAIL_AT(IG_ERR_MEMORY, line, "no memory");
    return JINJA_FAIL_AT(IG_ERR_FORMAT, line, "needs more than %d MB", IG_JINJA_MEMORY_MAX >> 20);
}

#endif
