/*
 * Options that command lines of llama.cpp have and ours do not: people paste them.
 *
 * They are read as whole words before anybody takes them for letters (-fa is not
 * the file "a").  What is so here in any case is accepted; of the others the error
 * says what to do instead.  A command's own rows come first, so one that does know
 * such a word takes it.
 */
#include "cli/app/cli.h"

static const char *const attention[] = {"on", "off", "auto", "1", "0", NULL};

const ig_opt ig_foreign_opts[] = {
    {OPT_MOOT, 0, "flash-attn", .help = "attention is one pass over keys and values in any case",
     .alias = "fa", .choices = attention, .flags = OPT_HIDDEN},
    {OPT_MOOT, 0, "mmap", .help = "files are mapped, unless --no-mmap says otherwise",
     .flags = OPT_HIDDEN},
    {OPT_MOOT, 0, "cont-batching", .help = "rows that can go through a model together do",
     .alias = "cb", .flags = OPT_HIDDEN},
    {OPT_MOOT, 0, "offline", .help = "nothing is fetched in any case", .flags = OPT_HIDDEN},
    {OPT_REFUSED, 0, "hf-repo", .help = "nothing is downloaded here; give a file with -m",
     .alias = "hf hfr hf-file hff hf-token hft model-url mu", .flags = OPT_HIDDEN},
    {OPT_REFUSED, 0, "model-draft",
     .help = "there is no second model; 'generate' and 'chat' guess with --spec-ngram",
     .alias = "md", .flags = OPT_HIDDEN},
    {OPT_REFUSED, 0, "split-mode",
     .help = "a model runs whole on one device; --device says on which",
     .alias = "sm tensor-split ts main-gpu mg override-tensor ot cpu-moe cmoe n-cpu-moe ncmoe",
     .flags = OPT_HIDDEN},
    {OPT_REFUSED, 0, "parallel", .help = "one text is made at a time; leave it out", .alias = "np",
     .flags = OPT_HIDDEN},
    {OPT_REFUSED, 0, "numa", .help = "threads are not bound to nodes; start it with numactl",
     .flags = OPT_HIDDEN},
    {OPT_REFUSED, 0, "lora", .help = "adapters are not applied; merge it into the model first",
     .alias = "lora-scaled", .flags = OPT_HIDDEN},
    {OPT_REFUSED, 0, "grammar", .help = "a text cannot be held to a grammar; leave it out",
     .alias = "grammar-file json-schema", .flags = OPT_HIDDEN},
    {OPT_MOOT, 0, "jinja", .help = "templates are rendered in any case", .flags = OPT_HIDDEN},
    {OPT_REFUSED, 0, "mmproj", .help = "models read text alone; leave it out", .alias = "mm image",
     .flags = OPT_HIDDEN},
    {OPT_REFUSED, 0, "host", .help = "there is no server here; leave it out",
     .alias = "port api-key api-key-file", .flags = OPT_HIDDEN},
    {OPT_REFUSED, 0, "list-devices", .help = "'ingot devices' lists them", .flags = OPT_HIDDEN},
    {OPT_REFUSED, 0, "embedding", .help = "'ingot embed' makes vectors", .alias = "embeddings",
     .flags = OPT_HIDDEN},
    {0},
};
