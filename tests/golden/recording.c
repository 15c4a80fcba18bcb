#include "recording.h"

#include <assert.h>
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>
#include <xxhash.h>

#include "../unit/check.h"
#include "base/file.h"
#include "format/gguf/gguf.h"
#include "model/synthetic/synthetic_models.h"

enum { MOST_FILES = 128 };

/* ---- Models ---- */

/* F32, quantized by the program: mixtures are its recipes. */
static void quantize_mixture(const char *model, const char *type, const char *path) {
    char whole[600], command[2048];
    snprintf(whole, sizeof whole, "%s.f32", path);
    must(model_save(model, IG_F32, whole));
    snprintf(command, sizeof command, INGOT_EMULATOR " '%s' quantize -q '%s' '%s' %s",
             INGOT_PROGRAM, whole, path, type);
    const int status = system(command);
    unlink(whole);
    if (status != 0) fail_msg("%s: status %d", command, status);
}

/* Another digest is another model: the generator or the quantizer gives other bytes than it did for
 * llama.cpp. */
static void check_digest(const recording *r) {
    ig_file_map map;
    char digest[sizeof r->digest];
    must(ig_file_map_open(r->path, &map));
    snprintf(digest, sizeof digest, "%016llx",
             (unsigned long long)XXH3_64bits(map.bytes, (size_t)map.size));
    ig_file_map_close(&map);
    if (strcmp(digest, r->digest) != 0)
        fail_msg("%s: generated model has digest %s, recorded is %s; if the generator or the "
                 "quantizer changed on purpose, run tests/golden/record",
                 r->name, digest, r->digest);
}

static bool weights_are_float(const char *path) {
    ig_gguf *file;
    bool all = true;
    must(ig_gguf_open(path, NULL, &file));
    for (size_t i = 0; i < ig_gguf_n_tensors(file); i++) {
        const ig_dtype dtype = ig_gguf_tensor_at(file, i)->desc.dtype;
        all = all && (dtype == IG_F32 || dtype == IG_F16 || dtype == IG_BF16);
    }
    ig_gguf_close(file);
    return all;
}

void recording_make_model(recording *r) {
    ig_dtype dtype;
    if (*r->model) {
        if (ig_dtype_find(r->type, &dtype))
            must(model_save(r->model, dtype, r->path));
        else
            quantize_mixture(r->model, r->type, r->path);
        check_digest(r);
    }
    r->is_float = weights_are_float(r->path);
}

void recording_delete_model(const recording *r) {
    if (*r->model) unlink(r->path);
}

/* ---- JSON; before any case runs ---- */

static int read_ints(const json_t *list, int32_t *out, int most) {
    const int n = (int)json_array_size(list);
    assert(n <= most);
    for (int i = 0; i < n; i++)
        out[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
    return n;
}

static void read_text(const json_t *root, const char *key, char *out, size_t room) {
    const char *text = json_string_value(json_object_get(root, key));
    snprintf(out, room, "%s", text ? text : "");
}

static void read_json(const char *path, recording *r) {
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    if (!root) {
        fprintf(stderr, "%s: line %d: %s\n", path, error.line, error.text);
        exit(1);
    }
    const json_t *embedding = json_object_get(root, "embedding");
    const json_t *logits = embedding ? embedding : json_object_get(root, "last_logits");
    const json_t *margin = json_object_get(root, "margin");
    read_text(root, "model", r->model, sizeof r->model);
    read_text(root, "type", r->type, sizeof r->type);
    read_text(root, "digest", r->digest, sizeof r->digest);
    read_text(root, "prompt", r->prompt, sizeof r->prompt);
    r->n_tokens = read_ints(json_object_get(root, "tokens"), r->tokens, RECORDING_TOKENS);
    r->n_greedy = read_ints(json_object_get(root, "greedy"), r->greedy, RECORDING_GREEDY);
    r->n_logits = (int)json_array_size(logits);
    assert(r->n_logits > 0 && r->n_logits <= RECORDING_LOGITS);
    for (int i = 0; i < r->n_logits; i++)
        r->logits[i] = (float)json_number_value(json_array_get(logits, (size_t)i));
    for (int i = 0; i < r->n_greedy; i++)
        r->margin[i] = json_number_value(json_array_get(margin, (size_t)i));
    json_decref(root);
}

/* ---- Folders ---- */

static void read_one(const char *folder, const char *name, recording *r) {
    char path[512];
    snprintf(r->name, sizeof r->name, "%s", name);
    snprintf(path, sizeof path, "%s/%s.json", folder, name);
    read_json(path, r);
    if (*r->model)
        snprintf(r->path, sizeof r->path, "/tmp/ingot-golden-%d-%s.gguf", (int)getpid(), name);
    else
        snprintf(r->path, sizeof r->path, "%s/%s.gguf", folder, name);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const recording *)a)->name, ((const recording *)b)->name);
}

recording *recordings_read(const char *folder, int *count) {
    DIR *dir = opendir(folder);
    if (!dir) return NULL;
    const char *only = getenv("INGOT_GOLDEN"); /* a part of a name */
    recording *all = calloc(MOST_FILES, sizeof *all);
    int n = 0;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char name[sizeof all->name];
        const size_t length = strlen(entry->d_name);
        if (length < 6 || strcmp(entry->d_name + length - 5, ".json") != 0) continue;
        if (only && !strstr(entry->d_name, only)) continue;
        assert(n < MOST_FILES && length - 5 < sizeof name);
        snprintf(name, sizeof name, "%.*s", (int)(length - 5), entry->d_name);
        read_one(folder, name, &all[n++]);
    }
    closedir(dir);
    assert(n > 0);
    qsort(all, (size_t)n, sizeof *all, by_name);
    *count = n;
    return all;
}

/* ---- Numbers ---- */

double recording_error(const float *got, const float *want, int n) {
    double apart = 0, all = 0;
    for (int i = 0; i < n; i++) {
        apart += pow((double)got[i] - (double)want[i], 2);
        all += pow((double)want[i], 2);
    }
    return sqrt(apart / all);
}

double recording_cosine(const float *a, const float *b, int n) {
    double ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

double recording_rms(const float *x, int n) {
    double squares = 0;
    for (int i = 0; i < n; i++) squares += (double)x[i] * (double)x[i];
    return sqrt(squares / n);
}

/* ---- Running ---- */

ig_ctx *recording_ctx(const char *device) {
    ig_ctx *ctx = NULL;
    must(ig_ctx_create(&(ig_ctx_options){.device = device, .strict = true}, &ctx));
    return ctx;
}

void recording_run(const recording *r, ig_ctx *ctx, const char *cache, float *out) {
    ig_adapter *adapter;
    ig_session *session = NULL;
    const ig_session_options options = {.cache_type_k = cache, .cache_type_v = cache};
    must(ig_adapter_load(ctx, r->path, &adapter));
    if (r->n_greedy == 0) {
        assert_int_equal(ig_adapter_config(adapter).d_model, r->n_logits);
        must(ig_adapter_embed(adapter, r->prompt, strlen(r->prompt), IG_POOL_DEFAULT, out, NULL));
    } else {
        assert_int_equal(ig_adapter_vocab_size(adapter), r->n_logits);
        must(ig_session_create(adapter, &options, &session));
        must(ig_session_feed(session, 0, r->tokens, r->n_tokens, out));
        ig_session_destroy(session);
    }
    ig_adapter_destroy(adapter);
}
