/*
 * http_listen.c - listening sockets: TCP, Unix, and those that were passed; and addresses.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/http_internal.h"

/* ---- addresses ---- */

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff}; /* the prefix of IPv4 */

static bool is_ipv4(const http_address *a) { return !memcmp(a->bytes, mapped, sizeof mapped); }

bool http_address_parse(const char *text, http_address *out) {
    http_address a = {0};
    if (!strcmp(text, "unix")) {
        a.is_unix = true;
    } else if (inet_pton(AF_INET, text, a.bytes + 12) == 1) {
        memcpy(a.bytes, mapped, sizeof mapped);
    } else if (inet_pton(AF_INET6, text, a.bytes) != 1) {
        return false;
    }
    *out = a;
    return true;
}

void http_address_from_socket(const struct sockaddr_storage *from, http_address *out) {
    *out = (http_address){.is_unix = from->ss_family == AF_UNIX};
    if (from->ss_family == AF_INET) {
        memcpy(out->bytes, mapped, sizeof mapped);
        memcpy(out->bytes + 12, &((const struct sockaddr_in *)from)->sin_addr, 4);
    } else if (from->ss_family == AF_INET6) {
        memcpy(out->bytes, &((const struct sockaddr_in6 *)from)->sin6_addr, 16);
    }
}

void http_address_print(const http_address *address, char out[ADDRESS_BYTES]) {
    if (address->is_unix)
        snprintf(out, ADDRESS_BYTES, "unix");
    else if (is_ipv4(address))
        inet_ntop(AF_INET, address->bytes + 12, out, ADDRESS_BYTES);
    else
        inet_ntop(AF_INET6, address->bytes, out, ADDRESS_BYTES);
}

bool http_address_is_loopback(const http_address *address) {
    static const uint8_t one[16] = {[15] = 1};
    if (address->is_unix) return false;
    if (is_ipv4(address)) return address->bytes[12] == 127;
    return !memcmp(address->bytes, one, sizeof one);
}

bool http_address_is_equal(const http_address *a, const http_address *b) {
    return a->is_unix == b->is_unix && !memcmp(a->bytes, b->bytes, sizeof a->bytes);
}

ig_status http_network_parse(const char *text, http_network *out) {
    char address[ADDRESS_BYTES];
    const char *slash = strchr(text, '/');
    const size_t n = slash ? (size_t)(slash - text) : strlen(text);
    http_network network = {.n_bits = 128};
    if (n < sizeof address) {
        memcpy(address, text, n);
        address[n] = 0;
    }
    if (n >= sizeof address || !http_address_parse(address, &network.address))
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "http: trusted proxy \"%s\" must be an address, a network such as "
                       "10.0.0.0/8, or \"unix\"",
                       text);
    if (slash) {
        const int most = is_ipv4(&network.address) ? 32 : 128;
        char *end = NULL;
        const long n_bits = strtol(slash + 1, &end, 10);
        if (end == slash + 1 || *end || n_bits < 0 || n_bits > most || network.address.is_unix)
            return IG_FAIL(IG_ERR_ARGUMENT, "http: trusted proxy \"%s\": the bits must be 0 to %d",
                           text, most);
        network.n_bits = (int)n_bits + 128 - most;
    }
    *out = network;
    return IG_OK;
}

bool http_network_has(const http_network *network, const http_address *address) {
    if (network->address.is_unix || address->is_unix)
        return network->address.is_unix && address->is_unix;
    const int n_bytes = network->n_bits / 8, n_bits = network->n_bits % 8;
    if (memcmp(network->address.bytes, address->bytes, (size_t)n_bytes) != 0) return false;
    const int shift = 8 - n_bits;
    return !n_bits || network->address.bytes[n_bytes] >> shift == address->bytes[n_bytes] >> shift;
}

bool http_is_trusted(const ig_http *http, const http_address *address) {
    for (size_t i = 0; i < http->options.n_trusted_proxies; i++)
        if (http_network_has(&http->proxies[i], address)) return true;
    return false;
}

/* ---- sockets ---- */

static bool is_path(const char *host) {
    const size_t n = strlen(host);
    return n > 5 && !strcmp(host + n - 5, ".sock");
}

/* Whether a process accepts connections there. */
static bool is_served(const struct sockaddr_un *address) {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return true;
    const bool served = !connect(fd, (const struct sockaddr *)address, sizeof *address) ||
                        errno == EAGAIN || errno == EINPROGRESS;
    close(fd);
    return served;
}

static ig_status listen_unix(const char *path, http_listener *out) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return IG_FAIL(IG_ERR_ARGUMENT, "http: the socket path %s has %zu bytes; %zu fit", path,
                       strlen(path), sizeof address.sun_path - 1);
    memcpy(address.sun_path, path, strlen(path) + 1);
    struct stat info;
    if (!lstat(path, &info)) {
        if (!S_ISSOCK(info.st_mode))
            return IG_FAIL(IG_ERR_IO, "http: %s exists, and is not a socket", path);
        if (is_served(&address))
            return IG_FAIL(IG_ERR_IO, "http: %s is taken: another server listens there", path);
        unlink(path);
    }
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* The mode of the socket before bind() is that of the file. */
    if (fd < 0 || fchmod(fd, 0600) || bind(fd, (const struct sockaddr *)&address, sizeof address) ||
        chmod(path, 0600) || listen(fd, SOMAXCONN)) {
        const int code = errno;
        if (fd >= 0) close(fd);
        return IG_FAIL(IG_ERR_IO, "http: cannot listen on %s: %s", path, strerror(code));
    }
    *out = (http_listener){.fd = fd, .is_unix = true, .is_file_ours = true};
    memcpy(out->path, address.sun_path, sizeof out->path);
    return IG_OK;
}

