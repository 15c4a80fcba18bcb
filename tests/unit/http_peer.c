#include "http_peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "unit/check.h"

enum { WAIT_MS = 10000 };

int peer_connect(int port) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_true(fd >= 0);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address))
        fail_msg("connect to port %d: %s", port, strerror(errno));
    return fd;
}

int peer_connect_unix(const char *path) {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_true(fd >= 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address))
        fail_msg("connect to %s: %s", path, strerror(errno));
    return fd;
}

void peer_send(int fd, const char *format, ...) {
    char *text = NULL;
    va_list args;
    va_start(args, format);
    const int n = vasprintf(&text, format, args);
    va_end(args);
    assert_true(n >= 0);
    for (int sent = 0; sent < n;) {
        const ssize_t now = send(fd, text + sent, (size_t)(n - sent), MSG_NOSIGNAL);
        if (now <= 0) break; /* the server has closed: the test looks at its reply */
        sent += (int)now;
    }
    free(text);
}

/* Reads at most `most` bytes.  False: the connection has ended. */
static bool receive_some(int fd, http_answer *a, size_t *n, size_t most) {
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    if (poll(&wait, 1, WAIT_MS) <= 0) fail_msg("the server is silent after: %s", a->text);
    assert_true(*n + most < sizeof a->text);
    const ssize_t got = recv(fd, a->text + *n, most, 0);
    if (got <= 0) {
        a->is_closed = true;
        return false;
    }
    *n += (size_t)got;
    a->text[*n] = 0;
    return true;
}

static const char *find_header(const http_answer *a, const char *name) {
    const size_t n = strlen(name);
    for (const char *line = strstr(a->text, "\r\n"); line && line < a->text + a->n_header;
         line = strstr(line + 2, "\r\n"))
        if (!strncasecmp(line + 2, name, n) && line[2 + n] == ':')
            return line + 3 + n + strspn(line + 3 + n, " ");
    return NULL;
}

static bool receive_bytes(int fd, http_answer *a, size_t *n, size_t wanted) {
    while (wanted) {
        const size_t before = *n;
        if (!receive_some(fd, a, n, wanted)) return false;
        memcpy(a->body + a->n_body, a->text + before, *n - before);
        a->n_body += *n - before;
        wanted -= *n - before;
    }
    return true;
}

/* One byte at a time leaves what follows where it is. */
static bool receive_line(int fd, http_answer *a, size_t *n) {
    do
        if (!receive_some(fd, a, n, 1)) return false;
    while (a->text[*n - 1] != '\n');
    return true;
}

static bool receive_chunks(int fd, http_answer *a, size_t *n) {
    for (;;) {
        const size_t begin = *n;
        if (!receive_line(fd, a, n)) return false;
        const size_t size = strtoul(a->text + begin, NULL, 16);
        if (size && !receive_bytes(fd, a, n, size)) return false;
        if (!receive_line(fd, a, n)) return false;
        if (!size) return true;
    }
}

void peer_receive(int fd, http_answer *a) {
    size_t n = 0;
    memset(a, 0, offsetof(http_answer, text));
    a->text[0] = 0;
    memset(a->body, 0, sizeof a->body);
    while (n < 4 || strcmp(a->text + n - 4, "\r\n\r\n") != 0)
        if (!receive_some(fd, a, &n, 1)) return;
    a->n_header = n;
    a->status = atoi(a->text + 9);
    const char *length = find_header(a, "Content-Length");
    if (a->status == 100 || a->status == 204)
        a->is_complete = true;
    else if (find_header(a, "Transfer-Encoding"))
        a->is_complete = receive_chunks(fd, a, &n);
    else if (length)
        a->is_complete = receive_bytes(fd, a, &n, strtoul(length, NULL, 10));
    else
        while (receive_bytes(fd, a, &n, 1)) {
        }
}

bool peer_is_closed(int fd) {
    char drop[4096];
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    while (poll(&wait, 1, WAIT_MS) > 0)
        if (recv(fd, drop, sizeof drop, 0) <= 0) return true;
    return false;
}

bool answer_has(const http_answer *a, const char *header_line) {
    const size_t n = strlen(header_line);
    for (const char *line = strstr(a->text, "\r\n"); line && line < a->text + a->n_header;
         line = strstr(line + 2, "\r\n"))
        if (!strncasecmp(line + 2, header_line, n) && !strncmp(line + 2 + n, "\r\n", 2))
            return true;
    return false;
}
