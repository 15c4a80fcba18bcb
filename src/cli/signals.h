/*
 * signals.h - being asked to stop.
 *
 * The first SIGINT or SIGTERM is only remembered: a long job asks between its
 * steps, puts things in order and ends with 130 or 143.  The second one kills.
 */
#ifndef IG_CLI_SIGNALS_H
#define IG_CLI_SIGNALS_H

/* For the whole program: writing to a closed pipe, or beyond the limit of a file's size, is an
 * error that the writer sees. */
void ig_signals_ignore_writes(void);

/* For commands that ask: remembers SIGINT and SIGTERM, unless they were ignored before. */
void ig_signals_catch(void);

/* The signal that came, or 0. */
int ig_signals_caught(void);

#endif
