#include "backend/plugin/isolate.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/device.h"

enum { SECONDS = 60, OPTIONS = 3, OPTION_BYTES = 128 };

struct ig_backend_buffer {
    char *data; /* shared with the child */
    uint64_t bytes;
    uint32_t id; /* id in the child */
};

typedef struct isolated_device {
    ig_backend_device base;
    const char *path; /* the plugin's */
    ig_device_info info;
    bool has_memory;
    pid_t child; /* 0: it has ended, and `reason` says why */
    int socket, wait_ms;
    char reason[256];
} isolated_device;

typedef struct isolated_program {
    ig_backend_program base;
    isolated_device *device;
    uint32_t id;
    void *saved; /* returned by save() */
    size_t saved_bytes;
} isolated_program;

/* ---- the child's end ---- */

/* Kills the child if it still runs, and records the reason. */
static ig_status give_up(isolated_device *d, const char *why) {
    int how = 0;
    if (d->child == 0) return IG_FAIL(IG_ERR_DEVICE, "%s", d->reason);
    if (waitpid(d->child, &how, WNOHANG) == 0) {
        kill(d->child, SIGKILL);
        while (waitpid(d->child, NULL, 0) < 0 && errno == EINTR) continue;
        snprintf(d->reason, sizeof d->reason, "%s: %s", d->path, why);
    } else if (WIFSIGNALED(how)) {
        snprintf(d->reason, sizeof d->reason, "%s: its process died of signal %d (%s)", d->path,
                 WTERMSIG(how), strsignal(WTERMSIG(how)));
    } else {
        snprintf(d->reason, sizeof d->reason, "%s: its process ended with exit code %d", d->path,
                 WEXITSTATUS(how));
    }
    close(d->socket);
    d->child = 0;
    return IG_FAIL(IG_ERR_DEVICE, "%s", d->reason);
}

