/* ingot convert DIR OUT - a folder from a model hub, or a checkpoint, to one GGUF file. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/app/cli.h"
#include "cli/app/output.h"
#include "cli/app/progress.h"
#include "cli/app/report_file.h"
#include "cli/app/signals.h"
#include "model/convert/convert.h"

typedef struct convert_options {
    const char *dir, *out, *type, *pre;
    int64_t threads;
} convert_options;

typedef struct conversion {
    ig_cli *cli;
    const convert_options *options;
    const ig_recipe *recipe;
    ig_conversion *model;
    ig_produced *results;
    ig_meter meter;
    double seconds;
} conversion;

static void say(void *user, const char *text) {
    char safe[512];
    ig_cli_say(user, "%s", ig_text_safe(text, safe, sizeof safe));
}

static bool progress(void *user, const ig_product *product, uint64_t done, uint64_t total) {
    conversion *c = user;
    c->meter.total = (total >> 20) + 1;
    ig_meter_update(&c->meter, done >> 20, product->name);
    return ig_cli_cancelled(c->cli);
}

static uint64_t weight_bytes(const conversion *c) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < ig_conversion_count(c->model); i++) bytes += c->results[i].n_bytes;
    return bytes;
}

static ig_status print_result(const conversion *c) {
    char path[512], size[IG_UNIT_TEXT_BYTES];
    const size_t count = ig_conversion_count(c->model);
    if (!c->cli->json) {
        printf("%s: %s, %s, %zu tensors, %s\n", ig_text_safe(c->options->out, path, sizeof path),
               ig_conversion_arch(c->model), c->recipe->name, count,
               ig_bytes_text(weight_bytes(c), size));
        return IG_OK;
    }
    return ig_run_result(c->cli,
                         json_pack("{s:s, s:o, s:o, s:s, s:s, s:I, s:I, s:o}", "schema",
                                   "ingot.convert.v1", "dir", ig_json_text(c->options->dir), "out",
                                   ig_json_text(c->options->out), "architecture",
                                   ig_conversion_arch(c->model), "type", c->recipe->name, "tensors",
                                   (json_int_t)count, "weight_bytes", (json_int_t)weight_bytes(c),
                                   "seconds", ig_json_real(c->seconds)));
}

static ig_status write_model(conversion *c) {
    const ig_allocator *a = &c->cli->allocator;
    c->results = ig_alloc(a, ig_conversion_count(c->model), sizeof *c->results);
    if (!c->results) return IG_FAIL(IG_ERR_MEMORY, "%s: no memory", c->options->dir);
    c->meter = ig_meter_begin(&c->cli->term, c->cli->quiet, "convert", "MiB", 1);
    const double began = ig_clock_seconds();
    const ig_produce_options options = {.threads = (uint32_t)c->options->threads,
                                        .stop = progress,
                                        .user = c,
                                        .writing = ig_signals_writing};
    const ig_status status =
        ig_conversion_write(c->model, c->options->out, c->recipe, &options, c->results);
    c->seconds = ig_clock_seconds() - began;
    ig_run_stage(c->cli, "convert", c->seconds * 1e3);
    if (status == IG_OK) ig_run_wrote(c->cli, "model", c->options->out);
    ig_meter_end(&c->meter, status == IG_OK ? c->meter.total : 0, "");
    return status;
}

/* Files of the folder that is read are left alone. */
static ig_status check_folder(const char *dir, const char *out) {
    char parent[PATH_MAX] = ".";
    struct stat in, of, file;
    const char *slash = strrchr(out, '/'), *end = strrchr(out, '.');
    if (slash) snprintf(parent, sizeof parent, "%.*s", (int)(slash - out) + 1, out);
    if (stat(out, &file) != 0 || stat(dir, &in) != 0 || stat(parent, &of) != 0) return IG_OK;
    if (in.st_dev != of.st_dev || in.st_ino != of.st_ino) return IG_OK;
    if (end && strcmp(end, ".gguf") == 0) return IG_OK;
    return IG_FAIL(IG_ERR_ARGUMENT, "OUT %s: would replace a file of %s, which is read", out, dir);
}

static ig_status run(ig_cli *cli, const void *options) {
    conversion c = {.cli = cli, .options = options};
    c.recipe = ig_recipe_find(c.options->type);
    if (!c.recipe)
        return IG_FAIL(IG_ERR_ARGUMENT, "--type %s: no such type of weights", c.options->type);
    IG_TRY(ig_cli_check_gguf_name(c.options->out));
    IG_TRY(check_folder(c.options->dir, c.options->out));
    const ig_convert_options how = {.pre = c.options->pre, .say = say, .user = cli};
    ig_signals_reading(c.options->dir);
    ig_run_model(cli, c.options->dir);
    IG_TRY(ig_conversion_open(&cli->allocator, c.options->dir, &how, &c.model));
    ig_status status = write_model(&c);
    if (status == IG_OK) status = print_result(&c);
    ig_free(&cli->allocator, c.results);
    ig_conversion_close(c.model);
    return status;
}

static const ig_opt opts[] = {
    {OPT_TEXT, 0, "DIR", offsetof(convert_options, dir),
     .help = "a folder with config.json, tokenizer.json and .safetensors files, or a checkpoint",
     .flags = OPT_POSITIONAL | OPT_REQUIRED | OPT_FILE},
    {OPT_TEXT, 0, "OUT", offsetof(convert_options, out), .help = "the GGUF file to write",
     .flags = OPT_POSITIONAL | OPT_REQUIRED | OPT_FILE | OPT_OUTPUT},
    {OPT_TEXT, 0, "type", offsetof(convert_options, type), .help = "what the weights become",
     .value = "TYPE", .initial = "F16", .choices = ig_recipe_names},
    {OPT_TEXT, 0, "pre", offsetof(convert_options, pre),
     .help = "name of the pre-tokenizer, where it is not known by its patterns", .value = "NAME"},
    {OPT_INT, 't', "threads", offsetof(convert_options, threads),
     .help = "how many threads compute; 0: as many as there are processors", .value = "N",
     .initial = "0", .low = 0, .high = 256},
    {0},
};

static const char *const examples[] = {
    "ingot convert Qwen3-0.6B qwen3.gguf",
    "A model as hubs have it, in F16.",
    "ingot convert Qwen3-0.6B qwen3.gguf --type Q8_0",
    "The same, quantised on the way.",
    "ingot convert llm.oam llm.gguf --type F32",
    "What 'ingot train' has made, for other programs.",
    NULL,
};

const ig_command cmd_convert = {
    .name = "convert",
    .summary = "make a GGUF file of a folder with safetensors, or of a checkpoint",
    .about = "Reads a folder as model hubs have it: config.json, tokenizer.json and safetensors, "
             "in one file or in shards. Writes one GGUF file with the weights, the vocabulary and "
             "all that is needed to run the model.\n\n"
             "Converted are the architectures llama (with mistral), qwen2, qwen3, qwen3moe, "
             "gemma3, phi3, gpt2 and bert. Code that a folder may have is never run.\n\n"
             "A checkpoint of 'ingot train' becomes a llama (llm) or a gpt2 (gpt).",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(convert_options),
    .cancels = true,
    .run = run,
};
