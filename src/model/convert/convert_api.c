/* ingot/convert.h: conversion and quantization for programs. */
#include "ingot/convert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/quant_blocks.h"
#include "model/convert/convert.h"

enum { QUANTIZATION_VERSION = 2 }; /* version of the block formats */

struct ig_conversion_result {
    const ig_allocator *allocator;
    ig_gguf *source;           /* quantization */
    ig_conversion *conversion; /* conversion */
    const ig_recipe *recipe;
    char arch[64];
    ig_gguf_output *outputs; /* quantization: owned */
    ig_produced *written;
    size_t count;
};

/* A job: the options, resolved, and the result so far. */
typedef struct job {
    const char *from, *to;
    const ig_convert_options *options;
    ig_conversion_result *result;
} job;

const char *ig_weight_type_name(size_t i) {
    size_t n = 0;
    while (ig_recipe_names[n]) n++;
    return i < n ? ig_recipe_names[i] : NULL;
}

const char *ig_weight_type_resolve(const char *name) {
    const ig_recipe *recipe = name ? ig_recipe_find(name) : NULL;
    return recipe ? recipe->name : NULL;
}

static bool stop(void *user, const ig_gguf_output *output, uint64_t done, uint64_t total) {
    const ig_convert_options *o = user;
    return o->progress && !o->progress(o->user, output->name, done, total);
}

static ig_produce_options produce_options(const job *j) {
    return (ig_produce_options){.threads = (uint32_t)j->options->threads,
                                .stop = stop,
                                .user = (void *)(uintptr_t)j->options,
                                .writing = j->options->writing};
}

static ig_status make_room(job *j) {
    ig_conversion_result *r = j->result;
    r->written = ig_alloc(r->allocator, r->count, sizeof *r->written);
    if (r->written) return IG_OK;
    return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %zu tensors", j->from, r->count);
}

/* ---- Converting ---- */

static ig_status convert(job *j) {
    ig_conversion_result *r = j->result;
    const ig_conversion_options how = {
        .pre = j->options->pre_tokenizer, .say = j->options->note, .user = j->options->user};
    IG_TRY(ig_conversion_open(r->allocator, j->from, &how, &r->conversion));
    snprintf(r->arch, sizeof r->arch, "%s", ig_conversion_arch(r->conversion));
    r->count = ig_conversion_count(r->conversion);
    IG_TRY(make_room(j));
    const ig_produce_options options = produce_options(j);
    return ig_conversion_write(r->conversion, j->to, r->recipe, &options, r->written);
}

/* ---- Quantizing ---- */

/* Reads elements of a source tensor; must be complete quantization blocks. */
static void read_tensor(const ig_gguf_output *output, int64_t first, int64_t n, float *out) {
    const ig_gguf_tensor *t = output->source;
    const int64_t at = ig_bytes_of(t->desc.dtype, first);
    ig_blocks_dequantize(t->desc.dtype, (const char *)t->bytes + at, out, n);
}

static void note(const job *j, const char *text) {
    if (j->options->note) j->options->note(j->options->user, text);
}

/* An integer of the architecture; 0: missing. */
static int64_t arch_int(const ig_conversion_result *r, const char *name) {
    char key[128];
    int64_t x = 0;
    if (!*r->arch) return 0;
    snprintf(key, sizeof key, "%s.%s", r->arch, name);
    return ig_gguf_int(r->source, key, &x) ? x : 0;
}

static bool choose_type(const job *j, const ig_recipe_model *m, size_t i) {
    const ig_conversion_result *r = j->result;
    const ig_gguf_tensor *t = ig_gguf_tensor_at(r->source, i);
    const ig_dtype from = t->desc.dtype;
    const char *why = NULL;
    const ig_dtype to = ig_blocks_can_dequantize(from)
                            ? ig_recipe_type(r->recipe, m, t->name, t->desc, &why)
                            : from;
    r->outputs[i] =
        (ig_gguf_output){.name = t->name, .desc = {to, t->desc.shape}, .source = t->bytes};
    if (to == from) return false;
    r->outputs[i].read = read_tensor;
    r->outputs[i].source = t;
    char text[256];
    snprintf(text, sizeof text, "%s: becomes %s, because %s", t->name, ig_dtype_name(to),
             why ? why : "");
    if (why) note(j, text);
    return ig_dtype_block(from) > 1; /* requantized */
}

static void choose_types(const job *j) {
    const ig_conversion_result *r = j->result;
    const int64_t kv_heads = arch_int(r, "attention.head_count_kv");
    const ig_recipe_model m = {
        .tied = !ig_gguf_find_tensor(r->source, "output.weight"),
        .n_layers = arch_int(r, "block_count"),
        .n_experts = arch_int(r, "expert_count"),
        .heads_share = kv_heads > 0 ? arch_int(r, "attention.head_count") / kv_heads : 0,
    };
    size_t again = 0;
    char text[160];
    for (size_t i = 0; i < r->count; i++) again += choose_type(j, &m, i);
    snprintf(text, sizeof text,
             "%zu tensors are already quantized, so their error remains; start from an F16 "
             "or BF16 model if you can",
             again);
    if (again > 0) note(j, text);
}

