#include "cli/app/report_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json_parse.h"
#include "base/machine_memory.h"
#include "cli/app/alloc_fault.h"
#include "ingot/report.h"

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Times have three decimals. */
static json_t *ms_json(double ms) { return ig_json_real(round(ms * 1e3) / 1e3); }

void ig_run_begin(ig_run *run) {
    *run = (ig_run){
        .began_ms = now_ms(), .began_ns = ig_clock_ns(), .json_failures = ig_json_failures()};
}

static bool is_wanted(const ig_cli *cli) { return cli->json || cli->report; }

/* ---- Fields set by a command ---- */

/* The report's fields, by name; NULL: no report requested, or out of memory. */
static json_t *told(const ig_cli *cli) {
    if (is_wanted(cli) && !cli->run->told) cli->run->told = json_object();
    return is_wanted(cli) ? cli->run->told : NULL;
}

/* A field that is an object or a list, created on first use. */
static json_t *told_field(const ig_cli *cli, const char *name, json_t *(*make)(void)) {
    json_t *all = told(cli), *field = json_object_get(all, name);
    if (all && !field) json_object_set_new(all, name, field = make());
    return field;
}

void ig_run_model(const ig_cli *cli, const char *name) {
    json_object_set_new(told(cli), "model", ig_json_text(name));
}

static void tell_time(const ig_cli *cli, const char *stage, double ms, bool adds_up) {
    char key[64];
    json_t *timings = told_field(cli, "timings", json_object);
    snprintf(key, sizeof key, "%s_ms", stage);
    const json_t *before = json_object_get(timings, key);
    if (!before || adds_up)
        json_object_set_new(timings, key, ms_json(json_number_value(before) + ms));
}

void ig_run_stage(const ig_cli *cli, const char *stage, double ms) {
    tell_time(cli, stage, ms, true);
}

void ig_run_first(const ig_cli *cli, const char *stage, double ms) {
    tell_time(cli, stage, ms, false);
}

/* Some events are reported late: the list is kept in the order of time. */
void ig_run_event(const ig_cli *cli, const char *event, double ms_ago) {
    json_t *list = told_field(cli, "stream_events", json_array);
    const double at = now_ms() - cli->run->began_ms - ms_ago;
    size_t i = json_array_size(list);
    while (i > 0 && json_number_value(json_object_get(json_array_get(list, i - 1), "at_ms")) > at)
        i--;
    if (list)
        json_array_insert_new(list, i,
                              json_pack("{s:s, s:o}", "event", event, "at_ms", ms_json(at)));
}

void ig_run_wrote(const ig_cli *cli, const char *kind, const char *path) {
    json_t *list = told_field(cli, "artifacts", json_array);
    size_t i;
    const json_t *before;
    json_array_foreach(list, i, before) {
        const char *known = json_string_value(json_object_get(before, "path"));
        if (known && strcmp(known, path) == 0) return; /* the same file, written again */
    }
    if (list)
        json_array_append_new(list,
                              json_pack("{s:s, s:o}", "kind", kind, "path", ig_json_text(path)));
}

ig_status ig_run_write(const ig_cli *cli, const char *kind, const char *path, ig_print_fn *print,
                       const void *what) {
    IG_TRY(ig_file_replace(&cli->allocator, path, print, what));
    ig_run_wrote(cli, kind, path);
    return IG_OK;
}

void ig_run_batch(const ig_cli *cli, int64_t rows) {
    json_object_set_new(told(cli), "batch_size", json_integer(rows));
}

void ig_run_prefix(const ig_cli *cli, int64_t tokens) {
    json_t *hits = told_field(cli, "cache_hits", json_object);
    const json_int_t before = json_integer_value(json_object_get(hits, "prefix"));
    json_object_set_new(hits, "prefix", json_integer(before + tokens));
}

void ig_run_hidden(const ig_cli *cli, const float *hidden, int64_t count) {
    if (told(cli)) json_object_set_new(told(cli), "latent_stats", ig_json_stats(hidden, count));
}

