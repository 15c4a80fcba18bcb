/*
 * loader.h - backends from shared libraries.
 *
 * A plugin is loaded from an absolute path given by the user, the environment or the installation;
 * never from the current folder and never because a model asks for it. Library and folder must
 * belong to root or the user and be writable by no other user. A plugin that cannot be used is
 * skipped, and its reason kept: it never affects other plugins.
 */
#ifndef IG_BACKEND_PLUGIN_LOADER_H
#define IG_BACKEND_PLUGIN_LOADER_H

#include "backend/plugin/isolate.h"
#include "base/alloc.h"
#include "ingot/backend.h"

enum { IG_PLUGIN_REASON_BYTES = 256 };

typedef struct ig_plugin {
    char *path;
    void *library;      /* dlopen() handle; NULL: not loaded */
    ig_backend backend; /* its table; fields that an older plugin does not have are NULL */
    char reason[IG_PLUGIN_REASON_BYTES]; /* why it was skipped; "": in use */
    ig_isolated *isolated;               /* in a separate process; NULL: in this one */
} ig_plugin;

typedef struct ig_plugins {
    const ig_allocator *allocator;
    ig_plugin **at; /* entries never move: devices point to their tables */
    size_t count, room;
} ig_plugins;

/* Called before a library is loaded; false: skip it, with the reason in the thread's error. */
typedef bool ig_plugin_accept_fn(void *user, const char *path);

/* Where to look besides INGOT_PLUGIN_PATH and the installation's folder. */
typedef struct ig_plugin_places {
    const char *paths;           /* "/a/folder:/b/one.so", searched first; NULL: none */
    ig_plugin_accept_fn *accept; /* NULL: all */
    void *user;
    bool isolate; /* load each in a separate process, never in this one */
} ig_plugin_places;

/* Fails only if out of memory. Relative paths are listed as skipped. */
IG_MUST_CHECK ig_status ig_plugins_load(ig_plugins *plugins, const ig_allocator *allocator,
                                        ig_plugin_places places);
void ig_plugins_deinit(ig_plugins *plugins); /* a zeroed struct is allowed */

/* Loads one library. IG_ERR_DEVICE: unusable, with the reason in the thread's error. */
IG_MUST_CHECK ig_status ig_plugin_open(const char *path, ig_plugin *out);
void ig_plugin_close(ig_plugin *plugin);

#endif
