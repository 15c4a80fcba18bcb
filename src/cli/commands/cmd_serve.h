/*
 * cmd_serve.h - the options of `ingot serve`, in serve_opts.c.
 */
#ifndef IG_CLI_COMMANDS_CMD_SERVE_H
#define IG_CLI_COMMANDS_CMD_SERVE_H

#include "cli/commands/loaded_model.h"

typedef struct serve_options {
    model_options model; /* its path is not used */
    ig_texts models;
    const char *alias, *pin, *models_dir;
    uint64_t models_bytes;
    double idle_unload;
    bool strict_model, no_warmup, openapi;
    /* HTTP */
    const char *host, *api_prefix, *host_names, *cors_origins, *trusted_proxies;
    const char *key_file, *admin_key_file, *cert_file, *cert_key_file;
    int64_t port, max_connections, max_per_address, http_threads;
    uint64_t max_body;
    double header_timeout, body_timeout, idle_timeout, write_timeout, request_timeout;
    bool insecure, share_prefix_cache, metrics_public, log_json, slots;
    /* scheduling */
    int64_t parallel, queue, predict, draft_ngram, draft_max;
    uint64_t kv_bytes;
    double step_ms, queue_timeout, drain, drain_delay, sse_ping;
    bool static_batching, no_prefix_cache;
    const char *prefix_cache_file, *chat_template, *template_file, *slot_save_path, *trace_file;
    int reasoning;
} serve_options;

extern const ig_opt serve_opts[];
extern const char *const serve_reasoning[]; /* values of --reasoning-format */

#endif
