/* ingot/testing.h: the synthetic models for programs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ingot/testing.h"
#include "model/synthetic/synthetic_models.h"

const char *ig_synthetic_model_name(size_t i) {
    size_t n = 0;
    while (model_name(n)) n++;
    return i < n ? model_name(i) : model_relative(i - n);
}

static ig_status make(const char *name, ig_dtype dtype, model_bytes *out) {
    if (!name) return IG_FAIL(IG_ERR_ARGUMENT, "synthetic model: the name is NULL");
    if (model_is_known(name)) return model_make(name, dtype, out);
    char names[1024] = "";
    for (size_t i = 0, used = 0; ig_synthetic_model_name(i) && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 ig_synthetic_model_name(i));
    return IG_FAIL(IG_ERR_ARGUMENT, "synthetic model '%.64s': must be one of %s", name, names);
}

ig_status ig_synthetic_model_create(const char *name, ig_dtype dtype, ig_string *out) {
    model_bytes made;
    IG_TRY(make(name, dtype, &made));
    const bool fits = IG_GROW(out->allocator, out->bytes, &out->room, out->n_bytes + made.size + 1);
    if (fits) {
        memcpy(out->bytes + out->n_bytes, made.bytes, made.size);
        out->n_bytes += made.size;
        out->bytes[out->n_bytes] = 0;
    }
    free(made.bytes);
    return fits ? IG_OK
                : IG_FAIL(IG_ERR_MEMORY, "synthetic model %s: no memory for %zu bytes", name,
                          made.size);
}

ig_status ig_synthetic_model_write(const char *name, ig_dtype dtype, const char *path) {
    model_bytes made;
    if (!path) return IG_FAIL(IG_ERR_ARGUMENT, "synthetic_model_write: NULL");
    IG_TRY(make(name, dtype, &made));
    const ig_status status = model_write(&made, path);
    free(made.bytes);
    return status;
}
