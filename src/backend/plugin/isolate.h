/*
 * isolate.h - a plugin in a separate process.
 *
 * The host's table has functions that send messages to a child process that loaded the library. If
 * the plugin crashes, hangs or corrupts its memory, the host sees a failed device with a reason.
 *
 *     host                       socket                   child
 *     the host's ig_backend   -- request, reply -->   the plugin's ig_backend
 *     buffers                 == shared memory ==     buffers, or the source and target of copies
 *
 * Buffers are shared memory, so results computed before the plugin died are not lost. A child
 * serves one device.
 */
#ifndef IG_BACKEND_PLUGIN_ISOLATE_H
#define IG_BACKEND_PLUGIN_ISOLATE_H

#include "base/alloc.h"
#include "ingot/backend.h"

/* ---- what goes over the socket ---- */

typedef enum isolate_call {
    ISOLATE_ALLOC,   /* a: bytes, with a file descriptor; returns an id */
    ISOLATE_FREE,    /* id */
    ISOLATE_WRITE,   /* id, a: offset, b: bytes: this range of the shared memory was written */
    ISOLATE_CAN_RUN, /* a parcel of one step; returns 0 or 1 */
    ISOLATE_SCRATCH, /* the same; returns bytes */
    ISOLATE_COMPILE, /* a parcel; returns an id */
    ISOLATE_SAVE,    /* id; returns bytes, with a file descriptor */
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
    char text[ISOLATE_TEXT_BYTES]; /* error message */
} isolate_reply;

/* The child's first message. */
typedef struct isolate_hello {
    isolate_reply reply;
    char name[32], version[64], extension[16];
    ig_device_info info;
    uint32_t count;
    bool is_available, has_memory, has_save;
} isolate_hello;

/* Steps with everything they point to, in shared memory: pointers are offsets until unpacked. */
typedef struct isolate_parcel {
    char *bytes;
    uint64_t size, steps, saved, saved_bytes; /* offsets of these */
    uint32_t count;
} isolate_parcel;

/* Sends or receives all bytes, with a file descriptor if it is not -1; false: the peer has closed.
 */
bool isolate_send(int socket, const void *bytes, size_t count, int fd);
bool isolate_take(int socket, void *bytes, size_t count, int *out_fd);

/* Never returns: serves the library's device on the socket. */
_Noreturn void isolate_serve(const char *path, uint32_t index, const char *const *options,
                             int socket);

/* Names valid for host->option(); NULL-terminated. */
extern const char *const isolate_options[];

/* ---- for the loader ---- */

typedef struct ig_isolated {
    char path[4096];
    char name[32], version[64], extension[16];
    char reason[ISOLATE_TEXT_BYTES]; /* why it is unavailable; "": available */
    uint32_t count;
} ig_isolated;

/* Loads the library in a child, queries it, and fills in a table. `out` must outlive it. */
IG_MUST_CHECK ig_status ig_isolated_load(const char *path, ig_isolated *out, ig_backend *table);

/* The ig_isolated that owns a table filled in by ig_isolated_load(); NULL: another table. */
const ig_isolated *ig_isolated_of(const ig_backend *table);
IG_MUST_CHECK ig_status ig_isolated_open(const ig_isolated *plugin, const ig_host *host,
                                         uint32_t index, ig_backend_device **out);

#endif
