/* ingot quantize IN OUT TYPE - a GGUF model with smaller weights. */
#include <string.h>

#include "base/quant_blocks.h"
#include "base/file.h"
#include "cli/app/cli.h"
#include "cli/app/output.h"
#include "cli/app/progress.h"
#include "cli/app/report_file.h"
#include "cli/app/signals.h"
#include "format/gguf/gguf_stream.h"
#include "format/quantize/recipe.h"

typedef struct quantize_options {
    const char *in, *out, *type;
    int64_t threads;
} quantize_options;

/* The job, and afterwards what came of it. */
typedef struct quantization {
    ig_cli *cli;
    const quantize_options *options;
    const ig_recipe *recipe;
    ig_gguf *model;
    ig_product *products;
    ig_produced *results;
    size_t count;
    ig_meter meter;
    double seconds;
} quantization;

enum { QUANTIZATION_VERSION = 2 }; /* of the block types' meaning */

/* ---- What is to be done ---- */

/* Elements of a tensor of the model that is read: whole blocks of any type. */
static void read_tensor(const ig_product *product, int64_t first, int64_t n, float *out) {
    const ig_gguf_tensor *t = product->source;
    const int64_t at = ig_bytes_of(t->desc.dtype, first);
    ig_blocks_decode(t->desc.dtype, (const char *)t->bytes + at, out, n);
}

/* A number of the model's architecture; 0: it does not say. */
static int64_t arch_int(const ig_gguf *model, const char *name) {
    char key[128];
    ig_gguf_text arch;
    int64_t x = 0;
    if (!ig_gguf_text_of(model, "general.architecture", &arch) || arch.n_bytes > 64) return 0;
    snprintf(key, sizeof key, "%.*s.%s", (int)arch.n_bytes, arch.bytes, name);
    return ig_gguf_int(model, key, &x) ? x : 0;
}

static bool choose_type(const quantization *q, const ig_recipe_model *m, size_t i) {
    const ig_gguf_tensor *t = ig_gguf_tensor_at(q->model, i);
    const ig_dtype from = t->desc.dtype;
    const char *why = NULL;
    const ig_dtype to =
        ig_blocks_can_decode(from) ? ig_recipe_type(q->recipe, m, t->name, t->desc, &why) : from;
    q->products[i] = (ig_product){.name = t->name, .desc = {to, t->desc.shape}, .source = t->bytes};
    if (to == from) return false;
    q->products[i].read = read_tensor;
    q->products[i].source = t;
    if (why) ig_cli_say(q->cli, "%s: becomes %s, because %s", t->name, ig_dtype_name(to), why);
    return ig_dtype_block(from) > 1; /* quantised again */
}

static void choose_types(const quantization *q) {
    const int64_t kv_heads = arch_int(q->model, "attention.head_count_kv");
    const ig_recipe_model m = {
        .tied = !ig_gguf_find_tensor(q->model, "output.weight"),
        .n_layers = arch_int(q->model, "block_count"),
        .n_experts = arch_int(q->model, "expert_count"),
        .heads_share = kv_heads > 0 ? arch_int(q->model, "attention.head_count") / kv_heads : 0,
    };
    size_t again = 0;
    for (size_t i = 0; i < q->count; i++) again += choose_type(q, &m, i);
    if (again > 0)
        ig_cli_say(q->cli,
                   "%zu tensors are quantised already; what that lost stays lost, so begin with "
                   "an F16 or BF16 model where you can",
                   again);
}

static void put_keys(const quantization *q, ig_gguf_writer *w) {
    for (size_t i = 0; i < ig_gguf_n_values(q->model); i++) {
        const ig_gguf_value *value = ig_gguf_value_at(q->model, i);
        const char split[] = "split."; /* the parts become one file */
        if (value->key.n_bytes >= 6 && memcmp(value->key.bytes, split, 6) == 0) continue;
        ig_gguf_writer_value(w, value);
    }
    ig_gguf_writer_u32(w, "general.quantization_version", QUANTIZATION_VERSION);
    ig_gguf_writer_u32(w, "general.file_type", q->recipe->file_type);
}

/* ---- Doing it ---- */

static bool progress(void *user, const ig_product *product, uint64_t done, uint64_t total) {
    quantization *q = user;
    q->meter.total = (total >> 20) + 1;
    ig_meter_update(&q->meter, done >> 20, product->name);
    return ig_cli_cancelled(q->cli);
}

