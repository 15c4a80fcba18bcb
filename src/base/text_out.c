/* Incremental text and JSON output without a tree in memory. */
#include "base/text_out.h"

#include <stdarg.h>
#include <stdio.h>

ig_text ig_text_begin(char *out, size_t room) {
    if (room > 0) out[0] = '\0';
    return (ig_text){out, room, 0, '\0'};
}

void ig_text_add(ig_text *t, const char *fmt, ...) {
    char piece[IG_TEXT_PIECE_BYTES];
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(piece, sizeof piece, fmt, args);
    va_end(args);
    if (n <= 0) return;
    const size_t bytes = (size_t)n < sizeof piece ? (size_t)n : sizeof piece - 1;
    for (size_t i = 0; i < bytes && t->used + i + 1 < t->room; i++) {
        t->out[t->used + i] = piece[i];
        t->out[t->used + i + 1] = '\0';
    }
    t->used += bytes;
    t->last = piece[bytes - 1];
}

void ig_text_add_string(ig_text *t, const char *s) {
    ig_text_add(t, "\"");
    for (; *s; s++) {
        const unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            ig_text_add(t, "\\%c", c);
        else if (c < 0x20)
            ig_text_add(t, "\\u%04x", c);
        else
            ig_text_add(t, "%c", c);
    }
    ig_text_add(t, "\"");
}

void ig_text_add_number(ig_text *t, const char *name, uint64_t value) {
    ig_text_comma(t);
    if (value == UINT64_MAX)
        ig_text_add(t, "\"%s\":null", name);
    else
        ig_text_add(t, "\"%s\":%llu", name, (unsigned long long)value);
}

void ig_text_comma(ig_text *t) {
    if (t->used > 0 && t->last != '{' && t->last != '[' && t->last != ':') ig_text_add(t, ",");
}
