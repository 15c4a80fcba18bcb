/* ingot logits - the most likely next tokens after a text. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/app/output.h"
#include "cli/app/report_file.h"
#include "cli/commands/loaded_model.h"

enum { MOST_TOP = 1000 };

typedef struct logits_options {
    model_options model;
    const char *prompt, *file, *ids;
    int64_t top;
} logits_options;

typedef struct logits_run {
    loaded_model model;
    const logits_options *options;
    model_text text;
    ig_tokens tokens;
    float *logits;
} logits_run;

/* "12 7 98" or "12,7,98": a prompt as token ids. */
static ig_status parse_ids(logits_run *q, const char *text) {
    const int64_t vocabulary = ig_adapter_vocab_size(q->model.adapter);
    q->tokens.allocator = &q->model.cli->allocator;
    for (const char *at = text; *at;) {
        char *end;
        const long long id = strtoll(at, &end, 10);
        if (end == at) return IG_FAIL(IG_ERR_ARGUMENT, "--ids: '%.20s' is not a token id", at);
        if (id < 0 || id >= vocabulary)
            return IG_FAIL(IG_ERR_ARGUMENT,
                           "--ids: token %lld is out of range (vocabulary of %lld)", id,
                           (long long)vocabulary);
        IG_TRY(ig_tokens_add(&q->tokens, (int32_t)id));
        at = end + strspn(end, " \t\n");
        if (*at != ',') continue;
        at += 1 + strspn(at + 1, " \t\n");
        if (!*at) return IG_FAIL(IG_ERR_ARGUMENT, "--ids '%.60s': ends with a comma", text);
    }
    return IG_OK;
}

static ig_status find_tokens(logits_run *q) {
    const logits_options *o = q->options;
    if (o->ids && (o->prompt || o->file))
        return IG_FAIL(IG_ERR_ARGUMENT, "--ids, --prompt: give only one of them");
    if (o->ids) {
        IG_TRY(parse_ids(q, o->ids));
    } else {
        IG_TRY(model_read_text(q->model.cli, o->prompt, o->file, MODEL_TEXT_MOST, &q->text));
        IG_TRY(model_tokenize(&q->model, q->text, &q->tokens));
    }
    if (q->tokens.count > 0) return IG_OK;
    return IG_FAIL(IG_ERR_ARGUMENT, "the prompt has no tokens");
}

static ig_status ask(logits_run *q) {
    const int64_t vocabulary = ig_adapter_vocab_size(q->model.adapter);
    IG_TRY(find_tokens(q));
    IG_TRY(model_session(&q->model, (int64_t)q->tokens.count, 1));
    q->logits = ig_alloc(&q->model.cli->allocator, (size_t)vocabulary, sizeof *q->logits);
    if (!q->logits) return IG_FAIL(IG_ERR_MEMORY, "logits of %lld tokens", (long long)vocabulary);
    return loaded_model_prefill(&q->model, &q->tokens, q->logits);
}

/* ---- results ---- */

static ig_status print_json(const logits_run *q) {
    const int64_t vocabulary = ig_adapter_vocab_size(q->model.adapter);
    json_t *tokens = json_array(), *logits = json_array();
    for (size_t i = 0; i < q->tokens.count; i++)
        json_array_append_new(tokens, json_integer(q->tokens.at[i]));
    for (int64_t i = 0; i < vocabulary; i++)
        json_array_append_new(logits, ig_json_real((double)q->logits[i]));
    return ig_run_result(q->model.cli,
                         json_pack("{s:s, s:o, s:s, s:o, s:o}", "schema", "ingot.logits.v1",
                                   "model", ig_json_text(q->model.path), "arch",
                                   ig_adapter_architecture(q->model.adapter), "tokens", tokens,
                                   "logits", logits));
}

static ig_status print_table(const logits_run *q) {
    ig_logprob top[MOST_TOP];
    const size_t n = ig_logits_top(q->logits, ig_adapter_vocab_size(q->model.adapter), top,
                                   (size_t)q->options->top);
    printf("  %8s %10s %9s  %s\n", "token", "logit", "share", "text");
    for (size_t i = 0; i < n; i++) {
        char text[64], safe[64];
        const size_t bytes = ig_detokenize(ig_adapter_tokenizer(q->model.adapter), &top[i].token, 1,
                                           0, text, sizeof text - 1);
        text[bytes < sizeof text - 1 ? bytes : sizeof text - 1] = 0;
        printf("  %8d %10.4f %7.3f %%  %s\n", top[i].token, (double)q->logits[top[i].token],
               100 * exp(top[i].logprob), ig_text_safe(text, safe, sizeof safe));
    }
    return IG_OK;
}

static ig_status run(ig_cli *cli, const void *options) {
    logits_run q = {.options = options};
    ig_status status = loaded_model_open(cli, &q.options->model, &q.model);
    if (status == IG_OK) status = ask(&q);
    if (status == IG_OK) status = cli->json ? print_json(&q) : print_table(&q);
    loaded_model_close(&q.model);
    ig_free(&cli->allocator, q.logits);
    ig_tokens_deinit(&q.tokens);
    ig_free(&cli->allocator, q.text.bytes);
    return status;
}

#define OPTION(member) offsetof(logits_options, member)

static const ig_opt opts[] = {
    {OPT_TEXT, 'p', "prompt", OPTION(prompt), .help = "the text", .value = "TEXT",
     .flags = OPT_FIRST},
    {OPT_TEXT, 'f', "file", OPTION(file), .help = "read the text from a file; -: standard input",
     .value = "FILE", .flags = OPT_FIRST | OPT_FILE},
    {OPT_TEXT, 0, "ids", OPTION(ids), .help = "the prompt as token ids instead", .value = "LIST",
     .flags = OPT_FIRST},
    {OPT_INT, 0, "top", OPTION(top), .help = "number of tokens to show", .value = "N",
     .initial = "10", .low = 1, .high = MOST_TOP, .flags = OPT_FIRST},
    {OPT_TABLE, .to = OPTION(model), .table = model_file_opts},
    {OPT_TABLE, .to = OPTION(model), .table = model_opts},
    {0},
};

static const char *const examples[] = {
    "ingot logits -m model.gguf -p 'The capital of France is'",
    "The ten most likely next tokens.",
    "ingot logits -m model.gguf -p 'The' --json | jq '.logits | length'",
    "The logits of the whole vocabulary.",
    NULL,
};

const ig_command cmd_logits = {
    .name = "logits",
    .summary = "show the most likely next tokens",
    .about = "Runs a text through a model and shows the most likely next tokens. With --json it "
             "prints the tokens of the text and the logits of the whole vocabulary, for comparison "
             "with other engines.",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(logits_options),
    .cancels = true,
    .run = run,
};
