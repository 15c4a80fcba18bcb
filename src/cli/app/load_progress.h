/*
 * load_progress.h - progress of loading: a bar while a file is read, programs are
 * compiled or weights are packed, and a line for everything that the cache provided.
 */
#ifndef IG_CLI_APP_LOAD_PROGRESS_H
#define IG_CLI_APP_LOAD_PROGRESS_H

#include "cli/app/progress.h"
#include "ingot/context.h"

typedef struct ig_load_progress {
    ig_meter meter;
    bool open;                         /* the meter is active */
    uint64_t from_cache;               /* programs of this context that the cache had */
    uint64_t weights_from, weights_to; /* bytes read from and written to the cache */
} ig_load_progress;

/* For ig_ctx_options.progress; `user` is the ig_cli. */
void ig_load_progress_update(void *user, ig_progress_event event, uint64_t done, uint64_t total);

/* Call when the context closes. */
void ig_load_progress_end(void *user);

#endif
