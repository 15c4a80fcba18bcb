/*
 * http_exchange.c - what handlers call, and the loop that calls advance().
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text_out.h"
#include "server/http_internal.h"

/* advance() is called so often in a row before other connections have a turn. */
enum { TURNS = 8 };

/* ---- errors ---- */

static const char *type_of(int code) {
    static const struct {
        int code;
        const char *type;
    } types[] = {
        {401, "authentication_error"}, {403, "permission_error"},    {404, "not_found_error"},
        {429, "rate_limit_error"},     {501, "not_supported_error"}, {503, "unavailable_error"},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].code == code) return types[i].type;
    return code < 500 ? "invalid_request_error" : "server_error";
}

size_t http_error_text(char *out, size_t room, int code, const char *message) {
    ig_text t = ig_text_begin(out, room);
    ig_text_add(&t, "{\"error\":{\"message\":");
    ig_text_add_string(&t, message);
    ig_text_add(&t, ",\"type\":\"%s\",\"param\":null,\"code\":%d}}", type_of(code), code);
    return t.used < room ? t.used : room - 1;
}

void http_exchange_fail(ig_exchange *x, int code, const char *message) {
    char text[512];
    const size_t n = http_error_text(text, sizeof text, code, message);
    ig_exchange_reply(x, code, "application/json", text, n);
}

void http_exchange_refuse(ig_exchange *x, ig_http_rejection reason, int code, const char *message) {
    http_reject(x->http, reason);
    http_exchange_fail(x, code, message);
}

/* ---- life ---- */

ig_exchange *http_exchange_create(http_connection *connection, struct MHD_Connection *mhd) {
    ig_http *http = connection->http;
    ig_exchange *x = ig_alloc(http->allocator, 1, sizeof *x);
    if (!x) return NULL;
    *x = (ig_exchange){.http = http,
                       .connection = connection,
                       .mhd = mhd,
                       .request = {.method = "-",
                                   .path = "-",
                                   .body = "",
                                   .id = x->id,
                                   .client = x->client,
                                   .traceparent = x->traceparent,
                                   .parent_span = x->parent_span,
                                   .arrived_ms = ig_clock_ms()}};
    atomic_fetch_add(&http->n_exchanges, 1);
    return x;
}

void http_exchange_destroy(ig_exchange *x) {
    ig_http *http = x->http;
    const ig_allocator *a = http->allocator;
    http_keys_release(x->keys);
    ig_free(a, x->body);
    ig_free(a, x->headers);
    ig_free(a, x->notes);
    ig_free(a, x->bytes);
    ig_free(a, x);
    atomic_fetch_sub(&http->n_exchanges, 1);
}

bool http_exchange_take_body(ig_exchange *x, const void *bytes, size_t n_bytes) {
    if (!IG_GROW(x->http->allocator, x->body, &x->body_room, x->n_body + n_bytes + 1)) return false;
    memcpy(x->body + x->n_body, bytes, n_bytes);
    x->n_body += n_bytes;
    x->body[x->n_body] = 0;
    return true;
}

void http_exchange_leave(ig_exchange *x) {
    x->has_left = true;
    if (!x->is_suspended) return;
    x->is_suspended = false;
    MHD_resume_connection(x->mhd);
}

/* ---- advance() ---- */

static size_t n_waiting(const ig_exchange *x) { return x->n_bytes - x->taken; }

/* libmicrohttpd can go on: with the reply's begin, with bytes, or with the end. */
static bool has_output(const ig_exchange *x) {
    if (x->output == HTTP_STREAM && x->is_queued) return n_waiting(x) || x->is_ended;
    return x->output != HTTP_NO_OUTPUT;
}

static bool take_wake(ig_exchange *x, bool *has_left) {
    pthread_mutex_lock(&x->connection->lock);
    const bool is_woken = x->is_woken;
    x->is_woken = false;
    *has_left = x->has_left || x->connection->has_hung_up || atomic_load(&x->http->is_stopping);
    x->has_left = *has_left;
    pthread_mutex_unlock(&x->connection->lock);
    return is_woken;
}

/* False: a wake came in between, or the client has left. */
static bool suspend(ig_exchange *x, bool is_tired) {
    http_connection *c = x->connection;
    pthread_mutex_lock(&c->lock);
    const bool may =
        is_tired || !(x->is_woken || x->has_left || atomic_load(&x->http->is_stopping));
    if (may) {
        http_connection_enter(c, HTTP_BUSY);
        MHD_suspend_connection(x->mhd);
        x->is_suspended = !is_tired;
        if (is_tired) MHD_resume_connection(x->mhd); /* others first */
    }
    pthread_mutex_unlock(&c->lock);
    return may;
}

bool http_exchange_advance(ig_exchange *x) {
    for (int turn = 0; turn < TURNS; turn++) {
        bool has_left;
        const bool is_woken = take_wake(x, &has_left);
        if (has_left) return true;
        const bool has_room =
            x->output == HTTP_STREAM && !x->is_ended && n_waiting(x) < STREAM_BYTES / 2;
        if (has_output(x) && !(is_woken && has_room)) return true;
        x->source.advance(x->source.user, x);
        if (has_output(x)) return true;
        if (suspend(x, false)) return false;
    }
    suspend(x, true);
    return false;
}

