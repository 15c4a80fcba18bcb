/*
 * stories.h - generates English stories to train on.
 *
 * Short stories with a small vocabulary: a hero has a wish or a problem, a friend helps, it ends
 * well. A seed has millions of them, all different; equal seeds give equal bytes on every machine.
 */
#ifndef IG_CLI_TRAIN_STORIES_H
#define IG_CLI_TRAIN_STORIES_H

#include <stddef.h>
#include <stdint.h>

#include "ingot/status.h"

enum { IG_STORY_BYTES = 1024 }; /* upper bound of a story */

uint32_t ig_stories_count(void); /* number of different stories per seed */

/* Writes story `index`, below the count, and an empty line; returns its bytes. */
size_t ig_story(uint64_t seed, uint32_t index, char out[IG_STORY_BYTES]);

/* Passes whole stories to put(), from index 0 on, until they total `n_bytes` or more. Stops with
 * put()'s status if that is not IG_OK. */
IG_MUST_CHECK ig_status ig_stories_write(uint64_t seed, uint64_t n_bytes,
                                         ig_status (*put)(void *user, const char *story,
                                                          size_t n_bytes),
                                         void *user);

#endif
