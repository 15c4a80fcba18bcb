#include "cli/bench/serve_load.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json_parse.h"
#include "base/random.h"
#include "cli/app/output.h"
#include "cli/app/progress.h"

enum { WAIT_MS = 50, NOTE_BYTES = 64 };
static const uint64_t arrival_stream = UINT64_MAX; /* of random numbers; prompts use small ones */

/* A client: a connection, and the request that it has sent. */
typedef struct client {
    struct load *load;
    int connection;
    serve_reply *reply; /* NULL: none */
    size_t prompt;
    ig_http_bytes text;
    bool is_streaming, is_done; /* text has arrived; [DONE], too */
} client;

typedef struct load {
    const serve_job *job;
    const ig_allocator *allocator;
    serve_level *level;
    ig_http_client *http;
    client *clients;   /* the last one sends the long prompt */
    int *free, n_free; /* numbers of clients without a request */
    size_t n_ended;
    int n_streaming;
    double began_ms, next_due_ms;
    ig_status status; /* of a callback */
} load;

static double now_ms(const load *l) { return ig_clock_ms() - l->began_ms; }

static bool is_long(const client *c) { return c->reply == &c->load->level->long_prompt.reply; }

/* ---- A reply ---- */

static void set_error(serve_reply *r, const char *text) {
    if (!*r->error) snprintf(r->error, sizeof r->error, "%s", text);
}

static ig_status add_piece(client *c, const char *text) {
    load *l = c->load;
    serve_reply *r = c->reply;
    const double now = now_ms(l);
    if (c->is_streaming && !is_long(c)) {
        serve_level *level = l->level;
        if (!IG_GROW(l->allocator, level->gaps, &level->gaps_room, level->n_gaps + 1))
            return IG_FAIL(IG_ERR_MEMORY, "bench serve: no memory for %zu gaps", level->n_gaps);
        level->gaps[level->n_gaps++] = (serve_gap){now, (float)(now - r->last_ms)};
    }
    if (!c->is_streaming) {
        r->first_ms = now;
        l->n_streaming++;
    }
    c->is_streaming = true;
    r->last_ms = now;
    r->n_pieces++;
    if (!l->job->alone || is_long(c)) return IG_OK;
    if (ig_http_bytes_add(l->allocator, &c->text, text, strlen(text))) return IG_OK;
    return IG_FAIL(IG_ERR_MEMORY, "bench serve: no memory for a reply");
}

static int64_t count_of(const json_t *from, const char *key, int64_t otherwise) {
    const json_t *value = json_object_get(from, key);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

static void take_usage(serve_reply *r, const json_t *event) {
    const json_t *usage = json_object_get(event, "usage");
    const json_t *timings = json_object_get(event, "timings"); /* llama.cpp's */
    r->prompt_tokens = count_of(usage, "prompt_tokens", r->prompt_tokens);
    r->decoded_tokens = count_of(usage, "completion_tokens", r->decoded_tokens);
    r->cached_tokens = count_of(timings, "cache_n", r->cached_tokens);
    const json_t *details = json_object_get(usage, "prompt_tokens_details");
    r->cached_tokens = count_of(details, "cached_tokens", r->cached_tokens);
}

static void take_error(serve_reply *r, const json_t *error) {
    char code[SERVE_ERROR_BYTES] = "stream";
    const int64_t number = count_of(error, "code", 0);
    if (number > 0 && number < 1000) snprintf(code, sizeof code, "%d", (int)number);
    set_error(r, code);
}

static ig_status take_event(client *c, const json_t *event) {
    const json_t *error = json_object_get(event, "error");
    if (error) take_error(c->reply, error);
    take_usage(c->reply, event);
    const json_t *choice = json_array_get(json_object_get(event, "choices"), 0);
    const json_t *delta = json_object_get(choice, "delta");
    const char *texts[] = {json_string_value(json_object_get(choice, "text")),
                           json_string_value(json_object_get(delta, "reasoning_content")),
                           json_string_value(json_object_get(delta, "content"))};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i] && *texts[i]) return add_piece(c, texts[i]);
    return IG_OK;
}

static void on_event(void *user, const char *data, size_t bytes) {
    client *c = user;
    load *l = c->load;
    if (l->status != IG_OK) return;
    if (strcmp(data, "[DONE]") == 0) {
        c->is_done = true;
        return;
    }
    json_t *event = NULL;
    l->status = ig_json_decode(IG_ERR_FORMAT, "bench serve", "an event", data, bytes, 0, &event);
    if (l->status == IG_OK) l->status = take_event(c, event);
    json_decref(event);
    if (l->status == IG_ERR_FORMAT) { /* the server's mistake */
        set_error(c->reply, ig_http_outcome_names[IG_HTTP_NOT_A_REPLY]);
        l->status = IG_OK;
    }
}

/* ---- Comparing ---- */

