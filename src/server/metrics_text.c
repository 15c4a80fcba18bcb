/*
 * The text of GET /metrics: a table of families, and functions that write the samples of one.
 *
 * Prometheus 0.0.4 and OpenMetrics 1.0 differ in the names of counters' families and in the end.
 */
#include "server/metrics_text.h"

#include <stdarg.h>
#include <stdio.h>

#include "ingot/device.h"
#include "ingot/report.h"
#include "server/process_stats.h"

/* A model at the time of the scrape. */
typedef struct sample {
    ig_models_row row;
    ig_engine_stats stats;
    char id[256], quantization[24]; /* escaped, as labels */
} sample;

typedef struct writer {
    const ig_metrics *metrics;
    const ig_http_stats *http;
    ig_metrics_form form;
    sample *samples;
    size_t n_samples;
    ig_process_stats process;
    ig_out *out;
} writer;

typedef enum family_type { GAUGE, COUNTER, HISTOGRAM } family_type;
static const char *const type_names[] = {"gauge", "counter", "histogram"};

/* "name" is without the suffix _total of a counter. */
typedef struct family {
    const char *name;
    family_type type;
    const char *help;
    void (*write)(const writer *w, const struct family *f);
    size_t at; /* offset in ig_engine_stats or ig_models_row, for functions that need it */
} family;

/* ---- text ---- */