/* ---- the interface ---- */

const ig_exchange_request *ig_exchange_get_request(const ig_exchange *x) { return &x->request; }

const char *ig_exchange_header(const ig_exchange *x, const char *name) {
    return MHD_lookup_connection_value(x->mhd, MHD_HEADER_KIND, name);
}

const char *ig_exchange_query(const ig_exchange *x, const char *name) {
    return MHD_lookup_connection_value(x->mhd, MHD_GET_ARGUMENT_KIND, name);
}

static bool add_pair(ig_exchange *x, char **list, size_t *n, size_t *room, const char *name,
                     const char *value) {
    const size_t n_name = strlen(name) + 1, n_value = strlen(value) + 1;
    if (!ig_grow(x->http->allocator, (void **)list, room, *n + n_name + n_value, 1)) return false;
    memcpy(*list + *n, name, n_name);
    memcpy(*list + *n + n_name, value, n_value);
    *n += n_name + n_value;
    return true;
}

void ig_exchange_add_header(ig_exchange *x, const char *name, const char *value) {
    if (!add_pair(x, &x->headers, &x->n_headers, &x->headers_room, name, value))
        x->is_memory_out = true;
}

void ig_exchange_note(ig_exchange *x, const char *name, const char *value) {
    (void)!add_pair(x, &x->notes, &x->n_notes, &x->notes_room, name, value);
}

bool ig_exchange_next_note(const ig_exchange *x, size_t *at, const char **name,
                           const char **value) {
    if (*at >= x->n_notes) return false;
    *name = x->notes + *at;
    *value = *name + strlen(*name) + 1;
    *at += strlen(*name) + strlen(*value) + 2;
    return true;
}

void ig_exchange_set_route(ig_exchange *x, const char *route) { x->route = route; }
const char *ig_exchange_get_route(const ig_exchange *x) { return x->route; }

static void begin_reply(ig_exchange *x, http_output output, int code, const char *content_type) {
    x->output = output;
    x->code = code;
    snprintf(x->content_type, sizeof x->content_type, "%s", content_type ? content_type : "");
}

void ig_exchange_reply(ig_exchange *x, int code, const char *content_type, const void *bytes,
                       size_t n_bytes) {
    if (x->output != HTTP_NO_OUTPUT) return;
    begin_reply(x, HTTP_REPLY, code, content_type);
    if (!IG_GROW(x->http->allocator, x->bytes, &x->bytes_room, n_bytes + 1)) {
        x->is_memory_out = true;
        return;
    }
    if (n_bytes) memcpy(x->bytes, bytes, n_bytes);
    x->n_bytes = n_bytes;
}

void ig_exchange_defer(ig_exchange *x, const ig_exchange_source *source) {
    x->source = *source;
    x->is_deferred = true;
}

void ig_exchange_wake(ig_exchange *x) {
    pthread_mutex_lock(&x->connection->lock);
    x->is_woken = true;
    if (x->is_suspended) {
        x->is_suspended = false;
        MHD_resume_connection(x->mhd);
    }
    pthread_mutex_unlock(&x->connection->lock);
}

void ig_exchange_stream(ig_exchange *x, int code, const char *content_type) {
    if (x->output == HTTP_NO_OUTPUT) begin_reply(x, HTTP_STREAM, code, content_type);
}

/* Moves pending bytes to the start of the buffer if that saves growing it. */
static void compact(ig_exchange *x, size_t n_more) {
    if (!x->taken || (n_waiting(x) && x->n_bytes + n_more <= x->bytes_room)) return;
    memmove(x->bytes, x->bytes + x->taken, n_waiting(x));
    x->n_bytes -= x->taken;
    x->taken = 0;
}

bool ig_exchange_write(ig_exchange *x, const void *bytes, size_t n_bytes) {
    if (x->output != HTTP_STREAM || x->is_ended || ig_exchange_left(x)) return false;
    if (!n_bytes) return true;
    if (n_waiting(x) && n_waiting(x) + n_bytes > STREAM_BYTES) return false;
    compact(x, n_bytes);
    if (!IG_GROW(x->http->allocator, x->bytes, &x->bytes_room, x->n_bytes + n_bytes)) {
        http_reject(x->http, IG_HTTP_REJECT_MEMORY);
        pthread_mutex_lock(&x->connection->lock);
        x->has_left = true; /* a reply with a gap would be wrong */
        pthread_mutex_unlock(&x->connection->lock);
        return false;
    }
    memcpy(x->bytes + x->n_bytes, bytes, n_bytes);
    x->n_bytes += n_bytes;
    return true;
}

void ig_exchange_end(ig_exchange *x) { x->is_ended = true; }

bool ig_exchange_left(const ig_exchange *x) {
    pthread_mutex_lock(&x->connection->lock);
    const bool has_left = x->has_left;
    pthread_mutex_unlock(&x->connection->lock);
    return has_left;
}
