/*
 * context.h - the one object everything else hangs from.
 *
 * There is no global state and nothing to initialize first: two contexts share
 * nothing.  A context and everything created from it belong to one thread at a time.
 */
#ifndef INGOT_CONTEXT_H
#define INGOT_CONTEXT_H

#include "ingot/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The allocator of a context.  Both functions may be called from several threads. */
typedef struct ig_allocator {
    void *(*alloc)(void *user, size_t bytes, size_t alignment); /* NULL: out of memory */
    void (*free)(void *user, void *p);                          /* never NULL */
    void *user;
} ig_allocator;

/* A string with its length, without a 0 at its end.  Borrowed: the function that returns one says
 * from what and for how long. */
typedef struct ig_string_view {
    const char *bytes;
    size_t n_bytes;
} ig_string_view;

/* A string that grows and ends with a 0, once there are bytes.  {0} is empty, with malloc's memory;
 * the owner deinits it. */
typedef struct ig_string {
    const ig_allocator *allocator; /* borrowed; NULL: malloc's */
    char *bytes;
    size_t n_bytes, room;
} ig_string;
/* Frees the bytes, and leaves an empty string with the same allocator. */
IG_API void ig_string_deinit(ig_string *string);

/* Options for devices that compile programs.  A level or a precision that the device does not read
 * is IG_ERR_ARGUMENT; config.json's are for the devices that do. */
typedef struct ig_compile_options {
    int optimization_level;  /* 1: compile fast, 3: run fast */
    const char *precision;   /* "f32", "f16" or "fp16", "bf16", "int8" */
    const char *batch_sizes; /* "1,8,64": batch sizes to compile programs for */
} ig_compile_options;

/* What a long job reports.  COMPILE and PACK count the steps of a plan and never decrease; LOAD and
 * WEIGHTS_* count bytes, PROGRAMS_* programs. */
typedef enum ig_progress_event {
    IG_PROGRESS_LOAD,            /* a file that is not mapped is read, or its checksums are */
    IG_PROGRESS_COMPILE,         /* the device compiles a plan */
    IG_PROGRESS_PACK,            /* weights are packed for a device that does not compile */
    IG_PROGRESS_PROGRAMS_CACHED, /* the compile cache provided programs */
    IG_PROGRESS_PROGRAMS_STORED,
    IG_PROGRESS_WEIGHTS_CACHED, /* the compile cache provided packed weights */
    IG_PROGRESS_WEIGHTS_STORED,
} ig_progress_event;

IG_API const char *ig_progress_name(ig_progress_event event); /* "load", "compile", ...; static */

/* Zero means the default, for every field here and in every options struct. */
typedef struct ig_ctx_options {
    /* "auto", "cpu", "gpu:1", "npu", "vulkan:0": see device.h.  NULL: INGOT_DEVICE, else RM_DEVICE,
     * else the user's config.json, else "auto". */
    const char *device;
    int threads;   /* 0: as many as the process may use */
    uint64_t seed; /* of parameter initialization and dropout */
    bool strict;   /* a fallback to another device is an error; config.json can set it, too */
    bool verbose;  /* log to stderr unless there is a log(); config.json can set it, too */

    /* Receives log messages.  NULL: no logging. */
    void (*log)(void *user, ig_log_level level, const char *text);
    /* Progress of a long job.  NULL: no callback. */
    void (*progress)(void *user, ig_progress_event event, uint64_t done, uint64_t total);
    /* Called between steps of a long job and before every run; true ends it with
     * IG_ERR_CANCELLED. */
    bool (*cancel)(void *user);
    void *user; /* of these three, and of accept_plugin */

    ig_allocator allocator; /* both functions or neither */

    /* Plugins besides INGOT_PLUGIN_PATH and those of the installation: absolute paths of folders
     * and libraries, separated by ':'.  "/a/b.so#sha256=9f86..." pins the file's content. */
    const char *plugins;
    /* Called before a plugin is loaded; false rejects it for the reason given to IG_FAIL().  NULL:
     * accepts every plugin whose file is safe to load. */
    bool (*accept_plugin)(void *user, const char *path);
    /* Runs each plugin in its own process: if it crashes, or hangs for a minute
     * (INGOT_PLUGIN_SECONDS), its device has failed and another device takes over. */
    bool isolate_plugins;

    /* Called first when the context is destroyed: the last chance to get its report. */
    void (*on_destroy)(void *user, const ig_ctx *ctx);

    ig_compile_options compile; /* unset fields: config.json's */
    const char *cache_dir; /* of the compile cache; NULL: INGOT_CACHE_DIR, else RM_CACHE_DIR, else
                              config.json's, else $XDG_CACHE_HOME/ingot */
    bool no_cache;         /* neither reads nor writes the compile cache */
    bool cache_packed_weights; /* stores packed weights in the compile cache, too */
    uint64_t cache_bytes;      /* limit of the compile cache, which evicts the least recently used
                                  programs; 0: IG_CACHE_BYTES_DEFAULT */

    uint64_t memory_bytes; /* limit for tensors, plans and packed weights on each device; beyond it
                              weights stay unpacked and anything else is IG_ERR_MEMORY.  0: none */
    /* Uses a device whose self-test gives wrong numbers, which is IG_ERR_DEVICE otherwise. `device`
     * must name its backend ("null", "vendor:1"), not a class of devices. */
    bool unsafe_device;
} ig_ctx_options;

