#include "cli/bench/serve_figures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/app/output.h"
#include "cli/bench/cmd_bench.h"
#include "cli/view/plot.h"

enum { LEVELS_DRAWN = 16, CELL_BYTES = 32 };

/* ---- Figures ---- */

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The smallest value that at least this share of all does not exceed. */
static double quantile(const double *sorted, size_t count, double share) {
    const size_t rank = (size_t)ceil(share * (double)count);
    return sorted[rank > 0 ? rank - 1 : 0];
}

static serve_quantiles quantiles_of(double *values, size_t count) {
    if (count == 0) return (serve_quantiles){NAN, NAN, NAN, NAN};
    qsort(values, count, sizeof *values, by_value);
    return (serve_quantiles){quantile(values, count, 0.5), quantile(values, count, 0.9),
                             quantile(values, count, 0.99), values[count - 1]};
}

static int64_t decoded_of(const serve_reply *r) {
    return r->decoded_tokens >= 0 ? r->decoded_tokens : r->n_pieces;
}

/* `stream_ms` and `n_gaps`: the time from the first to the last token, and the tokens in it. */
static void add_reply(serve_figures *f, const serve_reply *r, double *stream_ms, int64_t *n_gaps) {
    if (*r->error) return;
    const int64_t decoded = decoded_of(r);
    f->n_ok++;
    f->decoded_tokens += decoded;
    f->prompt_tokens += r->prompt_tokens > 0 ? r->prompt_tokens : 0;
    f->cached_tokens += r->cached_tokens > 0 ? r->cached_tokens : 0;
    f->knows_cached = f->knows_cached || r->cached_tokens >= 0;
    if (decoded < 2 || !isfinite(r->first_ms)) return;
    *stream_ms += r->last_ms - r->first_ms;
    *n_gaps += decoded - 1;
}

ig_status serve_figures_of(const ig_cli *cli, const serve_level *level, serve_figures *out) {
    const size_t most = level->n_replies > level->n_gaps ? level->n_replies : level->n_gaps;
    double *values = ig_alloc(&cli->allocator, most + 1, sizeof *values);
    if (!values) return IG_FAIL(IG_ERR_MEMORY, "bench serve: no memory for %zu figures", most);
    serve_figures f = {
        .n_clients = level->n_clients, .n_requests = level->n_replies, .seconds = level->ms / 1e3};
    double stream_ms = 0;
    int64_t n_gaps = 0;
    for (size_t i = 0; i < level->n_replies; i++)
        add_reply(&f, &level->replies[i], &stream_ms, &n_gaps);
    f.stream_tokens_per_s = stream_ms > 0 ? (double)n_gaps / stream_ms * 1e3 : NAN;
    f.tokens_per_s = f.seconds > 0 ? (double)f.decoded_tokens / f.seconds : NAN;
    f.prompt_tokens_per_s = f.seconds > 0 ? (double)f.prompt_tokens / f.seconds : NAN;
    size_t count = 0;
    for (size_t i = 0; i < level->n_replies; i++) {
        const serve_reply *r = &level->replies[i];
        if (!*r->error && isfinite(r->first_ms)) values[count++] = r->first_ms - r->due_ms;
    }
    f.ttft_ms = quantiles_of(values, count);
    for (size_t i = 0; i < level->n_gaps; i++) values[i] = level->gaps[i].ms;
    f.itl_ms = quantiles_of(values, level->n_gaps);
    ig_free(&cli->allocator, values);
    *out = f;
    return IG_OK;
}

double serve_long_stall_ms(const serve_level *level) {
    const serve_long_prompt *p = &level->long_prompt;
    double worst = NAN;
    if (!p->was_sent || *p->reply.error || !isfinite(p->reply.first_ms)) return NAN;
    for (size_t i = 0; i < level->n_gaps; i++) {
        const serve_gap *gap = &level->gaps[i];
        const bool overlaps =
            gap->end_ms > p->reply.due_ms && gap->end_ms - gap->ms < p->reply.first_ms;
        if (overlaps) worst = fmax(worst, gap->ms);
    }
    return worst;
}

/* ---- Errors ---- */

/* {"429": 3, "closed": 1} */
static json_t *errors_json(const serve_level *level) {
    json_t *errors = json_object();
    for (size_t i = 0; i < level->n_replies; i++) {
        const char *error = level->replies[i].error;
        const json_int_t before = json_integer_value(json_object_get(errors, error));
        if (*error) json_object_set_new(errors, error, json_integer(before + 1));
    }
    return errors;
}

