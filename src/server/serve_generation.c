#include "server/serve_generation.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "ingot/report.h"

enum { IN_FLIGHT = 16 }; /* jobs of one request, at most: the queue is for all of them */

/* ---- beginning ---- */

static void make_id(ig_generation *g) {
    unsigned char random[12];
    if (getrandom(random, sizeof random, 0) != sizeof random) memcpy(random, &g, sizeof g);
    size_t used = (size_t)snprintf(g->id, sizeof g->id, "%s", g->dialect->id_prefix);
    for (size_t i = 0; i < sizeof random; i++)
        used += (size_t)snprintf(g->id + used, sizeof g->id - used, "%02x", random[i]);
    g->created = (int64_t)time(NULL);
}

bool ig_generation_check(ig_work *w, const ig_dialect *dialect) {
    ig_generation *g = (ig_generation *)w;
    g->dialect = dialect;
    g->out.allocator = g->thoughts.allocator = g->content.allocator = w->allocator;
    g->written_ms = ig_clock_ms();
    make_id(g);
    return ig_generation_read_options(g);
}

bool ig_generation_set_prompts(ig_generation *g, size_t n) {
    const ig_allocator *a = g->work.allocator;
    if (n == 0 || n > IG_MAX_PROMPTS)
        return ig_refuse(&g->work.error, 400, "prompt", "prompt: %zu prompts, but must be 1 to %d",
                         n, IG_MAX_PROMPTS);
    if (n * (size_t)g->n > IG_MAX_CHOICES)
        return ig_refuse(&g->work.error, 400, "n",
                         "n is %d for %zu prompts: at most %d choices in all are allowed", g->n, n,
                         IG_MAX_CHOICES);
    g->prompts = ig_alloc(a, n, sizeof *g->prompts);
    g->choices = ig_alloc(a, n * (size_t)g->n, sizeof *g->choices);
    if (!g->prompts || !g->choices) return ig_refuse(&g->work.error, 503, NULL, "out of memory");
    g->n_prompts = n;
    for (size_t i = 0; i < n; i++)
        g->prompts[i].tokens.allocator = g->prompts[i].text.allocator = a;
    for (size_t i = 0; i < n * (size_t)g->n; i++) {
        ig_choice *c = &g->choices[i];
        c->content.allocator = c->thoughts.allocator = a;
        for (size_t k = 0; k < sizeof c->lists / sizeof c->lists[0]; k++) c->lists[k].allocator = a;
    }
    return true;
}

/* Nothing is cut in silence.  All prompts are looked at before the first is submitted. */
static bool check_length(ig_generation *g, const ig_prompt *p) {
    const int64_t ctx = g->work.served->ctx_len, n = (int64_t)p->tokens.count;
    if (n == 0)
        return ig_refuse(&g->work.error, 400, "messages",
                         "messages: the chat template has rendered no tokens");
    if (n <= ctx - (g->request.prefill_only ? 0 : 1)) return true;
    ig_refuse(&g->work.error, 400, NULL,
              "the prompt has %lld tokens, but the context of the model has room for %lld, and one "
              "more is needed for the reply",
              (long long)n, (long long)ctx);
    g->work.error.type = "exceed_context_size_error";
    g->work.error.n_prompt_tokens = n;
    g->work.error.n_ctx = ctx;
    return false;
}

/* Whether the prompt has opened the thoughts is seen in its last tokens. */
static ig_reasoning begin_split(const ig_generation *g, const ig_prompt *p) {
    enum { TAIL = 16 };
    char text[512];
    const size_t n = p->tokens.count < TAIL ? p->tokens.count : TAIL;
    if (!g->splits_reasoning) return ig_reasoning_none();
    const size_t bytes =
        ig_detokenize(g->work.served->tokenizer, p->tokens.at + p->tokens.count - n, n,
                      IG_DETOKENIZE_SPECIAL, text, sizeof text);
    return bytes > sizeof text ? (ig_reasoning){0} : ig_reasoning_begin(text, bytes);
}

static bool start(ig_generation *g) {
    if (!g->work.served->can_generate)
        return ig_refuse(&g->work.error, 400, "model",
                         "the model %.200s makes embeddings, not text", g->work.served->id);
    if (!ig_generation_read_model_options(g) || !g->dialect->prepare(g)) return false;
    for (size_t p = 0; p < g->n_prompts; p++) {
        if (!check_length(g, &g->prompts[p])) return false;
        for (size_t i = 0; i < (size_t)g->n; i++)
            g->choices[p * (size_t)g->n + i].split = begin_split(g, &g->prompts[p]);
    }
    return true;
}

