#include "cli/bench/http_reply.h"

#include <string.h>
#include <strings.h>

#include "base/alloc.h"

bool ig_http_bytes_add(const ig_allocator *a, ig_http_bytes *to, const char *bytes,
                       size_t n_bytes) {
    if (n_bytes >= SIZE_MAX - to->used) return false;
    if (!IG_GROW(a, to->at, &to->room, to->used + n_bytes + 1)) return false;
    memcpy(to->at + to->used, bytes, n_bytes);
    to->used += n_bytes;
    to->at[to->used] = 0;
    return true;
}

static void clear(ig_http_bytes *bytes) {
    bytes->used = 0;
    if (bytes->at) bytes->at[0] = 0;
}

static ig_status add(ig_http_reply *r, ig_http_bytes *to, const char *bytes, size_t n_bytes,
                     size_t most, const char *what) {
    if (n_bytes > most - to->used)
        return IG_FAIL(IG_ERR_FORMAT, "http: %s has more than %zu bytes", what, most);
    if (ig_http_bytes_add(r->allocator, to, bytes, n_bytes)) return IG_OK;
    return IG_FAIL(IG_ERR_MEMORY, "http: no memory for %s", what);
}

/* ---- Server-sent events ---- */

/* A line without its end: data is collected, an empty line ends the event. */
static ig_status take_event_line(ig_http_reply *r, const char *line, size_t n_bytes) {
    static const char data[] = "data:";
    const size_t name_bytes = sizeof data - 1;
    if (n_bytes == 0) {
        if (r->event.used > 0) r->on_event(r->user, r->event.at, r->event.used);
        clear(&r->event);
        return IG_OK;
    }
    if (n_bytes < name_bytes || memcmp(line, data, name_bytes) != 0) return IG_OK;
    line += name_bytes, n_bytes -= name_bytes;
    if (n_bytes > 0 && *line == ' ') line++, n_bytes--;
    if (r->event.used > 0) IG_TRY(add(r, &r->event, "\n", 1, IG_HTTP_EVENT_BYTES, "an event"));
    return add(r, &r->event, line, n_bytes, IG_HTTP_EVENT_BYTES, "an event");
}

/* Lines end with LF, CR or CR LF. */
static ig_status take_events(ig_http_reply *r, const char *bytes, size_t n_bytes) {
    size_t from = 0;
    if (n_bytes > 0 && r->line_ended_by_cr && bytes[0] == '\n') from = 1;
    if (n_bytes > 0) r->line_ended_by_cr = false;
    for (size_t i = from; i < n_bytes; i++) {
        if (bytes[i] != '\n' && bytes[i] != '\r') continue;
        IG_TRY(add(r, &r->event_line, bytes + from, i - from, IG_HTTP_EVENT_BYTES, "a line"));
        IG_TRY(take_event_line(r, r->event_line.at, r->event_line.used));
        clear(&r->event_line);
        if (bytes[i] == '\r' && i + 1 == n_bytes) r->line_ended_by_cr = true;
        if (bytes[i] == '\r' && i + 1 < n_bytes && bytes[i + 1] == '\n') i++;
        from = i + 1;
    }
    return add(r, &r->event_line, bytes + from, n_bytes - from, IG_HTTP_EVENT_BYTES, "a line");
}

static ig_status take_body(ig_http_reply *r, const char *bytes, size_t n_bytes) {
    if (r->is_event_stream && r->on_event) return take_events(r, bytes, n_bytes);
    return add(r, &r->body, bytes, n_bytes, IG_HTTP_BODY_BYTES, "the body");
}

/* ---- The head ---- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static ig_status take_status_line(ig_http_reply *r, const char *line) {
    const bool is_http = strncmp(line, "HTTP/1.", 7) == 0 && is_digit(line[7]) && line[8] == ' ';
    if (!is_http || !is_digit(line[9]) || !is_digit(line[10]) || !is_digit(line[11]) ||
        (line[12] && line[12] != ' '))
        return IG_FAIL(IG_ERR_FORMAT, "http: the reply does not begin with an HTTP/1.1 status");
    r->code = (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
    r->keep_alive = line[7] != '0';
    r->phase = IG_HTTP_HEADER;
    return IG_OK;
}

/* The value of a header if the line has that name; NULL: another header. */
static const char *value_of(const char *line, const char *name) {
    const size_t length = strlen(name);
    if (strncasecmp(line, name, length) != 0 || line[length] != ':') return NULL;
    return line + length + 1 + strspn(line + length + 1, " \t");
}

static ig_status take_length(ig_http_reply *r, const char *digits) {
    uint64_t length = 0;
    if (!is_digit(*digits)) return IG_FAIL(IG_ERR_FORMAT, "http: Content-Length is not a number");
    for (; is_digit(*digits); digits++) {
        length = length * 10 + (uint64_t)(*digits - '0');
        if (length > IG_HTTP_BODY_BYTES)
            return IG_FAIL(IG_ERR_FORMAT, "http: Content-Length is above %d", IG_HTTP_BODY_BYTES);
    }
    r->has_length = true;
    r->length = length;
    return IG_OK;
}

static ig_status take_header(ig_http_reply *r, const char *line) {
    const char *value;
    if ((value = value_of(line, "Content-Length"))) return take_length(r, value);
    if ((value = value_of(line, "Transfer-Encoding")))
        r->is_chunked = strcasecmp(value, "chunked") == 0;
    else if ((value = value_of(line, "Content-Type")))
        r->is_event_stream = strncasecmp(value, "text/event-stream", 17) == 0;
    else if ((value = value_of(line, "Connection")))
        r->keep_alive = strcasecmp(value, "close") != 0 && r->keep_alive;
    return IG_OK;
}