void ig_run_estimate(const ig_cli *cli, uint64_t bytes) { cli->run->estimate_bytes = bytes; }

ig_status ig_run_result(const ig_cli *cli, json_t *root) {
    if (!root) return IG_FAIL(IG_ERR_MEMORY, "JSON: no memory for the result");
    json_decref(cli->run->result);
    cli->run->result = cli->json ? root : NULL;
    if (!cli->json) json_decref(root);
    return IG_OK;
}

/* ---- Numbers ---- */

static int by_size(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Interpolates between the two neighbors in a sorted list. */
static double quantile(const float *sorted, int64_t count, double share) {
    const double place = share * (double)(count - 1);
    const int64_t below = (int64_t)place, above = below + 1 < count ? below + 1 : below;
    const double low = (double)sorted[below], high = (double)sorted[above];
    return low + (high - low) * (place - (double)below);
}

json_t *ig_json_stats(const float *numbers, int64_t count) {
    float *sorted = count > 0 && numbers ? ig_alloc(&ig_heap, (size_t)count, sizeof *sorted) : NULL;
    if (!sorted) return json_null();
    memcpy(sorted, numbers, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, by_size);
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) sum += (double)numbers[i];
    const double mean = sum / (double)count;
    for (int64_t i = 0; i < count; i++)
        squares += ((double)numbers[i] - mean) * ((double)numbers[i] - mean);
    json_t *stats = json_pack("{s:o, s:o, s:o, s:o}", "mean", ig_json_real(mean), "std",
                              ig_json_real(sqrt(squares / (double)count)), "p50",
                              ig_json_real(quantile(sorted, count, 0.5)), "p95",
                              ig_json_real(quantile(sorted, count, 0.95)));
    ig_free(&ig_heap, sorted);
    return stats ? stats : json_null();
}

/* ---- Contexts ---- */

typedef json_int_t join_fn(json_int_t a, json_int_t b);

static json_int_t add(json_int_t a, json_int_t b) { return a + b; }
static json_int_t larger(json_int_t a, json_int_t b) { return a > b ? a : b; }

static void join_numbers(json_t *into, json_t *more, join_fn *join) {
    const char *key;
    json_t *value;
    json_object_foreach(more, key, value) {
        const json_t *before = json_object_get(into, key);
        if (json_is_integer(value) && json_is_integer(before))
            json_object_set_new(
                into, key,
                json_integer(join(json_integer_value(before), json_integer_value(value))));
        else if (!before || json_is_null(before))
            json_object_set(into, key, value);
    }
}

/* A run with several contexts: lists are concatenated, counts added, memory is the maximum; all
 * other fields are those of the last context. */
static void join_contexts(json_t *into, json_t *more) {
    static const char *const lists[] = {"backend_timeline", "fallbacks"};
    static const struct {
        const char *name;
        join_fn *join;
    } numbers[] = {{"device_placement", add},
                   {"cache_hits", add},
                   {"counters", add},
                   {"compile_cache", add},
                   {"memory", larger}};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        json_t *list = json_object_get(into, lists[i]);
        json_array_extend(list, json_object_get(more, lists[i]));
        json_object_set(more, lists[i], list);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        json_t *object = json_object_get(into, numbers[i].name);
        join_numbers(object, json_object_get(more, numbers[i].name), numbers[i].join);
        json_object_set(more, numbers[i].name, object);
    }
    json_object_update(into, more);
}

static void take(const ig_cli *cli, const ig_ctx *ctx) {
    json_t *report = NULL;
    const uint64_t submit_ns = ig_report_first_submit(ctx);
    if (cli->verbose) ig_report_log_timeline(ctx);
    if (!is_wanted(cli)) return;
    if (ig_json_report(ctx, &report) != IG_OK) {
        cli->run->lost = true;
        return;
    }
    if (submit_ns > 0)
        ig_run_first(cli, "first_submit", (double)(submit_ns - cli->run->began_ns) / 1e6);
    if (!cli->run->contexts) {
        cli->run->contexts = report;
        return;
    }
    join_contexts(cli->run->contexts, report);
    json_decref(report);
}

