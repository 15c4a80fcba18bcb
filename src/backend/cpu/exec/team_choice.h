/*
 * choice.h - one thread or the team: whichever is faster; results are the same.
 *
 * Where barriers cost more than the work between them, or others keep the machine busy,
 * that is one thread.  A program says before each run who shall do it, and behind it how
 * long that took.
 */
#ifndef IG_BACKEND_CPU_CHOICE_H
#define IG_BACKEND_CPU_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

/* All zero before the first run. */
typedef struct ig_cpu_choice {
    uint64_t took_ns[2];  /* alone, and by the team */
    uint32_t runs, until; /* so far; and when to choose again */
    uint32_t tries;
    bool team;        /* now */
    bool is_first;    /* the run: it was otherwise before */
    bool is_settled;  /* no try */
    bool is_single;   /* a try of one run */
    bool is_hopeless; /* the last try was given up */
} ig_cpu_choice;

/* Whether the team does the next run of a program that has so many barriers, its start and finish
 * counted in. */
bool ig_cpu_choose_team(ig_cpu_choice *c, uint32_t n_barriers);

/* How long that took. */
void ig_cpu_choice_took(ig_cpu_choice *c, uint64_t ns);

#endif
