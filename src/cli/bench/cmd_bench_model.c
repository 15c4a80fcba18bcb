/*
 * ingot bench -m MODEL - tokens per second: prefill of a prompt (pp), and decode (tg) of one
 * sequence or a batch, at any depth of the KV cache.
 *
 * Tokens are random, because their values do not affect the time. Each test runs once before timing
 * starts, so that plans and caches are warm. Before each run the machine's own rates are measured:
 * read bandwidth with many streams, and dot products (int8 if weights are quantized, else FP32).
 * Each rate is then a share of the roof at that moment.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "cli/app/output.h"
#include "cli/app/progress.h"
#include "cli/app/report_file.h"
#include "cli/bench/cmd_bench.h"
#include "cli/commands/generation.h"
#include "cli/commands/loaded_model.h"
#include "ingot/bench.h"
#include "ingot/op.h"
#include "ingot/report.h"

enum { DEFAULT_PROMPT = 512, DEFAULT_MADE = 128, DEFAULT_RUNS = 5 };
enum { START_TOKENS = 8, LIST_MAX = 8, TESTS_MAX = 2 + LIST_MAX * LIST_MAX };

/* Prefill of a prompt, batched decode, or decode with speculation. */
typedef struct test {
    int64_t tokens;      /* prompt tokens, or generated tokens per sequence */
    int64_t n_sequences; /* decode batch size; 0: a prompt */
    int64_t depth;       /* tokens in the KV cache at the start */
    int64_t ngram;       /* tokens that a draft matches; 0: no speculation */
    int64_t n_drafted, n_accepted;
    double *rates; /* [runs], tok/s */
    double *times; /* [runs x tokens], ms per step; NULL for prompts */
    double mean, deviation, p50, p99, longest;
    double rate[IG_ROOF_DOT_INT8 + 1]; /* mean roofs of the machine; 0: not needed */
    double bytes_per_s, op_per_s;      /* the model's own rates */
} test;

typedef struct model_bench {
    loaded_model model;
    model_options options;
    int64_t runs, max_sequences, chunk;
    test tests[TESTS_MAX];
    int n_tests;
    int32_t *tokens; /* enough for the longest test */
    float *logits;   /* [max_sequences, vocabulary] */
    ig_session_token *step;
    double start_ms;
    uint64_t peak_rss; /* without the memory that measuring the machine takes: */
    void *read;        /* the buffer for its bandwidth */
    uint64_t read_bytes;
    ig_token_cost cost;
    double submits_per_token; /* of one sequence, in its last run */
    bench_submits submits;
    bench_device device;
} model_bench;

/* ---- running ---- */

static ig_status read_prompt(model_bench *b, const test *t) {
    IG_TRY(ig_session_truncate(b->model.session, 0, 0));
    return ig_session_feed(b->model.session, 0, b->tokens, t->tokens, b->logits);
}

/* Fills the KV caches to the test's depth: one page is computed, the others are copies of it. */
static ig_status make_texts(model_bench *b, const test *t) {
    ig_session *s = b->model.session;
    for (int32_t i = 0; i < (int32_t)t->n_sequences; i++) {
        if (ig_session_length(s, i) >= t->depth) {
            IG_TRY(ig_session_truncate(s, i, t->depth));
            continue;
        }
        const int64_t page = t->depth < IG_PAGE_TOKENS ? t->depth : IG_PAGE_TOKENS;
        IG_TRY(ig_session_truncate(s, i, 0));
        IG_TRY(ig_session_feed(s, i, b->tokens, page, NULL));
        if (t->depth > page) IG_TRY(ig_session_fake_length(s, i, t->depth));
    }
    return IG_OK;
}

static ig_status make_tokens(model_bench *b, const test *t, double *times) {
    const int64_t vocabulary = ig_adapter_vocab_size(b->model.adapter);
    const uint64_t submits = ig_report_counters(b->model.ctx).submits;
    double before = ig_clock_seconds();
    for (int64_t i = 0; i < t->tokens; i++) {
        for (int64_t r = 0; r < t->n_sequences; r++)
            b->step[r] = (ig_session_token){
                .sequence = (int32_t)r, .id = b->tokens[i], .logits = b->logits + r * vocabulary};
        IG_TRY(ig_session_run(b->model.session, b->step, t->n_sequences));
        const double now = ig_clock_seconds();
        times[i] = (now - before) * 1e3;
        before = now;
    }
    b->submits_per_token = (double)(ig_report_counters(b->model.ctx).submits - submits) /
                           (double)(t->tokens * t->n_sequences);
    return IG_OK;
}

