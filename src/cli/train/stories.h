/*
 * stories.h - English to learn from, every sentence ours.
 *
 * Short stories of few words: someone small has a wish or a trouble, a friend
 * comes, it ends well.  A seed has millions of them, all different; equal seeds
 * give equal bytes everywhere.
 */
#ifndef IG_TEXT_STORIES_H
#define IG_TEXT_STORIES_H

#include <stddef.h>
#include <stdint.h>

#include "ingot/status.h"

enum { IG_STORY_BYTES = 1024 }; /* no story has so many */

uint32_t ig_stories_count(void); /* different stories of a seed */

/* Writes story `index`, below the count, and an empty line behind it; returns its bytes. */
size_t ig_story(uint64_t seed, uint32_t index, char out[IG_STORY_BYTES]);

/* Hands out whole stories, the first of the seed first, until they are `n_bytes` or more.  Stops
 * with what put() returns, if that is not IG_OK. */
IG_MUST_CHECK ig_status ig_stories_write(uint64_t seed, uint64_t n_bytes,
                                         ig_status (*put)(void *user, const char *story,
                                                          size_t n_bytes),
                                         void *user);

#endif
