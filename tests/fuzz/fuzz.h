/* fuzz.h - what harnesses have in common. */
#ifndef INGOT_TESTS_FUZZ_H
#define INGOT_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define REQUIRE(truth)                                                  \
    do {                                                                \
        if (!(truth)) {                                                 \
            fprintf(stderr, "%s:%d: " #truth "\n", __FILE__, __LINE__); \
            abort();                                                    \
        }                                                               \
    } while (0)

/* NOLINTNEXTLINE(readability-identifier-naming): libFuzzer knows it by this name */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
