/* seed_oam FOLDER - writes small .oam files to begin fuzzing with, each after its first byte. */
#include <stdio.h>

#include "oam_bytes.h"

static const double numbers[64] = {1.5, -2.0, 1.0 / 3.0};

static const ig_oam_entry entries[] = {
    {"fc1.weight", IG_ROLE_WEIGHT, {IG_F32, {2, {3, 5}}}},
    {"fc1.bias", IG_ROLE_WEIGHT, {IG_F16, {1, {3}}}},
    {"größe", IG_ROLE_WEIGHT, {IG_BF16, {3, {2, 0, 7}}}},
    {"scale", IG_ROLE_WEIGHT, {IG_F64, {0, {0}}}},
    {"ids", IG_ROLE_WEIGHT, {IG_I32, {6, {1, 2, 1, 2, 1, 2}}}},
    {"fc1.weight#mean", IG_ROLE_OPTIMIZER, {IG_F32, {2, {3, 5}}}},
    {"fc1.weight#variance", IG_ROLE_OPTIMIZER, {IG_F32, {2, {3, 5}}}},
};

static const ig_oam_content contents[] = {
    {.seed = 1},
    {.step = 1, .entries = entries, .count = 1},
    {.config = "{}", .entries = entries, .count = 2},
    {.progress = "{\"loss\": [1.5, 2e-3, null]}", .entries = entries + 2, .count = 1},
    {.config = "{\"hidden\":128}",
     .progress = "{\"epoch\":3}",
     .optimizer = "{\"kind\":\"adamw\",\"steps\":7,\"rate\":0.001}",
     .seed = 7,
     .step = 42,
     .entries = entries,
     .count = sizeof entries / sizeof *entries},
};

/* `first` says what the harness repairs. */
static int write_seed(const char *folder, size_t i, int first) {
    const void *bytes[sizeof entries / sizeof *entries] = {NULL};
    for (size_t t = 0; t < contents[i].count; t++) bytes[t] = numbers;
    const oam_bytes file = oam_encode(&contents[i], bytes);
    if (!file.bytes) return fprintf(stderr, "seed %zu: %s\n", i, ig_error_text());

    char path[4096];
    snprintf(path, sizeof path, "%s/seed-%zu-%d", folder, i, first);
    FILE *out = fopen(path, "wb");
    int failed = !out;
    if (out) {
        failed = fputc(first, out) == EOF || fwrite(file.bytes, 1, file.size, out) != file.size;
        failed |= fclose(out) != 0;
    }
    free(file.bytes);
    if (failed) perror(path);
    return failed;
}

int main(int argc, char **argv) {
    if (argc != 2) return fprintf(stderr, "usage: seed_oam FOLDER\n") > 0 ? 2 : 1;
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++)
        for (int first = 0; first < 4; first++)
            if (write_seed(argv[1], i, first) != 0) return 1;
    return 0;
}