/* Up to half an excerpt before byte `at`, and what follows. */
static void take_excerpt(const ig_http_bytes *text, size_t at, char out[SERVE_EXCERPT_BYTES]) {
    char piece[SERVE_EXCERPT_BYTES];
    const size_t from = at < SERVE_EXCERPT_BYTES / 2 ? 0 : at - SERVE_EXCERPT_BYTES / 2;
    snprintf(piece, sizeof piece, "%s", text->at ? text->at + from : "");
    ig_text_safe(piece, out, SERVE_EXCERPT_BYTES);
}

static void compare(client *c) {
    serve_level *level = c->load->level;
    const ig_http_bytes *alone = &c->load->job->alone[c->prompt], *here = &c->text;
    level->n_compared++;
    size_t at = 0;
    while (at < alone->used && at < here->used && alone->at[at] == here->at[at]) at++;
    if (at == alone->used && at == here->used) return;
    if (level->n_different++ > 0) return;
    level->difference = (serve_difference){.prompt = c->prompt, .at_byte = at};
    take_excerpt(alone, at, level->difference.alone);
    take_excerpt(here, at, level->difference.here);
}

static void keep_or_compare(client *c) {
    const serve_job *job = c->load->job;
    if (!job->alone || is_long(c) || *c->reply->error) return;
    if (!job->is_alone) {
        compare(c);
        return;
    }
    job->alone[c->prompt] = c->text;
    c->text = (ig_http_bytes){0};
}

/* ---- Requests ---- */

static void on_done(void *user, const ig_http_result *result) {
    client *c = user;
    load *l = c->load;
    serve_reply *r = c->reply;
    if (result->outcome != IG_HTTP_REPLIED) {
        set_error(r, ig_http_outcome_names[result->outcome]);
    } else if (result->code != 200) {
        char code[SERVE_ERROR_BYTES];
        snprintf(code, sizeof code, "%d", result->code);
        set_error(r, code);
    } else if (!c->is_done) {
        set_error(r, "stream");
    }
    if (!c->is_streaming) r->last_ms = now_ms(l);
    keep_or_compare(c);
    l->n_streaming -= c->is_streaming;
    if (!is_long(c)) {
        l->free[l->n_free++] = c->connection;
        l->n_ended++;
    }
    c->reply = NULL;
}

static char *request_text(const load *l, const char *prompt, int64_t max_tokens) {
    const serve_target *t = l->job->target;
    json_t *body =
        json_pack("{s:b, s:{s:b}, s:i, s:I, s:I, s:b}", "stream", true, "stream_options",
                  "include_usage", true, "temperature", 0, "max_tokens", (json_int_t)max_tokens,
                  "min_tokens", (json_int_t)max_tokens, "ignore_eos", true);
    if (*t->model) json_object_set_new(body, "model", json_string(t->model));
    if (l->job->salt) json_object_set_new(body, "cache_salt", json_string(l->job->salt));
    if (t->options->chat)
        json_object_set_new(body, "messages",
                            json_pack("[{s:s, s:s}]", "role", "user", "content", prompt));
    else
        json_object_set_new(body, "prompt", json_string(prompt));
    return serve_json_text(l->allocator, body);
}

static ig_status send_prompt(load *l, client *c, serve_reply *reply, const char *prompt,
                             int64_t max_tokens) {
    static const char *const paths[] = {"/v1/completions", "/v1/chat/completions"};
    const bench_serve_options *o = l->job->target->options;
    char *text = request_text(l, prompt, max_tokens);
    if (!text) return IG_FAIL(IG_ERR_MEMORY, "bench serve: no memory for a request");
    c->reply = reply;
    c->text.used = 0;
    c->is_streaming = c->is_done = false;
    *reply = (serve_reply){.due_ms = now_ms(l),
                           .first_ms = NAN,
                           .prompt_tokens = -1,
                           .cached_tokens = -1,
                           .decoded_tokens = -1};
    const ig_http_request request = {.method = "POST",
                                     .path = paths[o->chat],
                                     .body = text,
                                     .timeout_s = o->timeout,
                                     .on_event = on_event,
                                     .on_done = on_done,
                                     .user = c};
    const ig_status status = ig_http_client_send(l->http, c->connection, &request);
    ig_free(l->allocator, text);
    return status;
}

/* ---- When requests are sent ---- */

/* Exponential times between arrivals. */
static double time_to_next(const load *l, size_t request) {
    const uint64_t seed = l->job->target->seed;
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t bits =
        ig_random_bits(key, arrival_stream, (uint32_t)l->level->n_clients, request);
    return -log(((double)bits + 1) / 4294967297.0) * 1e3 / l->job->rate;
}

static bool is_over(const load *l) {
    return l->level->n_replies == l->job->n_prompts || now_ms(l) > l->job->max_seconds * 1e3;
}