static void put(const writer *w, const char *fmt, ...) IG_PRINTF(2, 3);
static void put(const writer *w, const char *fmt, ...) {
    char text[1024];
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n > 0) ig_out_raw(w->out, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

/* Escapes a label's value; cuts what is too long. */
static void escape(const char *text, char *out, size_t room) {
    size_t n = 0;
    for (; *text && n + 3 < room; text++) {
        if (*text == '\\' || *text == '"') out[n++] = '\\';
        if (*text == '\n') out[n++] = '\\';
        out[n++] = *text == '\n' ? 'n' : *text;
    }
    out[n] = 0;
}

static const char *suffix(const family *f) { return f->type == COUNTER ? "_total" : ""; }

/* A line; `labels` are complete, without braces; "": none. */
static void put_count(const writer *w, const family *f, const char *labels, uint64_t value) {
    put(w, "%s%s%s%s%s %llu\n", f->name, suffix(f), *labels ? "{" : "", labels, *labels ? "}" : "",
        (unsigned long long)value);
}

static void put_real(const writer *w, const family *f, const char *labels, double value) {
    put(w, "%s%s%s%s%s %.15g\n", f->name, suffix(f), *labels ? "{" : "", labels, *labels ? "}" : "",
        value);
}

enum { LABELS_BYTES = 512 };
static const char *labels_of(char out[LABELS_BYTES], const char *fmt, ...) IG_PRINTF(2, 3);
static const char *labels_of(char out[LABELS_BYTES], const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    vsnprintf(out, LABELS_BYTES, fmt, args);
    va_end(args);
    return out;
}

/* Buckets count all values up to their bound, so the last one, without a bound, counts all. */
static void put_histogram(const writer *w, const family *f, const char *labels,
                          const ig_histogram *h, double (*bound)(int)) {
    const char *comma = *labels ? "," : "";
    uint64_t n = 0;
    for (int i = 0; i < IG_HISTOGRAM_BUCKETS; i++) {
        char le[32];
        n += h->count[i];
        snprintf(le, sizeof le, "%.10g", bound(i));
        put(w, "%s_bucket{%s%sle=\"%s%s\"} %llu\n", f->name, labels, comma, le,
            strchr(le, '.') ? "" : ".0", (unsigned long long)n);
    }
    n += h->count[IG_HISTOGRAM_BUCKETS];
    put(w, "%s_bucket{%s%sle=\"+Inf\"} %llu\n", f->name, labels, comma, (unsigned long long)n);
    put(w, "%s_sum%s%s%s %.15g\n", f->name, *labels ? "{" : "", labels, *labels ? "}" : "", h->sum);
    put(w, "%s_count%s%s%s %llu\n", f->name, *labels ? "{" : "", labels, *labels ? "}" : "",
        (unsigned long long)n);
}

/* ---- families of engines ---- */

static const char *const kinds[] = {"decode", "prefill", "mixed"};
static const char *const states[] = {"waiting", "prefill", "decode"};
static const char *const reasons[] = {"length", "stop", "cancelled"};

static bool is_ready(const sample *s) { return s->row.state == IG_SERVED_READY; }

static const void *member(const sample *s, const family *f) {
    return (const char *)&s->stats + f->at;
}

/* Counters stay when a model is unloaded; gauges go. */
static void write_count(const writer *w, const family *f) {
    char labels[LABELS_BYTES];
    for (const sample *s = w->samples; s < w->samples + w->n_samples; s++)
        put_count(w, f, labels_of(labels, "model=\"%s\"", s->id), *(const uint64_t *)member(s, f));
}

static void write_seconds(const writer *w, const family *f) {
    char labels[LABELS_BYTES];
    for (const sample *s = w->samples; s < w->samples + w->n_samples; s++)
        put_histogram(w, f, labels_of(labels, "model=\"%s\"", s->id), member(s, f),
                      ig_histogram_seconds);
}

static void write_tokens(const writer *w, const family *f) {
    char labels[LABELS_BYTES];
    for (const sample *s = w->samples; s < w->samples + w->n_samples; s++)
        put_histogram(w, f, labels_of(labels, "model=\"%s\"", s->id), member(s, f),
                      ig_histogram_tokens);
}

/* Three histograms in a row, one for each kind of step. */
static void write_kinds(const writer *w, const family *f, double (*bound)(int)) {
    char labels[LABELS_BYTES];
    for (const sample *s = w->samples; s < w->samples + w->n_samples; s++)
        for (int i = 0; i < IG_STEP_KINDS; i++)
            put_histogram(w, f, labels_of(labels, "model=\"%s\",kind=\"%s\"", s->id, kinds[i]),
                          (const ig_histogram *)member(s, f) + i, bound);
}
static void write_step_seconds(const writer *w, const family *f) {
    write_kinds(w, f, ig_histogram_seconds);
}
static void write_step_rows(const writer *w, const family *f) {
    write_kinds(w, f, ig_histogram_tokens);
}

static void write_gauge(const writer *w, const family *f) {
    char labels[LABELS_BYTES];
    for (const sample *s = w->samples; s < w->samples + w->n_samples; s++)
        if (is_ready(s))
            put_count(w, f, labels_of(labels, "model=\"%s\"", s->id),
                      (uint64_t) * (const int64_t *)member(s, f));
}

/* The same with vLLM's names, which gateways read. */
static void write_vllm_gauge(const writer *w, const family *f) {
    char labels[LABELS_BYTES];
    for (const sample *s = w->samples; s < w->samples + w->n_samples; s++)
        if (is_ready(s))
            put_count(w, f, labels_of(labels, "model_name=\"%s\"", s->id),
                      (uint64_t) * (const int64_t *)member(s, f));
}

static void write_waiting_reasons(const writer *w, const family *f) {
    char labels[LABELS_BYTES];
    for (const sample *s = w->samples; s < w->samples + w->n_samples; s++) {
        if (!is_ready(s)) continue;
        const int64_t preempted = s->stats.n_waiting_preempted;
        put_count(w, f, labels_of(labels, "model=\"%s\",reason=\"capacity\"", s->id),
                  (uint64_t)(s->stats.n_waiting - preempted));
        put_count(w, f, labels_of(labels, "model=\"%s\",reason=\"preempted\"", s->id),
                  (uint64_t)preempted);
    }
}

/* Pages held by the prefix cache alone count as free. */
static double usage(const ig_engine_stats *s) {
    const int64_t used = s->n_pages - s->n_free_pages - s->n_cached_pages;
    return s->n_pages > 0 && used > 0 ? (double)used / (double)s->n_pages : 0;
}

static void write_usage(const writer *w, const family *f) {
    char labels[LABELS_BYTES];
    for (const sample *s = w->samples; s < w->samples + w->n_samples; s++)
        if (is_ready(s)) put_real(w, f, labels_of(labels, "model=\"%s\"", s->id), usage(&s->stats));
}

static void write_vllm_usage(const writer *w, const family *f) {
    char labels[LABELS_BYTES];
    for (const sample *s = w->samples; s < w->samples + w->n_samples; s++)
        if (is_ready(s))
            put_real(w, f, labels_of(labels, "model_name=\"%s\"", s->id), usage(&s->stats));
}

enum { PAGE_TOKENS = 64 };

static void write_cache_config(const writer *w, const family *f) {
    char labels[LABELS_BYTES];
    for (const sample *s = w->samples; s < w->samples + w->n_samples; s++)
        if (is_ready(s))
            put_count(w, f,
                      labels_of(labels, "model=\"%s\",block_size=\"%d\",num_blocks=\"%lld\"", s->id,
                                PAGE_TOKENS, (long long)s->stats.n_pages),
                      1);
}

static void write_vllm_cache_config(const writer *w, const family *f) {
    char labels[LABELS_BYTES];
    for (const sample *s = w->samples; s < w->samples + w->n_samples; s++)
        if (is_ready(s))
            put_count(w, f,
                      labels_of(labels,
                                "model_name=\"%s\",block_size=\"%d\",num_gpu_blocks=\"%lld\"",
                                s->id, PAGE_TOKENS, (long long)s->stats.n_pages),
                      1);
}

static void write_tick_age(const writer *w, const family *f) {
    char labels[LABELS_BYTES];
    for (const sample *s = w->samples; s < w->samples + w->n_samples; s++)
        if (is_ready(s))
            put_real(w, f, labels_of(labels, "model=\"%s\"", s->id), s->stats.tick_age_ms * 1e-3);
}

static void write_finished(const writer *w, const family *f) {
    char labels[LABELS_BYTES];
    for (const sample *s = w->samples; s < w->samples + w->n_samples; s++) {
        for (int i = 0; i < 3; i++)
            put_count(w, f, labels_of(labels, "model=\"%s\",reason=\"%s\"", s->id, reasons[i]),
                      s->stats.n_finished[i]);
        put_count(w, f, labels_of(labels, "model=\"%s\",reason=\"error\"", s->id),
                  s->stats.n_failed);
    }
}

static void write_cancelled(const writer *w, const family *f) {
    char labels[LABELS_BYTES];
    for (const sample *s = w->samples; s < w->samples + w->n_samples; s++)
        for (int i = 0; i < IG_JOB_STATES; i++)
            put_count(w, f, labels_of(labels, "model=\"%s\",state=\"%s\"", s->id, states[i]),
                      s->stats.n_cancelled[i]);
}

static void write_rejected(const writer *w, const family *f) {
    char labels[LABELS_BYTES];
    for (const sample *s = w->samples; s < w->samples + w->n_samples; s++) {
        put_count(w, f, labels_of(labels, "model=\"%s\",reason=\"queue_full\"", s->id),
                  s->stats.n_rejected_queue);
        put_count(w, f, labels_of(labels, "model=\"%s\",reason=\"queue_timeout\"", s->id),
                  s->stats.n_queue_timeouts);
    }
    for (int i = 0; i < IG_HTTP_REJECTION_COUNT; i++)
        put_count(w, f, labels_of(labels, "reason=\"%s\"", ig_http_rejection_name(i)),
                  w->http->rejected[i]);
}

/* ---- families of models ---- */

static void write_model_info(const writer *w, const family *f) {
    char labels[LABELS_BYTES];
    for (const sample *s = w->samples; s < w->samples + w->n_samples; s++) {
        if (!is_ready(s)) continue;
        const char *dot = strrchr(s->row.path, '.');
        put_count(w, f,
                  labels_of(labels, "id=\"%s\",format=\"%s\",quant=\"%s\",device=\"%s\"", s->id,
                            dot && strcmp(dot, ".oam") == 0 ? "oam" : "gguf", s->quantization,
                            s->row.device),
                  1);
    }
}

static void write_load_seconds(const writer *w, const family *f) {
    char labels[LABELS_BYTES];
    for (const sample *s = w->samples; s < w->samples + w->n_samples; s++)
        if (is_ready(s))
            put_real(w, f, labels_of(labels, "model=\"%s\"", s->id), s->row.load_ms * 1e-3);
}

static void write_model_bytes(const writer *w, const family *f) {
    char labels[LABELS_BYTES];
    for (const sample *s = w->samples; s < w->samples + w->n_samples; s++)
        if (is_ready(s)) put_count(w, f, labels_of(labels, "model=\"%s\"", s->id), s->row.bytes);
}

static void write_models(const writer *w, const family *f) {
    static const char *const names[] = {"unloaded", "loading", "ready", "failed"};
    char labels[LABELS_BYTES];
    for (int state = IG_SERVED_UNLOADED; state <= IG_SERVED_FAILED; state++) {
        uint64_t n = 0;
        for (size_t i = 0; i < w->n_samples; i++) n += w->samples[i].row.state == (unsigned)state;
        put_count(w, f, labels_of(labels, "state=\"%s\"", names[state - IG_SERVED_UNLOADED]), n);
    }
}

/* ---- families of the server ---- */

static void write_routes(const writer *w, const family *f) {
    char labels[LABELS_BYTES], code[8];
    for (size_t i = 0; i < IG_METRICS_ROUTES; i++) {
        const ig_metrics_route *route = &w->metrics->routes[i];
        const char *path = (const char *)atomic_load(&route->path);
        for (size_t j = 0; j < IG_METRICS_CODES; j++) {
            const uint64_t n = atomic_load_explicit(&route->count[j], memory_order_relaxed);
            if (n == 0) continue;
            snprintf(code, sizeof code, "%d", ig_metrics_codes[j]);
            put_count(w, f,
                      labels_of(labels, "route=\"%s\",code=\"%s\"", path ? path : "other",
                                ig_metrics_codes[j] ? code : "other"),
                      n);
        }
    }
}

static void write_connections(const writer *w, const family *f) {
    put_count(w, f, "state=\"idle\"", (uint64_t)w->http->n_idle);
    put_count(w, f, "state=\"reading\"", (uint64_t)w->http->n_reading);
    put_count(w, f, "state=\"busy\"", (uint64_t)w->http->n_busy);
    put_count(w, f, "state=\"sending\"", (uint64_t)w->http->n_sending);
}

/* Counters of ig_http_stats. */
static void write_http(const writer *w, const family *f) {
    put_count(w, f, "", *(const uint64_t *)((const char *)w->http + f->at));
}

static void write_grammars(const writer *w, const family *f) {
    ig_histogram h = {.sum = (double)atomic_load(&w->metrics->grammar_us) * 1e-6};
    for (int i = 0; i <= IG_HISTOGRAM_BUCKETS; i++)
        h.count[i] = atomic_load(&w->metrics->grammars[i]);
    put_histogram(w, f, "", &h, ig_histogram_seconds);
}

static void write_build(const writer *w, const family *f) {
    char labels[LABELS_BYTES];
    const char *isa = "";
    for (size_t i = 0; ig_isa_name(i); i++) isa = ig_isa_name(i);
    put_count(w, f,
              labels_of(labels, "version=\"%s\",commit=\"%s\",isa=\"%s\"", ig_version(),
                        w->metrics->build, isa),
              1);
}

/* A double of ig_process_stats. */
static void write_process(const writer *w, const family *f) {
    put_real(w, f, "", *(const double *)((const char *)&w->process + f->at));
}
static void write_start(const writer *w, const family *f) {
    put_real(w, f, "", w->metrics->began_s);
}

/* ---- the table ---- */

#define STATS(member)   offsetof(ig_engine_stats, member)
#define HTTP(member)    offsetof(ig_http_stats, member)
#define PROCESS(member) offsetof(ig_process_stats, member)

static const family families[] = {
    {"ingot_requests_running", GAUGE, "Running sequences.", write_gauge, STATS(n_running)},
    {"ingot_requests_waiting", GAUGE, "Waiting sequences.", write_gauge, STATS(n_waiting)},
    {"ingot_requests_waiting_by_reason", GAUGE, "Waiting sequences by reason.",
     write_waiting_reasons, 0},
    {"ingot_kv_cache_usage_ratio", GAUGE, "Used fraction of the KV cache pool.", write_usage, 0},
    {"ingot_connections", GAUGE, "Open connections by state.", write_connections, 0},
    {"ingot_last_tick_age_seconds", GAUGE, "Time since the last iteration of the scheduler.",
     write_tick_age, 0},
    {"ingot_time_to_first_token_seconds", HISTOGRAM, "Time to first token.", write_seconds,
     STATS(first_token)},
    {"ingot_inter_token_latency_seconds", HISTOGRAM, "Inter-token latency.", write_seconds,
     STATS(inter_token)},
    {"ingot_request_queue_seconds", HISTOGRAM, "Queue time.", write_seconds, STATS(queue)},
    {"ingot_request_prefill_seconds", HISTOGRAM, "Prefill time.", write_seconds, STATS(prefill)},
    {"ingot_request_decode_seconds", HISTOGRAM, "Decode time.", write_seconds, STATS(decode)},
    {"ingot_request_duration_seconds", HISTOGRAM, "Request duration.", write_seconds,
     STATS(request)},
    {"ingot_step_seconds", HISTOGRAM, "Duration of scheduler steps by kind.", write_step_seconds,
     STATS(step)},
    {"ingot_grammar_compile_seconds", HISTOGRAM, "Grammar compile time.", write_grammars, 0},
    {"ingot_request_prompt_tokens", HISTOGRAM, "Prompt tokens per request.", write_tokens,
     STATS(prompt_tokens)},
    {"ingot_request_generation_tokens", HISTOGRAM, "Generated tokens per choice.", write_tokens,
     STATS(generated_tokens)},
    {"ingot_batch_rows", HISTOGRAM, "Tokens per step by kind.", write_step_rows,
     STATS(step_tokens)},
    {"ingot_prompt_tokens", COUNTER, "Prompt tokens, including cached ones.", write_count,
     STATS(n_prompt_tokens)},
    {"ingot_prompt_tokens_cached", COUNTER, "Prompt tokens found in the prefix cache.", write_count,
     STATS(n_cached_tokens)},
    {"ingot_generation_tokens", COUNTER, "Generated tokens.", write_count, STATS(n_generated)},
    {"ingot_prefix_cache_queries", COUNTER, "Prefix cache lookups.", write_count,
     STATS(n_cache_queries)},
    {"ingot_prefix_cache_hits", COUNTER, "Prefix cache lookups that found at least one page.",
     write_count, STATS(n_cache_hits)},
    {"ingot_prefix_cache_evicted_pages", COUNTER, "Pages evicted from the prefix cache.",
     write_count, STATS(n_evicted_pages)},
    {"ingot_preemptions", COUNTER, "Preempted sequences.", write_count, STATS(n_preempted)},
    {"ingot_spec_draft_tokens", COUNTER, "Draft tokens of speculative decoding.", write_count,
     STATS(n_drafted)},
    {"ingot_spec_accepted_tokens", COUNTER, "Accepted draft tokens.", write_count,
     STATS(n_accepted)},
    {"ingot_requests", COUNTER, "HTTP requests by route and status code.", write_routes, 0},
    {"ingot_requests_submitted", COUNTER, "Requests accepted by an engine.", write_count,
     STATS(n_submitted)},
    {"ingot_requests_finished", COUNTER, "Finished choices by reason, and failed requests (error).",
     write_finished, 0},
    {"ingot_requests_cancelled", COUNTER, "Cancelled requests by state.", write_cancelled, 0},
    {"ingot_rejected", COUNTER, "Rejected requests by reason.", write_rejected, 0},
    {"ingot_connections_accepted", COUNTER, "Accepted connections.", write_http, HTTP(accepted)},
    {"ingot_clients_left", COUNTER,
     "Requests whose client disconnected before the end of the reply.", write_http, HTTP(left)},
    {"ingot_cache_config_info", GAUGE, "KV cache configuration.", write_cache_config, 0},
    {"ingot_build_info", GAUGE, "Build information.", write_build, 0},
    {"ingot_model_info", GAUGE, "Loaded models.", write_model_info, 0},
    {"ingot_model_load_seconds", GAUGE, "Load time of the model.", write_load_seconds, 0},
    {"ingot_model_memory_bytes", GAUGE, "Memory of the model, including its KV cache.",
     write_model_bytes, 0},
    {"ingot_models", GAUGE, "Number of models by state.", write_models, 0},
    {"vllm:num_requests_running", GAUGE, "Same as ingot_requests_running.", write_vllm_gauge,
     STATS(n_running)},
    {"vllm:num_requests_waiting", GAUGE, "Same as ingot_requests_waiting.", write_vllm_gauge,
     STATS(n_waiting)},
    {"vllm:kv_cache_usage_perc", GAUGE, "Same as ingot_kv_cache_usage_ratio.", write_vllm_usage, 0},
    {"vllm:cache_config_info", GAUGE, "Same as ingot_cache_config_info.", write_vllm_cache_config,
     0},
    {"process_resident_memory_bytes", GAUGE, "Resident memory.", write_process,
     PROCESS(resident_bytes)},
    {"process_virtual_memory_bytes", GAUGE, "Virtual memory.", write_process,
     PROCESS(virtual_bytes)},
    {"process_cpu_seconds", COUNTER, "User and system CPU time.", write_process,
     PROCESS(cpu_seconds)},
    {"process_open_fds", GAUGE, "Open file descriptors.", write_process, PROCESS(open_fds)},
    {"process_max_fds", GAUGE, "Maximum number of file descriptors.", write_process,
     PROCESS(max_fds)},
    {"process_start_time_seconds", GAUGE, "Start time in seconds since 1970.", write_start, 0},
};

static void write_family(const writer *w, const family *f) {
    const char *end = w->form == IG_METRICS_PROMETHEUS ? suffix(f) : "";
    put(w, "# HELP %s%s %s\n# TYPE %s%s %s\n", f->name, end, f->help, f->name, end,
        type_names[f->type]);
    f->write(w, f);
}

/* ---- the scrape ---- */

static bool take_samples(writer *w, ig_models *models, const ig_allocator *a) {
    size_t room = 0;
    for (ig_models_row row; ig_models_list(models, w->n_samples, &row); w->n_samples++) {
        if (!IG_GROW(a, w->samples, &room, w->n_samples + 1)) return false;
        sample *s = &w->samples[w->n_samples];
        s->row = row;
        ig_models_stats(models, w->n_samples, &s->stats);
        escape(row.id, s->id, sizeof s->id);
        escape(row.quantization, s->quantization, sizeof s->quantization);
    }
    return true;
}

void ig_metrics_write(const ig_metrics *m, ig_models *models, const ig_http_stats *http,
                      ig_metrics_form form, ig_out *out) {
    writer w = {.metrics = m, .http = http, .form = form, .out = out};
    ig_process_stats_read(&w.process);
    if (!take_samples(&w, models, m->allocator)) out->failed = true;
    for (size_t i = 0; !out->failed && i < sizeof families / sizeof families[0]; i++)
        write_family(&w, &families[i]);
    if (form == IG_METRICS_OPENMETRICS) put(&w, "# EOF\n");
    ig_free(m->allocator, w.samples);
}
