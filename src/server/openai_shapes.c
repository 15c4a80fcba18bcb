#include "server/openai_shapes.h"

#include <math.h>

#include "base/clock.h"

void ig_openai_head(const ig_generation *g, const char *object, ig_out *out) {
    ig_out_string(out, "id", g->id);
    ig_out_string(out, "object", object);
    ig_out_int(out, "created", g->created);
    ig_out_string(out, "model", g->work.served->id);
    ig_out_string(out, "system_fingerprint",
                  ig_server_get_options(g->work.server)->system_fingerprint);
}

void ig_openai_usage(const ig_generation *g, const char *name, ig_out *out) {
    const ig_usage usage = ig_generation_usage(g);
    ig_out_open(out, name, '{');
    ig_out_int(out, "prompt_tokens", usage.n_prompt);
    ig_out_int(out, "completion_tokens", usage.n_generated);
    ig_out_int(out, "total_tokens", usage.n_prompt + usage.n_generated);
    ig_out_open(out, "prompt_tokens_details", '{');
    ig_out_int(out, "cached_tokens", usage.n_cached);
    ig_out_close(out, '}');
    if (g->splits_reasoning) {
        ig_out_open(out, "completion_tokens_details", '{');
        ig_out_int(out, "reasoning_tokens", usage.n_thinking);
        ig_out_close(out, '}');
    }
    ig_out_close(out, '}');
}

/* Finite always: nothing took no time. */
static void rate(ig_out *out, const char *each, const char *per_second, int64_t n, double ms) {
    ig_out_number(out, each, n > 0 ? ms / (double)n : 0);
    ig_out_number(out, per_second, ms > 0 ? (double)n * 1e3 / ms : 0);
}

void ig_openai_timings(const ig_generation *g, size_t index, ig_out *out) {
    const ig_job_stats s = ig_generation_stats(g, index);
    const int64_t n_prompt = s.n_prompt_tokens - s.n_cached_tokens;
    const int64_t n_choices = g->request.n_choices;
    ig_out_open(out, "timings", '{');
    ig_out_int(out, "cache_n", s.n_cached_tokens);
    ig_out_int(out, "prompt_n", n_prompt);
    ig_out_number(out, "prompt_ms", s.prefill_ms);
    rate(out, "prompt_per_token_ms", "prompt_per_second", n_prompt, s.prefill_ms);
    ig_out_int(out, "predicted_n", s.n_generated);
    ig_out_number(out, "predicted_ms", s.decode_ms);
    /* The first token of a choice is the prefill's. */
    const int64_t n_steps = s.n_generated > n_choices ? s.n_generated - n_choices : 0;
    rate(out, "predicted_per_token_ms", "predicted_per_second", n_steps, s.decode_ms);
    ig_out_number(out, "queue_ms", s.queue_ms);
    if (s.n_drafted > 0) {
        ig_out_int(out, "draft_n", s.n_drafted);
        ig_out_int(out, "draft_n_accepted", s.n_accepted);
    }
    ig_out_close(out, '}');
}

void ig_openai_progress(const ig_job_event *event, double since_ms, ig_out *out) {
    ig_out_open(out, "prompt_progress", '{');
    ig_out_int(out, "total", event->total);
    ig_out_int(out, "cache", event->cached);
    ig_out_int(out, "processed", event->processed);
    ig_out_number(out, "time_ms", ig_clock_ms() - since_ms);
    ig_out_int(out, "queue_position", event->position);
    ig_out_close(out, '}');
}

void ig_openai_prompt_ids(const ig_generation *g, size_t prompt, ig_out *out) {
    const ig_tokens *tokens = &g->prompts[prompt].tokens;
    ig_out_open(out, "prompt_token_ids", '[');
    for (size_t i = 0; i < tokens->count; i++) ig_out_int(out, NULL, tokens->at[i]);
    ig_out_close(out, ']');
}

const char *ig_openai_finish_reason(ig_finish finish) {
    return finish == IG_FINISH_STOP ? "stop" : "length";
}

/* ---- log-probabilities ---- */

void ig_openai_number(ig_out *out, const char *name, double logprob) {
    enum { LEAST = -9999 };
    ig_out_number(out, name, logprob < LEAST ? LEAST : logprob);
}

void ig_openai_piece(const ig_generation *g, const char *name, int32_t token, ig_out *out) {
    const ig_string_view piece = ig_tokenizer_piece(g->work.served->tokenizer, token);
    ig_out_bytes(out, name, piece.bytes, piece.n_bytes);
}

static void add_bytes(const ig_generation *g, int32_t token, ig_out *out) {
    const ig_string_view piece = ig_tokenizer_piece(g->work.served->tokenizer, token);
    ig_out_open(out, "bytes", '[');
    for (size_t i = 0; i < piece.n_bytes; i++) ig_out_int(out, NULL, (unsigned char)piece.bytes[i]);
    ig_out_close(out, ']');
}

/* The tokens of a text join to it: a character of several tokens is the last one's. */
void ig_openai_logprob(const ig_generation *g, const ig_job_event *event, ig_out *out) {
    ig_out_open(out, NULL, '{');
    ig_out_bytes(out, "token", event->text.bytes, event->text.n_bytes);
    ig_openai_number(out, "logprob", event->logprob);
    add_bytes(g, event->token, out);
    ig_out_open(out, "top_logprobs", '[');
    for (size_t i = 0; i < event->n_top; i++) {
        ig_out_open(out, NULL, '{');
        ig_openai_piece(g, "token", event->top[i].token, out);
        ig_openai_number(out, "logprob", event->top[i].logprob);
        add_bytes(g, event->top[i].token, out);
        ig_out_close(out, '}');
    }
    ig_out_close(out, ']');
    ig_out_close(out, '}');
}

/* ---- server-sent events ---- */

void ig_sse_open(ig_out *out) { ig_out_text(out, "data: "); }

void ig_sse_close(ig_out *out) { ig_out_text(out, "\n\n"); }

void ig_openai_error(ig_generation *g, const ig_http_error *error, ig_out *out) {
    (void)g;
    ig_sse_open(out);
    ig_http_error_write(error, out);
    ig_sse_close(out);
}

void ig_openai_end(ig_generation *g, const char *object, ig_out *out) {
    if (g->include_usage) {
        ig_sse_open(out);
        ig_out_open(out, NULL, '{');
        ig_openai_head(g, object, out);
        ig_out_open(out, "choices", '[');
        ig_out_close(out, ']');
        ig_openai_usage(g, "usage", out);
        ig_openai_timings(g, 0, out);
        ig_out_close(out, '}');
        ig_sse_close(out);
    }
    ig_out_text(out, "data: [DONE]\n\n");
}
