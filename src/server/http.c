#include "server/http.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/http_internal.h"

/* ---- options ---- */

static ig_http_options with_defaults(const ig_http_options *given) {
    ig_http_options o = *given;
    if (!o.allocator) o.allocator = &ig_heap;
    if (!o.host) o.host = "127.0.0.1";
    if (o.threads <= 0) o.threads = 2;
    if (o.threads > THREADS_MOST) o.threads = THREADS_MOST;
    if (!o.max_header_bytes) o.max_header_bytes = 16 << 10;
    if (!o.max_url_bytes) o.max_url_bytes = 8 << 10;
    if (!o.max_body_bytes) o.max_body_bytes = 8 << 20;
    if (o.max_connections <= 0) o.max_connections = 1024;
    if (!o.max_per_address) o.max_per_address = 64;
    if (o.header_s <= 0) o.header_s = 30;
    if (o.body_s <= 0) o.body_s = 60;
    if (o.idle_s <= 0) o.idle_s = 60;
    if (o.write_stall_s <= 0) o.write_stall_s = 60;
    return o;
}

/* Deadlines are looked at so often that none is missed by more than a quarter. */
static double tick_of(const ig_http_options *o) {
    double least = o->header_s;
    if (o->body_s < least) least = o->body_s;
    if (o->idle_s < least) least = o->idle_s;
    if (o->write_stall_s < least) least = o->write_stall_s;
    const double ms = least * 250;
    return ms < 10 ? 10 : ms > 1000 ? 1000 : ms;
}

static ig_status check_options(const ig_http_options *o) {
    if (!o->handler) return IG_FAIL(IG_ERR_ARGUMENT, "http: there is no handler");
    if (!o->cert_file != !o->cert_key_file)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "http: TLS needs a certificate file and a key file; only "
                       "%s was given",
                       o->cert_file ? o->cert_file : o->cert_key_file);
    const char *prefix = o->api_prefix;
    if (prefix && *prefix && (prefix[0] != '/' || prefix[strlen(prefix) - 1] == '/'))
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "http: the API prefix \"%s\" must begin with '/' and not end with it",
                       prefix);
    return IG_OK;
}

static ig_status read_proxies(ig_http *http) {
    const ig_http_options *o = &http->options;
    http->proxies = ig_alloc(http->allocator, o->n_trusted_proxies + 1, sizeof *http->proxies);
    if (!http->proxies) return IG_FAIL(IG_ERR_MEMORY, "http: no memory for trusted proxies");
    for (size_t i = 0; i < o->n_trusted_proxies; i++)
        IG_TRY(http_network_parse(o->trusted_proxies[i], &http->proxies[i]));
    return IG_OK;
}

/* Whether every socket is one that only this machine, or the owner of a file, can reach. */
static ig_status check_reach(const ig_http *http) {
    if (http->options.insecure || http->keys->count) return IG_OK;
    for (int i = 0; i < http->n_listeners; i++) {
        const http_listener *l = &http->listener[i];
        if (l->is_unix || l->is_loopback) continue;
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "http: %s can be reached from other machines, and there is no key: give a "
                       "key (--api-key-file or INGOT_API_KEY), listen on 127.0.0.1, or pass "
                       "--insecure to serve anyone",
                       http->options.n_sockets ? "a socket that was passed" : http->options.host);
    }
    return IG_OK;
}

/* ---- life ---- */

static void close_given_sockets(const ig_http_options *options) {
    for (size_t i = 0; i < options->n_sockets; i++) close(options->sockets[i]);
}

static ig_status open_http(ig_http *http) {
    IG_TRY(check_options(&http->options));
    IG_TRY(read_proxies(http));
    IG_TRY(http_keys_load(&http->options, &http->keys));
    IG_TRY(check_reach(http));
    return http_pool_create(http, &http->pools);
}

ig_status ig_http_create(const ig_http_options *options, ig_http **out) {
    const ig_http_options o = with_defaults(options);
    ig_http *http = ig_alloc(o.allocator, 1, sizeof *http);
    if (!http) {
        close_given_sockets(&o);
        return IG_FAIL(IG_ERR_MEMORY, "http: no memory for the server");
    }
    http->options = o;
    http->allocator = o.allocator;
    http->epoll_fd = http->event_fd = -1;
    http->tick_ms = tick_of(&o);
    pthread_mutex_init(&http->lock, NULL);
    ig_status status = http_listen(http);
    if (status == IG_OK) status = open_http(http);
    if (status != IG_OK) {
        ig_http_destroy(http);
        return status;
    }
    *out = http;
    return IG_OK;
}

