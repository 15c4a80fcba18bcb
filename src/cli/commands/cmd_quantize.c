/* ingot quantize IN OUT TYPE - quantizes a GGUF model. */
#include <string.h>

#include "cli/app/cli.h"
#include "cli/app/output.h"
#include "cli/app/progress.h"
#include "cli/app/report_file.h"
#include "cli/app/signals.h"
#include "ingot/convert.h"

typedef struct quantize_options {
    const char *in, *out, *type;
    int64_t threads;
} quantize_options;

/* The job and its results. */
typedef struct quantization {
    ig_cli *cli;
    const quantize_options *options;
    ig_conversion_result *result;
    size_t count;
    ig_meter meter;
    double seconds;
} quantization;

static void say(void *user, const char *text) {
    const quantization *q = user;
    ig_cli_say(q->cli, "%s", text);
}

static bool progress(void *user, const char *tensor, uint64_t done, uint64_t total) {
    quantization *q = user;
    q->meter.total = (total >> 20) + 1;
    ig_meter_update(&q->meter, done >> 20, tensor);
    return !ig_cli_cancelled(q->cli);
}

static ig_status quantize(quantization *q) {
    const quantize_options *o = q->options;
    const ig_convert_options options = {.type = o->type,
                                        .threads = (int)o->threads,
                                        .note = say,
                                        .progress = progress,
                                        .user = q,
                                        .writing = ig_signals_writing,
                                        .allocator = &q->cli->allocator};
    q->meter = ig_meter_begin(&q->cli->term, q->cli->quiet, "quantize", "MiB", 1);
    const double began = ig_clock_seconds();
    const ig_status status = ig_quantize_model(o->in, o->out, &options, &q->result);
    q->seconds = ig_clock_seconds() - began;
    ig_run_stage(q->cli, "quantize", q->seconds * 1e3);
    if (status == IG_OK) ig_run_wrote(q->cli, "model", o->out);
    ig_meter_end(&q->meter, status == IG_OK ? q->meter.total : 0, "");
    IG_TRY(status);
    q->count = ig_conversion_result_count(q->result);
    return IG_OK;
}

/* ---- Results ---- */

/* Sums bytes and errors over all tensors. */
static ig_converted_tensor add_up(const quantization *q) {
    ig_converted_tensor all = {0};
    for (size_t i = 0; i < q->count; i++) {
        const ig_converted_tensor t = ig_conversion_result_tensor(q->result, i);
        all.n_bytes += t.n_bytes;
        all.square += t.square;
        all.error += t.error;
    }
    return all;
}

/* Squared error relative to the sum of squares. */
static double relative_error(const ig_converted_tensor *t) {
    return t->square > 0 ? t->error / t->square : 0;
}

static void print_tensors(const quantization *q) {
    printf("%-40s  %-6s  %-6s  %10s  %12s  %8s\n", "tensor", "from", "to", "size", "squared error",
           "relative");
    for (size_t i = 0; i < q->count; i++) {
        const ig_converted_tensor t = ig_conversion_result_tensor(q->result, i);
        char name[96], size[IG_UNIT_TEXT_BYTES];
        printf("%-40s  %-6s  %-6s  %10s  %12.4g  %8.2g\n", ig_text_safe(t.name, name, sizeof name),
               ig_dtype_name(t.from), ig_dtype_name(t.desc.dtype), ig_bytes_text(t.n_bytes, size),
               t.error, relative_error(&t));
    }
}

static ig_status print_summary(const quantization *q) {
    const ig_converted_tensor all = add_up(q);
    uint64_t elements = 0;
    for (size_t i = 0; i < q->count; i++)
        elements += (uint64_t)ig_shape_count(ig_conversion_result_tensor(q->result, i).desc.shape);
    char path[512], before[IG_UNIT_TEXT_BYTES], after[IG_UNIT_TEXT_BYTES];
    if (q->cli->verbose) print_tensors(q);
    printf("%s: %s, %s of weights (%.2f bits per weight), from %s; relative squared error %.2g\n",
           ig_text_safe(q->options->out, path, sizeof path), ig_conversion_result_type(q->result),
           ig_bytes_text(all.n_bytes, after),
           elements ? 8 * (double)all.n_bytes / (double)elements : 0,
           ig_bytes_text(ig_conversion_result_bytes_before(q->result), before),
           relative_error(&all));
    return IG_OK;
}

