/*
 * Line editing by libedit, if it is installed.
 *
 * The library is loaded with dlopen, so its header is not needed to build: the
 * constants and functions below are those of <histedit.h>, and have been the same
 * in every libedit.so.2.
 */
#include <dlfcn.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "cli/app/line.h"

enum {
    EL_PROMPT = 0,
    EL_EDITOR = 2,
    EL_SIGNAL = 3,
    EL_HIST = 10,
    EL_GETCFN = 13,
    EL_CLIENTDATA = 14,
    EL_PREP_TERM = 16,
};
enum { H_SETSIZE = 1, H_ENTER = 10, HISTORY_LINES = 1000 };

typedef struct hist_event {
    int number;
    const char *text;
} hist_event;

typedef int history_fn(void *history, hist_event *event, int what, ...);

typedef struct library {
    void *handle;
    void *(*init)(const char *program, FILE *in, FILE *out, FILE *err);
    void (*end)(void *edit);
    int (*set)(void *edit, int what, ...);
    int (*get)(void *edit, int what, ...);
    const char *(*gets)(void *edit, int *count);
    void *(*history_init)(void);
    void (*history_end)(void *history);
    history_fn *history;
} library;

struct ig_line_editor {
    const ig_allocator *allocator;
    const char *prompt;
    library lib;
    void *edit, *history;
    ig_status status; /* of waiting for a key */
    mbstate_t half;   /* an incomplete multibyte character */
    char *line;
    size_t line_room;
};

/* ---- Called by libedit ---- */

static ig_line_editor *editor_of(void *edit, int (*get)(void *, int, ...)) {
    ig_line_editor *e = NULL;
    return get(edit, EL_CLIENTDATA, &e) == 0 ? e : NULL;
}

/* libedit passes only its own handle to these callbacks, so `get` is looked up again. */
static ig_line_editor *find_editor(void *edit) {
    int (*get)(void *, int, ...) = NULL;
    *(void **)&get = dlsym(RTLD_DEFAULT, "el_get");
    return get ? editor_of(edit, get) : NULL;
}

static char *show_prompt(void *edit) {
    const ig_line_editor *e = find_editor(edit);
    return (char *)(e ? e->prompt : "");
}

/* One character of the terminal's encoding: 1, at its end 0, at a signal -1. */
static int get_character(void *edit, wchar_t *out) {
    ig_line_editor *e = find_editor(edit);
    if (!e) return -1;
    for (;;) {
        char byte;
        e->status = ig_line_wait();
        if (e->status != IG_OK) return -1;
        if (read(STDIN_FILENO, &byte, 1) != 1) return 0;
        const size_t n = mbrtowc(out, &byte, 1, &e->half);
        if (n == (size_t)-2) continue;
        if (n == (size_t)-1) {
            memset(&e->half, 0, sizeof e->half);
            *out = L'?';
        }
        return 1;
    }
}

/* ---- The library ---- */

static bool open_library(library *lib) {
    lib->handle = dlopen("libedit.so.2", RTLD_LAZY | RTLD_GLOBAL);
    if (!lib->handle) return false;
    const struct {
        const char *name;
        void *to;
    } functions[] = {{"el_init", &lib->init},
                     {"el_end", &lib->end},
                     {"el_set", &lib->set},
                     {"el_get", &lib->get},
                     {"el_gets", &lib->gets},
                     {"history_init", &lib->history_init},
                     {"history_end", &lib->history_end},
                     {"history", &lib->history}};
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *address = dlsym(lib->handle, functions[i].name);
        if (!address) return false;
        memcpy(functions[i].to, &address, sizeof address);
    }
    return true;
}

static bool begin(ig_line_editor *e) {
    hist_event event;
    if (!open_library(&e->lib)) return false;
    setlocale(LC_CTYPE, ""); /* libedit counts the columns of characters */
    e->edit = e->lib.init("ingot", stdin, stderr, stderr);
    e->history = e->lib.history_init();
    if (!e->edit || !e->history) return false;
    e->lib.history(e->history, &event, H_SETSIZE, HISTORY_LINES);
    return e->lib.set(e->edit, EL_CLIENTDATA, e) == 0 &&
           e->lib.set(e->edit, EL_PROMPT, show_prompt) == 0 &&
           e->lib.set(e->edit, EL_EDITOR, "emacs") == 0 && e->lib.set(e->edit, EL_SIGNAL, 0) == 0 &&
           e->lib.set(e->edit, EL_HIST, e->lib.history, e->history) == 0 &&
           e->lib.set(e->edit, EL_GETCFN, get_character) == 0;
}

ig_line_editor *ig_line_editor_create(const ig_allocator *a, const char *prompt) {
    ig_line_editor *e = ig_alloc(a, 1, sizeof *e);
    if (!e) return NULL;
    *e = (ig_line_editor){.allocator = a, .prompt = prompt};
    if (begin(e)) return e;
    ig_line_editor_destroy(e);
    return NULL;
}

void ig_line_editor_destroy(ig_line_editor *e) {
    if (!e) return;
    if (e->edit) e->lib.end(e->edit);
    if (e->history) e->lib.history_end(e->history);
    if (e->lib.handle) dlclose(e->lib.handle);
    ig_free(e->allocator, e->line);
    ig_free(e->allocator, e);
}

ig_status ig_line_editor_read(ig_line_editor *e, const char **out) {
    int count = 0;
    hist_event event;
    e->status = IG_OK;
    e->lib.set(e->edit, EL_PREP_TERM, 1); /* now: a Ctrl-D between prompt and setting is lost */
    const char *line = e->lib.gets(e->edit, &count);
    if (e->status != IG_OK) return e->status;
    if (!line || count <= 0) {
        *out = NULL;
        return IG_OK;
    }
    size_t n = strlen(line);
    if (n > 0 && line[n - 1] == '\n') n--;
    if (n > 0) e->lib.history(e->history, &event, H_ENTER, line);
    if (!IG_GROW(e->allocator, e->line, &e->line_room, n + 1))
        return IG_FAIL(IG_ERR_MEMORY, "standard input: no memory for a line");
    memcpy(e->line, line, n);
    e->line[n] = 0;
    *out = e->line;
    return IG_OK;
}
