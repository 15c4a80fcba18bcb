/*
 * Text and tokens without a forward pass: tokenize, detokenize, apply-template, render.
 */
#include <string.h>

#include "base/utf8.h"
#include "server/chat_prompt.h"
#include "server/inputs.h"
#include "server/openai.h"

static void write_ids(ig_out *out, const char *name, const ig_tokens *tokens) {
    ig_out_open(out, name, '[');
    for (size_t i = 0; i < tokens->count; i++) ig_out_int(out, NULL, tokens->at[i]);
    ig_out_close(out, ']');
}

/* ---- tokenize ---- */

static bool is_utf8(ig_string_view text) {
    for (size_t i = 0, bytes; i < text.n_bytes; i += bytes) {
        uint32_t point;
        if (ig_utf8_next(text.bytes + i, text.n_bytes - i, &point, &bytes) != IG_UTF8_WHOLE)
            return false;
    }
    return true;
}

static void write_piece(const ig_tokenizer *tokenizer, int32_t id, ig_out *out) {
    const ig_string_view piece = ig_tokenizer_piece(tokenizer, id);
    ig_out_open(out, NULL, '{');
    ig_out_int(out, "id", id);
    if (is_utf8(piece)) {
        ig_out_bytes(out, "piece", piece.bytes, piece.n_bytes);
    } else {
        ig_out_open(out, "piece", '[');
        for (size_t i = 0; i < piece.n_bytes; i++)
            ig_out_int(out, NULL, (unsigned char)piece.bytes[i]);
        ig_out_close(out, ']');
    }
    ig_out_close(out, '}');
}

/* vLLM's array of texts. */
static void write_texts(const ig_tokenizer *tokenizer, const ig_tokens *tokens, ig_out *out) {
    ig_out_open(out, "token_strs", '[');
    for (size_t i = 0; i < tokens->count; i++) {
        const ig_string_view piece = ig_tokenizer_piece(tokenizer, tokens->at[i]);
        ig_out_bytes(out, NULL, piece.bytes, piece.n_bytes);
    }
    ig_out_close(out, ']');
}

static bool check_tokenize(ig_work *w) {
    const ig_fields *f = &w->fields;
    const json_t *prompt = f->at[IG_FIELD_PROMPT];
    const int given =
        (f->at[IG_FIELD_CONTENT] != NULL) + (prompt != NULL) + (f->at[IG_FIELD_MESSAGES] != NULL);
    if (given != 1)
        return ig_refuse(&w->error, 400, "content",
                         "one of content, prompt and messages must be given, not %d", given);
    if (prompt && !json_is_string(prompt))
        return ig_refuse(&w->error, 400, "prompt", "prompt is an array, but must be a string");
    return true;
}

/* `prompt` is vLLM's name, whose default adds special tokens. */
static bool tokenize(ig_work *w, ig_tokens *out) {
    const ig_fields *f = &w->fields;
    const bool is_prompt = ig_fields_given(f, IG_FIELD_PROMPT);
    const json_t *text = f->at[is_prompt ? IG_FIELD_PROMPT : IG_FIELD_CONTENT];
    unsigned flags = 0;
    if (ig_fields_given(f, IG_FIELD_MESSAGES))
        return ig_chat_prompt(w->served, f, out, NULL, &w->error);
    const ig_field_id special = ig_fields_given(f, IG_FIELD_ADD_SPECIAL)
                                    ? IG_FIELD_ADD_SPECIAL
                                    : IG_FIELD_ADD_SPECIAL_TOKENS;
    if (ig_fields_given(f, special) ? ig_fields_bool(f, special) : is_prompt)
        flags |= IG_TOKENIZE_ADD_SPECIAL | IG_TOKENIZE_NO_EOS;
    if (ig_fields_bool(f, IG_FIELD_PARSE_SPECIAL)) flags |= IG_TOKENIZE_PARSE_SPECIAL;
    return ig_tokenize(w->served->tokenizer, json_string_value(text), json_string_length(text),
                       flags, out) == IG_OK ||
           ig_refuse(&w->error, 503, NULL, "out of memory");
}

static void advance_tokenize(ig_work *w) {
    ig_tokens tokens = {.allocator = w->allocator};
    ig_out out = {.allocator = w->allocator};
    if (!tokenize(w, &tokens)) {
        ig_tokens_deinit(&tokens);
        ig_work_refuse(w);
        return;
    }
    ig_out_open(&out, NULL, '{');
    if (ig_fields_bool(&w->fields, IG_FIELD_WITH_PIECES)) {
        ig_out_open(&out, "tokens", '[');
        for (size_t i = 0; i < tokens.count; i++)
            write_piece(w->served->tokenizer, tokens.at[i], &out);
        ig_out_close(&out, ']');
    } else {
        write_ids(&out, "tokens", &tokens);
    }
    if (ig_fields_bool(&w->fields, IG_FIELD_RETURN_TOKEN_STRS))
        write_texts(w->served->tokenizer, &tokens, &out);
    ig_out_int(&out, "count", (int64_t)tokens.count);
    ig_out_int(&out, "max_model_len", w->served->ctx_len);
    ig_out_close(&out, '}');
    ig_tokens_deinit(&tokens);
    ig_work_reply(w, &out);
}

void ig_serve_tokenize(ig_server *server, ig_exchange *x) {
    static const ig_work_type type = {
        sizeof(ig_work), IG_BODY_TOKENIZE, check_tokenize, advance_tokenize, NULL, NULL};
    ig_work_begin(server, x, &type);
}

