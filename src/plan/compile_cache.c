#include "plan/compile_cache.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/text_out.h"
#include "base/user_dirs.h"
#include "plan/lower.h"

enum { INPUTS_BYTES = 1024, MOST_OPEN = 256 };

static const uint64_t wait_most_ns =
    UINT64_C(600) * 1000000000; /* timeout, after which every process compiles for itself */
static const useconds_t wait_step_us = 5000;

/* ---- the key ---- */

/* One digest per category of inputs, so that `cache why` can tell them apart. */
enum { STEPS, DTYPES, WEIGHTS, SHAPES, PLACES, KINDS };

static const char *const kind_names[KINDS] = {"steps", "dtypes", "weights", "shapes", "places"};

typedef struct key_maker {
    XXH3_state_t *states[KINDS];
    ig_digests *digests; /* of weights; NULL: programs do not depend on weight bytes */
    uint64_t weight_bytes;
} key_maker;

/* The names of an entry and its part, and the inputs of the key. */
typedef struct key {
    char inputs[INPUTS_BYTES], part_inputs[INPUTS_BYTES];
    size_t inputs_bytes, part_inputs_bytes; /* 0: out of memory */
    char file[IG_ENTRY_FILE_BYTES], part[IG_ENTRY_NAME_BYTES];
} key;

static void add(const key_maker *m, int kind, const void *bytes, size_t count) {
    if (count > 0) XXH3_128bits_update(m->states[kind], bytes, count);
}

static void add_operand(key_maker *m, const ig_operand *o) {
    const ig_shape *s = &o->desc.shape;
    const uint32_t dtype = o->desc.dtype, value[] = {o->value, o->buffer, o->kind, o->dynamic_slot};
    const int32_t signs[] = {s->rank, o->dynamic_dim, o->alias};
    add(m, DTYPES, &dtype, sizeof dtype);
    add(m, SHAPES, signs, sizeof signs);
    add(m, SHAPES, s->dim, (size_t)s->rank * sizeof s->dim[0]);
    add(m, PLACES, o->stride, (size_t)s->rank * sizeof o->stride[0]);
    add(m, PLACES, value, sizeof value);
    add(m, PLACES, &o->offset, sizeof o->offset);
    if (o->kind != IG_KIND_WEIGHT || !o->host || !m->digests) return;
    const ig_digest digest = ig_digests_of(m->digests, o->host, ig_operand_span(o));
    add(m, WEIGHTS, &digest, sizeof digest);
    m->weight_bytes += ig_operand_span(o);
}

static void add_step(key_maker *m, const ig_step *step) {
    const uint32_t said[] = {step->op,   step->tag,   step->level,      step->chain,
                             step->n_in, step->n_out, step->attrs_bytes};
    add(m, STEPS, said, sizeof said);
    add(m, STEPS, step->attrs, step->attrs_bytes);
    add(m, PLACES, &step->scratch_offset, sizeof step->scratch_offset);
    add(m, PLACES, &step->scratch_bytes, sizeof step->scratch_bytes);
    for (uint32_t i = 0; i < step->n_in + step->n_out; i++)
        add_operand(m, ig_step_operand(step, i));
}

static void say(const key_maker *m, ig_text *t, int kind) {
    const XXH128_hash_t hash = XXH3_128bits_digest(m->states[kind]);
    ig_text_add(t, "%s=%016llx%016llx\n", kind_names[kind], (unsigned long long)hash.high64,
                (unsigned long long)hash.low64);
}

/* The batch size: rows of the last result. */
static long long rows_of(const ig_step *step) {
    const ig_shape *s = &step->out[0].desc.shape;
    long long rows = 1;
    for (int d = 0; d < s->rank - 1; d++) rows *= s->dim[d];
    return rows;
}

static void list_inputs(const key_maker *m, const ig_compile_cache *cache, const ig_device *device,
                        const ig_step *steps, uint32_t count, key *k) {
    ig_text t = ig_text_begin(k->inputs, sizeof k->inputs);
    ig_text_add(&t, "abi=%d\nbackend=%s\nversion=%s\narchitecture=%s\n%sn_steps=%u\n",
                IG_BACKEND_ABI, device->backend->name, device->backend->version,
                device->info.architecture, cache->options, count);
    ig_text_add(&t, "weight_bytes=%llu\n", (unsigned long long)m->weight_bytes);
    for (int i = STEPS; i <= WEIGHTS; i++) say(m, &t, i);
    k->inputs_bytes = t.used < sizeof k->inputs ? t.used : 0;
    t = ig_text_begin(k->part_inputs, sizeof k->part_inputs);
    ig_text_add(&t, "rows=%lld\n", rows_of(ig_step_at(steps, count - 1)));
    for (int i = SHAPES; i <= PLACES; i++) say(m, &t, i);
    k->part_inputs_bytes = t.used;
}

