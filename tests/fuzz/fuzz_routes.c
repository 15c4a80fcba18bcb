/*
 * Any bytes as the body of a request: JSON, fields, options, prompt, and what is replied.
 *
 * What must hold: nothing crashes; the reply is JSON, or a stream of events that are JSON; an error
 * has words, a type and the code of its status, which is never 500; a request that reaches the
 * engine is one that it can serve.  The first byte chooses the route, the template, and whether the
 * engine serves the request; else its queue is full.
 */
#include "unit/serve_fake.h"

#include "fuzz.h"

enum { MAX_TOKENS = 4, MAX_CHOICES = 4, SEQUENCES = 8 };

static const char *const paths[] = {"/v1/chat/completions",
                                    "/v1/completions",
                                    "/v1/embeddings",
                                    "/tokenize",
                                    "/detokenize",
                                    "/apply-template",
                                    "/v1/rerank",
                                    "/v2/rerank",
                                    "/v1/chat/completions/render",
                                    "/v1/completions/render"};
enum { PATHS = sizeof paths / sizeof paths[0] };

static const char jinja[] =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}"
    "{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}"
    "{{ tools | tojson if tools }}{{ reasoning_effort }}{% if enable_thinking %}<think>{% endif %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

static ig_server *servers[2];
static bool is_busy;

static void open_servers(void) {
    if (servers[0]) return;
    const ig_engine_options options = {
        .n_sequences = SEQUENCES, .no_prefix_cache = true, .ctx_len = FAKE_CONTEXT};
    servers[0] = fake_open(NULL, &options);
    servers[1] = fake_open(jinja, &options);
}

/* ---- what reaches the engine ---- */

ig_status __real_ig_engine_submit(ig_engine *engine, const ig_request *request, ig_job **out);
ig_status __wrap_ig_engine_submit(ig_engine *engine, const ig_request *request, ig_job **out);

static void check_request(const ig_request *r, int64_t vocabulary) {
    const ig_sampling *s = &r->sampling;
    REQUIRE(r->n_tokens > 0 && r->n_tokens <= FAKE_CONTEXT);
    for (size_t i = 0; i < r->n_tokens; i++)
        REQUIRE(r->tokens[i] >= 0 && r->tokens[i] < vocabulary);
    REQUIRE(r->n_choices >= 0 && r->n_choices <= 256 && r->max_tokens >= 0 && r->min_tokens >= 0);
    REQUIRE(r->n_stop <= 16 && r->n_stop_tokens <= 64 && s->n_biases <= 4096);
    for (size_t i = 0; i < r->n_stop; i++) REQUIRE(r->stop[i][0] && strlen(r->stop[i]) <= 256);
    for (size_t i = 0; i < r->n_stop_tokens; i++)
        REQUIRE(r->stop_tokens[i] >= 0 && r->stop_tokens[i] < vocabulary);
    for (size_t i = 0; i < s->n_biases; i++)
        REQUIRE(s->biases[i].token >= 0 && s->biases[i].token < vocabulary);
    REQUIRE(s->temperature >= -1 && s->temperature <= 10 && s->top_p <= 1 && s->min_p <= 1);
}

/* The engine must accept what the server does; it generates few tokens. */
ig_status __wrap_ig_engine_submit(ig_engine *engine, const ig_request *request, ig_job **out) {
    ig_request r = *request;
    check_request(request, fake_server->served.n_vocab);
    if (is_busy || r.n_choices > MAX_CHOICES) return IG_FAIL(IG_ERR_BUSY, "the queue is full");
    if (r.max_tokens == 0 || r.max_tokens > MAX_TOKENS) r.max_tokens = MAX_TOKENS;
    const ig_status status = __real_ig_engine_submit(engine, &r, out);
    if (status != IG_OK) fprintf(stderr, "the engine refused: %s\n", ig_error_text());
    REQUIRE(status == IG_OK);
    return status;
}

/* ---- what is replied ---- */

static void check_error(json_t *error, int code) {
    REQUIRE(json_is_object(error));
    REQUIRE(json_string_length(json_object_get(error, "message")) > 0);
    REQUIRE(json_string_length(json_object_get(error, "type")) > 0);
    const json_t *named = json_object_get(error, "code");
    REQUIRE(json_is_string(named) || code == 0 || json_integer_value(named) == code);
}

static void check_stream(const ig_exchange *x) {
    REQUIRE(x->code == 200 && strcmp(x->type, "text/event-stream") == 0);
    fake_events e = read_events(x->body);
    for (int i = 0; i < e.n; i++) {
        json_t *error = json_object_get(e.at[i], "error");
        if (error) check_error(error, 0);
        REQUIRE(!error || (i == e.n - 1 && !e.is_done));
        REQUIRE(error || i < e.n - 1 || e.is_done);
    }
    free_events(&e);
}

static void check_whole(const ig_exchange *x) {
    static const int codes[] = {200, 400, 404, 429, 501, 503};
    bool is_known = false;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) is_known |= x->code == codes[i];
    if (!is_known) fprintf(stderr, "%d: %s\n", x->code, x->body);
    REQUIRE(is_known && strcmp(x->type, "application/json") == 0);
    json_error_t why;
    json_t *json = json_loadb(x->body, x->n_body, JSON_ALLOW_NUL, &why);
    if (!json) fprintf(stderr, "%s: %s\n", why.text, x->body);
    REQUIRE(json);
    json_t *error = json_object_get(json, "error");
    REQUIRE(!error == (x->code == 200));
    if (error) check_error(error, x->code);
    json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    open_servers();
    ig_server *s = fake_server = servers[data[0] / PATHS % 2];
    is_busy = data[0] / PATHS / 2 % 4 == 0;
    char *body = malloc(size);
    REQUIRE(body);
    memcpy(body, data + 1, size - 1);
    body[size - 1] = '\0';
    ig_exchange *x = fake_exchange("POST", paths[data[0] % PATHS], body);
    x->request.body_bytes = size - 1; /* it may have a 0 in it */
    x->request.admin = true;
    ig_route_dispatch(s, x);
    ig_exchange_wake(x);
    fake_finish(x);
    REQUIRE(x->code != 0 && s->n_held == 0 && !s->active);
    if (x->is_streaming)
        check_stream(x);
    else
        check_whole(x);
    fake_free(x);
    free(body);
    return 0;
}
