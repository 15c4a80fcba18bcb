/*
 * The reference with memory of its own: what it computes with lies where the host
 * cannot reach it, so whatever is not brought there and back comes out wrong.
 *
 * FAR_FAILS in the environment says what goes wrong:
 *   submit   programs of several steps fail when they are run, after having written to what they
 *            update
 *   always   all programs fail when they are run
 *   later    all programs fail when they are run for the third time
 *   costly   the same, and its state is said to be costly to copy
 *   gone     the same by killing the process
 *   again    what is 4 KiB or more must not be written whole more than twice
 *   status   submit() gives a status that there is not
 *   count    there are four billion devices
 *   open     open() gives a status that there is not
 *   small    the device has 1000 bytes of memory
 *   memory   buffer_alloc() finds no room
 *   nan      from their second run on, programs of several steps give NaN
 *   alloc    buffer_alloc() says yes and gives no buffer
 *   scratch  scratch_bytes() asks for all there is
 *   prepare  prepare() fails
 *   override compile() refuses programs of several steps, and so do overrides
 *   crash    programs of several steps kill the process when they are run
 *   hang     they never end
 *   compile  compile() refuses programs of several steps
 *   split    compile() asks for fewer steps
 *   nothing  compile() says yes and gives no program
 *   number   compile() gives a status that there is not
 *   list     nothing, but the device says that it has no compiler
 *
 * FAR_DELAY_US makes each program take that much longer, asynchronously: submit() returns at once,
 * a copy and synchronize() wait.
 *
 * FAR_SAVES says what there is to keep of a program: "weights" or "no weights".
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "backend/ref/ref.h"
#include "base/alloc.h"

/* A buffer is a box: its address says nothing of the bytes. */
struct ig_backend_buffer {
    uint64_t bytes;
    char *data;
    uint32_t written; /* whole, so often */
};

typedef struct far_device {
    ig_backend_device base;
    uint64_t allocated, peak;
    uint64_t delay_us, busy_until; /* FAR_DELAY_US; 0: none */
} far_device;

typedef struct far_program {
    ig_backend_program base;
    const ig_host *host;
    far_device *device;
    ig_backend_program *inner;
    uint32_t count, runs;
    ig_operand last;    /* result */
    ig_operand updated; /* of the first step that updates something; desc.shape.rank -1: none */
} far_program;

static bool fails(const char *how) {
    const char *said = getenv("FAR_FAILS");
    return said && strcmp(said, how) == 0;
}

static uint32_t far_count(const ig_host *host) {
    (void)host;
    return fails("count") ? UINT32_MAX : 1;
}

static ig_status far_open(const ig_host *host, uint32_t index, ig_backend_device **out) {
    if (fails("open")) return (ig_status)4711;
    far_device *d = host->alloc(host, 1, sizeof *d);
    (void)index;
    if (!d) return IG_HOST_FAIL(host, IG_ERR_MEMORY, "far: device");
    d->base.host = host;
    d->delay_us = getenv("FAR_DELAY_US") ? strtoull(getenv("FAR_DELAY_US"), NULL, 10) : 0;
    if (host->option) { /* they are part of what it compiles for */
        (void)host->option(host, "precision");
        (void)host->option(host, "optimization_level");
    }
    *out = &d->base;
    return IG_OK;
}

static uint64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static void be_busy(far_device *d) {
    const uint64_t now = d->delay_us ? now_us() : 0;
    if (d->busy_until < now) d->busy_until = now;
    d->busy_until += d->delay_us;
}

static ig_status far_synchronize(ig_backend_device *device) {
    const far_device *d = (const far_device *)device;
    for (uint64_t now; d->delay_us > 0 && (now = now_us()) < d->busy_until;)
        usleep((useconds_t)(d->busy_until - now));
    return IG_OK;
}

static void far_close(ig_backend_device *device) { device->host->free(device->host, device); }

static void far_info(const ig_backend_device *device, ig_device_info *out) {
    ig_ref_backend.info(device, out);
    out->device_class = IG_DEVICE_GPU;
    const char *saves = getenv("FAR_SAVES");
    out->flags = fails("costly") ? IG_STATE_BACKUP_ONCE : 0;
    if (!fails("list")) out->flags |= IG_CAN_COMPILE;
    if (saves) out->flags |= IG_NO_EAGER;
    if (saves && strcmp(saves, "no weights") == 0) out->flags |= IG_SAVES_NO_WEIGHTS;
    if (getenv("FAR_DELAY_US")) out->flags |= IG_NEVER_FAILS; /* or the host waits for updates */
    if (fails("small")) out->memory_bytes = 1000;
    snprintf(out->name, sizeof out->name, "reference loops, far away");
}

