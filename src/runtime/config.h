/*
 * config.h - what the user has written into config.json, for what nobody says.
 */
#ifndef IG_RUNTIME_CONFIG_H
#define IG_RUNTIME_CONFIG_H

#include "ingot/context.h"

/* Texts are owned; NULL, 0 and false: not said. */
typedef struct ig_config {
    char *device;
    char *plugins; /* with ':' between */
    char *cache_dir;
    char *precision, *batch_sizes;
    int optimization_level;
    bool verbose, strict;
} ig_config;

/* Reads $XDG_CONFIG_HOME/ingot/config.json, else ~/.config/ingot/config.json.  No file is an empty
 * config; a damaged one is IG_ERR_FORMAT. */
IG_MUST_CHECK ig_status ig_config_read(const ig_allocator *allocator, ig_config *out);

/* What the options leave open: the environment's word, else the config's.  Texts are lent from
 * both. */
ig_ctx_options ig_config_settle(const ig_config *config, const ig_ctx_options *options);
void ig_config_deinit(const ig_allocator *allocator, ig_config *config);

#endif
