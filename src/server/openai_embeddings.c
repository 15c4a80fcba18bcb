/*
 * POST /v1/embeddings: a vector for each input.
 *
 * Each input is a job of its own, so a vector has the same bits alone or among others.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "server/inputs.h"
#include "server/openai.h"
#include "server/work.h"

enum { MAX_INPUTS = 256, IN_FLIGHT = 16 };

typedef struct input {
    ig_tokens tokens;
    ig_job *job;
    bool is_done;
    float *vector;
} input;

typedef struct embeddings {
    ig_work work;
    input *inputs;
    size_t n_inputs, n_submitted, n_done;
    int64_t d_model, n_tokens;
    bool base64;
} embeddings;

static bool check(ig_work *w) {
    const char *format = ig_fields_text(&w->fields, IG_FIELD_ENCODING_FORMAT);
    if (!ig_fields_given(&w->fields, IG_FIELD_INPUT))
        return ig_refuse(&w->error, 400, "input", "input is missing");
    if (format && strcmp(format, "float") != 0 && strcmp(format, "base64") != 0)
        return ig_refuse(&w->error, 400, "encoding_format",
                         "encoding_format is \"%.40s\", but must be float or base64", format);
    ((embeddings *)w)->base64 = format && strcmp(format, "base64") == 0;
    return true;
}

/* ---- inputs ---- */

static bool no_memory(ig_work *w) { return ig_refuse(&w->error, 503, NULL, "out of memory"); }

/* An empty text is fine, but the model must read something. */
static bool fill_empty(ig_work *w, ig_tokens *tokens) {
    static const ig_special specials[] = {IG_SPECIAL_BOS, IG_SPECIAL_EOS};
    for (size_t i = 0; i < 2 && tokens->count == 0; i++) {
        const int32_t id = ig_tokenizer_special(w->served->tokenizer, specials[i]);
        if (id >= 0 && ig_tokens_add(tokens, id) != IG_OK) return no_memory(w);
    }
    return tokens->count > 0 || ig_refuse(&w->error, 400, "input",
                                          "input: a text is empty, and the model has no token "
                                          "for that");
}

static bool check_length(ig_work *w, size_t i, const ig_tokens *tokens) {
    const int64_t n = (int64_t)tokens->count, ctx = w->served->ctx_len;
    if (n <= ctx) return true;
    ig_refuse(&w->error, 400, "input",
              "input[%zu] has %lld tokens, but the context of the model has room for %lld", i,
              (long long)n, (long long)ctx);
    w->error.type = "exceed_context_size_error";
    w->error.n_prompt_tokens = n;
    w->error.n_ctx = ctx;
    return false;
}

static bool read_inputs(embeddings *e) {
    ig_work *w = &e->work;
    const json_t *value = w->fields.at[IG_FIELD_INPUT];
    const size_t n = ig_inputs_count(value);
    if (n == 0 || n > MAX_INPUTS)
        return ig_refuse(&w->error, 400, "input", "input: %zu inputs, but must be 1 to %d", n,
                         MAX_INPUTS);
    if (!(e->inputs = ig_alloc(w->allocator, n, sizeof *e->inputs))) return no_memory(w);
    e->n_inputs = n;
    for (size_t i = 0; i < n; i++) {
        ig_tokens *tokens = &e->inputs[i].tokens;
        tokens->allocator = w->allocator;
        if (!ig_input_tokenize(w, "input", i, ig_inputs_at(value, i), IG_TOKENIZE_ADD_SPECIAL,
                               tokens) ||
            !fill_empty(w, tokens) || !check_length(w, i, tokens))
            return false;
        e->n_tokens += (int64_t)tokens->count;
    }
    return true;
}

/* ---- jobs ---- */

static void wake(void *user) { ig_exchange_wake(user); }

static bool submit(embeddings *e) {
    const ig_exchange_request *from = ig_exchange_get_request(e->work.x);
    while (e->n_submitted < e->n_inputs && e->n_submitted - e->n_done < IN_FLIGHT) {
        input *in = &e->inputs[e->n_submitted];
        const ig_request request = {.tokens = in->tokens.at,
                                    .n_tokens = in->tokens.count,
                                    .embed = true,
                                    .party = from->party,
                                    .notify = wake,
                                    .user = e->work.x};
        const ig_status status = ig_engine_submit(e->work.served->engine, &request, &in->job);
        if (status == IG_ERR_BUSY && e->n_submitted > e->n_done) return true; /* later */
        if (status != IG_OK) return ig_work_refuse_submit(&e->work, status);
        e->n_submitted++;
    }
    return true;
}

/* The first `dimensions`, as a unit vector again. */
static void shorten(float *vector, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)vector[i] * (double)vector[i];
    const double scale = sum > 0 ? 1 / sqrt(sum) : 0;
    for (int64_t i = 0; i < n; i++) vector[i] = (float)((double)vector[i] * scale);
}