/* Greedy decoding after a short prompt. */
static ig_status write_text(const model_bench *b, test *t, double *out_rate) {
    ig_generated made;
    const ig_generate_options options = {.prompt_tokens = b->tokens,
                                         .n_prompt_tokens = START_TOKENS,
                                         .max_tokens = t->tokens,
                                         .ignore_eos = true,
                                         .session = b->model.session,
                                         .sampling.temperature = -1,
                                         .draft_ngram = t->ngram};
    IG_TRY(ig_session_truncate(b->model.session, 0, 0));
    IG_TRY(ig_adapter_generate(b->model.adapter, &options, &made));
    *out_rate = generation_rates_of(&made).decode;
    t->n_drafted = made.n_drafted;
    t->n_accepted = made.n_accepted;
    return IG_OK;
}

static ig_status run_test(model_bench *b, test *t, int64_t run) {
    if (t->ngram > 0) return write_text(b, t, &t->rates[run]);
    if (t->n_sequences > 0) IG_TRY(make_texts(b, t));
    const double began = ig_clock_seconds();
    IG_TRY(t->n_sequences > 0 ? make_tokens(b, t, t->times + run * t->tokens) : read_prompt(b, t));
    const int64_t all = t->tokens * (t->n_sequences > 0 ? t->n_sequences : 1);
    t->rates[run] = (double)all / (ig_clock_seconds() - began);
    return IG_OK;
}

/* Updates the peak RSS, without the bandwidth buffer. */
static void note_peak(model_bench *b) {
    const uint64_t held = b->read ? b->read_bytes : 0, all = bench_peak_rss();
    const uint64_t peak = all > held ? all - held : 0;
    if (peak > b->peak_rss) b->peak_rss = peak;
}

/* The share of a token's dot products in floating point: 0 or 1, except for MoE. */
static double float_share(const ig_token_cost *c) {
    const double all = (double)(c->body_macs + c->head_macs);
    return all > 0 ? (double)(c->body_float_macs + c->head_float_macs) / all : 1;
}

static bool needs_rate(const model_bench *b, ig_roofline what) {
    const double floats = float_share(&b->cost);
    return what == IG_ROOF_READ || (what == IG_ROOF_FMA_F32 ? floats > 0 : floats < 1);
}

/* Peak op/s of the machine for this token's mix of int8 and FP32 dot products. */
static double op_roof(const model_bench *b, const test *t) {
    const double floats = float_share(&b->cost);
    double seconds = 0; /* per operation */
    if (!bench_has_roof(&b->device)) return 0;
    if (floats > 0) seconds += floats / t->rate[IG_ROOF_FMA_F32];
    if (floats < 1) seconds += (1 - floats) / t->rate[IG_ROOF_DOT_INT8];
    return 1 / seconds;
}

/* Measures the machine's roofs. */
static ig_status look_at_machine(model_bench *b, test *t) {
    const ig_allocator *a = &b->model.cli->allocator;
    note_peak(b);
    if (!bench_has_roof(&b->device)) {
        bench_forget_peak_rss();
        return IG_OK;
    }
    if (!b->read) {
        b->read_bytes = ig_roofline_read_bytes();
        b->read = ig_alloc(a, b->read_bytes, 1);
    }
    if (!b->read)
        return IG_FAIL(IG_ERR_MEMORY, "bench: %llu bytes to read",
                       (unsigned long long)b->read_bytes);
    const ig_roofline_options options = {.threads = (int)b->device.threads,
                                         .read_bytes = b->read_bytes,
                                         .allocator = *a,
                                         .memory = b->read};
    for (ig_roofline what = IG_ROOF_READ; what <= IG_ROOF_DOT_INT8; what++) {
        double rate = 0;
        if (needs_rate(b, what)) IG_TRY(ig_roofline_measure(what, &options, &rate));
        t->rate[what] += rate / (double)b->runs;
    }
    bench_forget_peak_rss();
    return IG_OK;
}

