/*
 * ingot bench serve - load for an OpenAI-compatible server on this machine.
 *
 *     target    the server: its address, key and model
 *     --idle    connections that do nothing
 *     prompts   unique, with an exact number of tokens
 *     --check   each prompt once alone: the replies that later ones must equal
 *     levels    1, 4, 16, 32 clients: one row of the table each
 */
#include "cli/bench/cmd_bench_serve.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/app/progress.h"
#include "cli/app/report_file.h"
#include "cli/bench/cmd_bench.h"
#include "cli/bench/serve_figures.h"
#include "cli/bench/serve_idle.h"
#include "cli/bench/serve_prompts.h"

enum { LEVELS = 16, CLIENTS_MOST = 10000, SALT_BYTES = 64, LEAST_REQUESTS = 16, PER_CLIENT = 4 };
static const char default_clients[] = "1,4,16,32";
static const uint64_t warmup_prompt = 1ull << 40, long_prompts = 1ull << 41; /* prompt numbers */

typedef struct bench_serve_run {
    ig_cli *cli;
    bench_serve_options filled; /* with defaults */
    const bench_serve_options *options;
    serve_target target;
    serve_prompts prompts, long_prompts;
    int64_t clients[LEVELS];
    int n_levels;
    serve_level levels[LEVELS];
    serve_figures figures[LEVELS];
    serve_idle idle;
    char **texts; /* of the level, or with --check of all levels */
    size_t n_texts;
    ig_http_bytes *alone; /* with --check: replies to `texts` */
} serve_run;

/* ---- Prompts ---- */

static void free_texts(serve_run *r) {
    for (size_t i = 0; r->texts && i < r->n_texts; i++) ig_free(&r->cli->allocator, r->texts[i]);
    ig_free(&r->cli->allocator, r->texts);
    r->texts = NULL, r->n_texts = 0;
}

static ig_status make_texts(serve_run *r, uint64_t first, size_t count) {
    free_texts(r);
    r->texts = ig_alloc(&r->cli->allocator, count, sizeof *r->texts);
    if (!r->texts) return IG_FAIL(IG_ERR_MEMORY, "bench serve: no memory for %zu prompts", count);
    ig_meter meter = ig_meter_begin(&r->cli->term, r->cli->quiet, "prompts", "", count);
    ig_status status = IG_OK;
    for (r->n_texts = 0; r->n_texts < count && status == IG_OK;) {
        status = serve_prompts_text(&r->prompts, first + r->n_texts, r->options->prompt_tokens,
                                    &r->texts[r->n_texts]);
        r->n_texts += status == IG_OK;
        ig_meter_update(&meter, r->n_texts, "");
    }
    if (status == IG_OK)
        ig_meter_end(&meter, count, "");
    else if (meter.line_open)
        fputc('\n', stderr);
    return status;
}

static size_t requests_of(const serve_run *r, int level) {
    const int64_t n = PER_CLIENT * r->clients[level];
    if (r->options->n_requests > 0) return (size_t)r->options->n_requests;
    return (size_t)(n > LEAST_REQUESTS ? n : LEAST_REQUESTS);
}

static size_t most_requests(const serve_run *r) {
    size_t most = 0;
    for (int i = 0; i < r->n_levels; i++)
        most = requests_of(r, i) > most ? requests_of(r, i) : most;
    return most;
}

/* ---- Levels ---- */

static serve_job job_of(const serve_run *r) {
    const bench_serve_options *o = r->options;
    return (serve_job){.target = &r->target,
                       .prompts = r->texts,
                       .n_prompts = r->n_texts,
                       .alone = r->alone,
                       .rate = o->rate,
                       .max_seconds = o->duration > 0 ? o->duration : INFINITY};
}

static ig_status check_replies(const serve_level *level, const char *what) {
    for (size_t i = 0; i < level->n_replies; i++)
        if (*level->replies[i].error)
            return IG_FAIL(IG_ERR_STATE, "%s: request %zu failed: %s", what, i,
                           level->replies[i].error);
    return IG_OK;
}

