/* The text of the last failure, kept per thread without allocating. */
#include "ingot/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 512 };

static _Thread_local char last_error[TEXT_BYTES];

/* Without a file, the text comes from elsewhere and already names its source line. It may quote
 * the last failure, so that is overwritten last. */
ig_status ig_fail(ig_status code, const char *file, int line, const char *fmt, ...) {
    char text[TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    int used = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);

    if (used < 0 || used >= TEXT_BYTES) used = TEXT_BYTES - 1;
    const char *slash = file ? strrchr(file, '/') : NULL;
    if (file)
        snprintf(text + used, sizeof text - (size_t)used, " (%s:%d)", slash ? slash + 1 : file,
                 line);
    memcpy(last_error, text, sizeof text);
    return code;
}

const char *ig_error_text(void) { return last_error; }

const char *ig_status_text(ig_status status) {
    static const char *const text[IG_STATUS_COUNT] = {
#define X(code, words) [IG_##code] = words,
        IG_STATUS_CODES(X)
#undef X
    };
    return (unsigned)status < IG_STATUS_COUNT ? text[status] : "unknown status";
}