static ig_status far_alloc(ig_backend_device *device, uint64_t bytes, ig_backend_buffer **out) {
    far_device *d = (far_device *)device;
    const ig_host *host = device->host;
    if (fails("alloc")) return IG_OK;
    if (fails("memory"))
        return IG_HOST_FAIL(host, IG_ERR_MEMORY, "far: no room for %llu bytes",
                            (unsigned long long)bytes);
    ig_backend_buffer *b = host->alloc(host, 1, sizeof *b);
    if (b) b->data = host->alloc(host, bytes, 1);
    if (!b || !b->data) {
        host->free(host, b);
        return IG_HOST_FAIL(host, IG_ERR_MEMORY, "far: %llu bytes", (unsigned long long)bytes);
    }
    memset(b->data, 0xa5, bytes); /* zeros are not promised */
    b->bytes = bytes;
    d->allocated += bytes;
    if (d->allocated > d->peak) d->peak = d->allocated;
    *out = b;
    return IG_OK;
}

static void far_free(ig_backend_device *device, ig_backend_buffer *b) {
    if (!b) return;
    ((far_device *)device)->allocated -= b->bytes;
    device->host->free(device->host, b->data);
    device->host->free(device->host, b);
}

static ig_status far_write(ig_backend_device *device, ig_backend_buffer *dst, uint64_t offset,
                           const void *src, uint64_t bytes) {
    if (offset > dst->bytes || bytes > dst->bytes - offset)
        return IG_HOST_FAIL(device->host, IG_ERR_DEVICE, "far: a write beyond the end");
    if (bytes == dst->bytes && dst->written++ > 1 && bytes >= 4096 && fails("again"))
        return IG_HOST_FAIL(device->host, IG_ERR_DEVICE, "far: %llu bytes came again and again",
                            (unsigned long long)bytes);
    IG_TRY(far_synchronize(device));
    memcpy(dst->data + offset, src, bytes);
    return IG_OK;
}

static ig_status far_read(ig_backend_device *device, const ig_backend_buffer *src, uint64_t offset,
                          void *dst, uint64_t bytes) {
    if (offset > src->bytes || bytes > src->bytes - offset)
        return IG_HOST_FAIL(device->host, IG_ERR_DEVICE, "far: a read beyond the end");
    IG_TRY(far_synchronize((ig_backend_device *)device));
    memcpy(dst, src->data + offset, bytes);
    return IG_OK;
}

static void far_stats(const ig_backend_device *device, ig_memory_stats *out) {
    const far_device *d = (const far_device *)device;
    *out = (ig_memory_stats){d->allocated, d->peak, UINT64_MAX};
}

static void far_reset(ig_backend_device *device) {
    ((far_device *)device)->peak = ((far_device *)device)->allocated;
}

static bool far_can_run(const ig_backend_device *device, const ig_step *step) {
    return ig_ref_backend.can_run(device, step);
}

static uint64_t far_scratch(const ig_backend_device *device, const ig_step *step) {
    (void)device, (void)step;
    return fails("scratch") ? UINT64_MAX - 7 : 0;
}

static ig_status broken_override(ig_backend_device *device, const ig_step *steps, uint32_t count,
                                 ig_blob saved, ig_progress *progress, ig_backend_program **out) {
    (void)steps, (void)saved, (void)progress, (void)out;
    return IG_HOST_FAIL(device->host, IG_ERR_UNSUPPORTED, "far: no override of %u steps", count);
}

static ig_status far_prepare(ig_backend_device *device, const ig_step *steps, uint32_t count) {
    (void)steps, (void)count;
    for (int tag = IG_TAG_NONE + 1; fails("override") && tag <= IG_TAG_OPTIMIZER; tag++)
        IG_TRY(device->host->register_override(device, (ig_tag)tag, broken_override));
    if (!fails("prepare")) return IG_OK;
    return IG_HOST_FAIL(device->host, IG_ERR_DEVICE, "far: cannot prepare");
}

