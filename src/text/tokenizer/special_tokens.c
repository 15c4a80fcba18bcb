#include "text/tokenizer/special_tokens.h"

#include <stdlib.h>
#include <string.h>

/* By bytes; a prefix sorts before longer names. */
static int compare(const void *left, const void *right) {
    const ig_special_name *a = left, *b = right;
    const size_t n = a->n_bytes < b->n_bytes ? a->n_bytes : b->n_bytes;
    const int order = memcmp(a->bytes, b->bytes, n);
    if (order != 0) return order;
    if (a->n_bytes != b->n_bytes) return a->n_bytes < b->n_bytes ? -1 : 1;
    return a->id < b->id ? -1 : 1;
}

void ig_specials_init(ig_special_name *names, size_t count, ig_specials *out) {
    *out = (ig_specials){.names = names, .count = count};
    if (count == 0) return;
    qsort(names, count, sizeof *names, compare);
    for (size_t i = 0; i < count; i++)
        out->any_begins_with[(unsigned char)names[i].bytes[0]] = true;
}

/* Of names[low..high), which share `depth` bytes and are longer: the first whose next byte is at
 * least `byte`. */
static size_t lower_bound(const ig_specials *s, size_t low, size_t high, size_t depth, int byte) {
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if ((unsigned char)s->names[middle].bytes[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const ig_special_name *ig_specials_match(const ig_specials *s, const char *text, size_t n_bytes,
                                         size_t n_control) {
    const ig_special_name *best = NULL;
    if (!s->any_begins_with[(unsigned char)text[0]]) return NULL;
    for (size_t depth = 0, low = 0, high = s->count; depth < n_bytes; depth++) {
        const int byte = (unsigned char)text[depth];
        low = lower_bound(s, low, high, depth, byte);
        high = lower_bound(s, low, high, depth, byte + 1);
        for (; low < high && s->names[low].n_bytes == depth + 1; low++) /* duplicates */
            if (!s->names[low].control || depth < n_control)
                if (!best || best->n_bytes <= depth) best = &s->names[low];
        if (low == high) break;
    }
    return best;
}
