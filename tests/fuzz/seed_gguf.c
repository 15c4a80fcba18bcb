/* seed_gguf FOLDER - writes small GGUF files to begin fuzzing with. */
#include <stdio.h>

#include "gguf_bytes.h"
#include "seed.h"

static gguf_bytes only_values(ig_gguf_writer *w) {
    gguf_sample_values(w);
    return gguf_encode(w);
}

static gguf_bytes only_tensors(ig_gguf_writer *w) {
    ig_gguf_writer_u32(w, GGUF_KEY_ALIGNMENT, 8);
    for (int i = 0; i < 12; i++) {
        char name[16];
        snprintf(name, sizeof name, "blk.%d.w", i);
        ig_gguf_writer_tensor(w, name, (ig_desc){IG_F32, {2, {i, 2}}});
    }
    return gguf_encode(w);
}

static gguf_bytes split(ig_gguf_writer *w) {
    gguf_sample_number(w, "split.no", IG_GGUF_U16, &(uint16_t){0});
    gguf_sample_number(w, "split.count", IG_GGUF_U16, &(uint16_t){2});
    ig_gguf_writer_tensor(w, "a", (ig_desc){IG_Q4_K, {2, {1, 256}}});
    return gguf_encode(w);
}

static gguf_bytes everything(ig_gguf_writer *w) {
    ig_gguf_writer_destroy(w);
    return gguf_sample();
}

int main(int argc, char **argv) {
    gguf_bytes (*const seeds[])(ig_gguf_writer *) = {only_values, only_tensors, split, everything,
                                                     gguf_encode};
    if (argc != 2) return fprintf(stderr, "usage: seed_gguf FOLDER\n") > 0 ? 2 : 1;
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        ig_gguf_writer *w = NULL;
        if (ig_gguf_writer_create(&ig_heap, "seed", &w) != IG_OK) return 1;
        gguf_bytes file = seeds[i](w);
        const bool done = file.bytes && seed_write(argv[1], i, file.bytes, file.size);
        free(file.bytes);
        if (!done) return 1;
    }
    return 0;
}
