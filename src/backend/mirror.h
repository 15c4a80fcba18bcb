/*
 * mirror.h - a device's copy of host memory, for devices with memory of their own.
 *
 * Tensors live in host memory on every device: reading, mapping, wrapping and saving use it. A
 * device with memory of its own gets a copy when it first uses a tensor, and keeps it; when one
 * side is written, the other is stale and is updated on its next use.
 */
#ifndef IG_BACKEND_MIRROR_H
#define IG_BACKEND_MIRROR_H

#include "backend/device.h"

enum { IG_LATE_MOST = 8 };

typedef struct ig_mirror {
    char *host;
    uint64_t bytes;
    ig_backend_buffer *buffer; /* on the device; NULL: none yet */
    bool host_old, device_old; /* stale: the other side has newer bytes */
    bool shared; /* the host's bytes are visible to others at any time: every run updates them */

    /* Ranges whose newest bytes only the device has; copied to the host on access. */
    uint32_t n_late;
    struct {
        uint64_t offset, bytes;
    } late[IG_LATE_MOST];
} ig_mirror;

/* Whether the device's copy is complete and current: a replay requires it of every buffer. */
static inline bool ig_mirror_is_there(const ig_mirror *m) {
    return m->buffer && !m->device_old && !m->shared;
}

/* Updates one side. */
IG_MUST_CHECK ig_status ig_mirror_to_device(ig_mirror *mirror, ig_device *device);
IG_MUST_CHECK ig_status ig_mirror_to_host(ig_mirror *mirror, ig_device *device);

/* Copies a range, from whichever side is newer. */
IG_MUST_CHECK ig_status ig_mirror_move(const ig_mirror *mirror, ig_device *device, bool to_device,
                                       uint64_t offset, uint64_t bytes);
/* The same to the host, deferred until access if there is a free entry. */
IG_MUST_CHECK ig_status ig_mirror_move_late(ig_mirror *mirror, ig_device *device, uint64_t offset,
                                            uint64_t bytes);
/* Performs the deferred copies of this range. */
IG_MUST_CHECK ig_status ig_mirror_catch_up(ig_mirror *mirror, ig_device *device, uint64_t offset,
                                           uint64_t bytes);
/* Allocates the device's buffer. */
IG_MUST_CHECK ig_status ig_mirror_reserve(ig_mirror *mirror, ig_device *device);

/* Marks that one side was written. */
static inline void ig_mirror_wrote_host(ig_mirror *m) {
    m->device_old = true;
    m->host_old = false;
}

static inline void ig_mirror_wrote_device(ig_mirror *m) {
    m->host_old = true;
    m->device_old = false;
}

/* Frees the device's copy; newer bytes that only it has are lost. */
void ig_mirror_drop(ig_mirror *mirror, ig_device *device);

#endif
