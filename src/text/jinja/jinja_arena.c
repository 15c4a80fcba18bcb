#include "text/jinja/jinja_arena.h"

#include <stdarg.h>
#include <stdio.h>

struct jinja_chunk {
    jinja_chunk *next;
    max_align_t bytes[];
};

enum { CHUNK = 32 << 10, ALIGN = sizeof(max_align_t) };

void jinja_arena_deinit(jinja_arena *arena) {
    for (jinja_chunk *chunk = arena->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        ig_free(arena->allocator, chunk);
    }
    *arena = (jinja_arena){.allocator = arena->allocator};
}

static bool add_chunk(jinja_arena *arena, size_t bytes) {
    const size_t room = bytes > CHUNK ? bytes : CHUNK;
    arena->full = room > (size_t)IG_JINJA_MEMORY_MAX - arena->taken;
    jinja_chunk *chunk =
        arena->full ? NULL : ig_alloc(arena->allocator, sizeof(jinja_chunk) + room, 1);
    if (!chunk) return false;
    chunk->next = arena->chunks;
    arena->chunks = chunk;
    arena->at = (char *)chunk->bytes;
    arena->left = room;
    arena->taken += room;
    return true;
}

void *jinja_take(jinja_arena *arena, size_t count, size_t bytes_each) {
    size_t bytes;
    if (__builtin_mul_overflow(count, bytes_each, &bytes) || bytes > IG_JINJA_MEMORY_MAX) {
        arena->full = true;
        return NULL;
    }
    bytes = bytes == 0 ? ALIGN : (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (bytes > arena->left && !add_chunk(arena, bytes)) return NULL;
    void *p = arena->at;
    arena->at += bytes;
    arena->left -= bytes;
    return p;
}

void jinja_say(ig_status code, const char *file, int file_line, int line, const char *fmt, ...) {
    char words[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(words, sizeof words, fmt, args);
    va_end(args);
    (void)ig_fail(code, file, file_line, "chat template, line %d: %s", line, words);
}
