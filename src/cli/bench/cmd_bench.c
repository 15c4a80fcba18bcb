/*
 * ingot bench WHAT - how fast it is, each figure beside its yardstick.
 *
 * The subjects are one file each; this one has the command's row, and refuses
 * options that mean nothing to the subject.
 */
#include <string.h>

#include "cli/bench/cmd_bench.h"
#include "cli/commands/loaded_model.h"
#include "cli/app/output.h"

enum { TRAIN, OVERHEAD, CEILINGS, OPS, MODEL, ROUTES, SUBJECTS };

static const char *const names[] = {"train", "overhead", "ceilings", "ops",
                                    "model", "routes",   NULL};

static ig_status (*const subjects[SUBJECTS])(ig_cli *, const bench_options *) = {
    bench_train, bench_overhead, bench_ceilings, bench_ops_all, bench_model, bench_routes};

static ig_status refuse(const char *option, int subject) {
    return IG_FAIL(IG_ERR_ARGUMENT, "--%s: means nothing to 'bench %s'", option, names[subject]);
}

/* Which options were given that only some subjects know. */
static ig_status check(const bench_options *o, int subject) {
    enum { OF_TRAIN = 1 << TRAIN, OF_OPS = 1 << OPS, OF_MODEL = 1 << MODEL };
    enum { SIZED = 1 << TRAIN | 1 << ROUTES };
    const ig_workload_sizes *s = &o->sizes;
    const struct {
        const char *option;
        bool given;
        int subjects;
    } rows[] = {
        {"workload", o->workload, OF_TRAIN},
        {"mode", o->mode, OF_TRAIN},
        {"device", o->device, OF_TRAIN | OF_MODEL},
        {"dump", o->dump, OF_TRAIN},
        {"steps", o->steps != IG_UNSAID, OF_TRAIN | OF_MODEL},
        {"warmup", o->warmup, OF_TRAIN},
        {"seed", o->seed, OF_TRAIN},
        {"batch", s->batch, SIZED | OF_MODEL},
        {"d-model", s->width, SIZED},
        {"layers", s->layers, SIZED},
        {"ctx", o->ctx, SIZED | OF_MODEL},
        {"rows", o->rows, OF_MODEL},
        {"spec-ngram", o->guess_ngram, OF_MODEL},
        {"op", o->op, OF_OPS},
        {"model", o->model, OF_MODEL},
        {"n-prompt", o->n_prompt != IG_UNSAID, OF_MODEL},
        {"kv", o->cache, OF_MODEL},
        {"cache-type-v", o->cache_v, OF_MODEL},
        {"no-pack", o->no_pack, OF_MODEL},
        {"n-gpu-layers", o->gpu_layers, OF_MODEL},
        {"ubatch-size", o->chunk, OF_MODEL},
        {"threads-batch", o->threads_batch, OF_MODEL},
        {"runs", o->runs, ~OF_TRAIN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].given && !(rows[i].subjects & 1 << subject))
            return refuse(rows[i].option, subject);
    return IG_OK;
}

static ig_status run(ig_cli *cli, const void *options) {
    const bench_options *o = options;
    const char *subject = o->subject ? o->subject : o->model ? names[MODEL] : "";
    for (int i = 0; i < SUBJECTS; i++) {
        if (strcmp(subject, names[i]) != 0) continue;
        IG_TRY(check(o, i));
        bench_options own = *o;
        int count;
        if (o->ctx && i != MODEL)
            IG_TRY(bench_numbers("ctx", o->ctx, 1, 1000000, 1, &own.sizes.length, &count));
        return subjects[i](cli, &own);
    }
    static const char there_are[] = "train, overhead, ceilings, ops, routes, or give a --model";
    if (!*subject) return IG_FAIL(IG_ERR_ARGUMENT, "WHAT: is missing; say one of %s", there_are);
    return IG_FAIL(IG_ERR_ARGUMENT, "WHAT '%s': must be one of %s", subject, there_are);
}

