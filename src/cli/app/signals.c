#include "cli/app/signals.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

/* The program's only globals: a signal handler gets no user argument. */
static volatile sig_atomic_t caught;
static const char *volatile being_read;
static const char *volatile unfinished; /* removed if the program ends early */

/* Some wrappers signal both the process and its group, so a second signal within 300 ms counts as
 * the same one. A later one means that the user does not want to wait. */
enum { AT_ONCE_MS = 300 };
static _Atomic int64_t caught_ms;
static volatile sig_atomic_t forgotten; /* the caught one was dealt with */

static void remember(int number) {
    const int64_t ms = (int64_t)(ig_clock_ns() / 1000000);
    if (!caught && forgotten && ms - caught_ms <= AT_ONCE_MS) return;
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
    catch_one(SIGHUP); /* the terminal is gone; under nohup it is ignored */
}

static void say(const char *text) { (void)!write(STDERR_FILENO, text, strlen(text)); }

/* Async-signal-safe calls only. */
static void file_ended(int number, siginfo_t *info, void *context) {
    (void)context;
    if (info->si_code != BUS_ADRERR) { /* not a mapped file: crash */
        signal(number, SIG_DFL);
        return;
    }
    if (unfinished) unlink(unfinished);
    say("ingot: ");
    say(being_read ? being_read : "a file");
    say(": was truncated while in use. Do not modify files that are in use.\n");
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

void ig_signals_forget(void) {
    forgotten = 1;
    caught = 0;
}