/* A child that has closed its socket may need a moment to exit. */
static ig_status lost(isolated_device *d) {
    siginfo_t info;
    for (int i = 0; i < 100; i++) {
        info.si_pid = 0;
        if (waitid(P_PID, (id_t)d->child, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid)
            break;
        usleep(1000);
    }
    return give_up(d, "its process no longer answers");
}

/* Waits for a reply, up to wait_ms. */
static ig_status take(isolated_device *d, void *reply, size_t bytes, int *out_fd) {
    struct pollfd p = {d->socket, POLLIN, 0};
    int ready;
    do {
        ready = poll(&p, 1, d->wait_ms);
    } while (ready < 0 && errno == EINTR);
    if (ready == 0) {
        char why[64];
        snprintf(why, sizeof why, "no answer within %d s", d->wait_ms / 1000);
        return give_up(d, why);
    }
    return isolate_take(d->socket, reply, bytes, out_fd) ? IG_OK : lost(d);
}

/* Passes the plugin's error message on unchanged. */
static ig_status judge(const isolated_device *d, const isolate_reply *reply) {
    if ((uint32_t)reply->status >= IG_STATUS_COUNT)
        return IG_FAIL(IG_ERR_DEVICE, "%s: gave status %d", d->path, (int)reply->status);
    if (reply->status == IG_OK) return IG_OK;
    return ig_fail((ig_status)reply->status, NULL, 0, "%.*s", ISOLATE_TEXT_BYTES, reply->text);
}

/* Data sent with a request. */
typedef struct luggage {
    int fd; /* -1: none */
    const void *first, *second;
    size_t first_bytes, second_bytes;
} luggage;

static ig_status call(isolated_device *d, isolate_request request, luggage with,
                      isolate_reply *reply, int *out_fd) {
    int none;
    if (d->child == 0) return IG_FAIL(IG_ERR_DEVICE, "%s", d->reason);
    if (!isolate_send(d->socket, &request, sizeof request, with.fd) ||
        !isolate_send(d->socket, with.first, with.first_bytes, -1) ||
        !isolate_send(d->socket, with.second, with.second_bytes, -1))
        return lost(d);
    IG_TRY(take(d, reply, sizeof *reply, out_fd ? out_fd : &none));
    return judge(d, reply);
}

static const luggage nothing = {.fd = -1};

/* ---- parcels ---- */

/* Writes, or only counts bytes if `to` is NULL. */
typedef struct packer {
    char *to;
    uint64_t used;
} packer;

static uint64_t put(packer *p, const void *bytes, uint64_t count) {
    p->used = (p->used + 63) & ~UINT64_C(63);
    const uint64_t at = p->used;
    if (p->to && count > 0) memcpy(p->to + at, bytes, count);
    p->used += count;
    return at;
}

/* Only compile() needs the weights' bytes. */
static void put_step(packer *p, const ig_step *from, uint64_t to, bool weights) {
    ig_step step = *from;
    const uint32_t n = from->n_in + from->n_out;
    step.size = sizeof step;
    step.attrs = (const void *)(uintptr_t)put(p, from->attrs, from->attrs_bytes);
    const uint64_t operands = put(p, NULL, 0);
    p->used += n * sizeof(ig_operand);
    for (uint32_t i = 0; i < n; i++) {
        ig_operand o = *ig_step_operand(from, i);
        o.host = o.host && weights && o.kind == IG_KIND_WEIGHT
                     ? (const void *)(uintptr_t)put(p, o.host, ig_operand_span(&o))
                     : NULL;
        if (p->to) memcpy(p->to + operands + i * sizeof o, &o, sizeof o);
    }
    step.in = (const ig_operand *)(uintptr_t)operands;
    step.out = NULL;
    if (p->to) memcpy(p->to + to, &step, sizeof step);
}

static isolate_parcel pack(packer *p, const ig_step *steps, uint32_t count, ig_blob saved,
                           bool weights) {
    isolate_parcel parcel = {.count = count, .saved_bytes = saved.size};
    p->used = 64; /* so that no offset is 0, which stands for NULL */
    parcel.steps = put(p, NULL, 0);
    p->used += count * sizeof(ig_step);
    for (uint32_t i = 0; i < count; i++)
        put_step(p, ig_step_at(steps, i), parcel.steps + i * sizeof(ig_step), weights);
    parcel.saved = put(p, saved.bytes, saved.size);
    parcel.size = p->used;
    return parcel;
}

static char *map_new(uint64_t bytes, int *out_fd) {
    *out_fd = memfd_create("ingot buffer", MFD_CLOEXEC);
    if (*out_fd < 0) return NULL;
    void *p = ftruncate(*out_fd, (off_t)bytes) == 0
                  ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *out_fd, 0)
                  : MAP_FAILED;
    if (p != MAP_FAILED) return p;
    close(*out_fd);
    return NULL;
}

static ig_status call_with_steps(isolated_device *d, isolate_call what, const ig_step *steps,
                                 uint32_t count, ig_blob saved, isolate_reply *reply) {
    packer p = {0};
    int fd = -1;
    const bool weights = what == ISOLATE_COMPILE;
    const uint64_t bytes = pack(&p, steps, count, saved, weights).size;
    p.to = map_new(bytes, &fd);
    if (!p.to)
        return IG_FAIL(IG_ERR_MEMORY, "%s: a parcel of %llu bytes", d->path,
                       (unsigned long long)bytes);
    const isolate_parcel parcel = pack(&p, steps, count, saved, weights);
    const luggage with = {.fd = fd, .first = &parcel, .first_bytes = sizeof parcel};
    const ig_status status = call(d, (isolate_request){.what = what}, with, reply, NULL);
    munmap(p.to, bytes);
    close(fd);
    return status;
}

/* ---- the table ---- */

static isolated_device *of(const ig_backend_device *device) {
    return (isolated_device *)(uintptr_t)device;
}

