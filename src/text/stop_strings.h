/* stop_strings.h - stop strings in a text that grows. */
#ifndef IG_TEXT_STOP_STRINGS_H
#define IG_TEXT_STOP_STRINGS_H

#include <stddef.h>

typedef struct ig_stop_match {
    int stop;    /* the stop string that occurs first; -1: none */
    size_t at;   /* where it begins */
    size_t keep; /* without one: the last bytes that may be the beginning of one */
} ig_stop_match;

/* Empty stop strings match nothing. */
ig_stop_match ig_stop_find(const char *text, size_t n_bytes, const char *const *stops,
                           size_t n_stops);

#endif