/* ---- submitting ---- */

static void wake(void *user) { ig_exchange_wake(user); }

static bool submit(ig_generation *g) {
    while (g->n_submitted < g->n_prompts && g->n_submitted - g->n_done < IN_FLIGHT) {
        ig_prompt *p = &g->prompts[g->n_submitted];
        ig_request request = g->request;
        request.tokens = p->tokens.at;
        request.n_tokens = p->tokens.count;
        request.notify = wake;
        request.user = g->work.x;
        const ig_status status = ig_engine_submit(g->work.served->engine, &request, &p->job);
        if (status == IG_ERR_BUSY && g->n_submitted > g->n_done) return true; /* later */
        if (status != IG_OK) return ig_work_refuse_submit(&g->work, status);
        g->n_submitted++;
    }
    return true;
}

/* ---- streams ---- */

/* False: the client has to take what was written before. */
static bool flush(ig_generation *g) {
    if (g->out.n_bytes == 0) return true;
    if (!ig_exchange_write(g->work.x, g->out.bytes, g->out.n_bytes)) return false;
    ig_out_clear(&g->out);
    g->written_ms = ig_clock_ms();
    return true;
}

static void begin_stream(ig_generation *g) {
    if (g->has_begun) return;
    g->has_begun = true;
    ig_exchange_add_header(g->work.x, "Cache-Control", "no-cache");
    ig_exchange_add_header(g->work.x, "X-Accel-Buffering", "no");
    ig_exchange_stream(g->work.x, 200, g->dialect->stream_type);
}

static void begin_choice(ig_generation *g, size_t index) {
    begin_stream(g);
    if (g->choices[index].has_begun) return;
    g->choices[index].has_begun = true;
    if (g->dialect->begin) g->dialect->begin(g, index, &g->out);
}

static void end_stream(ig_generation *g) {
    g->is_ending = true;
    if (!flush(g)) return;
    ig_exchange_end(g->work.x);
    g->work.has_replied = true;
}

static void time_out(void *user) {
    ig_generation *g = user;
    atomic_store(&g->is_ping_set, false);
    ig_exchange_wake(g->work.x);
}

/* A comment while nothing else is written, so that no proxy ends the connection. */
static void ping(ig_generation *g) {
    const double each_ms = ig_server_get_options(g->work.server)->sse_ping_s * 1e3;
    if (!g->stream || g->work.has_replied || each_ms <= 0) return;
    if (ig_clock_ms() - g->written_ms >= each_ms) {
        begin_stream(g);
        ig_out_text(&g->out, ": ping\n\n");
        flush(g);
        g->written_ms = ig_clock_ms();
    }
    if (atomic_exchange(&g->is_ping_set, true)) return;
    g->ping.notify = time_out;
    g->ping.user = g;
    ig_timers_set(ig_routes_timers(ig_server_routes(g->work.server)), &g->ping,
                  g->written_ms + each_ms);
}

/* ---- errors ---- */

static void fail(ig_generation *g) {
    for (size_t i = 0; i < g->n_submitted; i++) ig_job_cancel(g->prompts[i].job);
    ig_exchange_note(g->work.x, "error", g->work.error.message);
    if (!g->has_begun) {
        ig_work_refuse(&g->work);
        return;
    }
    if (g->out.failed) ig_out_clear(&g->out);
    g->dialect->error(g, &g->work.error, &g->out);
    end_stream(g);
}

void ig_generation_fail(ig_work *w) {
    ig_generation *g = (ig_generation *)w;
    if (!g->is_ending) fail(g);
}

/* ---- events ---- */

/* The text of a token: a tag of thoughts may be a control token, which has none. */
static ig_string_view text_of(const ig_generation *g, const ig_job_event *event) {
    const ig_tokenizer *tokenizer = g->work.served->tokenizer;
    if (!g->splits_reasoning || event->type != IG_JOB_EVENT_TOKEN || event->text.n_bytes > 0 ||
        !ig_tokenizer_is_control(tokenizer, event->token))
        return event->text;
    const ig_string_view piece = ig_tokenizer_piece(tokenizer, event->token);
    return ig_reasoning_is_tag(piece.bytes, piece.n_bytes) ? piece : event->text;
}