static void iso_close(ig_backend_device *device) {
    isolated_device *d = of(device);
    if (d->child) {
        close(d->socket); /* the child exits when its socket closes */
        kill(d->child, SIGKILL);
        while (waitpid(d->child, NULL, 0) < 0 && errno == EINTR) continue;
    }
    device->host->free(device->host, d);
}

static void iso_info(const ig_backend_device *device, ig_device_info *out) {
    const uint32_t size = out->struct_size;
    *out = of(device)->info;
    out->struct_size = size;
    out->flags &= ~(uint32_t)(IG_NEVER_FAILS | IG_STATE_BACKUP_ONCE); /* not trusted */
}

/* If the child has died, allocation still works: buffers are host memory. */
static ig_status iso_alloc(ig_backend_device *device, uint64_t bytes, ig_backend_buffer **out) {
    isolated_device *d = of(device);
    const ig_host *host = device->host;
    int fd = -1;
    isolate_reply reply = {0};
    ig_backend_buffer *b = host->alloc(host, 1, sizeof *b);
    if (b) b->data = map_new(bytes ? bytes : 1, &fd);
    if (!b || !b->data) {
        host->free(host, b);
        return IG_FAIL(IG_ERR_MEMORY, "%s: a buffer of %llu bytes", d->path,
                       (unsigned long long)bytes);
    }
    b->bytes = bytes ? bytes : 1;
    const isolate_request request = {.what = ISOLATE_ALLOC, .a = b->bytes};
    const ig_status status = call(d, request, (luggage){.fd = fd}, &reply, NULL);
    close(fd);
    if (status != IG_OK && d->child) {
        munmap(b->data, b->bytes);
        host->free(host, b);
        return status;
    }
    b->id = reply.id;
    *out = b;
    return IG_OK;
}

static void iso_free(ig_backend_device *device, ig_backend_buffer *b) {
    isolate_reply reply;
    if (!b) return;
    (void)!call(of(device), (isolate_request){ISOLATE_FREE, b->id, 0, 0}, nothing, &reply, NULL);
    munmap(b->data, b->bytes);
    device->host->free(device->host, b);
}

static ig_status check_range(const isolated_device *d, const ig_backend_buffer *b, uint64_t offset,
                             uint64_t bytes) {
    if (offset <= b->bytes && bytes <= b->bytes - offset) return IG_OK;
    return IG_FAIL(IG_ERR_DEVICE, "%s: %llu bytes at %llu of %llu", d->path,
                   (unsigned long long)bytes, (unsigned long long)offset,
                   (unsigned long long)b->bytes);
}

static ig_status iso_write(ig_backend_device *device, ig_backend_buffer *dst, uint64_t offset,
                           const void *src, uint64_t bytes) {
    isolated_device *d = of(device);
    isolate_reply reply;
    IG_TRY(check_range(d, dst, offset, bytes));
    if (bytes > 0) memcpy(dst->data + offset, src, bytes);
    if (!d->has_memory || d->child == 0) return IG_OK;
    const isolate_request request = {ISOLATE_WRITE, dst->id, offset, bytes};
    const ig_status status = call(d, request, nothing, &reply, NULL);
    return d->child ? status : IG_OK; /* submit() reports it */
}

static ig_status iso_read(ig_backend_device *device, const ig_backend_buffer *src, uint64_t offset,
                          void *dst, uint64_t bytes) {
    IG_TRY(check_range(of(device), src, offset, bytes));
    if (bytes > 0) memcpy(dst, src->data + offset, bytes);
    return IG_OK;
}

/* For a dead child it returns true, so that compile() fails with the reason. */
static bool iso_can_run(const ig_backend_device *device, const ig_step *step) {
    isolate_reply reply;
    const ig_status status =
        call_with_steps(of(device), ISOLATE_CAN_RUN, step, 1, (ig_blob){0}, &reply);
    return of(device)->child == 0 || (status == IG_OK && reply.value == 1);
}

