/*
 * device.h - which devices there are.
 *
 * A device string names one:
 *     auto        the best that is there
 *     cpu         a backend's first device
 *     vulkan:1    a backend's second device
 *     gpu, npu:2  the first gpu and the third npu, counted over all backends
 *
 * Backends are built in or come as plugins, libraries that a vendor builds against
 * backend.h.  They are looked for where the options say, in INGOT_PLUGIN_PATH
 * (absolute paths of folders and libraries, with ':' between) and in
 * PREFIX/lib/ingot/plugins; never in the current folder.  A plugin is loaded when
 * a device is asked for that is not built in, and if it belongs to root or the
 * user and nobody else can write to it.
 */
#ifndef INGOT_DEVICE_H
#define INGOT_DEVICE_H

#include "ingot/backend.h"
#include "ingot/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A device that is there, or something that is not and why.  Texts are lent for the call. */
typedef struct ig_device_entry {
    const char *name; /* "cpu:0"; of a backend without devices its name; of a plugin its file's */
    const char *backend; /* "" where a plugin could not be loaded */
    const char *version; /* of the backend */
    const char *plugin;  /* its path; "": built in */
    bool available;
    const char *reason;  /* why it is not */
    ig_device_info info; /* zero where it is not */
} ig_device_entry;

typedef void ig_device_entry_fn(void *user, const ig_device_entry *entry);

/* Calls fn for each device of each backend, plugins included.  NULL options are all defaults; of
 * the others, plugins, accept_plugin and the allocator count. */
IG_API IG_MUST_CHECK ig_status ig_devices_each(const ig_ctx_options *options,
                                               ig_device_entry_fn *fn, void *user);

/* Loads the plugin at an absolute path, opens its first device if it has one, and lets go of both.
 * Whoever does not trust it calls this in a child process first. */
IG_API IG_MUST_CHECK ig_status ig_plugin_probe(const char *path);

#ifdef __cplusplus
}
#endif
#endif
