/* write_models DIR TYPE [NAME]...: generated models as files for other programs; all of them, or
 * these.  Without arguments: their names. */
#include <stdio.h>
#include <string.h>

#include "model/synthetic/synthetic_models.h"

static const char *name_at(size_t i) {
    size_t n = 0;
    while (n < i && model_name(n)) n++;
    return n == i && model_name(n) ? model_name(n) : model_relative(i - n);
}

static bool is_wanted(const char *name, int count, char **names) {
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) return true;
    return count == 0;
}

static bool write_one(const char *folder, const char *name, const char *as, ig_dtype type) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s.%s.gguf", folder, name, as);
    if (model_save(name, type, path) == IG_OK) return true;
    fprintf(stderr, "%s\n", ig_error_text());
    return false;
}

int main(int argc, char **argv) {
    ig_dtype type;
    if (argc == 1) {
        for (size_t i = 0; name_at(i); i++) puts(name_at(i));
        return 0;
    }
    if (argc < 3 || !ig_dtype_find(argv[2], &type)) {
        fprintf(stderr, "usage: write_models DIR TYPE (f32, q4_k, ...) [NAME]...\n");
        return 2;
    }
    bool written = true;
    for (size_t i = 0; written && name_at(i); i++)
        if (is_wanted(name_at(i), argc - 3, argv + 3))
            written = write_one(argv[1], name_at(i), argv[2], type);
    return !written;
}
