#include "text/tokenizer/token_spelling.h"

#include <string.h>

#include "base/utf8.h"

size_t ig_spell_spaces(ig_string_view token, char *out) {
    const size_t mark = strlen(IG_SPELL_SPACE);
    size_t used = 0;
    for (size_t at = 0; at < token.n_bytes;) {
        const bool space =
            token.n_bytes - at >= mark && memcmp(token.bytes + at, IG_SPELL_SPACE, mark) == 0;
        out[used++] = space ? ' ' : token.bytes[at];
        at += space ? mark : 1;
    }
    return used;
}

/* Invisible bytes (0 to 32, 127 to 160, 173) are mapped to U+0100 and up. */
enum { HIDDEN = 0x100, LOW = 33, MIDDLE = 34 };

static bool is_seen(uint32_t point) {
    return (point >= '!' && point <= '~') || (point >= 0xA1 && point < HIDDEN && point != 0xAD);
}

/* The byte that a character stands for; below 0: none. */
static int byte_of(uint32_t point) {
    if (is_seen(point)) return (int)point;
    if (point < HIDDEN || point > HIDDEN + LOW + MIDDLE) return -1;
    const int hidden = (int)(point - HIDDEN);
    if (hidden < LOW) return hidden;
    return hidden < LOW + MIDDLE ? hidden - LOW + 127 : 0xAD;
}

size_t ig_spell_bytes(ig_string_view token, char *out) {
    size_t used = 0;
    for (size_t at = 0, step; at < token.n_bytes; at += step) {
        uint32_t point = (unsigned char)token.bytes[at];
        if (point < 0x80 && is_seen(point)) { /* the common case: itself */
            out[used++] = token.bytes[at];
            step = 1;
            continue;
        }
        const ig_utf8_found found =
            ig_utf8_next(token.bytes + at, token.n_bytes - at, &point, &step);
        const int byte = found == IG_UTF8_WHOLE ? byte_of(point) : -1;
        if (byte < 0) {
            memcpy(out, token.bytes, token.n_bytes);
            return token.n_bytes;
        }
        out[used++] = (char)byte;
    }
    return used;
}

size_t ig_spell_byte(uint8_t byte, char out[IG_SPELL_BYTE_MOST]) {
    uint32_t point = byte;
    if (!is_seen(byte))
        point = HIDDEN + (uint32_t)(byte < LOW     ? byte
                                    : byte == 0xAD ? LOW + MIDDLE
                                                   : byte - 127 + LOW);
    return ig_utf8_put(point, out);
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int ig_spell_hex(ig_string_view token) {
    if (token.n_bytes != 6 || memcmp(token.bytes, "<0x", 3) != 0 || token.bytes[5] != '>')
        return -1;
    const int high = hex_digit(token.bytes[3]), low = hex_digit(token.bytes[4]);
    return high < 0 || low < 0 ? -1 : 16 * high + low;
}
