#include "base/utf8.h"

/* What a first byte implies: the number of following bytes, and the range of the second. */
typedef struct promise {
    size_t follow;
    uint8_t low, high;
} promise;

static promise promise_of(uint8_t first) {
    const promise none = {0, 1, 0};
    if (first < 0xC2 || first > 0xF4) return none;
    if (first < 0xE0) return (promise){1, 0x80, 0xBF};
    if (first < 0xF0) return (promise){2, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF};
    return (promise){3, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF};
}

ig_utf8_found ig_utf8_next(const char *text, size_t n_bytes, uint32_t *point, size_t *bytes) {
    const uint8_t *p = (const uint8_t *)text;
    *bytes = 1;
    if (p[0] < 0x80) {
        *point = p[0];
        return IG_UTF8_WHOLE;
    }
    promise want = promise_of(p[0]);
    if (want.follow == 0) return IG_UTF8_NONE;

    uint32_t c = p[0] & (0x3Fu >> want.follow);
    for (; *bytes <= want.follow; (*bytes)++) {
        if (*bytes == n_bytes) return IG_UTF8_CUT_OFF;
        const uint8_t next = p[*bytes];
        if (next < want.low || next > want.high) return IG_UTF8_NONE;
        c = c << 6 | (next & 0x3F);
        want.low = 0x80, want.high = 0xBF; /* range of the bytes after the second */
    }
    *point = c;
    return IG_UTF8_WHOLE;
}

size_t ig_utf8_put(uint32_t point, char out[IG_UTF8_BYTES]) {
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    const size_t bytes = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = bytes - 1; i > 0; i--, point >>= 6) out[i] = (char)(0x80 | (point & 0x3F));
    out[0] = (char)(0xF00 >> bytes | point); /* 110, 1110 or 11110, then what is left */
    return bytes;
}
