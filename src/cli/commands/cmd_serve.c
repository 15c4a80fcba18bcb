/* ingot serve - an HTTP server for models. */
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/app/arch_plugin.h"
#include "cli/app/output.h"
#include "cli/app/plugins.h"
#include "cli/app/report_file.h"
#include "cli/app/signals.h"
#include "cli/commands/cmd_serve.h"
#include "ingot/device.h"
#include "ingot/report.h"
#include "server/route.h"
#include "server/server_run.h"

#ifndef INGOT_COMMIT
#    define INGOT_COMMIT ""
#endif

/* A comma-separated list. */
enum { SERVE_LIST_MAX = 32 };
typedef struct serve_list {
    const char *at[SERVE_LIST_MAX];
    size_t count;
    char *text; /* of the words */
} serve_list;

typedef struct serving {
    ig_cli *cli;
    const serve_options *options;
    ig_server_settings settings;
    ig_models_entry entries[IG_TEXTS_MAX];
    char names[IG_TEXTS_MAX][NAME_MAX + 1];
    char bundled[PATH_MAX], fingerprint[64];
    const char *folders[1];
    serve_list host_names, cors_origins, trusted_proxies;
} serving;

/* ---- output ---- */

/* A line on stdout with --json. */
static void print_event(const serving *s, const char *event, const char *address) {
    if (!s->cli->json) return;
    json_t *line = json_pack("{s:s, s:s, s:o}", "schema", "ingot.serve.v1", "event", event,
                             "address", ig_json_text(address));
    if (line) ig_json_write(stdout, line, IG_JSON_LINE);
    json_decref(line);
    ig_cli_flush(s->cli);
}

/* Programs that start the server parse this line. */
static void say_address(void *user, ig_server *server) {
    const serving *s = user;
    const char *address = ig_http_url(ig_server_http(server));
    fprintf(stderr, "listening on %s\n", address);
    print_event(s, "listening", address);
}

static void say_model(const serving *s, const ig_models_row *row) {
    char kv[IG_UNIT_TEXT_BYTES], memory[IG_UNIT_TEXT_BYTES];
    ig_cli_say(s->cli,
               "%s: %s, context %lld of %lld tokens, KV cache pool %s, memory %s, loaded in %.0f "
               "ms",
               row->id, row->device, (long long)row->ctx_len, (long long)row->ctx_train,
               ig_bytes_text(row->kv_bytes, kv), ig_bytes_text(row->bytes, memory), row->load_ms);
}

static void say_ready(void *user, ig_server *server) {
    const serving *s = user;
    ig_models_row row;
    for (size_t i = 0; ig_models_list(ig_server_models(server), i, &row); i++)
        if (row.state == IG_SERVED_READY) say_model(s, &row);
    ig_cli_say(s->cli, "ready");
    print_event(s, "ready", ig_http_url(ig_server_http(server)));
}

static void log_line(void *user, ig_log_level level, const char *text) {
    const serving *s = user;
    const ig_ctx_options *ctx = &s->settings.models.ctx;
    if (level == IG_LOG_INFO)
        ig_cli_say(s->cli, "%s", text);
    else
        ctx->log(ctx->user, level, text);
}

/* ---- models ---- */

/* "-m NAME=FILE", unless that is a file. */
static void split_name(serving *s, int i, const char *given) {
    const char *equals = strchr(given, '=');
    s->entries[i].path = given;
    if (!equals || equals == given || access(given, F_OK) == 0) return;
    snprintf(s->names[i], sizeof s->names[i], "%.*s", (int)(equals - given), given);
    s->entries[i] = (ig_models_entry){.path = equals + 1, .names = s->names[i]};
}

static ig_status take_models(serving *s) {
    const serve_options *o = s->options;
    int n = o->models.count;
    for (int i = 0; i < n; i++) split_name(s, i, o->models.at[i]);
    if (n == 0 && !o->models_dir) {
        IG_TRY(model_find(NULL, s->bundled));
        s->entries[n++].path = s->bundled;
    }
    if (o->alias && n != 1)
        return IG_FAIL(IG_ERR_ARGUMENT,
                       "--alias: applies to a single model; with several models use -m NAME=FILE");
    if (o->alias) s->entries[0].names = o->alias;
    if (o->prefix_cache_file && (n != 1 || o->models_dir))
        return IG_FAIL(IG_ERR_ARGUMENT, "--prefix-cache-file: applies to a single model");
    s->folders[0] = o->models_dir;
    s->settings.entries = s->entries;
    s->settings.n_entries = (size_t)n;
    s->settings.folders = s->folders;
    s->settings.n_folders = o->models_dir ? 1 : 0;
    return IG_OK;
}

