/*
 * compiling.h - what is done before anything is computed, as the user sees it: a
 * bar while a file is read, programs are compiled or weights packed, and a word on
 * those that were there already.
 */
#ifndef IG_CLI_COMPILING_H
#define IG_CLI_COMPILING_H

#include "cli/app/progress.h"

typedef struct ig_compiling {
    ig_meter meter;
    bool open;                         /* the meter is at work */
    uint64_t from_cache;               /* programs of the context at hand */
    uint64_t weights_from, weights_to; /* the cache, in bytes */
} ig_compiling;

/* For ig_ctx_options.progress; `user` is the ig_cli. */
void ig_compiling_tell(void *user, const char *what, uint64_t done, uint64_t total);

/* When the context closes. */
void ig_compiling_end(void *user);

#endif