static const ig_opt opts[] = {
    {OPT_TEXT, 0, "WHAT", offsetof(bench_options, subject),
     .help = "what to measure: training, the runtime's own cost, the machine, ops, a model, routes",
     .choices = names, .flags = OPT_POSITIONAL},
    {OPT_TEXT, 'm', "model", offsetof(bench_options, model),
     .help = "model: how fast it reads and writes, a .gguf or .oam file", .value = "FILE",
     .flags = OPT_FILE},
    {OPT_INT, 'p', "n-prompt", offsetof(bench_options, n_prompt),
     .help = "model: tokens of the prompt it reads; 512 if not said", .value = "N", .low = 0,
     .high = 1 << 24, .flags = OPT_UNSAID},
    {OPT_TEXT, 0, "rows", offsetof(bench_options, rows),
     .help = "model: texts that grow together, a number or several with commas; 1 if not said",
     .value = "N"},
    {OPT_INT, 0, "spec-ngram", offsetof(bench_options, guess_ngram),
     .help = "model: also write a text, guessing by its last N tokens how it goes on", .value = "N",
     .low = 0, .high = 64},
    {OPT_FLAG, 0, "no-pack", offsetof(bench_options, no_pack),
     .help = "model: use weights as the file has them"},
    {OPT_TEXT, 0, "kv", offsetof(bench_options, cache),
     .help = "model: what keys and values are kept as; f16 if not said", .value = "TYPE",
     .alias = "cache-type cache-type-k ctk", .choices = model_caches},
    {OPT_TEXT, 0, "cache-type-v", offsetof(bench_options, cache_v),
     .help = "model: the same for values alone", .value = "TYPE", .alias = "ctv",
     .choices = model_caches},
    {OPT_TEXT, 0, "n-gpu-layers", offsetof(bench_options, gpu_layers),
     .help = "model: 0: compute on the CPU; else as --device says", .value = "N",
     .alias = "ngl gpu-layers"},
    {OPT_INT, 0, "ubatch-size", offsetof(bench_options, chunk),
     .help = "model: rows that go through at once", .value = "N", .alias = "ub", .low = 1,
     .high = 4096},
    {OPT_INT, 't', "threads", offsetof(bench_options, threads),
     .help = "how many threads compute; 0: as many as there are processors", .value = "N",
     .initial = "0", .env = "INGOT_THREADS", .low = 0, .high = 1024},
    {OPT_INT, 0, "threads-batch", offsetof(bench_options, threads_batch),
     .help = "model: the same, where --threads has no number", .value = "N", .alias = "tb",
     .low = 0, .high = 1024},
    {OPT_TEXT, 'w', "workload", offsetof(bench_options, workload),
     .help = "train: what to train; char-mlp if not said", .value = "NAME"},
    {OPT_TEXT, 0, "mode", offsetof(bench_options, mode),
     .help = "train: how steps are run; compiled if not said", .value = "MODE",
     .choices = bench_modes},
    {OPT_INT, 'b', "batch", offsetof(bench_options, sizes.batch),
     .help = "train, routes: samples of a step; model: the same as -ub, unless that says otherwise",
     .value = "N", .alias = "batch-size", .low = 1, .high = 1e6},
    {OPT_INT, 'n', "steps", offsetof(bench_options, steps),
     .help = "train: steps in all; model: tokens it makes, 128 if not said", .value = "N",
     .alias = "n-gen", .low = 0, .high = 1e9, .flags = OPT_UNSAID},
    {OPT_INT, 0, "warmup", offsetof(bench_options, warmup),
     .help = "train: how many of them run before the clock; a tenth if not said", .value = "N",
     .low = 1, .high = 1e9},
    {OPT_INT, 's', "seed", offsetof(bench_options, seed),
     .help = "train: where random numbers start", .value = "N", .low = 0, .high = 9e18},
    {OPT_INT, 0, "d-model", offsetof(bench_options, sizes.width),
     .help = "train, routes: width of tinyllm, gpt or llm", .value = "N", .low = 1, .high = 65536},
    {OPT_INT, 0, "layers", offsetof(bench_options, sizes.layers),
     .help = "train, routes: layers of tinyllm, gpt or llm", .value = "N", .low = 1, .high = 1000},
    {OPT_TEXT, 'c', "ctx", offsetof(bench_options, ctx),
     .help = "model: tokens that texts have when they begin to grow, a number or several with "
             "commas; train, routes: symbols of a sample of tinyllm, gpt or llm",
     .value = "N"},
    {OPT_TEXT, 0, "device", offsetof(bench_options, device), .help = "train: where to compute",
     .value = "NAME", .alias = "backend dev"},
    {OPT_TEXT, 0, "dump", offsetof(bench_options, dump),
     .help = "train: write initial weights and batches to a safetensors file first",
     .value = "FILE", .flags = OPT_FILE | OPT_OUTPUT},
    {OPT_TEXT, 0, "op", offsetof(bench_options, op), .help = "ops: only this one", .value = "NAME"},
    {OPT_INT, 'r', "runs", offsetof(bench_options, runs),
     .help = "overhead, ceilings, ops, model, routes: how often each is measured", .value = "N",
     .low = 1, .high = 1000},
    {0},
};

static const char *const examples[] = {
    "ingot bench train --workload char-mlp --steps 3000",
    "Samples a second, and what the runtime costs for each op.",
    "ingot bench train -w gpt --mode dynamic --json | jq .tokens_per_s",
    "A small transformer, op by op, for a program to read.",
    "ingot bench ceilings",
    "What the machine can do at most.",
    "ingot bench ops --op matmul",
    "Matmuls beside OpenBLAS and the machine's own rate.",
    "ingot bench routes",
    "One training step: op by op, replayed, and by hand.",
    "ingot bench -m model.gguf -p 512 -n 128 -r 5",
    "Tokens a second, of a prompt read and of a text written.",
    "ingot bench -m model.gguf -p 0 --rows 1,2,4,8,16 --ctx 0,4096,32768",
    "Of several texts at once, and of long ones.",
    NULL,
};

const ig_command cmd_bench = {
    .name = "bench",
    .summary = "measure training, the runtime's own cost, the machine, single ops, a model",
    .about =
        "Measures one of six things. train: samples a second of a workload, on the clock on "
        "the wall with batch assembly, and the runtime's cost for each op. overhead: what a "
        "builder call, a launch, a barrier and a submit cost. ceilings: read bandwidth, "
        "multiply-add rate and int8 rate of the machine. ops: matmuls against OpenBLAS, where "
        "the library is installed, and the other ops in bytes a second. model (or just -m): "
        "tokens a second of a prompt that is read and of tokens that are made one by one, with "
        "how much of the machine's own rates, measured in the same second, that is. "
        "routes: one training step, op by op, replayed, and written by hand.",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(bench_options),
    .cancels = true,
    .run = run,
};
