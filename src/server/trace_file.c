#include "server/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "ingot/report.h"
#include "server/json_out.h"

struct ig_trace_file {
    const ig_allocator *allocator;
    const char *path;
    pthread_mutex_t lock; /* of the descriptor */
    int fd;
};

static int open_path(const char *path) {
    return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

ig_status ig_trace_file_open(const ig_allocator *a, const char *path, ig_trace_file **out) {
    ig_trace_file *trace = ig_alloc(a, 1, sizeof *trace);
    if (!trace) return IG_FAIL(IG_ERR_MEMORY, "trace file");
    trace->allocator = a;
    trace->path = path;
    trace->fd = open_path(path);
    if (trace->fd < 0) {
        ig_free(a, trace);
        return IG_FAIL(IG_ERR_IO, "--trace-file %s: %s", path, strerror(errno));
    }
    pthread_mutex_init(&trace->lock, NULL);
    *out = trace;
    return IG_OK;
}

void ig_trace_file_close(ig_trace_file *trace) {
    if (!trace) return;
    close(trace->fd);
    pthread_mutex_destroy(&trace->lock);
    ig_free(trace->allocator, trace);
}

ig_status ig_trace_file_reopen(ig_trace_file *trace) {
    const int fd = open_path(trace->path);
    if (fd < 0) return IG_FAIL(IG_ERR_IO, "--trace-file %s: %s", trace->path, strerror(errno));
    pthread_mutex_lock(&trace->lock);
    close(trace->fd);
    trace->fd = fd;
    pthread_mutex_unlock(&trace->lock);
    return IG_OK;
}

/* ---- attributes ---- */

static void open_attribute(ig_out *out, const char *key) {
    ig_out_open(out, NULL, '{');
    ig_out_string(out, "key", key);
    ig_out_open(out, "value", '{');
}

static void close_attribute(ig_out *out) {
    ig_out_close(out, '}');
    ig_out_close(out, '}');
}

static void add_text(ig_out *out, const char *key, const char *value) {
    if (!value || !*value) return;
    open_attribute(out, key);
    ig_out_bytes(out, "stringValue", value, strlen(value));
    close_attribute(out);
}

/* OTLP writes 64-bit integers as strings. */
static void add_integer(ig_out *out, const char *key, const char *digits) {
    open_attribute(out, key);
    ig_out_string(out, "intValue", digits);
    close_attribute(out);
}

static void add_list(ig_out *out, const char *key, const char *value) {
    open_attribute(out, key);
    ig_out_open(out, "arrayValue", '{');
    ig_out_open(out, "values", '[');
    ig_out_open(out, NULL, '{');
    ig_out_bytes(out, "stringValue", value, strlen(value));
    ig_out_close(out, '}');
    ig_out_close(out, ']');
    ig_out_close(out, '}');
    close_attribute(out);
}

/* What handlers note, by the names of the conventions. */
static const struct {
    const char *note, *key;
    void (*add)(ig_out *out, const char *key, const char *value);
} notes[] = {
    {"model", "gen_ai.response.model", add_text},
    {"prompt_tokens", "gen_ai.usage.input_tokens", add_integer},
    {"cached_tokens", "gen_ai.usage.cache_read.input_tokens", add_integer},
    {"generated_tokens", "gen_ai.usage.output_tokens", add_integer},
    {"finish", "gen_ai.response.finish_reasons", add_list},
    {"queue_ms", "ingot.queue_ms", add_integer},
    {"first_token_ms", "ingot.first_token_ms", add_integer},
    {"decode_ms", "ingot.decode_ms", add_integer},
    {"error", "error.message", add_text},
};

static void add_note(ig_out *out, const char *name, const char *value) {
    char key[80];
    for (size_t i = 0; i < sizeof notes / sizeof notes[0]; i++)
        if (strcmp(notes[i].note, name) == 0) {
            notes[i].add(out, notes[i].key, value);
            return;
        }
    snprintf(key, sizeof key, "ingot.%s", name);
    add_text(out, key, value);
}

static const char *operation_of(const char *route) {
    static const struct {
        const char *end, *name;
    } rows[] = {{"/chat/completions", "chat"},
                {"/completions", "text_completion"},
                {"/embeddings", "embeddings"}};
    const size_t n = strlen(route);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const size_t n_end = strlen(rows[i].end);
        if (n >= n_end && strcmp(route + n - n_end, rows[i].end) == 0) return rows[i].name;
    }
    return NULL;
}

