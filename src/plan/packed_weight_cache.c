/* Packed weights on disk: one entry each, mapped when used. */
#include <string.h>

#include "base/text_out.h"
#include "plan/compile_cache.h"

enum { LINES_BYTES = 512 };

/* The name of an entry and the inputs of its key. */
typedef struct weight_key {
    char lines[LINES_BYTES], file[IG_ENTRY_FILE_BYTES], part[IG_ENTRY_NAME_BYTES];
    size_t lines_bytes;
} weight_key;

static bool make_key(ig_compile_cache *cache, const ig_operand *w, const char *layout,
                     uint64_t bytes, weight_key *k) {
    char name[IG_ENTRY_NAME_BYTES], shape[IG_SHAPE_TEXT_BYTES];
    if (!cache->keeps_weights || !cache->folder[0] || !cache->digests || !w->host) return false;
    const uint64_t span = ig_operand_span(w);
    const ig_digest digest = ig_digests_of(cache->digests, w->host, span);
    ig_text t = ig_text_begin(k->lines, sizeof k->lines);
    ig_text_add(&t, "abi=%d\nlayout=%s\npacked_bytes=%llu\n", IG_BACKEND_ABI, layout,
                (unsigned long long)bytes);
    ig_text_add(&t, "weight_bytes=%llu\ndtypes=%s\nshapes=%s\n", (unsigned long long)span,
                ig_dtype_name(w->desc.dtype), ig_shape_text(w->desc.shape, shape));
    ig_text_add(&t, "weights=%016llx%016llx\n", (unsigned long long)digest.high,
                (unsigned long long)digest.low);
    k->lines_bytes = t.used;
    ig_cache_entry_name(k->lines, k->lines_bytes, name);
    ig_cache_entry_file(name, "weights", k->file);
    ig_cache_entry_name("", 0, k->part); /* one layout for all batch sizes */
    return t.used < sizeof k->lines;
}

bool ig_compile_cache_find_weight(ig_compile_cache *cache, const ig_operand *weight,
                                  const char *layout, uint64_t bytes, ig_cache_entry *entry,
                                  const void **out) {
    weight_key k;
    ig_cache_entry_part part;
    if (!make_key(cache, weight, layout, bytes, &k)) return false;
    if (!ig_compile_cache_is_safe(cache)) return false;
    const ig_status status = ig_cache_entry_open(cache->folder, k.file, cache->digests, entry);
    if (status == IG_ERR_FORMAT) {
        cache->counts.damaged++;
        (void)ig_cache_entry_remove(cache->folder, k.file);
    }
    if (status != IG_OK) return false;
    if (!ig_cache_entry_find(entry, k.part, &part) || part.blob_bytes != bytes) {
        ig_cache_entry_close(entry);
        return false;
    }
    cache->counts.weights_found++;
    cache->found_bytes += bytes;
    *out = part.blob;
    return true;
}

void ig_compile_cache_store_weight(ig_compile_cache *cache, const ig_operand *weight,
                                   const char *layout, const void *packed, uint64_t bytes) {
    weight_key k;
    size_t removed;
    if (!make_key(cache, weight, layout, bytes, &k) || !ig_compile_cache_is_safe(cache)) return;
    cache->counts.weights_packed++;
    const ig_cache_entry entry = {
        .inputs = k.lines, .inputs_bytes = k.lines_bytes, .timeline = "[]", .timeline_bytes = 2};
    ig_cache_entry_part part = {.inputs = "", .blob = packed, .blob_bytes = bytes};
    memcpy(part.name, k.part, sizeof part.name);
    if (ig_cache_entry_add(cache->allocator, cache->folder, k.file, &entry, &part,
                           cache->digests) != IG_OK) {
        ig_compile_cache_warn(cache);
        return;
    }
    cache->weights_kept++;
    cache->kept_bytes += bytes;
    (void)!ig_cache_entries_prune(cache->allocator, cache->folder, cache->most_bytes, &removed);
}
