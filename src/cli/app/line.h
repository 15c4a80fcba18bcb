/*
 * line.h - reading lines from a terminal or a pipe.
 *
 * On a terminal lines have editing and history if the machine has libedit, which is
 * loaded with dlopen, so Ingot runs without it.  Otherwise lines are read as they
 * come.  A signal interrupts the wait.
 */
#ifndef IG_CLI_APP_LINE_H
#define IG_CLI_APP_LINE_H

#include "base/alloc.h"

typedef struct ig_line ig_line;

/* `prompt` is borrowed; it is printed on stderr if stdin is a terminal. The caller destroys `out`.
 */
IG_MUST_CHECK ig_status ig_line_create(const ig_allocator *a, const char *prompt, ig_line **out);
void ig_line_destroy(ig_line *line); /* NULL is fine; leaves the terminal as it was */

/* Whether stdin is a terminal. */
bool ig_line_is_typed(const ig_line *line);
bool ig_line_is_edited(const ig_line *line);

/* The next line without its newline, borrowed until the next call; NULL: end of input. SIGINT and
 * SIGTERM give IG_ERR_CANCELLED. A line that is too long gives IG_ERR_ARGUMENT, and the next call
 * reads the line after it. */
IG_MUST_CHECK ig_status ig_line_read(ig_line *line, const char **out);

/* ---- line_edit.c ---- */

typedef struct ig_line_editor ig_line_editor;

/* NULL: libedit is missing or does not support the terminal. */
ig_line_editor *ig_line_editor_create(const ig_allocator *a, const char *prompt);
void ig_line_editor_destroy(ig_line_editor *editor);
IG_MUST_CHECK ig_status ig_line_editor_read(ig_line_editor *editor, const char **out);

/* Waits until standard input has something to read. */
IG_MUST_CHECK ig_status ig_line_wait(void);
/* As ig_line_wait(), for any input. */
IG_MUST_CHECK ig_status ig_wait_input(int fd, const char *name);

#endif
