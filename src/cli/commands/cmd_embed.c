/* ingot embed - embeddings of texts. */
#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/app/output.h"
#include "cli/app/report_file.h"
#include "cli/commands/loaded_model.h"

typedef struct embed_options {
    model_options model;
    const char *prompt, *file;
    int pooling;
    bool lines;
} embed_options;

typedef struct embedder {
    loaded_model model;
    const embed_options *options;
    model_text text;
    float *vector;
    int64_t width;
    json_t *list; /* of all vectors, for --json */
} embedder;

static const char *const poolings[] = {"file", "mean", "cls", "last", NULL};

static void print_vector(const embedder *e, int64_t tokens) {
    for (int64_t i = 0; tokens > 0 && i < e->width; i++)
        printf("%s%.7g", i ? " " : "", (double)e->vector[i]);
    putchar('\n');
}

static void keep_vector(const embedder *e, int64_t tokens) {
    json_t *numbers = tokens > 0 ? json_array() : json_null();
    for (int64_t i = 0; tokens > 0 && i < e->width; i++)
        json_array_append_new(numbers, ig_json_real((double)e->vector[i]));
    json_array_append_new(e->list, json_pack("{s:I, s:I, s:o}", "index",
                                             (json_int_t)json_array_size(e->list), "tokens",
                                             (json_int_t)tokens, "embedding", numbers));
}

/* Prints an empty line, or null: a text without tokens has no embedding. */
static void tell_vector(const embedder *e, int64_t tokens) {
    if (e->list)
        keep_vector(e, tokens);
    else
        print_vector(e, tokens);
}

static ig_status embed_one(embedder *e, const char *text, size_t bytes) {
    int64_t tokens = 0;
    if (ig_cli_cancelled(e->model.cli)) return IG_FAIL(IG_ERR_CANCELLED, "stopped");
    IG_TRY(ig_session_embed(e->model.session, text, bytes, (ig_pooling)e->options->pooling,
                            e->vector, &tokens));
    tell_vector(e, tokens);
    return IG_OK;
}

/* Embeds the whole text, or each line of it. Empty lines have no embedding but keep their index,
 * so that line numbers and embeddings correspond. */
static ig_status embed_all(embedder *e) {
    const char *at = e->text.bytes, *end = at + e->text.n_bytes;
    if (!e->options->lines) return embed_one(e, at, e->text.n_bytes);
    long long line = 1, empty = 0, first = 0;
    for (; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        const size_t bytes = (size_t)(stop - at) - (stop > at && stop[-1] == '\r');
        if (bytes > 0) {
            IG_TRY(embed_one(e, at, bytes));
        } else {
            tell_vector(e, 0);
            if (empty++ == 0) first = line;
        }
        at = stop + 1;
    }
    if (empty > 0)
        ig_cli_say(e->model.cli, "%lld empty line%s skipped, the first is line %lld", empty,
                   empty > 1 ? "s" : "", first);
    return IG_OK;
}

/* Warns about options without effect: an encoder needs the whole text at once, has no KV cache and
 * runs op by op. */
static void warn_ignored(const embedder *e) {
    const model_options *o = &e->options->model;
    const struct {
        bool given;
        const char *name;
    } ignored[] = {
        {o->chunk > 0, "ubatch-size"}, {o->batch > 0, "batch-size"}, {o->cache, "kv"},
        {o->cache_k, "cache-type-k"},  {o->cache_v, "cache-type-v"}, {o->no_pack, "no-pack"}};
    if (ig_adapter_can_generate(e->model.adapter)) return;
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
        if (ignored[i].given)
            ig_cli_say(e->model.cli, "--%s: no effect, because %s is an encoder", ignored[i].name,
                       ig_adapter_architecture(e->model.adapter));
}

static ig_status work(embedder *e) {
    ig_cli *cli = e->model.cli;
    const embed_options *o = e->options;
    e->width = ig_adapter_config(e->model.adapter).d_model;
    e->vector = ig_alloc(&cli->allocator, (size_t)e->width, sizeof *e->vector);
    if (!e->vector) return IG_FAIL(IG_ERR_MEMORY, "embed: %lld numbers", (long long)e->width);
    warn_ignored(e);
    IG_TRY(model_hidden_session(&e->model));
    if (cli->json) e->list = json_array();
    IG_TRY(model_read_text(cli, o->prompt, o->file, MODEL_TEXT_MOST, &e->text));
    IG_TRY(model_check_text(&e->model, e->text));
    IG_TRY(embed_all(e));
    if (!cli->json) return IG_OK;
    return ig_run_result(e->model.cli, json_pack("{s:s, s:s, s:I, s:O}", "schema", "ingot.embed.v1",
                                                 "pooling", poolings[o->pooling], "d_model",
                                                 (json_int_t)e->width, "data", e->list));
}

static ig_status run(ig_cli *cli, const void *options) {
    embedder e = {.options = options};
    ig_status status = loaded_model_open(cli, &e.options->model, &e.model);
    if (status == IG_OK) status = work(&e);
    loaded_model_close(&e.model);
    json_decref(e.list);
    ig_free(&cli->allocator, e.vector);
    ig_free(&cli->allocator, e.text.bytes);
    return status;
}

#define OPTION(member) offsetof(embed_options, member)

static const ig_opt opts[] = {
    {OPT_TEXT, 'p', "prompt", OPTION(prompt), .help = "the text", .value = "TEXT",
     .flags = OPT_FIRST},
    {OPT_TEXT, 'f', "file", OPTION(file), .help = "read the text from a file; -: standard input",
     .value = "FILE", .flags = OPT_FIRST | OPT_FILE},
    {OPT_FLAG, 0, "lines", OPTION(lines),
     .help = "embed each line separately; an empty line has no vector but keeps its index",
     .flags = OPT_FIRST},
    {OPT_CHOICE, 0, "pooling", OPTION(pooling),
     .help = "pooling of the token vectors; file: the model's own (without one: mean for BERT, "
             "last otherwise)",
     .value = "HOW", .initial = "file", .choices = poolings, .flags = OPT_FIRST},
    {OPT_IGNORED, 0, "embedding", .help = "embeddings are always computed", .alias = "embeddings",
     .flags = OPT_HIDDEN},
    {OPT_TABLE, .to = OPTION(model), .table = model_file_opts},
    {OPT_TABLE, .to = OPTION(model), .table = model_opts},
    {0},
};

static const char *const examples[] = {
    "ingot embed -m bert.gguf -p 'A text about fish'",
    "The embedding, normalized to length 1.",
    "ingot embed -m bert.gguf -f lines.txt --lines --json | jq '.data[0].embedding'",
    "One vector per line of a file.",
    NULL,
};

const ig_command cmd_embed = {
    .name = "embed",
    .summary = "compute text embeddings",
    .about = "Runs a text through a model and prints its embedding: the hidden states of its "
             "tokens, pooled into one vector of length 1. BERT models are made for this. They are "
             "encoders, so --ubatch-size, --batch-size, --kv, --cache-type-k, --cache-type-v and "
             "--no-pack have no effect on them. A decoder processes the text like a prompt.",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(embed_options),
    .cancels = true,
    .run = run,
};