/* A context that was merged early is not merged again when it closes. */
void ig_run_context(const ig_cli *cli, const ig_ctx *ctx) {
    if (ctx && ctx != cli->run->asked) take(cli, ctx);
    cli->run->asked = ctx == cli->run->asked ? NULL : ctx;
}

/* ---- The complete report ---- */

/* The memory that a run without enough of it would have needed: the estimate, but at least the peak
 * plus the largest failed request. */
static json_t *needed_memory(const ig_cli *cli) {
    struct rusage usage;
    const bool known = getrusage(RUSAGE_SELF, &usage) == 0;
    const uint64_t had = known ? (uint64_t)usage.ru_maxrss * 1024 : 0;
    const uint64_t least = had + atomic_load(&cli->fault->refused);
    const uint64_t thought = cli->run->estimate_bytes;
    return ig_json_count(thought > least ? thought : least);
}

static json_t *error_of(const ig_cli *cli, ig_status status, int code) {
    char words[IG_ERROR_BYTES];
    if (status == IG_OK) return json_null();
    json_t *error = json_pack("{s:s, s:o, s:i, s:s}", "name", ig_error_name(status), "message",
                              ig_json_text(ig_cli_outcome(cli, status, words)), "exit_code", code,
                              "hint", ig_error_hint(status));
    if (status != IG_ERR_MEMORY) return error;
    json_object_set_new(error, "estimate", needed_memory(cli));
    const uint64_t there = ig_memory_available(), allowed = cli->memory_bytes;
    json_object_set_new(error, "available",
                        ig_json_count(allowed && allowed < there ? allowed : there));
    return error;
}

static json_t *option_json(const ig_opt *opt, const void *at) {
    if (opt->flags & OPT_REPEAT) {
        const ig_texts *texts = at;
        json_t *list = json_array();
        for (int i = 0; i < texts->count; i++)
            json_array_append_new(list, ig_json_text(texts->at[i]));
        return list;
    }
    const int64_t whole = opt->kind == OPT_INT ? *(const int64_t *)at : 0;
    const int choice = opt->kind == OPT_CHOICE ? *(const int *)at : -1;
    const char *text = opt->kind == OPT_TEXT ? *(const char *const *)at : NULL;
    switch (opt->kind) {
    case OPT_FLAG: return json_boolean(*(const bool *)at);
    case OPT_INT: return whole == IG_NOT_GIVEN ? json_null() : json_integer(whole);
    case OPT_BYTES: return ig_json_count(*(const uint64_t *)at);
    case OPT_REAL: return ig_json_real(*(const double *)at);
    case OPT_TEXT: return text ? ig_json_text(text) : json_null();
    case OPT_CHOICE: return choice < 0 ? json_null() : json_string(opt->choices[choice]);
    case OPT_TABLE:
    case OPT_IGNORED:
    case OPT_REFUSED:
    case OPT_END: break;
    }
    return json_null();
}

/* Every option of the command with its effective value: given, environment or default. */
static json_t *options_json(const ig_opt *opts, const char *options) {
    json_t *all = json_object();
    if (!opts || !options) return all;
    for (ig_opt_walk w = ig_opts_first(opts); w.opt; w = ig_opts_next(w))
        if (!(w.opt->flags & OPT_HIDDEN))
            json_object_set_new(all, w.opt->name, option_json(w.opt, options + w.to));
    return all;
}

