#include "text/stop_strings.h"

#include <string.h>

/* The number of last bytes of `text` that may begin `stop`. */
static size_t could_begin(const char *text, size_t n, const char *stop) {
    const size_t length = strlen(stop);
    for (size_t k = length - 1 < n ? length - 1 : n; length > 0 && k > 0; k--)
        if (memcmp(text + n - k, stop, k) == 0) return k;
    return 0;
}

static const char *find(const char *text, size_t n, const char *stop) {
    const size_t length = strlen(stop);
    for (size_t i = 0; length > 0 && i + length <= n; i++)
        if (memcmp(text + i, stop, length) == 0) return text + i;
    return NULL;
}

ig_stop_match ig_stop_find(const char *text, size_t n_bytes, const char *const *stops,
                           size_t n_stops) {
    ig_stop_match match = {.stop = -1};
    for (size_t i = 0; i < n_stops; i++) {
        const char *at = find(text, n_bytes, stops[i]);
        const size_t keep = at ? 0 : could_begin(text, n_bytes, stops[i]);
        if (keep > match.keep) match.keep = keep;
        if (!at || (match.stop >= 0 && (size_t)(at - text) >= match.at)) continue;
        match.stop = (int)i;
        match.at = (size_t)(at - text);
    }
    if (match.stop >= 0) match.keep = 0;
    return match;
}
