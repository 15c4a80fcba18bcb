/*
 * GET /metrics: families with HELP and TYPE, histograms that add up, labels that are escaped, and
 * the same numbers in both forms.
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "directory.h"
#include "ingot/testing.h"
#include "server/metrics.h"
#include "unit/check.h"

typedef struct fixture {
    ig_models *models;
    ig_metrics *metrics;
    ig_http_stats http;
    ig_out text;
} fixture;

static fixture open_all(void **state, const char *name) {
    char path[PATH_BYTES];
    fixture f = {0};
    const ig_models_options options = {.ctx = {.device = "cpu", .threads = 1},
                                       .engine = {.n_sequences = 2, .kv_bytes = 1 << 20}};
    must(ig_models_create(&options, &f.models));
    directory_path(state, "a.gguf", path);
    must(ig_synthetic_model_write("llama", IG_Q8_0, path));
    must(ig_models_add(f.models, &(ig_models_entry){.path = path, .names = name}));
    must(ig_metrics_create(&ig_heap, "abc123", &f.metrics));
    return f;
}

static void close_all(fixture *f) {
    ig_out_deinit(&f->text);
    ig_metrics_destroy(f->metrics);
    ig_models_destroy(f->models);
}

static const char *scrape(fixture *f, ig_metrics_form form) {
    ig_out_clear(&f->text);
    ig_metrics_write(f->metrics, f->models, &f->http, form, &f->text);
    ig_out_raw(&f->text, "", 1);
    assert_false(f->text.failed);
    return f->text.bytes;
}

static ig_served *load(fixture *f) {
    ig_served *served = NULL;
    must(ig_models_load(f->models, NULL));
    assert_true(ig_models_settle(f->models, 60000));
    assert_int_equal(ig_models_acquire(f->models, NULL, false, NULL, &served), IG_SERVED_READY);
    return served;
}

static ig_status nothing(ig_adapter *adapter, void *user) {
    (void)adapter;
    (void)user;
    return IG_OK;
}

/* Generates, and waits until the engine has counted it. */
static void run_tokens(const ig_served *served, int64_t n) {
    const ig_request request = {
        .tokens = (const int32_t[]){5, 6, 7}, .n_tokens = 3, .max_tokens = n, .ignore_eos = true};
    ig_job *job = NULL;
    ig_job_event event = {.type = IG_JOB_EVENT_PROGRESS};
    must(ig_engine_submit(served->engine, &request, &job));
    while (event.type != IG_JOB_EVENT_DONE) {
        assert_true(ig_job_wait(job, -1));
        while (ig_job_poll(job, &event)) {
        }
    }
    ig_job_release(job);
    must(ig_engine_call(served->engine, nothing, NULL));
}

/* The value of a line that begins with these words, up to the space; NAN: there is none. */
static double value_of(const char *text, const char *words) {
    const size_t n = strlen(words);
    for (const char *at = text; at; at = strchr(at, '\n'), at += at != NULL)
        if (strncmp(at, words, n) == 0 && at[n] == ' ') return strtod(at + n, NULL);
    return NAN;
}

static void has(const char *text, const char *words, double value) {
    const double got = value_of(text, words);
    if (!(got == value)) fail_msg("%s is %g, not %g, in\n%s", words, got, value, text);
}

/* ---- the format ---- */

/* Each sample belongs to the family that HELP and TYPE named last, and no family comes twice. */
static void every_sample_belongs_to_its_family(void **state) {
    fixture f = open_all(state, "a");
    ig_models_release(f.models, load(&f));
    ig_metrics_count_exchange(f.metrics, "/health", 200);
    char family[128] = "", seen[16384] = "";
    for (const char *at = scrape(&f, IG_METRICS_PROMETHEUS); *at; at = strchr(at, '\n') + 1) {
        char word[128];
        if (sscanf(at, "# HELP %127s", word) == 1) {
            char mark[130];
            snprintf(family, sizeof family, "%s", word);
            snprintf(mark, sizeof mark, "\n%s\n", family);
            assert_null(strstr(seen, mark));
            strncat(seen, mark, sizeof seen - strlen(seen) - 1);
        } else if (sscanf(at, "# TYPE %127s", word) == 1) {
            assert_string_equal(word, family);
        } else {
            assert_int_equal(strncmp(at, family, strlen(family)), 0);
        }
    }
    close_all(&f);
}

