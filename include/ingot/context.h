/*
 * context.h - the one object everything else hangs from.
 *
 * There is no global state and nothing to initialise first: two contexts share
 * nothing.  A context and what was made from it belong to one thread at a time.
 */
#ifndef INGOT_CONTEXT_H
#define INGOT_CONTEXT_H

#include "ingot/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where a context takes its memory from.  Both functions may be called from several threads. */
typedef struct ig_allocator {
    void *(*alloc)(void *user, size_t bytes, size_t alignment); /* NULL: none left */
    void (*free)(void *user, void *p);                          /* never NULL */
    void *user;
} ig_allocator;

/* How devices that compile programs shall do it; what a device does not know it ignores. */
typedef struct ig_compile_options {
    int optimization_level;  /* 1: fast to compile, 3: fast to run */
    const char *precision;   /* "f32", "bf16", "int8" */
    const char *batch_sizes; /* "1,8,64": rows that there shall be programs for */
} ig_compile_options;

/* Zero means the default, for every field here and in every options struct. */
typedef struct ig_ctx_options {
    /* "auto", "cpu", "gpu:1", "npu", "vulkan:0": device.h.  Else INGOT_DEVICE, else RM_DEVICE, else
     * what the user's config.json says, else "auto". */
    const char *device;
    int threads;   /* as many as the process may use */
    uint64_t seed; /* of parameters that are drawn, and of dropout */
    bool strict; /* another device than the one asked for is an error; so too if config.json says */
    bool verbose; /* what happens goes to stderr, where there is no log(); likewise */

    /* What happens, in words.  NULL: silence. */
    void (*log)(void *user, ig_log_level level, const char *text);
    /* How far a long job is: "compile" and "pack", of a plan's programs, never goes back; "from the
     * cache" is how many programs of a plan were there already, "to the cache" how many of it are
     * kept now; "weights from the cache" and "weights to the cache" are bytes so far.  NULL: nobody
     * asks. */
    void (*progress)(void *user, const char *what, uint64_t done, uint64_t total);
    /* Asked between steps of a long job and before every run; true: it ends with
     * IG_ERR_CANCELLED. */
    bool (*cancel)(void *user);
    void *user; /* of these three, and of accept_plugin */

    ig_allocator allocator; /* both functions or neither */

    /* Plugins to look for besides INGOT_PLUGIN_PATH and those of the installation: absolute paths
     * of folders and libraries, with ':' between.  "/a/b.so#sha256=9f86..." is that very file. */
    const char *plugins;
    /* Asked before a plugin is loaded; false: it is not, for the reason given to IG_FAIL().  NULL:
     * all that are safe to load are. */
    bool (*accept_plugin)(void *user, const char *path);
    /* Each plugin runs in a process of its own: one that crashes, or gives no answer for a minute
     * (INGOT_PLUGIN_SECONDS), is a device that failed, and another one goes on. */
    bool isolate_plugins;

    /* The first thing when the context is destroyed: the last moment to ask for its report. */
    void (*closing)(void *user, const ig_ctx *ctx);

    ig_compile_options compile; /* each field, else what config.json says */
    const char *cache_dir; /* of compiled programs; else INGOT_CACHE_DIR, else RM_CACHE_DIR, else
                              what config.json says, else $XDG_CACHE_HOME/ingot */
    bool no_cache;         /* nothing is read from there or kept */
    bool cache_weights;    /* weights that a device has packed are kept there, too */
    uint64_t cache_bytes; /* of all programs; the least recently used go.  IG_CACHE_BYTES_DEFAULT */

    uint64_t memory_bytes; /* that tensors, plans and packed weights may take on each device; more
                              is IG_ERR_MEMORY, but weights are read as they lie instead.  As much
                              as there is */
} ig_ctx_options;

#define IG_CACHE_BYTES_DEFAULT (UINT64_C(4) << 30)

/*
 * NULL options are all defaults.  What they leave open is taken from the
 * environment, and then from $XDG_CONFIG_HOME/ingot/config.json (~/.config/...):
 *     {"device": "npu", "plugins": ["/opt/vendor/npu.so"], "cache_dir": "/var/cache/ingot",
 *      "compile_options": {"optimization_level": 3, "precision": "bf16", "batch_sizes": [1, 8]},
 *      "strict": true, "verbose": true}
 */
IG_API IG_MUST_CHECK ig_status ig_ctx_create(const ig_ctx_options *options, ig_ctx **out);

/* The folder below which a context with these options keeps compiled programs. */
IG_API IG_MUST_CHECK ig_status ig_cache_dir(const ig_ctx_options *options, char *out,
                                            size_t out_bytes);

/* Tensors, modules and optimisers of the context must have been released before. */
IG_API void ig_ctx_destroy(ig_ctx *ctx);

/*
 * Goes on with another device, between two steps: tensors, optimisers, captures
 * and sessions stay what they are, and what they compute next is computed there.
 * If this fails, everything is as it was.  The memory of the old device is given
 * back.
 */
IG_API IG_MUST_CHECK ig_status ig_switch_device(ig_ctx *ctx, const char *device);

/* Gives back the memory that is kept to be used again; what is in use stays. */
IG_API void ig_ctx_release_memory(ig_ctx *ctx);

/* As the context was made. */
IG_API uint64_t ig_ctx_seed(const ig_ctx *ctx);
IG_API const char *ig_ctx_device(const ig_ctx *ctx);    /* as it was resolved, "cpu:0" say; lent */
IG_API uint32_t ig_ctx_device_class(const ig_ctx *ctx); /* of it: ig_device_class of backend.h */
IG_API const char *ig_ctx_batch_sizes(const ig_ctx *ctx); /* of the compile options; "": not said */
IG_API const ig_allocator *ig_ctx_allocator(const ig_ctx *ctx); /* lent */
/* For who works long on a context's behalf: calls progress() of its options, where there is one.
 * False: cancel() says that it is to end. */
IG_API bool ig_ctx_tell(const ig_ctx *ctx, const char *what, uint64_t done, uint64_t total);

/*
 * Tensors that ops make between begin and end go at end, unless retained; scopes
 * nest.  Outside of every scope they go when the next step begins: with the
 * first op after an optimiser's step or an ig_step_end().  The end of an
 * outermost scope in which something was computed ends a step, too: what was made
 * before it, outside of it, then goes with the next op as well.
 */
IG_API void ig_scope_begin(ig_ctx *ctx);
IG_API void ig_scope_end(ig_ctx *ctx);

#ifdef __cplusplus
}
#endif
#endif
