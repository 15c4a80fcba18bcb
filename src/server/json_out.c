#include "server/json_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

void ig_out_deinit(ig_out *o) {
    ig_free(o->allocator, o->bytes);
    *o = (ig_out){.allocator = o->allocator};
}

void ig_out_clear(ig_out *o) {
    o->n_bytes = 0;
    o->failed = false;
}

void ig_out_raw(ig_out *o, const void *bytes, size_t n_bytes) {
    if (n_bytes == 0 || o->failed) return;
    if (!IG_GROW(o->allocator, o->bytes, &o->room, o->n_bytes + n_bytes)) {
        o->failed = true;
        return;
    }
    memcpy(o->bytes + o->n_bytes, bytes, n_bytes);
    o->n_bytes += n_bytes;
}

void ig_out_text(ig_out *o, const char *text) { ig_out_raw(o, text, strlen(text)); }

/* ---- strings ---- */

static void escape(ig_out *o, unsigned char c) {
    static const char short_forms[] = "\bb\ff\nn\rr\tt\"\"\\\\";
    char text[8];
    for (size_t i = 0; i + 1 < sizeof short_forms; i += 2)
        if ((unsigned char)short_forms[i] == c) {
            snprintf(text, sizeof text, "\\%c", short_forms[i + 1]);
            ig_out_text(o, text);
            return;
        }
    snprintf(text, sizeof text, "\\u%04x", c);
    ig_out_text(o, text);
}

static bool is_plain(unsigned char c) {
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\' && c != 0x7f;
}

static void quote(ig_out *o, const char *text, size_t n_bytes) {
    ig_out_raw(o, "\"", 1);
    for (size_t i = 0; i < n_bytes;) {
        size_t run = 0, bytes;
        uint32_t point;
        while (i + run < n_bytes && is_plain((unsigned char)text[i + run])) run++;
        ig_out_raw(o, text + i, run);
        i += run;
        if (i == n_bytes) break;
        if ((unsigned char)text[i] < 0x80) {
            escape(o, (unsigned char)text[i++]);
            continue;
        }
        if (ig_utf8_next(text + i, n_bytes - i, &point, &bytes) == IG_UTF8_WHOLE)
            ig_out_raw(o, text + i, bytes);
        else
            ig_out_text(o, IG_UTF8_REPLACEMENT);
        i += bytes;
    }
    ig_out_raw(o, "\"", 1);
}

/* ---- values ---- */

static void begin(ig_out *o, const char *name) {
    const char last = o->n_bytes > 0 ? o->bytes[o->n_bytes - 1] : '{';
    if (last != '{' && last != '[' && last != ':' && last != '\n' && last != ' ')
        ig_out_raw(o, ",", 1);
    if (!name) return;
    quote(o, name, strlen(name));
    ig_out_raw(o, ":", 1);
}

void ig_out_open(ig_out *o, const char *name, char bracket) {
    begin(o, name);
    ig_out_raw(o, &bracket, 1);
}

void ig_out_close(ig_out *o, char bracket) { ig_out_raw(o, &bracket, 1); }

void ig_out_json(ig_out *o, const char *name, const void *bytes, size_t n_bytes) {
    begin(o, name);
    ig_out_raw(o, bytes, n_bytes);
}

void ig_out_null(ig_out *o, const char *name) { ig_out_json(o, name, "null", 4); }

void ig_out_bytes(ig_out *o, const char *name, const void *bytes, size_t n_bytes) {
    begin(o, name);
    quote(o, bytes, n_bytes);
}

void ig_out_string(ig_out *o, const char *name, const char *text) {
    if (text)
        ig_out_bytes(o, name, text, strlen(text));
    else
        ig_out_null(o, name);
}

void ig_out_bool(ig_out *o, const char *name, bool value) {
    ig_out_json(o, name, value ? "true" : "false", value ? 4 : 5);
}

void ig_out_int(ig_out *o, const char *name, int64_t value) {
    char text[32];
    const int n = snprintf(text, sizeof text, "%" PRId64, value);
    ig_out_json(o, name, text, (size_t)n);
}

static void number(ig_out *o, const char *name, double value, int digits) {
    char text[40];
    if (!isfinite(value)) {
        ig_out_null(o, name);
        return;
    }
    const int n = snprintf(text, sizeof text, "%.*g", digits, value);
    ig_out_json(o, name, text, (size_t)n);
}

void ig_out_number(ig_out *o, const char *name, double value) { number(o, name, value, 15); }

/* Nine digits give every float back. */
void ig_out_float(ig_out *o, const char *name, float value) { number(o, name, (double)value, 9); }