static void add_text(ig_generation *g, size_t index, const ig_job_event *event) {
    ig_choice *c = &g->choices[index];
    const ig_string_view text = text_of(g, event);
    ig_out_clear(&g->content);
    ig_out_clear(&g->thoughts);
    ig_reasoning_feed(&c->split, text.bytes, text.n_bytes, &g->thoughts, &g->content);
    if (event->type == IG_JOB_EVENT_FINISH) ig_reasoning_end(&c->split, &g->thoughts, &g->content);
    if (g->thoughts.failed || g->content.failed) g->out.failed = true;
    const bool is_token = event->type == IG_JOB_EVENT_TOKEN;
    if (!g->stream) {
        ig_out_raw(&c->content, g->content.bytes, g->content.n_bytes);
        ig_out_raw(&c->thoughts, g->thoughts.bytes, g->thoughts.n_bytes);
        if (is_token && g->dialect->collect) g->dialect->collect(g, index, event);
        if (c->content.failed || c->thoughts.failed) g->out.failed = true;
    } else if (g->content.n_bytes > 0 || g->thoughts.n_bytes > 0 ||
               (is_token && (g->logprobs || g->timings_per_token || g->return_token_ids))) {
        begin_choice(g, index);
        g->dialect->delta(g, index, &(ig_delta){&g->content, &g->thoughts, event}, &g->out);
    }
}

static bool take_finish(ig_generation *g, size_t index, const ig_job_event *event) {
    ig_choice *c = &g->choices[index];
    if (event->finish == IG_FINISH_CANCELLED) {
        const bool is_draining = ig_server_phase(g->work.server) >= IG_SERVER_DRAINING;
        return ig_refuse(&g->work.error, 503, NULL,
                         is_draining ? "the server is shutting down"
                                     : "the request has taken longer than the server allows");
    }
    add_text(g, index, event);
    c->finish = event->finish;
    c->is_finished = true;
    if (!g->stream) return true;
    begin_choice(g, index);
    g->dialect->finish(g, index, &g->out);
    return true;
}

static bool take_done(ig_generation *g, ig_prompt *p, const ig_job_event *event) {
    p->is_done = true;
    p->stats = ig_job_get_stats(p->job);
    g->n_done++;
    if (event->status == IG_OK) return true;
    return ig_work_refuse_job(&g->work, event);
}

static bool take(ig_generation *g, size_t prompt, const ig_job_event *event) {
    const size_t index = prompt * (size_t)g->n + (size_t)event->choice;
    ig_choice *c = &g->choices[index];
    switch (event->type) {
    case IG_JOB_EVENT_PROGRESS:
        if (!g->stream || !g->return_progress || !g->dialect->progress) break;
        begin_choice(g, index);
        g->dialect->progress(g, index, event, &g->out);
        break;
    case IG_JOB_EVENT_PROMPT:
        if (g->dialect->collect) g->dialect->collect(g, index, event);
        break;
    case IG_JOB_EVENT_TOKEN:
        c->n_tokens++;
        c->n_thinking += ig_reasoning_is_thinking(&c->split);
        add_text(g, index, event);
        break;
    case IG_JOB_EVENT_FINISH: return take_finish(g, index, event);
    case IG_JOB_EVENT_EMBEDDING: break;
    case IG_JOB_EVENT_DONE: return take_done(g, &g->prompts[prompt], event);
    }
    return !g->out.failed || ig_refuse(&g->work.error, 503, NULL, "out of memory");
}

/* Takes all events; false: one is an error, or the client does not take what is written. */
static bool poll(ig_generation *g) {
    ig_job_event event;
    for (size_t p = 0; p < g->n_submitted; p++)
        while (!g->prompts[p].is_done && ig_job_poll(g->prompts[p].job, &event)) {
            if (!take(g, p, &event)) {
                fail(g);
                return false;
            }
            if (g->has_begun && !flush(g)) return false;
        }
    return true;
}

/* ---- the end ---- */

ig_usage ig_generation_usage(const ig_generation *g) {
    ig_usage usage = {0};
    for (size_t p = 0; p < g->n_prompts; p++) {
        const ig_job_stats stats = ig_generation_stats(g, p * (size_t)g->n);
        usage.n_prompt += (int64_t)g->prompts[p].tokens.count;
        usage.n_cached += stats.n_cached_tokens;
        usage.n_generated += stats.n_generated;
    }
    for (size_t i = 0; i < g->n_prompts * (size_t)g->n; i++)
        usage.n_thinking += g->choices[i].n_thinking;
    return usage;
}