static uint64_t iso_scratch(const ig_backend_device *device, const ig_step *step) {
    isolate_reply reply;
    const ig_status status =
        call_with_steps(of(device), ISOLATE_SCRATCH, step, 1, (ig_blob){0}, &reply);
    return status == IG_OK ? reply.value : 0;
}

static ig_status iso_submit(ig_backend_program *program, ig_backend_buffer *const *buffers,
                            uint32_t n_buffers, const ig_slot *slots, uint32_t n_slots) {
    const isolated_program *p = (const isolated_program *)program;
    const ig_host *host = p->device->base.host;
    isolate_reply reply;
    uint32_t *ids = host->alloc(host, n_buffers, sizeof *ids);
    if (!ids) return IG_FAIL(IG_ERR_MEMORY, "%s: %u buffers", p->device->path, n_buffers);
    for (uint32_t i = 0; i < n_buffers; i++) ids[i] = buffers[i] ? buffers[i]->id : UINT32_MAX;
    const luggage with = {-1, ids, slots, n_buffers * sizeof *ids, n_slots * sizeof *slots};
    const isolate_request request = {ISOLATE_SUBMIT, p->id, n_buffers, n_slots};
    const ig_status status = call(p->device, request, with, &reply, NULL);
    host->free(host, ids);
    return status;
}

static void iso_destroy(ig_backend_program *program) {
    isolated_program *p = (isolated_program *)program;
    isolate_reply reply;
    const isolate_request request = {ISOLATE_DESTROY, p->id, 0, 0};
    (void)!call(p->device, request, nothing, &reply, NULL);
    if (p->saved) munmap(p->saved, p->saved_bytes);
    p->device->base.host->free(p->device->base.host, p);
}

static ig_status iso_compile(ig_backend_device *device, const ig_step *steps, uint32_t count,
                             ig_blob saved, ig_progress *progress, ig_backend_program **out) {
    isolated_device *d = of(device);
    isolate_reply reply;
    (void)progress; /* the child's compiler reports no progress */
    isolated_program *p = device->host->alloc(device->host, 1, sizeof *p);
    if (!p) return IG_FAIL(IG_ERR_MEMORY, "%s: program", d->path);
    const ig_status status = call_with_steps(d, ISOLATE_COMPILE, steps, count, saved, &reply);
    *p = (isolated_program){.base = {iso_submit, iso_destroy}, .device = d, .id = reply.id};
    if (status == IG_OK)
        *out = &p->base;
    else
        device->host->free(device->host, p);
    return status;
}

static ig_status iso_save(const ig_backend_program *program, ig_blob *out) {
    isolated_program *p = (isolated_program *)(uintptr_t)program;
    isolate_reply reply;
    int fd = -1;
    IG_TRY(call(p->device, (isolate_request){ISOLATE_SAVE, p->id, 0, 0}, nothing, &reply, &fd));
    void *bytes = fd >= 0 && reply.value > 0
                      ? mmap(NULL, reply.value, PROT_READ, MAP_PRIVATE, fd, 0)
                      : MAP_FAILED;
    if (fd >= 0) close(fd);
    if (bytes == MAP_FAILED)
        return IG_FAIL(IG_ERR_DEVICE, "%s: save() gave nothing", p->device->path);
    p->saved = bytes;
    p->saved_bytes = reply.value;
    *out = (ig_blob){bytes, reply.value};
    return IG_OK;
}

/* ---- beginning ---- */

static int seconds_to_wait(void) {
    const char *said = getenv("INGOT_PLUGIN_SECONDS");
    const long seconds = said ? strtol(said, NULL, 10) : 0;
    return seconds > 0 && seconds < 100000 ? (int)seconds : SECONDS;
}