static ig_status run_unmeasured(serve_run *r, serve_job job, const char *what) {
    serve_level level;
    job.what = what;
    job.rate = 0;
    job.max_seconds = INFINITY;
    ig_status status = serve_level_run(&job, 1, &level);
    if (status == IG_OK) status = check_replies(&level, what);
    serve_level_release(r->cli, &level);
    return status;
}

/* The first request: a server may prepare itself, and its errors end the run before any figure. */
static ig_status warm_up(serve_run *r) {
    char *text;
    IG_TRY(serve_prompts_text(&r->prompts, warmup_prompt, r->options->prompt_tokens, &text));
    serve_job job = job_of(r);
    job.prompts = &text;
    job.n_prompts = 1;
    job.alone = NULL;
    const ig_status status = run_unmeasured(r, job, "warmup");
    ig_free(&r->cli->allocator, text);
    return status;
}

/* The salt keeps a prefix cache that knows it from answering with pages of another level. */
static ig_status send_alone(serve_run *r) {
    IG_TRY(make_texts(r, 0, most_requests(r)));
    r->alone = ig_alloc(&r->cli->allocator, r->n_texts, sizeof *r->alone);
    if (!r->alone)
        return IG_FAIL(IG_ERR_MEMORY, "bench serve: no memory for %zu replies", r->n_texts);
    serve_job job = job_of(r);
    job.is_alone = true;
    job.salt = "alone";
    return run_unmeasured(r, job, "alone");
}

static ig_status run_level(serve_run *r, int i) {
    char salt[SALT_BYTES], *long_text = NULL;
    const bench_serve_options *o = r->options;
    if (!o->check) IG_TRY(make_texts(r, (uint64_t)i << 32, requests_of(r, i)));
    if (o->stall_prompt > 0)
        IG_TRY(serve_prompts_text(&r->long_prompts, long_prompts + (uint64_t)i, o->stall_prompt,
                                  &long_text));
    snprintf(salt, sizeof salt, "level %d", i);
    serve_job job = job_of(r);
    job.n_prompts = requests_of(r, i);
    job.long_prompt = long_text;
    job.salt = o->check ? salt : NULL;
    job.what = "serve";
    ig_status status = serve_level_run(&job, (int)r->clients[i], &r->levels[i]);
    if (status == IG_OK) status = serve_figures_of(r->cli, &r->levels[i], &r->figures[i]);
    ig_free(&r->cli->allocator, long_text);
    IG_TRY(status);
    if (!r->cli->json) serve_table_row(&r->levels[i], &r->figures[i]);
    if (!r->cli->json) ig_cli_flush(r->cli);
    return IG_OK;
}

static ig_status run_levels(serve_run *r) {
    if (r->n_levels == 0) return IG_OK;
    IG_TRY(serve_prompts_init(&r->prompts, &r->target, r->options->shared_prefix));
    IG_TRY(serve_prompts_init(&r->long_prompts, &r->target, 0));
    IG_TRY(warm_up(r));
    if (r->options->check) IG_TRY(send_alone(r));
    if (!r->cli->json) serve_table_head(&r->target);
    for (int i = 0; i < r->n_levels; i++) IG_TRY(run_level(r, i));
    return IG_OK;
}

/* ---- Results ---- */

static json_t *result_json(const serve_run *r) {
    const bench_serve_options *o = r->options;
    json_t *levels = json_array();
    for (int i = 0; i < r->n_levels; i++)
        json_array_append_new(levels, serve_level_json(&r->levels[i], &r->figures[i]));
    json_t *root = json_pack(
        "{s:s, s:o, s:s, s:s, s:s, s:b, s:o, s:I, s:I, s:I, s:o, s:I}", "schema",
        "ingot.bench.serve.v1", "machine", bench_machine_json(), "url", o->url, "model",
        r->target.model, "route", o->chat ? "/v1/chat/completions" : "/v1/completions",
        "exact_prompt_tokens", r->target.has_tokenizer, "rate",
        o->rate > 0 ? ig_json_real(o->rate) : json_null(), "prompt_tokens",
        (json_int_t)o->prompt_tokens, "max_tokens", (json_int_t)o->max_tokens, "shared_prefix",
        (json_int_t)o->shared_prefix, "levels", levels, "seed", (json_int_t)r->target.seed);
    json_t *idle = o->n_idle > 0 ? serve_idle_json(&r->idle) : json_null();
    if (root) json_object_set_new(root, "checked", json_boolean(o->check));
    if (root && json_object_set_new(root, "idle", idle) == 0) return root;
    json_decref(root);
    return NULL;
}

