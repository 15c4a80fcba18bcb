/*
 * POST /v1/chat/completions: messages to a reply, whole or as chunks.
 *
 * The first chunk of a choice has the role, the following ones text, the last one an empty delta
 * and why the choice ended.
 */
#include <string.h>

#include "server/chat_prompt.h"
#include "server/openai.h"
#include "server/openai_shapes.h"

static const ig_dialect dialect;
static const char chunk_object[] = "chat.completion.chunk";

enum { LOGPROBS, TOKEN_IDS }; /* lists of a choice */

/* ---- the request ---- */

static bool read_logprobs(ig_generation *g) {
    const ig_fields *f = &g->work.fields;
    g->logprobs = g->request.logprobs = ig_fields_bool(f, IG_FIELD_CHAT_LOGPROBS);
    g->top_logprobs = g->request.top_logprobs = (int)ig_fields_int(f, IG_FIELD_TOP_LOGPROBS);
    if (g->top_logprobs > 0 && !g->logprobs)
        return ig_refuse(&g->work.error, 400, "top_logprobs",
                         "top_logprobs is %d, but logprobs is not true", g->top_logprobs);
    return true;
}

static bool read_reasoning(ig_generation *g) {
    const char *format = ig_fields_text(&g->work.fields, IG_FIELD_REASONING_FORMAT);
    const char *standard = ig_server_get_options(g->work.server)->reasoning_format;
    const char *name = format && strcmp(format, "auto") != 0 ? format : standard;
    if (!name) name = "both";
    const bool is_both = strcmp(name, "both") == 0, is_none = strcmp(name, "none") == 0;
    if (!is_both && !is_none && strcmp(name, "deepseek") != 0)
        return ig_refuse(&g->work.error, 400, "reasoning_format",
                         "reasoning_format is \"%.40s\", but must be none, deepseek, both or auto",
                         name);
    g->splits_reasoning = g->reasoning_content = !is_none;
    g->reasoning = is_both;
    return true;
}

static bool check(ig_work *w) {
    ig_generation *g = (ig_generation *)w;
    if (!ig_fields_given(&w->fields, IG_FIELD_MESSAGES))
        return ig_refuse(&w->error, 400, "messages", "messages is missing");
    return ig_generation_check(w, &dialect) && read_logprobs(g) && read_reasoning(g);
}

/* A template may end turns with a text, not a token. */
static void add_turn_end(ig_generation *g) {
    const char *end = ig_chat_template_turn_end(g->work.served->chat);
    if (end) g->stops[g->request.n_stop++] = end;
}

static bool prepare(ig_generation *g) {
    if (!ig_generation_set_prompts(g, 1) ||
        !ig_chat_prompt(g->work.served, &g->work.fields, &g->prompts[0].tokens, NULL,
                        &g->work.error))
        return false;
    add_turn_end(g);
    return true;
}

/* ---- a whole reply ---- */

static void collect(ig_generation *g, size_t index, const ig_job_event *event) {
    ig_choice *c = &g->choices[index];
    if (event->type != IG_JOB_EVENT_TOKEN) return;
    if (g->logprobs) ig_openai_logprob(g, event, &c->lists[LOGPROBS]);
    if (g->return_token_ids) ig_out_int(&c->lists[TOKEN_IDS], NULL, event->token);
}

static void add_list(ig_out *out, const char *name, const ig_out *list) {
    ig_out_open(out, name, '[');
    ig_out_raw(out, list->bytes, list->n_bytes);
    ig_out_close(out, ']');
}

static void add_thoughts(const ig_generation *g, const ig_out *thoughts, ig_out *out) {
    if (thoughts->n_bytes == 0) return;
    if (g->reasoning_content)
        ig_out_bytes(out, "reasoning_content", thoughts->bytes, thoughts->n_bytes);
    if (g->reasoning) ig_out_bytes(out, "reasoning", thoughts->bytes, thoughts->n_bytes);
}

static void add_choice(ig_generation *g, size_t index, ig_out *out) {
    const ig_choice *c = &g->choices[index];
    ig_out_open(out, NULL, '{');
    ig_out_int(out, "index", (int64_t)index);
    ig_out_open(out, "message", '{');
    ig_out_string(out, "role", "assistant");
    ig_out_bytes(out, "content", c->content.bytes, c->content.n_bytes);
    add_thoughts(g, &c->thoughts, out);
    ig_out_close(out, '}');
    if (g->logprobs) {
        ig_out_open(out, "logprobs", '{');
        add_list(out, "content", &c->lists[LOGPROBS]);
        ig_out_null(out, "refusal");
        ig_out_close(out, '}');
    } else {
        ig_out_null(out, "logprobs");
    }
    if (g->return_token_ids) add_list(out, "token_ids", &c->lists[TOKEN_IDS]);
    ig_out_string(out, "finish_reason", ig_openai_finish_reason(c->finish));
    ig_out_close(out, '}');
}