static bool make_key(ig_compile_cache *cache, const ig_device *device, const ig_step *steps,
                     uint32_t count, key *k) {
    const bool apart = device->info.flags & IG_SAVES_NO_WEIGHTS;
    key_maker m = {.digests = apart ? NULL : cache->digests};
    char name[IG_ENTRY_NAME_BYTES];
    bool ok = cache->digests != NULL;
    k->inputs_bytes = 0;
    for (int i = 0; i < KINDS; i++) {
        m.states[i] = XXH3_createState();
        ok = ok && m.states[i];
    }
    for (int i = 0; ok && i < KINDS; i++) XXH3_128bits_reset(m.states[i]);
    for (uint32_t i = 0; ok && i < count; i++) add_step(&m, ig_step_at(steps, i));
    if (ok) list_inputs(&m, cache, device, steps, count, k);
    for (int i = 0; i < KINDS; i++) XXH3_freeState(m.states[i]);
    ig_cache_entry_name(k->inputs, k->inputs_bytes, name);
    ig_cache_entry_file(name, device->backend->extension, k->file);
    ig_cache_entry_name(k->part_inputs, k->part_inputs_bytes, k->part);
    return ok && k->inputs_bytes > 0;
}

/* ---- finding ---- */

static ig_open_entry *find_open(const ig_compile_cache *cache, const char *file) {
    for (size_t i = 0; i < cache->n_open; i++)
        if (strcmp(cache->open[i].file, file) == 0) return &cache->open[i];
    return NULL;
}

static void forget(ig_compile_cache *cache, ig_open_entry *open) {
    ig_cache_entry_close(&open->entry);
    *open = cache->open[--cache->n_open];
}

/* Opens the entry and keeps it open, replacing an older version with fewer parts. */
static const ig_cache_entry *open_entry(ig_compile_cache *cache, const char *file) {
    ig_open_entry *open = find_open(cache, file);
    ig_cache_entry entry;
    if (open) forget(cache, open);
    const ig_status status = ig_cache_entry_open(cache->folder, file, cache->digests, &entry);
    if (status == IG_ERR_FORMAT) {
        cache->counts.damaged++;
        (void)ig_cache_entry_remove(cache->folder, file);
    }
    if (status != IG_OK) return NULL;
    if (cache->n_open == MOST_OPEN) forget(cache, &cache->open[0]);
    if (!IG_GROW(cache->allocator, cache->open, &cache->open_room, cache->n_open + 1)) {
        ig_cache_entry_close(&entry);
        return NULL;
    }
    open = &cache->open[cache->n_open++];
    snprintf(open->file, sizeof open->file, "%s", file);
    open->entry = entry;
    return &open->entry;
}

/* The blob saved for the key; empty: none. */
static ig_blob find(ig_compile_cache *cache, const key *k) {
    ig_cache_entry_part part;
    ig_open_entry *open = find_open(cache, k->file);
    const bool here = open && ig_cache_entry_is_sound(&open->entry) &&
                      ig_cache_entry_find(&open->entry, k->part, &part);
    if (!here) {
        const ig_cache_entry *entry = open_entry(cache, k->file);
        if (!entry || !ig_cache_entry_find(entry, k->part, &part)) return (ig_blob){0};
    }
    return (ig_blob){part.blob, part.blob_bytes};
}

/* ---- compiling ---- */

bool ig_compile_cache_keeps(const ig_compile_cache *cache, const ig_device *device) {
    return cache && cache->folder[0] && device->backend->save &&
           device->info.flags & IG_CAN_COMPILE;
}

void ig_compile_cache_warn(ig_compile_cache *cache) {
    if (cache->host && !cache->reported)
        cache->host->log(cache->host, IG_LOG_WARNING, ig_error_text());
    cache->reported = true;
}

/* Refuses a folder that others can write to, for reading and writing. */
bool ig_compile_cache_is_safe(ig_compile_cache *cache) {
    if (ig_dir_make_private(cache->folder) == IG_OK) return true;
    ig_compile_cache_warn(cache);
    return false;
}

void ig_compile_cache_look(ig_compile_cache *cache) {
    char folder[PATH_MAX];
    const char *slash = strrchr(cache->folder, '/');
    snprintf(folder, sizeof folder, "%.*s/digests", slash ? (int)(slash - cache->folder) : 0,
             cache->folder);
    if (!cache->digests && ig_digests_create(cache->allocator, folder, &cache->digests) != IG_OK)
        return;
    ig_digests_look(cache->digests);
}