static bool take_embedding(embeddings *e, input *in, const ig_job_event *event) {
    ig_work *w = &e->work;
    const int64_t wanted = ig_fields_int(&w->fields, IG_FIELD_DIMENSIONS);
    if (wanted > event->d_model)
        return ig_refuse(&w->error, 400, "dimensions", "dimensions is %lld, but the model has %lld",
                         (long long)wanted, (long long)event->d_model);
    e->d_model = wanted > 0 ? wanted : event->d_model;
    in->vector = ig_alloc(w->allocator, (size_t)e->d_model, sizeof *in->vector);
    if (!in->vector) return no_memory(w);
    memcpy(in->vector, event->embedding, (size_t)e->d_model * sizeof *in->vector);
    if (e->d_model < event->d_model) shorten(in->vector, e->d_model);
    return true;
}

static bool take(embeddings *e, input *in, const ig_job_event *event) {
    if (event->type == IG_JOB_EVENT_EMBEDDING) return take_embedding(e, in, event);
    if (event->type != IG_JOB_EVENT_DONE) return true;
    in->is_done = true;
    e->n_done++;
    if (event->status == IG_OK && in->vector) return true;
    if (event->status != IG_OK) return ig_work_refuse_job(&e->work, event);
    return ig_refuse(&e->work.error, 503, NULL, "the server is shutting down");
}

static bool poll(embeddings *e) {
    ig_job_event event;
    for (size_t i = 0; i < e->n_submitted; i++)
        while (!e->inputs[i].is_done && ig_job_poll(e->inputs[i].job, &event))
            if (!take(e, &e->inputs[i], &event)) return false;
    return true;
}

/* ---- the reply ---- */

/* Little-endian F32, as the host stores them. */
static void write_base64(const float *vector, int64_t n, ig_out *out) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *bytes = (const unsigned char *)vector;
    const size_t n_bytes = (size_t)n * sizeof *vector;
    ig_out_json(out, "embedding", "\"", 1);
    for (size_t i = 0; i < n_bytes; i += 3) {
        const size_t left = n_bytes - i;
        const unsigned three = (unsigned)bytes[i] << 16 |
                               (left > 1 ? (unsigned)bytes[i + 1] << 8 : 0) |
                               (left > 2 ? (unsigned)bytes[i + 2] : 0);
        char text[4] = {digits[three >> 18], digits[three >> 12 & 63], digits[three >> 6 & 63],
                        digits[three & 63]};
        if (left < 3) text[3] = '=';
        if (left < 2) text[2] = '=';
        ig_out_raw(out, text, 4);
    }
    ig_out_raw(out, "\"", 1);
}

static void write_vector(const embeddings *e, size_t i, ig_out *out) {
    ig_out_open(out, NULL, '{');
    ig_out_string(out, "object", "embedding");
    ig_out_int(out, "index", (int64_t)i);
    if (e->base64) {
        write_base64(e->inputs[i].vector, e->d_model, out);
    } else {
        ig_out_open(out, "embedding", '[');
        for (int64_t k = 0; k < e->d_model; k++) ig_out_float(out, NULL, e->inputs[i].vector[k]);
        ig_out_close(out, ']');
    }
    ig_out_close(out, '}');
}

static void reply(embeddings *e) {
    char text[24];
    ig_out out = {.allocator = e->work.allocator};
    ig_out_open(&out, NULL, '{');
    ig_out_string(&out, "object", "list");
    ig_out_open(&out, "data", '[');
    for (size_t i = 0; i < e->n_inputs; i++) write_vector(e, i, &out);
    ig_out_close(&out, ']');
    ig_out_string(&out, "model", e->work.served->id);
    ig_out_open(&out, "usage", '{');
    ig_out_int(&out, "prompt_tokens", e->n_tokens);
    ig_out_int(&out, "total_tokens", e->n_tokens);
    ig_out_close(&out, '}');
    ig_out_close(&out, '}');
    snprintf(text, sizeof text, "%lld", (long long)e->n_tokens);
    ig_exchange_note(e->work.x, "model", e->work.served->id);
    ig_exchange_note(e->work.x, "prompt_tokens", text);
    ig_work_reply(&e->work, &out);
}

static void advance(ig_work *w) {
    embeddings *e = (embeddings *)w;
    if ((!e->inputs && !read_inputs(e)) || !submit(e) || !poll(e) || !submit(e))
        ig_work_refuse(w);
    else if (e->n_done == e->n_inputs)
        reply(e);
}

static void close_embeddings(ig_work *w) {
    embeddings *e = (embeddings *)w;
    for (size_t i = 0; i < e->n_inputs; i++) {
        ig_job_release(e->inputs[i].job);
        ig_tokens_deinit(&e->inputs[i].tokens);
        ig_free(w->allocator, e->inputs[i].vector);
    }
    ig_free(w->allocator, e->inputs);
}

void ig_openai_embeddings(ig_server *server, ig_exchange *x) {
    static const ig_work_type type = {sizeof(embeddings), IG_BODY_EMBEDDING, check, advance, NULL,
                                      close_embeddings};
    ig_work_begin(server, x, &type);
}