static void print_errors(const serve_level *level) {
    json_t *errors = errors_json(level);
    const char *error, *before = "  ";
    json_t *count;
    json_object_foreach(errors, error, count) {
        printf("%s%s: %lld", before, error, (long long)json_integer_value(count));
        before = ", ";
    }
    json_decref(errors);
}

/* ---- The table ---- */

void serve_table_head(const serve_target *t) {
    const bench_serve_options *o = t->options;
    char model[SERVE_MODEL_BYTES], rate[CELL_BYTES] = "closed loop";
    if (o->rate > 0) snprintf(rate, sizeof rate, "%g requests/s", o->rate);
    bench_print_machine();
    printf("%s, %s, %lld prompt tokens (%lld shared), %lld decoded, %s\n\n", o->url,
           ig_text_safe(*t->model ? t->model : "unnamed model", model, sizeof model),
           (long long)o->prompt_tokens, (long long)o->shared_prefix, (long long)o->max_tokens,
           rate);
    if (!t->has_tokenizer)
        printf("The server has no /tokenize: prompts have about as many words as tokens are "
               "asked for.\n\n");
    printf("  %7s %8s  %-24s  %-22s  %-24s  %8s %7s\n", "", "", "TTFT, s", "ITL, ms", "tok/s", "",
           "");
    printf("  %7s %8s  %7s %7s %8s  %6s %6s %8s  %7s %7s %8s  %8s %7s\n", "clients", "requests",
           "p50", "p90", "p99", "p50", "p99", "stall", "all", "stream", "prompt", "cached",
           "errors");
}

static const char *cell(double value, double scale, int digits, char out[CELL_BYTES]) {
    snprintf(out, CELL_BYTES, "-");
    if (isfinite(value)) snprintf(out, CELL_BYTES, "%.*f", digits, value * scale);
    return out;
}

void serve_table_row(const serve_level *level, const serve_figures *f) {
    char c[9][CELL_BYTES], cached[CELL_BYTES] = "-";
    if (f->knows_cached) snprintf(cached, sizeof cached, "%lld", (long long)f->cached_tokens);
    printf("  %7d %8zu  %7s %7s %8s  %6s %6s %8s  %7s %7s %8s  %8s %7zu", f->n_clients,
           f->n_requests, cell(f->ttft_ms.p50, 1e-3, 3, c[0]), cell(f->ttft_ms.p90, 1e-3, 3, c[1]),
           cell(f->ttft_ms.p99, 1e-3, 3, c[2]), cell(f->itl_ms.p50, 1, 1, c[3]),
           cell(f->itl_ms.p99, 1, 1, c[4]), cell(f->itl_ms.max, 1, 1, c[5]),
           cell(f->tokens_per_s, 1, 1, c[6]), cell(f->stream_tokens_per_s, 1, 1, c[7]),
           cell(f->prompt_tokens_per_s, 1, 1, c[8]), cached, f->n_requests - f->n_ok);
    print_errors(level);
    putchar('\n');
    const serve_reply *r = &level->long_prompt.reply;
    if (level->long_prompt.was_sent && *r->error)
        printf("          the long prompt failed: %s\n", r->error);
    else if (level->long_prompt.was_sent)
        printf("          a prompt of %lld tokens: TTFT %s s; the others stalled for %s ms\n",
               (long long)r->prompt_tokens, cell(r->first_ms - r->due_ms, 1e-3, 3, c[0]),
               cell(serve_long_stall_ms(level), 1, 1, c[1]));
    if (level->rss_after > 0) {
        char before[IG_UNIT_TEXT_BYTES], after[IG_UNIT_TEXT_BYTES];
        printf("          resident: %s before, %s after\n",
               ig_bytes_text(level->rss_before, before), ig_bytes_text(level->rss_after, after));
    }
}

/* ---- JSON ---- */

static json_t *quantiles_json(serve_quantiles q) {
    return json_pack("{s:o, s:o, s:o, s:o}", "p50", ig_json_real(q.p50), "p90", ig_json_real(q.p90),
                     "p99", ig_json_real(q.p99), "max", ig_json_real(q.max));
}

