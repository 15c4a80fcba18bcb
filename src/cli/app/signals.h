/*
 * signals.h - stopping on SIGINT, SIGTERM and SIGHUP, and SIGBUS of mapped files.
 *
 * The first of these signals only sets a flag: a long job polls it between steps, cleans up and
 * exits with 128 and the signal's number.  A later one kills.
 *
 * Reading a mapped file beyond its end, after it was truncated, raises SIGBUS.
 */
#ifndef IG_CLI_APP_SIGNALS_H
#define IG_CLI_APP_SIGNALS_H

/* For the whole program: writing to a closed pipe or beyond the file size limit is an error of
 * write() instead of a signal. */
void ig_signals_ignore_writes(void);

/* For the whole program: if a mapped file is truncated, exit with 3 and a message that names the
 * file read last. */
void ig_signals_guard_files(void);
void ig_signals_reading(const char *path); /* must stay valid until exit, such as argv */

/* The temporary file to remove in that case: borrowed until the next call. NULL: none. */
void ig_signals_writing(const char *temporary);

/* For commands that poll: catches SIGINT, SIGTERM and SIGHUP unless they were ignored before. */
void ig_signals_catch(void);

/* The caught signal, or 0. */
int ig_signals_caught(void);

/* The job was stopped and the program continues: the next signal is a new one. */
void ig_signals_forget(void);

#endif
