#include "cli/app/line.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/app/signals.h"

enum { READ_BYTES = 4096, LINE_MOST = 1 << 24 };

struct ig_line {
    const ig_allocator *allocator;
    const char *prompt;
    bool typed;
    ig_line_editor *editor; /* NULL: no editing */
    char *bytes;            /* read; those from `begin` on are not returned yet */
    size_t begin, used, room;
    bool ended, skips; /* skips: the rest of a line that was too long */
};

ig_status ig_line_create(const ig_allocator *a, const char *prompt, ig_line **out) {
    ig_line *l = ig_alloc(a, 1, sizeof *l);
    if (!l) return IG_FAIL(IG_ERR_MEMORY, "standard input: no memory");
    const char *term = getenv("TERM");
    const bool capable = term && *term && strcmp(term, "dumb") != 0;
    *l = (ig_line){.allocator = a, .prompt = prompt, .typed = isatty(STDIN_FILENO)};
    if (l->typed && capable && isatty(STDERR_FILENO)) l->editor = ig_line_editor_create(a, prompt);
    *out = l;
    return IG_OK;
}

void ig_line_destroy(ig_line *l) {
    if (!l) return;
    ig_line_editor_destroy(l->editor);
    ig_free(l->allocator, l->bytes);
    ig_free(l->allocator, l);
}

bool ig_line_is_typed(const ig_line *l) { return l->typed; }
bool ig_line_is_edited(const ig_line *l) { return l->editor != NULL; }

/* A signal interrupts poll() even with SA_RESTART, which restarts read(). */
ig_status ig_wait_input(int fd, const char *name) {
    enum { LOOK_MS = 250 }; /* a signal may come right before the wait */
    struct pollfd in = {.fd = fd, .events = POLLIN};
    while (!ig_signals_caught()) {
        const int ready = poll(&in, 1, LOOK_MS);
        if (ready > 0) return IG_OK;
        if (ready < 0 && errno != EINTR) return IG_FAIL(IG_ERR_IO, "%s: %s", name, strerror(errno));
    }
    return IG_FAIL(IG_ERR_CANCELLED, "stopped");
}

ig_status ig_line_wait(void) { return ig_wait_input(STDIN_FILENO, "standard input"); }

static ig_status read_more(ig_line *l) {
    if (l->begin > 0) {
        memmove(l->bytes, l->bytes + l->begin, l->used - l->begin);
        l->used -= l->begin;
        l->begin = 0;
    }
    if (l->used > LINE_MOST) {
        l->begin = l->used;
        l->skips = true;
        return IG_FAIL(IG_ERR_ARGUMENT, "standard input: a line of more than %d MiB",
                       LINE_MOST >> 20);
    }
    if (!IG_GROW(l->allocator, l->bytes, &l->room, l->used + READ_BYTES + 1))
        return IG_FAIL(IG_ERR_MEMORY, "standard input: no memory for a line");
    IG_TRY(ig_line_wait());
    const ssize_t got = read(STDIN_FILENO, l->bytes + l->used, READ_BYTES);
    if (got < 0 && errno != EINTR && errno != EIO) /* EIO: the terminal has gone */
        return IG_FAIL(IG_ERR_IO, "standard input: %s", strerror(errno));
    if (got == 0 || (got < 0 && errno == EIO)) l->ended = true;
    if (got > 0) l->used += (size_t)got;
    return IG_OK;
}

/* Skips the rest of a line that was too long. */
static ig_status skip(ig_line *l) {
    while (l->skips) {
        const char *end =
            l->used > l->begin ? memchr(l->bytes + l->begin, '\n', l->used - l->begin) : NULL;
        l->begin = end ? (size_t)(end - l->bytes) + 1 : l->used;
        l->skips = !end && !l->ended;
        if (l->skips) IG_TRY(read_more(l));
    }
    return IG_OK;
}

static ig_status read_plain(ig_line *l, const char **out) {
    if (l->typed) {
        fputs(l->prompt, stderr);
        fflush(stderr);
    }
    IG_TRY(skip(l));
    for (;;) {
        char *end =
            l->used > l->begin ? memchr(l->bytes + l->begin, '\n', l->used - l->begin) : NULL;
        if (!end && l->ended && l->used > l->begin) end = l->bytes + l->used; /* the last one */
        if (end) {
            *end = 0;
            *out = l->bytes + l->begin;
            const size_t next = (size_t)(end - l->bytes) + 1;
            l->begin = next < l->used ? next : l->used;
            return IG_OK;
        }
        if (l->ended) {
            *out = NULL;
            return IG_OK;
        }
        IG_TRY(read_more(l));
    }
}

ig_status ig_line_read(ig_line *l, const char **out) {
    return l->editor ? ig_line_editor_read(l->editor, out) : read_plain(l, out);
}
