/*
 * ingot perplexity - how well a model foretells a text.
 *
 * The text is cut into pieces as long as the context; of each, the second half is
 * foretold, every token from all before it in its piece.  That is how llama.cpp
 * measures, so figures can be laid beside each other.
 */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/commands/loaded_model.h"
#include "cli/app/output.h"
#include "cli/app/progress.h"
#include "cli/app/report_file.h"

enum { DEFAULT_CTX = 512, ROWS = 64 };
enum { LEAST_CTX = 3 }; /* one that leads up, one that foretells, and what it foretells */

typedef struct perplexity_options {
    model_options model;
    const char *prompt, *file;
    int64_t chunks;
} perplexity_options;

typedef struct measure {
    opened_model model;
    const perplexity_options *options;
    model_text text;
    model_tokens tokens;
    float *logits; /* [ROWS, vocabulary] */
    int64_t ctx_len, n_chunks, n_scored;
    int32_t bos;
    double sum, sum_of_squares; /* of -log p */
} measure;

static void score(measure *m, const float *logits, int32_t next) {
    const double nll = -ig_logits_logprob(logits, ig_adapter_vocabulary(m->model.adapter), next);
    m->sum += nll;
    m->sum_of_squares += nll * nll;
    m->n_scored++;
}

/* Rows [begin, end) of a piece; those from `scored` on are asked what comes behind them. */
static ig_status feed(measure *m, const int32_t *tokens, int64_t begin, int64_t end,
                      int64_t scored) {
    const size_t vocabulary = (size_t)ig_adapter_vocabulary(m->model.adapter);
    ig_session_row rows[ROWS];
    const int64_t n = end - begin;
    for (int64_t i = 0; i < n; i++)
        rows[i] = (ig_session_row){
            .token = tokens[begin + i],
            .logits = begin + i >= scored ? m->logits + (size_t)i * vocabulary : NULL};
    IG_TRY(ig_session_run(m->model.session, rows, n));
    for (int64_t i = 0; i < n; i++)
        if (rows[i].logits) score(m, rows[i].logits, tokens[begin + i + 1]);
    return IG_OK;
}

/* The first half only leads up to the second; the last token has nothing behind it. */
static ig_status measure_piece(measure *m, const int32_t *tokens, int64_t count) {
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
                                    "pieces", (uint64_t)m->n_chunks);
    ig_status status = IG_OK;
    int64_t done = 0;
    for (; done < m->n_chunks && status == IG_OK; done++) {
        int32_t *piece = m->tokens.at + done * length;
        if (m->bos >= 0) piece[0] = m->bos; /* every piece begins as a text does */
        status = measure_piece(m, piece, length);
        ig_meter_update(&meter, (uint64_t)done + 1, "");
    }
    ig_meter_end(&meter, (uint64_t)done, "");
    return status;
}

/* What the model's file wants before a text; -1: nothing. */
static ig_status find_bos(measure *m) {
    size_t count = 0;
    m->bos = -1;
    int32_t first;
    IG_TRY(ig_adapter_encode_prompt(m->model.adapter, "", 0, &first, 1, &count));
    if (count > 0) m->bos = first;
    return IG_OK;
}

static ig_status prepare(measure *m) {
    const perplexity_options *o = m->options;
    IG_TRY(model_read_text(m->model.cli, o->prompt, o->file, &m->text));
    IG_TRY(model_encode(&m->model, m->text, &m->tokens));
    IG_TRY(find_bos(m));
    if (m->tokens.count < 4)
        return IG_FAIL(IG_ERR_ARGUMENT, "the text has %zu tokens; at least 4 are needed",
                       m->tokens.count);
    IG_TRY(model_session(&m->model, DEFAULT_CTX, 1));
    m->ctx_len = ig_session_ctx_len(m->model.session);
    if (m->ctx_len < LEAST_CTX)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "--ctx: pieces of %lld tokens foretell none; at least %d are needed",
                       (long long)m->ctx_len, LEAST_CTX);
    m->logits = ig_alloc(&m->model.cli->allocator,
                         ROWS * (size_t)ig_adapter_vocabulary(m->model.adapter), sizeof *m->logits);
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
    printf("perplexity %.4f +- %.4f (%lld of %zu tokens foretold, pieces of %lld)\n", ppl,
           deviation, (long long)m->n_scored, m->tokens.count, (long long)m->ctx_len);
    return IG_OK;
}

static ig_status run(ig_cli *cli, const void *options) {
    measure m = {.options = options};
    ig_status status = model_open(cli, &m.options->model, &m.model);
    if (status == IG_OK) status = prepare(&m);
    if (status == IG_OK) status = measure_text(&m);
    if (status == IG_OK) status = print(&m);
    model_close(&m.model);
    ig_free(&cli->allocator, m.logits);
    ig_free(&cli->allocator, m.tokens.at);
    ig_free(&cli->allocator, m.text.bytes);
    return status;
}

#define OPTION(member) offsetof(perplexity_options, member)

static const ig_opt opts[] = {
    {OPT_TEXT, 'f', "file", OPTION(file), .help = "the text; - is standard input", .value = "FILE",
     .flags = OPT_FILE},
    {OPT_TEXT, 'p', "prompt", OPTION(prompt), .help = "the text itself", .value = "TEXT"},
    {OPT_INT, 0, "chunks", OPTION(chunks), .help = "no more than so many pieces; 0: all",
     .value = "N", .initial = "0", .low = 0, .high = 1e12},
    {OPT_TABLE, .to = OPTION(model), .table = model_opts},
    {0},
};

static const char *const examples[] = {
    "ingot perplexity -m model.gguf -f book.txt",
    "How well the model foretells a book; less is better.",
    NULL,
};

const ig_command cmd_perplexity = {
    .name = "perplexity",
    .summary = "measure how well a model foretells a text",
    .about = "Cuts a text into pieces as long as the context (-c, 512 if not said) and lets the "
             "model foretell every token of each piece's second half. Prints the exponential of "
             "the mean loss, with the deviation that the number of tokens leaves.",
    .examples = examples,
    .opts = opts,
    .options_bytes = sizeof(perplexity_options),
    .cancels = true,
    .run = run,
};