static ig_status run_all(model_bench *b) {
    const ig_cli *cli = b->model.cli;
    ig_meter meter = ig_meter_begin(&cli->term, cli->quiet, "bench", "runs",
                                    (uint64_t)(b->n_tests * (b->runs + 1)));
    uint64_t done = 0;
    ig_status status = IG_OK;
    for (test *t = b->tests; t < b->tests + b->n_tests; t++)
        for (int64_t i = -1; i < b->runs && status == IG_OK; i++) { /* run -1 is the warmup */
            if (i >= 0) status = look_at_machine(b, t);
            if (status == IG_OK) status = run_test(b, t, i < 0 ? 0 : i);
            if (ig_cli_cancelled(cli)) status = IG_FAIL(IG_ERR_CANCELLED, "bench: stopped");
            ig_meter_update(&meter, ++done, "");
        }
    if (status == IG_OK)
        ig_meter_end(&meter, done, "");
    else if (meter.line_open)
        fputc('\n', stderr);
    return status;
}

/* ---- numbers ---- */

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The p-quantile of sorted values: `share` of all are at or below it. */
static double quantile(const double *sorted, int64_t n, double share) {
    const int64_t at = (int64_t)ceil(share * (double)n) - 1;
    return sorted[at < 0 ? 0 : at];
}

/* Bytes read from memory and operations, per second: weights count once per batch, KV caches once
 * per row. */
static void settle_work(const model_bench *b, test *t) {
    const ig_token_cost *c = &b->cost;
    const double weights = (double)(c->body_bytes + c->head_bytes);
    if (t->ngram > 0) return; /* the acceptance rate decides how often weights are read */
    if (t->n_sequences == 0) {
        const double chunks = ceil((double)t->tokens / (double)b->chunk);
        const double prompts = t->mean / (double)t->tokens;
        t->bytes_per_s = prompts * (chunks * (double)c->body_bytes + (double)c->head_bytes);
        t->op_per_s = 2 * prompts *
                      ((double)t->tokens * (double)(c->body_macs - c->last_layer_macs) +
                       (double)(c->last_layer_macs + c->head_macs));
        return;
    }
    const double seen = (double)t->depth + (double)t->tokens / 2;
    t->bytes_per_s = t->mean * (weights / (double)t->n_sequences + seen * (double)c->kv_bytes);
    t->op_per_s = 2 * t->mean * (double)(c->body_macs + c->head_macs);
}

static void settle(const model_bench *b, test *t) {
    double sum = 0, apart = 0;
    for (int64_t i = 0; i < b->runs; i++) sum += t->rates[i];
    t->mean = sum / (double)b->runs;
    for (int64_t i = 0; i < b->runs; i++) apart += pow(t->rates[i] - t->mean, 2);
    t->deviation = b->runs > 1 ? sqrt(apart / (double)(b->runs - 1)) : 0;
    settle_work(b, t);
    if (!t->times) return;
    const int64_t n = b->runs * t->tokens;
    qsort(t->times, (size_t)n, sizeof *t->times, by_size);
    t->p50 = quantile(t->times, n, 0.5);
    t->p99 = quantile(t->times, n, 0.99);
    t->longest = t->times[n - 1];
}

/* ---- results ---- */

/* A roof of 0 is unknown. */
static json_t *rate_json(double rate, double roof) {
    return json_pack("{s:o, s:o, s:o}", "per_s", ig_json_real(rate), "roof_per_s",
                     roof > 0 ? ig_json_real(roof) : json_null(), "roof_share",
                     roof > 0 ? ig_json_real(rate / roof) : json_null());
}

/* With speculation, the number of weight reads is unknown: no roof applies. */
static void add_speculation(json_t *root, const test *t) {
    json_object_set_new(root, "ngram", json_integer(t->ngram));
    json_object_set_new(root, "drafted", json_integer(t->n_drafted));
    json_object_set_new(root, "accepted", json_integer(t->n_accepted));
    json_object_set_new(
        root, "acceptance_rate",
        ig_json_real(t->n_drafted > 0 ? (double)t->n_accepted / (double)t->n_drafted : 0));
}

