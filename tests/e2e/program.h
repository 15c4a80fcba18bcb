/*
 * program.h - runs a program and collects its output.
 */
#ifndef IG_TESTS_PROGRAM_H
#define IG_TESTS_PROGRAM_H

#include <stddef.h>
#include <sys/types.h>

typedef struct program_result {
    int code; /* exit code; 1000 + n: killed by signal n */
    char *out, *err;
} program_result;

/* How to start it; zero: defaults. */
typedef struct program_options {
    const char *const *env; /* "NAME=value", added to the test's environment; NULL at the end */
    int out_fd, err_fd;     /* above 0: the stream goes there and is not collected */
    int in_fd;              /* above 0: standard input */
} program_options;

/* `args` ends with NULL and does not include the program's name. */
program_result program_run(const char *path, const char *const *args,
                           const program_options *options);
void program_free(program_result *result);

/* Starts it without waiting; the caller waits. */
pid_t program_start(const char *path, const char *const *args, const program_options *options);
int program_wait(pid_t pid); /* exit code, as in program_result */

/* Reads to the end of the file; the caller frees. Appends a 0. */
char *program_read_all(int fd, size_t *out_bytes);

#endif
