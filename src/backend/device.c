/* Defaults for backend.h: host memory, one device, synchronous. */
#include "backend/device.h"

#include <stdio.h>

#include "base/machine_memory.h"
#include "base/quant_blocks.h"

/* Systems overcommit memory and kill the process that uses it: check large requests against what
 * is available. */
static ig_status check_room(const ig_device *device, uint64_t bytes) {
    enum { LARGE = 64 << 20 };
    const uint64_t available = bytes >= LARGE ? ig_memory_available() : UINT64_MAX;
    if (bytes <= available) return IG_OK;
    return IG_FAIL(IG_ERR_MEMORY, "%s: a buffer of %llu bytes, but %llu are available",
                   device->name, (unsigned long long)bytes, (unsigned long long)available);
}

/* Checks a plugin's return value: it may be any number. */
static ig_status sane(const ig_device *device, const char *function, ig_status status) {
    if ((unsigned)status < IG_STATUS_COUNT) return status;
    return IG_FAIL(IG_ERR_DEVICE, "%s: %s() gave status %d", device->name, function, (int)status);
}

static ig_status alloc_there(ig_device *device, uint64_t bytes, ig_backend_buffer **out) {
    ig_backend_buffer *buffer = NULL;
    IG_TRY(sane(device, "buffer_alloc",
                device->backend->buffer_alloc(device->handle, bytes, &buffer)));
    if (!buffer)
        return IG_FAIL(IG_ERR_DEVICE, "%s: buffer_alloc() gave no buffer of %llu bytes",
                       device->name, (unsigned long long)bytes);
    *out = buffer;
    return IG_OK;
}

static ig_status alloc_here(ig_device *device, uint64_t bytes, ig_backend_buffer **out) {
    IG_TRY(check_room(device, bytes));
    void *p = ig_alloc(device->allocator, bytes, 1);
    if (!p)
        return IG_FAIL(IG_ERR_MEMORY, "%s: no room for a buffer of %llu bytes", device->name,
                       (unsigned long long)bytes);
    *out = p;
    return IG_OK;
}

uint64_t ig_device_left(const ig_device *device) {
    const uint64_t taken = device->allocated + device->packed;
    if (!device->limit) return UINT64_MAX;
    return device->limit > taken ? device->limit - taken : 0;
}

static ig_status check_limit(const ig_device *device, uint64_t bytes) {
    const uint64_t left = ig_device_left(device);
    char packed[64] = "";
    if (bytes <= left) return IG_OK;
    if (device->packed)
        snprintf(packed, sizeof packed, "; packed weights take %llu",
                 (unsigned long long)device->packed);
    return IG_FAIL(IG_ERR_MEMORY,
                   "%s: a buffer of %llu bytes exceeds the limit: of %llu bytes, %llu are left%s",
                   device->name, (unsigned long long)bytes, (unsigned long long)device->limit,
                   (unsigned long long)left, packed);
}

ig_status ig_device_alloc(ig_device *device, uint64_t bytes, ig_backend_buffer **out) {
    IG_TRY(check_limit(device, bytes));
    IG_TRY(device->host_memory ? alloc_here(device, bytes, out) : alloc_there(device, bytes, out));
    device->allocated += bytes;
    if (device->allocated > device->peak) device->peak = device->allocated;
    return IG_OK;
}

void ig_device_free(ig_device *device, ig_backend_buffer *buffer, uint64_t bytes) {
    if (!buffer) return;
    device->allocated -= bytes;
    if (device->host_memory)
        ig_free(device->allocator, buffer);
    else
        device->backend->buffer_free(device->handle, buffer);
}

ig_status ig_device_write(ig_device *device, ig_backend_buffer *dst, uint64_t offset,
                          const void *src, uint64_t bytes) {
    if (!device->host_memory)
        return sane(device, "write",
                    device->backend->write(device->handle, dst, offset, src, bytes));
    if (bytes) memcpy((char *)dst + offset, src, bytes);
    return IG_OK;
}

ig_status ig_device_read(ig_device *device, const ig_backend_buffer *src, uint64_t offset,
                         void *dst, uint64_t bytes) {
    if (!device->host_memory)
        return sane(device, "read", device->backend->read(device->handle, src, offset, dst, bytes));
    if (bytes) memcpy(dst, (const char *)src + offset, bytes);
    return IG_OK;
}

ig_memory_stats ig_device_memory(const ig_device *device) {
    ig_memory_stats stats = {device->allocated, device->peak, ig_memory_available()};
    if (device->backend->memory_stats) device->backend->memory_stats(device->handle, &stats);
    const uint64_t left = ig_device_left(device);
    if (left < stats.available_bytes) stats.available_bytes = left;
    return stats;
}

void ig_device_reset_peak(ig_device *device) {
    device->peak = device->allocated;
    if (device->backend->reset_memory_stats) device->backend->reset_memory_stats(device->handle);
}

bool ig_device_can_run(const ig_device *device, const ig_step *step) {
    const ig_backend *b = device->backend;
    ig_backend_program *program = NULL;
    if (b->can_run) return b->can_run(device->handle, step);
    if (!ig_step_known(step)) return false;
    const bool can = b->compile(device->handle, step, 1, (ig_blob){0}, NULL, &program) == IG_OK;
    if (program && program->destroy) program->destroy(program);
    return can && program;
}

uint64_t ig_device_scratch(const ig_device *device, const ig_step *step) {
    const ig_backend *b = device->backend;
    return b->scratch_bytes ? b->scratch_bytes(device->handle, step) : 0;
}

bool ig_device_goes_by_row(const ig_device *device, const ig_step *step) {
    const ig_backend *b = device->backend;
    return b->can_chunk_rows && b->can_chunk_rows(device->handle, step);
}

ig_status ig_device_override(ig_device *device, ig_tag tag, ig_compile_fn *compile) {
    if ((uint32_t)tag >= IG_TAG_COUNT || tag == IG_TAG_NONE)
        return IG_FAIL(IG_ERR_UNSUPPORTED, "register_override: %s: there is no tag %d",
                       device->name, (int)tag);
    device->overrides[tag] = compile;
    return IG_OK;
}

ig_status ig_device_sync(ig_device *device) {
    const ig_backend *b = device->backend;
    return b->synchronize ? sane(device, "synchronize", b->synchronize(device->handle)) : IG_OK;
}

uint64_t ig_operand_span(const ig_operand *o) {
    const int64_t block = ig_dtype_block(o->desc.dtype);
    int64_t last = 0;
    for (int d = 0; d < o->desc.shape.rank; d++) {
        if (o->desc.shape.dim[d] == 0) return 0;
        last += (o->desc.shape.dim[d] - 1) * o->stride[d];
    }
    return (uint64_t)ig_bytes_of(o->desc.dtype, last / block * block + block);
}