static void add_attributes(ig_out *out, const ig_exchange *x, int code) {
    const ig_exchange_request *q = ig_exchange_get_request(x);
    const char *route = ig_exchange_get_route(x), *name, *value;
    char digits[16];
    snprintf(digits, sizeof digits, "%d", code);
    add_text(out, "http.request.method", q->method);
    add_text(out, "http.route", route);
    add_integer(out, "http.response.status_code", digits);
    add_text(out, "client.address", q->client);
    add_text(out, "ingot.request_id", q->id);
    add_text(out, "ingot.key_name", q->key_name);
    add_text(out, "gen_ai.operation.name", route ? operation_of(route) : NULL);
    for (size_t at = 0; ig_exchange_next_note(x, &at, &name, &value);) add_note(out, name, value);
}

/* ---- spans ---- */

static void add_time(ig_out *out, const char *name, double ms_ago) {
    char text[24];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const int64_t ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec - (int64_t)(ms_ago * 1e6);
    snprintf(text, sizeof text, "%lld", (long long)ns);
    ig_out_string(out, name, text);
}

static void add_span(ig_out *out, const ig_exchange *x, int code) {
    enum { SERVER = 2, OK = 1, ERROR = 2 };
    const ig_exchange_request *q = ig_exchange_get_request(x);
    const char *route = ig_exchange_get_route(x);
    char trace[33] = "", span[17] = "", name[160];
    sscanf(q->traceparent, "%*2[^-]-%32[^-]-%16[^-]", trace, span);
    snprintf(name, sizeof name, "%.16s%s%s", q->method, route ? " " : "", route ? route : "");
    ig_out_open(out, NULL, '{');
    ig_out_string(out, "traceId", trace);
    ig_out_string(out, "spanId", span);
    if (*q->parent_span) ig_out_string(out, "parentSpanId", q->parent_span);
    ig_out_string(out, "name", name);
    ig_out_int(out, "kind", SERVER);
    add_time(out, "startTimeUnixNano", ig_clock_ms() - q->arrived_ms);
    add_time(out, "endTimeUnixNano", 0);
    ig_out_open(out, "attributes", '[');
    add_attributes(out, x, code);
    ig_out_close(out, ']');
    ig_out_open(out, "status", '{');
    if (code >= 500) ig_out_int(out, "code", ERROR);
    ig_out_close(out, '}');
    ig_out_close(out, '}');
}

/* {"resourceSpans": [{"resource", "scopeSpans": [{"scope", "spans": [...]}]}]} */
static void add_line(ig_out *out, const ig_exchange *x, int code) {
    ig_out_open(out, NULL, '{');
    ig_out_open(out, "resourceSpans", '[');
    ig_out_open(out, NULL, '{');
    ig_out_open(out, "resource", '{');
    ig_out_open(out, "attributes", '[');
    add_text(out, "service.name", "ingot");
    add_text(out, "service.version", ig_version());
    ig_out_close(out, ']');
    ig_out_close(out, '}');
    ig_out_open(out, "scopeSpans", '[');
    ig_out_open(out, NULL, '{');
    ig_out_open(out, "scope", '{');
    ig_out_string(out, "name", "ingot.serve");
    ig_out_close(out, '}');
    ig_out_open(out, "spans", '[');
    add_span(out, x, code);
    for (const char *at = "]}]}]}"; *at; at++) ig_out_close(out, *at);
    ig_out_text(out, "\n");
}

/* A line is one write() to a file that is appended to, so lines do not mix. */
bool ig_trace_file_add(ig_trace_file *trace, const ig_exchange *x, int code) {
    ig_out out = {.allocator = trace->allocator};
    add_line(&out, x, code);
    bool is_written = !out.failed;
    if (is_written) {
        pthread_mutex_lock(&trace->lock);
        is_written = write(trace->fd, out.bytes, out.n_bytes) == (ssize_t)out.n_bytes;
        pthread_mutex_unlock(&trace->lock);
    }
    ig_out_deinit(&out);
    return is_written;
}
