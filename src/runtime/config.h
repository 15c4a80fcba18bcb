/*
 * config.h - the user's config.json: defaults of options that are not set.
 */
#ifndef IG_RUNTIME_CONFIG_H
#define IG_RUNTIME_CONFIG_H

#include "ingot/context.h"

/* Strings are owned; NULL, 0 and false: unset. */
typedef struct ig_config {
    char *device;
    char *plugins; /* separated by ':' */
    char *cache_dir;
    char *precision, *batch_sizes;
    int optimization_level;
    bool verbose, strict;
} ig_config;

/* Reads $XDG_CONFIG_HOME/ingot/config.json, else ~/.config/ingot/config.json.  No file is an empty
 * config; a damaged one is IG_ERR_FORMAT. */
IG_MUST_CHECK ig_status ig_config_read(const ig_allocator *allocator, ig_config *out);

/* Fills unset options from the environment, then from the config. Strings are borrowed from both.
 */
ig_ctx_options ig_config_settle(const ig_config *config, const ig_ctx_options *options);
void ig_config_deinit(const ig_allocator *allocator, ig_config *config);

#endif
