/*
 * loader.h - backends from shared libraries.
 *
 * A plugin is loaded from an absolute path that the user, the environment or the
 * installation names; never from the current folder and never because a model
 * says so.  Library and folder must belong to root or to the user and be
 * writable by nobody else.  What is wrong with a plugin is kept as the reason
 * why it is not used: a bad one never keeps the others from working.
 */
#ifndef IG_BACKEND_LOADER_H
#define IG_BACKEND_LOADER_H

#include "backend/plugin/isolate.h"
#include "base/alloc.h"
#include "ingot/backend.h"

enum { IG_PLUGIN_REASON_BYTES = 256 };

typedef struct ig_plugin {
    char *path;
    void *library;                       /* dlopen()'s; NULL: not loaded */
    ig_backend backend;                  /* its table; what an older one does not have is NULL */
    char reason[IG_PLUGIN_REASON_BYTES]; /* why it is not used; "": it is */
    ig_isolated *isolated;               /* in a process of its own; NULL: in ours */
} ig_plugin;

typedef struct ig_plugins {
    const ig_allocator *allocator;
    ig_plugin **at; /* each stays where it is: devices point to its table */
    size_t count, room;
} ig_plugins;

/* Asked before a library is loaded; false: it is not, and the thread's error says why. */
typedef bool ig_plugin_accept_fn(void *user, const char *path);

/* Where to look besides INGOT_PLUGIN_PATH and the folder that belongs to the installation. */
typedef struct ig_plugin_places {
    const char *paths;           /* "/a/folder:/b/one.so", asked first; NULL: none */
    ig_plugin_accept_fn *accept; /* NULL: all */
    void *user;
    bool isolate; /* each gets a process of its own, and ours never loads it */
} ig_plugin_places;

/* Fails for want of memory alone.  Paths that are not absolute are listed as skipped. */
IG_MUST_CHECK ig_status ig_plugins_load(ig_plugins *plugins, const ig_allocator *allocator,
                                        ig_plugin_places places);
void ig_plugins_deinit(ig_plugins *plugins); /* a zeroed one is fine */

/* Loads one library.  IG_ERR_DEVICE: it cannot be used, and the thread's error says why. */
IG_MUST_CHECK ig_status ig_plugin_open(const char *path, ig_plugin *out);
void ig_plugin_close(ig_plugin *plugin);

#endif