static json_t *test_json(const model_bench *b, const test *t) {
    json_t *rates = json_array();
    for (int64_t i = 0; i < b->runs; i++) json_array_append_new(rates, ig_json_real(t->rates[i]));
    json_t *root =
        json_pack("{s:I, s:o, s:o, s:o}", "tokens", (json_int_t)t->tokens, "tokens_per_s",
                  ig_json_real(t->mean), "deviation", ig_json_real(t->deviation), "runs", rates);
    if (t->ngram > 0) {
        add_speculation(root, t);
        return root;
    }
    json_object_set_new(root, "read_bytes", rate_json(t->bytes_per_s, t->rate[IG_ROOF_READ]));
    json_object_set_new(root, "ops", rate_json(t->op_per_s, op_roof(b, t)));
    if (!t->times) return root;
    json_object_set_new(root, "sequences", json_integer(t->n_sequences));
    json_object_set_new(root, "depth", json_integer(t->depth));
    json_object_set_new(root, "token_ms",
                        json_pack("{s:o, s:o, s:o}", "p50", ig_json_real(t->p50), "p99",
                                  ig_json_real(t->p99), "max", ig_json_real(t->longest)));
    return root;
}

/* "tg" is the first decode test; "tests" has all of them. */
static ig_status print_json(const model_bench *b) {
    json_t *pp = json_null(), *tg = json_null(), *spec = json_null(), *tests = json_array();
    for (int i = 0; i < b->n_tests; i++) {
        if (b->tests[i].ngram > 0) {
            spec = test_json(b, &b->tests[i]);
        } else if (b->tests[i].n_sequences == 0) {
            pp = test_json(b, &b->tests[i]);
        } else {
            json_array_append_new(tests, test_json(b, &b->tests[i]));
            if (json_is_null(tg)) tg = json_incref(json_array_get(tests, 0));
        }
    }
    return ig_run_result(
        b->model.cli,
        json_pack(
            "{s:s, s:o, s:s, s:I, s:s, s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I}",
            "schema", "ingot.bench.model.v1", "model", ig_json_text(b->options.path), "arch",
            ig_adapter_architecture(b->model.adapter), "parameters",
            (json_int_t)ig_adapter_param_count(b->model.adapter), "device", b->device.name,
            "instruction_set", b->device.isa, "threads", (json_int_t)b->device.threads, "runs",
            (json_int_t)b->runs, "load_ms", ig_json_real(b->model.load_ms), "start_ms",
            ig_json_real(b->start_ms), "pp", pp, "tg", tg, "tests", tests, "spec", spec, "submits",
            b->submits_per_token > 0 ? bench_submits_json(b->submits) : json_null(), "rss_bytes",
            (json_int_t)bench_rss(), "peak_rss_bytes", (json_int_t)b->peak_rss));
}

/* "pp512", "tg128", "tg128 x8 @4096": tokens, sequences, depth; "spec128" for speculation */
static void name_test(const test *t, char *out, size_t out_bytes) {
    const int used = snprintf(out, out_bytes, "%s%lld",
                              t->ngram > 0         ? "spec"
                              : t->n_sequences > 0 ? "tg"
                                                   : "pp",
                              (long long)t->tokens);
    char *at = out + used, *end = out + out_bytes;
    if (t->n_sequences > 1)
        at += snprintf(at, (size_t)(end - at), " x%lld", (long long)t->n_sequences);
    if (t->n_sequences > 0 && t->depth > 0)
        snprintf(at, (size_t)(end - at), " @%lld", (long long)t->depth);
}

static void print_test(const model_bench *b, const test *t) {
    char name[48], rate[48];
    name_test(t, name, sizeof name);
    snprintf(rate, sizeof rate, "%.2f +- %.2f", t->mean, t->deviation);
    printf("  %-18s %18s", name, rate);
    if (t->ngram > 0) {
        printf("  accepted %lld of %lld draft tokens\n", (long long)t->n_accepted,
               (long long)t->n_drafted);
        return;
    }
    if (t->times)
        printf("  %9.3f %9.3f %9.3f", t->p50, t->p99, t->longest);
    else
        printf("  %9s %9s %9s", "", "", "");
    if (!bench_has_roof(&b->device)) {
        printf("  %7.1f %7s  %8.0f %7s\n", t->bytes_per_s / 1e9, "-", t->op_per_s / 1e9, "-");
        return;
    }
    printf("  %7.1f %5.0f %%  %8.0f %5.0f %%\n", t->bytes_per_s / 1e9,
           100 * t->bytes_per_s / t->rate[IG_ROOF_READ], t->op_per_s / 1e9,
           100 * t->op_per_s / op_roof(b, t));
}

