/*
 * term.h - the terminal's capabilities.
 *
 * Detected once, at start.  Color: --color beats NO_COLOR (any value but the empty
 * one), which beats CLICOLOR_FORCE, which beats the type of the terminal.  TERM=dumb
 * and pipes get plain text and no progress bar.
 */
#ifndef IG_CLI_APP_TERM_H
#define IG_CLI_APP_TERM_H

#include <stdbool.h>

typedef enum ig_color { IG_COLOR_AUTO, IG_COLOR_ALWAYS, IG_COLOR_NEVER } ig_color;

typedef struct ig_term {
    bool out_color, err_color; /* escape sequences on stdout, on stderr */
    bool live;                 /* stderr is a terminal whose last line can be redrawn */
    bool utf8;
    int width; /* columns of the terminal; 80 without one */
} ig_term;

ig_term ig_term_detect(ig_color color);

typedef enum ig_style { IG_BOLD, IG_DIM, IG_RED, IG_GREEN, IG_CYAN, IG_PLAIN } ig_style;

/* The escape sequence that turns a style on (PLAIN: all off), or "" without color. */
const char *ig_term_style(bool color, ig_style style);

#endif
