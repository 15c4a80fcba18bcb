/*
 * signals.h - being asked to stop.
 *
 * The first SIGINT or SIGTERM is only remembered: a long job asks between its
 * steps, puts things in order and ends with 130 or 143.  One that comes later kills.
 *
 * SIGBUS is what reading a mapped file gives where the file has ended meanwhile.
 */
#ifndef IG_CLI_SIGNALS_H
#define IG_CLI_SIGNALS_H

/* For the whole program: writing to a closed pipe, or beyond the limit of a file's size, is an
 * error that the writer sees. */
void ig_signals_ignore_writes(void);

/* For the whole program: a mapped file that somebody shortens ends it with 3 and a sentence, and
 * with the name of what was being read last. */
void ig_signals_guard_files(void);
void ig_signals_reading(const char *path); /* lent for good: argv's most often */

/* The file that is filled from what is read, which goes with the program and must be its own: lent
 * until the next call.  NULL: none is, any more. */
void ig_signals_writing(const char *temporary);

/* For commands that ask: remembers SIGINT and SIGTERM, unless they were ignored before. */
void ig_signals_catch(void);

/* The signal that came, or 0. */
int ig_signals_caught(void);

#endif