/* Buckets never fall, and the last one is the count. */
static void histograms_add_up(void **state) {
    fixture f = open_all(state, "a");
    ig_served *served = load(&f);
    run_tokens(served, 5);
    ig_models_release(f.models, served);
    const char *text = scrape(&f, IG_METRICS_PROMETHEUS);
    double before = 0;
    int n_buckets = 0;
    for (const char *at = text; (at = strstr(at, "\ningot_inter_token_latency_seconds_bucket"));) {
        const double n = strtod(strchr(++at, ' '), NULL);
        assert_true(n >= before);
        before = n;
        n_buckets++;
    }
    assert_int_equal(n_buckets, IG_HISTOGRAM_BUCKETS + 1);
    has(text, "ingot_inter_token_latency_seconds_bucket{model=\"a\",le=\"+Inf\"}", 4);
    has(text, "ingot_inter_token_latency_seconds_count{model=\"a\"}", 4);
    has(text, "ingot_time_to_first_token_seconds_count{model=\"a\"}", 1);
    has(text, "ingot_request_prompt_tokens_bucket{model=\"a\",le=\"2.0\"}", 0);
    has(text, "ingot_request_prompt_tokens_bucket{model=\"a\",le=\"4.0\"}", 1);
    has(text, "ingot_request_prompt_tokens_sum{model=\"a\"}", 3);
    close_all(&f);
}

static void openmetrics_names_families_without_total_and_ends(void **state) {
    fixture f = open_all(state, "a");
    ig_models_release(f.models, load(&f));
    const char *text = scrape(&f, IG_METRICS_OPENMETRICS);
    assert_non_null(strstr(text, "# TYPE ingot_generation_tokens counter\n"));
    assert_non_null(strstr(text, "\ningot_generation_tokens_total{model=\"a\"} 0\n"));
    const size_t n = strlen(text);
    assert_string_equal(text + n - strlen("# EOF\n"), "# EOF\n");
    text = scrape(&f, IG_METRICS_PROMETHEUS);
    assert_non_null(strstr(text, "# TYPE ingot_generation_tokens_total counter\n"));
    assert_null(strstr(text, "EOF"));
    assert_int_equal(ig_metrics_form_of(NULL), IG_METRICS_PROMETHEUS);
    assert_int_equal(ig_metrics_form_of("text/plain;q=0.5"), IG_METRICS_PROMETHEUS);
    assert_int_equal(ig_metrics_form_of("application/openmetrics-text; version=1.0.0, */*;q=0.1"),
                     IG_METRICS_OPENMETRICS);
    close_all(&f);
}

static void labels_are_escaped(void **state) {
    fixture f = open_all(state, "a\\b\"c\nd");
    ig_models_release(f.models, load(&f));
    has(scrape(&f, IG_METRICS_PROMETHEUS), "ingot_requests_running{model=\"a\\\\b\\\"c\\nd\"}", 0);
    close_all(&f);
}

/* ---- the numbers ---- */

static void counters_are_those_of_the_engine(void **state) {
    fixture f = open_all(state, "a");
    ig_served *served = load(&f);
    run_tokens(served, 5);
    const char *text = scrape(&f, IG_METRICS_PROMETHEUS);
    has(text, "ingot_prompt_tokens_total{model=\"a\"}", 3);
    has(text, "ingot_generation_tokens_total{model=\"a\"}", 5);
    has(text, "ingot_requests_submitted_total{model=\"a\"}", 1);
    has(text, "ingot_requests_finished_total{model=\"a\",reason=\"length\"}", 1);
    has(text, "ingot_requests_finished_total{model=\"a\",reason=\"stop\"}", 0);
    has(text, "ingot_models{state=\"ready\"}", 1);
    has(text, "ingot_model_info{id=\"a\",format=\"gguf\",quant=\"Q8_0\",device=\"cpu:0\"}", 1);
    ig_models_release(f.models, served);
    close_all(&f);
}

static void gateways_find_the_names_that_they_look_for(void **state) {
    fixture f = open_all(state, "a");
    ig_served *served = load(&f);
    ig_engine_stats stats;
    char info[160];
    ig_engine_get_stats(served->engine, &stats);
    ig_models_release(f.models, served);
    const char *text = scrape(&f, IG_METRICS_PROMETHEUS);
    has(text, "vllm:num_requests_waiting{model_name=\"a\"}", 0);
    has(text, "vllm:num_requests_running{model_name=\"a\"}", 0);
    has(text, "vllm:kv_cache_usage_perc{model_name=\"a\"}", 0);
    assert_true(stats.n_pages > 0);
    snprintf(info, sizeof info,
             "vllm:cache_config_info{model_name=\"a\",block_size=\"64\",num_gpu_blocks=\"%lld\"}",
             (long long)stats.n_pages);
    has(text, info, 1);
    close_all(&f);
}