static ig_status start(isolated_device *d, const ig_host *host, uint32_t index,
                       isolate_hello *hello) {
    int ends[2], none;
    char texts[OPTIONS][OPTION_BYTES];
    const char *options[OPTIONS] = {0};
    for (int i = 0; isolate_options[i]; i++) {
        const char *said = host->option ? host->option(host, isolate_options[i]) : NULL;
        if (!said) continue;
        snprintf(texts[i], sizeof texts[i], "%s", said);
        options[i] = texts[i];
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return IG_FAIL(IG_ERR_DEVICE, "%s: no socket: %s", d->path, strerror(errno));
    d->child = fork();
    if (d->child == 0) isolate_serve(d->path, index, options, ends[1]);
    close(ends[1]);
    d->socket = ends[0];
    d->wait_ms = seconds_to_wait() * 1000;
    if (d->child < 0) {
        close(ends[0]);
        d->child = 0;
        return IG_FAIL(IG_ERR_DEVICE, "%s: no process: %s", d->path, strerror(errno));
    }
    IG_TRY(take(d, hello, sizeof *hello, &none));
    return judge(d, &hello->reply);
}

ig_status ig_isolated_open(const ig_isolated *plugin, const ig_host *host, uint32_t index,
                           ig_backend_device **out) {
    isolate_hello hello = {0};
    isolated_device *d = host->alloc(host, 1, sizeof *d);
    if (!d) return IG_FAIL(IG_ERR_MEMORY, "%s: device", plugin->path);
    d->base.host = host;
    d->path = plugin->path;
    const ig_status status = start(d, host, index, &hello);
    if (status != IG_OK) {
        iso_close(&d->base);
        return status;
    }
    d->info = hello.info;
    d->has_memory = hello.has_memory;
    *out = &d->base;
    return IG_OK;
}

/* Never called: ig_isolated_open(), which knows the plugin, opens the device. */
static ig_status iso_open(const ig_host *host, uint32_t index, ig_backend_device **out) {
    (void)host, (void)index, (void)out;
    return IG_FAIL(IG_ERR_STATE, "isolate: no plugin");
}

static ig_status ask(ig_isolated *out, isolate_hello *hello) {
    static const ig_host no_host = {.abi = IG_BACKEND_ABI, .struct_size = sizeof no_host};
    isolated_device d = {.path = out->path};
    const ig_status status = start(&d, &no_host, 0, hello);
    if (d.child) {
        close(d.socket);
        kill(d.child, SIGKILL);
        while (waitpid(d.child, NULL, 0) < 0 && errno == EINTR) continue;
    }
    return status;
}

ig_status ig_isolated_load(const char *path, ig_isolated *out, ig_backend *table) {
    isolate_hello hello = {0};
    *out = (ig_isolated){0};
    if (strlen(path) >= sizeof out->path) return IG_FAIL(IG_ERR_DEVICE, "%s: too long", path);
    memcpy(out->path, path, strlen(path) + 1);
    IG_TRY(ask(out, &hello));
    memcpy(out->name, hello.name, sizeof out->name - 1);
    memcpy(out->version, hello.version, sizeof out->version - 1);
    memcpy(out->extension, hello.extension, sizeof out->extension - 1);
    memcpy(out->reason, hello.reply.text, sizeof out->reason - 1);
    out->count = hello.count;
    if (!hello.is_available) return IG_FAIL(IG_ERR_DEVICE, "%s", out->reason);
    *table = (ig_backend){.abi = IG_BACKEND_ABI,
                          .struct_size = sizeof *table,
                          .name = out->name,
                          .version = out->version,
                          .open = iso_open,
                          .close = iso_close,
                          .info = iso_info,
                          .buffer_alloc = iso_alloc,
                          .buffer_free = iso_free,
                          .write = iso_write,
                          .read = iso_read,
                          .can_run = iso_can_run,
                          .scratch_bytes = iso_scratch,
                          .compile = iso_compile,
                          .save = hello.has_save ? iso_save : NULL,
                          .extension = out->extension};
    return IG_OK;
}

const ig_isolated *ig_isolated_of(const ig_backend *table) {
    if (table->open != iso_open) return NULL;
    return (const ig_isolated *)(const void *)(table->name - offsetof(ig_isolated, name));
}
