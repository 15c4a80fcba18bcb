/*
 * ingot bench -m MODEL - tokens a second: of a prompt that is read (pp), and of
 * tokens that are made one after the other (tg).
 *
 * Tokens are drawn by chance; what they are makes no difference to the time.  Each
 * is run once before the clock starts, so that plans and caches are there.
 */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/random.h"
#include "cli/cmd_bench.h"
#include "cli/opened.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/report.h"

enum { DEFAULT_PROMPT = 512, DEFAULT_MADE = 128, DEFAULT_RUNS = 5 };

/* Of one of the two: how many tokens, and how fast in each run. */
typedef struct series {
    int64_t tokens;
    double *rates; /* [runs], tokens a second */
    double *times; /* [runs x tokens], milliseconds of each token; NULL for prompts */
    double mean, deviation, p50, p99, longest;
} series;

typedef struct model_bench {
    opened_model model;
    model_options options;
    int64_t runs;
    int32_t *tokens; /* as many as the longer needs */
    float *logits;
    series read, made;
    bench_device device;
} model_bench;

/* ---- running ---- */

static ig_status read_prompt(model_bench *b, double *out_rate) {
    IG_TRY(ig_session_truncate(b->model.session, 0, 0));
    const double began = ig_clock_seconds();
    IG_TRY(ig_session_feed(b->model.session, 0, b->tokens, b->read.tokens, b->logits));
    *out_rate = (double)b->read.tokens / (ig_clock_seconds() - began);
    return IG_OK;
}

static ig_status make_tokens(model_bench *b, double *times, double *out_rate) {
    IG_TRY(ig_session_truncate(b->model.session, 0, 0));
    const double began = ig_clock_seconds();
    double before = began;
    for (int64_t i = 0; i < b->made.tokens; i++) {
        IG_TRY(ig_session_feed(b->model.session, 0, b->tokens + i, 1, b->logits));
        const double now = ig_clock_seconds();
        times[i] = (now - before) * 1e3;
        before = now;
    }
    *out_rate = (double)b->made.tokens / (before - began);
    return IG_OK;
}

static ig_status run_all(model_bench *b) {
    for (int64_t i = -1; i < b->runs; i++) { /* the first before the clock */
        const int64_t at = i < 0 ? 0 : i;
        if (b->read.tokens > 0) IG_TRY(read_prompt(b, &b->read.rates[at]));
        if (b->made.tokens > 0)
            IG_TRY(make_tokens(b, b->made.times + at * b->made.tokens, &b->made.rates[at]));
    }
    return IG_OK;
}

/* ---- numbers ---- */

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The value that a share of all lie below or at. */
static double quantile(const double *sorted, int64_t n, double share) {
    const int64_t at = (int64_t)ceil(share * (double)n) - 1;
    return sorted[at < 0 ? 0 : at];
}

static void settle(series *s, int64_t runs) {
    double sum = 0, apart = 0;
    if (s->tokens == 0) return;
    for (int64_t i = 0; i < runs; i++) sum += s->rates[i];
    s->mean = sum / (double)runs;
    for (int64_t i = 0; i < runs; i++) apart += pow(s->rates[i] - s->mean, 2);
    s->deviation = runs > 1 ? sqrt(apart / (double)(runs - 1)) : 0;
    if (!s->times) return;
    const int64_t n = runs * s->tokens;
    qsort(s->times, (size_t)n, sizeof *s->times, by_size);
    s->p50 = quantile(s->times, n, 0.5);
    s->p99 = quantile(s->times, n, 0.99);
    s->longest = s->times[n - 1];
}

/* ---- results ---- */

static json_t *series_json(const series *s, int64_t runs) {
    if (s->tokens == 0) return json_null();
    json_t *rates = json_array();
    for (int64_t i = 0; i < runs; i++) json_array_append_new(rates, ig_json_real(s->rates[i]));
    json_t *root =
        json_pack("{s:I, s:o, s:o, s:o}", "tokens", (json_int_t)s->tokens, "tokens_per_s",
                  ig_json_real(s->mean), "deviation", ig_json_real(s->deviation), "runs", rates);
    if (s->times)
        json_object_set_new(root, "token_ms",
                            json_pack("{s:o, s:o, s:o}", "p50", ig_json_real(s->p50), "p99",
                                      ig_json_real(s->p99), "max", ig_json_real(s->longest)));
    return root;
}