/* Decides how the body ends.  Replies with 1xx come before the real one. */
static void end_head(ig_http_reply *r) {
    const bool is_interim = r->code >= 100 && r->code < 200;
    const bool has_body = r->code != 204 && r->code != 304;
    if (is_interim) {
        r->phase = IG_HTTP_STATUS_LINE;
    } else if (!has_body) {
        r->phase = IG_HTTP_COMPLETE;
    } else if (r->is_chunked) {
        r->phase = IG_HTTP_CHUNK_SIZE;
    } else if (r->has_length) {
        r->left = r->length;
        r->phase = r->left > 0 ? IG_HTTP_DATA : IG_HTTP_COMPLETE;
    } else {
        r->keep_alive = false;
        r->phase = IG_HTTP_UNTIL_CLOSE;
    }
}

static int hex_of(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static ig_status take_chunk_size(ig_http_reply *r, const char *line) {
    uint64_t size = 0;
    if (hex_of(*line) < 0) return IG_FAIL(IG_ERR_FORMAT, "http: a chunk has no size");
    for (; hex_of(*line) >= 0; line++) {
        size = size * 16 + (uint64_t)hex_of(*line);
        if (size > IG_HTTP_BODY_BYTES)
            return IG_FAIL(IG_ERR_FORMAT, "http: a chunk has more than %d bytes",
                           IG_HTTP_BODY_BYTES);
    }
    r->left = size;
    r->phase = size > 0 ? IG_HTTP_DATA : IG_HTTP_TRAILER;
    return IG_OK;
}

static ig_status take_line(ig_http_reply *r, const char *line) {
    const bool is_field = r->phase == IG_HTTP_HEADER || r->phase == IG_HTTP_TRAILER;
    if (is_field && *line && ++r->n_headers > IG_HTTP_HEADERS)
        return IG_FAIL(IG_ERR_FORMAT, "http: more than %d headers", IG_HTTP_HEADERS);
    switch (r->phase) {
    case IG_HTTP_STATUS_LINE: return take_status_line(r, line);
    case IG_HTTP_HEADER:
        if (*line) return take_header(r, line);
        end_head(r);
        return IG_OK;
    case IG_HTTP_CHUNK_SIZE: return take_chunk_size(r, line);
    case IG_HTTP_CHUNK_END:
        if (*line) return IG_FAIL(IG_ERR_FORMAT, "http: a chunk is longer than its size");
        r->phase = IG_HTTP_CHUNK_SIZE;
        return IG_OK;
    default: /* a trailer */
        if (!*line) r->phase = IG_HTTP_COMPLETE;
        return IG_OK;
    }
}

/* ---- Pieces ---- */

static ig_status feed_line(ig_http_reply *r, const char *bytes, size_t n_bytes, size_t *used) {
    const char *end = memchr(bytes, '\n', n_bytes);
    const size_t taken = end ? (size_t)(end - bytes) : n_bytes;
    IG_TRY(add(r, &r->line, bytes, taken, IG_HTTP_LINE_BYTES, "a header line"));
    *used = taken + (end != NULL);
    if (!end) return IG_OK;
    if (r->line.used > 0 && r->line.at[r->line.used - 1] == '\r') r->line.at[--r->line.used] = 0;
    const ig_status status = take_line(r, r->line.at);
    clear(&r->line);
    return status;
}

static ig_status feed_data(ig_http_reply *r, const char *bytes, size_t n_bytes, size_t *used) {
    const bool counted = r->phase == IG_HTTP_DATA;
    *used = counted && r->left < n_bytes ? (size_t)r->left : n_bytes;
    IG_TRY(take_body(r, bytes, *used));
    if (!counted) return IG_OK;
    r->left -= *used;
    if (r->left == 0) r->phase = r->is_chunked ? IG_HTTP_CHUNK_END : IG_HTTP_COMPLETE;
    return IG_OK;
}

ig_status ig_http_reply_feed(ig_http_reply *r, const char *bytes, size_t n_bytes,
                             size_t *out_used) {
    size_t used = 0;
    while (used < n_bytes && r->phase != IG_HTTP_COMPLETE) {
        const bool in_data = r->phase == IG_HTTP_DATA || r->phase == IG_HTTP_UNTIL_CLOSE;
        size_t step = 0;
        IG_TRY((in_data ? feed_data : feed_line)(r, bytes + used, n_bytes - used, &step));
        used += step;
    }
    r->n_received += used;
    *out_used = used;
    return IG_OK;
}

ig_status ig_http_reply_close(ig_http_reply *r) {
    if (r->phase == IG_HTTP_COMPLETE) return IG_OK;
    if (r->phase != IG_HTTP_UNTIL_CLOSE)
        return IG_FAIL(IG_ERR_FORMAT, "http: the connection was closed %s",
                       r->n_received > 0 ? "within the reply" : "without a reply");
    r->phase = IG_HTTP_COMPLETE;
    return IG_OK;
}

void ig_http_reply_reset(ig_http_reply *r) {
    ig_http_reply clean = {.allocator = r->allocator, .on_event = r->on_event, .user = r->user};
    clean.body = r->body, clean.line = r->line;
    clean.event_line = r->event_line, clean.event = r->event;
    clear(&clean.body), clear(&clean.line), clear(&clean.event_line), clear(&clean.event);
    *r = clean;
}

void ig_http_reply_deinit(ig_http_reply *r) {
    ig_free(r->allocator, r->body.at);
    ig_free(r->allocator, r->line.at);
    ig_free(r->allocator, r->event_line.at);
    ig_free(r->allocator, r->event.at);
    *r = (ig_http_reply){.allocator = r->allocator};
}