static ig_status produce(quantization *q) {
    const ig_allocator *a = &q->cli->allocator;
    ig_gguf_writer *w = NULL;
    IG_TRY(ig_gguf_writer_create(a, q->options->out, &w));
    put_keys(q, w);
    q->meter = ig_meter_begin(&q->cli->term, q->cli->quiet, "quantize", "MiB", 1);
    const double began = ig_clock_seconds();
    const ig_produce_options options = {.threads = (uint32_t)q->options->threads,
                                        .stop = progress,
                                        .user = q,
                                        .writing = ig_signals_writing};
    ig_status status = ig_gguf_announce(w, q->products, q->count);
    if (status == IG_OK)
        status =
            ig_gguf_produce(a, q->options->out, w, q->products, q->count, &options, q->results);
    q->seconds = ig_clock_seconds() - began;
    ig_run_stage(q->cli, "quantize", q->seconds * 1e3);
    if (status == IG_OK) ig_run_wrote(q->cli, "model", q->options->out);
    ig_meter_end(&q->meter, status == IG_OK ? q->meter.total : 0, "");
    ig_gguf_writer_destroy(w);
    return status;
}

/* ---- Results ---- */

static ig_produced add_up(const quantization *q) {
    ig_produced all = {0};
    for (size_t i = 0; i < q->count; i++) {
        all.n_bytes += q->results[i].n_bytes;
        all.square += q->results[i].square;
        all.error += q->results[i].error;
    }
    return all;
}

/* The share of the squares that was lost. */
static double lost(const ig_produced *p) { return p->square > 0 ? p->error / p->square : 0; }

static void print_tensors(const quantization *q) {
    printf("%-40s  %-6s  %-6s  %10s  %12s  %8s\n", "tensor", "from", "to", "size", "squared error",
           "lost");
    for (size_t i = 0; i < q->count; i++) {
        const ig_product *p = &q->products[i];
        char name[96], size[IG_UNIT_TEXT_BYTES];
        printf("%-40s  %-6s  %-6s  %10s  %12.4g  %8.2g\n", ig_text_safe(p->name, name, sizeof name),
               ig_dtype_name(ig_gguf_tensor_at(q->model, i)->desc.dtype),
               ig_dtype_name(p->desc.dtype), ig_bytes_text(q->results[i].n_bytes, size),
               q->results[i].error, lost(&q->results[i]));
    }
}

static ig_status print_summary(const quantization *q) {
    const ig_produced all = add_up(q);
    uint64_t elements = 0;
    for (size_t i = 0; i < q->count; i++)
        elements += (uint64_t)ig_shape_count(q->products[i].desc.shape);
    char path[512], before[IG_UNIT_TEXT_BYTES], after[IG_UNIT_TEXT_BYTES];
    if (q->cli->verbose) print_tensors(q);
    printf("%s: %s, %s of weights (%.2f bits each), from %s; %.2g of their squares lost\n",
           ig_text_safe(q->options->out, path, sizeof path), q->recipe->name,
           ig_bytes_text(all.n_bytes, after),
           elements ? 8 * (double)all.n_bytes / (double)elements : 0,
           ig_bytes_text(ig_gguf_file_bytes(q->model), before), lost(&all));
    return IG_OK;
}

static ig_status print_json(const quantization *q) {
    const ig_produced all = add_up(q);
    json_t *tensors = json_array();
    for (size_t i = 0; i < q->count; i++) {
        const ig_produced *r = &q->results[i];
        json_array_append_new(
            tensors,
            json_pack("{s:o, s:s, s:s, s:I, s:o, s:o}", "name", ig_json_text(q->products[i].name),
                      "from", ig_dtype_name(ig_gguf_tensor_at(q->model, i)->desc.dtype), "to",
                      ig_dtype_name(q->products[i].desc.dtype), "bytes", (json_int_t)r->n_bytes,
                      "squared_error", ig_json_real(r->error), "lost", ig_json_real(lost(r))));
    }
    return ig_run_result(
        q->cli,
        json_pack("{s:s, s:o, s:o, s:s, s:I, s:I, s:o, s:o, s:o}", "schema", "ingot.quantize.v1",
                  "in", ig_json_text(q->options->in), "out", ig_json_text(q->options->out), "type",
                  q->recipe->name, "bytes_before", (json_int_t)ig_gguf_file_bytes(q->model),
                  "weight_bytes", (json_int_t)all.n_bytes, "lost", ig_json_real(lost(&all)),
                  "seconds", ig_json_real(q->seconds), "tensors", tensors));
}

