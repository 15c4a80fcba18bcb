/*
 * A backend that accepts every step and computes nothing: the skeleton to copy for a new device,
 * and a way to test the host alone.
 *
 * It implements every function of the contract in the order of backend.h, as a device would need
 * it, on host memory; each comment says what NULL means instead. Most functions can be NULL, so
 * delete what your device does not need: a name and compile() are a complete backend.
 *
 * A plugin ends this file with ig_backend_entry(), and is built by
 *     cc -std=c17 -shared -fPIC -I<ingot>/include null.c -o null.so
 */
#include <ingot/backend.h>
#include <stdio.h>

/* A built-in backend is listed by this name; a plugin is found through ig_backend_entry(). */
extern const ig_backend ig_null_backend;

/* The host's struct first, then the device's own state. */
typedef struct null_device {
    ig_backend_device base;
    uint64_t allocated, peak; /* bytes in buffers */
} null_device;

/* A header before each buffer's bytes, so that a free can be counted; it keeps them aligned. */
typedef struct null_header {
    _Alignas(64) uint64_t bytes;
} null_header;

/* Steps, attrs and operands are valid during compile() only: a program copies what it needs. This
 * one needs only the host, to free itself. */
typedef struct null_program {
    ig_backend_program base;
    const ig_host *host;
    uint32_t count;
} null_program;

/* ---- Devices ---- */

/* Whether the driver is present. If not, return false; it is not an error. host->fail() records
 * the reason for `ingot devices`. NULL: always available. */
static bool null_is_available(const ig_host *host) {
    (void)host;
    return true;
}

/* "null:0" up to "null:count-1".  NULL: one. */
static uint32_t null_count(const ig_host *host) {
    (void)host;
    return 1;
}

/* NULL: the host provides an ig_backend_device, and close() is NULL too. */
static ig_status null_open(const ig_host *host, uint32_t index, ig_backend_device **out) {
    if (index >= null_count(host))
        return IG_HOST_FAIL(host, IG_ERR_DEVICE, "null:%u: there is only null:0", index);
    null_device *device = host->alloc(host, 1, sizeof *device);
    if (!device) return IG_HOST_FAIL(host, IG_ERR_MEMORY, "null: device");
    device->base.host = host;
    *out = &device->base;
    return IG_OK;
}

static void null_close(ig_backend_device *device) { device->host->free(device->host, device); }

/* `out` is zeroed except for struct_size, the number of bytes that the host knows. Derive `dtypes`
 * from your table of kernels: this backend has no kernels. NULL: class cpu, no name. */
static void null_info(const ig_backend_device *device, ig_device_info *out) {
    (void)device;
    out->device_class = IG_DEVICE_CPU;
    out->flags = IG_NEVER_FAILS; /* omit if submit() can fail: the host then backs up state */
    out->alignment = 64;
    snprintf(out->name, sizeof out->name, "computes nothing");
    snprintf(out->architecture, sizeof out->architecture, "any");
}

/* ---- Memory.  NULL, all six: the host's ---- */

/* The device defines what a buffer handle is. Here it is the address of its first byte, the
 * default. */
static ig_status null_buffer_alloc(ig_backend_device *device, uint64_t bytes,
                                   ig_backend_buffer **out) {
    null_device *d = (null_device *)device;
    const ig_host *host = device->host;
    null_header *header = NULL;
    if (bytes < SIZE_MAX - sizeof *header)
        header = host->alloc(host, (size_t)bytes + sizeof *header, 1);
    if (!header)
        return IG_HOST_FAIL(host, IG_ERR_MEMORY, "null: a buffer of %llu bytes",
                            (unsigned long long)bytes);
    header->bytes = bytes;
    d->allocated += bytes;
    if (d->peak < d->allocated) d->peak = d->allocated;
    *out = (ig_backend_buffer *)(header + 1);
    return IG_OK;
}

static void null_buffer_free(ig_backend_device *device, ig_backend_buffer *buffer) {
    if (!buffer) return;
    null_header *header = (null_header *)buffer - 1;
    ((null_device *)device)->allocated -= header->bytes;
    device->host->free(device->host, header);
}

/* Copies are ordered with submitted programs: a read waits for earlier submissions. */
static ig_status null_write(ig_backend_device *device, ig_backend_buffer *dst, uint64_t offset,
                            const void *src, uint64_t bytes) {
    (void)device;
    if (bytes > 0) memcpy((char *)dst + offset, src, (size_t)bytes);
    return IG_OK;
}

static ig_status null_read(ig_backend_device *device, const ig_backend_buffer *src, uint64_t offset,
                           void *dst, uint64_t bytes) {
    (void)device;
    if (bytes > 0) memcpy(dst, (const char *)src + offset, (size_t)bytes);
    return IG_OK;
}

