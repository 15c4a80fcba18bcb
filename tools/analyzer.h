/*
 * analyzer.h - only for clang-tidy: makes IG_FAIL return the code that it is given.
 *
 * The library's function does so, but the analyzer cannot see it and would continue after every
 * failure as if nothing had happened.
 */
#include "ingot/backend.h"

#undef IG_FAIL
#define IG_FAIL(code, ...) ((void)ig_fail(code, __FILE__, __LINE__, __VA_ARGS__), (code))

#undef IG_HOST_FAIL
#define IG_HOST_FAIL(host, code, ...) \
    ((void)(host)->fail(code, __FILE__, __LINE__, __VA_ARGS__), (code))
