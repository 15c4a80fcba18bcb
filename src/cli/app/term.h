/*
 * term.h - what the terminal can show.
 *
 * Decided once, at start.  Colour: --color beats NO_COLOR (any value but the
 * empty one), which beats CLICOLOR_FORCE, which beats what kind of terminal it
 * is.  TERM=dumb and pipes get plain text and no progress bar.
 */
#ifndef IG_CLI_TERM_H
#define IG_CLI_TERM_H

#include <stdbool.h>

typedef enum ig_color { IG_COLOR_AUTO, IG_COLOR_ALWAYS, IG_COLOR_NEVER } ig_color;

typedef struct ig_term {
    bool out_color, err_color; /* escape sequences on stdout, on stderr */
    bool live;                 /* stderr is a terminal whose last line can be drawn anew */
    bool utf8;
    int width; /* of the terminal, in columns; 80 where there is none */
} ig_term;

ig_term ig_term_detect(ig_color color);

typedef enum ig_style { IG_BOLD, IG_DIM, IG_RED, IG_GREEN, IG_CYAN, IG_PLAIN } ig_style;

/* The escape sequence that turns a style on (PLAIN: all off), or "" without colour. */
const char *ig_term_style(bool color, ig_style style);

#endif
