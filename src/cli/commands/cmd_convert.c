/* ingot convert IN OUT - converts a model hub folder or a checkpoint; OUT's extension gives the
 * format. */
#include "cli/commands/cmd_convert.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/app/output.h"
#include "cli/app/progress.h"
#include "cli/app/report_file.h"
#include "cli/app/signals.h"
#include "ingot/convert.h"

typedef struct conversion {
    ig_cli *cli;
    const convert_options *options;
    ig_conversion_result *result;
    ig_meter meter;
    double seconds;
} conversion;

static void say(void *user, const char *text) {
    const conversion *c = user;
    char safe[512];
    ig_cli_say(c->cli, "%s", ig_text_safe(text, safe, sizeof safe));
}

static bool progress(void *user, const char *tensor, uint64_t done, uint64_t total) {
    conversion *c = user;
    c->meter.total = (total >> 20) + 1;
    ig_meter_update(&c->meter, done >> 20, tensor);
    return !ig_cli_cancelled(c->cli);
}

static uint64_t weight_bytes(const conversion *c) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < ig_conversion_result_count(c->result); i++)
        bytes += ig_conversion_result_tensor(c->result, i).n_bytes;
    return bytes;
}

static ig_status print_result(const conversion *c) {
    char path[512], size[IG_UNIT_TEXT_BYTES];
    const size_t count = ig_conversion_result_count(c->result);
    const char *arch = ig_conversion_result_arch(c->result);
    const char *type = ig_conversion_result_type(c->result);
    if (!c->cli->json) {
        printf("%s: %s, %s, %zu tensors, %s\n", ig_text_safe(c->options->out, path, sizeof path),
               arch, type, count, ig_bytes_text(weight_bytes(c), size));
        return IG_OK;
    }
    return ig_run_result(c->cli, json_pack("{s:s, s:o, s:o, s:s, s:s, s:I, s:I, s:o}", "schema",
                                           "ingot.convert.v1", "dir", ig_json_text(c->options->in),
                                           "out", ig_json_text(c->options->out), "architecture",
                                           arch, "type", type, "tensors", (json_int_t)count,
                                           "weight_bytes", (json_int_t)weight_bytes(c), "seconds",
                                           ig_json_real(c->seconds)));
}

static ig_status convert(conversion *c) {
    const convert_options *o = c->options;
    const ig_convert_options options = {.type = o->type,
                                        .pre_tokenizer = o->pre,
                                        .threads = (int)o->threads,
                                        .note = say,
                                        .progress = progress,
                                        .user = c,
                                        .writing = ig_signals_writing,
                                        .allocator = &c->cli->allocator};
    c->meter = ig_meter_begin(&c->cli->term, c->cli->quiet, "convert", "MiB", 1);
    const double began = ig_clock_seconds();
    const ig_status status = ig_convert(o->in, o->out, &options, &c->result);
    c->seconds = ig_clock_seconds() - began;
    ig_run_stage(c->cli, "convert", c->seconds * 1e3);
    if (status == IG_OK) ig_run_wrote(c->cli, "model", o->out);
    ig_meter_end(&c->meter, status == IG_OK ? c->meter.total : 0, "");
    return status;
}

/* Refuses to overwrite files of the input folder. */
static ig_status check_folder(const char *dir, const char *out) {
    char parent[PATH_MAX] = ".";
    struct stat in, of, file;
    const char *slash = strrchr(out, '/'), *end = strrchr(out, '.');
    if (slash) snprintf(parent, sizeof parent, "%.*s", (int)(slash - out) + 1, out);
    if (stat(out, &file) != 0 || stat(dir, &in) != 0 || stat(parent, &of) != 0) return IG_OK;
    if (in.st_dev != of.st_dev || in.st_ino != of.st_ino) return IG_OK;
    if (end && strcmp(end, ".gguf") == 0) return IG_OK;
    return IG_FAIL(IG_ERR_ARGUMENT, "OUT %s: would overwrite an input file of %s", out, dir);
}

/* The extension of a path, such as ".gguf"; "": none. */
static const char *ending_of(const char *path) {
    const char *slash = strrchr(path, '/'), *end = strrchr(slash ? slash : path, '.');
    return end ? end : "";
}

