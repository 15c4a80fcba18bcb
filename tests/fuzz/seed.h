/* seed.h - a file to begin fuzzing with. */
#ifndef INGOT_TESTS_SEED_H
#define INGOT_TESTS_SEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* FOLDER/seed-NUMBER; false: it said why. */
static inline bool seed_write(const char *folder, size_t number, const void *bytes, size_t size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/seed-%zu", folder, number);
    FILE *out = fopen(path, "wb");
    bool done = out && fwrite(bytes, 1, size, out) == size;
    if (out) done &= fclose(out) == 0;
    if (!done) perror(path);
    return done;
}

#endif
