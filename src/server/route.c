#include "server/route.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "server/fields.h"
#include "server/openai.h"
#include "server/operations.h"

static const char second_half[] = "not supported yet";
static const char adapters[] = "LoRA adapters are not supported yet";

/* ---- the table ---- */

static const ig_http_route rows[] = {
    {"POST", "/v1/chat/completions", IG_KEY_USER, true, IG_BODY_CHAT, ig_openai_chat,
     "A reply to a conversation.", NULL},
    {"POST", "/v1/completions", IG_KEY_USER, true, IG_BODY_COMPLETION, ig_openai_completions,
     "Continuations of prompts.", NULL},
    {"POST", "/v1/embeddings", IG_KEY_USER, true, IG_BODY_EMBEDDING, ig_openai_embeddings,
     "A vector for each input.", NULL},
    {"GET", "/v1/models", IG_KEY_USER, true, 0, ig_openai_models, "The models.", NULL},
    {"GET", "/models/sse", IG_KEY_USER, false, 0, NULL, "Changes of the models, as a stream.",
     second_half},
    {"GET", "/v1/models/*", IG_KEY_USER, true, 0, ig_openai_model, "One model, by its id.", NULL},
    {"POST", "/v1/rerank", IG_KEY_USER, true, IG_BODY_RERANK, ig_openai_rerank,
     "Documents by their relevance, for models with that head.", NULL},
    {"POST", "/v1/reranking", IG_KEY_USER, true, IG_BODY_RERANK, ig_openai_rerank,
     "The same as /v1/rerank.", NULL},
    {"POST", "/v2/rerank", IG_KEY_USER, false, IG_BODY_RERANK, ig_openai_rerank,
     "The same as /v1/rerank.", NULL},

    {"POST", "/tokenize", IG_KEY_USER, true, IG_BODY_TOKENIZE, ig_serve_tokenize,
     "Text, or a conversation, as tokens.", NULL},
    {"POST", "/detokenize", IG_KEY_USER, true, IG_BODY_DETOKENIZE, ig_serve_detokenize,
     "Tokens as text.", NULL},
    {"POST", "/apply-template", IG_KEY_USER, true, IG_BODY_TEMPLATE, ig_serve_apply_template,
     "A conversation as the text that the model reads.", NULL},
    {"POST", "/v1/chat/completions/render", IG_KEY_USER, true, IG_BODY_CHAT, ig_openai_render_chat,
     "The token ids of a request, for routers.", NULL},
    {"POST", "/v1/completions/render", IG_KEY_USER, true, IG_BODY_COMPLETION,
     ig_openai_render_completion, "The token ids of a request, for routers.", NULL},

    {"GET", "/", IG_KEY_PUBLIC, false, 0, NULL, "A page to chat with.", second_half},
    {"GET", "/health", IG_KEY_PUBLIC, true, 0, ig_operation_health,
     "Whether the server and its schedulers are alive.", NULL},
    {"GET", "/ping", IG_KEY_PUBLIC, false, 0, ig_operation_health, "The same as /health.", NULL},
    {"GET", "/ready", IG_KEY_PUBLIC, false, 0, ig_operation_ready,
     "Whether the server accepts requests: loaded, not draining, queue not full.", NULL},
    {"GET", "/version", IG_KEY_PUBLIC, false, 0, ig_operation_version, "The version.", NULL},
    {"GET", "/metrics", IG_KEY_USER, false, 0, ig_operation_metrics,
     "Counters, for Prometheus or as OpenMetrics.", NULL},
    {"GET", "/props", IG_KEY_USER, false, 0, ig_operation_props,
     "Default settings and properties of a model.", NULL},
    {"GET", "/slots", IG_KEY_USER, false, 0, ig_operation_slots, "Running sequences.", NULL},
    {"POST", "/slots/*", IG_KEY_ADMIN, false, 0, ig_operation_slot,
     "Saves, restores or erases the KV cache of a slot: `?action=`.", NULL},
    {"GET", "/v1/report", IG_KEY_USER, false, 0, ig_operation_report,
     "The run reports of the loaded models.", NULL},
    {"POST", "/models/load", IG_KEY_ADMIN, true, IG_BODY_MODEL, ig_operation_load, "Loads a model.",
     NULL},
    {"POST", "/models/unload", IG_KEY_ADMIN, true, IG_BODY_MODEL, ig_operation_unload,
     "Unloads a model when it is no longer in use.", NULL},
    {"POST", "/reload", IG_KEY_ADMIN, false, 0, ig_operation_reload,
     "Reloads keys, certificates and model directories.", NULL},
    {"DELETE", "/v1/requests/*", IG_KEY_USER, false, 0, ig_operation_cancel,
     "Cancels a request by its X-Request-Id.", NULL},

    {"POST", "/v1/responses", IG_KEY_USER, true, 0, NULL, "OpenAI's Responses.", second_half},
    {"POST", "/v1/responses/input_tokens", IG_KEY_USER, true, 0, NULL, "OpenAI's Responses.",
     second_half},
    {"POST", "/v1/messages", IG_KEY_USER, true, 0, NULL, "Anthropic's Messages.", second_half},
    {"POST", "/v1/messages/count_tokens", IG_KEY_USER, true, 0, NULL, "Anthropic's Messages.",
     second_half},
    {"POST", "/completion", IG_KEY_USER, false, 0, NULL,
     "llama-server's completions; use /v1/completions.", second_half},
    {"POST", "/embedding", IG_KEY_USER, false, 0, NULL,
     "llama-server's embeddings; use /v1/embeddings.", second_half},
    {"POST", "/infill", IG_KEY_USER, true, 0, NULL, "llama-server's infill.", second_half},
    {"GET", "/api/*", IG_KEY_USER, false, 0, NULL, "ollama's API.", second_half},
    {"POST", "/api/*", IG_KEY_USER, false, 0, NULL, "ollama's API.", second_half},
    {"DELETE", "/api/*", IG_KEY_USER, false, 0, NULL, "ollama's API.", second_half},
    {"GET", "/lora-adapters", IG_KEY_USER, true, 0, NULL, "LoRA adapters.", adapters},
    {"POST", "/lora-adapters", IG_KEY_ADMIN, true, 0, NULL, "LoRA adapters.", adapters},
    {"POST", "/v1/load_lora_adapter", IG_KEY_ADMIN, true, 0, NULL, "LoRA adapters.", adapters},
    {"POST", "/v1/unload_lora_adapter", IG_KEY_ADMIN, true, 0, NULL, "LoRA adapters.", adapters},
};
enum { ROUTES = sizeof rows / sizeof rows[0] };