static ig_status print_json(const quantization *q) {
    const ig_converted_tensor all = add_up(q);
    json_t *tensors = json_array();
    for (size_t i = 0; i < q->count; i++) {
        const ig_converted_tensor t = ig_conversion_result_tensor(q->result, i);
        json_array_append_new(
            tensors,
            json_pack("{s:o, s:s, s:s, s:I, s:o, s:o}", "name", ig_json_text(t.name), "from",
                      ig_dtype_name(t.from), "to", ig_dtype_name(t.desc.dtype), "bytes",
                      (json_int_t)t.n_bytes, "squared_error", ig_json_real(t.error),
                      "relative_squared_error", ig_json_real(relative_error(&t))));
    }
    return ig_run_result(q->cli,
                         json_pack("{s:s, s:o, s:o, s:s, s:I, s:I, s:o, s:o, s:o}", "schema",
                                   "ingot.quantize.v1", "in", ig_json_text(q->options->in), "out",
                                   ig_json_text(q->options->out), "type",
                                   ig_conversion_result_type(q->result), "bytes_before",
                                   (json_int_t)ig_conversion_result_bytes_before(q->result),
                                   "weight_bytes", (json_int_t)all.n_bytes,
                                   "relative_squared_error", ig_json_real(relative_error(&all)),
                                   "seconds", ig_json_real(q->seconds), "tensors", tensors));
}

/* ---- The command ---- */

static ig_status run(ig_cli *cli, const void *options) {
    quantization q = {.cli = cli, .options = options};
    if (!ig_weight_type_resolve(q.options->type))
        return IG_FAIL(IG_ERR_ARGUMENT, "TYPE '%s': unknown weight type", q.options->type);
    IG_TRY(ig_cli_check_gguf_name(q.options->out));
    ig_signals_reading(q.options->in);
    ig_run_model(cli, q.options->in);
    ig_status status = quantize(&q);
    if (status == IG_OK) status = cli->json ? print_json(&q) : print_summary(&q);
    ig_conversion_result_destroy(q.result);
    return status;
}

static const ig_opt opts[] = {
    {OPT_TEXT, 0, "IN", offsetof(quantize_options, in), .help = "a GGUF model",
     .flags = OPT_POSITIONAL | OPT_REQUIRED | OPT_FILE},
    {OPT_TEXT, 0, "OUT", offsetof(quantize_options, out), .help = "the file to write",
     .flags = OPT_POSITIONAL | OPT_REQUIRED | OPT_FILE | OPT_OUTPUT},
    {OPT_TEXT, 0, "TYPE", offsetof(quantize_options, type), .help = "type of the weights",
     .suggestion = ig_weight_type_name, .flags = OPT_POSITIONAL | OPT_REQUIRED},
    {OPT_INT, 't', "threads", offsetof(quantize_options, threads),
     .help = "compute threads; 0: one per processor", .value = "N", .initial = "0", .low = 0,
     .high = 256},
    {0},
};

static const char *const examples[] = {
    "ingot quantize model-f16.gguf model.gguf Q4_K_M",
    "Mixed 4-bit weights, about a quarter of the size.",
    "ingot quantize model-f16.gguf model.gguf Q8_0 --verbose",
    "With a table of the error of each tensor.",
    NULL,
};

const ig_command cmd_quantize = {
    .name = "quantize",
    .summary = "quantize the weights of a GGUF model",
    .about =
        "Reads a GGUF model (any types, one file or split files) and writes one file with "
        "quantized matrices. Scales minimize the squared error.\n\nNorms, biases and other small "
        "tensors keep their type. The output matrix becomes Q6_K. The mixes (Q2_K, and names that "
        "end with _S, _M, _L or start with IQ4) give some layers of attn_v and ffn_down more bits, "
        "the same layers as llama.cpp; Q3_K, Q4_K and Q5_K are aliases of the _M mixes. MXFP4_MOE "
        "stores experts as MXFP4 and the rest as Q8_0. A row length that is not a multiple of the "
        "block size gets another type, with a warning.\n\nThe output file is replaced atomically.",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(quantize_options),
    .cancels = true,
    .run = run,
};