static ig_status draw(const serve_run *r) {
    char title[SERVE_MODEL_BYTES + 64], model[SERVE_MODEL_BYTES];
    const bench_serve_options *o = r->options;
    if (!o->svg || r->n_levels == 0) return IG_OK;
    snprintf(title, sizeof title, "%s: %lld tokens in, %lld out",
             ig_text_safe(r->target.model, model, sizeof model), (long long)o->prompt_tokens,
             (long long)o->max_tokens);
    const serve_plot plot = {title, r->figures, (size_t)r->n_levels};
    return ig_run_write(r->cli, "plot", o->svg, serve_plot_print, &plot);
}

/* Replies that differ, and levels where nothing succeeded, fail the run. */
static ig_status judge(const serve_run *r) {
    for (int i = 0; i < r->n_levels; i++) {
        const serve_level *level = &r->levels[i];
        const serve_difference *d = &level->difference;
        if (level->n_replies > 0 && r->figures[i].n_ok == 0)
            return IG_FAIL(IG_ERR_STATE, "no request succeeded with %d clients: %s",
                           level->n_clients, level->replies[0].error);
        if (level->n_different > 0)
            return IG_FAIL(IG_ERR_STATE,
                           "%zu of %zu replies with %d clients differ from the reply to the same "
                           "prompt sent alone; prompt %zu, byte %zu: \"%s\" instead of \"%s\"",
                           level->n_different, level->n_compared, level->n_clients, d->prompt,
                           d->at_byte, d->here, d->alone);
    }
    return IG_OK;
}

static ig_status run_all(serve_run *r) {
    if (r->options->n_idle > 0) {
        IG_TRY(serve_idle_measure(&r->target, &r->idle));
        if (!r->cli->json) serve_idle_print(&r->idle);
    }
    IG_TRY(run_levels(r));
    IG_TRY(draw(r));
    IG_TRY(ig_run_result(r->cli, result_json(r)));
    IG_TRY(judge(r));
    size_t n_compared = 0;
    for (int i = 0; i < r->n_levels; i++) n_compared += r->levels[i].n_compared;
    if (r->options->check && !r->cli->json)
        printf("\n%zu replies equal those to the same prompts sent alone\n", n_compared);
    return IG_OK;
}

static void release(serve_run *r) {
    for (size_t i = 0; r->alone && i < r->n_texts; i++) ig_free(&r->cli->allocator, r->alone[i].at);
    ig_free(&r->cli->allocator, r->alone);
    free_texts(r);
    for (int i = 0; i < r->n_levels; i++) serve_level_release(r->cli, &r->levels[i]);
    serve_prompts_deinit(&r->prompts);
    serve_prompts_deinit(&r->long_prompts);
    serve_target_close(&r->target);
}

static ig_status check_options(serve_run *r) {
    const bench_serve_options *o = r->options;
    const char *clients = o->clients ? o->clients : o->n_idle > 0 ? NULL : default_clients;
    if (o->shared_prefix >= o->prompt_tokens)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "--shared-prefix %lld: must be less than --prompt-tokens %lld",
                       (long long)o->shared_prefix, (long long)o->prompt_tokens);
    if (!clients) return IG_OK; /* --idle alone */
    return bench_numbers("clients", clients, 1, CLIENTS_MOST, LEVELS, r->clients, &r->n_levels);
}

static bench_serve_options with_defaults(const bench_serve_options *given) {
    bench_serve_options o = *given;
    if (o.prompt_tokens == 0) o.prompt_tokens = 200;
    if (o.max_tokens == 0) o.max_tokens = 48;
    if (!(o.timeout > 0)) o.timeout = 600;
    return o;
}

