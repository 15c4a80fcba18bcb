/*
 * device.h - listing devices.
 *
 * A device string names one:
 *     auto        the best available device
 *     cpu         a backend's first device
 *     vulkan:1    a backend's second device
 *     gpu, npu:2  the first gpu and the third npu, counted over all backends
 *
 * Backends are built in or plugins: libraries that a vendor builds against backend.h.
 * Ingot searches the folders of the options, INGOT_PLUGIN_PATH (absolute paths of
 * folders and libraries, separated by ':') and PREFIX/lib/ingot/plugins, never the
 * current folder.  It loads a plugin when a device is requested that is not built in,
 * and only if root or the user owns the file and no other user can write to it.
 */
#ifndef INGOT_DEVICE_H
#define INGOT_DEVICE_H

#include "ingot/backend.h"
#include "ingot/context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The name of built-in backend i, the best first; NULL: there are no more.  A backend that this
 * build lacks is among them: ig_devices_each() has the reason. */
IG_API const char *ig_backend_name(size_t i);
/* Its version; "": this build lacks it; NULL: there are no more.  Static. */
IG_API const char *ig_backend_version(size_t i);

/* Instruction set i of those that the CPU backend has kernels for and this machine has, the
 * simplest first; NULL: there are no more.  Static. */
IG_API const char *ig_isa_name(size_t i);

/* An available device, or an unavailable one with the reason.  Strings are valid during the call.
 */
typedef struct ig_device_entry {
    const char *name;    /* "cpu:0"; the backend's or plugin file's name if there is no device */
    const char *backend; /* "": the plugin could not be loaded */
    const char *version; /* of the backend */
    const char *plugin;  /* its path; "": built in */
    bool available;
    const char *reason;  /* why it is unavailable */
    ig_device_info info; /* zero if unavailable */
} ig_device_entry;

typedef void ig_device_entry_fn(void *user, const ig_device_entry *entry);

/* Calls fn for each device of each backend, plugins included.  NULL options: all defaults;
 * only plugins, accept_plugin and the allocator are used. */
IG_API IG_MUST_CHECK ig_status ig_devices_each(const ig_ctx_options *options,
                                               ig_device_entry_fn *fn, void *user);

/* What a model needs of the device that it is loaded to. */
typedef struct ig_needs {
    const char *module; /* its name in the timeline */
    uint64_t dtypes;    /* of the weights: bit 1 << ig_dtype */
    uint64_t bytes;     /* of the weights */
} ig_needs;

/* Before loading: a device that lacks a dtype, or the memory, is left for the CPU, and timeline and
 * fallbacks of the report say why.  With `strict` it is IG_ERR_UNSUPPORTED.  Models that are read
 * from files do this themselves. */
IG_API IG_MUST_CHECK ig_status ig_ctx_require(ig_ctx *ctx, const ig_needs *needs);

/* Loads the plugin at an absolute path, opens its first device if it has one, and unloads it.  Call
 * it in a child process for a plugin that is not trusted. */
IG_API IG_MUST_CHECK ig_status ig_plugin_probe(const char *path);

#ifdef __cplusplus
}
#endif
#endif
