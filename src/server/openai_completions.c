/*
 * POST /v1/completions: prompts to their continuations.
 *
 * The choices of prompt p are p * n to p * n + n - 1.  With `echo` a choice begins with the prompt.
 */
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "server/inputs.h"
#include "server/openai.h"
#include "server/openai_shapes.h"

static const ig_dialect dialect;
static const char object[] = "text_completion";

enum { TOKENS, TOKEN_LOGPROBS, TOP_LOGPROBS, TEXT_OFFSET, TOKEN_IDS }; /* lists of a choice */

/* ---- the request ---- */

static bool check(ig_work *w) {
    ig_generation *g = (ig_generation *)w;
    if (!ig_fields_given(&w->fields, IG_FIELD_PROMPT))
        return ig_refuse(&w->error, 400, "prompt", "prompt is missing");
    if (!ig_generation_check(w, &dialect)) return false;
    g->logprobs = g->request.logprobs = ig_fields_given(&w->fields, IG_FIELD_LOGPROBS);
    g->top_logprobs = (int)ig_fields_int(&w->fields, IG_FIELD_LOGPROBS);
    g->request.top_logprobs = g->top_logprobs;
    g->echo = ig_fields_bool(&w->fields, IG_FIELD_ECHO);
    g->request.prompt_logprobs = g->echo && g->logprobs;
    return true;
}

/* The id of a control token by its name; -1: none. */
static int32_t token_named(const ig_tokenizer *tokenizer, const char *name) {
    ig_tokens tokens = {0};
    int32_t id = -1;
    const ig_status status = ig_tokenize(
        tokenizer, name, strlen(name), IG_TOKENIZE_PARSE_SPECIAL | IG_TOKENIZE_CONTINUES, &tokens);
    if (status == IG_OK && tokens.count == 1) id = tokens.at[0];
    ig_tokens_deinit(&tokens);
    return id;
}

