/*
 * llama.cpp options that Ingot lacks, so that pasted command lines work or explain themselves.
 *
 * They are matched as words before the parser splits letters (-fa is not -f with the
 * value "a").  An option whose behavior Ingot always has is ignored; the others are
 * errors that name the alternative.  A command's own rows are searched first.
 */
#include "cli/app/cli.h"

static const char *const attention[] = {"on", "off", "auto", "1", "0", NULL};

const ig_opt ig_llama_opts[] = {
    {OPT_IGNORED, 0, "flash-attn", .help = "attention is always fused (flash attention)",
     .alias = "fa", .choices = attention, .flags = OPT_HIDDEN},
    {OPT_IGNORED, 0, "mmap", .help = "files are memory-mapped unless --no-mmap is given",
     .flags = OPT_HIDDEN},
    {OPT_IGNORED, 0, "cont-batching", .help = "sequences are always batched", .alias = "cb",
     .flags = OPT_HIDDEN},
    {OPT_IGNORED, 0, "offline", .help = "Ingot never downloads", .flags = OPT_HIDDEN},
    {OPT_REFUSED, 0, "hf-repo", .help = "Ingot does not download models; give a file with -m",
     .alias = "hf hfr hf-file hff hf-token hft model-url mu", .flags = OPT_HIDDEN},
    {OPT_REFUSED, 0, "model-draft",
     .help = "draft models are not supported; use --draft-ngram (n-gram speculative decoding)",
     .alias = "md", .flags = OPT_HIDDEN},
    {OPT_REFUSED, 0, "split-mode", .help = "a model runs on one device; choose it with --device",
     .alias = "sm tensor-split ts main-gpu mg override-tensor ot cpu-moe cmoe n-cpu-moe ncmoe",
     .flags = OPT_HIDDEN},
    {OPT_REFUSED, 0, "parallel", .help = "one sequence is generated at a time; leave it out",
     .alias = "np", .flags = OPT_HIDDEN},
    {OPT_REFUSED, 0, "numa", .help = "threads are not bound to NUMA nodes; use numactl",
     .flags = OPT_HIDDEN},
    {OPT_REFUSED, 0, "lora",
     .help = "LoRA adapters are not supported; merge them into the model first",
     .alias = "lora-scaled", .flags = OPT_HIDDEN},
    {OPT_REFUSED, 0, "grammar", .help = "grammars are not supported; leave it out",
     .alias = "grammar-file json-schema", .flags = OPT_HIDDEN},
    {OPT_IGNORED, 0, "jinja", .help = "chat templates are always rendered", .flags = OPT_HIDDEN},
    {OPT_REFUSED, 0, "mmproj", .help = "multimodal models are not supported; leave it out",
     .alias = "mm image", .flags = OPT_HIDDEN},
    {OPT_REFUSED, 0, "host", .help = "this command is no server; use 'ingot serve'",
     .alias = "port api-key api-key-file", .flags = OPT_HIDDEN},
    {OPT_REFUSED, 0, "list-devices", .help = "use 'ingot devices'", .flags = OPT_HIDDEN},
    {OPT_REFUSED, 0, "embedding", .help = "use 'ingot embed'", .alias = "embeddings",
     .flags = OPT_HIDDEN},
    {0},
};
