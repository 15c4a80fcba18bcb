/*
 * serve_fake.h - routes without HTTP: an exchange that keeps its reply in memory, one model and one
 * server.  A test program includes it once.
 */
#ifndef IG_TESTS_UNIT_SERVE_FAKE_H
#define IG_TESTS_UNIT_SERVE_FAKE_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <jansson.h>

#include "base/clock.h"
#include "server/operations.h"
#include "server/route.h"
#include "unit/check.h"

#define OK(call)                                                         \
    do {                                                                 \
        if ((call) != IG_OK) fail_msg("%s: %s", #call, ig_error_text()); \
    } while (0)

/* ---- the exchange ---- */

enum { FAKE_HEADERS = 8, FAKE_NOTES = 16 };

struct ig_exchange {
    ig_exchange_request request;
    ig_exchange_source source;
    bool is_deferred, is_streaming, has_ended, has_left;
    int code;
    char type[64];
    char header[FAKE_HEADERS][2][96];
    int n_headers;
    char note[FAKE_NOTES][2][160];
    int n_notes;
    char *body;
    size_t n_body;
    int refusals; /* writes that are refused before one is taken */
    int n_writes;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    int n_wakes;
};

const ig_exchange_request *ig_exchange_get_request(const ig_exchange *x) { return &x->request; }
const char *ig_exchange_header(const ig_exchange *x, const char *name) {
    (void)x, (void)name;
    return NULL;
}
const char *ig_exchange_query(const ig_exchange *x, const char *name) {
    (void)x, (void)name;
    return NULL;
}

void ig_exchange_add_header(ig_exchange *x, const char *name, const char *value) {
    assert_true(x->n_headers < FAKE_HEADERS && x->code == 0);
    snprintf(x->header[x->n_headers][0], 96, "%s", name);
    snprintf(x->header[x->n_headers++][1], 96, "%s", value);
}

static inline void fake_append(ig_exchange *x, const void *bytes, size_t n) {
    x->body = realloc(x->body, x->n_body + n + 1);
    assert_non_null(x->body);
    if (n > 0) memcpy(x->body + x->n_body, bytes, n);
    x->n_body += n;
    x->body[x->n_body] = '\0';
}

void ig_exchange_reply(ig_exchange *x, int code, const char *content_type, const void *bytes,
                       size_t n_bytes) {
    assert_int_equal(x->code, 0);
    x->code = code;
    snprintf(x->type, sizeof x->type, "%s", content_type);
    fake_append(x, bytes, n_bytes);
    x->has_ended = true;
}

void ig_exchange_defer(ig_exchange *x, const ig_exchange_source *source) {
    assert_int_equal(x->code, 0);
    x->source = *source;
    x->is_deferred = true;
}

void ig_exchange_wake(ig_exchange *x) {
    pthread_mutex_lock(&x->lock);
    x->n_wakes++;
    pthread_cond_signal(&x->woken);
    pthread_mutex_unlock(&x->lock);
}

void ig_exchange_stream(ig_exchange *x, int code, const char *content_type) {
    assert_int_equal(x->code, 0);
    x->code = code;
    x->is_streaming = true;
    snprintf(x->type, sizeof x->type, "%s", content_type);
    fake_append(x, "", 0);
}

bool ig_exchange_write(ig_exchange *x, const void *bytes, size_t n_bytes) {
    assert_true(x->is_streaming && !x->has_ended);
    if (x->refusals > 0) {
        x->refusals--;
        ig_exchange_wake(x); /* there is room again */
        return false;
    }
    x->n_writes++;
    fake_append(x, bytes, n_bytes);
    return true;
}

void ig_exchange_end(ig_exchange *x) {
    assert_true(x->is_streaming && !x->has_ended);
    x->has_ended = true;
}

bool ig_exchange_left(const ig_exchange *x) { return x->has_left; }

void ig_exchange_note(ig_exchange *x, const char *name, const char *value) {
    assert_true(x->n_notes < FAKE_NOTES);
    snprintf(x->note[x->n_notes][0], 160, "%s", name);
    snprintf(x->note[x->n_notes++][1], 160, "%s", value);
}

/* ---- the server and its model ---- */

struct ig_server {
    ig_server_options options;
    ig_phase phase;
    ig_routes *routes;
    ig_ctx *ctx;
    ig_adapter *adapter;
    ig_served served;
    ig_served_state state;
    ig_models_waiter *waiter;
    ig_active *active; /* the last that was added */
    int n_held;
    char log[2048];
};

static ig_server *fake_server; /* ig_models_*() have no other way to it */

ig_models *ig_server_models(ig_server *server) { return (ig_models *)server; }
ig_metrics *ig_server_metrics(ig_server *server) {
    (void)server;
    return NULL;
}
ig_routes *ig_server_routes(ig_server *server) { return server->routes; }
const ig_allocator *ig_server_allocator(const ig_server *server) {
    (void)server;
    return NULL;
}
const ig_server_options *ig_server_get_options(const ig_server *server) { return &server->options; }
ig_phase ig_server_phase(const ig_server *server) { return server->phase; }

ig_served_state ig_models_acquire(ig_models *models, const char *name, bool load,
                                  ig_models_waiter *waiter, ig_served **out) {
    ig_server *s = (ig_server *)models;
    (void)load;
    if (name && strcmp(name, "unknown") == 0) return IG_SERVED_UNKNOWN;
    if (s->state == IG_SERVED_FAILED) (void)IG_FAIL(IG_ERR_FORMAT, "the file is cut off");
    if (s->state == IG_SERVED_LOADING) s->waiter = waiter;
    if (s->state != IG_SERVED_READY) return s->state;
    s->n_held++;
    *out = &s->served;
    return IG_SERVED_READY;
}

void ig_models_release(ig_models *models, ig_served *served) {
    if (served) ((ig_server *)models)->n_held--;
}

void ig_models_drop_waiter(ig_models *models, ig_models_waiter *waiter) {
    ig_server *s = (ig_server *)models;
    if (s->waiter == waiter) s->waiter = NULL;
}

ig_status ig_models_unload(ig_models *models, const char *name) {
    (void)models, (void)name;
    return IG_OK;
}

void ig_server_add_active(ig_server *server, ig_active *active) { server->active = active; }
void ig_server_remove_active(ig_server *server, ig_active *active) {
    if (server->active == active) server->active = NULL;
}

bool ig_models_list(ig_models *models, size_t i, ig_models_row *out) {
    const ig_server *s = (ig_server *)models;
    static const char *const none[] = {NULL};
    if (i > 0) return false;
    *out = (ig_models_row){.id = s->served.id,
                           .aliases = none,
                           .quantization = "F32",
                           .state = s->state,
                           .created = s->served.created,
                           .ctx_len = s->served.ctx_len,
                           .ctx_train = s->served.ctx_train,
                           .n_params = s->served.n_params,
                           .n_vocab = s->served.n_vocab};
    return true;
}

static inline void fake_log(void *user, ig_log_level level, const char *text) {
    ig_server *s = user;
    const size_t used = strlen(s->log);
    (void)level;
    snprintf(s->log + used, sizeof s->log - used, "%s\n", text);
}

enum { FAKE_CONTEXT = 512 };

/* A small model with random weights and a token for each byte.  `jinja` NULL: chatml. */
static inline ig_server *fake_open(const char *jinja, const ig_engine_options *options) {
    ig_server *s = calloc(1, sizeof *s);
    const ig_model_config config = {
        .d_model = 64, .n_layers = 2, .n_heads = 4, .d_ff = 128, .ctx_len = FAKE_CONTEXT};
    const ig_ctx_options ctx = {.device = "cpu", .threads = 1, .seed = 7};
    ig_chat_template *chat = NULL;
    ig_engine *engine = NULL;
    assert_non_null(s);
    fake_server = s;
    s->phase = IG_SERVER_READY;
    s->state = IG_SERVED_READY;
    s->options = (ig_server_options){
        .system_fingerprint = "fp", .reasoning_format = "both", .sse_ping_s = 15};
    OK(ig_routes_create(&(ig_routes_options){.log = fake_log, .user = s}, &s->routes));
    OK(ig_ctx_create(&ctx, &s->ctx));
    OK(ig_adapter_create(s->ctx, "gpt", &config, &s->adapter));
    OK(ig_adapter_freeze(s->adapter));
    OK(ig_engine_create(s->adapter, options, &engine));
    if (jinja)
        OK(ig_chat_template_parse(jinja, strlen(jinja), NULL, &chat));
    else
        OK(ig_chat_template_builtin("chatml", NULL, &chat));
    s->served = (ig_served){.id = "org/tiny",
                            .engine = engine,
                            .adapter = s->adapter,
                            .tokenizer = ig_engine_tokenizer(engine),
                            .chat = chat,
                            .created = 1700000000,
                            .ctx_len = FAKE_CONTEXT,
                            .ctx_train = FAKE_CONTEXT,
                            .n_params = 1,
                            .n_vocab = ig_adapter_vocab_size(s->adapter),
                            .d_model = 64,
                            .ctx = s->ctx,
                            .can_generate = true};
    return s;
}

static inline void fake_close(ig_server *s) {
    assert_int_equal(s->n_held, 0);
    ig_engine_destroy(s->served.engine);
    ig_adapter_destroy(s->adapter);
    ig_ctx_destroy(s->ctx);
    ig_chat_template_destroy((ig_chat_template *)s->served.chat);
    ig_routes_destroy(s->routes);
    free(s);
}

/* ---- a request ---- */

static inline ig_exchange *fake_exchange(const char *method, const char *path, const char *body) {
    ig_exchange *x = calloc(1, sizeof *x);
    assert_non_null(x);
    x->request = (ig_exchange_request){.method = method,
                                       .path = path,
                                       .body = body,
                                       .body_bytes = strlen(body),
                                       .id = "id",
                                       .arrived_ms = ig_clock_ms()};
    pthread_mutex_init(&x->lock, NULL);
    pthread_cond_init(&x->woken, NULL);
    return x;
}

static inline void fake_free(ig_exchange *x) {
    pthread_mutex_destroy(&x->lock);
    pthread_cond_destroy(&x->woken);
    free(x->body);
    free(x);
}

/* Waits until the exchange is woken. */
static inline void fake_wait(ig_exchange *x) {
    struct timespec at;
    int error = 0;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += 60;
    pthread_mutex_lock(&x->lock);
    while (x->n_wakes == 0 && error == 0) error = pthread_cond_timedwait(&x->woken, &x->lock, &at);
    x->n_wakes = 0;
    pthread_mutex_unlock(&x->lock);
    if (error != 0) fail_msg("an exchange was not woken within a minute");
}

static inline void fake_advance(ig_exchange *x) { x->source.advance(x->source.user, x); }

/* To the end of the reply. */
static inline void fake_finish(ig_exchange *x) {
    if (!x->is_deferred) return;
    while (!x->has_ended) {
        fake_wait(x);
        fake_advance(x);
    }
    x->source.close(x->source.user);
}

static inline ig_exchange *fake_send(ig_server *s, const char *method, const char *path,
                                     const char *body) {
    ig_exchange *x = fake_exchange(method, path, body);
    ig_route_dispatch(s, x);
    ig_exchange_wake(x); /* the first call comes by itself */
    fake_finish(x);
    return x;
}

/* The body of a reply with this status; the caller drops the reference. */
static inline json_t *fake_json(ig_server *s, const char *method, const char *path,
                                const char *body, int code) {
    ig_exchange *x = fake_send(s, method, path, body);
    if (x->code != code) fail_msg("%s %s: %d, not %d: %s", path, body, x->code, code, x->body);
    assert_string_equal(x->type, "application/json");
    json_error_t error;
    json_t *json = json_loads(x->body, 0, &error);
    if (!json) fail_msg("%s: %s", error.text, x->body);
    fake_free(x);
    return json;
}

static inline json_t *fake_post(ig_server *s, const char *path, const char *body, int code) {
    return fake_json(s, "POST", path, body, code);
}

/* Part of a JSON value by a path such as "choices.0.message.content". */
static inline json_t *part(json_t *json, const char *path) {
    char copy[200], *save = NULL;
    snprintf(copy, sizeof copy, "%s", path);
    for (char *name = strtok_r(copy, ".", &save); name; name = strtok_r(NULL, ".", &save)) {
        json_t *next = json_is_array(json) ? json_array_get(json, strtoul(name, NULL, 10))
                                           : json_object_get(json, name);
        if (!next) fail_msg("%s has no %s", path, name);
        json = next;
    }
    return json;
}

static inline const char *text_at(json_t *json, const char *path) {
    const char *text = json_string_value(part(json, path));
    if (!text) fail_msg("%s is not a string", path);
    return text;
}

static inline long long int_at(json_t *json, const char *path) {
    if (!json_is_integer(part(json, path))) fail_msg("%s is not an integer", path);
    return json_integer_value(part(json, path));
}

/* ---- streams ---- */

enum { MAX_EVENTS = 400 };
typedef struct fake_events {
    json_t *at[MAX_EVENTS];
    int n;
    bool is_done; /* [DONE] is the last */
    int n_pings;
} fake_events;

/* Splits a stream into its events. */
static inline fake_events read_events(const char *body) {
    fake_events e = {0};
    while (*body) {
        const char *end = strstr(body, "\n\n");
        assert_non_null(end);
        assert_false(e.is_done);
        if (strncmp(body, ": ping", 6) == 0) {
            e.n_pings++;
        } else if (strncmp(body, "data: [DONE]", 12) == 0) {
            e.is_done = true;
        } else {
            assert_memory_equal(body, "data: ", 6);
            assert_true(e.n < MAX_EVENTS);
            json_error_t error;
            e.at[e.n] = json_loadb(body + 6, (size_t)(end - body) - 6, JSON_ALLOW_NUL, &error);
            if (!e.at[e.n++]) fail_msg("%s: %s", error.text, body);
        }
        body = end + 2;
    }
    return e;
}

static inline void free_events(fake_events *e) {
    for (int i = 0; i < e->n; i++) json_decref(e->at[i]);
}

/* Of a request whose reply must be a stream. */
static inline fake_events fake_stream(ig_server *s, const char *path, const char *body) {
    ig_exchange *x = fake_send(s, "POST", path, body);
    if (x->code != 200 || !x->is_streaming) fail_msg("%s: %d: %s", body, x->code, x->body);
    fake_events e = read_events(x->body);
    fake_free(x);
    return e;
}

static inline int fake_setup(void **state) {
    *state = fake_open(NULL, NULL);
    return 0;
}
static inline int fake_teardown(void **state) {
    fake_close(*state);
    return 0;
}
#define TEST_WITH_SERVER(name) cmocka_unit_test_setup_teardown(name, fake_setup, fake_teardown)

#endif