/* A scheduler identifies the run through the environment. */
static void take_environment(json_t *report) {
    static const struct {
        const char *field, *variable;
    } rows[] = {{"job_id", "INGOT_JOB_ID"},
                {"trace_id", "INGOT_TRACE_ID"},
                {"worker_id", "INGOT_WORKER_ID"},
                {"batch_group_id", "INGOT_BATCH_GROUP_ID"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *value = getenv(rows[i].variable);
        if (value && *value) json_object_set_new(report, rows[i].field, ig_json_text(value));
    }
}

/* Merges the fields of `more` into `into`, one level deep. */
static void put_all(json_t *into, json_t *more) {
    const char *key;
    json_t *value;
    json_object_foreach(more, key, value) {
        json_t *before = json_object_get(into, key);
        if (json_is_object(before) && json_is_object(value))
            json_object_update(before, value);
        else if (!json_is_null(value) || !before)
            json_object_set(into, key, value);
    }
}

/* All fields as in an empty context, overwritten by the known ones. */
static json_t *report_of(const ig_cli *cli, const void *options, ig_status status, int code) {
    const double now = now_ms();
    char id[48];
    json_t *r = NULL;
    if (ig_json_report(NULL, &r) != IG_OK) return NULL;
    put_all(r, cli->run->contexts);
    take_environment(r);
    snprintf(id, sizeof id, "%llx-%x", (unsigned long long)(cli->run->began_ms * 1e3),
             (unsigned)getpid());
    json_object_set_new(r, "run_id", json_string(id));
    json_object_set_new(r, "task", json_string(cli->command ? cli->command->name : ""));
    json_object_set_new(r, "enqueued_at_ms", json_integer((json_int_t)cli->run->began_ms));
    json_object_set_new(r, "queue_wait_ms", json_real(0));
    put_all(r, cli->run->told);
    json_object_set_new(json_object_get(r, "timings"), "total_ms",
                        ms_json(now - cli->run->began_ms));
    json_object_set_new(json_object_get(r, "config_resolved"), "options",
                        options_json(cli->command ? cli->command->opts : NULL, options));
    json_object_set_new(r, "error", error_of(cli, status, code));
    return r;
}

static void print(FILE *to, const void *what) {
    const json_t *root = what;
    ig_json_write(to, root, IG_JSON_INDENTED);
}

/* The report of a run that failed can be incomplete. */
static ig_status check_complete(const ig_cli *cli, ig_status status) {
    const bool failed = cli->run->lost || ig_json_failures() != cli->run->json_failures;
    if (status != IG_OK || !failed) return IG_OK;
    return IG_FAIL(IG_ERR_MEMORY, "report: no memory for all of its fields");
}

/* The command's own fields come first; the report adds missing fields, also inside objects. */
static ig_status print_result(const ig_cli *cli, json_t *report, ig_status status) {
    json_t *root = cli->run->result ? json_incref(cli->run->result) : json_object();
    const char *key;
    json_t *value;
    json_object_foreach(report, key, value) {
        json_t *own = json_object_get(root, key);
        if (!own)
            json_object_set(root, key, value);
        else if (json_is_object(own) && json_is_object(value))
            json_object_update_missing(own, value);
    }
    if (check_complete(cli, status) != IG_OK) {
        json_decref(root);
        return IG_ERR_MEMORY;
    }
    const bool written = ig_json_write(
        stdout, root, cli->command && cli->command->json_lines ? IG_JSON_LINE : IG_JSON_INDENTED);
    json_decref(root);
    if (!written && !ferror(stdout)) return IG_FAIL(IG_ERR_MEMORY, "JSON: no memory to print it");
    return IG_OK;
}

int ig_run_finish(const ig_cli *cli, const void *options, ig_status status, int code) {
    if (!is_wanted(cli)) return code;
    json_t *r = report_of(cli, options, status, code);
    ig_status written =
        r ? check_complete(cli, status) : IG_FAIL(IG_ERR_MEMORY, "report: no memory");
    if (written == IG_OK && cli->report)
        written = ig_file_replace(&cli->allocator, cli->report, print, r);
    if (r && cli->json) {
        const ig_status printed = print_result(cli, r, status);
        if (written == IG_OK) written = printed;
    }
    json_decref(r);
    json_decref(cli->run->contexts);
    json_decref(cli->run->told);
    json_decref(cli->run->result);
    *cli->run = (ig_run){0};
    if (written == IG_OK) return code;
    const int failed = ig_cli_fail(cli, written);
    return code ? code : failed;
}
