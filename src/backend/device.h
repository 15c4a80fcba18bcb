/*
 * device.h - a backend's device, with the defaults of backend.h filled in.
 *
 * The layers above the backends call these functions and never see a NULL of a backend's table.
 */
#ifndef IG_BACKEND_DEVICE_H
#define IG_BACKEND_DEVICE_H

#include "backend/plugin/loader.h"
#include "ingot/backend.h"

enum { IG_TAG_COUNT = IG_TAG_OPTIMIZER + 1 };

typedef struct ig_device {
    const ig_backend *backend;
    ig_backend_device *handle;
    ig_backend_device plain; /* the handle if the backend has no open() */
    const ig_allocator *allocator;
    ig_device_info info;
    char name[48];      /* "cpu:0" */
    bool host_memory;   /* a buffer handle is the address of its first byte */
    uint64_t allocated; /* current and peak, in bytes as requested */
    uint64_t peak;
    uint64_t packed;      /* bytes of weights packed in the device's own layouts */
    uint64_t limit;       /* of allocated plus packed bytes; 0: none */
    uint64_t moved_bytes; /* copied between host and device memory */
    ig_compile_fn *overrides[IG_TAG_COUNT]; /* registered overrides; NULL: none */
} ig_device;

/* Available backends in order of preference. */
typedef struct ig_backend_list {
    const ig_backend *const *at;
    uint32_t count;
} ig_backend_list;

/* The number of devices; if the backend returns an invalid number, 0 and the thread's error. */
uint32_t ig_backend_count(const ig_backend *backend, const ig_host *host);

/* Opens a device by name: "auto", "cpu", "cpu:0", "gpu:1", "ref". "auto" is the first available
 * one; "gpu:1" the second of all devices of that class. An unknown name fails with the list of
 * devices. `host` must outlive the device. */
IG_MUST_CHECK ig_status ig_device_open_from(ig_backend_list list, const ig_host *host,
                                            const ig_allocator *allocator, const char *name,
                                            ig_device **out);
/* The same among the built-in backends. */
IG_MUST_CHECK ig_status ig_device_open(const ig_host *host, const ig_allocator *allocator,
                                       const char *name, ig_device **out);
/* Device `index` of a backend. */
IG_MUST_CHECK ig_status ig_device_open_at(const ig_backend *backend, uint32_t index,
                                          const ig_host *host, const ig_allocator *allocator,
                                          ig_device **out);
/* Whether the string is "auto" or names one of the backends. */
bool ig_device_is_listed(ig_backend_list list, const char *name);
void ig_device_close(ig_device *device);
/* Computes a few known results on the device. IG_ERR_DEVICE with the values if they are wrong. */
IG_MUST_CHECK ig_status ig_device_self_test(ig_device *device);

IG_MUST_CHECK ig_status ig_device_alloc(ig_device *device, uint64_t bytes, ig_backend_buffer **out);
void ig_device_free(ig_device *device, ig_backend_buffer *buffer, uint64_t bytes);
IG_MUST_CHECK ig_status ig_device_write(ig_device *device, ig_backend_buffer *dst, uint64_t offset,
                                        const void *src, uint64_t bytes);
IG_MUST_CHECK ig_status ig_device_read(ig_device *device, const ig_backend_buffer *src,
                                       uint64_t offset, void *dst, uint64_t bytes);
/* Bytes left below the limit; UINT64_MAX: no limit. */
uint64_t ig_device_left(const ig_device *device);
ig_memory_stats ig_device_memory(const ig_device *device);
void ig_device_reset_peak(ig_device *device);

/* Bytes from the first element of an operand to one past its last. */
uint64_t ig_operand_span(const ig_operand *o);

bool ig_device_can_run(const ig_device *device, const ig_step *step);
uint64_t ig_device_scratch(const ig_device *device, const ig_step *step);

/* Whether the rows of the matmul can be computed independently: see backend.h. */
bool ig_device_goes_by_row(const ig_device *device, const ig_step *step);
IG_MUST_CHECK ig_status ig_device_sync(ig_device *device);
/* Registers an override that compiles steps of the tag if the device's compile() refuses them. */
IG_MUST_CHECK ig_status ig_device_override(ig_device *device, ig_tag tag, ig_compile_fn *compile);

/*
 * All backends that a context may use: the built-in ones and plugins. Plugins are loaded when a
 * requested device is not built in, so a process that uses none loads no plugin code.
 */
typedef struct ig_registry {
    const ig_allocator *allocator;
    const ig_host *host;
    ig_plugin_places places;
    ig_plugins plugins;     /* including skipped ones */
    const ig_backend **all; /* after loading */
    size_t count, room;
    bool loaded;
} ig_registry;

/* Set the first three fields before and zero the rest. */
IG_MUST_CHECK ig_status ig_registry_open(ig_registry *registry, const char *name, ig_device **out);
/* All backends, plugins included; borrowed. */
IG_MUST_CHECK ig_status ig_registry_list(ig_registry *registry, ig_backend_list *out);
void ig_registry_deinit(ig_registry *registry); /* close its devices first; zeroed: no-op */

#endif
