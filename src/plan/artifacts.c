#include "plan/artifacts.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "base/dirs.h"
#include "base/entries.h"
#include "base/text.h"
#include "plan/lower.h"

enum { INPUTS_BYTES = 1024 };

/* ---- the key ---- */

/* One digest for each kind of thing that steps say, so that `cache why` can tell them apart. */
typedef struct digests {
    XXH3_state_t *steps, *shapes, *dtypes, *places, *weights;
    uint64_t weight_bytes;
} digests;

static void add(XXH3_state_t *state, const void *bytes, size_t count) {
    if (count > 0) XXH3_128bits_update(state, bytes, count);
}

static void digest_operand(digests *d, const ig_operand *o) {
    const ig_shape *s = &o->desc.shape;
    const uint32_t dtype = o->desc.dtype, value[] = {o->value, o->buffer, o->kind, o->vary_slot};
    const int32_t signs[] = {s->rank, o->vary_dim, o->alias};
    add(d->dtypes, &dtype, sizeof dtype);
    add(d->shapes, signs, sizeof signs);
    add(d->shapes, s->dim, (size_t)s->rank * sizeof s->dim[0]);
    add(d->places, o->stride, (size_t)s->rank * sizeof o->stride[0]);
    add(d->places, value, sizeof value);
    add(d->places, &o->offset, sizeof o->offset);
    if (o->kind != IG_KIND_WEIGHT || !o->host) return;
    add(d->weights, o->host, ig_operand_span(o));
    d->weight_bytes += ig_operand_span(o);
}

static void digest_step(digests *d, const ig_step *step) {
    const uint32_t said[] = {step->op,   step->tag,   step->level,      step->chain,
                             step->n_in, step->n_out, step->attrs_bytes};
    add(d->steps, said, sizeof said);
    add(d->steps, step->attrs, step->attrs_bytes);
    add(d->places, &step->scratch_offset, sizeof step->scratch_offset);
    add(d->places, &step->scratch_bytes, sizeof step->scratch_bytes);
    for (uint32_t i = 0; i < step->n_in + step->n_out; i++)
        digest_operand(d, ig_step_operand(step, i));
}

static void say(ig_text *t, const char *name, XXH3_state_t *state) {
    const XXH128_hash_t hash = XXH3_128bits_digest(state);
    ig_text_add(t, "%s=%016llx%016llx\n", name, (unsigned long long)hash.high64,
                (unsigned long long)hash.low64);
}

/* The lines that the key is the digest of; 0: no memory. */
static size_t list_inputs(const ig_artifacts *a, const ig_device *device, const ig_step *steps,
                          uint32_t count, char out[INPUTS_BYTES]) {
    digests d = {XXH3_createState(), XXH3_createState(), XXH3_createState(),
                 XXH3_createState(), XXH3_createState(), 0};
    XXH3_state_t *const all[] = {d.steps, d.shapes, d.dtypes, d.places, d.weights};
    static const char *const names[] = {"steps", "shapes", "dtypes", "places", "weights"};
    ig_text t = ig_text_begin(out, INPUTS_BYTES);
    bool ok = true;
    for (int i = 0; i < 5; i++) ok = ok && all[i];
    for (int i = 0; ok && i < 5; i++) XXH3_128bits_reset(all[i]);
    for (uint32_t i = 0; ok && i < count; i++) digest_step(&d, ig_step_at(steps, i));
    ig_text_add(&t, "abi=%d\nbackend=%s\nversion=%s\narchitecture=%s\noptions=%s\n", IG_BACKEND_ABI,
                device->backend->name, device->backend->version, device->info.architecture,
                a->options);
    ig_text_add(&t, "n_steps=%u\nweight_bytes=%llu\n", count, (unsigned long long)d.weight_bytes);
    for (int i = 0; ok && i < 5; i++) say(&t, names[i], all[i]);
    for (int i = 0; i < 5; i++) XXH3_freeState(all[i]);
    return ok && t.used < INPUTS_BYTES ? t.used : 0;
}

/* ---- compiling ---- */

bool ig_artifacts_keeps(const ig_artifacts *a, const ig_device *device) {
    return a && a->folder[0] && device->backend->save && device->info.flags & IG_CAN_COMPILE;
}

static void keep(ig_artifacts *a, const ig_device *device, const char *name, ig_entry entry,
                 const ig_backend_program *program) {
    static const char timeline[] =
        "[{\"level\":\"compile\",\"ok\":true,\"selected\":true,\"reason\":\"\"}]";
    ig_blob blob = {0};
    size_t removed;
    if (device->backend->save(program, &blob) != IG_OK || !blob.bytes) return;
    if (ig_dir_make_private(a->folder) != IG_OK) return;
    entry.timeline = timeline;
    entry.timeline_bytes = sizeof timeline - 1;
    entry.blob = blob.bytes;
    entry.blob_bytes = blob.size;
    if (ig_entry_write(a->allocator, a->folder, name, &entry) != IG_OK) return;
    a->stored++;
    (void)!ig_entries_prune(a->allocator, a->folder, a->most_bytes, &removed);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

ig_status ig_artifacts_compile(ig_artifacts *a, ig_device *device, const ig_step *steps,
                               uint32_t count, ig_progress *progress, ig_backend_program **out) {
    char inputs[INPUTS_BYTES], name[IG_ENTRY_NAME_BYTES];
    ig_entry entry = {0};
    const size_t bytes = list_inputs(a, device, steps, count, inputs);
    ig_entry_name(inputs, bytes, name);
    const ig_status found = bytes > 0 ? ig_entry_open(a->folder, name, &entry) : IG_ERR_MEMORY;
    if (found == IG_ERR_FORMAT) {
        a->damaged++;
        (void)ig_entry_remove(a->folder, name);
    }
    if (found == IG_OK)
        a->hits++;
    else
        a->misses++;
    const uint64_t begin = now_ns();
    const ig_blob saved = {entry.blob, entry.blob_bytes};
    (void)IG_FAIL(IG_ERR_DEVICE, "%s: compile() failed and gave no reason", device->name);
    const ig_status status =
        device->backend->compile(device->handle, steps, count, saved, progress, out);
    if (found != IG_OK) a->compile_ns += now_ns() - begin;
    if (status == IG_OK && found != IG_OK && bytes > 0 && *out)
        keep(a, device, name, (ig_entry){.inputs = inputs, .inputs_bytes = bytes}, *out);
    ig_entry_close(&entry);
    return status;
}
