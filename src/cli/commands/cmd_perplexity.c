/*
 * ingot perplexity - perplexity of a model on a text.
 *
 * The text is cut into chunks of the context length; in each, the second half is scored, every
 * token given all earlier ones of its chunk. llama.cpp measures the same way, so the figures
 * compare.
 */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/app/output.h"
#include "cli/app/progress.h"
#include "cli/app/report_file.h"
#include "cli/commands/loaded_model.h"

enum { DEFAULT_CTX = 512, ROWS = 64 };
enum { LEAST_CTX = 3 }; /* one of context, one that predicts, and one that is predicted */

typedef struct perplexity_options {
    model_options model;
    const char *prompt, *file;
    int64_t chunks;
} perplexity_options;

typedef struct measure {
    loaded_model model;
    const perplexity_options *options;
    model_text text;
    ig_tokens tokens;
    float *logits; /* [ROWS, vocabulary] */
    int64_t ctx_len, n_chunks, n_scored;
    int32_t bos;
    double sum, sum_of_squares; /* of -log p */
} measure;

static void score(measure *m, const float *logits, int32_t next) {
    const double nll = -ig_logits_logprob(logits, ig_adapter_vocab_size(m->model.adapter), next);
    m->sum += nll;
    m->sum_of_squares += nll * nll;
    m->n_scored++;
}

/* Runs rows [begin, end) of a chunk; those from `scored` on give logits. */
static ig_status feed(measure *m, const int32_t *tokens, int64_t begin, int64_t end,
                      int64_t scored) {
    const size_t vocabulary = (size_t)ig_adapter_vocab_size(m->model.adapter);
    ig_session_token rows[ROWS];
    const int64_t n = end - begin;
    for (int64_t i = 0; i < n; i++)
        rows[i] = (ig_session_token){
            .id = tokens[begin + i],
            .logits = begin + i >= scored ? m->logits + (size_t)i * vocabulary : NULL};
    IG_TRY(ig_session_run(m->model.session, rows, n));
    for (int64_t i = 0; i < n; i++)
        if (rows[i].logits) score(m, rows[i].logits, tokens[begin + i + 1]);
    return IG_OK;
}

/* The first half is context only; the last token has no successor. */
static ig_status measure_chunk(measure *m, const int32_t *tokens, int64_t count) {
    IG_TRY(ig_session_truncate(m->model.session, 0, 0));
    for (int64_t at = 0; at < count - 1; at += ROWS)
        IG_TRY(feed(m, tokens, at, at + ROWS < count - 1 ? at + ROWS : count - 1, count / 2));
    return IG_OK;
}

static ig_status measure_text(measure *m) {
    const int64_t count = (int64_t)m->tokens.count;
    const int64_t length = count < m->ctx_len ? count : m->ctx_len;
    const int64_t most = count / length, asked = m->options->chunks;
    m->n_chunks = asked > 0 && asked < most ? asked : most;
    ig_meter meter = ig_meter_begin(&m->model.cli->term, m->model.cli->quiet, "perplexity",
                                    "chunks", (uint64_t)m->n_chunks);
    ig_status status = IG_OK;
    int64_t done = 0;
    for (; done < m->n_chunks && status == IG_OK; done++) {
        int32_t *chunk = m->tokens.at + done * length;
        if (m->bos >= 0) chunk[0] = m->bos; /* every chunk starts like a text */
        status = measure_chunk(m, chunk, length);
        ig_meter_update(&meter, (uint64_t)done + 1, "");
    }
    ig_meter_end(&meter, (uint64_t)done, "");
    return status;
}

/* The BOS token, if the model's file asks for one; else -1. */
static ig_status find_bos(measure *m) {
    ig_tokens tokens = {.allocator = &m->model.cli->allocator};
    IG_TRY(ig_tokenize(ig_adapter_tokenizer(m->model.adapter), "", 0, IG_TOKENIZE_PROMPT, &tokens));
    m->bos = tokens.count > 0 ? tokens.at[0] : -1;
    ig_tokens_deinit(&tokens);
    return IG_OK;
}

