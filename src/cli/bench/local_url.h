/*
 * local_url.h - the address of a server on this machine.
 *
 *     http://127.0.0.1:8080   http://localhost:8080/api   http://[::1]:8080   unix:/run/ingot.sock
 *
 * Load is sent nowhere else: other hosts are refused before a socket exists, and names are never
 * resolved.
 */
#ifndef IG_CLI_BENCH_LOCAL_URL_H
#define IG_CLI_BENCH_LOCAL_URL_H

#include <stdint.h>
#include <sys/socket.h>

#include "ingot/status.h"

enum { IG_URL_HOST_BYTES = 64, IG_URL_BASE_BYTES = 128 };

typedef struct ig_local_url {
    struct sockaddr_storage address;
    socklen_t address_bytes;
    char host[IG_URL_HOST_BYTES]; /* of the Host header: "127.0.0.1:8080" */
    char base[IG_URL_BASE_BYTES]; /* path before every route, without a slash at the end: "/api" */
} ig_local_url;

IG_MUST_CHECK ig_status ig_local_url_parse(const char *url, ig_local_url *out);

#endif
