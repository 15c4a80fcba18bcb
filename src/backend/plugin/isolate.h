/*
 * isolate.h - a plugin in a process of its own.
 *
 * Its table is one of ours, whose functions send messages to a child that has
 * loaded the library.  Whatever the plugin does there, crash, hang or write
 * wherever it likes, the host sees a device that failed, with the reason.
 *
 *     host                    socket                   child
 *     ig_backend of ours   -- request, reply -->   the plugin's ig_backend
 *     buffers              == shared memory ==     buffers, or where they are copied to and from
 *
 * Buffers are shared memory, so what the plugin had computed before it died is not
 * lost.  A child serves one device.
 */
#ifndef IG_BACKEND_ISOLATE_H
#define IG_BACKEND_ISOLATE_H

#include "base/alloc.h"
#include "ingot/backend.h"

/* ---- what goes over the socket ---- */

typedef enum isolate_call {
    ISOLATE_ALLOC,   /* a: bytes, with a descriptor; gives an id */
    ISOLATE_FREE,    /* id */
    ISOLATE_WRITE,   /* id, a: offset, b: bytes: what the shared memory has is new */
    ISOLATE_CAN_RUN, /* a parcel of one step; gives 0 or 1 */
    ISOLATE_SCRATCH, /* the same; gives bytes */
    ISOLATE_COMPILE, /* a parcel; gives an id */
    ISOLATE_SAVE,    /* id; gives bytes, with a descriptor */
    ISOLATE_SUBMIT,  /* id, a: buffers, b: slots; followed by ids and slots */
    ISOLATE_DESTROY, /* id */
} isolate_call;

typedef struct isolate_request {
    uint32_t what, id;
    uint64_t a, b;
} isolate_request;

enum { ISOLATE_TEXT_BYTES = 400 };

typedef struct isolate_reply {
    int32_t status;
    uint32_t id;
    uint64_t value;
    char text[ISOLATE_TEXT_BYTES]; /* of a failure */
} isolate_reply;

/* What the child says first. */
typedef struct isolate_hello {
    isolate_reply reply;
    char name[32], version[64], extension[16];
    ig_device_info info;
    uint32_t count;
    bool is_available, has_memory, has_save;
} isolate_hello;

/* Steps with all that they point to, in shared memory: pointers are offsets until unpacked. */
typedef struct isolate_parcel {
    char *bytes;
    uint64_t size, steps, saved, saved_bytes; /* where these begin */
    uint32_t count;
} isolate_parcel;

/* Sends or takes all bytes, with a descriptor if it is not -1; false: the other side is gone. */
bool isolate_send(int socket, const void *bytes, size_t count, int fd);
bool isolate_take(int socket, void *bytes, size_t count, int *out_fd);

/* Never returns: serves the device of the library to the other end of the socket. */
_Noreturn void isolate_serve(const char *path, uint32_t index, const char *const *options,
                             int socket);

/* What may be asked for with host->option(); NULL at the end. */
extern const char *const isolate_options[];

/* ---- for the loader ---- */

typedef struct ig_isolated {
    char path[4096];
    char name[32], version[64], extension[16];
    char reason[ISOLATE_TEXT_BYTES]; /* why it is not available; "": it is */
    uint32_t count;
} ig_isolated;

/* Loads the library in a child, asks what it is, and fills in a table.  `out` must outlive it. */
IG_MUST_CHECK ig_status ig_isolated_load(const char *path, ig_isolated *out, ig_backend *table);

/* Of a table that ig_isolated_load() has filled in: what belongs to it; NULL: of another one. */
const ig_isolated *ig_isolated_of(const ig_backend *table);
IG_MUST_CHECK ig_status ig_isolated_open(const ig_isolated *plugin, const ig_host *host,
                                         uint32_t index, ig_backend_device **out);

#endif
