/*
 * plot.h - curves as an SVG picture that needs nothing else to be shown.
 */
#ifndef IG_CLI_PLOT_H
#define IG_CLI_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Points with an x or y that is not finite, or not above 0 on a log scale, leave a gap. */
typedef struct ig_series {
    const char *name; /* in the legend; NULL: not there */
    const double *x, *y;
    size_t count;
    bool faint; /* thin and pale, in the colour of the next series: raw values behind a mean */
} ig_series;

typedef struct ig_plot {
    const char *title, *x_label, *y_label; /* NULL: none */
    const ig_series *series;               /* lent, as all texts are */
    size_t n_series;
    bool log_y;
    int width, height; /* 0: 800 x 450 */
} ig_plot;

/* Writes the picture.  Errors of the stream are left for the caller to find with ferror(). */
void ig_plot_print(FILE *to, const ig_plot *plot);

enum { IG_TICKS_MAX = 16 };

/* Round numbers in [low, high], low < high, with at most `most` of them; returns how many. */
int ig_plot_ticks(double low, double high, int most, double out[IG_TICKS_MAX]);
/* The same for a log scale, 0 < low: 1, 2 and 5 times powers of ten, or powers alone. */
int ig_plot_log_ticks(double low, double high, int most, double out[IG_TICKS_MAX]);

#endif
