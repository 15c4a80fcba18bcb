/*
 * ingot bench WHAT - measures speed, each figure beside its roofline or peer.
 *
 * The subjects are one file each; this one has the command's row, and refuses
 * options that mean nothing to the subject.
 */
#include <string.h>

#include "cli/app/output.h"
#include "cli/bench/cmd_bench.h"
#include "cli/commands/loaded_model.h"

enum { TRAIN, OVERHEAD, ROOFLINE, OPS, MODEL, ROUTES, SERVE, SUBJECTS };

static const char *const names[] = {"train", "overhead", "roofline", "ops",
                                    "model", "routes",   "serve",    NULL};

static ig_status (*const subjects[SUBJECTS])(ig_cli *, const bench_options *) = {
    bench_train, bench_overhead, bench_roofline, bench_ops_all,
    bench_model, bench_routes,   bench_serve};

static ig_status refuse(const char *option, int subject) {
    return IG_FAIL(IG_ERR_ARGUMENT, "--%s: does not apply to 'bench %s'", option, names[subject]);
}

/* Checks that all given options apply to the subject. */
static ig_status check(const bench_options *o, int subject) {
    enum { OF_TRAIN = 1 << TRAIN, OF_OPS = 1 << OPS, OF_MODEL = 1 << MODEL, OF_SERVE = 1 << SERVE };
    enum { SIZED = 1 << TRAIN | 1 << ROUTES };
    const ig_workload_sizes *s = &o->sizes;
    const bench_serve_options *v = &o->serve;
    const struct {
        const char *option;
        bool given;
        int subjects;
    } rows[] = {
        {"workload", o->workload, OF_TRAIN},
        {"mode", o->mode, OF_TRAIN},
        {"device", o->device, OF_TRAIN | OF_MODEL},
        {"dump", o->dump, OF_TRAIN},
        {"steps", o->steps != IG_NOT_GIVEN, OF_TRAIN | OF_MODEL},
        {"warmup", o->warmup, OF_TRAIN},
        {"seed", o->seed, OF_TRAIN | OF_SERVE},
        {"batch", s->batch, SIZED | OF_MODEL},
        {"d-model", s->width, SIZED},
        {"layers", s->layers, SIZED},
        {"ctx", s->length, SIZED},
        {"n-depth", o->n_depth, OF_MODEL},
        {"parallel", o->n_sequences, OF_MODEL},
        {"draft-ngram", o->draft_ngram, OF_MODEL},
        {"op", o->op, OF_OPS},
        {"model", o->model, OF_MODEL | OF_SERVE},
        {"n-prompt", o->n_prompt != IG_NOT_GIVEN, OF_MODEL},
        {"kv", o->cache, OF_MODEL},
        {"cache-type-v", o->cache_v, OF_MODEL},
        {"no-pack", o->no_pack, OF_MODEL},
        {"n-gpu-layers", o->gpu_layers, OF_MODEL},
        {"ubatch-size", o->chunk, OF_MODEL},
        {"threads-batch", o->threads_batch, OF_MODEL},
        {"runs", o->runs, ~(OF_TRAIN | OF_SERVE)},
        {"url", v->url, OF_SERVE},
        {"clients", v->clients, OF_SERVE},
        {"requests", v->n_requests, OF_SERVE},
        {"rate", v->rate > 0, OF_SERVE},
        {"prompt-tokens", v->prompt_tokens, OF_SERVE},
        {"max-tokens", v->max_tokens, OF_SERVE},
        {"shared-prefix", v->shared_prefix, OF_SERVE},
        {"check", v->check, OF_SERVE},
        {"stall-prompt", v->stall_prompt, OF_SERVE},
        {"chat", v->chat, OF_SERVE},
        {"idle", v->n_idle, OF_SERVE},
        {"pid", v->pid, OF_SERVE},
        {"api-key-file", v->key_file, OF_SERVE},
        {"duration", v->duration > 0, OF_SERVE},
        {"timeout", v->timeout > 0, OF_SERVE},
        {"svg", v->svg, OF_SERVE},
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
        return subjects[i](cli, o);
    }
    static const char there_are[] =
        "train, overhead, roofline, ops, routes, serve, or give a --model";
    if (!*subject) return IG_FAIL(IG_ERR_ARGUMENT, "WHAT is required: one of %s", there_are);
    return IG_FAIL(IG_ERR_ARGUMENT, "WHAT '%s': expected one of %s", subject, there_are);
}