static void null_memory_stats(const ig_backend_device *device, ig_memory_stats *out) {
    const null_device *d = (const null_device *)device;
    *out = (ig_memory_stats){d->allocated, d->peak, UINT64_MAX};
}

static void null_reset_memory_stats(ig_backend_device *device) {
    null_device *d = (null_device *)device;
    d->peak = d->allocated;
}

/* ---- Programs ---- */

/* Must have no side effects. Call ig_step_known() first: it is false for ops and attributes newer
 * than this file. Then check dtypes, shapes, strides and dynamic_dim; on false the planner inserts
 * a packed copy or takes another device. NULL: compile() is asked instead. */
static bool null_can_run(const ig_backend_device *device, const ig_step *step) {
    (void)device;
    return ig_step_known(step);
}

/* Bytes of scratch the step needs in IG_ARENA, from scratch_offset on, during a run. NULL: 0. */
static uint64_t null_scratch_bytes(const ig_backend_device *device, const ig_step *step) {
    (void)device, (void)step;
    return 0;
}

/* Called with all steps of a plan before any is compiled; host->register_override() can be called
 * here to register the function that compiles steps of a tag that compile() refuses. NULL: no-op.
 */
static ig_status null_prepare(ig_backend_device *device, const ig_step *steps, uint32_t count) {
    (void)device, (void)steps, (void)count;
    return IG_OK;
}

/* Runs the steps. A device finds each operand at buffers[operand.buffer] plus its offset, and
 * reads values that change between runs from `slots`. */
static ig_status null_submit(ig_backend_program *program, ig_backend_buffer *const *buffers,
                             uint32_t n_buffers, const ig_slot *slots, uint32_t n_slots) {
    (void)program, (void)buffers, (void)n_buffers, (void)slots, (void)n_slots;
    return IG_OK;
}

static void null_destroy(ig_backend_program *program) {
    const ig_host *host = ((null_program *)program)->host;
    host->free(host, program);
}

/* Everything that can fail should fail here, with a message that names the step. A slow compiler
 * calls host->progress(progress, done, total), stops when that returns false and returns
 * IG_ERR_CANCELLED; one that uses `saved` validates it first. */
static ig_status null_compile(ig_backend_device *device, const ig_step *steps, uint32_t count,
                              ig_blob saved, ig_progress *progress, ig_backend_program **out) {
    (void)saved, (void)progress;
    const ig_host *host = device->host;
    for (uint32_t i = 0; i < count; i++) {
        const ig_step *step = ig_step_at(steps, i); /* the host's may be larger */
        if (!null_can_run(device, step))
            return IG_HOST_FAIL(host, IG_ERR_UNSUPPORTED, "null: step %u: %s is not known", i,
                                ig_op_name(step->op));
    }
    null_program *p = host->alloc(host, 1, sizeof *p);
    if (!p) return IG_HOST_FAIL(host, IG_ERR_MEMORY, "null: %u steps", count);
    *p = (null_program){{null_submit, null_destroy}, host, count};
    *out = &p->base;
    return IG_OK;
}

/* Bytes from which compile() can rebuild the program faster, borrowed until the program is
 * destroyed; the host stores them in its compile cache. NULL: programs are not cached. */
static ig_status null_save(const ig_backend_program *program, ig_blob *out) {
    const null_program *p = (const null_program *)program;
    *out = (ig_blob){&p->count, sizeof p->count};
    return IG_OK;
}

/* Waits for everything submitted. NULL: submit() returns when the work is done. */
static ig_status null_synchronize(ig_backend_device *device) {
    (void)device;
    return IG_OK;
}

/* Counters since the device was opened. NULL: none. */
static void null_counters(const ig_backend_device *device, ig_device_counters *out) {
    (void)device;
    *out = (ig_device_counters){0};
}

const ig_backend ig_null_backend = {
    .abi = IG_BACKEND_ABI,
    .struct_size = sizeof(ig_backend),
    .name = "null",
    .version = "1",
    .is_available = null_is_available,
    .count = null_count,
    .open = null_open,
    .close = null_close,
    .info = null_info,
    .buffer_alloc = null_buffer_alloc,
    .buffer_free = null_buffer_free,
    .write = null_write,
    .read = null_read,
    .memory_stats = null_memory_stats,
    .reset_memory_stats = null_reset_memory_stats,
    .can_run = null_can_run,
    .scratch_bytes = null_scratch_bytes,
    .prepare = null_prepare,
    .compile = null_compile,
    .save = null_save,
    .synchronize = null_synchronize,
    .counters = null_counters,
};
