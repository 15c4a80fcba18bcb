/* The child process: serves one device of one library over a socket. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backend/device.h"
#include "backend/plugin/isolate.h"
#include "backend/standalone_host.h"

enum { MOST_PROGRAMS = 1 << 14 };

const char *const isolate_options[] = {"optimization_level", "precision", "batch_sizes", NULL};

/* ---- messages ---- */

bool isolate_send(int socket, const void *bytes, size_t count, int fd) {
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    for (size_t at = 0; at < count; fd = -1) {
        struct iovec part = {(char *)(uintptr_t)bytes + at, count - at};
        struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
        if (fd >= 0) {
            m.msg_control = &control;
            m.msg_controllen = sizeof control.room;
            control.head = (struct cmsghdr){CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
            memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
        }
        const ssize_t sent = sendmsg(socket, &m, MSG_NOSIGNAL);
        if (sent <= 0) return false;
        at += (size_t)sent;
    }
    return true;
}

bool isolate_take(int socket, void *bytes, size_t count, int *out_fd) {
    *out_fd = -1;
    for (size_t at = 0; at < count;) {
        union {
            struct cmsghdr head;
            char room[CMSG_SPACE(sizeof(int))];
        } control = {0};
        struct iovec part = {(char *)bytes + at, count - at};
        struct msghdr m = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof control.room};
        const ssize_t got = recvmsg(socket, &m, MSG_CMSG_CLOEXEC);
        if (got <= 0) return false;
        const struct cmsghdr *head = CMSG_FIRSTHDR(&m);
        if (head && head->cmsg_type == SCM_RIGHTS) memcpy(out_fd, CMSG_DATA(head), sizeof *out_fd);
        at += (size_t)got;
    }
    return true;
}

/* ---- what the plugin may ask for ---- */

typedef struct child_host {
    ig_host table;
    const char *const *options; /* in the order of isolate_options; NULL: unset */
} child_host;

static const char *host_option(const ig_host *host, const char *name) {
    const child_host *h = (const child_host *)host;
    for (int i = 0; isolate_options[i]; i++)
        if (strcmp(name, isolate_options[i]) == 0) return h->options[i];
    return NULL;
}

/* ---- serving ---- */

typedef struct shared {
    ig_backend_buffer *buffer; /* the device's buffer, or the address of the shared memory */
    char *data;
    uint64_t bytes;
} shared;

typedef struct compiled {
    ig_backend_program *program;
    ig_operand *results; /* operands to copy back */
    uint32_t n_results;
} compiled;

typedef struct server {
    int socket;
    ig_device *device;
    compiled programs[MOST_PROGRAMS];
    uint32_t n_buffers, n_programs;
    shared *all; /* indexed by id */
    size_t room;
} server;

static ig_status map(int fd, uint64_t bytes, int flags, char **out) {
    if (fd < 0) return IG_FAIL(IG_ERR_STATE, "isolate: no memory came along");
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    close(fd);
    if (p == MAP_FAILED) return IG_FAIL(IG_ERR_MEMORY, "isolate: cannot map the memory");
    *out = p;
    return IG_OK;
}

static ig_status do_alloc(server *s, const isolate_request *r, int fd, isolate_reply *reply) {
    shared b = {.bytes = r->a};
    if (!IG_GROW(&ig_heap, s->all, &s->room, s->n_buffers + (size_t)1))
        return IG_FAIL(IG_ERR_MEMORY, "isolate: %u buffers", s->n_buffers);
    IG_TRY(map(fd, r->a, MAP_SHARED, &b.data));
    b.buffer = (ig_backend_buffer *)b.data;
    if (!s->device->host_memory) IG_TRY(ig_device_alloc(s->device, r->a, &b.buffer));
    s->all[s->n_buffers] = b;
    reply->id = s->n_buffers++;
    return IG_OK;
}

static ig_status do_free(server *s, const isolate_request *r) {
    if (r->id >= s->n_buffers || !s->all[r->id].data) return IG_OK;
    shared *b = &s->all[r->id];
    if (!s->device->host_memory) ig_device_free(s->device, b->buffer, b->bytes);
    munmap(b->data, b->bytes);
    *b = (shared){0};
    return IG_OK;
}

static ig_status do_write(server *s, const isolate_request *r) {
    const shared *b = &s->all[r->id];
    if (s->device->host_memory) return IG_OK;
    return ig_device_write(s->device, b->buffer, r->a, b->data + r->a, r->b);
}

