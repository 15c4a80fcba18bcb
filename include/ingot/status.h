/*
 * status.h - errors.
 *
 * A call that can fail returns an ig_status and writes its results through trailing
 * `out` pointers, which it leaves untouched on failure.  ig_error_text() is the
 * message of the thread's last failure.  Reporting an error does not allocate.
 */
#ifndef INGOT_STATUS_H
#define INGOT_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* Plugins return these numbers: append only. */
#define IG_STATUS_CODES(X)                                     \
    X(OK, "ok")                                                \
    X(ERR_ARGUMENT, "invalid argument")                        \
    X(ERR_SHAPE, "shapes do not fit")                          \
    X(ERR_UNSUPPORTED, "no backend can do this")               \
    X(ERR_MEMORY, "out of memory")                             \
    X(ERR_IO, "input or output failed")                        \
    X(ERR_FORMAT, "the file is corrupt or has another format") \
    X(ERR_DEVICE, "the device failed")                         \
    X(ERR_CANCELLED, "cancelled by the caller")                \
    X(ERR_SPLIT, "too many steps for one program")             \
    X(ERR_STATE, "not now: something must happen first")       \
    X(ERR_NOT_FINITE, "a value is not finite")                 \
    X(ERR_MODEL, "there is no such architecture")              \
    X(ERR_DEPENDENCY, "a required library is missing")         \
    X(ERR_BUSY, "too many requests wait already")

typedef enum ig_status {
#define X(code, text) IG_##code,
    IG_STATUS_CODES(X) IG_STATUS_COUNT
#undef X
} ig_status;

#define IG_MUST_CHECK        __attribute__((warn_unused_result))
#define IG_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define IG_API               __attribute__((visibility("default"))) /* the library exports these alone */

/* The message of this thread's last failure, such as "matmul: [4,3] x [2,5] (matmul.c:41)";
 * borrowed until the next failure.  ig_status_text() describes a code; static. */
IG_API const char *ig_error_text(void);
IG_API const char *ig_status_text(ig_status status);

/* Records a failure and returns its code:  return IG_FAIL(IG_ERR_IO, "open %s", path); */
#define IG_FAIL(code, ...) ig_fail(code, __FILE__, __LINE__, __VA_ARGS__)
IG_API ig_status ig_fail(ig_status code, const char *file, int line, const char *fmt, ...)
    IG_PRINTF(4, 5);

typedef enum ig_log_level { IG_LOG_DEBUG, IG_LOG_INFO, IG_LOG_WARNING } ig_log_level;

/* Returns from the caller when `call` fails.  The only macro here that hides control flow. */
#define IG_TRY(call)                                      \
    do {                                                  \
        const ig_status ig_try_status = (call);           \
        if (ig_try_status != IG_OK) return ig_try_status; \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
