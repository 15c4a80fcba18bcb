#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *heap_alloc(void *user, size_t bytes, size_t alignment) {
    (void)user;
    const size_t rounded = (bytes + alignment - 1) & ~(alignment - 1);
    return rounded < bytes ? NULL : aligned_alloc(alignment, rounded);
}

static void heap_free(void *user, void *p) {
    (void)user;
    free(p);
}

const ig_allocator ig_heap = {heap_alloc, heap_free, NULL};

/*
 * Zeroes heap memory. Whole OS pages of a large block go back to the system, which returns zero
 * pages on the next touch, so memory that is never read costs nothing.
 */
static void zero_heap(char *p, size_t bytes) {
    enum { LARGE = 1 << 20 };
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t before = (size_t)(-(uintptr_t)p & (page - 1));
    const size_t pages = bytes < LARGE ? 0 : (bytes - before) & ~(page - 1);
    if (pages == 0 || madvise(p + before, pages, MADV_DONTNEED) != 0) {
        memset(p, 0, bytes);
        return;
    }
    memset(p, 0, before);
    memset(p + before + pages, 0, bytes - before - pages);
}

void *ig_alloc(const ig_allocator *a, size_t count, size_t bytes_each) {
    size_t bytes;
    if (__builtin_mul_overflow(count, bytes_each, &bytes)) return NULL;
    if (bytes == 0) bytes = 1;
    if (!a) a = &ig_heap;
    void *p = a->alloc(a->user, bytes, IG_ALIGNMENT);
    if (p && a->free == heap_free) /* only heap_alloc()'s memory goes to free() */
        zero_heap(p, bytes);
    else if (p)
        memset(p, 0, bytes);
    return p;
}

void ig_free(const ig_allocator *a, void *p) {
    if (!a) a = &ig_heap;
    if (p) a->free(a->user, p);
}

void ig_ask_large_pages(void *p, size_t bytes) {
    const uintptr_t page = IG_LARGE_PAGE, begin = ((uintptr_t)p + page - 1) & -page;
    const uintptr_t end = ((uintptr_t)p + bytes) & -page;
    if (p && end > begin) (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
}

char *ig_copy_text(const ig_allocator *a, const char *text) {
    const size_t bytes = strlen(text) + 1;
    char *copy = ig_alloc(a, bytes, 1);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

void ig_string_deinit(ig_string *string) {
    ig_free(string->allocator, string->bytes);
    *string = (ig_string){.allocator = string->allocator};
}

bool ig_grow(const ig_allocator *a, void **items, size_t *capacity, size_t wanted,
             size_t bytes_each) {
    if (wanted <= *capacity) return true;
    size_t room = *capacity < 8 ? 8 : *capacity;
    while (room < wanted)
        if (__builtin_mul_overflow(room, 2, &room)) return false;
    void *moved = ig_alloc(a, room, bytes_each);
    if (!moved) return false;
    if (*items) memcpy(moved, *items, *capacity * bytes_each);
    ig_free(a, *items);
    *items = moved;
    *capacity = room;
    return true;
}
