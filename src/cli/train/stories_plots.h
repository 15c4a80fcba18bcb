/*
 * stories_plots.h - plots, phrases and cast of the stories.
 *
 *     [big|small]   one of these; they may nest, and may be empty
 *     {day}         a phrase of the table, or an entry of the story's cast
 *     {Day}         the same with a capital letter
 */
#ifndef IG_CLI_TRAIN_STORIES_PLOTS_H
#define IG_CLI_TRAIN_STORIES_PLOTS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct ig_story_phrase {
    const char *name, *choices; /* "a|b|c" */
} ig_story_phrase;

typedef struct ig_story_name {
    const char *name;
    bool female;
} ig_story_name;

typedef struct ig_story_thing {
    const char *name, *broke; /* how it breaks: "broke", "tore" */
} ig_story_thing;

enum {
    IG_STORY_PLOTS = 24,
    IG_STORY_NAMES = 24,
    IG_STORY_PLACES = 14,
    IG_STORY_THINGS = 16,
};

/* Every plot mentions the hero, the friend, the place and the thing, so that changing one of them
 * gives another story. */
extern const char *const ig_story_plots[IG_STORY_PLOTS];
extern const ig_story_name ig_story_names[IG_STORY_NAMES];
extern const char *const ig_story_places[IG_STORY_PLACES]; /* "by the river" */
extern const ig_story_thing ig_story_things[IG_STORY_THINGS];
extern const ig_story_phrase ig_story_phrases[]; /* a NULL name at the end */

#endif
