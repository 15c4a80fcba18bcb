/*
 * http_peer.h - a client of raw sockets for tests of the HTTP server: it can be slow, silent,
 * rude and wrong.
 */
#ifndef IG_TESTS_UNIT_HTTP_PEER_H
#define IG_TESTS_UNIT_HTTP_PEER_H

#include <stdbool.h>
#include <stddef.h>

enum { PEER_BYTES = 1 << 20 };

/* What came back. */
typedef struct http_answer {
    int status; /* 0: no reply */
    bool is_complete, is_closed;
    size_t n_header, n_body; /* of text; chunks are joined in body */
    char text[PEER_BYTES], body[PEER_BYTES];
} http_answer;

int peer_connect(int port);
int peer_connect_unix(const char *path);
void peer_send(int fd, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Reads one reply: to its end by length or chunks, or to the end of the connection. */
void peer_receive(int fd, http_answer *a);
/* Waits until the server has closed the connection; false: it has not after 10 s. */
bool peer_is_closed(int fd);
bool answer_has(const http_answer *answer, const char *header_line); /* a line of the header */

#endif