static void whole(ig_generation *g, ig_out *out) {
    ig_out_open(out, NULL, '{');
    ig_openai_head(g, "chat.completion", out);
    ig_out_open(out, "choices", '[');
    for (size_t i = 0; i < (size_t)g->n; i++) add_choice(g, i, out);
    ig_out_close(out, ']');
    ig_openai_usage(g, "usage", out);
    ig_openai_timings(g, 0, out);
    if (g->return_token_ids) ig_openai_prompt_ids(g, 0, out);
    ig_generation_report(g, out);
    ig_out_close(out, '}');
}

/* ---- chunks ---- */

/* Up to the members of the delta. */
static void open_chunk(ig_generation *g, size_t index, ig_out *out) {
    ig_sse_open(out);
    ig_out_open(out, NULL, '{');
    ig_openai_head(g, chunk_object, out);
    ig_out_open(out, "choices", '[');
    ig_out_open(out, NULL, '{');
    ig_out_int(out, "index", (int64_t)index);
    ig_out_open(out, "delta", '{');
}

static void close_delta(const ig_generation *g, const ig_job_event *event, ig_out *out) {
    ig_out_close(out, '}');
    if (g->logprobs && event) {
        ig_out_open(out, "logprobs", '{');
        ig_out_open(out, "content", '[');
        ig_openai_logprob(g, event, out);
        ig_out_close(out, ']');
        ig_out_close(out, '}');
    }
    if (g->return_token_ids && event) {
        ig_out_open(out, "token_ids", '[');
        ig_out_int(out, NULL, event->token);
        ig_out_close(out, ']');
    }
}

/* Closes the choice and its list. */
static void close_choice(const ig_generation *g, const char *reason, ig_out *out) {
    ig_out_string(out, "finish_reason", reason);
    ig_out_close(out, '}');
    ig_out_close(out, ']');
    if (g->include_usage) ig_out_null(out, "usage");
}

static void close_chunk(ig_out *out) {
    ig_out_close(out, '}');
    ig_sse_close(out);
}

static void begin(ig_generation *g, size_t index, ig_out *out) {
    open_chunk(g, index, out);
    ig_out_string(out, "role", "assistant");
    ig_out_null(out, "content");
    close_delta(g, NULL, out);
    close_choice(g, NULL, out);
    if (g->return_token_ids && index == 0) ig_openai_prompt_ids(g, 0, out);
    close_chunk(out);
}

static void delta(ig_generation *g, size_t index, const ig_delta *d, ig_out *out) {
    const bool is_token = d->event->type == IG_JOB_EVENT_TOKEN;
    open_chunk(g, index, out);
    add_thoughts(g, d->thoughts, out);
    if (d->content->n_bytes > 0)
        ig_out_bytes(out, "content", d->content->bytes, d->content->n_bytes);
    close_delta(g, is_token ? d->event : NULL, out);
    close_choice(g, NULL, out);
    if (g->timings_per_token) ig_openai_timings(g, index, out);
    close_chunk(out);
}

static void progress(ig_generation *g, size_t index, const ig_job_event *event, ig_out *out) {
    open_chunk(g, index, out);
    close_delta(g, NULL, out);
    close_choice(g, NULL, out);
    ig_openai_progress(event, ig_exchange_get_request(g->work.x)->arrived_ms, out);
    close_chunk(out);
}

static void finish(ig_generation *g, size_t index, ig_out *out) {
    open_chunk(g, index, out);
    close_delta(g, NULL, out);
    close_choice(g, ig_openai_finish_reason(g->choices[index].finish), out);
    ig_openai_timings(g, index, out);
    close_chunk(out);
}

static void end(ig_generation *g, ig_out *out) { ig_openai_end(g, chunk_object, out); }

static const ig_dialect dialect = {
    .id_prefix = "chatcmpl-",
    .stream_type = "text/event-stream",
    .prepare = prepare,
    .collect = collect,
    .whole = whole,
    .begin = begin,
    .delta = delta,
    .progress = progress,
    .finish = finish,
    .end = end,
    .error = ig_openai_error,
};

void ig_openai_chat(ig_server *server, ig_exchange *x) {
    static const ig_work_type type = {
        sizeof(ig_generation), IG_BODY_CHAT,       check,
        ig_generation_advance, ig_generation_fail, ig_generation_close};
    ig_work_begin(server, x, &type);
}