static const ig_opt opts[] = {
    {OPT_TEXT, 0, "WHAT", offsetof(bench_options, subject), .help = "what to measure",
     .choices = names, .flags = OPT_POSITIONAL},
    {OPT_TEXT, 'm', "model", offsetof(bench_options, model),
     .help = "model: the .gguf or .oam file to measure; serve: the model's name", .value = "FILE",
     .flags = OPT_FIRST | OPT_FILE},
    {OPT_INT, 'p', "n-prompt", offsetof(bench_options, n_prompt), .help = "model: prompt tokens",
     .default_help = "512", .value = "N", .low = 0, .high = 1 << 24,
     .flags = OPT_FIRST | OPT_NO_DEFAULT},
    {OPT_TEXT, 0, "parallel", offsetof(bench_options, n_sequences),
     .help = "model: decode batch sizes, one or several separated by commas", .default_help = "1",
     .value = "N", .alias = "np", .flags = OPT_FIRST},
    {OPT_INT, 0, "draft-ngram", offsetof(bench_options, draft_ngram),
     .help = "model: also generate with n-gram speculative decoding over the last N tokens",
     .value = "N", .low = 0, .high = 64},
    {OPT_FLAG, 0, "no-pack", offsetof(bench_options, no_pack),
     .help = "model: do not repack weights"},
    {OPT_TEXT, 0, "kv", offsetof(bench_options, cache), .help = "model: KV cache data type",
     .default_help = "f16", .value = "TYPE", .alias = "cache-type cache-type-k ctk",
     .choices = model_caches},
    {OPT_TEXT, 0, "cache-type-v", offsetof(bench_options, cache_v),
     .help = "model: KV cache data type of the values", .default_help = "--kv", .value = "TYPE",
     .alias = "ctv", .choices = model_caches},
    {OPT_TEXT, 0, "n-gpu-layers", offsetof(bench_options, gpu_layers),
     .help = "model: 0: run on the CPU; any other value: --device decides", .value = "N",
     .alias = "ngl gpu-layers"},
    {OPT_INT, 0, "ubatch-size", offsetof(bench_options, chunk),
     .help = "model: micro-batch: tokens per prefill chunk", .default_help = "128", .value = "N",
     .alias = "ub", .low = 1, .high = 4096},
    {OPT_INT, 't', "threads", offsetof(bench_options, threads),
     .help = "compute threads; 0: one per processor", .value = "N", .initial = "0",
     .env = "INGOT_THREADS", .low = 0, .high = 1024, .flags = OPT_FIRST},
    {OPT_INT, 0, "threads-batch", offsetof(bench_options, threads_batch),
     .help = "model: alias of --threads", .value = "N", .alias = "tb", .low = 0, .high = 1024},
    {OPT_TEXT, 'w', "workload", offsetof(bench_options, workload), .help = "train: the workload",
     .default_help = "char-mlp", .value = "NAME", .flags = OPT_FIRST},
    {OPT_TEXT, 0, "mode", offsetof(bench_options, mode), .help = "train: grad mode",
     .default_help = "compiled", .value = "MODE", .choices = bench_modes},
    {OPT_INT, 'b', "batch", offsetof(bench_options, sizes.batch),
     .help = "train, routes: samples per step; model: alias of --ubatch-size", .value = "N",
     .alias = "batch-size", .low = 1, .high = 1e6, .flags = OPT_FIRST},
    {OPT_INT, 'n', "steps", offsetof(bench_options, steps),
     .help = "train: total steps; model: generated tokens", .default_help = "128", .value = "N",
     .alias = "n-gen", .low = 0, .high = 1e9, .flags = OPT_FIRST | OPT_NO_DEFAULT},
    {OPT_INT, 0, "warmup", offsetof(bench_options, warmup),
     .help = "train: warmup steps outside the measurement", .default_help = "a tenth of the steps",
     .value = "N", .low = 1, .high = 1e9},
    {OPT_INT, 's', "seed", offsetof(bench_options, seed), .help = "train, serve: RNG seed",
     .value = "N", .low = 0, .high = 9e18},
    {OPT_INT, 0, "d-model", offsetof(bench_options, sizes.width),
     .help = "train, routes: hidden size of tinyllm, gpt or llm", .value = "N", .low = 1,
     .high = 65536},
    {OPT_INT, 0, "layers", offsetof(bench_options, sizes.layers),
     .help = "train, routes: layers of tinyllm, gpt or llm", .value = "N", .low = 1, .high = 1000},
    {OPT_TEXT, 'd', "n-depth", offsetof(bench_options, n_depth),
     .help = "model: tokens in the KV cache before decoding, one or several separated by commas",
     .default_help = "0", .value = "N", .flags = OPT_FIRST},
    {OPT_INT, 'c', "ctx", offsetof(bench_options, sizes.length),
     .help = "train, routes: context length of tinyllm, gpt or llm", .value = "N", .low = 1,
     .high = 1e6},
    {OPT_TEXT, 0, "device", offsetof(bench_options, device),
     .help = "train, model: device to run on", .value = "NAME", .alias = "backend dev",
     .flags = OPT_FIRST},
    {OPT_TEXT, 0, "dump", offsetof(bench_options, dump),
     .help = "train: write initial weights and batches to a safetensors file first",
     .value = "FILE", .flags = OPT_FILE | OPT_OUTPUT},
    {OPT_TEXT, 0, "op", offsetof(bench_options, op), .help = "ops: only this one", .value = "NAME"},
    {OPT_INT, 'r', "runs", offsetof(bench_options, runs),
     .help = "overhead, roofline, ops, model, routes: repetitions of each measurement",
     .value = "N", .low = 1, .high = 1000, .flags = OPT_FIRST},
    {OPT_TABLE, .to = offsetof(bench_options, serve), .table = bench_serve_opts},
    {0},
};

