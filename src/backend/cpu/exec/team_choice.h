/*
 * team_choice.h - one thread or the team: whichever is faster; results are the same.
 *
 * One thread wins where barriers cost more than the work between them, or where other processes
 * keep the machine busy.  A program asks before each run and reports afterwards how long it took.
 */
#ifndef IG_BACKEND_CPU_EXEC_TEAM_CHOICE_H
#define IG_BACKEND_CPU_EXEC_TEAM_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

/* All zero before the first run. */
typedef struct ig_cpu_team_choice {
    uint64_t took_ns[2];  /* alone, and by the team */
    uint32_t runs, until; /* so far; and when to choose again */
    uint32_t tries;
    uint32_t team_tries; /* since one thread took over from the team */
    bool team;           /* now */
    bool is_first;       /* the run: it was otherwise before */
    bool is_settled;     /* no try */
    bool is_single;      /* a try of one run */
    bool is_hopeless;    /* the last try was given up */
} ig_cpu_team_choice;

/* Whether the team does the next run of a program with `n_barriers` barriers, its start and finish
 * included. */
bool ig_cpu_team_choose(ig_cpu_team_choice *c, uint32_t n_barriers);

/* How long that took. */
void ig_cpu_team_took(ig_cpu_team_choice *c, uint64_t ns);

#endif