/* Means over all tests. */
static void print_roofline(const model_bench *b) {
    static const char *const forms[] = {[IG_ROOF_READ] = " %.1f GB/s read",
                                        [IG_ROOF_FMA_F32] = ", %.0f GFLOP/s of F32",
                                        [IG_ROOF_DOT_INT8] = ", %.0f GOP/s of int8"};
    if (!bench_has_roof(&b->device)) {
        printf("\nno roofline for %s: only the CPU's is measured\n", b->device.name);
        return;
    }
    printf("\nroofline, measured in the same run:");
    for (ig_roofline what = IG_ROOF_READ; what <= IG_ROOF_DOT_INT8; what++) {
        double mean = 0;
        for (int i = 0; i < b->n_tests; i++) mean += b->tests[i].rate[what] / b->n_tests;
        if (needs_rate(b, what)) printf(forms[what], mean / 1e9);
    }
    printf("\n");
}

static ig_status print_table(const model_bench *b) {
    char path[256], count[IG_UNIT_TEXT_BYTES], now[IG_UNIT_TEXT_BYTES], most[IG_UNIT_TEXT_BYTES];
    bench_print_machine();
    printf("%s: %s, %s parameters, %lld threads, %s %s\n\n",
           ig_text_safe(b->options.path, path, sizeof path),
           ig_adapter_architecture(b->model.adapter),
           ig_count_text((uint64_t)ig_adapter_param_count(b->model.adapter), count),
           (long long)b->device.threads, b->device.name, b->device.isa);
    printf("  %-18s %18s  %9s %9s %9s  %7s %7s  %8s %7s\n", "", "tokens/s", "ms p50", "p99",
           "longest", "GB/s", "of roof", "GOP/s", "of roof");
    for (int i = 0; i < b->n_tests; i++) print_test(b, &b->tests[i]);
    print_roofline(b);
    printf("%.0f ms from start to the logits of %d tokens; %s resident, peak %s\n", b->start_ms,
           START_TOKENS, ig_bytes_text(bench_rss(), now), ig_bytes_text(b->peak_rss, most));
    if (b->submits_per_token > 0) bench_submits_print(b->submits);
    return IG_OK;
}

/* ---- the subject ---- */

static void add_test(model_bench *b, int64_t tokens, int64_t n_sequences, int64_t depth) {
    if (tokens > 0)
        b->tests[b->n_tests++] =
            (test){.tokens = tokens, .n_sequences = n_sequences, .depth = depth};
    if (tokens > 0 && n_sequences > b->max_sequences) b->max_sequences = n_sequences;
}

static ig_status list_tests(model_bench *b, const bench_options *o) {
    int64_t rows[LIST_MAX], depths[LIST_MAX];
    int n_rows, n_depths;
    IG_TRY(bench_numbers("parallel", o->n_sequences ? o->n_sequences : "1", 1, 4096, LIST_MAX, rows,
                         &n_rows));
    IG_TRY(bench_numbers("n-depth", o->n_depth ? o->n_depth : "0", 0, 1 << 24, LIST_MAX, depths,
                         &n_depths));
    b->max_sequences = 1;
    add_test(b, o->n_prompt != IG_NOT_GIVEN ? o->n_prompt : DEFAULT_PROMPT, 0, 0);
    for (int d = 0; d < n_depths; d++)
        for (int r = 0; r < n_rows; r++)
            add_test(b, o->steps != IG_NOT_GIVEN ? o->steps : DEFAULT_MADE, rows[r], depths[d]);
    if (o->draft_ngram > 0) {
        add_test(b, o->steps != IG_NOT_GIVEN ? o->steps : DEFAULT_MADE, 0, START_TOKENS);
        if (b->n_tests > 0) b->tests[b->n_tests - 1].ngram = o->draft_ngram;
    }
    if (b->n_tests == 0) return IG_FAIL(IG_ERR_ARGUMENT, "-p 0, -n 0: nothing to measure");
    return IG_OK;
}