static const char *const examples[] = {
    "ingot bench train --workload char-mlp --steps 3000",
    "Samples per second, and the runtime's cost per op.",
    "ingot bench train -w gpt --mode dynamic --json | jq .tokens_per_s",
    "A small transformer in Dynamic mode, as JSON.",
    "ingot bench roofline",
    "The peak rates of this machine.",
    "ingot bench ops --op matmul",
    "Matmuls compared with OpenBLAS and with the machine's roofline.",
    "ingot bench routes",
    "One training step on the easy, replay and production routes.",
    "ingot bench -m model.gguf -p 512 -n 128 -r 5",
    "Prefill and decode tokens per second.",
    "ingot bench -m model.gguf -p 0 -np 1,2,4,8,16 -d 0,4096,32768",
    "Batched decoding, and decoding after a long context.",
    "ingot bench serve --url http://127.0.0.1:8080 --clients 1,4,16,32 --svg load.svg",
    "Latency and tokens per second of a server with several clients at once.",
    "ingot bench serve --url http://127.0.0.1:8080 --clients 16 --check",
    "Fails if a reply differs from the one that the same prompt gets alone.",
    NULL,
};

const ig_command cmd_bench = {
    .name = "bench",
    .summary = "measure a model, a server, training, single ops, runtime overhead or the machine",
    .about = "Measures one of seven subjects.\n\nmodel (or just -m): prefill and decode tokens per "
             "second, each with its share of the machine's rooflines, which are measured in the "
             "same run. train: samples per second of a workload in wall time, batch assembly "
             "included, and the runtime's overhead per op. ops: matmuls against OpenBLAS, if that "
             "library is installed, and the other ops in bytes per second. overhead: the cost of a "
             "builder call, a launch, a barrier and a submit. roofline: read bandwidth, FP32 "
             "multiply-add rate and int8 dot product rate of the machine. routes: one training "
             "step on the easy, replay and production routes. serve: sends load to an "
             "OpenAI-compatible server of this machine and no other: time to first token, "
             "inter-token latency, the worst stall of a stream and tokens per second, by number "
             "of clients.",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(bench_options),
    .cancels = true,
    .run = run,
};