const ig_http_route *ig_route_row(size_t i) { return i < ROUTES ? &rows[i] : NULL; }

/* ---- finding a row ---- */

static const char *without_v1(const char *path) {
    return strncmp(path, "/v1/", 4) == 0 ? path + 3 : path;
}

static bool fits(const char *pattern, const char *path) {
    const size_t n = strlen(pattern);
    if (pattern[n - 1] == '*') return strncmp(pattern, path, n - 1) == 0 && path[n - 1] != '\0';
    return strcmp(pattern, path) == 0;
}

static bool is_path_of(const ig_http_route *r, const char *path) {
    return fits(r->path, path) || (r->v1 && fits(without_v1(r->path), without_v1(path)));
}

static bool is_method_of(const ig_http_route *r, const char *method) {
    return strcmp(r->method, method) == 0 ||
           (strcmp(method, "HEAD") == 0 && strcmp(r->method, "GET") == 0);
}

static const ig_http_route *find(const char *method, const char *path) {
    for (size_t i = 0; i < ROUTES; i++)
        if (is_method_of(&rows[i], method) && is_path_of(&rows[i], path)) return &rows[i];
    return NULL;
}

const char *ig_route_rest(const ig_exchange *x, const char *pattern) {
    const char *path = ig_exchange_get_request(x)->path;
    const char *from =
        strlen(path) >= strlen(pattern) - 1 && strncmp(path, pattern, strlen(pattern) - 1) == 0
            ? pattern
            : without_v1(pattern);
    return path + strlen(from) - 1;
}

