/* seed_http_reply FOLDER - writes HTTP replies to begin fuzzing with; the first byte is the size of
 * the pieces that the harness feeds. */
#include <stdio.h>
#include <string.h>

#include "seed.h"

#define CHUNKED "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
#define EVENTS  "Content-Type: text/event-stream\r\n\r\n"

static const char *const seeds[] = {
    "\3HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello",
    ("\1" CHUNKED "\r\n3\r\nabc\r\n0A;x=y\r\n0123456789\r\n0\r\nTrailer: z\r\n\r\n"),
    "\7HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 503 Busy\r\nConnection: close\r\n\r\nlater",
    ("\5" CHUNKED EVENTS
     "1c\r\ndata: {\"a\":1}\n\ndata: b\r\ndata\r\n8\r\n:c\r\r: x\n\r\n0\r\n\r\n"),
    ("\2HTTP/1.1 200 OK\r\n" EVENTS ": ping\n\ndata: [DONE]\n\n"),
    "\4HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 304\r\n\r\n",
};

int main(int argc, char **argv) {
    if (argc != 2) return fprintf(stderr, "usage: seed_http_reply FOLDER\n") > 0 ? 2 : 1;
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        if (!seed_write(argv[1], i, seeds[i], strlen(seeds[i]))) return 1;
    return 0;
}