/* ---- detokenize ---- */

static bool check_detokenize(ig_work *w) {
    return ig_fields_given(&w->fields, IG_FIELD_TOKENS) ||
           ig_refuse(&w->error, 400, "tokens", "tokens is missing");
}

static bool only_ids(const json_t *list) {
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_is_integer(json_array_get(list, i))) return false;
    return true;
}

/* Both names of the text, for llama-server's clients and vLLM's. */
static void advance_detokenize(ig_work *w) {
    const json_t *list = w->fields.at[IG_FIELD_TOKENS];
    ig_tokens ids = {.allocator = w->allocator};
    ig_out out = {.allocator = w->allocator};
    char *text = NULL;
    bool good = only_ids(list) || ig_refuse(&w->error, 400, "tokens", "tokens: must be token ids");
    good = good && ig_input_tokenize(w, "tokens", 0, list, 0, &ids);
    if (good) {
        const unsigned flags = IG_DETOKENIZE_SPECIAL | IG_DETOKENIZE_START;
        const size_t n = ig_detokenize(w->served->tokenizer, ids.at, ids.count, flags, NULL, 0);
        text = ig_alloc(w->allocator, n + 1, 1);
        good = text || ig_refuse(&w->error, 503, NULL, "out of memory");
        if (good) {
            ig_detokenize(w->served->tokenizer, ids.at, ids.count, flags, text, n);
            ig_out_open(&out, NULL, '{');
            ig_out_bytes(&out, "content", text, n);
            ig_out_bytes(&out, "prompt", text, n);
            ig_out_close(&out, '}');
        }
    }
    ig_tokens_deinit(&ids);
    ig_free(w->allocator, text);
    if (good)
        ig_work_reply(w, &out);
    else
        ig_work_refuse(w);
}

void ig_serve_detokenize(ig_server *server, ig_exchange *x) {
    static const ig_work_type type = {
        sizeof(ig_work), IG_BODY_DETOKENIZE, check_detokenize, advance_detokenize, NULL, NULL};
    ig_work_begin(server, x, &type);
}

/* ---- templates ---- */

static bool check_messages(ig_work *w) {
    return ig_fields_given(&w->fields, IG_FIELD_MESSAGES) ||
           ig_refuse(&w->error, 400, "messages", "messages is missing");
}

static void advance_template(ig_work *w) {
    ig_out text = {.allocator = w->allocator}, out = {.allocator = w->allocator};
    if (!ig_chat_prompt(w->served, &w->fields, NULL, &text, &w->error)) {
        ig_out_deinit(&text);
        ig_work_refuse(w);
        return;
    }
    ig_out_open(&out, NULL, '{');
    ig_out_bytes(&out, "prompt", text.bytes, text.n_bytes);
    ig_out_close(&out, '}');
    if (text.failed) out.failed = true;
    ig_out_deinit(&text);
    ig_work_reply(w, &out);
}

void ig_serve_apply_template(ig_server *server, ig_exchange *x) {
    static const ig_work_type type = {
        sizeof(ig_work), IG_BODY_TEMPLATE, check_messages, advance_template, NULL, NULL};
    ig_work_begin(server, x, &type);
}

/* ---- render: the token ids that a request would have ---- */

static void reply_ids(ig_work *w, ig_tokens *tokens) {
    ig_out out = {.allocator = w->allocator};
    ig_out_open(&out, NULL, '{');
    ig_out_string(&out, "model", w->served->id);
    write_ids(&out, "token_ids", tokens);
    ig_out_close(&out, '}');
    ig_tokens_deinit(tokens);
    ig_work_reply(w, &out);
}

static void advance_render_chat(ig_work *w) {
    ig_tokens tokens = {.allocator = w->allocator};
    if (ig_chat_prompt(w->served, &w->fields, &tokens, NULL, &w->error)) {
        reply_ids(w, &tokens);
    } else {
        ig_tokens_deinit(&tokens);
        ig_work_refuse(w);
    }
}

void ig_openai_render_chat(ig_server *server, ig_exchange *x) {
    static const ig_work_type type = {sizeof(ig_work),     IG_BODY_CHAT, check_messages,
                                      advance_render_chat, NULL,         NULL};
    ig_work_begin(server, x, &type);
}

static bool check_prompt(ig_work *w) {
    const json_t *prompt = w->fields.at[IG_FIELD_PROMPT];
    if (!prompt) return ig_refuse(&w->error, 400, "prompt", "prompt is missing");
    return ig_inputs_count(prompt) == 1 ||
           ig_refuse(&w->error, 400, "prompt", "prompt: one prompt is rendered at a time");
}

static void advance_render_completion(ig_work *w) {
    ig_tokens tokens = {.allocator = w->allocator};
    const json_t *prompt = ig_inputs_at(w->fields.at[IG_FIELD_PROMPT], 0);
    if (ig_input_tokenize(w, "prompt", 0, prompt, IG_TOKENIZE_PROMPT, &tokens)) {
        reply_ids(w, &tokens);
    } else {
        ig_tokens_deinit(&tokens);
        ig_work_refuse(w);
    }
}

void ig_openai_render_completion(ig_server *server, ig_exchange *x) {
    static const ig_work_type type = {
        sizeof(ig_work), IG_BODY_COMPLETION, check_prompt, advance_render_completion, NULL, NULL};
    ig_work_begin(server, x, &type);
}