ig_status bench_serve(ig_cli *cli, const bench_options *options) {
    serve_run *r = ig_alloc(&cli->allocator, 1, sizeof *r);
    if (!r) return IG_FAIL(IG_ERR_MEMORY, "bench serve: no memory");
    r->cli = cli;
    r->filled = with_defaults(&options->serve);
    r->options = &r->filled;
    ig_status status = check_options(r);
    if (status == IG_OK)
        status =
            serve_target_open(cli, r->options, options->model, (uint64_t)options->seed, &r->target);
    if (status == IG_OK) status = run_all(r);
    release(r);
    ig_free(&cli->allocator, r);
    return status;
}

#define OPTION(member) offsetof(bench_serve_options, member)

const ig_opt bench_serve_opts[] = {
    {OPT_TEXT, 0, "url", OPTION(url),
     .help = "serve: the server: http://127.0.0.1:PORT, localhost, [::1] or unix:/PATH",
     .value = "URL", .flags = OPT_FIRST},
    {OPT_TEXT, 0, "clients", OPTION(clients),
     .help = "serve: clients at once, one or several numbers separated by commas",
     .default_help = "1,4,16,32", .value = "N", .flags = OPT_FIRST},
    {OPT_INT, 0, "requests", OPTION(n_requests),
     .help = "serve: requests for each number of clients",
     .default_help = "4 for each client, at least 16", .value = "N", .low = 1, .high = 1e6},
    {OPT_REAL, 0, "rate", OPTION(rate),
     .help = "serve: requests per second, at random times; 0: each client sends its next when it "
             "has a reply",
     .value = "R", .low = 0, .high = 1e6},
    {OPT_INT, 0, "prompt-tokens", OPTION(prompt_tokens), .help = "serve: tokens of a prompt",
     .value = "N", .default_help = "200", .low = 1, .high = 1 << 20},
    {OPT_INT, 0, "max-tokens", OPTION(max_tokens), .help = "serve: tokens to generate for each",
     .value = "N", .default_help = "48", .low = 1, .high = 1 << 20},
    {OPT_INT, 0, "shared-prefix", OPTION(shared_prefix),
     .help = "serve: tokens that all prompts begin with", .value = "N", .low = 0, .high = 1 << 20},
    {OPT_FLAG, 0, "check", OPTION(check),
     .help = "serve: send each prompt once alone first; every later reply must equal that one"},
    {OPT_INT, 0, "stall-prompt", OPTION(stall_prompt),
     .help = "serve: send a prompt of N tokens while all clients stream, and time their stall",
     .value = "N", .low = 1, .high = 1 << 20},
    {OPT_FLAG, 0, "chat", OPTION(chat),
     .help = "serve: use /v1/chat/completions instead of /v1/completions"},
    {OPT_INT, 0, "idle", OPTION(n_idle),
     .help = "serve: first open N idle connections; --clients must be given to measure load, too",
     .value = "N", .low = 1, .high = CLIENTS_MOST},
    {OPT_INT, 0, "pid", OPTION(pid), .help = "serve: the server's process, to read its memory",
     .value = "PID", .low = 1, .high = 1 << 22},
    {OPT_TEXT, 0, "api-key-file", OPTION(key_file), .help = "serve: file with the server's key",
     .value = "FILE", .flags = OPT_FILE},
    {OPT_REAL, 0, "duration", OPTION(duration),
     .help =
         "serve: seconds for each number of clients; then no more requests are sent; 0: no limit",
     .value = "S", .low = 0, .high = 86400},
    {OPT_REAL, 0, "timeout", OPTION(timeout), .help = "serve: seconds for a request", .value = "S",
     .default_help = "600", .low = 0, .high = 86400},
    {OPT_TEXT, 0, "svg", OPTION(svg), .help = "serve: draw the figures against the clients",
     .value = "FILE", .flags = OPT_FILE | OPT_OUTPUT},
    {0},
};
