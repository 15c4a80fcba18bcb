/*
 * progress.h - the progress of a long job.
 *
 * On a terminal one line of stderr is redrawn 20 times per second:
 *
 *     train  [########........]  50%  150/300 steps  412 steps/s  0:01 left  loss 1.284
 *
 * Otherwise (a file, a pipe, TERM=dumb) it prints lines: the first update, one every
 * five seconds, and the last.  -q suppresses both.
 */
#ifndef IG_CLI_APP_PROGRESS_H
#define IG_CLI_APP_PROGRESS_H

#include <stdint.h>
#include <stdio.h>

#include "base/clock.h"
#include "cli/app/term.h"

enum { IG_METER_LINE_BYTES = 640 };

typedef struct ig_meter {
    FILE *to; /* NULL: silent */
    ig_term term;
    const char *what, *unit; /* "train", "steps"; "": only the percentage is shown; borrowed */
    uint64_t total;
    uint64_t before;     /* of these, done by an earlier run; left out of the speed */
    int eager;           /* this many updates are still drawn regardless of the time */
    double began, drawn; /* seconds on the monotonic clock */
    bool line_open;      /* the terminal's last line is the bar */
} ig_meter;

/* `total` at least 1.  Draws nothing yet. */
ig_meter ig_meter_begin(const ig_term *term, bool quiet, const char *what, const char *unit,
                        uint64_t total);

/* Cheap enough for every step: most calls only read the clock.  `note` may be "". */
void ig_meter_update(ig_meter *meter, uint64_t done, const char *note);

/* Draws the final state and ends the line. */
void ig_meter_end(ig_meter *meter, uint64_t done, const char *note);

/* The text of a line without newline; `seconds` since the job began.  Returns `out`. */
const char *ig_meter_text(const ig_meter *meter, uint64_t done, double seconds, const char *note,
                          char out[IG_METER_LINE_BYTES]);

#endif