static ig_status register_archs(void *user, ig_ctx *ctx) {
    const serving *s = user;
    return ig_cli_load_archs(s->cli, ctx, s->options->model.plugin);
}

/* ---- settings ---- */

/* Callbacks of the contexts; `user` is the serving. */
static void log_ctx(void *user, ig_log_level level, const char *text) {
    const ig_ctx_options ctx = ig_cli_ctx_options(((serving *)user)->cli);
    ctx.log(ctx.user, level, text);
}
static bool accept_plugin(void *user, const char *path) {
    return ig_cli_accept_plugin(((serving *)user)->cli, path);
}
static void report_ctx(void *user, const ig_ctx *ctx) {
    ig_run_context(((serving *)user)->cli, ctx);
}

static ig_status set_models(serving *s) {
    const serve_options *o = s->options;
    const model_options *m = &o->model;
    ig_models_options *to = &s->settings.models;
    to->ctx = ig_cli_ctx_options(s->cli);
    to->ctx.log = log_ctx;
    to->ctx.accept_plugin = accept_plugin;
    to->ctx.on_destroy = report_ctx;
    to->ctx.progress = NULL;
    to->ctx.cancel = NULL; /* signals are the server's */
    to->ctx.user = s;
    to->ctx.threads = model_threads(m);
    IG_TRY(model_device(s->cli, m, &to->ctx.device));
    to->prepare = register_archs;
    to->model = (ig_model_options){
        .no_mmap = m->no_mmap, .mlock = m->mlock, .pre_tokenizer = m->pre, .no_pack = m->no_pack};
    to->engine = (ig_engine_options){.ctx_len = m->ctx_len,
                                     .n_sequences = o->parallel,
                                     .kv_bytes = o->kv_bytes,
                                     .ubatch = m->chunk > 0      ? m->chunk
                                               : m->batch < 4096 ? m->batch
                                                                 : 4096,
                                     .cache_type_k = m->cache_k ? m->cache_k : m->cache,
                                     .cache_type_v = m->cache_v ? m->cache_v : m->cache,
                                     .step_ms = o->step_ms,
                                     .max_queue = o->queue,
                                     .queue_timeout_ms = o->queue_timeout * 1e3,
                                     .static_batching = o->static_batching,
                                     .no_prefix_cache = o->no_prefix_cache,
                                     .prefix_cache_file = o->prefix_cache_file};
    to->chat_template = o->template_file ? o->template_file : o->chat_template;
    to->arch = m->arch;
    to->bytes = o->models_bytes;
    to->pin = o->pin;
    to->idle_unload_s = o->idle_unload;
    to->is_strict = o->strict_model;
    to->no_warmup = o->no_warmup || m->no_pack;
    to->allocator = &s->cli->allocator;
    return IG_OK;
}

static void set_options(serving *s) {
    const serve_options *o = s->options;
    const char *isa = "";
    for (size_t i = 0; ig_isa_name(i); i++) isa = ig_isa_name(i);
    snprintf(s->fingerprint, sizeof s->fingerprint, "ingot-%s-%s", ig_version(), isa);
    s->settings.options = (ig_server_options){
        .system_fingerprint = s->fingerprint,
        .reasoning_format = serve_reasoning[o->reasoning],
        .has_slots = o->slots,
        .slot_save_path = o->slot_save_path,
        .sse_ping_s = o->sse_ping,
        .default_max_tokens = o->predict > 0 ? o->predict : 0,
        .draft_ngram = o->draft_ngram,
        .draft_max = o->draft_max,
        .request_timeout_s = o->request_timeout,
        .is_metrics_public = o->metrics_public,
        .strict_model = o->strict_model,
        .max_queue = o->queue,
        .build = INGOT_COMMIT,
    };
}

static void log_exchange(void *user, const char *line) {
    const serving *s = user;
    if (!s->cli->quiet) fprintf(stderr, "%s\n", line);
}

/* Splits a comma-separated list. */
static ig_status split(serving *s, const char *option, const char *text, serve_list *out) {
    if (!text) return IG_OK;
    out->text = ig_copy_text(&s->cli->allocator, text);
    if (!out->text) return IG_FAIL(IG_ERR_MEMORY, "--%s", option);
    char *rest = NULL;
    for (char *at = strtok_r(out->text, ", ", &rest); at; at = strtok_r(NULL, ", ", &rest)) {
        if (out->count == SERVE_LIST_MAX)
            return IG_FAIL(IG_ERR_ARGUMENT, "--%s: more than %d", option, SERVE_LIST_MAX);
        out->at[out->count++] = at;
    }
    return IG_OK;
}

