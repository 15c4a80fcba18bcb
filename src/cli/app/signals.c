#include "cli/app/signals.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The variables of the program that are nobody's: a signal handler is given no argument. */
static volatile sig_atomic_t caught;
static const char *volatile being_read;
static const char *volatile unfinished; /* goes when the program ends in the middle */

/* Some wrappers send a signal both to the program and to its group, so one that comes again at once
 * is the same.  Later it is somebody who does not want to wait. */
enum { AT_ONCE_MS = 300 };
static _Atomic int64_t caught_ms;

static void remember(int number) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const int64_t ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    if (!caught) {
        caught_ms = ms;
        caught = number;
    } else if (ms - caught_ms > AT_ONCE_MS) {
        signal(number, SIG_DFL);
        raise(number);
    }
}

static void catch_one(int number) {
    struct sigaction before;
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler == SIG_IGN) return;
    struct sigaction action = {.sa_handler = remember, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

void ig_signals_ignore_writes(void) {
    struct sigaction action = {.sa_handler = SIG_IGN};
    sigemptyset(&action.sa_mask);
    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGXFSZ, &action, NULL);
}

void ig_signals_catch(void) {
    catch_one(SIGINT);
    catch_one(SIGTERM);
}

static void say(const char *text) { (void)!write(STDERR_FILENO, text, strlen(text)); }

/* In the middle of anything: only what a handler may call. */
static void file_ended(int number, siginfo_t *info, void *context) {
    (void)context;
    if (info->si_code != BUS_ADRERR) { /* not of a file: let it be what it is */
        signal(number, SIG_DFL);
        return;
    }
    if (unfinished) unlink(unfinished);
    say("ingot: ");
    say(being_read ? being_read : "a file");
    say(": became shorter while it was read. Leave files alone that are in use.\n");
    _exit(3);
}

void ig_signals_guard_files(void) {
    struct sigaction action = {.sa_sigaction = file_ended, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}

void ig_signals_reading(const char *path) { being_read = path; }

void ig_signals_writing(const char *temporary) { unfinished = temporary; }

int ig_signals_caught(void) { return caught; }