static void keep(ig_compile_cache *cache, const ig_device *device, const key *k,
                 const ig_backend_program *program) {
    static const char timeline[] =
        "[{\"level\":\"compile\",\"ok\":true,\"selected\":true,\"reason\":\"\"}]";
    ig_blob blob = {0};
    size_t removed;
    if (device->backend->save(program, &blob) != IG_OK || !blob.bytes) return;
    const ig_cache_entry entry = {.inputs = k->inputs,
                                  .inputs_bytes = k->inputs_bytes,
                                  .timeline = timeline,
                                  .timeline_bytes = sizeof timeline - 1};
    ig_cache_entry_part part = {.inputs = k->part_inputs,
                                .inputs_bytes = k->part_inputs_bytes,
                                .blob = blob.bytes,
                                .blob_bytes = blob.size};
    memcpy(part.name, k->part, sizeof part.name);
    if (ig_cache_entry_add(cache->allocator, cache->folder, k->file, &entry, &part,
                           cache->digests) != IG_OK) {
        ig_compile_cache_warn(cache);
        return;
    }
    cache->counts.stored++;
    (void)!ig_cache_entries_prune(cache->allocator, cache->folder, cache->most_bytes, &removed);
    (void)open_entry(cache, k->file); /* keep it open for the next lookup */
}

static ig_status ask(ig_device *device, const ig_step *steps, uint32_t count, ig_blob saved,
                     ig_progress *progress, ig_backend_program **out) {
    (void)IG_FAIL(IG_ERR_DEVICE, "%s: compile() failed and gave no reason", device->name);
    return device->backend->compile(device->handle, steps, count, saved, progress, out);
}

/* Waits until no other process compiles the same key; then locks it, or times out. */
static ig_status lock(ig_compile_cache *cache, const ig_device *device, const key *k,
                      ig_progress *progress, ig_cache_entry_lock *out) {
    const uint64_t begin = ig_clock_ns();
    const ig_host *host = device->handle->host;
    bool waited = false;
    while (!ig_cache_entry_try_lock(cache->folder, k->file, out)) {
        cache->waits += !waited;
        waited = true;
        if (ig_clock_ns() - begin > wait_most_ns) break;
        if (!host->progress(progress, 0, 0))
            return IG_FAIL(IG_ERR_CANCELLED, "%s: compile: cancelled", device->name);
        usleep(wait_step_us);
    }
    return IG_OK;
}

/* Loads from saved bytes. Returns no program if the device cannot use them. */
static ig_status load(ig_compile_cache *cache, ig_device *device, const ig_step *steps,
                      uint32_t count, ig_blob saved, ig_progress *progress,
                      ig_backend_program **out) {
    const uint64_t begin = ig_clock_ns();
    const ig_status status = ask(device, steps, count, saved, progress, out);
    cache->load_ns += ig_clock_ns() - begin;
    if (status == IG_OK) cache->counts.hits++;
    return status;
}

static ig_status compile(ig_compile_cache *cache, ig_device *device, const ig_step *steps,
                         uint32_t count, const key *k, ig_progress *progress,
                         ig_backend_program **out) {
    const uint64_t begin = ig_clock_ns();
    const ig_status status = ask(device, steps, count, (ig_blob){0}, progress, out);
    cache->counts.compile_ns += ig_clock_ns() - begin;
    if (status != IG_OK) return status;
    cache->counts.misses++;
    if (k->inputs_bytes > 0 && *out) keep(cache, device, k, *out);
    return status;
}

ig_status ig_compile_cache_compile(ig_compile_cache *cache, ig_device *device, const ig_step *steps,
                                   uint32_t count, ig_progress *progress,
                                   ig_backend_program **out) {
    key k;
    ig_cache_entry_lock held = {-1};
    if (!make_key(cache, device, steps, count, &k) || !ig_compile_cache_is_safe(cache)) {
        k.inputs_bytes = 0;
        return compile(cache, device, steps, count, &k, progress, out);
    }
    ig_blob saved = find(cache, &k);
    if (!saved.bytes) {
        IG_TRY(lock(cache, device, &k, progress, &held));
        saved = find(cache, &k); /* another process may have stored it meanwhile */
    }
    ig_status status = IG_ERR_STATE;
    if (saved.bytes) status = load(cache, device, steps, count, saved, progress, out);
    if (status != IG_OK && status != IG_ERR_CANCELLED && status != IG_ERR_MEMORY)
        status = compile(cache, device, steps, count, &k, progress, out);
    ig_cache_entry_unlock(&held);
    return status;
}

void ig_compile_cache_deinit(ig_compile_cache *cache) {
    if (!cache->allocator) return;
    const ig_cache_entry_counts *c = &cache->counts;
    const bool any = c->hits + c->misses + c->damaged + c->weights_found + c->weights_packed > 0;
    if (any && cache->folder[0]) ig_cache_entries_count(cache->folder, c);
    for (size_t i = 0; i < cache->n_open; i++) ig_cache_entry_close(&cache->open[i].entry);
    ig_free(cache->allocator, cache->open);
    ig_digests_destroy(cache->digests);
    *cache = (ig_compile_cache){0};
}