/* Completes what can be asked of a socket. */
static void describe(http_listener *listener) {
    struct sockaddr_storage bound = {0};
    socklen_t n = sizeof bound;
    if (getsockname(listener->fd, (struct sockaddr *)&bound, &n)) return;
    http_address address;
    http_address_from_socket(&bound, &address);
    listener->is_unix = bound.ss_family == AF_UNIX;
    if (listener->is_unix)
        memcpy(listener->path, ((const struct sockaddr_un *)&bound)->sun_path,
               sizeof listener->path - 1);
    listener->is_loopback = http_address_is_loopback(&address);
    if (bound.ss_family == AF_INET)
        listener->port = ntohs(((const struct sockaddr_in *)&bound)->sin_port);
    else if (bound.ss_family == AF_INET6)
        listener->port = ntohs(((const struct sockaddr_in6 *)&bound)->sin6_port);
}

static int bind_tcp(const struct addrinfo *info) {
    const int fd =
        socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, info->ai_protocol);
    if (fd < 0) return -1;
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (info->ai_family == AF_INET6 &&
        IN6_IS_ADDR_UNSPECIFIED(
            &((const struct sockaddr_in6 *)(const void *)info->ai_addr)->sin6_addr)) {
        const int off = 0; /* "::" is IPv4, too */
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    if (!bind(fd, info->ai_addr, info->ai_addrlen) && !listen(fd, SOMAXCONN)) return fd;
    const int code = errno;
    close(fd);
    errno = code;
    return -1;
}

/* A name may have several addresses: all that the machine has are served, on one port. */
static ig_status listen_tcp(ig_http *http, const char *host, int port) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char service[12];
    if (port < 0 || port > 65535)
        return IG_FAIL(IG_ERR_ARGUMENT, "http: port %d is not in 0 to 65535", port);
    snprintf(service, sizeof service, "%d", port);
    const int code = getaddrinfo(host, service, &hints, &list);
    if (code) return IG_FAIL(IG_ERR_IO, "http: no address for %s: %s", host, gai_strerror(code));
    int error = 0;
    for (const struct addrinfo *i = list; i && http->n_listeners < LISTENERS_MOST; i = i->ai_next) {
        const int fd = bind_tcp(i);
        if (fd < 0) {
            const bool is_missing = errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT;
            if (!is_missing || (!error && !http->n_listeners)) error = errno;
            if (error == EADDRINUSE) break;
            continue;
        }
        http_listener *l = &http->listener[http->n_listeners++];
        *l = (http_listener){.fd = fd};
        describe(l);
        if (!port) break; /* others would get other ports */
    }
    freeaddrinfo(list);
    if (error == EADDRINUSE)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "http: %s port %d is taken: another program listens there; choose another "
                       "--port, or see who with: ss -ltnp 'sport = :%d'",
                       host, port, port);
    if (!http->n_listeners)
        return IG_FAIL(IG_ERR_IO, "http: cannot listen on %s port %d: %s", host, port,
                       strerror(error));
    return IG_OK;
}

/* Sockets that were passed may block, and children may inherit them. */
static bool set_flags(int fd) {
    const int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 &&
           fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

static ig_status take_sockets(ig_http *http) {
    const ig_http_options *o = &http->options;
    for (size_t i = 0; i < o->n_sockets; i++) {
        int listening = 0;
        socklen_t n = sizeof listening;
        if (i >= LISTENERS_MOST) {
            close(o->sockets[i]);
            continue;
        }
        http_listener *l = &http->listener[http->n_listeners++];
        *l = (http_listener){.fd = o->sockets[i]};
        if (getsockopt(l->fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &n) || !listening ||
            !set_flags(l->fd))
            return IG_FAIL(IG_ERR_IO, "http: the passed descriptor %d is not a listening socket",
                           l->fd);
        fcntl(l->fd, F_SETFL, fcntl(l->fd, F_GETFL) | O_NONBLOCK);
        fcntl(l->fd, F_SETFD, FD_CLOEXEC);
        describe(l);
    }
    if (o->n_sockets > LISTENERS_MOST)
        return IG_FAIL(IG_ERR_ARGUMENT, "http: %zu sockets were passed; %d are the most",
                       o->n_sockets, LISTENERS_MOST);
    return IG_OK;
}

static void write_url(ig_http *http) {
    const char *host = http->options.host, *scheme = http->options.cert_file ? "https" : "http";
    const http_listener *l = &http->listener[0];
    if (l->is_unix)
        snprintf(http->url, sizeof http->url, "unix:%s", l->path);
    else if (http->options.n_sockets)
        snprintf(http->url, sizeof http->url, "%s://localhost:%d", scheme, l->port);
    else
        snprintf(http->url, sizeof http->url, strchr(host, ':') ? "%s://[%s]:%d" : "%s://%s:%d",
                 scheme, host, l->port);
}

ig_status http_listen(ig_http *http) {
    const ig_http_options *o = &http->options;
    if (o->n_sockets) {
        IG_TRY(take_sockets(http));
    } else if (is_path(o->host)) {
        IG_TRY(listen_unix(o->host, &http->listener[0]));
        http->n_listeners = 1;
    } else {
        IG_TRY(listen_tcp(http, o->host, o->port));
    }
    write_url(http);
    return IG_OK;
}

void http_unlisten(ig_http *http) {
    for (int i = 0; i < http->n_listeners; i++) {
        if (http->listener[i].fd < 0) continue;
        if (http->listener[i].is_file_ours) unlink(http->listener[i].path);
        close(http->listener[i].fd);
        http->listener[i].fd = -1;
    }
}
