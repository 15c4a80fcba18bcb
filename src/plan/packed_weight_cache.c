/* Packed weights on disk: an entry each, mapped as it lies. */
#include <string.h>

#include "base/text_out.h"
#include "plan/compile_cache.h"

enum { LINES_BYTES = 512 };

/* What an entry is called, and the lines that say why. */
typedef struct weight_key {
    char lines[LINES_BYTES], file[IG_ENTRY_FILE_BYTES], part[IG_ENTRY_NAME_BYTES];
    size_t lines_bytes;
} weight_key;

static bool make_key(ig_artifacts *a, const ig_operand *w, const char *layout, uint64_t bytes,
                     weight_key *k) {
    char name[IG_ENTRY_NAME_BYTES], shape[IG_SHAPE_TEXT_BYTES];
    if (!a->keeps_weights || !a->folder[0] || !a->digests || !w->host) return false;
    const uint64_t span = ig_operand_span(w);
    const ig_digest digest = ig_digests_of(a->digests, w->host, span);
    ig_text t = ig_text_begin(k->lines, sizeof k->lines);
    ig_text_add(&t, "abi=%d\nlayout=%s\npacked_bytes=%llu\n", IG_BACKEND_ABI, layout,
                (unsigned long long)bytes);
    ig_text_add(&t, "weight_bytes=%llu\ndtypes=%s\nshapes=%s\n", (unsigned long long)span,
                ig_dtype_name(w->desc.dtype), ig_shape_text(w->desc.shape, shape));
    ig_text_add(&t, "weights=%016llx%016llx\n", (unsigned long long)digest.high,
                (unsigned long long)digest.low);
    k->lines_bytes = t.used;
    ig_entry_name(k->lines, k->lines_bytes, name);
    ig_entry_file(name, "weights", k->file);
    ig_entry_name("", 0, k->part); /* packed once for all batch sizes */
    return t.used < sizeof k->lines;
}

bool ig_artifacts_find_weight(ig_artifacts *a, const ig_operand *weight, const char *layout,
                              uint64_t bytes, ig_entry *entry, const void **out) {
    weight_key k;
    ig_entry_part part;
    if (!make_key(a, weight, layout, bytes, &k)) return false;
    if (!ig_artifacts_is_safe(a)) return false;
    const ig_status status = ig_entry_open(a->folder, k.file, a->digests, entry);
    if (status == IG_ERR_FORMAT) {
        a->counts.damaged++;
        (void)ig_entry_remove(a->folder, k.file);
    }
    if (status != IG_OK) return false;
    if (!ig_entry_find(entry, k.part, &part) || part.blob_bytes != bytes) {
        ig_entry_close(entry);
        return false;
    }
    a->counts.weights_found++;
    a->found_bytes += bytes;
    *out = part.blob;
    return true;
}

void ig_artifacts_keep_weight(ig_artifacts *a, const ig_operand *weight, const char *layout,
                              const void *packed, uint64_t bytes) {
    weight_key k;
    size_t removed;
    if (!make_key(a, weight, layout, bytes, &k) || !ig_artifacts_is_safe(a)) return;
    a->counts.weights_packed++;
    const ig_entry entry = {
        .inputs = k.lines, .inputs_bytes = k.lines_bytes, .timeline = "[]", .timeline_bytes = 2};
    ig_entry_part part = {.inputs = "", .blob = packed, .blob_bytes = bytes};
    memcpy(part.name, k.part, sizeof part.name);
    if (ig_entry_add(a->allocator, a->folder, k.file, &entry, &part, a->digests) != IG_OK) {
        ig_artifacts_warn(a);
        return;
    }
    a->weights_kept++;
    a->kept_bytes += bytes;
    (void)!ig_entries_prune(a->allocator, a->folder, a->most_bytes, &removed);
}
