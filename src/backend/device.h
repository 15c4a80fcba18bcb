/*
 * device.h - a backend's device with the defaults of backend.h filled in.
 *
 * Everything above the backends calls these; a NULL in a backend's table never
 * shows.
 */
#ifndef IG_BACKEND_DEVICE_H
#define IG_BACKEND_DEVICE_H

#include "backend/plugin/loader.h"
#include "ingot/backend.h"

enum { IG_TAG_COUNT = IG_TAG_OPTIMIZER + 1 };

typedef struct ig_device {
    const ig_backend *backend;
    ig_backend_device *handle;
    ig_backend_device plain; /* the handle, where the backend has no open() */
    const ig_allocator *allocator;
    ig_device_info info;
    char name[48];      /* "cpu:0" */
    bool host_memory;   /* a buffer is the address of its first byte */
    uint64_t allocated; /* now and at most, as it was asked for */
    uint64_t peak;
    uint64_t packed;                        /* that weights take in layouts of a device's own */
    uint64_t limit;                         /* of what is allocated and packed; 0: none */
    uint64_t moved_bytes;                   /* between the host's memory and its own */
    ig_compile_fn *overrides[IG_TAG_COUNT]; /* as they were registered; NULL: none */
} ig_device;

/* Backends to choose from, the better ones first. */
typedef struct ig_backend_list {
    const ig_backend *const *at;
    uint32_t count;
} ig_backend_list;

/* The name of one of those that are built in, and no stand-in; NULL: there are no more. */
const char *ig_backend_built_in(uint32_t number);

/* How many devices there are; where a backend says something absurd, 0 and the thread's error. */
uint32_t ig_backend_count(const ig_backend *backend, const ig_host *host);

/* Opens the device that a string names: "auto", "cpu", "cpu:0", "gpu:1", "ref".  "auto" is the
 * first that is available; "gpu:1" the second of all devices of that class.  An unknown one is an
 * error that lists what exists.  `host` must outlive the device. */
IG_MUST_CHECK ig_status ig_device_open_from(ig_backend_list list, const ig_host *host,
                                            const ig_allocator *allocator, const char *name,
                                            ig_device **out);
/* The same among those that are built in. */
IG_MUST_CHECK ig_status ig_device_open(const ig_host *host, const ig_allocator *allocator,
                                       const char *name, ig_device **out);
/* Device `index` of a backend. */
IG_MUST_CHECK ig_status ig_device_open_at(const ig_backend *backend, uint32_t index,
                                          const ig_host *host, const ig_allocator *allocator,
                                          ig_device **out);
/* Whether the string is "auto" or names one of the backends. */
bool ig_device_is_listed(ig_backend_list list, const char *name);
void ig_device_close(ig_device *device);

IG_MUST_CHECK ig_status ig_device_alloc(ig_device *device, uint64_t bytes, ig_backend_buffer **out);
void ig_device_free(ig_device *device, ig_backend_buffer *buffer, uint64_t bytes);
IG_MUST_CHECK ig_status ig_device_write(ig_device *device, ig_backend_buffer *dst, uint64_t offset,
                                        const void *src, uint64_t bytes);
IG_MUST_CHECK ig_status ig_device_read(ig_device *device, const ig_backend_buffer *src,
                                       uint64_t offset, void *dst, uint64_t bytes);
/* What the limit leaves; UINT64_MAX where there is none. */
uint64_t ig_device_left(const ig_device *device);
ig_memory_stats ig_device_memory(const ig_device *device);
void ig_device_reset_peak(ig_device *device);

/* Bytes from the first element of an operand to behind its last. */
uint64_t ig_operand_span(const ig_operand *o);

bool ig_device_can_run(const ig_device *device, const ig_step *step);
uint64_t ig_device_scratch(const ig_device *device, const ig_step *step);

/* Whether rows of the product can be computed by themselves: backend.h. */
bool ig_device_goes_by_row(const ig_device *device, const ig_step *step);
IG_MUST_CHECK ig_status ig_device_sync(ig_device *device);
/* Steps of the tag that the device's compile() turns down go to this function. */
IG_MUST_CHECK ig_status ig_device_override(ig_device *device, ig_tag tag, ig_compile_fn *compile);

/*
 * All backends that a context may use: those that are built in, and plugins.
 * Plugins are loaded when a device is asked for that is not built in, so that
 * who wants none pays nothing and runs nobody's code.
 */
typedef struct ig_registry {
    const ig_allocator *allocator;
    const ig_host *host;
    ig_plugin_places places;
    ig_plugins plugins;     /* those that were skipped, too */
    const ig_backend **all; /* once loaded */
    size_t count, room;
    bool loaded;
} ig_registry;

/* A registry starts with its first three fields set and the rest zero. */
IG_MUST_CHECK ig_status ig_registry_open(ig_registry *registry, const char *name, ig_device **out);
/* All there are, plugins included; lent. */
IG_MUST_CHECK ig_status ig_registry_list(ig_registry *registry, ig_backend_list *out);
void ig_registry_deinit(ig_registry *registry); /* after its devices; a zeroed one is fine */

#endif