static ig_status prepare(measure *m) {
    const perplexity_options *o = m->options;
    IG_TRY(model_read_text(m->model.cli, o->prompt, o->file, MODEL_TEXT_MOST, &m->text));
    IG_TRY(model_tokenize(&m->model, m->text, &m->tokens));
    IG_TRY(find_bos(m));
    if (m->tokens.count < 4)
        return IG_FAIL(IG_ERR_ARGUMENT, "the text has %zu tokens; at least 4 are needed",
                       m->tokens.count);
    IG_TRY(model_session(&m->model, DEFAULT_CTX, 1));
    m->ctx_len = ig_session_ctx_len(m->model.session);
    if (m->ctx_len < LEAST_CTX)
        return IG_FAIL(
            IG_ERR_ARGUMENT,
            "--ctx: chunks of %lld tokens have nothing to predict; at least %d are needed",
            (long long)m->ctx_len, LEAST_CTX);
    m->logits = ig_alloc(&m->model.cli->allocator,
                         ROWS * (size_t)ig_adapter_vocab_size(m->model.adapter), sizeof *m->logits);
    return m->logits ? IG_OK : IG_FAIL(IG_ERR_MEMORY, "perplexity: no memory for logits");
}

static ig_status print(const measure *m) {
    const double n = (double)m->n_scored, mean = m->sum / n;
    const double variance = fmax(m->sum_of_squares / n - mean * mean, 0);
    const double ppl = exp(mean), deviation = n > 1 ? sqrt(variance / (n - 1)) * ppl : 0;
    if (m->model.cli->json)
        return ig_run_result(m->model.cli,
                             json_pack("{s:s, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I}", "schema",
                                       "ingot.perplexity.v1", "model", ig_json_text(m->model.path),
                                       "perplexity", ig_json_real(ppl), "deviation",
                                       ig_json_real(deviation), "nll", ig_json_real(mean), "tokens",
                                       (json_int_t)m->tokens.count, "scored",
                                       (json_int_t)m->n_scored, "chunks", (json_int_t)m->n_chunks,
                                       "ctx", (json_int_t)m->ctx_len));
    printf("perplexity %.4f +- %.4f (%lld of %zu tokens scored, chunks of %lld)\n", ppl, deviation,
           (long long)m->n_scored, m->tokens.count, (long long)m->ctx_len);
    return IG_OK;
}

static ig_status run(ig_cli *cli, const void *options) {
    measure m = {.options = options};
    ig_status status = loaded_model_open(cli, &m.options->model, &m.model);
    if (status == IG_OK) status = prepare(&m);
    if (status == IG_OK) status = measure_text(&m);
    if (status == IG_OK) status = print(&m);
    loaded_model_close(&m.model);
    ig_free(&cli->allocator, m.logits);
    ig_tokens_deinit(&m.tokens);
    ig_free(&cli->allocator, m.text.bytes);
    return status;
}

#define OPTION(member) offsetof(perplexity_options, member)

static const ig_opt opts[] = {
    {OPT_TEXT, 'f', "file", OPTION(file), .help = "the text file; -: standard input",
     .value = "FILE", .flags = OPT_FIRST | OPT_FILE},
    {OPT_TEXT, 'p', "prompt", OPTION(prompt), .help = "the text", .value = "TEXT",
     .flags = OPT_FIRST},
    {OPT_INT, 0, "chunks", OPTION(chunks), .help = "at most N chunks; 0: all", .value = "N",
     .initial = "0", .low = 0, .high = 1e12, .flags = OPT_FIRST},
    {OPT_TABLE, .to = OPTION(model), .table = model_file_opts},
    {OPT_TABLE, .to = OPTION(model), .table = model_opts},
    {0},
};

static const char *const examples[] = {
    "ingot perplexity -m model.gguf -f book.txt",
    "Perplexity of a book; lower is better.",
    NULL,
};

const ig_command cmd_perplexity = {
    .name = "perplexity",
    .summary = "measure the perplexity of a model on a text",
    .about = "Cuts a text into chunks of -c tokens (0: 512) and scores every token "
             "of each chunk's second half. Prints the perplexity, the exponential of the mean "
             "negative log-likelihood, with its standard error. llama-perplexity measures the "
             "same, so the figures compare.",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(perplexity_options),
    .cancels = true,
    .run = run,
};
