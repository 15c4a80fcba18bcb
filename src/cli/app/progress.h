/*
 * progress.h - how far a long job is.
 *
 * On a terminal one line of stderr is drawn anew a few times a second:
 *
 *     train  [########........]  50%  150/300 steps  412 steps/s  0:01 left  loss 1.284
 *
 * Elsewhere (a file, a pipe, TERM=dumb) plain lines go out: the first, one every
 * five seconds, and the last.  -q silences both.
 */
#ifndef IG_CLI_PROGRESS_H
#define IG_CLI_PROGRESS_H

#include <stdint.h>
#include <stdio.h>

#include "cli/app/term.h"

enum { IG_METER_LINE_BYTES = 640 };

typedef struct ig_meter {
    FILE *to; /* NULL: silent */
    ig_term term;
    const char *what, *unit; /* "train", "steps"; "": only the percentage is shown; lent */
    uint64_t total;
    uint64_t before;     /* of these, done by an earlier run: they took none of our time */
    int eager;           /* so many updates yet are drawn whatever the clock says */
    double began, drawn; /* seconds on the monotonic clock */
    bool line_open;      /* the terminal's last line is ours */
} ig_meter;

double ig_clock_seconds(void); /* monotonic; only differences mean something */

/* `total` at least 1.  Draws nothing yet. */
ig_meter ig_meter_begin(const ig_term *term, bool quiet, const char *what, const char *unit,
                        uint64_t total);

/* Cheap enough for every step: most calls only look at the clock.  `note` may be "". */
void ig_meter_update(ig_meter *meter, uint64_t done, const char *note);

/* Draws the last state, and ends the line so that other text may follow. */
void ig_meter_end(ig_meter *meter, uint64_t done, const char *note);

/* The text of a line, without its end; `seconds` since the job began.  Returns `out`. */
const char *ig_meter_text(const ig_meter *meter, uint64_t done, double seconds, const char *note,
                          char out[IG_METER_LINE_BYTES]);

#endif
