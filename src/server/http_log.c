/*
 * http_log.c - one line for each exchange: who, what, how long, and what the handler noted.  No
 * bodies, no keys, no queries.
 */
#include <string.h>

#include "base/clock.h"
#include "base/text_out.h"
#include "server/http_internal.h"

enum { LINE_BYTES = 4096, SHOWN_BYTES = 256 };

/* A value without spaces, quotes and control characters needs no quotes.  Paths may have any bytes,
 * the log is ASCII. */
static void add_field(ig_text *t, bool is_json, const char *name, const char *value) {
    char shown[SHOWN_BYTES];
    size_t n = 0;
    bool is_plain = *value != 0;
    for (; value[n] && n + 1 < sizeof shown; n++) {
        const unsigned char c = (unsigned char)value[n];
        shown[n] = c < 0x20 || c == 0x7f || c >= 0x80 ? '?' : (char)c;
        is_plain = is_plain && c > ' ' && c < 0x7f && c != '"' && c != '\\' && c != '=';
    }
    shown[n] = 0;
    if (is_json) {
        ig_text_comma(t);
        ig_text_add_string(t, name);
        ig_text_add(t, ":");
        ig_text_add_string(t, shown);
    } else {
        ig_text_add(t, "%s%s=", t->used ? " " : "", name);
        if (is_plain)
            ig_text_add(t, "%s", shown);
        else
            ig_text_add_string(t, shown);
    }
}

static void add_number(ig_text *t, bool is_json, const char *name, double value, int digits) {
    ig_text_add(t, is_json ? ",\"%s\":%.*f" : " %s=%.*f", name, digits, value);
}

static bool has_end(const char *name, const char *end) {
    const size_t n = strlen(name), n_end = strlen(end);
    return n > n_end && strcmp(name + n - n_end, end) == 0;
}

/* In JSON, counts and times are numbers. */
static void add_note(ig_text *t, bool is_json, const char *name, const char *value) {
    const bool is_number = (has_end(name, "_tokens") || has_end(name, "_ms")) && *value &&
                           value[strspn(value, "0123456789")] == 0;
    if (is_json && is_number)
        ig_text_add(t, ",\"%s\":%s", name, value);
    else
        add_field(t, is_json, name, value);
}

void http_log(const ig_exchange *x) {
    const ig_http_options *o = &x->http->options;
    if (!o->log) return;
    char line[LINE_BYTES];
    ig_text t = ig_text_begin(line, sizeof line - 2);
    const bool is_json = o->log_json;
    if (is_json) ig_text_add(&t, "{");
    add_field(&t, is_json, "id", x->id);
    if (x->request.key_name) add_field(&t, is_json, "key", x->request.key_name);
    add_field(&t, is_json, "client", x->client);
    add_field(&t, is_json, "method", x->request.method);
    add_field(&t, is_json, "path", x->request.path);
    add_number(&t, is_json, "status", x->code, 0);
    add_number(&t, is_json, "bytes", (double)x->n_sent, 0);
    add_number(&t, is_json, "ms", ig_clock_ms() - x->request.arrived_ms, 1);
    if (x->has_left) add_field(&t, is_json, "end", "left");
    add_field(&t, is_json, "trace", x->traceparent);
    if (x->parent_span[0]) add_field(&t, is_json, "parent", x->parent_span);
    const char *name, *value;
    for (size_t at = 0; t.used + 600 < t.room && ig_exchange_next_note(x, &at, &name, &value);)
        add_note(&t, is_json, name, value);
    if (is_json) ig_text_add(&t, "}");
    o->log(o->log_user, line);
}
