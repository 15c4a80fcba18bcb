#include "backend/cpu/exec/team_choice.h"

enum {
    TRIES = 4,           /* at the beginning: team and one thread alternately */
    TRY_RUNS = 4,        /* runs of a try, after its first */
    SOON = 1024,         /* runs until the other one is tried again */
    RARELY = 8192,       /* the same, if it was much slower */
    WAIT_NS = 200000,    /* upper bound of the cost of a barrier, almost always */
    SINGLE_NS = 2000000, /* a run this long is a try by itself */
    SINGLE_TRIES = 2,    /* and this many of them suffice */
    TRY_SHARE = 32,      /* tries of the team take at most 1/32 of the time in between, */
    EARLY_TRIES = 3,     /* except for the first ones */
};

/* Runs until the team is tried again: the team may have been slow for a moment only, and one thread
 * of many is a high price. */
static uint32_t until_team(ig_cpu_team_choice *c) {
    const uint64_t times = (TRY_SHARE * c->took_ns[1] + c->took_ns[0] - 1) / c->took_ns[0];
    const uint64_t wait = times >> (EARLY_TRIES - c->team_tries);
    if (c->team_tries < EARLY_TRIES) c->team_tries++;
    return wait < RARELY ? (uint32_t)wait : RARELY;
}

/*
 * Measures both for a few runs, then uses the faster one.  The other one is tried again at
 * intervals, which are longer if it was much slower, or at once when the one in use has become
 * slower than the other was.  If runs take milliseconds, as for a token, a try is one run: users
 * wait for it.  Runs so long that barriers cannot matter use the team.
 */
bool ig_cpu_team_choose(ig_cpu_team_choice *c, uint32_t n_barriers) {
    const uint64_t alone = c->took_ns[0], team = c->took_ns[1];
    const bool better = alone == 0 || team < alone, before = c->team;
    const uint64_t least = better ? team : alone; /* about the time without waits */
    const bool close = better ? alone < 2 * team : team < 2 * alone;
    const bool single = least > SINGLE_NS;
    c->is_first = c->runs == 0;
    if (c->runs++ < c->until) return c->team;
    c->is_single = false;
    if (least > (uint64_t)n_barriers * WAIT_NS) {
        c->team = true;
    } else if (c->tries < (single ? SINGLE_TRIES : TRIES)) {
        c->team = c->tries++ % 2 == 0;
        c->is_single = single && !c->team;
        c->until = c->runs + (c->is_single ? 0 : TRY_RUNS);
    } else if (c->team == better && c->is_settled) { /* for long enough */
        c->team = !better;
        c->is_settled = c->is_hopeless = false;
        c->is_single = single;
        c->until = c->runs + (single ? 0 : TRY_RUNS);
    } else {
        c->team = better;
        c->is_settled = true;
        if (better) c->team_tries = 0;
        c->until = c->runs + (single && !better          ? until_team(c)
                              : close && !c->is_hopeless ? SOON
                                                         : RARELY);
    }
    c->is_first |= c->team != before;
    return c->team;
}

/* A moving mean that interrupted runs cannot spoil: it falls faster than it rises.  The first run
 * after a change finds its data in the cache of another core, or creates threads. */
void ig_cpu_team_took(ig_cpu_team_choice *c, uint64_t ns) {
    uint64_t *mean = &c->took_ns[c->team];
    const uint64_t other = c->took_ns[!c->team];
    const bool hopeless = other > 0 && ns > 3 * other; /* end this try */
    if (hopeless && !c->is_settled) {
        c->is_hopeless = true;
        c->until = c->runs;
    }
    if (c->is_first && !hopeless && !c->is_single) return;
    if (*mean == 0 || c->is_single) *mean = ns;
    if (ns > *mean * 2) ns = *mean * 2;
    *mean = ns < *mean ? (*mean + ns) / 2 : (*mean * 7 + ns) / 8;
    if (c->is_settled && other > 0 && *mean > other + other / 4) c->until = c->runs;
}
