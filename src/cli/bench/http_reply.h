/*
 * http_reply.h - decodes an HTTP/1.1 reply and the server-sent events in it.
 *
 * Bytes arrive in pieces of any size; what they mean does not depend on where they were cut.  Lines
 * and events have a limit, so a server cannot make the client use memory without end.
 */
#ifndef IG_CLI_BENCH_HTTP_REPLY_H
#define IG_CLI_BENCH_HTTP_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ingot/context.h"

enum {
    IG_HTTP_LINE_BYTES = 8192,      /* of the status line, a header or a chunk size */
    IG_HTTP_HEADERS = 256,          /* lines of the head, and of trailers */
    IG_HTTP_EVENT_BYTES = 4 << 20,  /* of one event */
    IG_HTTP_BODY_BYTES = 256 << 20, /* of a reply that is no event stream */
};

typedef enum ig_http_phase {
    IG_HTTP_STATUS_LINE,
    IG_HTTP_HEADER,
    IG_HTTP_CHUNK_SIZE,
    IG_HTTP_DATA, /* `left` more bytes of the body or of a chunk */
    IG_HTTP_CHUNK_END,
    IG_HTTP_TRAILER,
    IG_HTTP_UNTIL_CLOSE,
    IG_HTTP_COMPLETE,
} ig_http_phase;

/* Growing text of the caller's allocator. */
typedef struct ig_http_bytes {
    char *at;
    size_t used, room;
} ig_http_bytes;

/* Called for each event with its data, NUL-terminated; not for comments. */
typedef void ig_http_event_fn(void *user, const char *data, size_t bytes);

typedef struct ig_http_reply {
    const ig_allocator *allocator;
    ig_http_event_fn *on_event; /* NULL: all goes to `body` */
    void *user;

    ig_http_phase phase;
    int code; /* 0: no status line yet */
    bool keep_alive, is_event_stream;
    ig_http_bytes body; /* of replies that are no event stream, NUL-terminated */

    /* Private. */
    bool is_chunked, has_length, line_ended_by_cr;
    int n_headers;
    uint64_t left, length, n_received;
    ig_http_bytes line;              /* of the head */
    ig_http_bytes event_line, event; /* the line that is being read, the data of its event */
} ig_http_reply;

/* Prepares for the next reply and keeps the buffers; a zeroed struct with an allocator is fine. */
void ig_http_reply_reset(ig_http_reply *reply);
void ig_http_reply_deinit(ig_http_reply *reply);

/* Decodes bytes until the reply is complete; `out_used` is how many belong to it.
 * IG_ERR_FORMAT: not HTTP, or above a limit.  IG_ERR_MEMORY. */
IG_MUST_CHECK ig_status ig_http_reply_feed(ig_http_reply *reply, const char *bytes, size_t n_bytes,
                                           size_t *out_used);

/* The connection has ended: completes a reply that lasts until then, refuses any other. */
IG_MUST_CHECK ig_status ig_http_reply_close(ig_http_reply *reply);

/* Appends to growing text and terminates it; false: out of memory. */
bool ig_http_bytes_add(const ig_allocator *a, ig_http_bytes *to, const char *bytes, size_t n_bytes);

#endif