ig_job_stats ig_generation_stats(const ig_generation *g, size_t index) {
    const ig_prompt *p = &g->prompts[index / (size_t)g->n];
    if (p->is_done || !p->job) return p->stats;
    return ig_job_get_stats(p->job);
}

static void note(ig_generation *g, const char *name, int64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    ig_exchange_note(g->work.x, name, text);
}

static void note_all(ig_generation *g) {
    const ig_usage usage = ig_generation_usage(g);
    const ig_job_stats stats = ig_generation_stats(g, 0);
    ig_exchange_note(g->work.x, "model", g->work.served->id);
    note(g, "prompt_tokens", usage.n_prompt);
    note(g, "cached_tokens", usage.n_cached);
    note(g, "generated_tokens", usage.n_generated);
    note(g, "queue_ms", (int64_t)stats.queue_ms);
    note(g, "first_token_ms", (int64_t)stats.first_token_ms);
    note(g, "decode_ms", (int64_t)stats.decode_ms);
    ig_exchange_note(g->work.x, "finish",
                     g->choices[0].finish == IG_FINISH_STOP ? "stop" : "length");
}

static void finish(ig_generation *g) {
    note_all(g);
    if (g->stream) {
        begin_stream(g);
        if (g->dialect->end) g->dialect->end(g, &g->out);
        end_stream(g);
        return;
    }
    g->dialect->whole(g, &g->out);
    ig_work_reply(&g->work, &g->out);
}

void ig_generation_advance(ig_work *w) {
    ig_generation *g = (ig_generation *)w;
    if (g->is_ending) {
        end_stream(g);
        return;
    }
    if (ig_exchange_left(w->x) || (g->has_begun && !flush(g))) return;
    if ((!g->prompts && !start(g)) || !submit(g)) {
        fail(g);
        return;
    }
    if (!poll(g)) return;
    if (!submit(g))
        fail(g);
    else if (g->n_done == g->n_prompts)
        finish(g);
    else
        ping(g);
}

void ig_generation_close(ig_work *w) {
    ig_generation *g = (ig_generation *)w;
    const ig_allocator *a = w->allocator;
    ig_timers_drop(ig_routes_timers(ig_server_routes(w->server)), &g->ping);
    for (size_t p = 0; p < g->n_prompts; p++) {
        ig_job_release(g->prompts[p].job);
        ig_tokens_deinit(&g->prompts[p].tokens);
        ig_out_deinit(&g->prompts[p].text);
        ig_detokenizer_destroy(g->prompts[p].detokenizer);
    }
    for (size_t i = 0; g->choices && i < g->n_prompts * (size_t)g->n; i++) {
        ig_choice *c = &g->choices[i];
        ig_out_deinit(&c->content);
        ig_out_deinit(&c->thoughts);
        for (size_t k = 0; k < sizeof c->lists / sizeof c->lists[0]; k++)
            ig_out_deinit(&c->lists[k]);
    }
    ig_free(a, g->prompts);
    ig_free(a, g->choices);
    ig_free(a, g->stops);
    ig_free(a, g->stop_tokens);
    ig_free(a, g->biases);
    ig_free(a, g->salt);
    ig_out_deinit(&g->out);
    ig_out_deinit(&g->thoughts);
    ig_out_deinit(&g->content);
}

/* ---- the run report ---- */

typedef struct report {
    const ig_ctx *ctx;
    ig_out *out;
} report;

/* On the scheduler's thread: the context is its own. */
static ig_status read_report(ig_adapter *adapter, void *user) {
    report *r = user;
    (void)adapter;
    const size_t n = ig_report_json(r->ctx, NULL, 0);
    char *text = ig_alloc(r->out->allocator, n + 1, 1);
    if (!text) return IG_FAIL(IG_ERR_MEMORY, "report");
    ig_report_json(r->ctx, text, n + 1);
    ig_out_json(r->out, "report", text, strlen(text));
    ig_free(r->out->allocator, text);
    return IG_OK;
}

void ig_generation_report(const ig_generation *g, ig_out *out) {
    report r = {.ctx = g->work.served->ctx, .out = out};
    if (!g->report) return;
    if (ig_engine_call(g->work.served->engine, read_report, &r) != IG_OK)
        ig_out_null(out, "report");
}