/* A connection takes two descriptors; what the system allows more is for files and the engine. */
static void ask_descriptors(const ig_http *http) {
    struct rlimit limit;
    const rlim_t wanted = 2 * (rlim_t)http->options.max_connections + 256;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= wanted) return;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
}

ig_status ig_http_start(ig_http *http) {
    ask_descriptors(http);
    return http_watch_start(http);
}

ig_status ig_http_reload(ig_http *http) {
    http_keys *keys = NULL;
    http_pool *pool = NULL;
    IG_TRY(http_keys_load(&http->options, &keys));
    if (!keys->count && !http->options.insecure) { /* the last key must not go */
        http_keys *old = http->keys;
        if (old->count) {
            http_keys_release(keys);
            return IG_FAIL(IG_ERR_ARGUMENT, "http: no key is left; the old ones stay");
        }
    }
    if (http->options.cert_file) {
        const ig_status status = http_pool_create(http, &pool);
        if (status != IG_OK) {
            http_keys_release(keys);
            return status;
        }
    }
    pthread_mutex_lock(&http->lock);
    http_keys *old = http->keys;
    http->keys = keys;
    if (pool) {
        pool->next = http->pools;
        http->pools = pool;
    }
    pthread_mutex_unlock(&http->lock);
    http_keys_release(old);
    return IG_OK;
}

void ig_http_stop_accepting(ig_http *http) {
    atomic_store(&http->is_quiet, true);
    http_watch_wake(http);
}

bool ig_http_wait_idle(ig_http *http, double seconds) {
    const double end_ms = ig_clock_ms() + seconds * 1e3;
    while (atomic_load(&http->n_exchanges)) {
        if (ig_clock_ms() >= end_ms) return false;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    return true;
}

void ig_http_destroy(ig_http *http) {
    if (!http) return;
    atomic_store(&http->is_stopping, true);
    http_watch_stop(http);
    while (http->pools) {
        http_pool *next = http->pools->next;
        http_pool_destroy(http, http->pools);
        http->pools = next;
    }
    while (http->connections) {
        http_connection *next = http->connections->next;
        if (http->connections->fd >= 0) close(http->connections->fd);
        pthread_mutex_destroy(&http->connections->lock);
        ig_free(http->allocator, http->connections);
        http->connections = next;
    }
    http_unlisten(http);
    if (http->epoll_fd >= 0) close(http->epoll_fd);
    if (http->event_fd >= 0) close(http->event_fd);
    http_keys_release(http->keys);
    ig_free(http->allocator, http->proxies);
    pthread_mutex_destroy(&http->lock);
    ig_free(http->allocator, http);
}

int ig_http_port(const ig_http *http) { return http->listener[0].port; }
const char *ig_http_url(const ig_http *http) { return http->url; }

/* ---- statistics ---- */

void http_reject(ig_http *http, ig_http_rejection reason) {
    atomic_fetch_add(&http->rejected[reason], 1);
}

void ig_http_get_stats(const ig_http *http, ig_http_stats *out) {
    *out = (ig_http_stats){.accepted = atomic_load(&http->accepted),
                           .requests = atomic_load(&http->requests),
                           .left = atomic_load(&http->left)};
    for (int i = 0; i < 6; i++) out->by_class[i] = atomic_load(&http->by_class[i]);
    for (int i = 0; i < IG_HTTP_REJECTION_COUNT; i++)
        out->rejected[i] = atomic_load(&http->rejected[i]);
    out->n_idle = atomic_load(&http->n_phase[HTTP_IDLE]);
    out->n_reading =
        atomic_load(&http->n_phase[HTTP_HEADER]) + atomic_load(&http->n_phase[HTTP_BODY]);
    out->n_busy = atomic_load(&http->n_phase[HTTP_BUSY]);
    out->n_sending = atomic_load(&http->n_phase[HTTP_SENDING]);
    out->n_connections = out->n_idle + out->n_reading + out->n_busy + out->n_sending;
}

const char *ig_http_rejection_name(ig_http_rejection reason) {
    static const char *const names[] = {
#define X(name, text) [IG_HTTP_REJECT_##name] = text,
        IG_HTTP_REJECTIONS(X)
#undef X
    };
    return (unsigned)reason < IG_HTTP_REJECTION_COUNT ? names[reason] : "?";
}
