/* write_models DIR TYPE: the small models of tests/models, one file each, for other programs. */
#include <stdio.h>

#include "models/models.h"

int main(int argc, char **argv) {
    ig_dtype type;
    if (argc != 3 || !ig_dtype_find(argv[2], &type)) {
        fprintf(stderr, "usage: write_models DIR TYPE (f32, q4_k, ...)\n");
        return 2;
    }
    for (size_t i = 0; model_name(i); i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s.%s.gguf", argv[1], model_name(i), argv[2]);
        if (model_save(model_name(i), type, path) != IG_OK) {
            fprintf(stderr, "%s\n", ig_error_text());
            return 1;
        }
    }
    return 0;
}
