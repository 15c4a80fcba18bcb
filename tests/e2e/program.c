#include "program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGS_MAX = 64, SECONDS_MAX = 300 };

/* Variables that change the output of ingot; a test that needs one sets it. */
static const char *const cleared[] = {
    "NO_COLOR",      "CLICOLOR_FORCE", "INGOT_DEVICE",         "RM_DEVICE",
    "INGOT_THREADS", "COLUMNS",        "INGOT_TEST_FAIL_ALLOC"};

static void become(const char *path, const char *const *args, const program_options *o) {
    for (size_t i = 0; i < sizeof cleared / sizeof cleared[0]; i++) unsetenv(cleared[i]);
    for (const char *const *env = o->env; env && *env; env++) {
        char *copy = strdup(*env);
        if (copy) putenv(copy);
    }
    char *argv[ARGS_MAX] = {(char *)path};
    for (int i = 0; args[i] && i < ARGS_MAX - 2; i++) argv[i + 1] = (char *)args[i];
    alarm(SECONDS_MAX); /* kept across exec: nothing hangs forever */
    execv(path, argv);
    _exit(127);
}

pid_t program_start(const char *path, const char *const *args, const program_options *options) {
    static const program_options plain;
    const program_options *o = options ? options : &plain;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid != 0) return pid;
    if (o->in_fd > 0) dup2(o->in_fd, STDIN_FILENO);
    if (o->out_fd > 0) dup2(o->out_fd, STDOUT_FILENO);
    if (o->err_fd > 0) dup2(o->err_fd, STDERR_FILENO);
    become(path, args, o);
    return -1;
}

int program_wait(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

char *program_read_all(int fd, size_t *out_bytes) {
    size_t room = 4096, used = 0;
    char *text = malloc(room + 1);
    for (ssize_t got = 1; text && got > 0;) {
        if (used == room) {
            char *more = realloc(text, 2 * room + 1);
            if (!more) break;
            text = more;
            room *= 2;
        }
        got = read(fd, text + used, room - used);
        if (got > 0) used += (size_t)got;
    }
    if (text) text[used] = 0;
    if (out_bytes) *out_bytes = used;
    return text;
}

program_result program_run(const char *path, const char *const *args,
                           const program_options *options) {
    program_options o = options ? *options : (program_options){0};
    FILE *out = tmpfile(), *err = tmpfile();
    if (o.out_fd <= 0) o.out_fd = fileno(out);
    if (o.err_fd <= 0) o.err_fd = fileno(err);
    program_result result = {.code = program_wait(program_start(path, args, &o))};
    rewind(out);
    rewind(err);
    lseek(fileno(out), 0, SEEK_SET);
    lseek(fileno(err), 0, SEEK_SET);
    result.out = program_read_all(fileno(out), NULL);
    result.err = program_read_all(fileno(err), NULL);
    fclose(out);
    fclose(err);
    return result;
}

void program_free(program_result *result) {
    free(result->out);
    free(result->err);
    *result = (program_result){0};
}