static json_t *long_prompt_json(const serve_level *level) {
    const serve_reply *r = &level->long_prompt.reply;
    if (!level->long_prompt.was_sent) return json_null();
    return json_pack("{s:I, s:o, s:o, s:s}", "tokens", (json_int_t)r->prompt_tokens, "ttft_ms",
                     ig_json_real(r->first_ms - r->due_ms), "stall_ms",
                     ig_json_real(serve_long_stall_ms(level)), "error", r->error);
}

static json_t *rss_json(const serve_level *level) {
    if (level->rss_after == 0) return json_null();
    return json_pack("{s:I, s:I}", "before", (json_int_t)level->rss_before, "after",
                     (json_int_t)level->rss_after);
}

json_t *serve_level_json(const serve_level *level, const serve_figures *f) {
    json_t *root = json_pack(
        "{s:i, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "clients", f->n_clients, "requests",
        (json_int_t)f->n_requests, "succeeded", (json_int_t)f->n_ok, "errors", errors_json(level),
        "seconds", ig_json_real(f->seconds), "ttft_ms", quantiles_json(f->ttft_ms), "itl_ms",
        quantiles_json(f->itl_ms), "tokens_per_s", ig_json_real(f->tokens_per_s),
        "stream_tokens_per_s", ig_json_real(f->stream_tokens_per_s), "prompt_tokens_per_s",
        ig_json_real(f->prompt_tokens_per_s));
    json_t *rest =
        json_pack("{s:o, s:I, s:I, s:o, s:I, s:I, s:o, s:o}", "stall_ms",
                  ig_json_real(f->itl_ms.max), "prompt_tokens", (json_int_t)f->prompt_tokens,
                  "decoded_tokens", (json_int_t)f->decoded_tokens, "cached_tokens",
                  f->knows_cached ? json_integer(f->cached_tokens) : json_null(), "compared",
                  (json_int_t)level->n_compared, "different", (json_int_t)level->n_different,
                  "long_prompt", long_prompt_json(level), "rss_bytes", rss_json(level));
    const bool whole = root && rest && json_object_update(root, rest) == 0;
    json_decref(rest);
    if (whole) return root;
    json_decref(root);
    return NULL;
}

/* ---- The picture ---- */

void serve_plot_print(FILE *to, const void *what) {
    enum { RATE, STREAM_RATE, TTFT_P50, TTFT_P99, ITL_P50, ITL_P99, STALL, CURVES };
    enum { PANEL_HEIGHT = 300 };
    const serve_plot *plot = what;
    const size_t count = plot->n_figures < LEVELS_DRAWN ? plot->n_figures : LEVELS_DRAWN;
    double x[LEVELS_DRAWN], y[CURVES][LEVELS_DRAWN];
    for (size_t i = 0; i < count; i++) {
        const serve_figures *f = &plot->figures[i];
        x[i] = f->n_clients;
        y[RATE][i] = f->tokens_per_s, y[STREAM_RATE][i] = f->stream_tokens_per_s;
        y[TTFT_P50][i] = f->ttft_ms.p50 / 1e3, y[TTFT_P99][i] = f->ttft_ms.p99 / 1e3;
        y[ITL_P50][i] = f->itl_ms.p50, y[ITL_P99][i] = f->itl_ms.p99;
        y[STALL][i] = f->itl_ms.max;
    }
    static const char *const names[CURVES] = {"all streams", "one stream", "p50",        "p99",
                                              "p50",         "p99",        "worst stall"};
    ig_series series[CURVES];
    for (int c = 0; c < CURVES; c++)
        series[c] = (ig_series){.name = names[c], .x = x, .y = y[c], .count = count, .dots = true};
    const ig_plot panels[] = {
        {.title = "Decoded tokens per second",
         .y_label = "tok/s",
         .series = series + RATE,
         .n_series = 2,
         .log_x = true,
         .legend_above = true,
         .height = PANEL_HEIGHT},
        {.title = "Time to first token",
         .y_label = "s",
         .series = series + TTFT_P50,
         .n_series = 2,
         .log_x = true,
         .legend_above = true,
         .log_y = true,
         .height = PANEL_HEIGHT},
        {.title = "Inter-token latency",
         .x_label = "clients",
         .y_label = "ms",
         .series = series + ITL_P50,
         .n_series = 3,
         .log_x = true,
         .legend_above = true,
         .log_y = true,
         .height = PANEL_HEIGHT},
    };
    ig_plots_print(to, plot->title, panels, sizeof panels / sizeof panels[0]);
}