static ig_status make_room(model_bench *b, int64_t longest) {
    const ig_allocator *a = &b->model.cli->allocator;
    const int64_t vocabulary = ig_adapter_vocab_size(b->model.adapter);
    const size_t runs = (size_t)b->runs, rows = (size_t)b->max_sequences;
    bool enough = true;
    for (test *t = b->tests; t < b->tests + b->n_tests; t++) {
        t->rates = ig_alloc(a, runs, sizeof *t->rates);
        if (t->n_sequences > 0) t->times = ig_alloc(a, runs * (size_t)t->tokens, sizeof *t->times);
        enough &= t->rates && (t->times || t->n_sequences == 0);
    }
    b->tokens = ig_alloc(a, (size_t)longest, sizeof *b->tokens);
    b->logits = ig_alloc(a, rows * (size_t)vocabulary, sizeof *b->logits);
    b->step = ig_alloc(a, rows, sizeof *b->step);
    if (!enough || !b->tokens || !b->logits || !b->step)
        return IG_FAIL(IG_ERR_MEMORY, "bench: %zu runs of %lld tokens", runs, (long long)longest);
    const uint32_t seed[2] = {1, 0};
    for (int64_t i = 0; i < longest; i++)
        b->tokens[i] =
            (int32_t)(ig_random_block(seed, 0, 0, (uint64_t)i).word[0] % (uint64_t)vocabulary);
    return IG_OK;
}

/* Reduces depths so that no sequence exceeds the model's context length. */
static void fit_depths(model_bench *b) {
    const int64_t most = ig_adapter_config(b->model.adapter).ctx_len;
    for (test *t = b->tests; t < b->tests + b->n_tests; t++)
        if (t->ngram == 0 && t->depth <= most && t->tokens <= most && t->tokens + t->depth > most)
            t->depth = most - t->tokens;
}

/* Loads the session and runs a first prompt: the latency a user sees. */
static ig_status prepare(model_bench *b, double began) {
    int64_t longest = IG_PAGE_TOKENS, context = START_TOKENS;
    fit_depths(b);
    for (const test *t = b->tests; t < b->tests + b->n_tests; t++) {
        if (t->tokens > longest) longest = t->tokens;
        if (t->tokens + t->depth > context) context = t->tokens + t->depth;
    }
    b->options.ctx_len = context;
    IG_TRY(make_room(b, longest));
    IG_TRY(model_session(&b->model, context, b->max_sequences));
    IG_TRY(ig_session_feed(b->model.session, 0, b->tokens, START_TOKENS, b->logits));
    b->start_ms = (ig_clock_seconds() - began) * 1e3;
    b->cost = ig_session_cost(b->model.session);
    b->chunk = ig_session_ubatch(b->model.session);
    return bench_device_of(b->model.ctx, &b->device);
}

/* Measures the first test that decodes one token at a time, for one or more sequences. */
static ig_status cost_of_submits(model_bench *b) {
    for (int i = 0; i < b->n_tests && b->submits_per_token > 0; i++)
        if (b->tests[i].n_sequences > 0 && b->tests[i].ngram == 0)
            return bench_submits_of(b->model.cli, b->submits_per_token, b->tests[i].p50,
                                    &b->submits);
    return IG_OK;
}

ig_status bench_model(ig_cli *cli, const bench_options *o) {
    const ig_allocator *a = &cli->allocator;
    const double began = ig_clock_seconds();
    if (!o->model) return IG_FAIL(IG_ERR_ARGUMENT, "--model is required: the GGUF file to measure");
    model_bench b = {
        .options = {.path = o->model,
                    .device = o->device,
                    .gpu_layers = o->gpu_layers,
                    .cache = o->cache,
                    .cache_v = o->cache_v,
                    .threads = o->threads,
                    .threads_batch = o->threads_batch,
                    .no_pack = o->no_pack,
                    .chunk = o->chunk,
                    .batch = o->sizes.batch},
        .runs = o->runs > 0 ? o->runs : DEFAULT_RUNS,
    };
    IG_TRY(list_tests(&b, o));
    ig_status status = loaded_model_open(cli, &b.options, &b.model);
    if (status == IG_OK) status = prepare(&b, began);
    if (status == IG_OK) status = run_all(&b);
    note_peak(&b);
    ig_free(a, b.read);
    if (status == IG_OK) {
        for (int i = 0; i < b.n_tests; i++) settle(&b, &b.tests[i]);
        status = cost_of_submits(&b);
    }
    if (status == IG_OK) {
        status = cli->json ? print_json(&b) : print_table(&b);
    }
    loaded_model_close(&b.model);
    ig_free(a, b.tokens);
    ig_free(a, b.logits);
    ig_free(a, b.step);
    for (int i = 0; i < b.n_tests; i++) {
        ig_free(a, b.tests[i].rates);
        ig_free(a, b.tests[i].times);
    }
    return status;
}