/* Converts offsets back to pointers. */
static ig_step *unpack(const isolate_parcel *p) {
    ig_step *steps = (ig_step *)(void *)(p->bytes + p->steps);
    for (uint32_t i = 0; i < p->count; i++) {
        ig_step *step = &steps[i];
        ig_operand *in = (ig_operand *)(void *)(p->bytes + (uintptr_t)step->in);
        step->attrs = p->bytes + (uintptr_t)step->attrs;
        step->in = in;
        step->out = in + step->n_in;
        for (uint32_t k = 0; k < step->n_in + step->n_out; k++)
            in[k].host = in[k].host ? p->bytes + (uintptr_t)in[k].host : NULL;
    }
    return steps;
}

static ig_status keep_results(compiled *c, const ig_step *steps, uint32_t count) {
    size_t room = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < steps[i].n_out; k++) {
            if (!IG_GROW(&ig_heap, c->results, &room, c->n_results + (size_t)1))
                return IG_FAIL(IG_ERR_MEMORY, "isolate: results");
            c->results[c->n_results++] = steps[i].out[k];
        }
    return IG_OK;
}

static ig_status do_compile(server *s, const isolate_parcel *p, isolate_reply *reply) {
    if (s->n_programs == MOST_PROGRAMS) return IG_FAIL(IG_ERR_MEMORY, "isolate: too many programs");
    const ig_step *steps = unpack(p);
    compiled *c = &s->programs[s->n_programs];
    const ig_blob saved = {p->saved_bytes ? p->bytes + p->saved : NULL, p->saved_bytes};
    (void)IG_FAIL(IG_ERR_DEVICE, "%s: compile() failed and gave no reason", s->device->name);
    IG_TRY(
        s->device->backend->compile(s->device->handle, steps, p->count, saved, NULL, &c->program));
    if (!c->program || !c->program->submit)
        return IG_FAIL(IG_ERR_DEVICE, "%s: compile() made no program", s->device->name);
    reply->id = s->n_programs++;
    return keep_results(c, steps, p->count);
}

static ig_status do_submit(server *s, const isolate_request *r) {
    const compiled *c = &s->programs[r->id];
    int none;
    uint32_t *ids = ig_alloc(&ig_heap, r->a, sizeof *ids);
    ig_slot *slots = ig_alloc(&ig_heap, r->b, sizeof *slots);
    ig_backend_buffer **buffers = ig_alloc(&ig_heap, r->a, sizeof *buffers);
    if (!ids || !slots || !buffers) _exit(4);
    if (!isolate_take(s->socket, ids, r->a * sizeof *ids, &none) ||
        !isolate_take(s->socket, slots, r->b * sizeof *slots, &none))
        _exit(0);
    for (uint64_t i = 0; i < r->a; i++)
        buffers[i] = ids[i] < s->n_buffers ? s->all[ids[i]].buffer : NULL;
    (void)IG_FAIL(IG_ERR_DEVICE, "%s: submit() failed and gave no reason", s->device->name);
    ig_status status =
        c->program->submit(c->program, buffers, (uint32_t)r->a, slots, (uint32_t)r->b);
    if (status == IG_OK) status = ig_device_sync(s->device);
    for (uint32_t i = 0; status == IG_OK && !s->device->host_memory && i < c->n_results; i++) {
        const ig_operand *o = &c->results[i];
        const shared *b = &s->all[ids[o->buffer]];
        status = ig_device_read(s->device, b->buffer, o->offset, b->data + o->offset,
                                ig_operand_span(o));
    }
    ig_free(&ig_heap, (void *)buffers);
    ig_free(&ig_heap, slots);
    ig_free(&ig_heap, ids);
    return status;
}

static ig_status do_save(const server *s, const isolate_request *r, isolate_reply *reply,
                         int *out_fd) {
    ig_blob blob = {0};
    IG_TRY(s->device->backend->save(s->programs[r->id].program, &blob));
    const int fd = memfd_create("ingot saved", MFD_CLOEXEC);
    reply->value = blob.bytes ? blob.size : 0;
    for (size_t at = 0; fd >= 0 && at < reply->value;) {
        const ssize_t n = write(fd, (const char *)blob.bytes + at, reply->value - at);
        if (n <= 0) return IG_FAIL(IG_ERR_IO, "isolate: cannot hand over what was saved");
        at += (size_t)n;
    }
    *out_fd = fd;
    return IG_OK;
}

