#include "model/chat.h"

#include <string.h>
#include <time.h>

#include "model/adapter.h"
#include "model/gguf/gguf_model.h"

bool ig_adapter_chat_template(const ig_adapter *a, ig_tokenizer_data *out) {
    ig_gguf_text text;
    if (!a->source || !ig_gguf_text_of(a->source->file, "tokenizer.chat_template", &text) ||
        text.n_bytes == 0)
        return false;
    *out = (ig_tokenizer_data){text.bytes, (size_t)text.n_bytes};
    return true;
}

/* How a special token is called; "" where there is none. */
static ig_tokenizer_data name_of(const ig_adapter *a, ig_special which) {
    const int32_t id = ig_tokenizer_special(a->tokenizer, which);
    return id >= 0 ? ig_tokenizer_piece(a->tokenizer, id) : (ig_tokenizer_data){"", 0};
}

/* ---- By a template ---- */

/* What Hugging Face's templates are given; NULL: no memory. */
static json_t *variables_of(const ig_chat_message *messages, size_t n_messages) {
    json_t *list = json_array();
    for (size_t i = 0; i < n_messages; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:o}", "role", messages[i].role, "content",
                            json_stringn_nocheck(messages[i].content ? messages[i].content : "",
                                                 messages[i].n_bytes)));
    json_t *all = json_pack("{s:o, s:b, s:n, s:n}", "messages", list, "add_generation_prompt", 1,
                            "tools", "documents");
    if (!all || json_array_size(list) == n_messages) return all;
    json_decref(all);
    return NULL;
}

static ig_status render(const ig_adapter *a, const ig_jinja *jinja, const ig_chat_message *messages,
                        size_t n_messages, ig_jinja_text *out) {
    json_t *given = variables_of(messages, n_messages);
    if (!given) return IG_FAIL(IG_ERR_MEMORY, "chat: no memory for %zu messages", n_messages);
    const ig_jinja_variables variables = {.given = given,
                                          .bos = name_of(a, IG_SPECIAL_BOS),
                                          .eos = name_of(a, IG_SPECIAL_EOS),
                                          .now = (int64_t)time(NULL)};
    const ig_status status = ig_jinja_render(jinja, &variables, out);
    json_decref(given);
    return status;
}

/* Whether the template has written BOS itself. */
static bool begins_with_bos(const ig_adapter *a, const ig_jinja_text *text) {
    const ig_tokenizer_data bos = name_of(a, IG_SPECIAL_BOS);
    return bos.n_bytes > 0 && text->n_spans > 0 && text->spans[0].special &&
           text->spans[0].n_bytes >= bos.n_bytes &&
           memcmp(text->bytes, bos.bytes, bos.n_bytes) == 0;
}

static ig_status encode_template(const ig_adapter *a, const ig_jinja *jinja,
                                 const ig_chat_message *messages, size_t n_messages, ig_ids *out) {
    ig_jinja_text text = {.allocator = ig_ctx_allocator(a->ctx)};
    IG_TRY(render(a, jinja, messages, n_messages, &text));
    const unsigned bos = begins_with_bos(a, &text) ? 0 : IG_ENCODE_ADD_SPECIAL;
    const ig_status status = ig_tokenizer_encode_spans(a->tokenizer, text.spans, text.n_spans,
                                                       bos | IG_ENCODE_GOES_ON, out);
    ig_jinja_text_deinit(&text);
    return status;
}

/* ---- Which one ---- */

void ig_chat_style_deinit(ig_chat_style *style) {
    ig_jinja_destroy(style->jinja);
    *style = (ig_chat_style){0};
}

/* Whether a conversation can be written with it, and is part of what is written. */
static ig_status try_out(const ig_adapter *a, const ig_jinja *jinja, const char *system) {
    static const char word[] = "Hello";
    const ig_chat_message messages[] = {
        {"system", system, system ? strlen(system) : 0},
        {"user", word, sizeof word - 1},
    };
    const size_t first = system ? 0 : 1;
    ig_jinja_text text = {.allocator = ig_ctx_allocator(a->ctx)};
    IG_TRY(render(a, jinja, messages + first, 2 - first, &text));
    const bool shows = memmem(text.bytes, text.n_bytes, word, sizeof word - 1);
    ig_jinja_text_deinit(&text);
    return shows ? IG_OK : IG_FAIL(IG_ERR_FORMAT, "chat template: leaves out what the user says");
}

ig_status ig_chat_style_parse(const ig_adapter *a, const char *text, size_t n_bytes,
                              const char *system, ig_chat_style *out) {
    ig_chat_style style = {.format = ig_chat_detect(text, n_bytes)};
    IG_TRY(ig_jinja_parse(ig_ctx_allocator(a->ctx), text, n_bytes, &style.jinja));
    const ig_status status = try_out(a, style.jinja, system);
    if (status == IG_OK)
        *out = style;
    else
        ig_chat_style_deinit(&style);
    return status;
}

/* ---- In a format of ours ---- */

static ig_status encode_format(const ig_adapter *a, const ig_chat_format *format,
                               const ig_chat_message *messages, size_t n_messages, ig_ids *out) {
    ig_chat_prompt prompt = {.allocator = ig_ctx_allocator(a->ctx),
                             .eos = name_of(a, IG_SPECIAL_EOS)};
    ig_status status = ig_chat_write(format, messages, n_messages, IG_CHAT_REPLY, &prompt);
    if (status == IG_OK)
        status = ig_tokenizer_encode_spans(a->tokenizer, prompt.spans, prompt.n_spans,
                                           IG_ENCODE_ADD_SPECIAL | IG_ENCODE_GOES_ON, out);
    ig_chat_prompt_deinit(&prompt);
    return status;
}

ig_status ig_adapter_encode_chat(const ig_adapter *a, const ig_chat_style *style,
                                 const ig_chat_message *messages, size_t n_messages, ig_ids *out) {
    return style->jinja ? encode_template(a, style->jinja, messages, n_messages, out)
                        : encode_format(a, style->format, messages, n_messages, out);
}
