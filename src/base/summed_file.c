#include "base/summed_file.h"

void ig_summed_file_begin(ig_summed_file *file, uint64_t header_bytes) {
    file->at = header_bytes;
    XXH3_64bits_reset(&file->sum);
}

ig_status ig_summed_file_append(void *file, char *bytes, uint64_t n_bytes) {
    ig_summed_file *f = file;
    XXH3_64bits_update(&f->sum, bytes, (size_t)n_bytes);
    IG_TRY(ig_file_writer_write(f->writer, f->at, bytes, n_bytes));
    f->at += n_bytes;
    return IG_OK;
}

uint64_t ig_summed_file_digest(const ig_summed_file *file) {
    return XXH3_64bits_digest(&file->sum);
}