/* ---- The command ---- */

static ig_status run_open(quantization *q) {
    const ig_allocator *a = &q->cli->allocator;
    q->count = ig_gguf_n_tensors(q->model);
    q->products = ig_alloc(a, q->count, sizeof *q->products);
    q->results = ig_alloc(a, q->count, sizeof *q->results);
    if (!q->products || !q->results)
        return IG_FAIL(IG_ERR_MEMORY, "%s: no memory for %zu tensors", q->options->in, q->count);
    if (q->count == 0)
        return IG_FAIL(IG_ERR_FORMAT, "%s: has no tensors to quantise", q->options->in);
    choose_types(q);
    IG_TRY(produce(q));
    return q->cli->json ? print_json(q) : print_summary(q);
}

/* The first part is the one that was named. */
static ig_status check_parts(const quantization *q) {
    for (size_t i = 1; i < ig_gguf_n_parts(q->model); i++)
        if (ig_file_is_same(q->options->out, ig_gguf_part_name(q->model, i)))
            return IG_FAIL(IG_ERR_ARGUMENT, "OUT %s: would replace a part of %s", q->options->out,
                           q->options->in);
    return IG_OK;
}

static ig_status run(ig_cli *cli, const void *options) {
    quantization q = {.cli = cli, .options = options};
    q.recipe = ig_recipe_find(q.options->type);
    if (!q.recipe)
        return IG_FAIL(IG_ERR_ARGUMENT, "'%s': no such type of weights", q.options->type);
    IG_TRY(ig_cli_check_gguf_name(q.options->out));
    ig_signals_reading(q.options->in);
    ig_run_model(cli, q.options->in);
    IG_TRY(ig_gguf_open_file(&cli->allocator, q.options->in, &q.model));
    ig_status status = check_parts(&q);
    if (status == IG_OK) status = run_open(&q);
    ig_free(&cli->allocator, q.results);
    ig_free(&cli->allocator, q.products);
    ig_gguf_close(q.model);
    return status;
}

static const ig_opt opts[] = {
    {OPT_TEXT, 0, "IN", offsetof(quantize_options, in), .help = "a GGUF model",
     .flags = OPT_POSITIONAL | OPT_REQUIRED | OPT_FILE},
    {OPT_TEXT, 0, "OUT", offsetof(quantize_options, out), .help = "the file to write",
     .flags = OPT_POSITIONAL | OPT_REQUIRED | OPT_FILE | OPT_OUTPUT},
    {OPT_TEXT, 0, "TYPE", offsetof(quantize_options, type), .help = "what the weights become",
     .choices = ig_recipe_names, .flags = OPT_POSITIONAL | OPT_REQUIRED},
    {OPT_INT, 't', "threads", offsetof(quantize_options, threads),
     .help = "how many threads compute; 0: as many as there are processors", .value = "N",
     .initial = "0", .low = 0, .high = 256},
    {0},
};

static const char *const examples[] = {
    "ingot quantize model-f16.gguf model.gguf Q4_K_M",
    "A quarter of the size, and nearly as good.",
    "ingot quantize model-f16.gguf model.gguf Q8_0 --verbose",
    "With a table of what each tensor loses.",
    NULL,
};

const ig_command cmd_quantize = {
    .name = "quantize",
    .summary = "make a model's weights smaller",
    .about = "Reads a GGUF model, of any types and in any number of parts, and writes it to one "
             "file with its matrices in blocks of fewer bits. Scales are searched for the least "
             "squared error.\n\n"
             "Norms, biases and other small tensors stay as they are. The output matrix becomes "
             "q6_k, and the mixtures (Q2_K, and names that end with _S, _M, _L or begin with IQ4) "
             "give some layers of attn_v and ffn_down more bits, the same ones as llama.cpp's of "
             "these names, of which Q3_K, Q4_K and Q5_K mean those with _M. MXFP4_MOE has its "
             "experts in MXFP4 and the rest in Q8_0. Rows that are "
             "no whole blocks get another type, and that is "
             "said.\n\n"
             "The file is replaced whole or not at all.",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(quantize_options),
    .cancels = true,
    .run = run,
};