static ig_status far_submit(ig_backend_program *program, ig_backend_buffer *const *buffers,
                            uint32_t n_buffers, const ig_slot *slots, uint32_t n_slots) {
    far_program *p = (far_program *)program;
    p->runs++;
    be_busy(p->device);
    if (fails("status")) return (ig_status)4711;
    if ((fails("crash") && p->count > 1) || (fails("gone") && p->runs > 2)) raise(SIGSEGV);
    while (fails("hang") && p->count > 1) sleep(1000);
    char **data = p->host->alloc(p->host, n_buffers, sizeof *data);
    if (!data) return IG_HOST_FAIL(p->host, IG_ERR_MEMORY, "far: %u buffers", n_buffers);
    for (uint32_t i = 0; i < n_buffers; i++) data[i] = buffers[i] ? buffers[i]->data : NULL;
    ig_status status = IG_OK;
    const bool late = (fails("later") || fails("costly")) && p->runs > 2;
    if (fails("always") || (fails("submit") && p->count > 1) || late) {
        if (p->updated.desc.shape.rank >= 0)
            memset(data[p->updated.buffer] + p->updated.offset, 0xff, 4);
        status = IG_HOST_FAIL(p->host, IG_ERR_DEVICE, "far: %u steps caught fire", p->count);
    } else {
        status =
            p->inner->submit(p->inner, (ig_backend_buffer *const *)data, n_buffers, slots, n_slots);
    }
    if (status == IG_OK && fails("nan") && p->count > 1 && p->runs > 1)
        memset(data[p->last.buffer] + p->last.offset, 0xff, sizeof(float));
    p->host->free(p->host, data);
    return status;
}

static void far_destroy(ig_backend_program *program) {
    far_program *p = (far_program *)program;
    const ig_host *host = p->host;
    p->inner->destroy(p->inner);
    host->free(host, p);
}

static ig_status far_compile(ig_backend_device *device, const ig_step *steps, uint32_t count,
                             ig_blob saved, ig_progress *progress, ig_backend_program **out) {
    const ig_host *host = device->host;
    if ((fails("compile") || fails("override")) && count > 1)
        return IG_HOST_FAIL(host, IG_ERR_UNSUPPORTED, "far: %u steps at once", count);
    if (fails("split") && count > 1)
        return IG_HOST_FAIL(host, IG_ERR_SPLIT, "far: %u steps are too many", count);
    if (fails("nothing")) return IG_OK;
    if (fails("number")) return (ig_status)4711;
    far_program *p = host->alloc(host, 1, sizeof *p);
    if (!p) return IG_HOST_FAIL(host, IG_ERR_MEMORY, "far: program");
    *p = (far_program){.base = {far_submit, far_destroy}, .host = host, .count = count};
    p->device = (far_device *)device;
    p->updated.desc.shape.rank = -1;
    p->last = ig_step_at(steps, count - 1)->out[0];
    for (uint32_t i = 0; i < count; i++)
        if (steps[i].n_out > 0 && steps[i].out[0].alias >= 0 && steps[i].op != IG_OP_STORE_ROWS)
            p->updated = steps[i].out[0]; /* stores write some rows alone */
    const ig_status status =
        ig_ref_backend.compile(device, steps, count, saved, progress, &p->inner);
    if (status == IG_OK)
        *out = &p->base;
    else
        host->free(host, p);
    return status;
}

static ig_status far_save(const ig_backend_program *program, ig_blob *out) {
    (void)program;
    *out = (ig_blob){"far", 3};
    return IG_OK;
}

/* The environment chooses which functions there are. */
#define FAR(sync, store)                                                                          \
    {                                                                                             \
        .abi = IG_BACKEND_ABI, .struct_size = sizeof(ig_backend), .name = "far", .version = "1",  \
        .count = far_count, .open = far_open, .close = far_close, .info = far_info,               \
        .buffer_alloc = far_alloc, .buffer_free = far_free, .write = far_write, .read = far_read, \
        .memory_stats = far_stats, .reset_memory_stats = far_reset, .can_run = far_can_run,       \
        .scratch_bytes = far_scratch, .prepare = far_prepare, .compile = far_compile,             \
        .synchronize = (sync), .save = (store)                                                    \
    }

const ig_backend *ig_backend_entry(void) {
    static const ig_backend backends[2][2] = {
        {FAR(NULL, NULL), FAR(NULL, far_save)},
        {FAR(far_synchronize, NULL), FAR(far_synchronize, far_save)},
    };
    return &backends[getenv("FAR_DELAY_US") != NULL][getenv("FAR_SAVES") != NULL];
}
