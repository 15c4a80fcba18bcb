/* seed_safetensors FOLDER - writes headers to begin fuzzing with, each behind four bytes of data.
 */
#include <stdio.h>
#include <string.h>

static const char *const seeds[] = {
    "data{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
    "data{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
    "\"b\":{\"dtype\":\"I8\",\"shape\":[1,3],\"data_offsets\":[1,4]}}",
    "data{\"__metadata__\":{\"format\":\"pt\"},"
    "\"w\":{\"dtype\":\"BF16\",\"shape\":[2,1],\"data_offsets\":[0,4]},"
    "\"none\":{\"dtype\":\"I64\",\"shape\":[0,7],\"data_offsets\":[4,4]}}   ",
    "data{}",
    "\x02\0\0\0\0\0\0\0{}",
};

int main(int argc, char **argv) {
    if (argc != 2) return fprintf(stderr, "usage: seed_safetensors FOLDER\n") > 0 ? 2 : 1;
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        char path[4096];
        /* The last one has zeros in it. */
        const size_t n = i + 1 == sizeof seeds / sizeof *seeds ? 10 : strlen(seeds[i]);
        snprintf(path, sizeof path, "%s/seed-%zu", argv[1], i);
        FILE *out = fopen(path, "wb");
        int failed = !out;
        if (out) {
            failed = fwrite(seeds[i], 1, n, out) != n;
            failed |= fclose(out) != 0;
        }
        if (failed) return perror(path), 1;
    }
    return 0;
}
