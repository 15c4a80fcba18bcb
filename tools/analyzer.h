/*
 * analyzer.h - for clang-tidy alone: IG_FAIL returns the code that it is given.
 *
 * The library's function does that where the analyzer cannot see it, and without
 * knowing it would go on after every failure as if nothing had happened.
 */
#include "ingot/backend.h"

#undef IG_FAIL
#define IG_FAIL(code, ...) ((void)ig_fail(code, __FILE__, __LINE__, __VA_ARGS__), (code))

#undef IG_HOST_FAIL
#define IG_HOST_FAIL(host, code, ...) \
    ((void)(host)->fail(code, __FILE__, __LINE__, __VA_ARGS__), (code))