#define IG_CACHE_BYTES_DEFAULT (UINT64_C(4) << 30)

/*
 * NULL options: all defaults.  Unset options come from the environment, then from
 * $XDG_CONFIG_HOME/ingot/config.json (~/.config/...):
 *     {"device": "npu", "plugins": ["/opt/vendor/npu.so"], "cache_dir": "/var/cache/ingot",
 *      "compile_options": {"optimization_level": 3, "precision": "bf16", "batch_sizes": [1, 8]},
 *      "strict": true, "verbose": true}
 */
IG_API IG_MUST_CHECK ig_status ig_ctx_create(const ig_ctx_options *options, ig_ctx **out);

/* The folder of the compile cache of a context with these options. */
IG_API IG_MUST_CHECK ig_status ig_cache_dir(const ig_ctx_options *options, char *out,
                                            size_t out_bytes);

/* Tensors, modules and optimizers of the context must be released first. */
IG_API void ig_ctx_destroy(ig_ctx *ctx);

/*
 * Switches to another device, between two steps: tensors, optimizers, captures and
 * sessions remain valid and run there from now on.  On failure nothing changes.
 * Releases the memory of the old device.
 */
IG_API IG_MUST_CHECK ig_status ig_switch_device(ig_ctx *ctx, const char *device);

/* Waits for all that the device was given.  At the end of a stage it makes the clock show the
 * stage's own time on a device that works asynchronously. */
IG_API IG_MUST_CHECK ig_status ig_ctx_synchronize(ig_ctx *ctx);

/* Releases pooled memory that is not in use. */
IG_API void ig_ctx_release_memory(ig_ctx *ctx);

/* Properties of the context. */
IG_API uint64_t ig_ctx_seed(const ig_ctx *ctx);
IG_API const char *ig_ctx_device(const ig_ctx *ctx);    /* as resolved, such as "cpu:0"; borrowed */
IG_API uint32_t ig_ctx_device_class(const ig_ctx *ctx); /* ig_device_class of backend.h */
IG_API const char *ig_ctx_batch_sizes(const ig_ctx *ctx); /* of the compile options; "": unset */
IG_API const ig_allocator *ig_ctx_allocator(const ig_ctx *ctx); /* borrowed */
/* For long jobs outside the library: calls progress() of the context's options, if set.  False:
 * cancel() asks the job to end. */
IG_API bool ig_ctx_progress(const ig_ctx *ctx, ig_progress_event event, uint64_t done,
                            uint64_t total);

/* Attaches data of the caller's to the context.  The key is an address of the caller's own, such as
 * that of a static variable, and is used once.  The context owns the data: ig_ctx_destroy() calls
 * destroy(data) last, newest first; NULL: no callback.  On failure the caller owns them. */
IG_API IG_MUST_CHECK ig_status ig_ctx_attach(ig_ctx *ctx, const void *key, void *data,
                                             void (*destroy)(void *data));
IG_API void *ig_ctx_attached(const ig_ctx *ctx, const void *key); /* borrowed; NULL: none */

/*
 * The end of a scope releases the tensors that ops created since its beginning,
 * unless retained; scopes nest.  Tensors outside all scopes are released when the next
 * step begins: with the first op after an optimizer step or an ig_ctx_step_end().  The
 * end of an outermost scope in which an op ran also ends a step.
 */
IG_API void ig_scope_begin(ig_ctx *ctx);
IG_API void ig_scope_end(ig_ctx *ctx);

#ifdef __cplusplus
}
#endif
#endif