bool ig_route_is_public(const char *method, const char *path) {
    const ig_http_route *r = find(method, path);
    return r && r->key == IG_KEY_PUBLIC;
}

/* ---- dispatch ---- */

static void refuse_method(ig_exchange *x, const char *method, const char *path) {
    char allow[64] = "";
    ig_http_error error;
    for (size_t i = 0; i < ROUTES; i++) {
        if (!is_path_of(&rows[i], path) || strstr(allow, rows[i].method)) continue;
        const size_t used = strlen(allow);
        snprintf(allow + used, sizeof allow - used, "%s%s", used > 0 ? ", " : "", rows[i].method);
    }
    if (allow[0]) {
        ig_refuse(&error, 405, NULL, "%.200s takes %s, not %.16s", path, allow, method);
        ig_exchange_add_header(x, "Allow", allow);
    } else {
        ig_refuse(&error, 404, NULL, "there is no route %.16s %.200s", method, path);
    }
    ig_http_error_reply(&error, x);
}

void ig_route_dispatch(ig_server *server, ig_exchange *x) {
    const ig_exchange_request *request = ig_exchange_get_request(x);
    const ig_http_route *r = find(request->method, request->path);
    ig_http_error error;
    if (r) ig_exchange_set_route(x, r->path);
    if (!r) {
        refuse_method(x, request->method, request->path);
    } else if (r->key == IG_KEY_ADMIN && !request->admin) {
        ig_refuse(&error, 403, NULL, "%s needs an admin key", r->path);
        ig_http_error_reply(&error, x);
    } else if (r->missing) {
        ig_refuse(&error, 501, NULL, "%s %s: %s", request->method, r->path, r->missing);
        ig_http_error_reply(&error, x);
    } else {
        r->handler(server, x);
    }
}

/* ---- what requests share ---- */

enum { MAX_NAMES = 64, NAME_BYTES = 48 };

struct ig_routes {
    ig_routes_options options;
    ig_timers *timers;
    pthread_mutex_t lock;
    char names[MAX_NAMES][NAME_BYTES]; /* of unknown fields that were logged */
    size_t n_names;
};

ig_status ig_routes_create(const ig_routes_options *options, ig_routes **out) {
    ig_routes *r = ig_alloc(options->allocator, 1, sizeof *r);
    if (!r) return IG_FAIL(IG_ERR_MEMORY, "routes");
    r->options = *options;
    const ig_status status = ig_timers_create(options->allocator, &r->timers);
    if (status != IG_OK) {
        ig_free(options->allocator, r);
        return status;
    }
    pthread_mutex_init(&r->lock, NULL);
    *out = r;
    return IG_OK;
}

void ig_routes_destroy(ig_routes *r) {
    if (!r) return;
    ig_timers_destroy(r->timers);
    pthread_mutex_destroy(&r->lock);
    ig_free(r->options.allocator, r);
}

ig_timers *ig_routes_timers(ig_routes *r) { return r->timers; }

/* Printable characters alone: the name goes to a log. */
static void clean(const char *name, char out[NAME_BYTES]) {
    size_t n = 0;
    for (; name[n] && n + 1 < NAME_BYTES; n++)
        out[n] = name[n] > ' ' && name[n] < 0x7f ? name[n] : '?';
    out[n] = '\0';
}

void ig_routes_unknown_field(ig_routes *r, const char *name) {
    char text[NAME_BYTES], line[NAME_BYTES + 64];
    bool is_new;
    clean(name, text);
    pthread_mutex_lock(&r->lock);
    is_new = r->n_names < MAX_NAMES;
    for (size_t i = 0; i < r->n_names && is_new; i++) is_new = strcmp(r->names[i], text) != 0;
    if (is_new) memcpy(r->names[r->n_names++], text, sizeof text);
    pthread_mutex_unlock(&r->lock);
    if (!is_new || !r->options.log) return;
    snprintf(line, sizeof line, "requests have the unknown field '%s', which is ignored", text);
    r->options.log(r->options.user, IG_LOG_WARNING, line);
}