static void a_model_that_is_not_loaded_has_counters_and_no_gauges(void **state) {
    fixture f = open_all(state, "a");
    const char *text = scrape(&f, IG_METRICS_PROMETHEUS);
    has(text, "ingot_generation_tokens_total{model=\"a\"}", 0);
    assert_true(isnan(value_of(text, "ingot_requests_running{model=\"a\"}")));
    has(text, "ingot_models{state=\"unloaded\"}", 1);
    has(text, "ingot_models{state=\"ready\"}", 0);
    close_all(&f);
}

static void *count_many(void *user) {
    static const char chat[] = "/v1/chat/completions", health[] = "/health";
    for (int i = 0; i < 1000; i++) {
        ig_metrics_count_exchange(user, chat, i % 2 ? 200 : 400);
        ig_metrics_count_exchange(user, health, 200);
        ig_metrics_count_exchange(user, NULL, 404);
        ig_metrics_count_exchange(user, NULL, 599);
    }
    return NULL;
}

static void replies_are_counted_by_route_and_code_from_any_thread(void **state) {
    fixture f = open_all(state, "a");
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_many, f.metrics), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    const char *text = scrape(&f, IG_METRICS_PROMETHEUS);
    has(text, "ingot_requests_total{route=\"/v1/chat/completions\",code=\"200\"}", 2000);
    has(text, "ingot_requests_total{route=\"/v1/chat/completions\",code=\"400\"}", 2000);
    has(text, "ingot_requests_total{route=\"/health\",code=\"200\"}", 4000);
    has(text, "ingot_requests_total{route=\"other\",code=\"404\"}", 4000);
    has(text, "ingot_requests_total{route=\"other\",code=\"other\"}", 4000);
    close_all(&f);
}

static void the_transport_and_the_process_are_counted(void **state) {
    fixture f = open_all(state, "a");
    f.http = (ig_http_stats){.accepted = 7, .n_idle = 3, .n_busy = 2};
    f.http.rejected[IG_HTTP_REJECT_KEY] = 5;
    ig_metrics_add_grammar(f.metrics, 20);
    const char *text = scrape(&f, IG_METRICS_PROMETHEUS);
    has(text, "ingot_connections{state=\"idle\"}", 3);
    has(text, "ingot_connections{state=\"busy\"}", 2);
    has(text, "ingot_connections_accepted_total", 7);
    has(text, "ingot_rejected_total{reason=\"key\"}", 5);
    has(text, "ingot_grammar_compile_seconds_count", 1);
    has(text, "ingot_grammar_compile_seconds_bucket{le=\"0.015\"}", 0);
    has(text, "ingot_grammar_compile_seconds_bucket{le=\"0.025\"}", 1);
    assert_true(value_of(text, "process_resident_memory_bytes") > 1e6);
    assert_true(value_of(text, "process_open_fds") >= 3);
    assert_true(value_of(text, "process_cpu_seconds_total") > 0);
    assert_true(value_of(text, "process_start_time_seconds") > 1.6e9);
    assert_non_null(strstr(text, "commit=\"abc123\""));
    close_all(&f);
}

/* Names in docs/serving.md, such as ingot_requests_waiting, exist. */
static void the_page_names_metrics_that_exist(void **state) {
    static char page[1 << 17];
    fixture f = open_all(state, "a");
    FILE *file = fopen(PROJECT_DIR "/docs/serving.md", "r");
    assert_non_null(file);
    page[fread(page, 1, sizeof page - 1, file)] = 0;
    fclose(file);
    const char *text = scrape(&f, IG_METRICS_PROMETHEUS);
    int n_names = 0;
    for (const char *at = page; (at = strstr(at, "`ingot_")); at++, n_names++) {
        char line[160];
        snprintf(line, sizeof line, "# TYPE %.*s ", (int)strcspn(at + 1, "`{ "), at + 1);
        if (!strstr(text, line)) fail_msg("docs/serving.md: no metric has \"%s\"", line);
    }
    assert_true(n_names >= 8);
    close_all(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(every_sample_belongs_to_its_family),
        IN_DIRECTORY(histograms_add_up),
        IN_DIRECTORY(openmetrics_names_families_without_total_and_ends),
        IN_DIRECTORY(labels_are_escaped),
        IN_DIRECTORY(counters_are_those_of_the_engine),
        IN_DIRECTORY(gateways_find_the_names_that_they_look_for),
        IN_DIRECTORY(a_model_that_is_not_loaded_has_counters_and_no_gauges),
        IN_DIRECTORY(replies_are_counted_by_route_and_code_from_any_thread),
        IN_DIRECTORY(the_transport_and_the_process_are_counted),
        IN_DIRECTORY(the_page_names_metrics_that_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
