/*
 * mirror.h - bytes of the host that a device with memory of its own has a copy of.
 *
 * Tensors live in the host's memory, whatever the device: whoever reads, maps,
 * wraps or saves one finds it there.  A device with memory of its own gets a copy
 * when something runs on it, and keeps it; a side that the other one has
 * overwritten is old, and brought up to date when it is needed.
 */
#ifndef IG_BACKEND_MIRROR_H
#define IG_BACKEND_MIRROR_H

#include "backend/device.h"

enum { IG_LATE_MOST = 8 };

typedef struct ig_mirror {
    char *host;
    uint64_t bytes;
    ig_backend_buffer *buffer; /* the device's; NULL: none yet */
    bool host_old, device_old; /* the other side has newer bytes */
    bool shared; /* others look at the host's bytes whenever they like: a run brings them along */

    /* Parts whose newest bytes only the device has, and that come when somebody looks. */
    uint32_t n_late;
    struct {
        uint64_t offset, bytes;
    } late[IG_LATE_MOST];
} ig_mirror;

/* Whether the device has all of it: a replay asks that of every buffer. */
static inline bool ig_mirror_is_there(const ig_mirror *m) {
    return m->buffer && !m->device_old && !m->shared;
}

/* Brings one side up to date. */
IG_MUST_CHECK ig_status ig_mirror_to_device(ig_mirror *mirror, ig_device *device);
IG_MUST_CHECK ig_status ig_mirror_to_host(ig_mirror *mirror, ig_device *device);

/* Part of it, whichever side is newer. */
IG_MUST_CHECK ig_status ig_mirror_move(const ig_mirror *mirror, ig_device *device, bool to_device,
                                       uint64_t offset, uint64_t bytes);
/* The same to the host, but not before it is needed, if there is room to note it. */
IG_MUST_CHECK ig_status ig_mirror_move_late(ig_mirror *mirror, ig_device *device, uint64_t offset,
                                            uint64_t bytes);
/* Makes up for what was noted of these bytes. */
IG_MUST_CHECK ig_status ig_mirror_catch_up(ig_mirror *mirror, ig_device *device, uint64_t offset,
                                           uint64_t bytes);
/* Room on the device for all of it. */
IG_MUST_CHECK ig_status ig_mirror_reserve(ig_mirror *mirror, ig_device *device);

/* One side has been written to. */
static inline void ig_mirror_wrote_host(ig_mirror *m) {
    m->device_old = true;
    m->host_old = false;
}

static inline void ig_mirror_wrote_device(ig_mirror *m) {
    m->host_old = true;
    m->device_old = false;
}

/* Gives the device's copy back; what only that has is lost. */
void ig_mirror_drop(ig_mirror *mirror, ig_device *device);

#endif