static ig_status answer(server *s, const isolate_request *r, int fd, isolate_reply *reply,
                        int *out_fd) {
    isolate_parcel p = {0};
    const bool with_parcel =
        r->what == ISOLATE_CAN_RUN || r->what == ISOLATE_SCRATCH || r->what == ISOLATE_COMPILE;
    int none;
    if (with_parcel) {
        if (!isolate_take(s->socket, &p, sizeof p, &none)) _exit(0);
        IG_TRY(map(fd, p.size, MAP_PRIVATE, &p.bytes));
    }
    ig_status status = IG_OK;
    switch ((isolate_call)r->what) {
    case ISOLATE_ALLOC: status = do_alloc(s, r, fd, reply); break;
    case ISOLATE_FREE: status = do_free(s, r); break;
    case ISOLATE_WRITE: status = do_write(s, r); break;
    case ISOLATE_CAN_RUN: reply->value = ig_device_can_run(s->device, unpack(&p)); break;
    case ISOLATE_SCRATCH: reply->value = ig_device_scratch(s->device, unpack(&p)); break;
    case ISOLATE_COMPILE: status = do_compile(s, &p, reply); break;
    case ISOLATE_SAVE: status = do_save(s, r, reply, out_fd); break;
    case ISOLATE_SUBMIT: status = do_submit(s, r); break;
    case ISOLATE_DESTROY: {
        compiled *c = &s->programs[r->id];
        if (c->program && c->program->destroy) c->program->destroy(c->program);
        ig_free(&ig_heap, c->results);
        *c = (compiled){0};
        break;
    }
    }
    if (p.bytes) munmap(p.bytes, p.size);
    return status;
}

/* Sends the message without its source location: the host adds its own. */
static void say(isolate_reply *reply, ig_status status) {
    reply->status = (int32_t)status;
    if (status != IG_OK) snprintf(reply->text, sizeof reply->text, "%s", ig_error_text());
}

static ig_status greet(server *s, const ig_plugin *plugin, const ig_host *host, uint32_t index,
                       isolate_hello *hello) {
    const ig_backend *b = &plugin->backend;
    snprintf(hello->name, sizeof hello->name, "%s", b->name);
    snprintf(hello->version, sizeof hello->version, "%s", b->version);
    snprintf(hello->extension, sizeof hello->extension, "%s", b->extension ? b->extension : "");
    (void)IG_FAIL(IG_ERR_DEVICE, "%s is not available", b->name);
    hello->is_available = !b->is_available || b->is_available(host);
    if (!hello->is_available) {
        snprintf(hello->reply.text, sizeof hello->reply.text, "%s", ig_error_text());
        return IG_OK;
    }
    hello->count = ig_backend_count(b, host);
    if (hello->count == 0) return IG_FAIL(IG_ERR_DEVICE, "%s has no device", b->name);
    IG_TRY(ig_device_open_at(b, index, host, &ig_heap, &s->device));
    hello->info = s->device->info;
    hello->has_memory = !s->device->host_memory;
    hello->has_save = b->save != NULL;
    return IG_OK;
}

/* Detaches from the host process: default signal handlers, and none of its descriptors or output.
 */
static int settle_in(int socket) {
    for (int i = 1; i < 32; i++) signal(i, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int nowhere = open("/dev/null", O_RDWR);
    for (int fd = 0; nowhere >= 0 && fd < 3; fd++) dup2(nowhere, fd);
    if (socket != 3) dup2(socket, 3);
    close_range(4, ~0U, 0); /* also releases file locks held by the host */
    return 3;
}

_Noreturn void isolate_serve(const char *path, uint32_t index, const char *const *options,
                             int socket) {
    child_host host = {ig_standalone_host, options};
    host.table.option = host_option;
    isolate_hello hello = {0};
    ig_plugin plugin = {0};
    server *s = ig_alloc(&ig_heap, 1, sizeof *s);
    if (!s) _exit(4);
    s->socket = settle_in(socket);
    ig_status status = ig_plugin_open(path, &plugin);
    if (status == IG_OK) status = greet(s, &plugin, &host.table, index, &hello);
    if (status != IG_OK) say(&hello.reply, status);
    if (!isolate_send(s->socket, &hello, sizeof hello, -1) || !s->device) _exit(0);
    isolate_request r;
    for (int fd; isolate_take(s->socket, &r, sizeof r, &fd);) {
        isolate_reply reply = {0};
        int handed = -1;
        say(&reply, answer(s, &r, fd, &reply, &handed));
        if (!isolate_send(s->socket, &reply, sizeof reply, handed)) break;
        if (handed >= 0) close(handed);
    }
    _exit(0);
}