/* Tokens before the prefix, the suffix and the middle. */
static bool find_middle(const ig_tokenizer *tokenizer, int32_t out[3]) {
    static const char *const names[][3] = {
        {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
        {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
        {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
        {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
        {"▁<PRE>", "▁<SUF>", "▁<MID>"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        for (int k = 0; k < 3; k++) out[k] = token_named(tokenizer, names[i][k]);
        if (out[0] >= 0 && out[1] >= 0 && out[2] >= 0) return true;
    }
    return false;
}

/* prefix token, prompt, suffix token, suffix, middle token */
static bool fill_in(ig_generation *g, size_t i, const json_t *input, const json_t *suffix,
                    ig_tokens *out) {
    int32_t fim[3];
    ig_work *w = &g->work;
    if (!find_middle(w->served->tokenizer, fim))
        return ig_refuse(&w->error, 400, "suffix",
                         "suffix: the model %.200s has no fill-in-the-middle tokens",
                         w->served->id);
    return (ig_tokens_add(out, fim[0]) == IG_OK ||
            ig_refuse(&w->error, 503, NULL, "out of memory")) &&
           ig_input_tokenize(w, "prompt", i, input, IG_TOKENIZE_CONTINUES, out) &&
           (ig_tokens_add(out, fim[1]) == IG_OK ||
            ig_refuse(&w->error, 503, NULL, "out of memory")) &&
           ig_input_tokenize(w, "suffix", i, suffix, IG_TOKENIZE_CONTINUES, out) &&
           (ig_tokens_add(out, fim[2]) == IG_OK ||
            ig_refuse(&w->error, 503, NULL, "out of memory"));
}

/* What echo repeats: the prompt as it was given, or its tokens as text. */
static bool keep_text(ig_generation *g, ig_prompt *p, const json_t *input) {
    const ig_tokenizer *tokenizer = g->work.served->tokenizer;
    if (!g->echo) return true;
    if (json_is_string(input)) {
        ig_out_raw(&p->text, json_string_value(input), json_string_length(input));
        return true;
    }
    const size_t n =
        ig_detokenize(tokenizer, p->tokens.at, p->tokens.count, IG_DETOKENIZE_START, NULL, 0);
    char *text = ig_alloc(g->work.allocator, n + 1, 1);
    if (!text) return ig_refuse(&g->work.error, 503, NULL, "out of memory");
    ig_detokenize(tokenizer, p->tokens.at, p->tokens.count, IG_DETOKENIZE_START, text, n);
    ig_out_raw(&p->text, text, n);
    ig_free(g->work.allocator, text);
    return true;
}

static bool begin_offsets(ig_generation *g, ig_prompt *p) {
    if (!g->request.prompt_logprobs) return true;
    return ig_detokenizer_create(g->work.served->tokenizer, IG_DETOKENIZE_START, &p->detokenizer) ==
               IG_OK ||
           ig_refuse(&g->work.error, 503, NULL, "out of memory");
}

static bool prepare(ig_generation *g) {
    const json_t *prompts = g->work.fields.at[IG_FIELD_PROMPT];
    const json_t *suffix = g->work.fields.at[IG_FIELD_SUFFIX];
    if (json_string_length(suffix) == 0) suffix = NULL;
    if (!ig_generation_set_prompts(g, ig_inputs_count(prompts))) return false;
    for (size_t i = 0; i < g->n_prompts; i++) {
        const json_t *input = ig_inputs_at(prompts, i);
        ig_prompt *p = &g->prompts[i];
        const bool good = suffix ? fill_in(g, i, input, suffix, &p->tokens)
                                 : ig_input_tokenize(&g->work, "prompt", i, input,
                                                     IG_TOKENIZE_PROMPT, &p->tokens);
        if (!good || !keep_text(g, p, input) || !begin_offsets(g, p)) return false;
        if (p->tokens.count == 0)
            return ig_refuse(&g->work.error, 400, "prompt",
                             "prompt: has no tokens, but must have one");
    }
    return true;
}

/* ---- log-probabilities ---- */

static int64_t characters(ig_string_view text) {
    int64_t n = 0;
    for (size_t i = 0; i < text.n_bytes; i++) n += ((unsigned char)text.bytes[i] & 0xc0) != 0x80;
    return n;
}

static void add_logprobs(const ig_generation *g, ig_choice *c, const ig_job_event *event,
                         ig_string_view text) {
    ig_out *top = &c->lists[TOP_LOGPROBS];
    ig_out_bytes(&c->lists[TOKENS], NULL, text.bytes, text.n_bytes);
    ig_openai_number(&c->lists[TOKEN_LOGPROBS], NULL, event->logprob);
    ig_out_int(&c->lists[TEXT_OFFSET], NULL, c->offset);
    c->offset += characters(text);
    if (event->n_top == 0) {
        ig_out_null(top, NULL);
        return;
    }
    ig_out_open(top, NULL, '{');
    for (size_t i = 0; i < event->n_top; i++) {
        const ig_string_view piece =
            ig_tokenizer_piece(g->work.served->tokenizer, event->top[i].token);
        char name[128];
        snprintf(name, sizeof name, "%.*s", (int)piece.n_bytes, piece.bytes);
        ig_openai_number(top, name, event->top[i].logprob);
    }
    ig_out_close(top, '}');
}

/* A token of a prompt belongs to all of its choices. */
static void collect(ig_generation *g, size_t index, const ig_job_event *event) {
    ig_prompt *p = &g->prompts[index / (size_t)g->n];
    if (event->type == IG_JOB_EVENT_PROMPT) {
        const ig_string_view text = ig_detokenizer_next(p->detokenizer, event->token);
        const size_t first = index - index % (size_t)g->n;
        for (size_t i = 0; i < (size_t)g->n; i++)
            add_logprobs(g, &g->choices[first + i], event, text);
        return;
    }
    ig_choice *c = &g->choices[index];
    if (g->logprobs) add_logprobs(g, c, event, event->text);
    if (g->return_token_ids) ig_out_int(&c->lists[TOKEN_IDS], NULL, event->token);
}

static void add_list(ig_out *out, const char *name, ig_out *list) {
    ig_out_open(out, name, '[');
    ig_out_raw(out, list->bytes, list->n_bytes);
    ig_out_close(out, ']');
    ig_out_clear(list);
}

/* Writes the lists, and empties them for the next chunk. */
static void write_lists(ig_generation *g, ig_choice *c, ig_out *out) {
    if (!g->logprobs) {
        ig_out_null(out, "logprobs");
    } else {
        ig_out_open(out, "logprobs", '{');
        add_list(out, "tokens", &c->lists[TOKENS]);
        add_list(out, "token_logprobs", &c->lists[TOKEN_LOGPROBS]);
        add_list(out, "top_logprobs", &c->lists[TOP_LOGPROBS]);
        add_list(out, "text_offset", &c->lists[TEXT_OFFSET]);
        ig_out_close(out, '}');
    }
    if (g->return_token_ids) add_list(out, "token_ids", &c->lists[TOKEN_IDS]);
}

/* ---- a whole reply ---- */

static void add_choice(ig_generation *g, size_t index, ig_out *out) {
    ig_choice *c = &g->choices[index];
    const ig_prompt *p = &g->prompts[index / (size_t)g->n];
    ig_out text = {.allocator = g->work.allocator};
    ig_out_raw(&text, p->text.bytes, p->text.n_bytes);
    ig_out_raw(&text, c->content.bytes, c->content.n_bytes);
    ig_out_open(out, NULL, '{');
    ig_out_int(out, "index", (int64_t)index);
    ig_out_bytes(out, "text", text.bytes, text.n_bytes);
    write_lists(g, c, out);
    if (g->return_token_ids) ig_openai_prompt_ids(g, index / (size_t)g->n, out);
    ig_out_string(out, "finish_reason", ig_openai_finish_reason(c->finish));
    ig_out_close(out, '}');
    if (text.failed) out->failed = true;
    ig_out_deinit(&text);
}

static void whole(ig_generation *g, ig_out *out) {
    ig_out_open(out, NULL, '{');
    ig_openai_head(g, object, out);
    ig_out_open(out, "choices", '[');
    for (size_t i = 0; i < g->n_prompts * (size_t)g->n; i++) add_choice(g, i, out);
    ig_out_close(out, ']');
    ig_openai_usage(g, "usage", out);
    ig_openai_timings(g, 0, out);
    ig_generation_report(g, out);
    ig_out_close(out, '}');
}

/* ---- chunks ---- */

static void open_chunk(ig_generation *g, size_t index, const ig_out *text, ig_out *out) {
    ig_sse_open(out);
    ig_out_open(out, NULL, '{');
    ig_openai_head(g, object, out);
    ig_out_open(out, "choices", '[');
    ig_out_open(out, NULL, '{');
    ig_out_int(out, "index", (int64_t)index);
    ig_out_bytes(out, "text", text ? text->bytes : "", text ? text->n_bytes : 0);
    write_lists(g, &g->choices[index], out);
}

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
    if (!g->echo) return;
    open_chunk(g, index, &g->prompts[index / (size_t)g->n].text, out);
    close_choice(g, NULL, out);
    close_chunk(out);
}

static void delta(ig_generation *g, size_t index, const ig_delta *d, ig_out *out) {
    if (d->event->type == IG_JOB_EVENT_TOKEN) collect(g, index, d->event);
    open_chunk(g, index, d->content, out);
    close_choice(g, NULL, out);
    if (g->timings_per_token) ig_openai_timings(g, index, out);
    close_chunk(out);
}

static void progress(ig_generation *g, size_t index, const ig_job_event *event, ig_out *out) {
    open_chunk(g, index, NULL, out);
    close_choice(g, NULL, out);
    ig_openai_progress(event, ig_exchange_get_request(g->work.x)->arrived_ms, out);
    close_chunk(out);
}

static void finish(ig_generation *g, size_t index, ig_out *out) {
    open_chunk(g, index, NULL, out);
    close_choice(g, ig_openai_finish_reason(g->choices[index].finish), out);
    ig_openai_timings(g, index, out);
    close_chunk(out);
}

static void end(ig_generation *g, ig_out *out) { ig_openai_end(g, object, out); }

static const ig_dialect dialect = {
    .id_prefix = "cmpl-",
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

void ig_openai_completions(ig_server *server, ig_exchange *x) {
    static const ig_work_type type = {
        sizeof(ig_generation), IG_BODY_COMPLETION, check,
        ig_generation_advance, ig_generation_fail, ig_generation_close};
    ig_work_begin(server, x, &type);
}
