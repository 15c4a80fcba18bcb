/*
 * line.h - lines that a person types, or a pipe brings.
 *
 * On a terminal they can be edited and called back, if the machine has libedit:
 * it is looked for when the program runs, so that nothing has to be installed to
 * run it.  Elsewhere lines are read as they come.  A signal ends the waiting.
 */
#ifndef IG_CLI_LINE_H
#define IG_CLI_LINE_H

#include "base/alloc.h"

typedef struct ig_line ig_line;

/* `prompt` is lent; it is shown on stderr where a person types.  The caller destroys. */
IG_MUST_CHECK ig_status ig_line_create(const ig_allocator *a, const char *prompt, ig_line **out);
void ig_line_destroy(ig_line *line); /* NULL is fine; leaves the terminal as it was */

/* Whether a person types. */
bool ig_line_is_typed(const ig_line *line);
bool ig_line_is_edited(const ig_line *line);

/* The next line without its end, lent until the next call; NULL: there is no more.  A signal that
 * asks to stop is IG_ERR_CANCELLED.  A line that is too long is IG_ERR_ARGUMENT, and the next call
 * reads the one behind it. */
IG_MUST_CHECK ig_status ig_line_read(ig_line *line, const char **out);

/* ---- line_edit.c ---- */

typedef struct ig_line_editor ig_line_editor;

/* NULL: there is no libedit, or it does not like the terminal. */
ig_line_editor *ig_line_editor_create(const ig_allocator *a, const char *prompt);
void ig_line_editor_destroy(ig_line_editor *editor);
IG_MUST_CHECK ig_status ig_line_editor_read(ig_line_editor *editor, const char **out);

/* Waits until standard input has something to read. */
IG_MUST_CHECK ig_status ig_line_wait(void);
/* The same for any input. */
IG_MUST_CHECK ig_status ig_wait_input(int fd, const char *name);

#endif
