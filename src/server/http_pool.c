/*
 * http_pool.c - libmicrohttpd's threads.  Each is a daemon of its own without a listening socket,
 * which waits for its connections with epoll.  A new certificate gets a new pool; connections of
 * the old one go on.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "server/http_internal.h"

enum {
    /* Beside the header section, which stays while a request is served: the table of its fields
     * and the reply's header. */
    POOL_EXTRA_BYTES = 8 << 10,
};

static ig_status read_pem(const ig_allocator *a, const char *path, char **out) {
    ig_file_map map = {0};
    IG_TRY(ig_file_map_open(path, &map));
    char *text = map.size < 1 << 20 ? ig_alloc(a, (size_t)map.size + 1, 1) : NULL;
    if (text) memcpy(text, map.bytes, (size_t)map.size);
    ig_file_map_close(&map);
    if (!text) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for a certificate", path);
    *out = text;
    return IG_OK;
}

/* libmicrohttpd answers by itself what is not HTTP, sometimes before it tells of a request; but it
 * always has a message for it, with the status code. */
static void on_message(void *user, const char *format, va_list args) {
    static const char refusal[] = "Error processing request (HTTP response code is %u";
    if (strncmp(format, refusal, sizeof refusal - 1) != 0) return;
    const unsigned code = va_arg(args, unsigned);
    http_reject(user, code == 413   ? IG_HTTP_REJECT_BODY
                      : code == 414 ? IG_HTTP_REJECT_URL
                      : code == 431 ? IG_HTTP_REJECT_HEADER
                                    : IG_HTTP_REJECT_MALFORMED);
}

static struct MHD_Daemon *start_thread(ig_http *http, const http_pool *pool) {
    const ig_http_options *o = &http->options;
    const bool is_tls = pool->cert != NULL;
    /* TURBO: libmicrohttpd does not shut the connection down, which the watching thread does. */
    const unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_NO_LISTEN_SOCKET |
                           MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
                           (is_tls ? MHD_USE_TLS : MHD_USE_TURBO);
    const struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, pool->cert},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, pool->key},
        {MHD_OPTION_HTTPS_PRIORITIES, 0,
         (void *)(uintptr_t) "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"},
        {MHD_OPTION_END, 0, NULL}};
    const struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    const size_t memory = o->max_header_bytes + POOL_EXTRA_BYTES;
    return MHD_start_daemon(
        flags, 0, NULL, NULL, http_on_request, http, MHD_OPTION_EXTERNAL_LOGGER, on_message, http,
        MHD_OPTION_URI_LOG_CALLBACK, http_on_uri, http, MHD_OPTION_NOTIFY_COMPLETED,
        http_on_completed, http, MHD_OPTION_NOTIFY_CONNECTION, http_on_connection, http,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)o->max_connections + 16,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)PARK_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, memory,
        MHD_OPTION_CONNECTION_MEMORY_INCREMENT, (size_t)1024, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_ARRAY, is_tls ? tls : none, MHD_OPTION_END);
}

ig_status http_pool_create(ig_http *http, http_pool **out) {
    const ig_http_options *o = &http->options;
    http_pool *pool = ig_alloc(http->allocator, 1, sizeof *pool);
    if (!pool) return IG_FAIL(IG_ERR_MEMORY, "http: no memory for threads");
    ig_status status = IG_OK;
    if (o->cert_file) status = read_pem(http->allocator, o->cert_file, &pool->cert);
    if (status == IG_OK && o->cert_file)
        status = read_pem(http->allocator, o->cert_key_file, &pool->key);
    while (status == IG_OK && pool->count < o->threads) {
        errno = 0;
        struct MHD_Daemon *daemon = start_thread(http, pool);
        if (daemon)
            pool->daemon[pool->count++] = daemon;
        else if (o->cert_file)
            status = IG_FAIL(IG_ERR_FORMAT, "http: %s and %s are not a certificate and its key",
                             o->cert_file, o->cert_key_file);
        else
            status = IG_FAIL(IG_ERR_IO, "http: cannot start a thread: %s", strerror(errno));
    }
    if (status == IG_OK)
        *out = pool;
    else
        http_pool_destroy(http, pool);
    return status;
}

void http_pool_destroy(ig_http *http, http_pool *pool) {
    if (!pool) return;
    for (int i = 0; i < pool->count; i++) MHD_stop_daemon(pool->daemon[i]);
    if (pool->key) explicit_bzero(pool->key, strlen(pool->key));
    ig_free(http->allocator, pool->cert);
    ig_free(http->allocator, pool->key);
    ig_free(http->allocator, pool);
}

/* libmicrohttpd copies the address, and reads no more of it than the family: so it carries the
 * connection, too. */
bool http_pool_add(http_pool *pool, http_connection *connection) {
    struct {
        struct sockaddr address;
        http_connection *connection;
    } name = {.address.sa_family = connection->address.is_unix ? AF_UNIX : AF_INET,
              .connection = connection};
    const int fd = fcntl(connection->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return false;
    const int thread = pool->turn++ % pool->count;
    connection->thread = thread;
    connection->number = ++pool->n_added[thread];
    atomic_fetch_add(&pool->n_connections, 1);
    if (MHD_add_connection(pool->daemon[thread], fd, &name.address, sizeof name) == MHD_YES)
        return true;
    atomic_fetch_sub(&pool->n_connections, 1);
    return false;
}