static void put_keys(const ig_conversion_result *r, ig_gguf_writer *w) {
    for (size_t i = 0; i < ig_gguf_n_values(r->source); i++) {
        const ig_gguf_value *value = ig_gguf_value_at(r->source, i);
        const char split[] = "split."; /* split files become one file */
        if (value->key.n_bytes >= 6 && memcmp(value->key.bytes, split, 6) == 0) continue;
        ig_gguf_writer_value(w, value);
    }
    ig_gguf_writer_u32(w, "general.quantization_version", QUANTIZATION_VERSION);
    ig_gguf_writer_u32(w, "general.file_type", r->recipe->file_type);
}

/* The first part is the one that was named. */
static ig_status check_parts(const job *j) {
    for (size_t i = 1; i < ig_gguf_n_parts(j->result->source); i++)
        if (ig_file_is_same(j->to, ig_gguf_part_name(j->result->source, i)))
            return IG_FAIL(IG_ERR_ARGUMENT, "OUT %s: would overwrite an input file of %s", j->to,
                           j->from);
    return IG_OK;
}

static ig_status write_quantized(job *j) {
    ig_conversion_result *r = j->result;
    ig_gguf_writer *w = NULL;
    IG_TRY(ig_gguf_writer_create(r->allocator, j->to, &w));
    put_keys(r, w);
    const ig_produce_options options = produce_options(j);
    ig_status status = ig_gguf_announce(w, r->outputs, r->count);
    if (status == IG_OK)
        status =
            ig_gguf_produce(r->allocator, j->to, w, r->outputs, r->count, &options, r->written);
    ig_gguf_writer_destroy(w);
    return status;
}

static ig_status quantize(job *j) {
    ig_conversion_result *r = j->result;
    ig_string_view arch;
    IG_TRY(ig_gguf_open(j->from, &(ig_gguf_options){.allocator = r->allocator}, &r->source));
    IG_TRY(check_parts(j));
    if (ig_gguf_string(r->source, "general.architecture", &arch) && arch.n_bytes < sizeof r->arch)
        memcpy(r->arch, arch.bytes, arch.n_bytes);
    r->count = ig_gguf_n_tensors(r->source);
    if (r->count == 0) return IG_FAIL(IG_ERR_FORMAT, "%s: has no tensors to quantize", j->from);
    IG_TRY(make_room(j));
    r->outputs = ig_alloc(r->allocator, r->count, sizeof *r->outputs);
    if (!r->outputs)
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %zu tensors", j->from, r->count);
    choose_types(j);
    return write_quantized(j);
}

/* ---- Both ---- */

static ig_status run(const char *from, const char *to, const ig_convert_options *options,
                     ig_status (*work)(job *j), ig_conversion_result **out) {
    static const ig_convert_options defaults;
    const ig_convert_options *o = options ? options : &defaults;
    if (!from || !to) return IG_FAIL(IG_ERR_ARGUMENT, "convert: NULL");
    const ig_recipe *recipe = ig_recipe_find(o->type ? o->type : "F16");
    if (!recipe) return IG_FAIL(IG_ERR_ARGUMENT, "type '%.64s': unknown weight type", o->type);
    if (o->threads < 0) return IG_FAIL(IG_ERR_ARGUMENT, "convert: %d threads", o->threads);
    const ig_allocator *a = o->allocator ? o->allocator : &ig_heap;
    ig_conversion_result *result = ig_alloc(a, 1, sizeof *result);
    if (!result) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory to convert it", from);
    result->allocator = a;
    result->recipe = recipe;
    job j = {.from = from, .to = to, .options = o, .result = result};
    const ig_status status = work(&j);
    if (status == IG_OK && out)
        *out = result;
    else
        ig_conversion_result_destroy(result);
    return status;
}

ig_status ig_convert(const char *from, const char *to, const ig_convert_options *options,
                     ig_conversion_result **result) {
    return run(from, to, options, convert, result);
}

ig_status ig_quantize_model(const char *from, const char *to, const ig_convert_options *options,
                            ig_conversion_result **result) {
    return run(from, to, options, quantize, result);
}

void ig_conversion_result_destroy(ig_conversion_result *r) {
    if (!r) return;
    ig_free(r->allocator, r->written);
    ig_free(r->allocator, r->outputs);
    ig_conversion_close(r->conversion);
    ig_gguf_close(r->source);
    ig_free(r->allocator, r);
}

const char *ig_conversion_result_arch(const ig_conversion_result *r) { return r->arch; }
const char *ig_conversion_result_type(const ig_conversion_result *r) { return r->recipe->name; }
size_t ig_conversion_result_count(const ig_conversion_result *r) { return r->count; }

uint64_t ig_conversion_result_bytes_before(const ig_conversion_result *r) {
    return r->source ? ig_gguf_file_bytes(r->source) : 0;
}

ig_converted_tensor ig_conversion_result_tensor(const ig_conversion_result *r, size_t i) {
    if (i >= r->count) return (ig_converted_tensor){0};
    const ig_gguf_output *o = r->outputs ? &r->outputs[i] : ig_conversion_output(r->conversion, i);
    return (ig_converted_tensor){
        .name = o->name,
        .from = r->source ? ig_gguf_tensor_at(r->source, i)->desc.dtype : IG_F32,
        .desc = o->desc,
        .n_bytes = r->written[i].n_bytes,
        .square = r->written[i].square,
        .error = r->written[i].error,
    };
}