static ig_status convert_to_gguf(ig_cli *cli, const convert_options *options) {
    conversion c = {.cli = cli, .options = options};
    if (!ig_weight_type_resolve(c.options->type))
        return IG_FAIL(IG_ERR_ARGUMENT, "--type %s: unknown weight type", c.options->type);
    IG_TRY(check_folder(c.options->in, c.options->out));
    ig_signals_reading(c.options->in);
    ig_run_model(cli, c.options->in);
    ig_status status = convert(&c);
    if (status == IG_OK) status = print_result(&c);
    ig_conversion_result_destroy(c.result);
    return status;
}

ig_status convert_run(ig_cli *cli, const void *options) {
    const convert_options *o = options;
    const char *ending = ending_of(o->out);
    if (access(o->in, F_OK) != 0) return IG_FAIL(IG_ERR_IO, "%s: %s", o->in, strerror(errno));
    if (strcmp(ending, ".oam") == 0) return convert_to_checkpoint(cli, o);
    if (strcmp(ending, ".gguf") == 0 || *ending == 0) return convert_to_gguf(cli, o);
    return IG_FAIL(IG_ERR_ARGUMENT,
                   "OUT %s: cannot write %s; name it .gguf, or .oam for a checkpoint's weights",
                   o->out, ending);
}

const ig_opt convert_opts[] = {
    {OPT_TEXT, 0, "IN", offsetof(convert_options, in),
     .help =
         "a Hugging Face model folder (config.json, tokenizer.json, .safetensors), or a checkpoint",
     .flags = OPT_POSITIONAL | OPT_REQUIRED | OPT_FILE},
    {OPT_TEXT, 0, "OUT", offsetof(convert_options, out),
     .help = "the file to write: .gguf, or .oam for a checkpoint's weights",
     .flags = OPT_POSITIONAL | OPT_REQUIRED | OPT_FILE | OPT_OUTPUT},
    {OPT_TEXT, 0, "type", offsetof(convert_options, type), .help = ".gguf: weight type",
     .value = "TYPE", .initial = "F16", .suggestion = ig_weight_type_name},
    {OPT_TEXT, 0, "pre", offsetof(convert_options, pre),
     .help = "pre-tokenizer name, if it is not recognized by its patterns", .value = "NAME"},
    {OPT_INT, 't', "threads", offsetof(convert_options, threads),
     .help = "compute threads; 0: one per processor", .value = "N", .initial = "0", .low = 0,
     .high = 256},
    {0},
};

static const char *const examples[] = {
    "ingot convert Qwen3-0.6B qwen3.gguf",
    "A Hugging Face model to GGUF, in F16.",
    "ingot convert Qwen3-0.6B qwen3.gguf --type Q8_0",
    "The same, quantized to Q8_0.",
    "ingot convert llm.oam llm.gguf --type F32",
    "A trained checkpoint to GGUF, for other programs.",
    "ingot convert llm.oam story.oam",
    "A third of the bytes: the weights without the optimizer state.",
    NULL,
};

const ig_command cmd_convert = {
    .name = "convert",
    .summary = "convert a safetensors folder or a checkpoint to GGUF",
    .about = "Reads a Hugging Face model folder: config.json, tokenizer.json and safetensors, "
             "in one file or in shards. Writes one GGUF file with hyperparameters, tokenizer, chat "
             "template and weights.\n\n"
             "Supported architectures: llama (with mistral), qwen2, qwen3, qwen3moe, "
             "gemma3, phi3, gpt2 and bert. Code in the folder is never run.\n\n"
             "An unknown key of config.json is an error that names it, because ignoring it could "
             "change what the model computes.\n\n"
             "A checkpoint of 'ingot train' becomes a llama (llm) or a gpt2 (gpt). With OUT.oam it "
             "becomes a checkpoint of its weights and tokenizer alone: training cannot resume from "
             "it. 'ingot export' is another name of this command.",
    .examples = examples,
    .opts = convert_opts,
    .options_bytes = sizeof(convert_options),
    .cancels = true,
    .run = convert_run,
};
