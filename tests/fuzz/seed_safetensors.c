/* seed_safetensors FOLDER - writes headers to begin fuzzing with, each behind four bytes of data.
 */
#include <stdio.h>
#include <string.h>

#include "seed.h"

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
        /* The last one has zeros in it. */
        const size_t n = i + 1 == sizeof seeds / sizeof *seeds ? 10 : strlen(seeds[i]);
        if (!seed_write(argv[1], i, seeds[i], n)) return 1;
    }
    return 0;
}
