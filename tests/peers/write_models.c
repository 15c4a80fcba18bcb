/* write_models DIR TYPE: the small models of tests/models, one file each, for other programs. */
#include <stdio.h>

#include "model/synthetic/synthetic_models.h"

static bool write_one(const char *folder, const char *name, const char *as, ig_dtype type) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s.%s.gguf", folder, name, as);
    if (model_save(name, type, path) == IG_OK) return true;
    fprintf(stderr, "%s\n", ig_error_text());
    return false;
}

int main(int argc, char **argv) {
    ig_dtype type;
    if (argc != 3 || !ig_dtype_find(argv[2], &type)) {
        fprintf(stderr, "usage: write_models DIR TYPE (f32, q4_k, ...)\n");
        return 2;
    }
    bool written = true;
    for (size_t i = 0; written && model_name(i); i++)
        written = write_one(argv[1], model_name(i), argv[2], type);
    for (size_t i = 0; written && model_relative(i); i++)
        written = write_one(argv[1], model_relative(i), argv[2], type);
    return !written;
}
