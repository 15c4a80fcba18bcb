/*
 * program.h - runs a program from outside, and keeps what it said.
 */
#ifndef IG_TESTS_PROGRAM_H
#define IG_TESTS_PROGRAM_H

#include <stddef.h>
#include <sys/types.h>

typedef struct program_result {
    int code; /* exit code; 1000 + n: killed by signal n */
    char *out, *err;
} program_result;

/* How to start it; zero is plain. */
typedef struct program_options {
    const char *const *env; /* "NAME=value", added to ours; NULL at the end */
    int out_fd, err_fd;     /* above 0: goes there, and is not kept */
    int in_fd;              /* above 0: standard input comes from there */
} program_options;

/* `args` ends with NULL and does not begin with the program's name. */
program_result program_run(const char *path, const char *const *args,
                           const program_options *options);
void program_free(program_result *result);

/* Starts it and does not wait; the caller does. */
pid_t program_start(const char *path, const char *const *args, const program_options *options);
int program_wait(pid_t pid); /* the code, as above */

/* All bytes up to the end of the file; the caller frees.  A final 0 is added. */
char *program_read_all(int fd, size_t *out_bytes);

#endif