static ig_status send_due(load *l) {
    const bench_serve_options *o = l->job->target->options;
    while (l->n_free > 0 && !is_over(l) && now_ms(l) >= l->next_due_ms) {
        const size_t request = l->level->n_replies++;
        client *c = &l->clients[l->free[--l->n_free]];
        c->prompt = request;
        serve_reply *reply = &l->level->replies[request];
        IG_TRY(send_prompt(l, c, reply, l->job->prompts[request], o->max_tokens));
        if (!(l->job->rate > 0)) continue;
        reply->due_ms = l->next_due_ms;
        l->next_due_ms += time_to_next(l, request + 1);
    }
    return IG_OK;
}

/* The long prompt is sent once, when all requests that are under way have begun to stream. */
static ig_status send_long(load *l) {
    serve_long_prompt *p = &l->level->long_prompt;
    const int n_running = ig_http_client_busy(l->http);
    if (!l->job->long_prompt || p->was_sent) return IG_OK;
    const bool more_to_come = l->n_free > 0 && !is_over(l) && !(l->job->rate > 0);
    if (n_running == 0 || l->n_streaming < n_running || more_to_come) return IG_OK;
    p->was_sent = true;
    return send_prompt(l, &l->clients[l->level->n_clients], &p->reply, l->job->long_prompt, 1);
}

static int wait_ms(const load *l) {
    const double until = l->next_due_ms - now_ms(l);
    if (is_over(l) || l->n_free == 0 || until > WAIT_MS) return WAIT_MS;
    return until > 0 ? (int)ceil(until) : 0;
}

static ig_status run_all(load *l, ig_meter *meter) {
    char note[NOTE_BYTES];
    while (!is_over(l) || ig_http_client_busy(l->http) > 0) {
        if (ig_cli_cancelled(l->job->target->cli))
            return IG_FAIL(IG_ERR_CANCELLED, "bench serve: %zu requests were sent",
                           l->level->n_replies);
        IG_TRY(send_due(l));
        IG_TRY(send_long(l));
        IG_TRY(ig_http_client_poll(l->http, wait_ms(l)));
        IG_TRY(l->status);
        snprintf(note, sizeof note, "%d running, %d streaming", ig_http_client_busy(l->http),
                 l->n_streaming);
        ig_meter_update(meter, l->n_ended, note);
    }
    return IG_OK;
}

/* ---- A level ---- */

static ig_status fill_in(load *l) {
    serve_level *level = l->level;
    const int n = level->n_clients + 1;
    level->replies = ig_alloc(l->allocator, l->job->n_prompts, sizeof *level->replies);
    l->clients = ig_alloc(l->allocator, (size_t)n, sizeof *l->clients);
    l->free = ig_alloc(l->allocator, (size_t)n, sizeof *l->free);
    if (!level->replies || !l->clients || !l->free)
        return IG_FAIL(IG_ERR_MEMORY, "bench serve: no memory for %d clients", n);
    for (int i = 0; i < n; i++) l->clients[i] = (client){.load = l, .connection = i};
    for (int i = level->n_clients; i-- > 0;) l->free[l->n_free++] = i;
    return serve_target_client(l->job->target, n, &l->http);
}

static double end_of(const serve_level *level) {
    double last = 0;
    for (size_t i = 0; i < level->n_replies; i++) last = fmax(last, level->replies[i].last_ms);
    return last;
}

ig_status serve_level_run(const serve_job *job, int n_clients, serve_level *out) {
    ig_cli *cli = job->target->cli;
    const int64_t pid = job->target->options->pid;
    *out = (serve_level){.n_clients = n_clients};
    load l = {.job = job, .allocator = &cli->allocator, .level = out};
    ig_status status = fill_in(&l);
    if (status == IG_OK) {
        ig_meter meter =
            ig_meter_begin(&cli->term, cli->quiet, job->what, "requests", (uint64_t)job->n_prompts);
        out->rss_before = pid > 0 ? serve_rss(pid) : 0;
        l.began_ms = ig_clock_ms();
        if (job->rate > 0) l.next_due_ms = time_to_next(&l, 0);
        status = run_all(&l, &meter);
        out->rss_after = pid > 0 ? serve_rss(pid) : 0;
        out->ms = end_of(out);
        if (status == IG_OK)
            ig_meter_end(&meter, l.n_ended, "");
        else if (meter.line_open)
            fputc('\n', stderr);
    }
    ig_http_client_destroy(l.http);
    for (int i = 0; l.clients && i <= n_clients; i++) ig_free(l.allocator, l.clients[i].text.at);
    ig_free(l.allocator, l.clients);
    ig_free(l.allocator, l.free);
    return status;
}

void serve_level_release(const ig_cli *cli, serve_level *level) {
    ig_free(&cli->allocator, level->replies);
    ig_free(&cli->allocator, level->gaps);
    *level = (serve_level){0};
}
