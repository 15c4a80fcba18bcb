#include "backend/mirror.h"

ig_status ig_mirror_reserve(ig_mirror *m, ig_device *device) {
    if (m->buffer || m->bytes == 0) return IG_OK;
    IG_TRY(ig_device_alloc(device, m->bytes, &m->buffer));
    m->device_old = true;
    return IG_OK;
}

ig_status ig_mirror_move(const ig_mirror *m, ig_device *device, bool to_device, uint64_t offset,
                         uint64_t bytes) {
    if (bytes == 0) return IG_OK;
    device->moved_bytes += bytes;
    return to_device ? ig_device_write(device, m->buffer, offset, m->host + offset, bytes)
                     : ig_device_read(device, m->buffer, offset, m->host + offset, bytes);
}

ig_status ig_mirror_move_late(ig_mirror *m, ig_device *device, uint64_t offset, uint64_t bytes) {
    if (m->n_late == IG_LATE_MOST) return ig_mirror_move(m, device, false, offset, bytes);
    m->late[m->n_late].offset = offset;
    m->late[m->n_late++].bytes = bytes;
    return IG_OK;
}

ig_status ig_mirror_catch_up(ig_mirror *m, ig_device *device, uint64_t offset, uint64_t bytes) {
    for (uint32_t i = 0; i < m->n_late;) {
        const uint64_t begin = m->late[i].offset, end = begin + m->late[i].bytes;
        if (begin >= offset + bytes || end <= offset) {
            i++;
            continue;
        }
        IG_TRY(ig_mirror_move(m, device, false, begin, end - begin));
        m->late[i] = m->late[--m->n_late];
    }
    return IG_OK;
}

ig_status ig_mirror_to_device(ig_mirror *m, ig_device *device) {
    IG_TRY(ig_mirror_reserve(m, device));
    if (!m->device_old && !m->shared) return IG_OK;
    IG_TRY(ig_mirror_move(m, device, true, 0, m->bytes));
    m->device_old = false;
    return IG_OK;
}

ig_status ig_mirror_to_host(ig_mirror *m, ig_device *device) {
    IG_TRY(ig_mirror_catch_up(m, device, 0, m->bytes));
    if (!m->host_old) return IG_OK;
    IG_TRY(ig_mirror_move(m, device, false, 0, m->bytes));
    m->host_old = false;
    return IG_OK;
}

void ig_mirror_drop(ig_mirror *m, ig_device *device) {
    if (m->buffer) ig_device_free(device, m->buffer, m->bytes);
    m->buffer = NULL;
    m->n_late = 0;
    m->host_old = false;
    m->device_old = true;
}
