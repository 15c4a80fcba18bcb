/*
 * plot.h - plots curves as self-contained SVG.
 */
#ifndef IG_CLI_VIEW_PLOT_H
#define IG_CLI_VIEW_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* A point with a non-finite x or y, or one not above 0 on a log scale, leaves a gap. */
typedef struct ig_series {
    const char *name; /* in the legend; NULL: not listed */
    const double *x, *y;
    size_t count;
    bool dots;  /* marks every point: for few points with a gap between them */
    bool faint; /* thin and pale, in the color of the next series: raw values under their mean */
} ig_series;

typedef struct ig_plot {
    const char *title, *x_label, *y_label; /* NULL: none */
    const ig_series *series;               /* borrowed, like all strings */
    size_t n_series;
    bool log_y;
    bool log_x;        /* x above 0; its ticks are the points of the first series */
    bool legend_above; /* in the row of the title: for curves that fill the frame */
    int width, height; /* 0: 800 x 450 */
} ig_plot;

/* Writes the picture. Check stream errors with ferror(). */
void ig_plot_print(FILE *to, const ig_plot *plot);

/* Writes several plots of one size below each other, as one picture. `title` NULL: none. */
void ig_plots_print(FILE *to, const char *title, const ig_plot *plots, size_t count);

enum { IG_TICKS_MAX = 16 };

/* Round numbers in [low, high], low < high, at most `most` of them; returns the count. */
int ig_plot_ticks(double low, double high, int most, double out[IG_TICKS_MAX]);
/* As above for a log scale, 0 < low: 1, 2 and 5 times powers of ten, or powers only. */
int ig_plot_log_ticks(double low, double high, int most, double out[IG_TICKS_MAX]);

#endif
