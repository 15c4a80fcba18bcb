#include "cli/signals.h"

#include <signal.h>
#include <stddef.h>

/* The one variable of the program that is nobody's: a signal handler is given no argument. */
static volatile sig_atomic_t caught;

static void remember(int number) { caught = number; }

static void catch_one(int number) {
    struct sigaction before;
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler == SIG_IGN) return;
    struct sigaction action = {.sa_handler = remember, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
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

int ig_signals_caught(void) { return caught; }