static ig_status set_http(serving *s) {
    const serve_options *o = s->options;
    IG_TRY(split(s, "host-name", o->host_names, &s->host_names));
    IG_TRY(split(s, "cors-origin", o->cors_origins, &s->cors_origins));
    IG_TRY(split(s, "trusted-proxy", o->trusted_proxies, &s->trusted_proxies));
    s->settings.http = (ig_http_options){
        .allocator = &s->cli->allocator,
        .host = o->host,
        .port = (int)o->port,
        .insecure = o->insecure,
        .threads = (int)o->http_threads,
        .cert_file = o->cert_file,
        .cert_key_file = o->cert_key_file,
        .api_key_file = o->key_file,
        .admin_key_file = o->admin_key_file,
        .api_keys = getenv("INGOT_API_KEY"),
        .share_prefix_cache = o->share_prefix_cache,
        .api_prefix = o->api_prefix,
        .host_names = s->host_names.at,
        .n_host_names = s->host_names.count,
        .cors_origins = s->cors_origins.at,
        .n_cors_origins = s->cors_origins.count,
        .trusted_proxies = s->trusted_proxies.at,
        .n_trusted_proxies = s->trusted_proxies.count,
        .max_body_bytes = o->max_body,
        .max_connections = (int)o->max_connections,
        .max_per_address = o->max_per_address > 0 ? (int)o->max_per_address : -1,
        .header_s = o->header_timeout,
        .body_s = o->body_timeout,
        .idle_s = o->idle_timeout,
        .write_stall_s = o->write_timeout,
        .log = log_exchange,
        .log_user = s,
        .log_json = o->log_json,
    };
    return IG_OK;
}

/* ---- running ---- */

static ig_status print_openapi(ig_cli *cli) {
    ig_out out = {.allocator = &cli->allocator};
    ig_routes_openapi(&out);
    const bool failed = out.failed;
    if (!failed) fwrite(out.bytes, 1, out.n_bytes, stdout);
    ig_out_deinit(&out);
    return failed ? IG_FAIL(IG_ERR_MEMORY, "--openapi: no memory") : IG_OK;
}

static ig_status set_all(serving *s) {
    const serve_options *o = s->options;
    IG_TRY(take_models(s));
    IG_TRY(set_models(s));
    IG_TRY(set_http(s));
    set_options(s);
    s->settings.trace_file = o->trace_file;
    s->settings.drain_delay_s = o->drain_delay;
    s->settings.drain_s = o->drain;
    s->settings.allocator = &s->cli->allocator;
    s->settings.log = log_line;
    s->settings.on_listening = say_address;
    s->settings.on_ready = say_ready;
    s->settings.user = s;
    return IG_OK;
}

static ig_status run(ig_cli *cli, const void *options) {
    const serve_options *o = options;
    serving s = {.cli = cli, .options = o};
    if (o->openapi) return print_openapi(cli);
    ig_status status = set_all(&s);
    if (status == IG_OK && s.settings.n_entries > 0) {
        ig_run_model(cli, s.entries[0].path);
        ig_signals_reading(s.entries[0].path);
    }
    if (status == IG_OK) status = ig_server_run(&s.settings);
    ig_free(&cli->allocator, s.host_names.text);
    ig_free(&cli->allocator, s.cors_origins.text);
    ig_free(&cli->allocator, s.trusted_proxies.text);
    return status;
}

static const char *const examples[] = {
    "ingot serve",
    "The bundled model, at http://127.0.0.1:8080.",
    "ingot serve -m model.gguf -c 8192 -np 8",
    "Up to 8 concurrent sequences of 8192 tokens.",
    "ingot serve --models-dir models --models-bytes 16GiB --idle-unload 600",
    "Several models, loaded on demand within a memory limit.",
    "ingot serve -m model.gguf --host 0.0.0.0 --api-key-file keys",
    "For other machines, with API keys.",
    "ingot serve --openapi > openapi.json",
    "The OpenAPI description of all routes.",
    NULL,
};

const ig_command cmd_serve = {
    .name = "serve",
    .summary = "serve models over HTTP with an OpenAI-compatible API",
    .about = "An HTTP server with OpenAI's API and llama-server's routes. Concurrent requests are "
             "batched; the output of a request does not depend on other requests.\n\nSIGTERM "
             "drains the server: /ready returns 503 at once, after --drain-delay the server stops "
             "accepting requests, and running ones have --drain seconds to finish. SIGINT or a "
             "second SIGTERM ends them immediately. SIGHUP reloads keys, certificates and the "
             "models directory.",
    .examples = examples,
    .opts = serve_opts,
    .options_bytes = sizeof(serve_options),
    .json_lines = true,
    .run = run,
};