static ig_status print_json(const model_bench *b) {
    return ig_run_result(
        b->model.cli,
        json_pack("{s:s, s:o, s:s, s:I, s:s, s:s, s:I, s:I, s:o, s:o, s:o, s:I}", "schema",
                  "ingot.bench.model.v1", "model", ig_json_text(b->options.path), "arch",
                  ig_adapter_architecture(b->model.adapter), "parameters",
                  (json_int_t)ig_adapter_param_count(b->model.adapter), "device", b->device.name,
                  "instruction_set", b->device.isa, "threads", (json_int_t)b->device.threads,
                  "runs", (json_int_t)b->runs, "load_ms", ig_json_real(b->model.load_ms), "pp",
                  series_json(&b->read, b->runs), "tg", series_json(&b->made, b->runs),
                  "peak_rss_bytes", (json_int_t)bench_peak_rss()));
}

static void print_series(const char *name, const series *s) {
    char label[32];
    if (s->tokens == 0) return;
    snprintf(label, sizeof label, "%s%lld", name, (long long)s->tokens);
    printf("  %-10s %10.2f +- %.2f tokens/s", label, s->mean, s->deviation);
    if (s->times)
        printf("   a token: %.3f ms median, %.3f ms p99, %.3f ms longest", s->p50, s->p99,
               s->longest);
    putchar('\n');
}

static ig_status print_table(const model_bench *b) {
    char path[256], count[IG_UNIT_TEXT_BYTES];
    bench_print_machine();
    printf("%s: %s, %s parameters, %lld threads, %s %s\n\n",
           ig_text_safe(b->options.path, path, sizeof path),
           ig_adapter_architecture(b->model.adapter),
           ig_count_text((uint64_t)ig_adapter_param_count(b->model.adapter), count),
           (long long)b->device.threads, b->device.name, b->device.isa);
    print_series("pp", &b->read);
    print_series("tg", &b->made);
    return IG_OK;
}

/* ---- the subject ---- */

static ig_status prepare(model_bench *b) {
    const ig_allocator *a = &b->model.cli->allocator;
    const int64_t vocabulary = ig_adapter_vocabulary(b->model.adapter);
    const int64_t longer = b->read.tokens > b->made.tokens ? b->read.tokens : b->made.tokens;
    const size_t runs = (size_t)b->runs;
    if (longer < 1) return IG_FAIL(IG_ERR_ARGUMENT, "-p 0, -n 0: nothing to measure");
    b->options.ctx_len = longer;
    IG_TRY(model_session(&b->model, longer, 1));
    b->tokens = ig_alloc(a, (size_t)longer, sizeof *b->tokens);
    b->logits = ig_alloc(a, (size_t)vocabulary, sizeof *b->logits);
    b->read.rates = ig_alloc(a, runs, sizeof *b->read.rates);
    b->made.rates = ig_alloc(a, runs, sizeof *b->made.rates);
    b->made.times = ig_alloc(a, runs * (size_t)b->made.tokens, sizeof *b->made.times);
    if (!b->tokens || !b->logits || !b->read.rates || !b->made.rates || !b->made.times)
        return IG_FAIL(IG_ERR_MEMORY, "bench: %zu runs of %lld tokens", runs, (long long)longer);
    const uint32_t seed[2] = {1, 0};
    for (int64_t i = 0; i < longer; i++)
        b->tokens[i] =
            (int32_t)(ig_random_block(seed, 0, 0, (uint64_t)i).word[0] % (uint64_t)vocabulary);
    return bench_device_of(b->model.ctx, &b->device);
}

ig_status bench_model(ig_cli *cli, const bench_options *o) {
    const ig_allocator *a = &cli->allocator;
    if (!o->model) return IG_FAIL(IG_ERR_ARGUMENT, "--model: is missing; it is what to measure");
    model_bench b = {
        .options = {.path = o->model,
                    .device = o->device,
                    .cache = o->cache,
                    .threads = o->threads,
                    .chunk = o->chunk},
        .runs = o->runs > 0 ? o->runs : DEFAULT_RUNS,
        .read.tokens = o->n_prompt != IG_UNSAID ? o->n_prompt : DEFAULT_PROMPT,
        .made.tokens = o->steps != IG_UNSAID ? o->steps : DEFAULT_MADE,
    };
    ig_status status = model_open(cli, &b.options, &b.model);
    if (status == IG_OK) status = prepare(&b);
    if (status == IG_OK) status = run_all(&b);
    if (status == IG_OK) {
        settle(&b.read, b.runs);
        settle(&b.made, b.runs);
        status = cli->json ? print_json(&b) : print_table(&b);
    }
    model_close(&b.model);
    ig_free(a, b.tokens);
    ig_free(a, b.logits);
    ig_free(a, b.read.rates);
    ig_free(a, b.made.rates);
    ig_free(a, b.made.times);
    return status;
}
