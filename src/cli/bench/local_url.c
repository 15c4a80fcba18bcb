#include "cli/bench/local_url.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#include "cli/app/output.h"

enum { SHOWN_BYTES = 128 };

static ig_status refuse(const char *url, const char *why) {
    char shown[SHOWN_BYTES];
    return IG_FAIL(IG_ERR_ARGUMENT, "--url '%s': %s", ig_text_safe(url, shown, sizeof shown), why);
}

static ig_status parse_unix(const char *url, const char *path, ig_local_url *out) {
    struct sockaddr_un *to = (struct sockaddr_un *)&out->address;
    if (*path != '/') return refuse(url, "expected unix:/path/of/the/socket");
    if (strlen(path) >= sizeof to->sun_path) return refuse(url, "the socket's path is too long");
    to->sun_family = AF_UNIX;
    memcpy(to->sun_path, path, strlen(path) + 1);
    out->address_bytes = sizeof *to;
    snprintf(out->host, sizeof out->host, "localhost");
    return IG_OK;
}

/* Splits "[::1]:8080" or "localhost:8080" into its name, without brackets, and its port. */
static ig_status split_host(const char *url, const char *host, char name[IG_URL_HOST_BYTES],
                            uint16_t *port) {
    const bool brackets = host[0] == '[';
    const size_t length = strcspn(host + brackets, brackets ? "]" : ":");
    const char *rest = host + brackets + length;
    if (brackets && *rest++ != ']') return refuse(url, "']' is missing");
    memcpy(name, host + brackets, length);
    name[length] = 0;
    *port = 80;
    if (!*rest) return IG_OK;
    char *end = NULL;
    errno = 0;
    const bool digits = rest[0] == ':' && rest[1] >= '0' && rest[1] <= '9';
    const unsigned long value = digits ? strtoul(rest + 1, &end, 10) : 0;
    if (!digits || *end || value == 0 || value > UINT16_MAX)
        return refuse(url, "the port must be a number from 1 to 65535");
    *port = (uint16_t)value;
    return IG_OK;
}

/* Writes the address if the name is one of this machine's loopback interface. */
static bool find_loopback(const char *name, uint16_t port, ig_local_url *out) {
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    const char *number = strcasecmp(name, "localhost") == 0 ? "127.0.0.1" : name;
    if (inet_pton(AF_INET, number, &v4.sin_addr) == 1) {
        if (ntohl(v4.sin_addr.s_addr) >> 24 != 127) return false;
        memcpy(&out->address, &v4, sizeof v4);
        out->address_bytes = sizeof v4;
        return true;
    }
    if (inet_pton(AF_INET6, number, &v6.sin6_addr) != 1) return false;
    if (!IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr)) return false;
    memcpy(&out->address, &v6, sizeof v6);
    out->address_bytes = sizeof v6;
    return true;
}

static bool is_printable(const char *text) {
    for (; *text; text++)
        if (*text <= ' ' || *text > '~') return false;
    return true;
}

ig_status ig_local_url_parse(const char *url, ig_local_url *out) {
    static const char http[] = "http://", unix_socket[] = "unix:";
    ig_local_url parsed = {0};
    char name[IG_URL_HOST_BYTES];
    uint16_t port;
    if (!is_printable(url)) return refuse(url, "must consist of printable characters");
    if (strncmp(url, unix_socket, strlen(unix_socket)) == 0) {
        IG_TRY(parse_unix(url, url + strlen(unix_socket), &parsed));
        *out = parsed;
        return IG_OK;
    }
    if (strncasecmp(url, http, strlen(http)) != 0)
        return refuse(url, "expected http://127.0.0.1:PORT or unix:/path/of/the/socket");
    const char *host = url + strlen(http);
    const size_t host_bytes = strcspn(host, "/?#");
    size_t base_bytes = strlen(host + host_bytes);
    while (base_bytes > 0 && host[host_bytes + base_bytes - 1] == '/') base_bytes--;
    if (host_bytes >= sizeof parsed.host || base_bytes >= sizeof parsed.base)
        return refuse(url, "too long");
    memcpy(parsed.host, host, host_bytes);
    memcpy(parsed.base, host + host_bytes, base_bytes);
    if (strpbrk(parsed.base, "?#")) return refuse(url, "must not have a query");
    IG_TRY(split_host(url, parsed.host, name, &port));
    if (!find_loopback(name, port, &parsed))
        return refuse(url, "load is sent to this machine only: 127.0.0.1, localhost, [::1] or "
                           "a unix socket");
    *out = parsed;
    return IG_OK;
}
